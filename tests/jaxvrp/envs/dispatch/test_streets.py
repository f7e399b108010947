"""Vehicles along streets: asymmetric matrices, against straight lines, the check and brute force."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import driven_stops, leg_factors, make_instance, pad, save, solution_report, stack
from jaxvrp.envs.dispatch.baselines.hindsight import TRAVEL_PRICE
from jaxvrp.envs.dispatch.baselines.known_day import search_day
from jaxvrp.envs.dispatch.baselines.search import begin, replanned
from jaxvrp.envs.dispatch.driven_day import driven_day
from jaxvrp.envs.dispatch.moment.file import FORMAT as MOMENT
from jaxvrp.envs.dispatch.moment.file import parse_moment
from jaxvrp.envs.dispatch.problem.day_file import FORMAT, parse_day, read_days, unservable
from jaxvrp.envs.dispatch.problem.instance import as_float32, with_streets
from jaxvrp.episodes import follow
from jaxvrp.geography.earth import Earth
from jaxvrp.geography.streets import TRAVEL, closed
from tests.jaxvrp.envs.dispatch.small_days import (
    COUNT,
    DAYS,
    ENVS,
    NOISY,
    PLAYED,
    each,
    padded,
    parcel_day,
    play,
    replay,
    ride_along_streets,
    street_day,
)

ALONG = PLAYED["streets"][0]
WAYS = [[0.0, 2.0, 5.0], [3.0, 0.0, 4.0], [4.0, 1.0, 0.0]]
SMALL = {
    "arrival": [0, 0],
    "dropoff": [[1, 0], [2, 0]],
    "dropoff_deadline": [50, 50],
    "capacity": [9],
    "speed": 30,
    "horizon": 100,
    "depot": [0, 0],
}
SIZES = {"scenario": "same_day", "num_vehicles": 1, "num_drones": 0, "max_stops": 6}


def days(day_of=street_day):
    rng = np.random.default_rng(3)
    return [day_of(rng) for _ in range(COUNT)]


def test_the_matrix_is_driven_in_its_direction():
    env = jaxvrp.make("dispatch", **SIZES, max_requests=2, travel="matrix")
    state, _ = jax.jit(env.reset_to)(make_instance(**SMALL, travel_time=WAYS))
    np.testing.assert_allclose(state.offers.added, [2 + 3])
    step = jax.jit(env.step)
    for _ in range(2):
        state, timestep = step(state, {"dispatcher": jnp.array([1], jnp.int32)})
    # The first parcel has been loaded, so the second is another trip: 0 -> 2 -> 0 is 5 + 4.
    assert timestep.done and float(timestep.metrics["travel"]) == pytest.approx(2 + 3 + 5 + 4)


def test_who_is_sent_to_a_zone_turns_at_places_only():
    """Two requests at 0 and 4; the vehicle goes to the first pickup, 10 minutes away, and turns there."""
    pickup, dropoff = [[4, 4], [0, 4]], [[9, 0], [0, 0]]
    ways = np.full((5, 5), 10.0) - 10 * np.eye(5)
    ways[1, 2] = 6.0  # from the pickup of the first request to that of the second
    day = make_instance(
        [0, 4],
        dropoff,
        [90, 90],
        pickup=pickup,
        start=[[1, 1]],
        capacity=[2],
        speed=30,
        horizon=90,
        area=[[0, 0], [5, 5]],
        travel_time=ways,
    )
    sizes = {"num_vehicles": 1, "max_requests": 2, "zones": 1, "max_stops": 4}
    env = jaxvrp.make("dispatch", **sizes, travel="matrix")
    reset_to, step = jax.jit(env.reset_to), jax.jit(env.step)
    state, _ = reset_to(day)
    sent = {"dispatcher": jnp.zeros(1, jnp.int32), "vehicle": jnp.ones(1, jnp.int32)}
    state, timestep = step(state, sent)
    # Of the known places (1, 1), (4, 4) and (9, 0), the middle (2.5, 2.5) is as near to the first two: the first stays.
    assert not timestep.metrics["travel"]
    day = day.replace(start=np.zeros((1, 2)))
    state, _ = reset_to(day)
    state, timestep = step(state, sent)
    assert timestep.metrics["travel"] == 10 and not timestep.action_mask["vehicle"][0, 1]
    np.testing.assert_allclose(state.plans.place[:, 0], [4, 4, 1])
    np.testing.assert_allclose(state.offers.pickup_start, [10 + 6])
    taken = {"dispatcher": jnp.ones(1, jnp.int32), "vehicle": jnp.zeros(1, jnp.int32)}
    state, timestep = step(state, taken)
    assert timestep.done and timestep.metrics["travel"] == 10 + 6 + 10


def test_who_is_sent_to_a_zone_drives_at_once_and_waits_there():
    """The only vehicle is sent at 0, is there at 10, and is given the request of 30."""
    places = {"pickup": [[4, 4], [0, 4]], "dropoff": [[9, 0], [0, 0]], "start": [[0, 0]]}
    ways = np.full((5, 5), 10.0) - 10 * np.eye(5)
    vehicle = {"capacity": [2], "speed": 30, "horizon": 90, "area": [[0, 0], [5, 5]], "travel_time": ways}
    day = make_instance([0, 30], dropoff_deadline=[90, 90], **places, **vehicle)
    env = jaxvrp.make("dispatch", num_vehicles=1, max_requests=2, zones=1, max_stops=4, travel="matrix")
    actions = {"dispatcher": np.int32([[0], [1]]), "vehicle": np.int32([[1], [0]])}
    track = driven_day(env, follow(env, day, actions).states).tracks[0]
    assert track.rows[0] == 0 and track.points[0][0] == 0
    there = [time for (time, _), row in zip(track.points, track.rows, strict=True) if row == 1]
    np.testing.assert_allclose(there, [10, 30, 30])


@pytest.mark.parametrize("name", ENVS)
def test_straight_ways_as_a_matrix_give_the_same_days(name):
    """Where drivers stay."""
    rng = np.random.default_rng(3)
    drawn = [DAYS[name](rng) for _ in range(COUNT)]
    batch = padded([day.replace(speed=0 * day.speed + 30, detour=0 * day.detour + 1) for day in drawn])
    actions = play(ENVS[name], batch, jax.random.key(1), 0.1)[1]
    actions = {role: numbers * (role == "dispatcher") for role, numbers in actions.items()}
    env = PLAYED["streets" if name == "same_day" else "rides along streets"][0]
    as_streets = padded([with_streets(day) for day in each(batch)])
    straight, along = (jax.device_get(replay(*days, actions)) for days in ((ENVS[name], batch), (env, as_streets)))
    for part in ("reward", "action_mask", "observation", "entities", "metrics"):
        both = (jax.tree.leaves(getattr(played[1], part)) for played in (straight, along))
        for line, street in zip(*both, strict=True):
            np.testing.assert_allclose(line, street, rtol=1e-4, atol=2e-4, err_msg=part)


@pytest.mark.parametrize("noise", [{}, NOISY], ids=["exact", "noise"])
@pytest.mark.parametrize("name", ["streets", "rides along streets"])
@pytest.mark.slow("streets-exact", "rides along streets-exact")
def test_the_check_agrees_with_what_was_driven(name, noise):
    env, day_of = PLAYED[name]
    env, drawn = env.replace(**noise), days(day_of)
    batch = padded([day.replace(travel_seed=np.int32(i)) for i, day in enumerate(drawn)] if noise else drawn)
    (states, timesteps), actions = jax.device_get(play(env, batch, jax.random.key(1), 0.0))
    wrong = 0
    for i, day in enumerate(each(batch)[:12]):
        stops = driven_stops(env, day, {role: numbers[:, i] for role, numbers in actions.items()})
        report = solution_report(day, stops, factors=leg_factors(env, day))
        assert report.feasible, report.summary()
        driven = driven_day(env, jax.tree.map(lambda leaf, i=i: leaf[:, i], states))
        np.testing.assert_allclose(driven.travel, timesteps.metrics["travel"][-1, i], rtol=1e-4)
        back = solution_report(day.replace(travel_time=day.travel_time.T), stops, factors=leg_factors(env, day))
        wrong += not back.feasible
    assert wrong > 6


@pytest.mark.parametrize("windows", [False, True])
def test_the_search_finds_the_best_of_all_orders(windows):
    env = jaxvrp.make("dispatch", **SIZES, max_requests=6, travel="matrix")
    for number in range(3):
        rng = np.random.default_rng(number)
        day = make_instance(
            np.zeros(6),
            rng.normal(0, 3, (6, 2)),
            np.full(6, 300.0),
            dropoff_earliest=rng.uniform(0, 100, 6) * windows,  # no order comes too late for these
            depot=[0, 0],
            capacity=[9],
            speed=30,
            horizon=400,
            travel_time=closed(rng.uniform(2, 20, (7, 7)) * (1 - np.eye(7)))[0],
        )
        *_, found = search_day(env, day, jax.random.key(0), 0.5)
        report = solution_report(day, list(found.episode().states.stops))
        tours = ((0, *order, 0) for order in itertools.permutations(range(1, 7)))
        best = min(sum(day.travel_time[way] for way in itertools.pairwise(tour)) for tour in tours)
        travel = report.travel.sum()
        assert report.feasible and report.served.all() and travel == pytest.approx(best, rel=1e-4)
        assert found.cost == pytest.approx(TRAVEL_PRICE * travel - 6.0, abs=1e-4)


def test_what_has_not_begun_is_planned_again_along_streets():
    batch = padded(days())
    states, _ = jax.tree.map(lambda leaf: leaf[5], play(ALONG, batch, jax.random.key(3), 0.0)[0])
    before = begin(states.prepared, states.plans).best.travel
    after = replanned(states.prepared, states.plans, jax.random.key(0), rounds=60).travel
    assert (after.sum(axis=-1) <= before.sum(axis=-1) + 1e-3).all() and after.sum() < 0.99 * before.sum()


def test_padding_lies_at_the_first_place():
    day = street_day(np.random.default_rng(0))
    larger = pad(day, day.max_requests + 2, 5)
    np.testing.assert_array_equal(larger.travel_time[-2:, :3], np.tile(day.travel_time[0, :3], (2, 1)))
    mixed = stack([day, parcel_day(np.random.default_rng(1))])
    assert mixed.travel_time.shape == (2, day.max_requests + 1, day.max_requests + 1)


def test_padding_moves_the_rows_of_rides_with_their_places(tmp_path):
    day = ride_along_streets(np.random.default_rng(0))
    larger = pad(day, day.max_requests + 2, day.num_vehicles + 1)
    assert len(larger.travel_time) == larger.num_places
    spots = [(day.start_of(1), larger.start_of(1))]
    spots += [(day.spot_of(3, end), larger.spot_of(3, end)) for end in (True, False)]
    for (before, after), (other, later) in itertools.product(spots, spots):
        assert day.travel_time[before.row, other.row] == larger.travel_time[after.row, later.row]
    batch = stack([day, pad(ride_along_streets(np.random.default_rng(1), requests=4), 7, 5)])
    np.testing.assert_array_equal(batch.travel_time[0], pad(day, 10, 5).travel_time)
    save(tmp_path / "day.npz", larger)
    (read,) = read_days(tmp_path / "day.npz")
    np.testing.assert_array_equal(read.instance.travel_time, day.travel_time)


def test_matrices_in_a_day_file_are_in_its_units():
    requests = [{"arrival": 0, "dropoff": [1000, 0], "dropoff_deadline": 900}, {"arrival": 0, "dropoff": [2000, 0]}]
    content = {
        "format": FORMAT,
        "units": {"length": "m", "time": "s"},
        "horizon": 6000,
        "depot": [0, 0],
        "vehicles": [{"speed": 30, "capacity": 5}],
        "requests": requests,
        "travel_time": [[0, 120, 300], [180, 0, 240], [240, 60, 0]],
        "travel_distance": [[0, 1500, 2500], [1500, 0, 1200], [2500, 1200, 0]],
    }
    day = parse_day(content)
    np.testing.assert_allclose(day.instance.travel_time[0], [0, 2, 5])
    np.testing.assert_allclose(day.instance.travel_distance[1], [1.5, 0, 1.2])
    assert unservable(day) == {}
    late = parse_day({**content, "travel_time": [[0, 960, 999], [180, 0, 240], [240, 60, 0]]})
    assert "dropped off before 960" in unservable(late)["request_0"]
    with pytest.raises(ValueError, match=r"travel_time has 2 rows; it needs 3, the depot, then each drop-off"):
        parse_day({**content, "travel_time": [[0, 1], [1, 0]]})


def test_rides_of_a_file_are_driven_along_its_streets():
    content = {
        "format": FORMAT,
        "horizon": 60,
        "vehicles": [{"speed": 30, "capacity": 5, "start": [0, 0]}],
        "requests": [{"arrival": 0, "pickup": [1, 0], "dropoff": [2, 0], "dropoff_deadline": 20}],
        "travel_time": [[0, 3, 9], [8, 0, 7], [9, 9, 0]],
    }
    day = parse_day(content)
    assert unservable(day) == {}
    env = jaxvrp.make("dispatch", num_vehicles=1, max_requests=1, max_stops=2, travel="matrix")
    state, _ = jax.jit(env.reset_to)(day.instance)
    np.testing.assert_allclose([state.offers.pickup_start[0], state.offers.dropoff_start[0]], [3, 3 + 7])
    late = parse_day({**content, "travel_time": [[0, 3, 30], [8, 0, 27], [9, 9, 0]]})
    assert "dropped off before 27" in unservable(late)["request_0"]
    with pytest.raises(ValueError, match=r"has 2 rows; it needs 3, each vehicle's start, then each pickup, then each"):
        parse_day({**content, "travel_time": [[0, 1], [1, 0]]})
    there = {"format": MOMENT, "now": 1, "day": content, "vehicles": [{"id": "vehicle_0", "free": 1, "stops": []}]}
    there["vehicles"][0]["place"] = [1.0, 0.001]
    np.testing.assert_allclose(parse_moment(there).plans.place[:, 0], [1, 0, 1])
    there["vehicles"][0]["place"] = [1.5, 0]
    with pytest.raises(ValueError, match=r"place is 0.5 km from any place of the day; along streets, give that of a"):
        parse_moment(there)


def test_a_day_names_a_file_of_streets_beside_it(tmp_path):
    requests = [{"arrival": 0, "dropoff": [1, 0], "dropoff_deadline": 900}]
    vehicles = [{"speed": 30, "capacity": 5}]
    content = {"format": FORMAT, "units": {"time": "s"}, "horizon": 6000, "depot": [0, 0], "vehicles": vehicles}
    content |= {"requests": requests, "streets": "table.json"}
    path, table = tmp_path / "day.json", {"durations": [[0, 120], [180, 0]], "distances": [[0, 1500], [1600, 0]]}
    path.write_text(json.dumps(content))
    (tmp_path / "table.json").write_text(json.dumps(table))
    (day,) = read_days(path)
    assert day.instance.travel_time.tolist() == [[0, 2], [3, 0]]
    assert day.instance.travel_distance.tolist() == [[0, 1.5], [1.6, 0]]
    (tmp_path / "table.json").write_text(json.dumps({"durations": [[0, None], [180, 0]]}))
    with pytest.raises(ValueError, match=r"day.json.*table.json: durations\[0\]\[1\] is empty"):
        read_days(path)
    (tmp_path / "table.json").unlink()
    with pytest.raises(ValueError, match=r"day.json: streets: cannot read table.json: No such file"):
        read_days(path)
    with pytest.raises(ValueError, match="streets names a file"):
        parse_day(content)
    requests.append({**requests[0], "id": "Bo"})
    requests[0]["id"] = "Ada"
    (tmp_path / "table.csv").write_text("Bo,Ada,home\n0,60,120\n60,0,180\n240,300,0\n")
    path.write_text(json.dumps({**content, "streets": "table.csv"}))
    (day,) = read_days(path)
    assert day.instance.travel_time.tolist() == [[0, 5, 4], [3, 0, 1], [2, 1, 0]]
    (tmp_path / "table.csv").write_text("Eve,Ada,home\n0,60,120\n60,0,180\n240,300,0\n")
    with pytest.raises(ValueError, match=r"streets: table\.csv has a row of Ada, and none of Bo"):
        read_days(path)
    path.write_text(json.dumps({**content, "travel_time": [[0, 1], [1, 0]]}))
    with pytest.raises(ValueError, match="streets: travel_time says how long ways are, too"):
        read_days(path)


def test_a_published_city_is_planned_along_its_streets(published_city):
    degrees, seconds, metres = published_city
    count = len(degrees)
    places = Earth.around(degrees).flat(degrees)
    minutes, kilometres, _ = closed(seconds / 60, metres / 1000)
    day = make_instance(
        np.zeros(count - 1),
        places[1:],
        np.full(count - 1, 480.0),
        depot=places[0],
        capacity=[40, 40],
        speed=40,
        stop_time=2,
        horizon=480,
        travel_time=minutes,
        travel_distance=kilometres,
    )
    env = jaxvrp.make("dispatch", **{**SIZES, "num_vehicles": 2}, max_requests=count - 1, travel="matrix")
    *_, found = search_day(env, day, jax.random.key(0), 0.5)
    report = solution_report(day, list(found.episode().states.stops))
    assert report.feasible and report.served.all()
    nearest = minutes + np.where(np.eye(count, dtype=bool), np.inf, 0)
    assert nearest.min(axis=1).sum() <= report.travel.sum() < 2 * minutes[0].sum()


def test_streets_where_vehicles_drive_straight_and_drones_without_a_depot_are_refused():
    rides = {name: value for name, value in SMALL.items() if name != "depot"} | {"pickup": [[0, 0], [0, 1]]}
    with pytest.raises(ValueError, match="travel_time has 3 rows; it needs 5"):
        make_instance(**rides, travel_time=WAYS)
    with pytest.raises(ValueError, match="vehicle 0 is a drone, and without a depot"):
        make_instance(**rides, is_drone=[True], travel_time=np.ones((5, 5)) - np.eye(5))
    with pytest.raises(ValueError, match="make it with travel='matrix'"):
        jaxvrp.make("dispatch", **SIZES, max_requests=2).reset_to(make_instance(**SMALL, travel_time=WAYS))


def test_generated_streets_are_those_of_the_straight_day_and_a_detour():
    envs = [jaxvrp.make("dispatch", scenario="same_day", max_requests=20, travel=way) for way in ("straight", "matrix")]
    straight, along = (env.generate(jax.random.key(3)) for env in envs)
    np.testing.assert_array_equal(straight.dropoff, along.dropoff)
    line = np.asarray(with_streets(straight.replace(detour=jnp.ones_like(straight.detour))).travel_time)
    time = np.asarray(along.travel_time)
    assert (time >= line - 1e-4).all() and (time <= 2.0 * line + 1e-4).all()
    assert np.abs(time - time.T).max() > 0.05 * time.max() and closed(time)[2] == 0
    assert as_float32(jax.device_get(along)).travel_time.dtype == jnp.float32


def test_generated_rides_are_due_by_their_streets():
    sizes = {"num_vehicles": 3, "max_requests": 20, "expected_requests": 15.0, "vehicle_detour": 1.3}
    straight, along = (jaxvrp.make("dispatch", **sizes, travel=way).generate(jax.random.key(3)) for way in TRAVEL)
    np.testing.assert_array_equal(straight.pickup, along.pickup)
    assert closed(np.asarray(along.travel_time))[2] == 0
    asked = np.flatnonzero(np.asarray(along.load))
    direct = np.asarray(along.travel_time)[along.row_of(asked, True), along.row_of(asked)]
    np.testing.assert_allclose(along.dropoff_deadline[asked] - along.arrival[asked], direct + 12, rtol=1e-5)
    line = 2 * np.linalg.norm(np.asarray(along.pickup - along.dropoff), axis=1)[asked]
    assert (direct >= line - 1e-4).all() and (direct <= 1.6 * line + 1e-4).all() and (direct > 1.05 * line).any()

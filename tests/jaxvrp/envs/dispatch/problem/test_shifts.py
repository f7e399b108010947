"""Vehicles that load longer than they drop off, and are home by hours of their own; the published parameter set."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import driven_stops, solution_report
from jaxvrp.envs.dispatch.baselines.hindsight import with_hindsight
from jaxvrp.envs.dispatch.baselines.search import begin, replanned
from jaxvrp.envs.dispatch.problem.day_file import parse_day
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.envs.dispatch.problem.orders import visits_of
from jaxvrp.envs.dispatch.problem.solution import Stop
from tests.jaxvrp.envs.dispatch.small_days import COUNT, ENVS, FLEET, NOISY, each, padded, parcel_day, play
from tests.jaxvrp.envs.dispatch.test_parity import made, observed, shown


def day_with_shifts(rng):
    """A day of `parcel_day` with loading times, and shifts that end up to half an hour from its horizon."""
    ends = rng.uniform(-30, 30, FLEET)
    day = parcel_day(rng)
    return day.replace(loading_time=rng.uniform(0, 9, FLEET), home_by=float(day.horizon) + ends)


@pytest.mark.parametrize("noise", [{}, NOISY], ids=["exact", "noise"])
def test_every_step_agrees_with_the_reference(noise):
    env, rng = ENVS["same_day"].replace(**noise), np.random.default_rng(5)
    days = [day_with_shifts(rng) for _ in range(COUNT)]
    batch = padded([day.replace(travel_seed=np.int32(i)) for i, day in enumerate(days)] if noise else days)
    (states, timesteps), actions = jax.device_get(play(env, batch, jax.random.key(1), 0.1))
    seen = observed(states, timesteps)
    for i, day in enumerate(each(batch)[:16]):
        reference, reward = made(env, day, states, i), 0.0
        for step in range(len(actions["dispatcher"]) + 1):
            for name, wanted in shown(reference, reward).items():
                if not reference.done or not name.startswith(("entities", "observation")):
                    np.testing.assert_allclose(seen[name][step, i], wanted, 1e-5, 1e-3, err_msg=f"{name}, {i}, {step}")
            if reference.done:
                break
            reward = reference.step(int(actions["dispatcher"][step, i, 0]))
        assert reference.done
    assert (timesteps.metrics["broken_promises"] == 0).all()


def test_driven_days_are_checked_with_them():
    rng, env = np.random.default_rng(7), ENVS["same_day"]
    days = padded([day_with_shifts(rng) for _ in range(COUNT)])
    _, actions = jax.device_get(play(env, days, jax.random.key(2), 0.0))
    worse = {"loading_time": 1.0, "home_by": -40.0}
    found = dict.fromkeys(worse, 0)
    for i, day in enumerate(each(days)[:8]):
        stops = driven_stops(env, day, {"dispatcher": actions["dispatcher"][:, i]})
        assert solution_report(day, stops).feasible
        for name, change in worse.items():
            report = solution_report(day.replace(**{name: getattr(day, name) + change}), stops)
            found[name] += report.violations["time" if name == "loading_time" else "horizon"].count
    assert min(found.values()) > 0


def test_search_and_hindsight_keep_to_them():
    rng, env = np.random.default_rng(9), ENVS["same_day"]
    days = padded([day_with_shifts(rng) for _ in range(COUNT)])
    states = jax.tree.map(lambda leaf: leaf[5], play(env, days, jax.random.key(3), 0.0)[0][0])
    found = replanned(states.prepared, states.plans, jax.random.key(0), rounds=60)
    before = begin(states.prepared, states.plans).best
    assert (np.asarray(found.travel.sum(axis=-1)) <= np.asarray(before.travel.sum(axis=-1)) + 1e-3).all()
    for state, plans in zip(rows_of(jax.device_get(states)), rows_of(jax.device_get(found.plans)), strict=True):
        check_plans(state, plans)
    small = jax.tree.map(lambda leaf: leaf[:4], days)
    best = with_hindsight(as_float32(small), jax.random.key(0), rounds=30, max_stops=12)
    for day, start, number, first in zip(
        each(small),
        *(np.asarray(a) for a in (best.routes.planes["start"], best.routes.row.number, best.routes.row.mark)),
        strict=True,
    ):
        for v in range(FLEET):
            check_trips(day, v, start[v], number[v], first[v])


def rows_of(batch):
    """The rows of a batch of states or plans."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(COUNT)]


def check_plans(state, plans):
    """Each trip's stops begin as early as loading and ways allow, and no vehicle is home after its shift."""
    day = jax.tree.map(np.asarray, state.prepared.instance)
    for v in range(FLEET):
        number = np.where(plans.present[v], plans.stops[5, v], -1).astype(int)
        first = plans.present[v] & (day.is_drone[v] | (np.arange(len(number)) == 0))
        check_trips(day, v, plans.start[v], number, first, free=plans.free[v])


def check_trips(day, v, start, number, first, free=0.0):
    """The times of a vehicle's stops `[S]`, recomputed; `first` marks those that begin a trip."""
    pace, time = 60.0 * day.detour[v] / day.speed[v], free
    for k in np.flatnonzero(number >= 0):
        end = next((j for j in range(k + 1, len(number)) if first[j] or number[j] < 0), len(number))
        place = day.dropoff[number[k]]
        if first[k]:
            parcels = number[k:end]
            loads = max(time, *np.maximum(day.arrival[parcels], day.pickup_earliest[parcels]))
            time, here = loads + day.loading_time[v], day.depot
        earliest = max(time + pace * np.hypot(*(place - here)), day.dropoff_earliest[number[k]])
        assert start[k] >= earliest - 0.01 and start[k] <= day.dropoff_deadline[number[k]] + 0.01
        time, here = start[k] + day.stop_time[v], place
        if end == k + 1:
            home = time + pace * np.hypot(*(place - day.depot))
            assert home <= day.home_by[v] + 0.01
            time = home + day.turnaround[v]


def test_vehicles_of_a_file_have_them_if_some_do():
    van, drone = ({"id": name, "speed": 30, "capacity": 1, "stop_time": 2} for name in ("van", "drone"))
    content = {
        "format": "jaxvrp-dispatch-day-1",
        "depot": [0, 0],
        "horizon": 60,
        "vehicles": [{**van, "loading_time": 5}, {**drone, "home_by": 90}],
        "requests": [{"id": "Ada", "arrival": 0, "dropoff": [3, 0], "dropoff_deadline": 60}],
    }
    instance = parse_day(content).instance
    assert instance.loading_time.tolist() == [5, 2] and instance.home_by.tolist() == [60, 90]
    content["vehicles"] = [van, drone]
    assert parse_day(content).instance.loading_time is parse_day(content).instance.home_by is None


@pytest.mark.parametrize(("home_by", "window"), [(None, "08:10 to 10:00"), (300, "08:10 to 11:00")])
def test_windows_of_sheets_reach_to_the_last_shift(home_by, window):
    """The day is over at 10:00, but for a van that is home by 13:00."""
    day = parse_day(
        {
            "format": "jaxvrp-dispatch-day-1",
            "start": "08:00",
            "depot": [0, 0],
            "horizon": "10:00",
            "vehicles": [{"speed": 30, "capacity": 1, "home_by": home_by}],
            "requests": [
                {"arrival": 0, "dropoff": [3, 0], "dropoff_earliest": "08:10", "dropoff_deadline": "11:00"},
            ],
        }
    )
    legs = solution_report(day.instance, [Stop(0, 0, False, 10.0, trip=1)]).legs
    assert [visit.window for visit in visits_of(day, legs)] == ["", window, ""]


def test_the_published_set():
    """Numbers of section 5.1 of Chen, Ulmer and Thomas (2022)."""
    env = jaxvrp.make("dispatch", scenario="chen_ulmer_thomas", num_vehicles=2, num_drones=5)
    days = jax.device_get(jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 64)))
    exists = days.load > 0
    assert abs(exists.sum(axis=1).mean() - 500) < 12 and exists.sum(axis=1).max() < env.max_requests
    assert days.arrival[exists].max() < 420 and (days.value[exists] == 1).all()
    np.testing.assert_allclose((days.dropoff_deadline - days.arrival)[exists], 240, rtol=1e-5)
    distance = np.hypot(*days.dropoff[exists].T)
    assert abs((distance < 10 / 3).mean() - 0.46) < 0.02 and (distance < 10).mean() > 0.99
    assert days.home_by[0].tolist() == [480] * 2 + [720] * 5 and days.turnaround[0].tolist() == [0] * 2 + [20] * 5
    assert (days.stop_time == 3).all() and days.loading_time is None


def test_trips_wait_for_parcels_that_are_prepared():
    env = jaxvrp.make("dispatch", scenario="same_day", max_requests=20, expected_requests=15, preparation_time=12.0)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    stepped, _ = jax.jit(env.step)(state, {"dispatcher": np.int32([1])})
    assert float(state.offers.pickup_start[0]) == pytest.approx(float(state.now) + 12.0, abs=1e-3)
    assert float(stepped.plans.released[0]) == pytest.approx(float(state.now) + 12.0, abs=1e-3)

"""Moments of a day as files: from a state and back, planned again by a search, and mistakes in them."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import moment as by_hand
from jaxvrp.envs.dispatch.baselines import search
from jaxvrp.envs.dispatch.moment import file as moments
from jaxvrp.envs.dispatch.moment.file import FORMAT, parse_moment
from jaxvrp.envs.dispatch.problem.day_file import parse_day
from jaxvrp.envs.dispatch.routes.insertion import offers
from jaxvrp.envs.dispatch.routes.schedule import planned_travel
from jaxvrp.io.command_line import UserError
from train import plan, solve


def day_of(*, depot=False, hours=False):
    """Ten requests for two vehicles, or a vehicle and a drone; in hours and metres, if so said."""
    rng, unit, metre = np.random.default_rng(4), 60.0 if hours else 1.0, 1000.0 if hours else 1.0
    pickup, dropoff = (rng.uniform(-3, 3, (10, 2)) * metre).tolist(), (rng.uniform(-3, 3, (10, 2)) * metre).tolist()
    requests = [
        {
            "id": f"r{i}",
            "arrival": i / 4 / unit,
            "pickup": pickup[i],
            "dropoff": dropoff[i],
            "dropoff_deadline": 170 / unit,
        }
        for i in range(10)
    ]
    vehicles = [{"id": name, "start": [0, 0], "speed": 30, "capacity": 4} for name in ("north", "south")]
    day = {"format": "jaxvrp-dispatch-day-1", "horizon": 200 / unit, "vehicles": vehicles, "requests": requests}
    if hours:
        day["units"] = {"time": "h", "length": "m"}
    if depot:
        for entry in (*requests, *vehicles):
            entry.pop("pickup", None), entry.pop("start", None)
        vehicles[0]["capacity"] = 9
        vehicles[1].update(capacity=1, is_drone=True, turnaround=3 / unit)
        day["depot"] = [0, 0]
    return day


@functools.cache
def after_eight(depot=False, hours=False):
    """The day, and the state after eight requests were given to who adds least."""
    day = parse_day(day_of(depot=depot, hours=hours))
    sizes = {"num_vehicles": 1, "num_drones": 1} if depot else {"num_vehicles": 2}
    scenario = "same_day" if depot else "ride_pooling"
    env = jaxvrp.make("dispatch", scenario=scenario, max_requests=10, max_stops=12, **sizes)
    state, timestep = jax.jit(env.reset_to)(day.instance)
    step = jax.jit(env.step)
    for _ in range(8):
        mask = np.asarray(timestep.action_mask["dispatcher"][0, 1:])
        added = np.where(mask, np.asarray(state.offers.added), np.inf)
        action = {"dispatcher": np.int32([1 + added.argmin() if mask.any() else 0])}
        if not depot:
            action["vehicle"] = np.zeros(2, np.int32)
        state, timestep = step(state, action)
    return day, state


@pytest.fixture(scope="module", params=[(False, False), (False, True), (True, False)], ids=str)
def driven(request):
    """The content of a day, the day, and a state."""
    depot, hours = request.param
    return day_of(depot=depot, hours=hours), *after_eight(depot, hours)


@pytest.fixture
def sized(monkeypatch):
    """`sized(stops)`: plans of moments that are read have room for so many, so that moments share programs.

    A call of the search has a quarter of its rounds.
    """
    begin = moments.begin
    monkeypatch.setattr(search, "ROUNDS", 32)
    return lambda stops: monkeypatch.setattr(moments, "begin", lambda prepared, _: begin(prepared, stops))


def test_a_moment_is_the_state_that_it_was_written_from(driven, sized):
    content, day, state = driven
    sized(12)
    written = json.loads(json.dumps(by_hand.moment_of(content, state)))
    moment = parse_moment(written)
    found, wanted = by_hand.pending(day, moment), by_hand.pending(day, state)
    assert found.keys() == wanted.keys() and any(wanted.values())
    for name, stops in wanted.items():
        for stop, other in zip(stops, found[name], strict=True):
            assert other == {**stop, "begin": pytest.approx(stop["begin"], abs=2e-3)}
    for name in ("place", "free", "aboard"):
        np.testing.assert_allclose(getattr(moment.plans, name), getattr(state.plans, name), 1e-4, 1e-3)
    kept = np.isfinite(np.asarray(state.plans.start))
    width = kept.sum(axis=1).max()
    np.testing.assert_allclose(
        moment.plans.start[:, :width][kept[:, :width]], np.asarray(state.plans.start)[kept], 1e-4, 2e-3
    )
    assert moment.now == pytest.approx(float(state.now), abs=1e-3)


def test_the_command_plans_a_moment_again(driven, sized, write, tmp_path, capsys):
    content, day, state = driven
    sized(12)
    path = write(json.dumps(by_hand.moment_of(content, state)), "moment.json")
    out = tmp_path / "plan.json"
    solve.main([str(path), "--seconds", "0.2", "--out", str(out), str(tmp_path / "stops.csv")])
    found = json.loads(out.read_text())
    before = day.clock_time(float(planned_travel(state.prepared, state.plans).sum()))
    assert found["method"] == "search" and found["feasible"] and found["travel"] <= before + 1e-3
    planned = sorted((stop["what"], stop["request"]) for stop in found["stops"])
    assert planned == sorted(
        (stop["what"], stop["request"]) for stops in by_hand.pending(day, state).values() for stop in stops
    ), "nobody is dropped"
    assert all(stop["departs"] <= stop["begin"] and 0 <= stop["load"] <= 9 for stop in found["stops"])
    assert (tmp_path / "stops.csv").read_text().count("\n") == 1 + len(planned)
    assert "feasible" in capsys.readouterr().out


def test_planning_a_state_again_asks_all_vehicles_again(driven):
    _, _, state = driven
    found = jax.device_get(by_hand.replanned(state, jax.random.key(0), rounds=60))
    change = sum(
        sign * float(planned_travel(each.prepared, each.plans).sum()) for sign, each in ((1, found), (-1, state))
    )
    assert change <= 1e-3
    assert float(found.totals.travel - state.totals.travel) == pytest.approx(change, abs=1e-2)
    jax.tree.map(
        lambda new, old: np.testing.assert_allclose(new, old, 1e-5, 1e-3),
        found.offers,
        offers(found.prepared, jax.tree.map(jnp.asarray, found.plans), found.request),
    )


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda m: m["vehicles"][0].update(id="nort"),
            r"vehicles\[0\].id: the day has no vehicle 'nort'; did you mean",
        ),
        (lambda m: m["vehicles"].append(m["vehicles"][0]), r"vehicles\[2\].id: 'north' is listed twice"),
        (lambda m: m["vehicles"][0].pop("place"), r"vehicles\[0\] has no place; give place"),
        (
            lambda m: m["vehicles"][0]["stops"].append({"what": "pickup", "request": "r8"}),
            r"vehicles\[0\]: 'r8' is picked up and never dropped off",
        ),
        (
            lambda m: m["vehicles"][0]["stops"].append({"what": "drop-off", "request": "r99"}),
            "the day has no request 'r99'; did you mean",
        ),
        (
            lambda m: m["vehicles"][1]["stops"].extend(m["vehicles"][0]["stops"][-1:]),
            r"vehicles\[1\].stops\[.*\]: 'r\d' stands at vehicles\[0\].stops\[.*\], too",
        ),
        (lambda m: m.update(now=1.7), r"vehicles\[\d\].stops\[\d+\]: 'r7' arrives at 1.75, after now, 1.7; leave"),
        (lambda m: m.update(cancelled=["r12"]), r"cancelled\[0\]: the day has no request 'r12'; did you mean"),
        (
            lambda m: [each.update(gone=True) for each in m["vehicles"]],
            "vehicles: all are gone; there is nothing to plan",
        ),
        (lambda m: m["day"]["vehicles"][0].update(capacity=1), "more on board than the capacity, 1"),
        (lambda m: m["day"]["requests"].reverse(), r"day: requests\[1\].arrival is 2, before"),
        (lambda m: m.update(now=-1), "now is -1"),
    ],
)
def test_a_mistake_in_a_moment_is_one_line(damage, says, write):
    content = day_of()
    written = json.loads(json.dumps(by_hand.moment_of(content, after_eight()[1])))
    assert len(written["vehicles"][0]["stops"]) > 3
    damage(written)
    with pytest.raises(UserError, match=says) as error:
        solve.open_problem(write(json.dumps(written), "moment.json"))
    assert "\n" not in str(error.value)


def test_what_a_moment_is_not_for_is_one_line(sized, write, tmp_path):
    content = day_of()
    sized(12)
    path = write(json.dumps(by_hand.moment_of(content, after_eight()[1])), "moment.json")
    with pytest.raises(UserError, match="no policy can play it"):
        solve.open_problem(path, run="dispatch_same_day")
    with pytest.raises(UserError, match="--method accept: there is none of that name"):
        solve.solve(path, method="accept")
    outputs = [str(tmp_path / "plan.csv"), str(tmp_path / "plan.html")]
    with pytest.raises(UserError, match=r"plan.html: the name must end in one of: .json, .csv$"):
        plan.main([str(path), "--seconds", "0.1", "--out", *outputs])
    with pytest.raises(UserError, match=r"--picture: a plan for .* is not played, so it has no picture; leave it out"):
        solve.main([str(path), "--out", outputs[0], "--picture", str(tmp_path / "plan.png")])
    assert not list(tmp_path.glob("plan.*"))


def test_an_idle_fleet_is_a_moment(write):
    content = {"format": FORMAT, "now": 3, "day": day_of(), "vehicles": []}
    with pytest.raises(UserError, match=r"vehicles: north is not listed"):
        solve.open_problem(write(json.dumps(content), "moment.json"))


# --- what has gone wrong already ----------------------------------------------------------------------------------


def moment(now, requests, north, south=(), *, depot=None, **more):
    """Two vehicles of 30 km/h, at (0, 0) and (0, 5), or at a depot: 2 minutes for each kilometre."""
    place = {} if depot else {"start": [0, 0]}
    vehicles = [{"id": name, "speed": 30, "capacity": 4, **place} for name in ("north", "south")]
    day = {"format": "jaxvrp-dispatch-day-1", "horizon": 120, "vehicles": vehicles, "requests": requests}
    fleet = [
        {"id": name, "free": 0, "stops": [{"what": kind, "request": request} for kind, request in stops]}
        for name, stops in (("north", north), ("south", south))
    ]
    if depot:
        day["depot"] = depot
    else:
        fleet[0]["place"], fleet[1]["place"] = [0, 0], [0, 5]
    return {"format": FORMAT, "now": now, "day": day, "vehicles": fleet, **more}


def ride(name, pickup, dropoff, deadline, arrival=5):
    return {"id": name, "arrival": arrival, "pickup": pickup, "dropoff": dropoff, "dropoff_deadline": deadline}


def both(name):
    return [("pickup", name), ("drop-off", name)]


@pytest.fixture
def searched(write, sized):
    """The plan of a moment, and when its stops begin."""
    sized(12)

    def planned(content):
        plan = solve.solve(write(json.dumps(content), "moment.json"), seconds=0.05).plan
        return plan, {(stop["vehicle"], stop["what"], stop["request"]): stop["begin"] for stop in plan["stops"]}

    return planned


ADA = ride("Ada", [1, 0], [3, 0], 100)
LATER = ride("Liv", [1, 0], [3, 0], 110, arrival=90)
"""Not known yet; days of two requests share a program."""


def test_nothing_begins_before_now(searched):
    plan, begin = searched(moment(60, [ADA, LATER], both("Ada")))
    assert plan["feasible"] and plan["travel"] == 6
    assert begin == {("north", "pickup", "Ada"): 62, ("north", "drop-off", "Ada"): 66}
    assert plan["stops"][0]["departs"] == 60


def test_what_is_late_already_is_said_and_planned(searched):
    """A rider aboard whose deadline is over, and a pickup and its drop-off that cannot be reached in time."""
    requests = [{**ADA, "pickup_deadline": 61}, ride("Bea", [0, 0], [1, 0], 50)]
    plan, begin = searched(moment(60, requests, [("drop-off", "Bea"), *both("Ada")]))
    assert begin["north", "drop-off", "Bea"] == begin["north", "pickup", "Ada"] == 62
    assert not plan["feasible"] and plan["late"] == ["Bea", "Ada"]
    assert plan["reasons"] == [
        "drop-off of Bea begins at 62, after its deadline, 50",
        "pickup of Ada begins at 62, after its deadline, 61",
    ]


def test_the_order_of_the_file_is_left_where_another_is_less_late(searched):
    """Bea stays aboard for Ada's ride in the file: she is in time if she is dropped off first, and Ada with south."""
    requests = [ride("Ada", [0, 5], [0, 7], 66), ride("Bea", [0, 0], [1, 0], 62)]
    plan, begin = searched(moment(60, requests, [*both("Ada"), ("drop-off", "Bea")]))
    assert plan["feasible"] and plan["late"] == []
    assert begin == {
        ("north", "drop-off", "Bea"): 62,
        ("south", "pickup", "Ada"): 60,
        ("south", "drop-off", "Ada"): 64,
    }


def test_requests_of_a_vehicle_that_is_gone_go_to_others(searched):
    content = moment(60, [ADA, LATER], both("Ada"))
    content["vehicles"][0]["gone"] = True
    del content["vehicles"][0]["place"]
    plan, begin = searched(content)
    assert plan["feasible"] and {vehicle for vehicle, *_ in begin} == {"south"}
    assert begin["south", "drop-off", "Ada"] == pytest.approx(60 + 2 * (26**0.5 + 2), abs=1e-3)


@pytest.mark.parametrize(
    ("stops", "change", "says"),
    [
        ([("drop-off", "Ada")], {"gone": True}, r"vehicles\[0\] is gone with 'Ada' on board; leave the stop out"),
        ([("drop-off", "Ada")], {"cancelled": ["Ada"]}, "'Ada' is cancelled, but on board; take it out of cancelled"),
        (both("Ada"), {"gone": True, "load": 5}, "more on board than the capacity, 4; correct the stops"),
    ],
)
def test_what_cannot_be_planned_is_one_line(stops, change, says):
    content = moment(60, [{**ADA, "load": change.get("load", 1)}], stops, cancelled=change.get("cancelled", []))
    content["vehicles"][0]["gone"] = change.get("gone", False)
    with pytest.raises(ValueError, match=says):
        parse_moment(content)


def test_cancelled_requests_leave_the_plans(searched):
    requests = [ADA, ride("Bea", [2, 0], [4, 0], 100)]
    plan, begin = searched(moment(60, requests, [*both("Ada"), *both("Bea")], cancelled=["Ada"]))
    assert plan["feasible"] and begin == {("north", "pickup", "Bea"): 64, ("north", "drop-off", "Bea"): 68}


def test_parcels_that_are_late_are_said_and_planned(searched):
    """The trip waits until 118 for bread: milk is late, and so is the vehicle home at 134; south takes one of them."""
    milk = {"id": "milk", "arrival": 0, "dropoff": [4, 0], "dropoff_deadline": 90}
    bread = {"id": "bread", "arrival": 0, "dropoff": [3, 0], "pickup_earliest": 116, "dropoff_deadline": 125}
    stops = [("drop-off", "bread"), ("drop-off", "milk")]
    plan, begin = searched(moment(60, [milk, bread], stops, depot=[0, 0]))
    late = next(vehicle for vehicle, _, request in begin if request == "bread")
    assert plan["reasons"] == [f"{late} is home at 128, after the horizon"] and not plan["feasible"]
    assert sorted(begin.values()) == [68, 122]
    assert sorted(stop["departs"] for stop in plan["stops"]) == [60, 116]


@pytest.mark.parametrize("depot", [False, True], ids=["rides", "parcels"])
def test_noise_makes_nothing_late_that_a_moment_cannot_say(depot, sized):
    """Some stops of noisy days are late: their moments are written, read and planned again."""
    sized(12)
    content = day_of(depot=depot)
    for request in content["requests"]:
        request["dropoff_deadline"] = request["arrival"] + 20
    day = parse_day({**content, "travel_seed": 3})
    fleet = {"scenario": "same_day", "num_vehicles": 1, "num_drones": 1} if depot else {"num_vehicles": 2}
    env = jaxvrp.make("dispatch", max_requests=10, max_stops=12, travel_noise=0.8, **fleet)
    state, timestep = jax.jit(env.reset_to)(day.instance)
    step, late = jax.jit(env.step), 0
    for _ in range(9):
        choice = int(np.asarray(timestep.action_mask["dispatcher"][0]).nonzero()[0][-1])
        drivers = {} if depot else {"vehicle": np.zeros(2, np.int32)}
        state, timestep = step(state, {"dispatcher": np.int32([choice]), **drivers})
        written = json.loads(json.dumps(by_hand.moment_of(content, state)))
        read = parse_moment(written)
        late += bool(moments.late(read))
        rows = moments.planned_rows(read)
        assert all(row["departs"] >= read.now - 1e-3 for row in rows)
    assert late, "nothing was late, so nothing was tried"

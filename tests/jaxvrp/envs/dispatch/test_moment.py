"""Moments of a day as files: from a state and back, planned again by a search, and mistakes in them."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import live
from jaxvrp.envs.dispatch.insertion import offers
from jaxvrp.envs.dispatch.moment import FORMAT, parse_moment
from jaxvrp.envs.dispatch.problem.day_file import parse_day
from jaxvrp.envs.dispatch.schedule import planned_travel
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
    env = jaxvrp.make("dispatch", scenario=scenario, max_requests=10, max_stops=20, **sizes)
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


def test_a_moment_is_the_state_that_it_was_written_from(driven):
    content, day, state = driven
    written = json.loads(json.dumps(live.moment_of(content, state)))
    moment = parse_moment(written)
    found, wanted = live.pending(day, moment), live.pending(day, state)
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


def test_the_command_plans_a_moment_again(driven, write, tmp_path, capsys):
    content, day, state = driven
    path = write(json.dumps(live.moment_of(content, state)), "moment.json")
    out = tmp_path / "plan.json"
    solve.main([str(path), "--seconds", "0.2", "--out", str(out), str(tmp_path / "stops.csv")])
    found = json.loads(out.read_text())
    before = day.moment(float(planned_travel(state.prepared, state.plans).sum()))
    assert found["method"] == "search" and found["feasible"] and found["travel"] <= before + 1e-3
    planned = sorted((stop["what"], stop["request"]) for stop in found["stops"])
    assert planned == sorted(
        (stop["what"], stop["request"]) for stops in live.pending(day, state).values() for stop in stops
    ), "nobody is dropped"
    assert all(stop["departs"] <= stop["begin"] and 0 <= stop["load"] <= 9 for stop in found["stops"])
    assert (tmp_path / "stops.csv").read_text().count("\n") == 1 + len(planned)
    assert "feasible" in capsys.readouterr().out


def test_planning_a_state_again_asks_all_vehicles_again(driven):
    _, _, state = driven
    found = jax.device_get(live.replanned(state, jax.random.key(0), rounds=60))
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
            lambda m: m["vehicles"][0]["stops"].append({"what": "pickup", "request": "r9"}),
            r"vehicles\[0\]: 'r9' is picked up and never dropped off",
        ),
        (
            lambda m: m["vehicles"][0]["stops"].append({"what": "drop-off", "request": "r99"}),
            "the day has no request 'r99'; did you mean",
        ),
        (
            lambda m: m["vehicles"][1]["stops"].extend(m["vehicles"][0]["stops"][-1:]),
            r"vehicles\[1\].stops\[.*\]: 'r\d' stands at vehicles\[0\].stops\[.*\], too",
        ),
        (
            lambda m: m["vehicles"][0].update(free=160),
            "begins at .* after its deadline, 170; give a plan that keeps it",
        ),
        (lambda m: m["day"]["vehicles"][0].update(capacity=1), "more on board than the capacity, 1"),
        (lambda m: m["day"]["requests"].reverse(), r"day: requests\[1\].arrival is 2, before"),
        (lambda m: m.update(now=-1), "now is -1"),
    ],
)
def test_a_mistake_in_a_moment_is_one_line(damage, says, write):
    content = day_of()
    written = json.loads(json.dumps(live.moment_of(content, after_eight()[1])))
    assert len(written["vehicles"][0]["stops"]) > 3
    damage(written)
    with pytest.raises(UserError, match=says) as error:
        solve.open_problem(write(json.dumps(written), "moment.json"))
    assert "\n" not in str(error.value)


def test_what_a_moment_is_not_for_is_one_line(write, tmp_path):
    content = day_of()
    path = write(json.dumps(live.moment_of(content, after_eight()[1])), "moment.json")
    with pytest.raises(UserError, match="no policy can play it"):
        solve.open_problem(path, run="dispatch_same_day")
    with pytest.raises(UserError, match="--method accept: there is none of that name"):
        solve.solve(path, method="accept")
    with pytest.raises(UserError, match=r"plan.html: a moment is no whole day"):
        plan.main([str(path), "--seconds", "0.1", "--out", str(tmp_path / "plan.html")])


def test_an_idle_fleet_is_a_moment(write):
    content = {"format": FORMAT, "now": 3, "day": day_of(), "vehicles": []}
    with pytest.raises(UserError, match=r"vehicles: north is not listed"):
        solve.open_problem(write(json.dumps(content), "moment.json"))

"""What must hold of a day, whatever is decided."""

import itertools
import math
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks import fast_compilation
from jaxvrp.envs.dispatch.problem.instance import make_instance, pad
from tests.jaxvrp.envs.dispatch.brute_force import drive, holds
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, FLEET, REQUESTS, each, padded, play, replay


@pytest.fixture(scope="module", params=ENVS)
def played(request):
    """The scenario, its environment, days `[E]`, states and timesteps `[T + 1, E]`, actions `[T, E]`."""
    rng = np.random.default_rng(7)
    batch = padded([DAYS[request.param](rng) for _ in range(COUNT)])
    env = ENVS[request.param]
    (states, timesteps), actions = jax.device_get(play(env, batch, jax.random.key(4), 0.0))
    return request.param, env, batch, states, timesteps, actions


# --- brute force --------------------------------------------------------------------------------------------------


def cheapest(day, v, place, free, aboard, planned, new):
    """Added travel of the best order that keeps that of the planned stops; inf if no order is feasible."""
    least, before = math.inf, drive(day, v, place, free, planned)[0]
    stops = [*planned, *new]
    for order in itertools.permutations(range(len(stops))):
        kept = [k for k in order if k < len(planned)]
        added = [k for k in order if k >= len(planned)]
        if kept != sorted(kept) or added != sorted(added):
            continue
        if day.depot is not None and day.is_drone[v] and order[-1] != len(planned):
            continue
        sequence = [stops[k] for k in order]
        if not holds(day, v, aboard, sequence):
            continue
        travel, slack = drive(day, v, place, free, sequence)
        # Near the limit either answer is right: the environment grants 1e-3.
        if slack >= -1e-3:
            least = min(least, travel - before)
    return least


def test_brute_force_over_all_plans_gives_the_mask_and_the_cheapest_insertion(played):
    scenario, env, batch, states, timesteps, _ = played
    compared, feasible = 0, 0
    for i, day in enumerate(each(batch)):
        for step in range(REQUESTS):
            plans = jax.tree.map(lambda leaf, s=step, i=i: np.asarray(leaf[s, i], np.float64), states.plans)
            released = max(day.arrival[step], day.pickup_earliest[step])
            drop = (
                day.dropoff[step],
                day.dropoff_earliest[step],
                day.dropoff_deadline[step],
                -day.load[step],
                released,
            )
            pick = (day.pickup[step], day.pickup_earliest[step], day.pickup_deadline[step], day.load[step], released)
            new = [drop] if scenario == "same_day" else [pick, drop]
            for v in range(FLEET):
                count = int(np.isfinite(plans.start[v]).sum())
                if count + len(new) > min(6, env.max_stops):
                    continue
                planned = [(*plans.stops[0:2, v, k],) for k in range(count)]
                planned = [(place, *plans.stops[[2, 3, 4, 6], v, k]) for k, place in enumerate(planned)]
                best = cheapest(day, v, plans.place[:, v], plans.free[v], plans.aboard[v], planned, new)
                assert math.isfinite(best) == timesteps.action_mask["dispatcher"][step, i, 0, 1 + v], (i, step, v)
                if math.isfinite(best):
                    assert states.offers.added[step, i, v] == pytest.approx(best, abs=2e-3)
                    feasible += 1
                compared += 1
    assert compared > 1000 and 0.1 < feasible / compared < 0.95


# --- symmetries and what may not be known -------------------------------------------------------------------------


def test_relabelling_vehicles_permutes_actions(played):
    _, env, batch, _, timesteps, actions = played
    order = np.array([2, 0, 1])
    fleet = ("start", "speed", "detour", "capacity", "stop_time", "turnaround", "max_trip", "is_drone")
    relabelled = batch.replace(**{name: np.asarray(getattr(batch, name))[:, order] for name in fleet})
    new_name = np.argsort(order)
    choice = actions["dispatcher"]
    swapped = {"dispatcher": np.where(choice > 0, 1 + new_name[choice - 1], 0).astype(np.int32)}
    if "vehicle" in actions:
        swapped["vehicle"] = actions["vehicle"][:, :, order]
    _, other = jax.device_get(replay(env, relabelled, swapped))
    mask, permuted = timesteps.action_mask["dispatcher"], other.action_mask["dispatcher"]
    np.testing.assert_array_equal(permuted[..., 1:], mask[..., 1:][..., order])
    np.testing.assert_allclose(other.reward["dispatcher"], timesteps.reward["dispatcher"], 1e-5, 1e-5)
    for name, values in timesteps.metrics.items():
        np.testing.assert_allclose(other.metrics[name], values, 1e-5, 1e-4, err_msg=name)


@pytest.mark.parametrize("known", [1, 4, 7])
def test_a_later_future_changes_nothing_before(played, known):
    """Requests from number `known` on are others, or none: until they arrive all is the same, bit for bit."""
    scenario, env, batch, states, timesteps, actions = played
    rng = np.random.default_rng(known)
    others = each(padded([DAYS[scenario](rng, requests=known + int(rng.integers(1, 4))) for _ in range(COUNT)]))
    changed = []
    for day, other in zip(each(batch), others, strict=True):
        fields = {}
        for name in ("pickup", "dropoff", "load", "value", *(f"{a}_{b}" for a in ("pickup", "dropoff") for b in ENDS)):
            fields[name] = np.concatenate([getattr(day, name)[:known], getattr(other, name)[known:]])
        later = np.sort(day.arrival[known - 1] + rng.uniform(0, 9, REQUESTS - known))
        fields["arrival"] = np.concatenate([day.arrival[:known], np.where(other.load[known:] > 0, later, np.inf)])
        changed.append(day.replace(**fields))
    other_states, other_timesteps = jax.device_get(replay(env, padded(changed), actions))

    # The state at request `known - 1` is the last that may not know of the others.
    def until(tree):
        return jax.tree.map(lambda leaf: leaf[:known], tree)

    same = (states.replace(prepared=()), timesteps), (other_states.replace(prepared=()), other_timesteps)
    jax.tree.map(np.testing.assert_array_equal, *map(until, same))
    assert not np.array_equal(states.now[known], other_states.now[known])


ENDS = ("earliest", "deadline")


def test_one_more_vehicle_never_makes_a_legal_action_illegal(played):
    scenario, env, *_ = played
    rng = np.random.default_rng(11)
    few = padded([pad(DAYS[scenario](rng, vehicles=2), REQUESTS, FLEET) for _ in range(COUNT)])
    (_, before), chosen = jax.device_get(play(env, few, jax.random.key(5), 0.0))
    speed, capacity = np.array(few.speed), np.array(few.capacity)
    speed[:, 2], capacity[:, 2] = 50.0, 4
    _, after = jax.device_get(replay(env, few.replace(speed=speed, capacity=capacity), chosen))
    mask, wider = before.action_mask["dispatcher"], after.action_mask["dispatcher"]
    assert (wider | ~mask).all() and wider[..., 3].any() and not mask[..., 3].any()
    np.testing.assert_array_equal(before.reward["dispatcher"], after.reward["dispatcher"])


# --- sums, ends, promises -----------------------------------------------------------------------------------------


def test_rewards_sum_to_value_less_the_price_of_travel(played):
    _, env, _, states, timesteps, _ = played
    last = {name: values[-1] for name, values in timesteps.metrics.items()}
    total = timesteps.reward["dispatcher"][..., 0].sum(axis=0)
    np.testing.assert_allclose(total, last["value_served"] - env.travel_price * last["travel"], 1e-4, 1e-4)
    assert (last["broken_promises"] == 0).all() and (last["requests"] == REQUESTS).all()
    np.testing.assert_array_equal(last["served"] + last["rejected"], last["requests"])
    assert np.isinf(states.plans.start[-1]).all()


def test_days_with_few_requests_end_early_and_an_empty_one_at_once():
    for scenario, env in ENVS.items():
        rng = np.random.default_rng(2)
        days = [DAYS[scenario](rng, requests=count, vehicles=1) for count in (0, 1, 3, REQUESTS)]
        batch = padded(days * (COUNT // 4))
        (_, timesteps), _ = jax.device_get(play(env, batch, jax.random.key(0), 0.0))
        timesteps = jax.tree.map(lambda leaf: leaf[:, :4], timesteps)
        assert timesteps.done.sum(axis=0).tolist() == [12, 11, 9, 2]
        assert timesteps.metrics["requests"][-1].tolist() == [0, 1, 3, REQUESTS]
        assert (timesteps.metrics["served"][-1] > 0).tolist()[0] is False
        assert not timesteps.action_mask["dispatcher"][:, 0, :, 1:].any()


def test_a_day_of_the_other_scenario_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="scenario 'same_day' needs a day with a depot; choose the other scenario"):
        ENVS["same_day"].reset_to(DAYS["ride_pooling"](rng))
    with pytest.raises(ValueError, match="scenario 'ride_pooling' needs a day without a depot"):
        ENVS["ride_pooling"].reset_to(DAYS["same_day"](rng))
    with pytest.raises(ValueError, match="a day of 12 requests and 3 vehicles does not fit into max_requests 10"):
        ENVS["same_day"].reset_to(DAYS["same_day"](rng, requests=12))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"scenario": "same_dya"}, "scenario is 'same_dya'; did you mean 'same_day'"),
        ({"scenario": "same_day", "zones": 4}, "unknown parameter of scenario 'same_day': 'zones'"),
        ({"num_vehicles": 0}, "num_vehicles is 0; it must be >= 1"),
        ({"max_stops": 1}, "max_stops is 1; it must be >= 2"),
        ({"max_wait": -1.0}, "max_wait is -1.0; it must be >= 0"),
    ],
)
def test_a_bad_parameter_is_one_line(given, says):
    with pytest.raises(ValueError) as error:
        jaxvrp.make("dispatch", **given)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_without_a_dropoff_deadline_the_pickup_is_still_in_time():
    """A plan with a stop ahead, and a request whose pickup is out of reach: no later drop-off makes up for that."""
    env = ENVS["ride_pooling"]
    day = make_instance(
        [0.0, 0.0],
        [[4.0, 0.0], [5.0, 0.0]],
        [np.inf, np.inf],
        pickup=[[1.0, 0.0], [6.0, 0.0]],
        pickup_deadline=[30.0, 1.0],
        start=[[0.0, 0.0]],
        capacity=[4],
        speed=30.0,
        horizon=60.0,
    )
    state, timestep = jax.jit(env.reset_to)(day)
    assert timestep.action_mask["dispatcher"][0].tolist() == [True, True, False, False]
    _, timestep = jax.jit(env.step)(state, {"dispatcher": np.int32([1]), "vehicle": np.zeros(FLEET, np.int32)})
    assert not timestep.action_mask["dispatcher"][0, 1:].any()


def test_an_offer_right_at_its_deadline_is_feasible_with_finite_figures_or_not_at_all():
    """XLA repeats a comparison in each fusion, with other roundings; with the tests' fast compilation it does not."""
    plain = {name: value for name, value in os.environ.items() if name not in fast_compilation.variables()}
    command = [sys.executable, "-m", "tests.jaxvrp.envs.dispatch.edge_of_deadlines"]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr

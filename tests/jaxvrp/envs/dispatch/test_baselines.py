"""Rules that decide: what each chooses, and that looking into the future pays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.dispatch import Stop, solution_report
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, RelocateActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.hindsight import decide_with_hindsight, serve_rides
from jaxvrp.envs.dispatch.baselines.rollout import RolloutActor
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.episodes import play_episodes
from tests.jaxvrp.envs.dispatch.small_days import DAYS, ENVS, FLEET, REQUESTS, each, padded, play, replay


def days_of(scenario, seed, count=16):
    rng = np.random.default_rng(seed)
    return padded([DAYS[scenario](rng) for _ in range(count)])


@pytest.fixture(scope="module")
def states():
    """By scenario, states and timesteps `[T * E]` of days that were driven at random."""
    found = {}
    for scenario, env in ENVS.items():
        played = play(env, days_of(scenario, 1), jax.random.key(0), 0.0)[0]
        found[scenario] = jax.tree.map(lambda leaf: leaf[:REQUESTS].reshape(-1, *leaf.shape[2:]), played)
    return found


def chosen(actor, playing):
    action, _ = jax.jit(actor.act)(jax.random.key(3), actor.init(1), *playing)
    return jax.device_get(action)


def test_accept_takes_the_least_added_travel(states):
    state, timestep = jax.device_get(states["same_day"])
    choice = chosen(AcceptActor(), states["same_day"])["dispatcher"][:, 0]
    added = np.where(timestep.action_mask["dispatcher"][:, 0, 1:], state.offers.added, np.inf)
    np.testing.assert_array_equal(choice, np.where(np.isinf(added).all(axis=1), 0, 1 + added.argmin(axis=1)))


def test_threshold_sends_drones_far_away(states):
    state, _ = jax.device_get(states["same_day"])
    choice = chosen(ThresholdActor(ENVS["same_day"], 8.0, 0.0, 0.0), states["same_day"])["dispatcher"][:, 0]
    numbers = np.arange(len(choice))
    place = state.prepared.instance.dropoff[numbers, np.minimum(state.step, REQUESTS - 1)]
    far = np.hypot(*place.T) * state.prepared.pace[:, 0] > 8.0
    is_drone = state.prepared.instance.is_drone
    possible = (state.offers.feasible & (is_drone == far[:, None])).any(axis=1)
    got = is_drone[numbers, np.maximum(choice - 1, 0)]
    assert (got == far)[possible].all() and possible.sum() > 50
    np.testing.assert_array_equal(choice > 0, state.offers.feasible.any(axis=1))


@pytest.mark.parametrize("scenario", ENVS)
def test_threshold_rejects_what_is_worth_little_for_its_travel(scenario, states):
    state, _ = jax.device_get(states[scenario])
    numbers = np.arange(len(state.step))
    value = state.prepared.instance.value[numbers, np.minimum(state.step, REQUESTS - 1)]
    floor, rate = np.quantile(value, 0.2), np.float32(0.11)
    choice = chosen(ThresholdActor(ENVS[scenario], 8.0, float(floor), float(rate)), states[scenario])["dispatcher"]
    worth_it = (value[:, None] >= rate * state.offers.added) & (value >= floor)[:, None]
    allowed = state.offers.feasible & worth_it
    np.testing.assert_array_equal(choice[:, 0] > 0, allowed.any(axis=1))
    assert allowed.any() and (state.offers.feasible.any(axis=1) & ~allowed.any(axis=1)).any()
    assert allowed[numbers, choice[:, 0] - 1][choice[:, 0] > 0].all()


def test_relocate_sends_idle_vehicles_to_where_demand_was(states):
    state, timestep = jax.device_get(states["ride_pooling"])
    going = chosen(RelocateActor(), states["ride_pooling"])["vehicle"]
    legal = np.take_along_axis(timestep.action_mask["vehicle"], going[..., None], axis=-1)[..., 0]
    assert legal.all() and (going > 0).any()
    row, _ = np.nonzero(going)
    assert (state.demand[row, going[going > 0] - 1] > 0).all()


def test_cover_sends_one_vehicle_to_where_requests_are_likely_and_others_far(states):
    state, timestep = jax.device_get(states["ride_pooling"])
    going = chosen(CoverActor(), states["ride_pooling"])["vehicle"]
    legal = np.take_along_axis(timestep.action_mask["vehicle"], going[..., None], axis=-1)[..., 0]
    rows, vehicles = np.nonzero(going)
    assert legal.all() and len(rows) > 20 and len(np.unique(rows)) == len(rows)
    plans, prepared, zones = state.plans, state.prepared, timestep.entities["zone"].shape[-1]
    each_way = round(zones**0.5)
    for row, vehicle in zip(rows, vehicles, strict=True):
        instance = jax.tree.map(lambda leaf, row=row: leaf[row], prepared.instance)
        corner, side = instance.area[0], instance.area[1] - instance.area[0]
        number = np.arange(zones)
        middles = corner + (np.stack([number % each_way, number // each_way], axis=1) + 0.5) / each_way * side
        near = np.zeros(zones)
        for other in np.flatnonzero(prepared.capacity[row] > 0):
            stops = np.flatnonzero(np.isfinite(plans.start[row, other]))
            place, busy = plans.goal[row, :, other], plans.free[row, other]
            if stops.size:
                place = plans.stops[row, :2, other, stops[-1]]
                busy = plans.start[row, other, stops[-1]] + instance.stop_time[other]
            way = np.hypot(*(middles - place).T) * prepared.pace[row, other]
            soon = np.exp(-(max(busy - state.now[row], 0.0) + way) / (instance.horizon / 30))
            near += soon
            if other == vehicle:
                itself = soon
        np.testing.assert_allclose(timestep.entities["zone"][row, 3] * (prepared.capacity[row] > 0).sum(), near, 1e-3)
        demand = state.demand[row] + 10 / zones
        way = np.hypot(*(middles - plans.place[row, :, vehicle]).T) * prepared.pace[row, vehicle]
        worth = demand / demand.mean() * np.exp(-0.8 * (near - itself)) - 0.005 * way
        assert worth[going[row, vehicle] - 1] > worth.max() - 1e-3
        cell = np.clip((plans.goal[row, :, vehicle] - corner) / side * each_way, 0, each_way - 1e-6).astype(int)
        assert worth.max() > worth[cell[0] + each_way * cell[1]] + 0.2 - 1e-3


@pytest.mark.parametrize("scenario", ENVS)
def test_rollout_is_legal_and_serves_no_less(scenario):
    env, batch = ENVS[scenario], days_of(scenario, 4)
    planner = RolloutActor(env, samples=2, length=REQUESTS)
    run = jax.jit(play_episodes, static_argnums=(0, 1))
    plain, ahead = (run(env, actor, batch, jax.random.key(1)) for actor in (AcceptActor(), planner))
    assert (ahead["invalid_actions"] == 0).all()
    assert ahead["value_served"].mean() > 0.9 * plain["value_served"].mean()


def test_rides_in_hindsight_keep_every_promise_and_serve_more():
    env, batch = ENVS["ride_pooling"], days_of("ride_pooling", 6)
    plain = jax.jit(play_episodes, static_argnums=(0, 1))(env, AcceptActor(), batch, jax.random.key(1))
    found = jax.device_get(serve_rides(as_float32(batch), jax.random.key(2), rounds=60, max_stops=16))
    for i, day in enumerate(each(batch)):
        opens = np.maximum(day.pickup_earliest, np.where(day.load > 0, day.arrival, 0.0))
        stops = list(stops_of(day, jax.tree.map(lambda leaf, i=i: leaf[i], found.plans)))
        report = solution_report(day.replace(pickup_earliest=opens), stops)
        broken = {name for name, finding in report.violations.items() if finding.count}
        # A vehicle that knows what comes leaves for it beforehand; it picks up when the request has arrived.
        assert broken <= {"before_arrival"}, report.summary()
        np.testing.assert_array_equal(report.served, found.is_served[i])
        assert report.value == pytest.approx(found.value[i], rel=1e-5)
    assert found.value.mean() > 1.1 * plain["value_served"].mean()


def stops_of(day, plans):
    for v in range(FLEET):
        free = 0.0
        for k in np.flatnonzero(np.isfinite(plans.start[v])):
            yield Stop(v, int(plans.stops[5, v, k]), bool(plans.stops[4, v, k] > 0), float(plans.start[v, k]), 0, free)
            free = float(plans.start[v, k]) + float(day.stop_time[v])


def test_decisions_in_hindsight_can_be_played_and_serve_more():
    env, batch = ENVS["same_day"], days_of("same_day", 8)
    plain = jax.jit(play_episodes, static_argnums=(0, 1))(env, AcceptActor(), batch, jax.random.key(1))
    few, many = (
        jax.device_get(decide_with_hindsight(env, batch, jax.random.key(2), rounds=rounds)) for rounds in (1, 80)
    )
    actions = {"dispatcher": jnp.asarray(many.choice.T[:, :, None])}
    _, timesteps = jax.device_get(replay(env, batch, actions))
    np.testing.assert_allclose(timesteps.metrics["value_served"][-1], many.value, 1e-5)
    assert (timesteps.metrics["invalid_actions"] == 0).all()
    assert (many.value >= few.value - 1e-4).all() and many.value.mean() > 1.05 * plain["value_served"].mean()

"""Ruin and recreate against brute force, the report and the environment; and the actor that drives its plans."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import generate_dataset, pad, stack
from jaxvrp.envs.darp.baselines.search import SearchActor, ruin_and_recreate
from jaxvrp.envs.darp.problem.figures import tightened
from jaxvrp.envs.darp.problem.instance import as_float32, void_nodes_beyond
from jaxvrp.envs.darp.problem.solution import actions_to_routes, solution_report
from jaxvrp.episodes import play_episodes
from tests.jaxvrp.envs.darp.small_instances import NODES, TOLERANCE, VEHICLES, PlainTours, padded, rich_instance

PENALTY = 30.0
COPIES, ROUNDS = 2, 60

KEY = jax.random.key(4)

either = pytest.mark.parametrize("limits", [False, True])


@functools.lru_cache
def tiny():
    """Up to three requests, of every kind, padded to the size of the others."""
    rng, found = np.random.default_rng(3), []
    for mixed, rounded in itertools.cycle(itertools.product([False, True], repeat=2)):
        instance = rich_instance(rng, mixed, rounded)
        if instance.num_nodes <= 6 and instance.num_agents == 2:
            found.append(instance)
        if len(found) == 12:
            break
    impossible = [instance for kind, instance in padded() if kind in ("impossible", "long way home")]
    return [jax.device_get(as_float32(pad(instance, NODES, VEHICLES))) for instance in [*found, *impossible]]


@functools.lru_cache
def instances():
    return [*tiny(), *(instance for kind, instance in padded() if kind in ("default", "crowded", "mixed", "rounded"))]


@functools.lru_cache
def searched(limits):
    """Plans `[E, COPIES, N+V]` for `instances()`, and their costs."""
    batch = jax.tree.map(lambda leaf: np.repeat(leaf, COPIES, axis=0), stack(instances()))
    plans, cost = ruin_and_recreate(batch, jax.random.key(0), rounds=ROUNDS, limits=limits, penalty=PENALTY)
    return np.asarray(plans).reshape(-1, COPIES, plans.shape[1]), np.asarray(cost).reshape(-1, COPIES)


def orders(requests):
    """All tours that serve some requests, pickups before drop-offs."""
    nodes = [node for request in requests for node in (2 * request + 1, 2 * request + 2)]
    for order in itertools.permutations(nodes):
        if all(order.index(2 * request + 1) < order.index(2 * request + 2) for request in requests):
            yield order


def least_cost(instance, limits):
    """Of all plans."""
    tours = PlainTours(instance, limits)
    real = [int(request) for request in np.flatnonzero(instance.demand[1::2])]
    vehicles = range(np.count_nonzero(instance.capacity))

    @functools.cache
    def cheapest(vehicle, requests):
        costs = sorted((tours.length(0, *order, 0), order) for order in orders(requests))
        return next((cost for cost, order in costs if tours.feasible(vehicle, order)), math.inf)

    def cost(assignment):
        by_vehicle = [tuple(r for r, v in zip(real, assignment, strict=True) if v == vehicle) for vehicle in vehicles]
        driven = sum(cheapest(vehicle, requests) for vehicle, requests in enumerate(by_vehicle))
        return driven + 2 * PENALTY * assignment.count(None)

    return min(cost(assignment) for assignment in itertools.product([*vehicles, None], repeat=len(real)))


@either
@pytest.mark.slow
def test_it_finds_the_least_cost_of_tiny_instances(limits):
    costs = searched(limits)[1][: len(tiny())].min(axis=1)
    np.testing.assert_allclose(costs, [least_cost(instance, limits) for instance in tiny()], rtol=1e-4)


@pytest.mark.slow
def test_tiny_instances_ask_for_something():
    free, limited = (searched(limits)[1][: len(tiny())].min(axis=1) for limits in (False, True))
    assert np.count_nonzero(limited > free * 1.01) >= 3
    left_out = [len(actions_to_routes(plans[0])) == 0 for plans in searched(True)[0][: len(tiny())]]
    assert 3 <= np.count_nonzero(left_out) < len(tiny()) - 6


@pytest.mark.slow
@either
def test_the_report_finds_nothing_but_requests_left_out_and_the_same_cost(limits):
    expected = {"unserved"} if limits else {"unserved", "ride_time", "route_duration"}
    plans, costs = searched(limits)
    for instance, its_plans, its_costs in zip(instances(), plans, costs, strict=True):
        for plan, cost in zip(its_plans, its_costs, strict=True):
            report = solution_report(instance, plan, tolerance=TOLERANCE)
            assert {name for name, found in report.violations.items() if found.count} <= expected, str(report)
            unvisited = report.violations["unserved"].count
            np.testing.assert_allclose(cost, report.cost + PENALTY * unvisited, rtol=1e-4)


@pytest.mark.slow
def test_vehicles_of_one_capacity_drive_in_order_of_their_first_stops():
    several = 0
    for instance, plans in zip(instances(), searched(False)[0], strict=True):
        routes = actions_to_routes(plans[0])
        for a, b in itertools.combinations(range(len(routes)), 2):
            if instance.capacity[a] != instance.capacity[b]:
                continue
            first = [instance.locs[route[0]] if route else np.full(2, np.inf) for route in (routes[a], routes[b])]
            way = np.hypot(*(np.stack(first) - instance.locs[0]).T)
            assert way[0] <= way[1] * (1 + 1e-6)
            several += 1
    assert several > 10


@pytest.mark.slow
def test_more_rounds_are_no_worse_and_better_somewhere():
    batch = stack([instance for kind, instance in padded() if kind in ("default", "crowded")])
    few, many = (
        np.asarray(ruin_and_recreate(batch, jax.random.key(1), rounds=rounds, penalty=PENALTY)[1])
        for rounds in (1, ROUNDS)
    )
    assert many.mean() < 0.99 * few.mean()


@functools.lru_cache
def driven():
    """An environment, instances that its search plans whole, and the actor's episodes: actions, ends, refusals."""
    rules = {"limits": True, "tighten": False, "penalty_unvisited": PENALTY}
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, **rules)
    batch, actor = stack(instances()), SearchActor(env, ROUNDS)

    def advance(carry, _):
        state, timestep, memory = carry
        action, memory = actor.act(KEY, memory, state, timestep)
        state, timestep = jax.vmap(env.step)(state, action)
        return (state, timestep, memory), (action["vehicle"][:, 0], timestep.done, timestep.metrics["invalid_actions"])

    def play():
        start = jax.vmap(env.reset_to)(batch)
        return jax.lax.scan(advance, (*start, actor.init(len(batch.demand))), length=env.max_episode_steps)[1]

    return env, batch, jax.device_get(jax.jit(play)())


@pytest.mark.slow
def test_its_actor_drives_the_plan():
    _, batch, (actions, done, invalid) = driven()
    plans, _ = ruin_and_recreate(batch, KEY, rounds=ROUNDS, limits=True, penalty=PENALTY)
    followed = 0
    for i, (instance, plan) in enumerate(zip(instances(), np.asarray(plans), strict=True)):
        report = solution_report(instance, plan, tolerance=TOLERANCE)
        if report.feasible and all(report.routes):
            followed += 1
            length = 1 + done[:, i].argmax()
            np.testing.assert_array_equal(actions[:length, i], plan[:length])
            assert not invalid[:length, i].any()
    assert followed > 15


@pytest.mark.slow
def test_whatever_it_plans_keeps_tightened_windows():
    """Planned without them; each schedule that keeps all limits begins its services within them."""
    cut = jax.device_get(jax.jit(jax.vmap(tightened))(as_float32(stack(instances()))))
    narrower = 0
    for i, (instance, plans) in enumerate(zip(instances(), searched(True)[0], strict=True)):
        start = solution_report(instance, plans[0], tolerance=TOLERANCE).service_start
        served = np.flatnonzero(~np.isnan(start[1:])) + 1
        assert (start[served] >= cut.earliest[i, served] - TOLERANCE).all()
        assert (start[served] <= cut.deadline[i, served] + TOLERANCE).all()
        narrower += (cut.earliest[i, served] > instance.earliest[served] + 1).sum()
    assert narrower > 50


@pytest.mark.slow
def test_its_actor_can_begin_anywhere():
    """In the middle of an episode, about which it knows nothing, it plans and goes on with what is left."""
    env, batch, (actions, done, _) = driven()
    begin = jax.jit(jax.vmap(env.reset_to))
    step = jax.jit(jax.vmap(env.step))
    state, timestep = begin(batch)
    for action in actions[:3]:
        state, timestep = step(state, {"vehicle": action[:, None]})
    actor = SearchActor(env, ROUNDS)
    chosen, _ = jax.jit(actor.act)(KEY, actor.init(len(batch.demand)), state, timestep)
    under_way = ~done[:3].any(axis=0)
    assert under_way.sum() > 10
    np.testing.assert_array_equal(chosen["vehicle"][under_way, 0], actions[3, under_way])


@pytest.mark.slow
def test_where_the_plan_is_not_allowed_its_next_allowed_node_comes_first():
    env = jaxvrp.make("darp", num_nodes=4, num_agents=2)
    state, timestep = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1))
    actor = SearchActor(env, rounds=1)
    carry = (jnp.array([[3, 1, 2, 4, 0, 0]], jnp.int32), jnp.ones(1, bool))
    state = state.replace(step=jnp.ones(1, jnp.int32))
    choose = jax.jit(actor.act)
    for mask, expected in (([0, 1, 0, 1, 0], 3), ([0, 1, 0, 0, 0], 1), ([1, 0, 0, 0, 0], 0), ([1, 1, 0, 0, 0], 1)):
        seen = timestep.replace(action_mask={"vehicle": jnp.array([[mask]], bool)})
        action, _ = choose(jax.random.key(0), carry, state, seen)
        assert action["vehicle"].tolist() == [[expected]]


@pytest.mark.slow
def test_instances_as_published_of_different_sizes_are_driven_as_planned():
    """Padded in one batch, within tightened windows: whoever has a plan for everybody brings everybody, at its cost."""
    rules = {"limits": True, "lookahead": True, "instances": "cordeau"}
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, **rules)
    requests = 2 + np.arange(24) % (NODES // 2 - 1)
    batch = jax.vmap(void_nodes_beyond)(generate_dataset(env, seed=2, count=24), 2 * requests)
    played = jax.jit(lambda: play_episodes(env, SearchActor(env, ROUNDS), batch, KEY))()
    binding = jax.vmap(lambda instance: env.init_state(instance).binding)(batch)
    plans, cost = ruin_and_recreate(binding, jax.random.fold_in(KEY, 0), rounds=ROUNDS, limits=True)
    whole = np.array([solution_report(each, plan).feasible for each, plan in zip(each_of(batch), plans, strict=True)])
    assert whole.sum() > 12 and len(np.unique(np.count_nonzero(batch.demand, axis=1))) > 2
    np.testing.assert_allclose(-played["return"][whole], cost[whole], rtol=1e-5)
    assert (played["served_share"][whole] == 1).all() and not played["invalid_actions"].any()


def each_of(batch):
    """Instances of a batch, in NumPy."""
    batch = jax.device_get(batch)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(len(batch.demand))]

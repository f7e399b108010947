"""What limits allow against all schedules that there are: in tiny instances of whole numbers every one is tried."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.darp import make_instance, schedule, stack
from jaxvrp.envs.darp.problem.instance import as_float32

NODES, VEHICLES = 6, 2
HORIZON = 8
"""No deadline is later."""


def tiny_instance(rng):
    """Three requests on a short line; some windows are narrow, so that a ride may have to begin late."""
    early = rng.integers(0, HORIZON - 1, NODES + 1) * (rng.random(NODES + 1) < 0.5)
    late = np.minimum(early + rng.integers(0, HORIZON, NODES + 1), HORIZON)
    early[0], late[0] = rng.integers(0, 2), HORIZON - rng.integers(0, 2)
    places = rng.integers(-1, 2, NODES + 1)
    return make_instance(
        np.stack([places, np.zeros_like(places)], axis=1),
        [0] + [1, -1] * (NODES // 2),
        late,
        capacity=rng.integers(1, 4, VEHICLES),
        earliest=early,
        service_time=[0, *rng.integers(0, 2, NODES)],
        max_ride_time=rng.integers(1, 5),
        max_route_duration=rng.integers(4, HORIZON + 1),
    )


def travel_times(instance, order):
    return np.abs(np.diff(instance.locs[order, 0]))


@functools.cache
def delays(stops):
    """`[..., stops]`, all that start a service up to `HORIZON` and never fall: how much later than without waiting."""
    return np.array(list(itertools.combinations_with_replacement(range(HORIZON + 1), stops)), np.int8)


def has_schedule(instance, *order):
    """Whether the stops (depot first) have a schedule; whole numbers have one in whole numbers if in any."""
    order = list(order)
    service = instance.service_time[order]
    driven = np.concatenate([[0], np.cumsum(service[:-1] + travel_times(instance, order))]).astype(np.int8)
    start = delays(len(order)) + driven
    kept = ((instance.earliest[order] <= start) & (start <= instance.deadline[order])).all(axis=1)
    for position, node in enumerate(order):
        if node and node % 2 == 0:
            pickup = order.index(node - 1)
            kept &= start[:, position] - start[:, pickup] - service[pickup] <= instance.max_ride_time
    if order[-1] == 0:
        kept &= start[:, -1] - start[:, 0] <= instance.max_route_duration
    return kept.any()


def allowed(instance, capacity, route, visited, lookahead):
    """The nodes that a vehicle may go to after the depot and its `route`."""
    waiting = {node + 1 for node in route if node % 2} - set(route)
    boarding = {node for node in range(1, NODES, 2) if node not in visited and len(waiting) < capacity}
    customers = {node for node in boarding | waiting if has_schedule(instance, 0, *route, node, 0)}
    if lookahead:
        behind = {node: (waiting | {node + 1} if node % 2 else waiting) - {node} for node in customers}
        prudent = {
            node for node in customers if all(has_schedule(instance, 0, *route, node, last) for last in behind[node])
        }
        customers = customers if waiting and not prudent else prudent
    return customers | ({0} if not customers or (route and not waiting) else set())


@pytest.mark.slow("False")
@pytest.mark.parametrize("lookahead", [False, True])
def test_the_mask_allows_what_has_a_schedule(lookahead, share):
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, limits=True, lookahead=lookahead, tighten=False)
    rng = np.random.default_rng(4)
    instances = [tiny_instance(rng) for _ in range(share(240))]
    masks, actions, done = jax.device_get(play(env, stack(instances), jax.random.key(3)))
    steps = emergencies = 0
    for i, instance in enumerate(instances):
        vehicle, route, visited = 0, [], set()
        for mask, node, over in zip(masks[:, i], actions[:, i], done[:, i], strict=True):
            if over:
                break
            wanted = allowed(instance, instance.capacity[vehicle], route, visited, lookahead)
            assert set(np.flatnonzero(mask)) == wanted, (i, route)
            steps += 1
            emergencies += wanted == {0} and any(node % 2 and node + 1 not in route for node in route)
            vehicle, route, visited = (
                (vehicle, [*route, node], visited | {node}) if node else (vehicle + 1, [], visited)
            )
    assert steps > share(1000) and emergencies >= share(12)


@functools.partial(jax.jit, static_argnums=0)
def play(env, instances, key):
    """Masked random play: masks `[T, E, N+1]`, actions `[T, E]`, and whether it was over before, `[T, E]`."""
    actor = RandomActor(env)

    def body(play, key):
        state, timestep = play
        action = actor.act(key, (), state, timestep)[0]
        seen = timestep.action_mask["vehicle"][:, 0], action["vehicle"][:, 0], timestep.done
        return jax.vmap(env.step)(state, action), seen

    return jax.lax.scan(body, jax.vmap(env.reset_to)(instances), jax.random.split(key, env.max_episode_steps))[1]


def test_a_whole_tour_is_kept_if_it_has_a_schedule(share):
    rng = np.random.default_rng(8)
    verdicts = []
    for _ in range(share(600)):
        instance = tiny_instance(rng)
        requests = rng.permutation(NODES // 2)[: rng.integers(1, NODES // 2 + 1)]
        order = rng.permutation(np.repeat(requests, 2))
        route = [2 * request + 1 + (request in order[:position]) for position, request in enumerate(order)]
        nodes = np.array([*route] + [0] * (NODES + 1 - len(route)))
        travel = travel_times(instance, [0, *nodes])
        driven = travel.sum() + instance.service_time[nodes].sum()
        instance = instance.replace(max_route_duration=driven + rng.integers(-1, 3))
        kept = keep_tour(as_float32(instance), nodes, travel.astype(np.float32))
        assert kept == has_schedule(instance, 0, *route, 0), route
        verdicts.append(bool(kept))
    assert share(60) < sum(verdicts) < share(500)


def keeps_tour(instance, nodes, travel, max_duration, slack):
    """`bool[]`: a whole tour has a schedule within windows, ride times and duration, by the steps of `schedule`.

    `nodes` are in order, the depot from the return on; `travel` is the time to each from the one before.
    """

    def visit(index, tour):
        bounds, clock, feasible = tour
        node, leg = nodes[index], travel[index]
        start = jnp.maximum(clock + leg, instance.earliest[node])
        feasible &= schedule.next_stop(bounds, instance, node, leg, slack).admits(start)
        return schedule.append(bounds, instance, node, leg, slack), start + instance.service_time[node], feasible

    start = (schedule.begin(instance, slack), instance.earliest[0], jnp.ones((), bool))
    bounds, home, feasible = jax.lax.fori_loop(0, nodes.shape[0], visit, start)
    duration = jnp.maximum(bounds.elapsed, home - bounds.max_delay[0])
    return feasible & (duration <= max_duration + slack)


@jax.jit
def keep_tour(instance, nodes, travel):
    return keeps_tour(instance, nodes, travel, instance.max_route_duration, 0.0)


def equations(jaxpr):
    """All of a program, loops' bodies included."""
    for equation in jaxpr.eqns:
        yield equation
        inner = jax.tree.leaves(equation.params, is_leaf=lambda value: hasattr(value, "jaxpr"))
        for value in inner:
            if hasattr(value, "jaxpr"):
                yield from equations(value.jaxpr)


@pytest.mark.parametrize("lookahead", [False, True])
def test_the_mask_costs_a_few_operations_for_a_candidate(lookahead):
    """No array of a step or a mask grows faster than the nodes, no program with them."""

    def programs(num_nodes):
        env = jaxvrp.make("darp", num_nodes=num_nodes, limits=True, lookahead=lookahead)
        state = jax.eval_shape(lambda: env.init_state(env.generate(jax.random.key(0))))
        action, count = {"vehicle": jnp.zeros(1, jnp.int32)}, jnp.zeros((), jnp.int32)
        traced = jax.make_jaxpr(env.action_mask)(state), jax.make_jaxpr(env.transition)(state, action, count)
        return [list(equations(program.jaxpr)) for program in traced]

    for small, large in zip(programs(140), programs(200), strict=True):
        assert len(large) == len(small) > 10
        assert max(variable.aval.size for equation in large for variable in equation.outvars) <= 2 * 201


def test_without_limits_nothing_is_kept_for_them():
    env = jaxvrp.make("darp", lookahead=True)
    state = jax.eval_shape(lambda: env.init_state(env.generate(jax.random.key(0))))
    assert state.schedule is None

"""Cheapest insertion: whole requests, one after the other, to where they add the least distance. Pure JAX.

For each request and vehicle the cheapest place is remembered; only the vehicle that got a request is searched again.
All places for the drop-off are tried in one walk along the tour, for all requests and places of the pickup at once, so
memory is `O(N²)`. The walk decides about capacity and windows. Where limits are enforced it rules out some of what no
schedule can save, and an exact test follows for the place that is about to be taken.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.baselines.tours import Problem, as_actions, keeps_limits, make_problem
from jaxvrp.envs.darp.problem.instance import Instance, as_float32


class _Tour(struct.PyTreeNode):
    """One vehicle's tour: depot, its nodes, depot, void.

    Attributes:
        nodes: `i32[N+2]`.
        length: `i32[]`, how many are not the depot.
        start: `f32[N+2]`, of service, as early as possible.
        latest: `f32[N+2]`, start of service after which some deadline further on is missed.
        room: `i32[N+2]`, places that are free after the stop.
    """

    nodes: jax.Array
    length: jax.Array
    start: jax.Array
    latest: jax.Array
    room: jax.Array


class _Places(struct.PyTreeNode):
    """The cheapest place for each of some requests, in one tour or (with a last axis `V`) in each.

    Attributes:
        cost: `f32[R]`, distance that is added; inf if there is no place.
        index: `i32[R]`, i (N + 1) + j: i nodes of the tour come before the pickup, j before the drop-off.
    """

    cost: jax.Array
    index: jax.Array


class _Plan(struct.PyTreeNode):
    """Tours so far, and what could come next.

    Attributes:
        routes: `i32[V, N]`, 0 beyond the end.
        lengths: `i32[V]`.
        waiting: `bool[N/2]`, requests in no tour.
        places: `_Places[N/2, V]`.
        certain: `bool[N/2, V]`, whether the place is known to be feasible; else its cost is a lower bound.
    """

    routes: jax.Array
    lengths: jax.Array
    waiting: jax.Array
    places: _Places
    certain: jax.Array


@functools.partial(jax.jit, static_argnames=("limits", "regret"))
def cheapest_insertion(instance: Instance, *, limits: bool = False, regret: bool = False) -> jax.Array:
    """Insert requests one by one where they add the least distance, until none has a feasible place.

    A place is feasible if capacity and windows hold, and if each node still leaves time to go home directly, as the
    environment's mask demands. Vehicles without work come after those of the same capacity that have some, so with one
    capacity for all the environment can play the plan, except that it sends a vehicle that stays unused to any pickup
    within reach. With several capacities an unused vehicle may come first, if it can drive none of the later tours.

    Ties go to the lowest request, vehicle and place. No sum of times is allowed to exceed its limit, but these sums
    are `float32`.

    Args:
        instance: one problem, padded or not; `vmap` for a batch.
        limits: also keep ride times and route durations, by an exact test: service may begin later than it could. Only
            where travel times are rounded, the duration's test is stricter if the way home from halfway is longer.
        regret: of all requests insert the one that loses most if it does not get its best vehicle but its second best
            (regret-2); one with a single vehicle left comes first.

    Returns:
        `i32[N+V]`, nodes as an agent plays them: each vehicle's, and a 0 after each; 0 to the end. Requests without a
        feasible place are left out.
    """
    problem = make_problem(as_float32(instance), limits=limits)

    def step(plan: _Plan) -> _Plan:
        plan = _settle(problem, plan, regret) if limits else plan
        request, vehicle = _choose(plan.places.cost, regret)
        # Nothing may be left after the last doubt.
        possible = jnp.isfinite(plan.places.cost[request, vehicle])
        return jax.lax.cond(possible, lambda: _insert(problem, plan, request, vehicle, limits), lambda: plan)

    plan = _empty(problem, limits)
    plan = jax.lax.while_loop(lambda plan: jnp.isfinite(plan.places.cost).any(), step, plan)
    return as_actions(plan.routes, plan.lengths)


def _empty(problem: Problem, limits: bool) -> _Plan:
    """The plan without tours, and where each request could go first."""
    instance = problem.instance
    vehicles, nodes = instance.num_agents, instance.num_nodes
    routes, lengths = jnp.zeros((vehicles, nodes), jnp.int32), jnp.zeros(vehicles, jnp.int32)
    waiting, certain = instance.demand[1::2] > 0, jnp.full((nodes // 2, vehicles), not limits)

    def search(route: jax.Array, length: jax.Array, capacity: jax.Array) -> _Places:
        return _search_all(problem, _tour(problem, route, length, capacity), waiting)

    places = jax.vmap(search, out_axes=1)(routes, lengths, instance.capacity)
    return _Plan(routes, lengths, waiting, places, certain)


def _tour(problem: Problem, route: jax.Array, length: jax.Array, capacity: jax.Array) -> _Tour:
    """The tour of a vehicle from its `route` (`i32[N]`, 0 behind `length`), and its `capacity` (`i32[]`)."""
    instance = problem.instance
    depot = jnp.zeros(1, jnp.int32)
    nodes = jnp.concatenate([depot, route, depot])
    gap = instance.service_time[nodes[:-1]] + problem.travel[nodes[:-1], nodes[1:]]

    def next_start(start: jax.Array, stop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        gap, earliest = stop
        start = jnp.maximum(start + gap, earliest)
        return start, start

    def latest_before(latest: jax.Array, stop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        gap, deadline = stop
        latest = jnp.minimum(latest - gap, deadline)
        return latest, latest

    first, last = instance.earliest[:1], instance.deadline[:1]
    start = jax.lax.scan(next_start, first[0], (gap, instance.earliest[nodes[1:]]))[1]
    latest = jax.lax.scan(latest_before, last[0], (gap, instance.deadline[nodes[:-1]]), reverse=True)[1]
    room = capacity - jnp.cumsum(instance.demand[nodes], dtype=jnp.int32)
    return _Tour(nodes, length, jnp.concatenate([first, start]), jnp.concatenate([latest, last]), room)


def _search_all(problem: Problem, tour: _Tour, waiting: jax.Array) -> _Places:
    """`_Places[N/2]` for all requests; without a place where not `waiting`."""
    requests = jnp.arange(waiting.shape[0], dtype=jnp.int32)
    places = _search(problem, tour, requests, _Places(jnp.full(waiting.shape, -jnp.inf), requests))
    return places.replace(cost=jnp.where(waiting, places.cost, jnp.inf))


class _Walk(struct.PyTreeNode):
    """Along a tour, with each of some requests picked up after each stop; `[R, N+1]`.

    Attributes:
        leave: `f32`, clock when leaving the last stop.
        ride: `f32`, least time since the pickup's service, without waiting.
        alive: `bool`, whether the passengers are on board and nothing is broken so far.
        cost: `f32`, the cheapest drop-off so far, inf for none.
        drop: `i32`, the stop before it.
    """

    leave: jax.Array
    ride: jax.Array
    alive: jax.Array
    cost: jax.Array
    drop: jax.Array


def _search(problem: Problem, tour: _Tour, requests: jax.Array, floor: _Places) -> _Places:
    """The first place behind `floor` (by cost, then `index`) for each of `requests`, `i32[R]`; all `[R]`."""
    stops = jnp.arange(problem.instance.num_nodes + 1, dtype=jnp.int32)
    shape = (requests.shape[0], stops.shape[0])
    zeros = jnp.zeros(shape, jnp.float32)
    before, behind = tour.nodes[:-1], tour.nodes[1:]
    to_pickup = problem.distance[2 * requests + 1]
    detour = to_pickup[:, before] + to_pickup[:, behind] - problem.distance[before, behind]

    def visit(stop: jax.Array, walk: _Walk) -> _Walk:
        walk = _pass(problem, tour, 2 * requests + 1, stop, walk)
        cost = _drop(problem, tour, 2 * requests + 2, stop, walk, detour)
        index = stops * stops.shape[0] + stop
        behind_floor = (cost > floor.cost[:, None]) | ((cost == floor.cost[:, None]) & (index > floor.index[:, None]))
        better = behind_floor & (cost < walk.cost)
        return walk.replace(cost=jnp.where(better, cost, walk.cost), drop=jnp.where(better, stop, walk.drop))

    walk = _Walk(
        leave=zeros,
        ride=zeros,
        alive=jnp.zeros(shape, bool),
        cost=jnp.full(shape, jnp.inf),
        drop=jnp.zeros(shape, jnp.int32),
    )
    walk = jax.lax.fori_loop(0, tour.length + 1, visit, walk)
    first = jax.lax.argmin(walk.cost, 1, jnp.int32)
    drop = jnp.take_along_axis(walk.drop, first[:, None], axis=1)[:, 0]
    return _Places(walk.cost.min(axis=1), first * stops.shape[0] + drop)


def _pass(problem: Problem, tour: _Tour, pickup: jax.Array, stop: jax.Array, walk: _Walk) -> _Walk:
    """Visit `stop`, then the pickups (`i32[R]`) that come right behind it."""
    instance, travel = problem.instance, problem.travel
    stops = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    node, pickup = tour.nodes[stop], pickup[:, None]
    leg = jnp.where(stops == stop - 1, travel[pickup, node], travel[tour.nodes[stop - 1], node])
    start = jnp.maximum(walk.leave + leg, instance.earliest[node])
    service = instance.service_time[node]
    boarding = jnp.maximum(tour.start[stop] + service + travel[node, pickup], instance.earliest[pickup])
    boards_here = stops == stop
    in_time = jnp.where(
        boards_here, boarding <= instance.deadline[pickup], walk.alive & (start <= instance.deadline[node])
    )
    return walk.replace(
        leave=jnp.where(boards_here, boarding + instance.service_time[pickup], start + service),
        ride=jnp.where(boards_here, 0.0, walk.ride + leg + service),
        alive=in_time & (instance.demand[pickup] <= tour.room[stop]),
    )


def _drop(
    problem: Problem, tour: _Tour, drop_off: jax.Array, stop: jax.Array, walk: _Walk, detour: jax.Array
) -> jax.Array:
    """`f32[R, N+1]`, cost with the drop-offs (`i32[R]`) right behind `stop`, inf if infeasible.

    `detour` is the distance for a pickup between each stop and the next.
    """
    instance, travel, distance = problem.instance, problem.travel, problem.distance
    boarded_here = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32) == stop
    node, behind, drop_off = tour.nodes[stop], tour.nodes[stop + 1], drop_off[:, None]
    last = jnp.where(boarded_here, drop_off - 1, node)
    leg = travel[last, drop_off]
    start = jnp.maximum(walk.leave + leg, instance.earliest[drop_off])
    onward = start + instance.service_time[drop_off] + travel[drop_off, behind]
    feasible = walk.alive & (start <= instance.deadline[drop_off]) & (onward <= tour.latest[stop + 1])
    feasible &= walk.ride + leg <= problem.max_ride_time
    direct = distance[node, drop_off - 1] + distance[drop_off - 1, drop_off]
    replaced = distance[drop_off, behind] - distance[node, behind]
    cost = jnp.where(boarded_here, direct + replaced, detour + distance[node, drop_off] + replaced)
    return jnp.where(feasible, cost, jnp.inf)


def _choose(cost: jax.Array, regret: bool) -> tuple[jax.Array, jax.Array]:
    """Request and vehicle, `i32[]` each, from `f32[R, V]`."""
    if not regret:
        return divmod(jax.lax.argmin(cost.reshape(-1), 0, jnp.int32), cost.shape[1])
    first = cost.min(axis=1)
    loss = jnp.where(jnp.isfinite(first), _second(cost) - first, -jnp.inf)
    request = jax.lax.argmin(jnp.where(loss == loss.max(), first, jnp.inf), 0, jnp.int32)
    return request, jax.lax.argmin(cost[request], 0, jnp.int32)


def _second(cost: jax.Array) -> jax.Array:
    """`f32[R]`, the cost with the second best vehicle; inf for none."""
    return jnp.sort(jnp.pad(cost, ((0, 0), (0, 1)), constant_values=jnp.inf), axis=1)[:, 1]


def _insert(problem: Problem, plan: _Plan, request: jax.Array, vehicle: jax.Array, limits: bool) -> _Plan:
    """Put a request at its place and search that vehicle's tour again."""
    place = plan.places.index[request, vehicle]
    route = _inserted(plan.routes[vehicle], request, place)
    length = plan.lengths[vehicle] + 2
    waiting = plan.waiting.at[request].set(False)
    tour = _tour(problem, route, length, problem.instance.capacity[vehicle])
    places = _search_all(problem, tour, waiting)
    return _Plan(
        routes=plan.routes.at[vehicle].set(route),
        lengths=plan.lengths.at[vehicle].set(length),
        waiting=waiting,
        places=_Places(
            plan.places.cost.at[request].set(jnp.inf).at[:, vehicle].set(places.cost),
            plan.places.index.at[:, vehicle].set(places.index),
        ),
        certain=plan.certain.at[:, vehicle].set(not limits),
    )


def _inserted(route: jax.Array, request: jax.Array, place: jax.Array) -> jax.Array:
    """`i32[N]`, the route with a request at a place (an `index` of `_Places`)."""
    size = route.shape[0] + 1
    pickup, drop_off = place // size, place % size + 1
    position = jnp.arange(route.shape[0], dtype=jnp.int32)
    moved = route[jnp.maximum(position - (position > pickup) - (position > drop_off), 0)]
    return jnp.select([position == pickup, position == drop_off], [2 * request + 1, 2 * request + 2], moved)


def _settle(problem: Problem, plan: _Plan, regret: bool) -> _Plan:
    """Test places until the next choice depends on none that is not certain."""

    def doubtful(plan: _Plan) -> jax.Array:
        cost = plan.places.cost
        decisive = cost <= _second(cost)[:, None] if regret else cost == cost.min()
        return decisive & jnp.isfinite(cost) & ~plan.certain

    def test(plan: _Plan) -> _Plan:
        first = jax.lax.argmax(doubtful(plan).reshape(-1), 0, jnp.int32)
        return _test(problem, plan, *divmod(first, plan.certain.shape[1]))

    return jax.lax.while_loop(lambda plan: doubtful(plan).any(), test, plan)


def _test(problem: Problem, plan: _Plan, request: jax.Array, vehicle: jax.Array) -> _Plan:
    """Test one place; if it is infeasible, the next cheapest of this request and vehicle takes over, untested."""
    places, route, length = plan.places, plan.routes[vehicle], plan.lengths[vehicle]
    place = _Places(places.cost[request, vehicle], places.index[request, vehicle])
    feasible = keeps_limits(problem, _inserted(route, request, place.index))
    tour = _tour(problem, route, length, problem.instance.capacity[vehicle])
    next_place = _search(problem, tour, request[None], jax.tree.map(lambda leaf: leaf[None], place))
    return plan.replace(
        places=_Places(
            places.cost.at[request, vehicle].set(jnp.where(feasible, place.cost, next_place.cost[0])),
            places.index.at[request, vehicle].set(jnp.where(feasible, place.index, next_place.index[0])),
        ),
        certain=plan.certain.at[request, vehicle].set(feasible),
    )

"""Ruin and recreate: take some requests out of a plan, put them back well, thousands of plans at once. Pure JAX.

A round removes requests that have something to do with each other (Shaw 1998), that follow each other in a tour (after
the strings of Christiaens and Vanden Berghe 2020), or any; inserts them one by one, in random order, where they add the
least distance and some noise; and keeps the new plan by simulated annealing. Plans are feasible at every round; who
finds no place waits, at the price of two unvisited nodes.

A plan is one sequence: depot, nodes of the first tour, depot, nodes of the second, ... Inserting shifts it, removing
compresses it. All arrays have the plans as their last axis, `B`: `T` stops and `R` requests are short and uneven, and
this way every loop runs over plans, at the machine's full width.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp.baselines.tours import Problem, as_actions, keeps_limits, make_problem
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.problem.instance import Instance, as_float32
from jaxvrp.envs.darp.rules import State

MOST_REMOVED = 10
"""No round removes more requests; nor more than three of five, since what is left guides those that return."""

HEAT = (0.8, 0.03)
"""Temperatures of the first and the last round, in mean legs of the first plan; between them they fall by a factor."""

NOISE = 0.3
"""Most that is added to an insertion, twice, in mean legs."""

MOST_TESTS = 4
"""Places that are tested for one request where limits are enforced, the cheapest first; then it waits."""

LATEST = 1e30
"""Later than any time."""


class Lanes(struct.PyTreeNode):
    """What rounds read of the problems, the plans last.

    Attributes:
        tested: the problems, `[B, ...]`, for the exact test of tours; None unless limits are enforced.
        distance, travel: `f32[(N+1)², B]`, from a (N + 1) + b.
        earliest, deadline, service: `f32[N+1, B]`.
        demand: `i32[N+1, B]`.
        capacity: `i32[V, B]`.
        exists: `bool[R, B]`, requests that are no padding.
        max_ride_time: `f32[B]`, inf unless limits are enforced.
        penalty: `f32[B]`, of an unvisited node.
    """

    tested: Problem | None
    distance: jax.Array
    travel: jax.Array
    earliest: jax.Array
    deadline: jax.Array
    service: jax.Array
    demand: jax.Array
    capacity: jax.Array
    exists: jax.Array
    max_ride_time: jax.Array
    penalty: jax.Array


class Plans(struct.PyTreeNode):
    """Plans, the last axis.

    Attributes:
        sequence: `i32[T, B]`, T = N + V + 1: V + 1 depots with the tours between them; 0 behind the last.
        waiting: `bool[R, B]`, requests without a place.
        cost: `f32[B]`, distance and penalties.
    """

    sequence: jax.Array
    waiting: jax.Array
    cost: jax.Array


class Stops(struct.PyTreeNode):
    """Along the sequences, `[T, B]` each.

    Attributes:
        node: `i32`.
        is_depot: `bool`.
        leg, length: `f32`, time and distance to the next stop.
        earliest, deadline, service: `f32`, of the node.
        start: `f32`, of service, as early as possible.
        latest: `f32`, start of service after which a deadline further on is missed.
        room: `i32`, places that are free after the stop; -1 behind the last tour.
    """

    node: jax.Array
    is_depot: jax.Array
    leg: jax.Array
    length: jax.Array
    earliest: jax.Array
    deadline: jax.Array
    service: jax.Array
    start: jax.Array
    latest: jax.Array
    room: jax.Array


class Search(struct.PyTreeNode):
    """A search that goes on: one chain of plans for each of `B` instances.

    Attributes:
        problems: `[B, ...]`.
        lanes: what rounds read of them.
        mean_leg: `f32[B]`, of the first plans.
        plans: where the chains are.
        best: the best that each has been at.
    """

    problems: Problem
    lanes: Lanes
    mean_leg: jax.Array
    plans: Plans
    best: Plans


@functools.partial(jax.jit, static_argnames=("rounds", "limits"))
def ruin_and_recreate(
    instances: Instance, key: jax.Array, *, rounds: int, limits: bool = False, penalty: float | jax.Array = 100.0
) -> tuple[jax.Array, jax.Array]:
    """Search for a plan of each instance, in so many rounds, which cool down from first to last.

    Args:
        instances: a batch `[B]`, padded or not; the same one several times is searched several times.
        key: typed key.
        rounds: how often some requests are removed and put back.
        limits: also keep ride times and route durations; service may then begin later than it could.
        penalty: of an unvisited node, in units of distance.

    Returns:
        As `best_plans`.
    """
    first_key, rounds_key = jax.random.split(key)
    search = begin(instances, first_key, limits=limits, penalty=penalty)
    return best_plans(advance(search, rounds_key, heats(jnp.arange(rounds, dtype=jnp.float32) / rounds)))


@functools.partial(jax.jit, static_argnames="limits")
def begin(instances: Instance, key: jax.Array, *, limits: bool = False, penalty: float | jax.Array = 100.0) -> Search:
    """A search of each instance that has made its first plan; see `ruin_and_recreate`."""
    problems = jax.vmap(lambda instance: make_problem(as_float32(instance), limits=limits))(instances)
    lanes = _lanes(problems, penalty, limits=limits)
    plans = _first_plans(lanes, key)
    visits = 2.0 * lanes.exists.sum(axis=0) + 1.0
    return Search(problems, lanes, _length(lanes, plans.sequence) / visits, plans, plans)


def heats(progress: jax.Array) -> jax.Array:
    """Temperatures, in mean legs of the first plan, of rounds at so much of a search, `f32[rounds]` in [0, 1]."""
    return HEAT[0] * (HEAT[1] / HEAT[0]) ** progress


@jax.jit
def advance(search: Search, key: jax.Array, heats: jax.Array) -> Search:
    """The search after rounds at these temperatures, `f32[rounds]`."""
    lanes, mean_leg = search.lanes, search.mean_leg

    def step(carry: tuple[Plans, Plans], heat_and_key: tuple[jax.Array, jax.Array]) -> tuple[tuple[Plans, Plans], None]:
        (plans, best), (heat, key) = carry, heat_and_key
        change_key, accept_key = jax.random.split(key)
        changed = _changed(lanes, plans, NOISE * mean_leg, change_key)
        patience = -heat * mean_leg * jnp.log(jax.random.uniform(accept_key, mean_leg.shape, minval=1e-9))
        plans = _where(changed.cost < plans.cost + patience, changed, plans)
        return (plans, _where(changed.cost < best.cost, changed, best)), None

    keys = jax.random.split(key, len(heats))
    (plans, best), _ = jax.lax.scan(step, (search.plans, search.best), (heats, keys))
    return search.replace(plans=plans, best=best)


@jax.jit
def best_plans(search: Search) -> tuple[jax.Array, jax.Array]:
    """The best plans of a search.

    Returns:
        As actions, `i32[B, N+V]`: each vehicle's nodes, and a 0 after each. Of vehicles of the same capacity, the one
        whose first stop is nearest to the depot comes first, and those without work last. And what they cost, `f32[B]`.
    """
    return jax.vmap(_actions, in_axes=(-1, 0))(search.best.sequence, search.problems), search.best.cost


@functools.partial(jax.jit, static_argnames="tries")
def restart(search: Search, tries: int) -> Search:
    """The search, whose chains go on from the best plans: of `tries` chains of an instance, from their best quarter.

    Chains of an instance follow each other.
    """
    cost = search.best.cost.reshape(-1, tries)
    quarter = jnp.argsort(cost, axis=1)[:, : max(1, tries // 4)]
    chosen = jnp.take(quarter, jnp.arange(tries) % quarter.shape[1], axis=1)
    source = (jnp.arange(len(cost))[:, None] * tries + chosen).reshape(-1)
    return search.replace(plans=jax.tree.map(lambda leaf: leaf[..., source], search.best))


def _lanes(problems: Problem, penalty: float | jax.Array, *, limits: bool) -> Lanes:
    instance = problems.instance
    last = functools.partial(jnp.moveaxis, source=0, destination=-1)
    return Lanes(
        tested=problems if limits else None,
        distance=last(problems.distance.reshape(len(problems.distance), -1)),
        travel=last(problems.travel.reshape(len(problems.travel), -1)),
        earliest=last(instance.earliest),
        deadline=last(instance.deadline),
        service=last(instance.service_time),
        demand=last(instance.demand),
        capacity=last(instance.capacity),
        exists=last(instance.demand[:, 1::2] > 0),
        max_ride_time=problems.max_ride_time,
        penalty=jnp.broadcast_to(jnp.asarray(penalty, jnp.float32), problems.max_ride_time.shape),
    )


def _first_plans(lanes: Lanes, key: jax.Array) -> Plans:
    """Nobody has a place at first; all are inserted in random order, without noise."""
    stops = 2 * lanes.exists.shape[0] + lanes.capacity.shape[0] + 1
    empty = jnp.zeros((stops, lanes.exists.shape[1]), jnp.int32)
    no_noise = jnp.zeros_like(lanes.max_ride_time)
    return _recreated(lanes, empty, lanes.exists, no_noise, key)


def _changed(lanes: Lanes, plans: Plans, noise: jax.Array, key: jax.Array) -> Plans:
    """The plans after one round, whether better or worse."""
    ruin_key, recreate_key = jax.random.split(key)
    removed = _chosen(lanes, plans.sequence, ruin_key)
    sequence = _without(plans.sequence, removed)
    return _recreated(lanes, sequence, plans.waiting | removed, noise, recreate_key)


def _chosen(lanes: Lanes, sequence: jax.Array, key: jax.Array) -> jax.Array:
    """`bool[R, B]`: as many requests of each plan, any, related to one, or next to it in the sequence."""
    count_key, seed_key, manner_key, noise_key = jax.random.split(key, 4)
    requests, batch = lanes.exists.shape
    most = max(1, min(MOST_REMOVED, 3 * requests // 5))
    count = jax.random.randint(count_key, (), 1, most + 1, jnp.int32)
    seed = jax.random.randint(seed_key, (batch,), 0, requests, jnp.int32)
    manner = jax.random.randint(manner_key, (batch,), 0, 3, jnp.int32)
    uniform = jax.random.uniform(noise_key, (requests, batch))
    pickup = 2 * jnp.arange(requests, dtype=jnp.int32)[:, None] + 1
    related = _between(lanes.distance, 2 * seed + 1, pickup) + _between(lanes.distance, 2 * seed + 2, pickup + 1)
    positions = jnp.broadcast_to(jnp.arange(sequence.shape[0], dtype=jnp.int32)[:, None], sequence.shape)
    place = jnp.zeros((2 * requests + 1, batch), jnp.int32).at[sequence, jnp.arange(batch)].set(positions)[1::2]
    apart = jnp.abs(place - _pick(place, seed)).astype(jnp.float32)
    score = jnp.select([manner == 0, manner == 1], [uniform, related * (0.5 + uniform)], apart + 2 * uniform)
    score = jnp.where(lanes.exists, score, jnp.inf)
    rank = (score[:, None] > score).sum(axis=1)
    return (rank < count) & lanes.exists


def _without(sequence: jax.Array, removed: jax.Array) -> jax.Array:
    """The sequences without the nodes of some requests, `bool[R, B]`."""
    stops, batch = sequence.shape
    of_node = jnp.concatenate([jnp.zeros((1, batch), bool), jnp.repeat(removed, 2, axis=0)])
    kept = ~jnp.take_along_axis(of_node, sequence, axis=0)
    target = jnp.where(kept, jnp.cumsum(kept, axis=0) - 1, stops)
    return jnp.zeros_like(sequence).at[target, jnp.arange(batch)].set(sequence, mode="drop")


def _recreated(lanes: Lanes, sequence: jax.Array, waiting: jax.Array, noise: jax.Array, key: jax.Array) -> Plans:
    """The plans after those who wait have been inserted, one by one in random order, as far as there are places."""
    order_key, noise_key = jax.random.split(key)
    requests = waiting.shape[0]
    numbers = jnp.arange(requests, dtype=jnp.int32)[:, None]
    turn = jnp.where(waiting, jax.random.uniform(order_key, waiting.shape), 2.0)
    rank = (turn[:, None] > turn).sum(axis=1)
    count = waiting.sum(axis=0)

    def insert(index: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        sequence, waiting = carry
        request = jnp.argmax(rank == index, axis=0).astype(jnp.int32)
        drawn = noise * jax.random.uniform(jax.random.fold_in(noise_key, index), (2, *sequence.shape))
        inserted, found = _inserted(lanes, sequence, request, drawn, index < count)
        return inserted, waiting & ~((numbers == request) & found)

    sequence, waiting = jax.lax.fori_loop(0, count.max(), insert, (sequence, waiting))
    unvisited = 2.0 * waiting.sum(axis=0)
    return Plans(sequence, waiting, _length(lanes, sequence) + lanes.penalty * unvisited)


def _inserted(
    lanes: Lanes, sequence: jax.Array, request: jax.Array, noise: jax.Array, active: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The sequences with a request each (`i32[B]`), where it is `active` and a place was found (`bool[B]`)."""
    cost, drop = _places(lanes, _stops(lanes, sequence), request, noise)
    cost = jnp.where(active, cost, jnp.inf)

    def best(cost: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        before = jax.lax.argmin(cost, 0, jnp.int32)
        return _with(sequence, request, before, _pick(drop, before)), before, jnp.isfinite(cost.min(axis=0))

    tested = lanes.tested
    if tested is None:
        inserted, _, found = best(cost)
        return jnp.where(found, inserted, sequence), found

    def test(loop: Any) -> Any:
        tests, cost, result, done, pending = loop
        inserted, before, possible = best(cost)
        routes = _route_around(inserted, before)
        longest = (routes > 0).sum(axis=1, dtype=jnp.int32).max()
        keeps = jax.vmap(keeps_limits, in_axes=(0, 0, None))(tested, routes, longest) & possible
        taken = keeps & pending
        row = jnp.arange(len(cost), dtype=jnp.int32)[:, None] == before
        return (
            tests + 1,
            jnp.where(row, jnp.inf, cost),
            jnp.where(taken, inserted, result),
            done | taken,
            pending & possible & ~keeps,
        )

    start = (jnp.zeros((), jnp.int32), cost, sequence, jnp.zeros_like(active), active)
    _, _, result, found, _ = jax.lax.while_loop(lambda loop: (loop[0] < MOST_TESTS) & loop[4].any(), test, start)
    return result, found


def _stops(lanes: Lanes, sequence: jax.Array) -> Stops:
    """Times and loads along the sequences."""
    is_depot = sequence == 0
    of_node = functools.partial(jnp.take_along_axis, indices=sequence, axis=0, mode="promise_in_bounds")
    earliest, deadline, service = of_node(lanes.earliest), of_node(lanes.deadline), of_node(lanes.service)
    after = _next(sequence)
    leg, length = _between(lanes.travel, sequence, after), _between(lanes.distance, sequence, after)

    def forward(leave: jax.Array, stop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        is_depot, earliest, service, leg = stop
        start = jnp.where(is_depot, earliest, jnp.maximum(leave, earliest))
        return start + service + leg, start

    def backward(latest: jax.Array, stop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        is_depot, deadline, service, leg = stop
        latest = jnp.where(is_depot, deadline, jnp.minimum(deadline, latest - service - leg))
        return latest, latest

    nobody = jnp.zeros_like(lanes.max_ride_time)
    start = jax.lax.scan(forward, nobody, (is_depot, earliest, service, leg))[1]
    latest = jax.lax.scan(backward, nobody, (is_depot, deadline, service, leg), reverse=True)[1]
    # Whole requests are inserted, so nobody is on board at a depot, and the sum needs no reset there.
    load = jnp.cumsum(of_node(lanes.demand), axis=0)
    vehicle = jnp.cumsum(is_depot, axis=0) - 1
    vehicles = lanes.capacity.shape[0]
    capacity = jnp.take_along_axis(lanes.capacity, jnp.minimum(vehicle, vehicles - 1), axis=0, mode="promise_in_bounds")
    room = jnp.where(vehicle < vehicles, capacity - load, -1)
    return Stops(sequence, is_depot, leg, length, earliest, deadline, service, start, latest, room)


def _places(lanes: Lanes, stops: Stops, request: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The cheapest drop-off for a pickup right after each stop: what both add with noise, `f32[T, B]`, and the stop
    before the drop-off, `i32[T, B]`; inf where there is no place.

    A walk along the sequence tries a stop for all drop-offs at once. Windows and capacity are exact; of the ride, the
    time on the way must fit, the rest is left to the test of the tour.

    Args:
        lanes: the problems.
        stops: of the sequences.
        request: `i32[B]`.
        noise: `f32[2, T, B]`, added to what a pickup and a drop-off cost after each stop.
    """
    pickup, drop_off = 2 * request + 1, 2 * request + 2
    position = jnp.arange(len(stops.node), dtype=jnp.int32)[:, None]
    demand = _pick(lanes.demand, pickup)
    from_pickup, from_drop_off = (_between(lanes.distance, node, stops.node) for node in (pickup, drop_off))
    time_to_pickup, time_to_drop_off = (_between(lanes.travel, stops.node, node) for node in (pickup, drop_off))
    time_from_pickup, time_from_drop_off = (_between(lanes.travel, node, stops.node) for node in (pickup, drop_off))
    direct, direct_time = _between(lanes.distance, pickup, drop_off), _between(lanes.travel, pickup, drop_off)
    boards = jnp.maximum(stops.start + stops.service + time_to_pickup, _pick(lanes.earliest, pickup))
    is_possible = (boards <= _pick(lanes.deadline, pickup)) & (demand <= stops.room)
    # Who is not on board leaves at inf, and stays there whatever is added.
    leaves_pickup = jnp.where(is_possible, boards + _pick(lanes.service, pickup), jnp.inf)
    onward = _next(stops.latest) - _pick(lanes.service, drop_off) - _next(time_from_drop_off)
    walk = {
        "position": position[:, 0],
        "leg": jnp.roll(stops.leg, 1, axis=0),
        "leg_from_pickup": time_from_pickup,
        "earliest": stops.earliest,
        # Nobody is brought on beyond the depot, or where there is no room.
        "deadline": jnp.where(stops.is_depot | (demand > stops.room), -jnp.inf, stops.deadline),
        "service": stops.service,
        "leg_to_drop_off": time_to_drop_off,
        # Finite, since who is not on board arrives at inf.
        "latest_drop_off": jnp.minimum(jnp.minimum(_pick(lanes.deadline, drop_off), onward), LATEST),
        "leaves_pickup": leaves_pickup,
        "drop": from_drop_off + _next(from_drop_off) - stops.length + noise[1],
        "both": from_pickup + direct + _next(from_drop_off) - stops.length + noise[1],
    }
    earliest_drop_off = _pick(lanes.earliest, drop_off)
    detour = from_pickup + _next(from_pickup) - stops.length

    def visit(carry: Any, stop: dict[str, jax.Array]) -> tuple[Any, None]:
        leave, ride, cheapest, drop = carry
        boards_here = position == stop["position"]
        leg = jnp.where(position == stop["position"] - 1, stop["leg_from_pickup"], stop["leg"])
        start = jnp.maximum(leave + leg, stop["earliest"])
        leave = jnp.where(start <= stop["deadline"], start + stop["service"], jnp.inf)
        leave = jnp.where(boards_here, stop["leaves_pickup"], leave)
        ride = jnp.where(boards_here, 0.0, ride + leg + stop["service"])
        last_leg = jnp.where(boards_here, direct_time, stop["leg_to_drop_off"])
        arrives = jnp.maximum(leave + last_leg, earliest_drop_off)
        is_possible = (arrives <= stop["latest_drop_off"]) & (ride + last_leg <= lanes.max_ride_time)
        cost = jnp.where(boards_here, stop["both"], detour + stop["drop"])
        cost = jnp.where(is_possible, cost, jnp.inf)
        drop = jnp.where(cost < cheapest, stop["position"], drop)
        return (leave, ride, jnp.minimum(cost, cheapest), drop), None

    never = jnp.full_like(stops.leg, jnp.inf)
    start = (never, jnp.zeros_like(never), never, jnp.zeros_like(stops.node))
    (_, _, cheapest, drop), _ = jax.lax.scan(visit, start, walk)
    return cheapest + noise[0], drop


def _with(sequence: jax.Array, request: jax.Array, before: jax.Array, drop: jax.Array) -> jax.Array:
    """The sequences with a pickup right after stop `before`, and the drop-off after `drop`, all `i32[B]`."""
    position = jnp.arange(len(sequence), dtype=jnp.int32)[:, None]
    by_one, by_two = jnp.roll(sequence, 1, axis=0), jnp.roll(sequence, 2, axis=0)
    cases = [position <= before, position == before + 1, position <= drop + 1, position == drop + 2]
    return jnp.select(cases, [sequence, 2 * request + 1, by_one, 2 * request + 2], by_two)


def _route_around(sequence: jax.Array, stop: jax.Array) -> jax.Array:
    """The tour that a stop, `i32[B]`, lies in or begins, without depots: `i32[B, N']`, 0 beyond its end."""
    stops = len(sequence)
    position = jnp.arange(stops, dtype=jnp.int32)[:, None]
    is_depot = sequence == 0
    begin = jnp.max(jnp.where(is_depot & (position <= stop), position, 0), axis=0)
    end = jnp.min(jnp.where(is_depot & (position > begin), position, stops), axis=0)
    index = begin + 1 + position[:-2]
    nodes = jnp.take_along_axis(sequence, jnp.minimum(index, stops - 1), axis=0)
    return jnp.where(index < end, nodes, 0).T


def _actions(sequence: jax.Array, problem: Problem) -> jax.Array:
    """One plan, `i32[T]`, as an agent plays it; see `ruin_and_recreate`."""
    vehicles, nodes = problem.instance.num_agents, problem.instance.num_nodes
    is_depot = sequence == 0
    position = jnp.arange(len(sequence), dtype=jnp.int32)
    depots = jnp.nonzero(is_depot, size=vehicles + 1)[0].astype(jnp.int32)
    lengths = jnp.diff(depots) - 1
    index = depots[:-1, None] + 1 + position[:nodes]
    routes = jnp.where(position[:nodes] < lengths[:, None], sequence[jnp.minimum(index, len(sequence) - 1)], 0)
    order = _driving_order(problem, routes[:, 0])
    return as_actions(routes[order], lengths[order])


def _driving_order(problem: Problem, first: jax.Array) -> jax.Array:
    """Whose tour each vehicle drives, `i32[V]`: of its capacity, the nearest `first` stop (`i32[V]`, 0: none) first."""
    capacity = problem.instance.capacity
    way = jnp.where(first > 0, problem.distance[0, first], jnp.inf)
    vehicle = jnp.arange(len(way), dtype=jnp.int32)
    is_before = (way < way[:, None]) | ((way == way[:, None]) & (vehicle < vehicle[:, None]))
    alike = capacity == capacity[:, None]
    rank = (alike & is_before).sum(axis=1)
    turn = (alike & (vehicle < vehicle[:, None])).sum(axis=1)
    drives = alike & (rank == turn[:, None])
    return jnp.argmax(drives, axis=1).astype(jnp.int32)


def _length(lanes: Lanes, sequence: jax.Array) -> jax.Array:
    """The distance that is driven, `f32[B]`."""
    return _between(lanes.distance, sequence, _next(sequence)).sum(axis=0)


def _between(matrix: jax.Array, start: jax.Array, end: jax.Array) -> jax.Array:
    """From nodes to nodes, `i32[..., B]` each, in `f32[(N+1)², B]`; one may lack the leading axis of the other."""
    size = round(len(matrix) ** 0.5)
    index = start * size + end
    found = jnp.take_along_axis(matrix, index.reshape(-1, index.shape[-1]), axis=0, mode="promise_in_bounds")
    return found.reshape(index.shape)


def _pick(array: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]`, of `[K, B]` at `i32[B]`."""
    return jnp.take_along_axis(array, index[None], axis=0, mode="promise_in_bounds")[0]


def _next(array: jax.Array) -> jax.Array:
    """Of the next stop, `[T, B]`; of the first behind the last, which is void."""
    return jnp.roll(array, -1, axis=0)


def _where(condition: jax.Array, a: Plans, b: Plans) -> Plans:
    return jax.tree.map(functools.partial(jnp.where, condition), a, b)


class SearchActor:
    """Plans each episode by `ruin_and_recreate` when it begins, and drives that plan.

    Where the plan is not allowed (rounded, a detour can take less time than the way that `lookahead` asks about), the
    next of its nodes that is comes first.
    """

    def __init__(self, env: Darp, rounds: int = 300):
        """For episodes of `env`; as many `rounds` for each."""
        self.env, self.rounds = env, rounds

    def init(self, num_envs: int) -> Carry:
        """Plans, `i32[E, N+V]`, and whether they are made, `bool[E]`."""
        return jnp.zeros((num_envs, self.env.max_episode_steps), jnp.int32), jnp.zeros(num_envs, bool)

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        plan, is_made = carry
        due = ~is_made | (state.step == 0)
        plan = jax.lax.cond(due.any(), lambda: jnp.where(due[:, None], self._plans(key, state), plan), lambda: plan)
        allowed = timestep.action_mask["vehicle"][:, 0]
        turn = jnp.where(allowed, jax.vmap(_turns)(plan, state.current_agent, state.visited), jnp.inf)
        return {"vehicle": jnp.argmin(turn, axis=1).astype(jnp.int32)[:, None]}, (plan, jnp.ones_like(is_made))

    def _plans(self, key: jax.Array, state: State) -> jax.Array:
        penalty = jnp.asarray(self.env.penalty_unvisited, jnp.float32)
        return ruin_and_recreate(state.binding, key, rounds=self.rounds, limits=self.env.limits, penalty=penalty)[0]


def _turns(plan: jax.Array, current_agent: jax.Array, visited: jax.Array) -> jax.Array:
    """When a plan, `i32[N+V]`, comes to each node, `f32[N+1]`, the depot being the end of the present tour."""
    position = jnp.arange(len(plan), dtype=jnp.int32)
    never = jnp.full(visited.shape, 2.0 * len(plan))
    turn = never.at[plan].set(position.astype(jnp.float32), mode="drop")
    is_end = (plan == 0) & (jnp.cumsum(plan == 0) == current_agent + 1)
    return turn.at[0].set(jnp.where(is_end.any(), jnp.argmax(is_end), 2 * len(plan)).astype(jnp.float32))

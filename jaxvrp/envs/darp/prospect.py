"""Lengths of the plans by simple rules after each choice (the pilot method, Duin & Voss 1999).

After each node that the vehicle could visit next, each of eight rules completes the plan: it visits the nearest stop
next, where the distance of the stop from the depot, being a drop-off, or the length of the passenger's ride counts for
or against the stop. Rules keep capacities and the windows of pickups; they visit urgent drop-offs first and count those
that they reach too late. They keep neither ride limits nor the number of vehicles: the policy that reads the lengths
learns what they are worth. A request that a rule leaves out counts as much as the extent of the instance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.problem.instance import as_counted
from jaxvrp.envs.darp.rules import State

PATIENCE = 0.25
"""A drop-off is urgent if it would be reached too late after this many extents more."""

URGENCY = 3.0
"""How much nearer urgent drop-offs seem, in extents: no two stops are farther apart."""

LATE = 0.3
"""The length that each late drop-off adds to a plan, in extents."""


class Rule(NamedTuple):
    """What is added to the distance to a stop, in extents.

    Attributes:
        outward: this share of the stop's distance from the depot.
        drop: for drop-offs.
        along: for pickups, this share of the distance to their drop-off.
    """

    outward: float
    drop: float
    along: float


RULES = (
    Rule(-0.3, 0.1, 0.0),
    Rule(-0.15, -0.3, -0.6),
    Rule(0.15, 0.0, 0.2),
    Rule(-0.6, -0.07, 0.2),
    Rule(-0.6, 0.0, -0.2),
    Rule(-0.15, -0.3, -0.2),
    Rule(0.3, 0.0, -0.2),
    Rule(-0.3, 0.25, 0.5),
)
"""Chosen greedily out of 148, so that the best of their plans tells most of what a search would reach after each
choice; in the order of the features."""

NEVER = 1e9
"""The weight of a stop that is not allowed."""

BLOCK = 128
"""So many instances side by side stay in a core's cache: twice as fast as a thousand."""


class Stops(struct.PyTreeNode):
    """Numbers of a pickup or drop-off, or of the next stop of each request; single instances last.

    Attributes:
        x, y: where it is, in extents from the depot, `f32[N/2, R]`.
        earliest, service: its window's beginning, and how long it takes, likewise.
        weight: what a rule adds to the distance to it, likewise; 0 until there is a rule.
    """

    x: jax.Array
    y: jax.Array
    earliest: jax.Array
    service: jax.Array
    weight: jax.Array


class Stage(struct.PyTreeNode):
    """Where a plan stands, in extents and time units; single instances last: a leaf is `[..., R]` for R of them.

    Attributes:
        pickup, dropoff: of the requests.
        deadline: of the pickups, `f32[N/2, R]`.
        due: of the drop-offs, likewise.
        demand: likewise.
        waiting, on_board: whether a request is not picked up yet, or on board, `bool[N/2, R]`.
        place: `f32[2, R]`.
        time, load, capacity: of the vehicle, `f32[R]`.
        opening: when vehicles may leave the depot, `f32[R]`.
        pace: time units per extent, `f32[R]`.
        rounds: whether travel times are rounded, `bool[R]`.
    """

    pickup: Stops
    dropoff: Stops
    deadline: jax.Array
    due: jax.Array
    demand: jax.Array
    waiting: jax.Array
    on_board: jax.Array
    place: jax.Array
    time: jax.Array
    load: jax.Array
    capacity: jax.Array
    opening: jax.Array
    pace: jax.Array
    rounds: jax.Array

    def next_stops(self, waiting: jax.Array) -> Stops:
        """Where requests are to be visited next if these, `bool[..., N/2, R]`, are `waiting`: their pickups."""
        return jax.tree.map(lambda pickup, dropoff: jnp.where(waiting, pickup, dropoff), self.pickup, self.dropoff)


class _Tours(struct.PyTreeNode):
    """Plans under way, one for each of `C` first choices: `f32[C, R]`, and `bool[C, N/2, R]` for what is to be done.

    A vehicle that `rests`, `bool[C, R]`, is at the depot; a plan that is `idle`, likewise, goes nowhere any more.
    """

    x: jax.Array
    y: jax.Array
    time: jax.Array
    load: jax.Array
    length: jax.Array
    waiting: jax.Array
    on_board: jax.Array
    rests: jax.Array
    idle: jax.Array


def excess(state: State, allowed: jax.Array) -> jax.Array:
    """How much longer each rule's plan is after each choice than the shortest of all plans, in extents.

    Args:
        state: of one instance.
        allowed: the mask, `bool[N+1]`.

    Returns:
        `f32[rules, N+1]`; 0 for what the mask forbids.
    """
    length = _completed(_stage(state))
    # A request has one stop that may be next, its pickup or its drop-off: both actions may show its number.
    length = jnp.concatenate([length[..., -1:], jnp.repeat(length[..., :-1], 2, axis=-1)], axis=-1)
    return jnp.where(allowed, length - jnp.where(allowed, length, NEVER).min(), 0.0)


def _stage(state: State) -> Stage:
    """Where one instance stands; no leaf has a last axis `R`."""
    instance, extent = state.binding, state.figures.extent

    offset = (instance.locs - instance.locs[0]) / extent

    def stops(first: int) -> Stops:
        x, y = offset[first::2, 0], offset[first::2, 1]
        return Stops(x, y, instance.earliest[first::2], instance.service_time[first::2], jnp.zeros_like(x))

    return Stage(
        pickup=stops(1),
        dropoff=stops(2),
        deadline=instance.deadline[1::2],
        due=instance.deadline[2::2],
        demand=instance.demand[1::2].astype(jnp.float32),
        waiting=~state.visited[1::2],
        on_board=rules.on_board(state)[2::2],
        place=(state.place - instance.locs[0]) / extent,
        time=state.current_time,
        load=state.current_load.astype(jnp.float32),
        capacity=instance.capacity[state.current_agent].astype(jnp.float32),
        opening=instance.earliest[0],
        pace=extent / instance.vehicle_speed,
        rounds=jnp.asarray(instance.round_travel_time, bool),
    )


@jax.custom_batching.custom_vmap
def _completed(stage: Stage) -> jax.Array:
    """Lengths of the plans of one instance by each rule after each first choice, in extents, `f32[rules, N/2+1]`.

    The choices are the next stops of the requests, then the depot; those of finished requests mean nothing.
    """
    return _completed_all(jax.tree.map(lambda leaf: leaf[..., None], stage))[..., 0]


@_completed.def_vmap
def _completed_side_by_side(size: int, batched: Any, stage: Stage) -> tuple[jax.Array, bool]:
    """Many instances with the batch axis last: five times as fast on a CPU as `vmap`, which would put it first."""

    def last(leaf: jax.Array, is_batched: bool) -> jax.Array:
        return jnp.moveaxis(leaf, 0, -1) if is_batched else jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

    stages = jax.tree.map(last, stage, batched[0])
    block = size if size % BLOCK else BLOCK
    blocks = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, block), -2, 0), stages)
    lengths = jnp.moveaxis(jax.lax.map(_completed_all, blocks), -1, 1)
    return lengths.reshape(size, *lengths.shape[2:]), True


def _completed_all(stage: Stage) -> jax.Array:
    """As `_completed`, of `R` instances side by side, `f32[rules, N/2+1, R]`."""
    first = _first(stage)
    ride = jnp.sqrt((stage.pickup.x - stage.dropoff.x) ** 2 + (stage.pickup.y - stage.dropoff.y) ** 2)

    def follow(rule: Rule) -> jax.Array:
        to_pickup = stage.pickup.replace(weight=rule.outward * _to_depot(stage.pickup) + rule.along * ride)
        to_dropoff = stage.dropoff.replace(weight=rule.outward * _to_depot(stage.dropoff) + rule.drop)
        return _follow(stage.replace(pickup=to_pickup, dropoff=to_dropoff), first)

    return jax.lax.map(follow, jax.tree.map(lambda *weights: jnp.array(weights, jnp.float32), *RULES))


def _to_depot(place: Stops | _Tours) -> jax.Array:
    """The distance, in extents."""
    return jnp.sqrt(place.x**2 + place.y**2)


def _follow(stage: Stage, first: jax.Array) -> jax.Array:
    """Lengths of the plans of one rule, from where they go `first`, `f32[C, R]` both."""
    requests = stage.demand.shape[0]
    visits, tours = _visits(stage), _begin(stage, len(first))
    begun = _go(stage, visits, tours, first)

    def is_open(loop: tuple[_Tours, jax.Array]) -> jax.Array:
        tours, steps = loop
        to_do = (tours.waiting | tours.on_board).any(axis=1)
        # Every stop once, and the depot in between: requests left after that stay unserved.
        return (steps < 2 * requests + 3) & (to_do & ~tours.idle).any()

    def step(loop: tuple[_Tours, jax.Array]) -> tuple[_Tours, jax.Array]:
        tours, steps = loop
        return _go(stage, visits, tours, _nearest(stage, tours)), steps + 1

    tours, _ = jax.lax.while_loop(is_open, step, (begun, jnp.zeros((), jnp.int32)))
    left = (tours.waiting | tours.on_board).sum(axis=1, dtype=jnp.float32)
    return tours.length + _to_depot(tours) + left


def _visits(stage: Stage) -> jax.Array:
    """What a visit is, `f32[N+1, R, 6]`: x, y, earliest, service, passengers taken, deadline.

    Of the pickups first, then of the drop-offs; the depot last, of which only where it is matters.
    """

    def rows(stops: Stops, taken: jax.Array, deadline: jax.Array) -> jax.Array:
        return jnp.stack([stops.x, stops.y, stops.earliest, stops.service, taken, deadline], axis=-1)

    pickups, dropoffs = rows(stage.pickup, stage.demand, stage.deadline), rows(stage.dropoff, -stage.demand, stage.due)
    depot = jnp.zeros_like(pickups[:1]).at[..., -1].set(jnp.inf)
    return jnp.concatenate([pickups, dropoffs, depot])


def _first(stage: Stage) -> jax.Array:
    """Where the plans go first, rows of `_visits`, `f32[N/2+1, R]`: the next stop of each request, then the depot.

    A request that is done has no next stop: the depot stands for it.
    """
    requests = stage.demand.shape[0]
    row = jnp.arange(requests, dtype=jnp.float32)[:, None]
    depot = jnp.full_like(stage.demand, 2.0 * requests)
    stop = jnp.where(stage.waiting, row, jnp.where(stage.on_board, row + requests, depot))
    return jnp.concatenate([stop, depot[:1]])


def _begin(stage: Stage, choices: int) -> _Tours:
    """Before the first choice."""

    def each(leaf: jax.Array) -> jax.Array:
        return jnp.broadcast_to(leaf, (choices, *leaf.shape))

    nobody = each(jnp.zeros_like(stage.time, bool))
    return _Tours(
        x=each(stage.place[0]),
        y=each(stage.place[1]),
        time=each(stage.time),
        load=each(stage.load),
        length=each(jnp.zeros_like(stage.time)),
        waiting=each(stage.waiting),
        on_board=each(stage.on_board),
        rests=nobody,
        idle=nobody,
    )


def _nearest(stage: Stage, tours: _Tours) -> jax.Array:
    """Where each plan goes next, rows of `_visits`, `f32[C, R]`: the depot's if no stop is possible.

    Rows are numbers of `float32`, whose minima take a tenth of the time that those of whole numbers take on a CPU.
    """
    stops, requests = stage.next_stops(tours.waiting), stage.demand.shape[0]
    gap = jnp.sqrt((stops.x - tours.x[:, None]) ** 2 + (stops.y - tours.y[:, None]) ** 2)
    arrival = tours.time[:, None] + _travel(stage, gap)
    fits = tours.load[:, None] + stage.demand <= stage.capacity
    offered = tours.on_board | (tours.waiting & fits & (arrival <= stage.deadline + rules.SLACK))
    is_urgent = tours.on_board & (arrival + PATIENCE * stage.pace > stage.due)
    # Kept as it is: three sums over requests would compute it anew.
    score = jnp.where(offered, gap + stops.weight - jnp.where(is_urgent, URGENCY, 0.0), NEVER)
    score = jax.lax.optimization_barrier(score)
    pickup = jnp.arange(requests, dtype=jnp.float32)[:, None]
    row = jnp.where(tours.waiting, pickup, pickup + requests)
    is_nearest = (score == score.min(axis=1, keepdims=True)) & (score < NEVER)
    return jnp.where(is_nearest, row, 2.0 * requests).min(axis=1)


def _go(stage: Stage, visits: jax.Array, tours: _Tours, row: jax.Array) -> _Tours:
    """Every plan goes to a row of `visits`, `f32[C, R]`. At the depot the next vehicle takes over."""
    requests = stage.demand.shape[0]
    row = jax.lax.optimization_barrier(row)
    visit = visits[row.astype(jnp.int32), jnp.arange(row.shape[1], dtype=jnp.int32)]
    x, y, earliest, service, taken, deadline = jnp.moveaxis(visit, -1, 0)
    gap = jnp.sqrt((x - tours.x) ** 2 + (y - tours.y) ** 2)
    start = jnp.maximum(tours.time + _travel(stage, gap), earliest)
    is_late = start > deadline + rules.SLACK
    pickup = jnp.arange(requests, dtype=jnp.float32)[:, None]
    picked_up, dropped = row[:, None] == pickup, row[:, None] == pickup + requests
    rests = row == 2.0 * requests
    return _Tours(
        x=x,
        y=y,
        time=jnp.where(rests, stage.opening, start + service),
        load=jnp.where(rests, 0.0, tours.load + taken),
        length=tours.length + gap + jnp.where(is_late, LATE, 0.0),
        waiting=tours.waiting & ~picked_up,
        on_board=(tours.on_board | picked_up) & ~dropped,
        rests=rests,
        idle=rests & tours.rests,
    )


def _travel(stage: Stage, length: jax.Array) -> jax.Array:
    """Time for a length in extents."""
    return as_counted(length * stage.pace, stage.rounds)

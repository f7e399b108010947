"""What plans would come to after each choice, if simple rules went on from there (the pilot method, Duin & Voss 1999).

From each node that the vehicle could go to, each of sixteen rules goes on to the end: the nearest stop next, where the
distance from the depot, being a drop-off, or how far a passenger wants to go counts for or against it; half of them
also see hills and valleys on the map, so that their plans differ where stops are about equally near. From the few
choices whose plans are the shortest, sixty-four further rules go on as well, on other hills: for these it matters which
is the best, and they are less work than they would be for all. Rules keep capacities and the windows of pickups; they
bring first who would soon be too late, and count who is. They keep no limits, and no number of vehicles: who looks at
them learns what they are worth. A request that a rule leaves out counts as much as the extent of the instance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.problem.instance import as_counted
from jaxvrp.envs.darp.rules import State

RIPPLE = 0.15
"""How high the hills of a rule are, in extents."""

WAVES = 8.0
"""How close they follow each other, in radians per extent."""

FURTHER_WAVES = (5.0, 15.0)
"""Likewise of the further rules, which begin with the first and stop before the second."""

FINALISTS = 8
"""Choices that the further rules go on from."""

PATIENCE = 0.25
"""Whoever would be too late after so many extents more is brought before anything else is done."""

URGENCY = 3.0
"""How much nearer the stops of these seem, in extents: farther apart no stops are."""

LATE = 0.3
"""What a plan loses by each who is brought too late, in extents."""


class Rule(NamedTuple):
    """What is added to the distance to a stop, in extents.

    Attributes:
        outward: so much of its distance from the depot.
        drop: for drop-offs.
        along: for pickups, so much of the distance to their drop-off.
        wave: `RIPPLE` times the sine of the product of this and its place, in radians per extent.
    """

    outward: float
    drop: float
    along: float
    wave: tuple[float, float] = (0.0, 0.0)


SMOOTH = (
    Rule(-0.3, 0.1, 0.0),
    Rule(-0.15, -0.3, -0.6),
    Rule(0.15, 0.0, 0.2),
    Rule(-0.6, -0.07, 0.2),
    Rule(-0.6, 0.0, -0.2),
    Rule(-0.15, -0.3, -0.2),
    Rule(0.3, 0.0, -0.2),
    Rule(-0.3, 0.25, 0.5),
)
"""Those of 148 whose best plan of all tells most of what a search would come to after each choice, taken one by one:
see `benchmarks/NOTES.md`."""


def _rippled(rule: Rule, share: float, waves: float = WAVES) -> Rule:
    """The rule on a map with hills, whose waves go in this direction, a share of the circle."""
    angle = 2 * math.pi * share
    return rule._replace(wave=(waves * math.cos(angle), waves * math.sin(angle)))


RULES = SMOOTH + tuple(_rippled(rule, i / len(SMOOTH)) for i, rule in enumerate(SMOOTH))
"""Those that go on from all choices, in the order of the features."""


def _further(count: int) -> tuple[Rule, ...]:
    """Rules on as many maps: directions follow each other by the golden section, so that none comes twice."""
    golden, (least, most) = (math.sqrt(5.0) - 1.0) / 2.0, FURTHER_WAVES
    steps = (least + (most - least) * i / count for i in range(count))
    return tuple(_rippled(SMOOTH[i % len(SMOOTH)], i * golden % 1.0, waves) for i, waves in enumerate(steps))


FURTHER = _further(64)
"""Those that go on from the finalists."""

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
        allowed: whether the mask allows the next stop of a request, or at last the depot, `bool[N/2+1, R]`.
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
    allowed: jax.Array

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


class Excess(NamedTuple):
    """How much longer plans would be after each choice than after the best one, in extents.

    Attributes:
        by_rule: of each of the `RULES`, than the best plan of these, `f32[rules, N+1]`.
        least: the best plan of all rules after the choice, than the best of all, `f32[N+1]`.
    """

    by_rule: jax.Array
    least: jax.Array


def excess(state: State, allowed: jax.Array) -> Excess:
    """What is in prospect after each choice.

    Args:
        state: of one instance.
        allowed: the mask, `bool[N+1]`; what it forbids has 0, and so has all if it allows nothing.
    """
    by_request = _completed(_stage(state, allowed))

    def of_choices(length: jax.Array) -> jax.Array:
        # A request has one stop that may be next, its pickup or its drop-off: both actions may show its number.
        length = jnp.concatenate([length[..., -1:], jnp.repeat(length[..., :-1], 2, axis=-1)], axis=-1)
        return jnp.where(allowed, length - jnp.where(allowed, length, NEVER).min(), 0.0)

    return Excess(*map(of_choices, by_request))


def _stage(state: State, allowed: jax.Array) -> Stage:
    """Where one instance stands, and what the mask, `bool[N+1]`, allows; no leaf has a last axis `R`."""
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
        allowed=jnp.concatenate([allowed[1::2] | allowed[2::2], allowed[:1]]),
    )


class _Lengths(NamedTuple):
    """Of plans, in extents: `f32[rules, C, ...]` by each of the `RULES`, and the least by any rule, `f32[C, ...]`."""

    by_rule: jax.Array
    least: jax.Array


@jax.custom_batching.custom_vmap
def _completed(stage: Stage) -> _Lengths:
    """Lengths of the plans of one instance after `N/2+1` choices.

    These are the next stops of the requests (nothing is said of those that are done), then the depot.
    """
    lengths = _completed_all(jax.tree.map(lambda leaf: leaf[..., None], stage))
    return jax.tree.map(lambda leaf: leaf[..., 0], lengths)


@_completed.def_vmap
def _completed_side_by_side(size: int, batched: Any, stage: Stage) -> tuple[_Lengths, Any]:
    """Many instances last: five times as fast on a CPU as `vmap`, which would put them first."""

    def last(leaf: jax.Array, is_batched: bool) -> jax.Array:
        return jnp.moveaxis(leaf, 0, -1) if is_batched else jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

    def first(leaf: jax.Array) -> jax.Array:
        leaf = jnp.moveaxis(leaf, -1, 1)
        return leaf.reshape(size, *leaf.shape[2:])

    stages = jax.tree.map(last, stage, batched[0])
    block = size if size % BLOCK else BLOCK
    blocks = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, block), -2, 0), stages)
    lengths = jax.tree.map(first, jax.lax.map(_completed_all, blocks))
    return lengths, jax.tree.map(lambda _: True, lengths)


def _completed_all(stage: Stage) -> _Lengths:
    """As `_completed`, of instances side by side: `R` is the last axis."""
    first = _first(stage)
    by_rule = _followed(stage, RULES, first)
    least = by_rule.min(axis=0)
    promising = jnp.where(stage.allowed, -least, -NEVER)
    finalists = jax.lax.top_k(promising.T, min(FINALISTS, len(first)))[1].T
    further = _followed(stage, FURTHER, jnp.take_along_axis(first, finalists, axis=0)).min(axis=0)
    return _Lengths(by_rule, least.at[finalists, jnp.arange(first.shape[1], dtype=jnp.int32)].min(further))


def _followed(stage: Stage, rules: tuple[Rule, ...], first: jax.Array) -> jax.Array:
    """Lengths of the plans by each of some rules, `f32[rules, C, R]`, from where they go `first`, `f32[C, R]`."""
    ride = jnp.sqrt((stage.pickup.x - stage.dropoff.x) ** 2 + (stage.pickup.y - stage.dropoff.y) ** 2)

    def follow(rule: Rule) -> jax.Array:
        to_pickup = stage.pickup.replace(weight=_weight(stage.pickup, rule) + rule.along * ride)
        to_dropoff = stage.dropoff.replace(weight=_weight(stage.dropoff, rule) + rule.drop)
        return _follow(stage.replace(pickup=to_pickup, dropoff=to_dropoff), first)

    each = jax.tree.map(lambda *weights: jnp.array(weights, jnp.float32), *rules)
    return jax.lax.map(follow, each)


def _weight(stops: Stops, rule: Rule) -> jax.Array:
    """What a rule adds to the distance to pickups and drop-offs alike, `f32[N/2, R]`."""
    wave_x, wave_y = rule.wave
    return rule.outward * _to_depot(stops) + RIPPLE * jnp.sin(wave_x * stops.x + wave_y * stops.y)


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
        # Every stop once, and home between: whoever is left then, is left out.
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

    Whoever is done has none: the depot.
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
    """Where each plan goes next, rows of `_visits`, `f32[C, R]`: the depot's if no other is offered.

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

"""Lengths of the plans by simple rules after each choice (the pilot method, Duin & Voss 1999).

After each node that the vehicle could visit next, each of eight rules completes the plan: it visits the nearest stop
next, where the distance of the stop from the depot, being a drop-off, or the length of the passenger's ride counts for
or against the stop. Rules keep capacities and the windows of pickups; they visit urgent drop-offs first and count those
that they reach too late. They keep neither ride limits nor the number of vehicles: the policy that reads the lengths
learns what they are worth. With streets, they drive straight, at the mean pace of the streets. A request that a rule
leaves out counts as much as the extent of the instance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.problem.instance import as_counted
from jaxvrp.envs.darp.rules import State

PATIENCE = 0.25  # a drop-off is urgent if it would be reached too late after this many extents more
URGENCY = 3.0  # how much nearer urgent drop-offs seem, in extents: no two stops are farther apart
LATE = 0.3  # the length that each late drop-off adds to a plan, in extents
RULES = (
    (-0.3, 0.1, 0.0),
    (-0.15, -0.3, -0.6),
    (0.15, 0.0, 0.2),
    (-0.6, -0.07, 0.2),
    (-0.6, 0.0, -0.2),
    (-0.15, -0.3, -0.2),
    (0.3, 0.0, -0.2),
    (-0.3, 0.25, 0.5),
)
"""What is added to the distance to a stop: a share of its distance from the depot; for drop-offs, so many extents; for
pickups, a share of the ride. Chosen greedily out of 148 rules, so that the best of their plans tells most of what a
search would reach after each choice."""

NEVER = 1e9  # the weight of a stop that is not allowed
BLOCK = 128  # so many instances side by side stay in a core's cache: twice as fast as a thousand


class Stops(NamedTuple):
    """All pickups, or all drop-offs: place in extents from the depot, window, service time; `f32[N/2, R]` each."""

    x: jax.Array
    y: jax.Array
    earliest: jax.Array
    deadline: jax.Array
    service: jax.Array


class Stage(NamedTuple):
    """Where `R` instances side by side stand, in extents and time units."""

    pickup: Stops  # of the requests
    dropoff: Stops  # of the requests
    demand: jax.Array  # `f32[N/2, R]`
    waiting: jax.Array  # `bool[N/2, R]`
    on_board: jax.Array  # `bool[N/2, R]`
    x: jax.Array  # `f32[R]`, of the vehicle
    y: jax.Array  # `f32[R]`, of the vehicle
    time: jax.Array  # `f32[R]`, of the vehicle
    load: jax.Array  # `f32[R]`, of the vehicle
    capacity: jax.Array  # `f32[R]`, of the vehicle
    opening: jax.Array  # `f32[R]`, when vehicles may leave the depot
    pace: jax.Array  # `f32[R]`, time units per extent
    is_rounded: jax.Array  # `bool[R]`, whether travel times are
    slack: jax.Array  # `f32[R]`, time that is granted on deadlines


class Tours(NamedTuple):
    """Plans under way, one for each of `C` first choices."""

    x: jax.Array  # `f32[C, R]`
    y: jax.Array  # `f32[C, R]`
    time: jax.Array  # `f32[C, R]`
    load: jax.Array  # `f32[C, R]`
    length: jax.Array  # `f32[C, R]`
    waiting: jax.Array  # `bool[C, N/2, R]`, the requests that are left
    on_board: jax.Array  # `bool[C, N/2, R]`, the requests that are left
    rests: jax.Array  # `bool[C, R]`, the vehicle is at the depot
    idle: jax.Array  # `bool[C, R]`, the plan goes nowhere any more


def excess(state: State, allowed: jax.Array) -> jax.Array:
    """How much longer each rule's plan is after each choice than the shortest of all plans, in extents.

    `f32[rules, N+1]`; 0 for what the mask, `bool[N+1]`, forbids.
    """
    instance, extent = state.binding, state.figures.extent
    offset = (instance.locs - instance.locs[0]) / extent
    place = (state.place - instance.locs[0]) / extent
    pickup, dropoff = (
        Stops(
            *(offset[first::2, 0], offset[first::2, 1]),
            *(instance.earliest[first::2], instance.deadline[first::2], instance.service_time[first::2]),
        )
        for first in (1, 2)
    )
    stage = Stage(
        pickup=pickup,
        dropoff=dropoff,
        demand=instance.demand[1::2].astype(jnp.float32),
        waiting=~state.visited[1::2],
        on_board=rules.on_board(state)[2::2],
        x=place[0],
        y=place[1],
        time=state.current_time,
        load=state.current_load.astype(jnp.float32),
        capacity=instance.capacity[state.current_agent].astype(jnp.float32),
        opening=instance.earliest[0],
        pace=state.figures.pace(instance),
        is_rounded=jnp.asarray(instance.round_travel_time, bool),
        slack=state.figures.slack,
    )
    length = _completed(stage)
    # A request has one stop that may be next, its pickup or its drop-off: both actions may show its number.
    length = jnp.concatenate([length[..., -1:], jnp.repeat(length[..., :-1], 2, axis=-1)], axis=-1)
    return jnp.where(allowed, length - jnp.where(allowed, length, NEVER).min(), 0.0)


@jax.custom_batching.custom_vmap
def _completed(stage: Stage) -> jax.Array:
    """Lengths of the plans of one instance (no axis `R`), in extents: `f32[rules, N/2+1]`.

    First choices are the next stops of the requests, then the depot; those of finished requests mean nothing.
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
    """As `_completed`, `f32[rules, N/2+1, R]`."""
    pickup, dropoff = stage.pickup, stage.dropoff
    ride = jnp.sqrt((pickup.x - dropoff.x) ** 2 + (pickup.y - dropoff.y) ** 2)

    def follow(rule: jax.Array) -> jax.Array:
        outward, drop, along = rule
        to_pickup = outward * jnp.sqrt(pickup.x**2 + pickup.y**2) + along * ride
        return _follow(stage, to_pickup, outward * jnp.sqrt(dropoff.x**2 + dropoff.y**2) + drop)

    return jax.lax.map(follow, jnp.array(RULES, jnp.float32))


def _follow(stage: Stage, to_pickup: jax.Array, to_dropoff: jax.Array) -> jax.Array:
    """Lengths of the plans of one rule, `f32[N/2+1, R]`, which adds so much to the distances to stops."""
    requests = len(stage.demand)
    row = jnp.arange(requests, dtype=jnp.float32)[:, None]
    depot = jnp.full_like(stage.demand, 2.0 * requests)
    first = jnp.where(stage.waiting, row, jnp.where(stage.on_board, row + requests, depot))
    # What a visit is, `f32[N+1, R, 6]`: x, y, earliest, deadline, service, passengers taken; of the pickups first, then
    # of the drop-offs, and of the depot, of which only where it is matters.
    pickups = jnp.stack([*stage.pickup, stage.demand], axis=-1)
    dropoffs = jnp.stack([*stage.dropoff, -stage.demand], axis=-1)
    visits = jnp.concatenate([pickups, dropoffs, jnp.zeros_like(pickups[:1]).at[..., 3].set(jnp.inf)])

    def each(leaf: jax.Array) -> jax.Array:
        return jnp.broadcast_to(leaf, (requests + 1, *leaf.shape))

    no = jnp.zeros_like(stage.time, bool)
    vehicle = (stage.x, stage.y, stage.time, stage.load, jnp.zeros_like(stage.time))
    start = Tours(*map(each, (*vehicle, stage.waiting, stage.on_board, no, no)))
    begun = _go(stage, visits, start, jnp.concatenate([first, depot[:1]]))
    # Every stop once, and the depot in between: requests left after that stay unserved. Padding has no stops.
    most = 2 * (stage.demand > 0).sum(axis=0, dtype=jnp.int32) + 3

    def is_open(loop: tuple[Tours, jax.Array]) -> jax.Array:
        tours, steps = loop
        to_do = (tours.waiting | tours.on_board).any(axis=1)
        return ((steps < most) & to_do & ~tours.idle).any()

    def step(loop: tuple[Tours, jax.Array]) -> tuple[Tours, jax.Array]:
        tours, steps = loop
        row = jnp.where(steps < most, _nearest(stage, tours, to_pickup, to_dropoff), depot[0])
        return _go(stage, visits, tours, row), steps + 1

    tours, _ = jax.lax.while_loop(is_open, step, (begun, jnp.zeros((), jnp.int32)))
    left = (tours.waiting | tours.on_board).sum(axis=1, dtype=jnp.float32)
    return tours.length + jnp.sqrt(tours.x**2 + tours.y**2) + left


def _nearest(stage: Stage, tours: Tours, to_pickup: jax.Array, to_dropoff: jax.Array) -> jax.Array:
    """Where each plan goes next, rows of visits, `f32[C, R]`: the depot's if no stop is possible.

    Rows are numbers of `float32`, whose minima take a tenth of the time that those of whole numbers take on a CPU.
    """
    requests, waiting = len(stage.demand), tours.waiting
    x, y = (jnp.where(waiting, stage.pickup[axis], stage.dropoff[axis]) for axis in (0, 1))
    gap = jnp.sqrt((x - tours.x[:, None]) ** 2 + (y - tours.y[:, None]) ** 2)
    arrival = tours.time[:, None] + as_counted(gap * stage.pace, stage.is_rounded)
    fits = tours.load[:, None] + stage.demand <= stage.capacity
    offered = tours.on_board | (waiting & fits & (arrival <= stage.pickup.deadline + stage.slack))
    is_urgent = tours.on_board & (arrival + PATIENCE * stage.pace > stage.dropoff.deadline)
    weighted = gap + jnp.where(waiting, to_pickup, to_dropoff) - jnp.where(is_urgent, URGENCY, 0.0)
    # Kept as it is: three sums over requests would compute it anew.
    score = jax.lax.optimization_barrier(jnp.where(offered, weighted, NEVER))
    pickup = jnp.arange(requests, dtype=jnp.float32)[:, None]
    row = jnp.where(waiting, pickup, pickup + requests)
    is_nearest = (score == score.min(axis=1, keepdims=True)) & (score < NEVER)
    return jnp.where(is_nearest, row, 2.0 * requests).min(axis=1)


def _go(stage: Stage, visits: jax.Array, tours: Tours, row: jax.Array) -> Tours:
    """Every plan goes to a row of `visits`, `f32[C, R]`. At the depot the next vehicle takes over."""
    requests = len(stage.demand)
    row = jax.lax.optimization_barrier(row)
    visit = visits[row.astype(jnp.int32), jnp.arange(row.shape[1], dtype=jnp.int32)]
    x, y, earliest, deadline, service, taken = jnp.moveaxis(visit, -1, 0)
    gap = jnp.sqrt((x - tours.x) ** 2 + (y - tours.y) ** 2)
    start = jnp.maximum(tours.time + as_counted(gap * stage.pace, stage.is_rounded), earliest)
    pickup = jnp.arange(requests, dtype=jnp.float32)[:, None]
    picked_up, dropped = row[:, None] == pickup, row[:, None] == pickup + requests
    rests = row == 2.0 * requests
    return Tours(
        x=x,
        y=y,
        time=jnp.where(rests, stage.opening, start + service),
        load=jnp.where(rests, 0.0, tours.load + taken),
        length=tours.length + gap + jnp.where(start > deadline + stage.slack, LATE, 0.0),
        waiting=tours.waiting & ~picked_up,
        on_board=(tours.on_board | picked_up) & ~dropped,
        rests=rests,
        idle=rests & tours.rests,
    )

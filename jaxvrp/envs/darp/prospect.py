"""What plans would come to after each choice, if simple rules went on from there (the pilot method, Duin & Voss 1999).

From each node that the vehicle could go to, each of four rules goes on to the end: the nearest stop next, where the
distance from the depot, or being a drop-off, counts for or against it. They keep capacities and the windows of pickups,
not those of drop-offs, limits, or the number of vehicles: who looks at them learns what they are worth. A request that
a rule leaves out counts as much as the extent of the instance.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.rules import State

RULES = ((0.0, 0.0), (-0.3, 0.0), (0.3, 0.0), (0.0, -0.15))
"""What is added to the distance to a stop: so much of its distance from the depot; for drop-offs, so many extents."""

NEVER = 1e9
"""The weight of a stop that is not allowed."""

BLOCK = 128
"""So many instances side by side stay in a core's cache: twice as fast as a thousand."""


class Stage(struct.PyTreeNode):
    """Where a plan stands, in extents and time units; single instances last: a leaf is `[..., R]` for R of them.

    Attributes:
        x, y: of the nodes but the depot, which is at 0, `f32[N, R]`: first all pickups, then all drop-offs.
        earliest, service: likewise.
        deadline: of the pickups, `f32[N/2, R]`.
        demand: likewise.
        waiting, on_board: whether a request is not picked up yet, or on board, `bool[N/2, R]`.
        place: `f32[2, R]`.
        time, load, capacity: of the vehicle, `f32[R]`.
        opening: when vehicles may leave the depot, `f32[R]`.
        pace: time units per extent, `f32[R]`.
        rounds: whether travel times are rounded, `bool[R]`.
    """

    x: jax.Array
    y: jax.Array
    earliest: jax.Array
    service: jax.Array
    deadline: jax.Array
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


class _Tours(struct.PyTreeNode):
    """Plans under way, one for each first choice: `f32[N+1, R]`, and `bool[N+1, N/2, R]` for what is to be done."""

    x: jax.Array
    y: jax.Array
    time: jax.Array
    load: jax.Array
    length: jax.Array
    waiting: jax.Array
    on_board: jax.Array


def excess(state: State, allowed: jax.Array) -> jax.Array:
    """How much longer plans would be after each choice than after the best one, in extents, `f32[rules, N+1]`.

    Args:
        state: of one instance.
        allowed: the mask, `bool[N+1]`; what it forbids has 0, and so has all if it allows nothing.
    """
    length = _completed(_stage(state))
    pickups = allowed.shape[0] // 2
    # In the order of the actions again.
    customers = jnp.stack([length[:, :pickups], length[:, pickups:-1]], axis=-1).reshape(length.shape[0], -1)
    length = jnp.concatenate([length[:, -1:], customers], axis=1)
    least = jnp.where(allowed, length, NEVER).min()
    return jnp.where(allowed, length - least, 0.0)


def _stage(state: State) -> Stage:
    """Where one instance stands; no leaf has a last axis `R`."""
    instance, extent = state.binding, state.figures.extent

    def by_stop(of_nodes: jax.Array) -> jax.Array:
        return jnp.concatenate([of_nodes[1::2], of_nodes[2::2]])

    offset = (instance.locs - instance.locs[0]) / extent
    return Stage(
        x=by_stop(offset[:, 0]),
        y=by_stop(offset[:, 1]),
        earliest=by_stop(instance.earliest),
        service=by_stop(instance.service_time),
        deadline=instance.deadline[1::2],
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
    """Lengths of the plans of one instance, in extents, `f32[rules, N+1]`: first choices are stops, then the depot."""
    return _completed_all(jax.tree.map(lambda leaf: leaf[..., None], stage))[..., 0]


@_completed.def_vmap
def _completed_side_by_side(size: int, batched: Any, stage: Stage) -> tuple[jax.Array, bool]:
    """Many instances last: five times as fast on a CPU as `vmap`, which would put them first."""

    def last(leaf: jax.Array, is_batched: bool) -> jax.Array:
        return jnp.moveaxis(leaf, 0, -1) if is_batched else jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

    stages = jax.tree.map(last, stage, batched[0])
    if size % BLOCK:
        return jnp.moveaxis(_completed_all(stages), -1, 0), True
    blocks = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, BLOCK), -2, 0), stages)
    lengths = jnp.moveaxis(jax.lax.map(_completed_all, blocks), -1, 1)
    return lengths.reshape(size, *lengths.shape[2:]), True


def _completed_all(stage: Stage) -> jax.Array:
    """As `_completed`, of instances side by side: `f32[rules, N+1, R]`."""
    home = jnp.sqrt(stage.x**2 + stage.y**2)
    is_drop = (jnp.arange(home.shape[0]) >= stage.demand.shape[0])[:, None]
    weights = jnp.stack([outward * home + jnp.where(is_drop, drop, 0.0) for outward, drop in RULES])
    return jax.lax.map(lambda weight: _follow(stage, weight), weights)


def _follow(stage: Stage, weight: jax.Array) -> jax.Array:
    """Lengths of the plans of one rule, which adds a `weight` to each stop, `f32[N, R]`: `f32[N+1, R]`."""
    stops = stage.x.shape[0]
    first = jnp.concatenate([jnp.eye(stops, dtype=bool), jnp.zeros((1, stops), bool)])
    begun = _go(stage, _begin(stage), jnp.broadcast_to(first[..., None], (*first.shape, stage.x.shape[1])))

    def is_open(loop: tuple[_Tours, jax.Array]) -> jax.Array:
        tours, steps = loop
        # Every stop once, and home between: whoever is left then, is left out.
        return (steps < stops + 3) & (tours.waiting.any() | tours.on_board.any())

    def step(loop: tuple[_Tours, jax.Array]) -> tuple[_Tours, jax.Array]:
        tours, steps = loop
        return _go(stage, tours, _nearest(stage, tours, weight)), steps + 1

    tours, _ = jax.lax.while_loop(is_open, step, (begun, jnp.zeros((), jnp.int32)))
    left = (tours.waiting | tours.on_board).sum(axis=1, dtype=jnp.float32)
    return tours.length + jnp.sqrt(tours.x**2 + tours.y**2) + left


def _begin(stage: Stage) -> _Tours:
    """Before the first choice."""
    choices = stage.x.shape[0] + 1

    def each(leaf: jax.Array) -> jax.Array:
        return jnp.broadcast_to(leaf, (choices, *leaf.shape))

    return _Tours(
        x=each(stage.place[0]),
        y=each(stage.place[1]),
        time=each(stage.time),
        load=each(stage.load),
        length=each(jnp.zeros_like(stage.time)),
        waiting=each(stage.waiting),
        on_board=each(stage.on_board),
    )


def _nearest(stage: Stage, tours: _Tours, weight: jax.Array) -> jax.Array:
    """The stop that each plan goes to next, `bool[N+1, N, R]`; none if there is no other than the depot."""
    gap = jnp.sqrt((stage.x - tours.x[:, None]) ** 2 + (stage.y - tours.y[:, None]) ** 2)
    pickups = stage.demand.shape[0]
    arrival = tours.time[:, None] + _travel(stage, gap[:, :pickups])
    fits = tours.load[:, None] + stage.demand <= stage.capacity
    welcome = tours.waiting & fits & (arrival <= stage.deadline + rules.SLACK)
    offered = jnp.concatenate([welcome, tours.on_board], axis=1)
    score = jnp.where(offered, gap + weight, NEVER)
    return offered & (score == score.min(axis=1, keepdims=True))


def _go(stage: Stage, tours: _Tours, stop: jax.Array) -> _Tours:
    """Every plan drives to its `stop`, `bool[N+1, N, R]`, home if there is none, where the next vehicle takes over."""

    def chosen(of_stops: jax.Array) -> jax.Array:
        return jnp.where(stop, of_stops, 0.0).sum(axis=1)

    pickups = stage.demand.shape[0]
    picked_up, dropped = stop[:, :pickups], stop[:, pickups:]
    x, y = chosen(stage.x), chosen(stage.y)
    gap = jnp.sqrt((x - tours.x) ** 2 + (y - tours.y) ** 2)
    served = jnp.maximum(tours.time + _travel(stage, gap), chosen(stage.earliest)) + chosen(stage.service)
    taken = jnp.where(picked_up, stage.demand, 0.0) - jnp.where(dropped, stage.demand, 0.0)
    drives_on = stop.any(axis=1)
    return _Tours(
        x=x,
        y=y,
        time=jnp.where(drives_on, served, stage.opening),
        load=jnp.where(drives_on, tours.load + taken.sum(axis=1), 0.0),
        length=tours.length + gap,
        waiting=tours.waiting & ~picked_up,
        on_board=(tours.on_board | picked_up) & ~dropped,
    )


def _travel(stage: Stage, length: jax.Array) -> jax.Array:
    """Time for a length in extents."""
    time = length * stage.pace
    return jnp.where(stage.rounds, jnp.round(time), time)

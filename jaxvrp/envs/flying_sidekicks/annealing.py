"""Simulated annealing of whole plans of a truck with several drones: the driver's tasks in their order. Pure JAX.

A plan is `i32[P]`. Its first 2 n - 1 numbers are nodes, each customer twice and the depot once, in the order of the
tasks: the first time the truck drives there, or launches a drone to it, the second time it serves there, or recovers
the drone; at the depot it is home. The other n say which vehicle serves each node: 0 the truck, d drone d, or the first
drone that can if that is away. Plans are the last axis, `L`. On its way, annealing may exceed endurances, for a fine
that rises.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.flying_sidekicks import rules
from jaxvrp.envs.flying_sidekicks.env import TRUCK, FlyingSidekicks
from jaxvrp.envs.flying_sidekicks.instance import Instance, as_float32, trim
from jaxvrp.envs.flying_sidekicks.rules import DRIVE, LAUNCH, NOTHING, RECOVER, SERVE
from jaxvrp.envs.truck_and_drone.chains import Method, among_rest, anneal_from, below, kind_by, nearest_of
from jaxvrp.episodes import Episode, from_states
from jaxvrp.players import Searched
from jaxvrp.search.stop import Stop

NEAREST = 10
"""Nodes near a customer, to which changes bring it."""

GAPS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8)
"""Places between a launch and the recovery, from which one is drawn."""

RELOCATE, SWAP, BLOCK, TURN = range(4)
SHARES = (0.6, 0.2, 0.1, 0.1)
"""Kinds of changes, and how often each is drawn: one or both tasks of a customer move, perhaps to another vehicle; two
customers change places, and perhaps vehicles; up to 6 tasks move together; the tasks between two places are turned."""


class Tables(struct.PyTreeNode):
    """What is read of an instance with `n` nodes."""

    near: jax.Array  # `i32[n, K]`, the nearest nodes of each for the truck
    instance: Instance


def make_tables(instance: Instance) -> Tables:
    """The tables of an instance without padding (JAX arrays)."""
    return Tables(nearest_of(instance.truck_time + instance.truck_time.T, NEAREST), instance)


class _Drive(NamedTuple):
    """Where a plan stands on its way, `L` of them."""

    walk: rules.Walk
    seen: jax.Array  # `u32[W, L]`, nodes that came once, in bits
    wrong: jax.Array  # `bool[L]`, it is no plan
    is_home: jax.Array  # `bool[L]`


Tasks = tuple[jax.Array, jax.Array, jax.Array]
"""Kind, node and drone of each."""


def followed(instance: Instance, codes: jax.Array) -> tuple[_Drive, Tasks]:
    """The ends of plans `i32[P, L]`, and kind, node and drone of their tasks, `i32[2 n - 1, L]` each."""
    nodes = instance.num_nodes
    order, vehicles = codes[: 2 * nodes - 1], codes[2 * nodes - 1 :]
    wanted = jnp.take_along_axis(vehicles, order, axis=0, mode="promise_in_bounds")
    lanes = codes.shape[1:]
    words = jax.lax.broadcasted_iota(jnp.int32, (1 + (nodes - 1) // 32, *lanes), 0)
    no_fly = instance.no_fly.ravel()

    def step(drive: _Drive, row: tuple[jax.Array, jax.Array]) -> tuple[_Drive, Tasks]:
        (node, wish), walk = row, drive.walk
        bit = jnp.where(words == node // 32, jnp.uint32(1) << (node % 32).astype(jnp.uint32), jnp.uint32(0))
        is_first, flies = ~((drive.seen & bit) != 0).any(axis=0), wish > 0
        drones = rules.drone_indices(walk)
        may_go = (walk.customer == 0) & ~no_fly.at[drones * nodes + node].get(mode="promise_in_bounds")
        is_wish = drones == wish - 1
        here = jnp.where(is_first, may_go & (is_wish | ~(may_go & is_wish).any(axis=0)), walk.customer == node)
        drone = jax.lax.argmax(here, 0, jnp.int32)
        serves = (walk.stop == node) & walk.is_pending
        by_truck = jnp.where(is_first, DRIVE, jnp.where(serves, SERVE, NOTHING))
        kind = jnp.where(flies, jnp.where(is_first, LAUNCH, RECOVER), by_truck)
        same_stop = (drones == drone) & walk.is_here
        wrong = (kind == LAUNCH) & ~here.any(axis=0)
        wrong |= (kind == RECOVER) & same_stop.any(axis=0)
        wrong |= drive.is_home & ((kind == DRIVE) | (kind == LAUNCH))
        after = _Drive(
            rules.perform(instance, walk, kind, node, drone),
            drive.seen | bit,
            drive.wrong | wrong,
            drive.is_home | ((kind == DRIVE) & (node == 0)),
        )
        return after, (kind, node, drone)

    none = jnp.zeros(lanes, bool)
    start = _Drive(rules.begin(instance.num_drones, lanes), jnp.zeros(words.shape, jnp.uint32), none, none)
    return jax.lax.scan(step, start, (order, wanted))


def price(tables: Tables, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The makespan of plans `i32[P, L]`, inf if it is none, and the time by which flights exceed endurances."""
    end, _ = followed(tables.instance, codes)
    return jnp.where(end.wrong, jnp.inf, end.walk.clock), end.walk.excess


def changed_codes(tables: Tables, codes: jax.Array, drawn: jax.Array) -> jax.Array:
    """A change of each plan, `i32[P, L]`; `drawn` are numbers in [0, 1), `f32[8, L]`."""
    nodes, drones = tables.instance.num_nodes, tables.instance.num_drones
    order, vehicles = codes[: 2 * nodes - 1], codes[2 * nodes - 1 :]
    kind = kind_by(SHARES, drawn[0])
    customer = 1 + below(nodes - 1, drawn[1])
    friend = tables.near[customer, below(tables.near.shape[1], drawn[2])]
    friend = jnp.where(drawn[3] < 0.2, below(nodes, drawn[3] / 0.2), friend)
    other = jnp.maximum(friend, 1)
    vehicle, others = (jnp.take_along_axis(vehicles, node[None], axis=0)[0] for node in (customer, other))
    is_renewed = (kind == RELOCATE) & (drawn[5] < 0.4)
    # The truck twice as often as each drone.
    vehicle = jnp.where(is_renewed, jnp.maximum(below(drones + 2, drawn[5] / 0.4) - 1, 0), vehicle)

    position = jnp.arange(len(order), dtype=jnp.int32)[:, None]
    first, second = _places(order, position, customer)
    anchor = jnp.where(drawn[4] < 0.5, *_places(order, position, friend))
    begin, end = _new_places((first, second), len(order), anchor, vehicle > 0, drawn)
    rest = position - (position > begin) - (position > end)
    rest += rest >= first
    rest += rest >= second
    low, high = jnp.minimum(first, anchor), jnp.maximum(first, anchor)
    turned = jnp.where((position >= low) & (position <= high), low + high - position, position)
    shifted = _shifted(position, first, 2 + below(5, drawn[6]), anchor)
    source = jnp.select([kind == RELOCATE, kind == BLOCK, kind == TURN], [rest, shifted, turned], position)
    source = jnp.clip(source, 0, len(order) - 1)
    taken = jnp.take_along_axis(order, source, axis=0, mode="promise_in_bounds")
    swapped = jnp.where(taken == customer, other, jnp.where(taken == other, customer, taken))
    placed = (kind == RELOCATE) & ((position == begin) | (position == end))
    order = jnp.where(placed, customer, jnp.where(kind == SWAP, swapped, taken))

    node = position[:nodes]
    exchanges = (kind == SWAP) & (drawn[7] < 0.5)
    vehicles = jnp.where((node == customer) & (is_renewed | exchanges), jnp.where(exchanges, others, vehicle), vehicles)
    vehicles = jnp.where((node == other) & exchanges, vehicle, vehicles)
    return jnp.concatenate([order, vehicles])


def _places(order: jax.Array, position: jax.Array, node: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first and the last place of a node in each order, `i32[L]` each."""
    found = order == node
    return jnp.where(found, position, len(order)).min(axis=0), jnp.where(found, position, 0).max(axis=0)


def _new_places(
    places: tuple[jax.Array, jax.Array], length: int, anchor: jax.Array, flies: jax.Array, drawn: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Where both tasks of a customer come that move near `anchor`, or one of them a few places away, `i32[L]` each."""
    first, second = places
    # Places among the other tasks.
    away = anchor - (anchor > first) - (anchor > second) + (drawn[4] * 2 % 1 < 0.5)
    gap = jnp.where(flies, jnp.asarray(GAPS, jnp.int32)[below(len(GAPS), drawn[6])], below(3, drawn[6] ** 3))
    step = jnp.where(drawn[6] < 0.5, -1, 1) * (1 + below(4, drawn[6] * 2 % 1))
    stays, moves_first = drawn[7] < 0.5, drawn[7] < 0.25
    begin = jnp.where(stays, first + jnp.where(moves_first, step, 0), away)
    end = jnp.where(stays, second - 1 + jnp.where(moves_first, 0, step), away + gap)
    begin, end = (jnp.clip(place, 0, length - 2) for place in (jnp.minimum(begin, end), jnp.maximum(begin, end)))
    return begin, end + 1


def _shifted(position: jax.Array, start: jax.Array, length: jax.Array, target: jax.Array) -> jax.Array:
    """The places from which orders are taken if tasks from `start` on move to `target`, `i32[P, L]`."""
    length = jnp.minimum(length, len(position) - start)
    target = jnp.minimum(target, len(position) - length)
    rest = among_rest(position, start, length, target)
    return jnp.where((position >= target) & (position < target + length), start + position - target, rest)


METHOD = Method(
    price, changed_codes, tries=8, temperature=(1.0, 0.02), fine=(1.0, 1400.0), patience=100, takes_best=True
)


def first_codes(instance: Instance) -> np.ndarray:
    """The plan `i32[P]` of the truck alone, that goes to the nearest customer each time."""
    nodes, way = instance.num_nodes, np.asarray(instance.truck_time)
    order, left = [0], set(range(1, nodes))
    while left:
        order.append(min(left, key=lambda node: way[order[-1], node]))
        left.remove(order[-1])
    return np.array([*np.repeat(order[1:], 2), 0, *[0] * nodes], np.int32)


_followed = jax.jit(followed)


def actions_of(env: FlyingSidekicks, instance: Instance, codes: np.ndarray) -> np.ndarray:
    """The actions `i32[T, 1]` in an environment of a plan, `i32[P]`, for an instance (JAX arrays)."""
    _, tasks = _followed(instance, jnp.asarray(codes)[:, None])
    kind, node, drone = (np.asarray(leaf)[:, 0] for leaf in tasks)
    actions = rules.action_of(kind, node, drone, env.num_nodes, env.num_drones)
    return actions[kind != NOTHING, None].astype(np.int32)


def search_episode(env: FlyingSidekicks, instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Plan an episode of an instance; see `jaxvrp.toolbox.Search`.

    The masks forbid some plans, see `rules.allowed`: states come from the rules alone.
    """
    best, actions = np.inf, np.zeros((0, 1), np.int32)
    trimmed = as_float32(trim(instance))
    if trimmed.num_nodes == 1:
        yield Searched(0.0, 0.0, {TRUCK: actions})
        return
    tables, codes, start = make_tables(trimmed), first_codes(trimmed), env.init_state(instance)
    endurance = np.asarray(trimmed.endurance)
    late_unit = float(endurance[np.isfinite(endurance)].max(initial=0.0)) or 1.0
    actions_of(env, trimmed, codes)  # compiled before the clock starts
    for found in anneal_from(METHOD, tables, codes, key, stop, nodes=trimmed.num_nodes, late_unit=late_unit):
        if found.cost < best:
            best, actions = found.cost, actions_of(env, trimmed, found.codes)
        episode = functools.partial(_played, env, instance, start, actions)
        yield Searched(found.seconds, found.cost, {TRUCK: actions}, episode)


def _played(env: FlyingSidekicks, instance: Instance, start: rules.State, actions: np.ndarray) -> Episode:
    return from_states(env, rules.play(start, actions[:, 0]), {TRUCK: jnp.asarray(actions)}, instance)

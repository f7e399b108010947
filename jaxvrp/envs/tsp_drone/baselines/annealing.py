"""Simulated annealing of whole plans: a tour with revisits, which the exact partition cuts into operations. Pure JAX.

A chain has a tour of one instance (`jaxvrp.envs.tsp_drone.baselines.partition`): the order of service, and the served
nodes at which truck and drone may meet. Which customers the drone serves, and where it leaves the truck, follows from
the tour at each evaluation. In a step every chain draws some changes of its tour, prices all of them, and takes the
first that is accepted: most are not, so that this is worth nearly as many steps one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.truck_and_drone.chains import (
    CHAINS,
    Method,
    advance,
    among_rest,
    anneal,
    begin,
    below,
    best_of,
    code_at,
    kind_by,
    nearest_of,
)
from jaxvrp.envs.truck_and_drone.instance import Instance, as_float32
from jaxvrp.envs.truck_and_drone.rules import SLACK
from jaxvrp.envs.tsp_drone.baselines.partition import Times, ends_of, make_times, partition_cost, tour_length
from jaxvrp.envs.tsp_drone.baselines.planners import plan_actions
from jaxvrp.envs.tsp_drone.baselines.tours import Planned, near_tours
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.players import Searched
from jaxvrp.search.annealing import geometric
from jaxvrp.search.side_by_side import num_threads
from jaxvrp.search.stop import Stop

TRIES = 16
"""Changes that a chain prices at a time."""

WINDOW = 12
"""Most positions of an operation, unless the instance has at most `WHOLE` nodes: then partitions are exact."""

WHOLE = 20

NEAREST = 10
"""Nodes near a customer, to which changes bring it."""

TEMPERATURE = (0.3, 0.03)
"""From the beginning to the end of the time, geometrically, in units of the makespan for each node."""


class Planning(NamedTuple):
    """How instances are annealed by the thousand: chains, changes at a time, steps, and positions of an operation."""

    chains: int
    tries: int
    steps: int
    window: int


PLANNED = Planning(4, 8, 1200, 8)
"""50 nodes take 0.24 CPU s, and plans of 60 published instances are 2.6 % shorter than the published TSP-ep-all's."""

MOVE, SWAP, TURN, INSERT, REMOVE = range(5)
SHARES = (0.45, 0.2, 0.25, 0.07, 0.03)
"""Kinds of changes, and how often each is drawn: customers move or change places, the tour between two positions is
driven backwards, a revisit comes or goes."""


class Tables(struct.PyTreeNode):
    """What is read of an instance with `n` nodes."""

    times: Times  # of one instance
    near: jax.Array  # `i32[n, K]`, the nearest nodes of each for the truck


def make_tables(times: Times) -> Tables:
    """The tables of one instance."""
    nodes = times.num_nodes
    exists = jnp.arange(nodes) <= times.customers
    return Tables(times, nearest_of(jnp.where(exists, times.truck.reshape(nodes, nodes), jnp.inf), NEAREST))


def most_revisits(num_nodes: int) -> int:
    """Revisits that there is room for in a tour: few plans need more, if the drone is not very fast."""
    return max(min(num_nodes - 2, 6 + num_nodes // 8), 0)


def window_of(num_nodes: int) -> int:
    """Most positions of an operation."""
    return num_nodes if num_nodes <= WHOLE else WINDOW


@functools.cache
def method_of(revisits: int, window: int, tries: int = TRIES) -> Method:
    """How tours with at most so many revisits are annealed; operations have at most `window` positions.

    Codes are the nodes of a tour, and beside them stands which positions are revisits.
    """
    price = functools.partial(_price, window=window)
    change = functools.partial(_changed, revisits=revisits)
    return Method(price, change, tries, TEMPERATURE, dice=7, is_ahead=True)


# Jitted, so that the search for a further problem compiles nothing.
@functools.partial(jax.jit, static_argnames=("chains", "revisits"), inline=True)
def first_tours(times: Times, key: jax.Array, *, chains: int, revisits: int) -> jax.Array:
    """Tours of the nearest neighbour, after noise, `i32[P, chains]`; `times` is of one instance."""
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, chains, axis=0), times)
    return jnp.pad(near_tours(repeated, key), [(0, revisits), (0, 0)])


def _price(tables: Tables, tours: jax.Array, *, window: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    cost, is_revisit = partition_cost(tables.times, tours, jnp.zeros(tours.shape[1], jnp.int32), window)
    return cost, jnp.zeros_like(cost), is_revisit


def _changed(tables: Tables, tours: jax.Array, drawn: jax.Array, is_revisit: jax.Array, *, revisits: int) -> jax.Array:
    """A change of each tour, `i32[P, L]`; `drawn` are numbers in [0, 1), `f32[7, L]`."""
    customers = tables.times.customers[0]
    last = jnp.maximum(ends_of(tours) - 1, 1)
    position = jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    place, other = _places(tours, tables.near, last, drawn[:3])
    kind = kind_by(SHARES, drawn[3])
    source = _reordered(position, kind, place, other, last, drawn[4:])
    if not revisits:
        return jnp.take_along_axis(tours, source, axis=0, mode="promise_in_bounds")

    room = revisits - (last - customers)
    kind = jnp.where((kind == INSERT) & (room <= 0), REMOVE, kind)
    kind = jnp.where((kind == REMOVE) & (room >= revisits), INSERT, kind)
    inserted = jnp.where(position <= place, position, position - 1)
    number = jnp.cumsum(is_revisit & (position <= last), axis=0)
    gone = _first(number == 1 + below(jnp.maximum(revisits - room, 1), drawn[5]))
    # The node is served at its first place from now on, or at that of the revisit.
    node = code_at(tours, gone)
    gone = jnp.where((drawn[4] < 0.5) & (node > 0), _first(tours == node), gone)
    removed = jnp.where(position < gone, position, jnp.minimum(position + 1, len(tours) - 1))
    source = jnp.where(kind == INSERT, inserted, jnp.where(kind == REMOVE, removed, source))
    changed = jnp.take_along_axis(tours, source, axis=0, mode="promise_in_bounds")
    # Back to the node before (a loop), to another one, or to the depot.
    node = jnp.where(drawn[6] < 0.95, code_at(tours, other), 0)
    node = jnp.where(drawn[6] < 0.5, code_at(tours, place - 1), node)
    return jnp.where((kind == INSERT) & (position == place + 1), node, changed)


def _places(tours: jax.Array, near: jax.Array, last: jax.Array, drawn: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two positions, `i32[L]` each: any, and that of a node near by, one that is near in the tour, or any."""
    place = 1 + below(last, drawn[0])
    friend = near[code_at(tours, place), below(near.shape[1], drawn[1])]
    step = jnp.where(drawn[1] < 0.5, -1, 1) * (1 + below(6, 2 * drawn[1] % 1))
    other = jnp.where(drawn[2] < 0.9, jnp.clip(place + step, 0, last), below(last + 1, drawn[1]))
    return place, jnp.where(drawn[2] < 0.6, _first(tours == friend), other)


def _reordered(
    position: jax.Array, kind: jax.Array, place: jax.Array, other: jax.Array, last: jax.Array, drawn: jax.Array
) -> jax.Array:
    """The positions from which a tour takes its nodes if customers move, or change places, or it is turned."""
    after = drawn[1] < 0.5
    length = jnp.minimum(jnp.where(drawn[0] < 0.6, 1, jnp.where(drawn[0] < 0.85, 2, 3)), last)
    start = jnp.minimum(place, last - length + 1)
    # Positions without the customers that move, and where these go among them.
    rest = jnp.where(other >= start + length, other - length, jnp.minimum(other, start - 1))
    target = jnp.clip(rest + after, 1, last - length + 1)
    rest = among_rest(position, start, length, target)
    inside = start + jnp.where(drawn[2] < 0.5, target + length - 1 - position, position - target)
    moved = jnp.where((position >= target) & (position < target + length), inside, rest)

    second = jnp.maximum(other, 1)
    swapped = jnp.where(position == place, second, jnp.where(position == second, place, position))

    low, high = jnp.maximum(jnp.minimum(place, other) + after, 1), jnp.maximum(place, other) - ~after
    turned = jnp.where((position >= low) & (position <= high), low + high - position, position)
    return jnp.where(kind == MOVE, moved, jnp.where(kind == SWAP, swapped, turned))


def _first(found: jax.Array) -> jax.Array:
    """The first position that is true, `i32[L]`; 0 if there is none."""
    return jax.lax.argmax(found, 0, jnp.int32)


@functools.partial(jax.jit, static_argnames="steps")
def plan_annealed(instances: Instance, key: jax.Array, *, steps: int = PLANNED.steps) -> Planned:
    """Tours without revisits of a batch of instances `[I]`, padded or not, each after so many steps of annealing.

    Operations have at most `PLANNED.window` positions. Of the two ways round a tour that cost the same it is that with
    the shorter first leg: one of all plans that are as good is easier to imitate.
    """
    times = make_times(jax.vmap(as_float32)(instances))
    window = min(PLANNED.window, times.num_nodes)
    method = method_of(0, window, PLANNED.tries)

    def annealed(problem: tuple[Times, jax.Array]) -> jax.Array:
        of_one, (begin_key, key) = jax.tree.map(lambda leaf: leaf[None], problem[0]), jax.random.split(problem[1])
        tables = make_tables(of_one)
        chains = begin(method, tables, first_tours(of_one, begin_key, chains=PLANNED.chains, revisits=0))
        unit = chains.least.min() / (1 + of_one.customers[0])
        heats = geometric(*TEMPERATURE, jnp.linspace(0.0, 1.0, steps, dtype=jnp.float32), unit)
        chains = advance(method, tables, chains, key, heats, jnp.zeros_like(heats))
        return chains.best[:, jax.lax.argmin(chains.least, 0, jnp.int32)]

    of = jnp.arange(times.customers.shape[0], dtype=jnp.int32)
    tours = jax.lax.map(annealed, (times, jax.random.split(key, len(of)))).T
    backwards = reversed_tours(tours)
    cost, same = (partition_cost(times, each, of, window)[0] for each in (tours, backwards))
    first, last = (tour_length(times, each[:2], of) for each in (tours, backwards))
    tours = jnp.where((same <= cost * (1.0 + SLACK)) & (last < first), backwards, tours)
    return Planned(times, tours, cost)


def reversed_tours(tours: jax.Array) -> jax.Array:
    """Tours `i32[P, L]` driven the other way round."""
    position = ends_of(tours) - jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    return jnp.where(position > 0, jnp.take_along_axis(tours, jnp.maximum(position, 0), axis=0), 0)


def search_episode(env: TspDrone, instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Plan an episode of one instance, with chains on each core; see `jaxvrp.toolbox.Search`."""
    times = make_times(jax.tree.map(lambda leaf: leaf[None], as_float32(instance)))
    tables, window = make_tables(times), window_of(times.num_nodes)
    revisits = most_revisits(times.num_nodes) if env.allow_revisits else 0
    method = method_of(revisits, window)
    begin_key, key = jax.random.split(key)
    keys = jax.random.split(begin_key, num_threads())
    parts = [begin(method, tables, first_tours(times, each, chains=CHAINS, revisits=revisits)) for each in keys]

    def actions_of(tour: np.ndarray) -> dict[str, np.ndarray]:
        planned = jax.device_get(plan_actions(times, jnp.asarray(tour)[:, None], window=window))
        return {role: actions[0, : env.max_episode_steps, None] for role, actions in planned.items()}

    cost, tour = best_of(parts)
    actions = actions_of(tour)  # compiled before the clock starts
    for found in anneal(method, tables, parts, key, stop, nodes=times.num_nodes):
        if found.cost < cost:
            cost, actions = found.cost, actions_of(found.codes)
        yield Searched(found.seconds, cost, actions)

"""Simulated annealing of whole plans: a tour with revisits, which the exact partition cuts into operations. Pure JAX.

A chain has a tour of one instance (`jaxvrp.envs.tsp_drone.baselines.partition`): the order of service, and the served
nodes at which truck and drone may meet. Which customers the drone serves, and where it leaves the truck, follows from
the tour at each evaluation. In a step every chain draws some changes of its tour, prices all of them, and takes the
first that is accepted: most are not, so that this is worth nearly as many steps one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.tsp_drone.baselines.chains import among_rest, below
from jaxvrp.envs.tsp_drone.baselines.partition import Times, ends_of, make_times, partition_cost, tour_length
from jaxvrp.envs.tsp_drone.baselines.planners import plan_actions
from jaxvrp.envs.tsp_drone.baselines.tours import Planned, near_tours
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.problem.instance import Instance, as_float32
from jaxvrp.envs.tsp_drone.rules import SLACK
from jaxvrp.search.annealing import geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.side_by_side import advanced, num_threads
from jaxvrp.search.stop import Stop
from jaxvrp.toolbox import Searched

CHAINS, TRIES = 4, 16
"""Chains on a core, and changes that a chain prices at a time."""

WINDOW = 12
"""Most positions of an operation, unless the instance has at most `WHOLE` nodes: then partitions are exact."""

WHOLE = 20

NEAREST = 10
"""Nodes near a customer, to which changes bring it."""

STEPS = 256
"""Steps of one call."""

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


class Chains(struct.PyTreeNode):
    """`C` tours that are annealed, and the best of each chain."""

    tours: jax.Array  # `i32[P, C]`
    is_revisit: jax.Array  # `bool[P, C]`
    cost: jax.Array  # `f32[C]`
    best: jax.Array  # `i32[P, C]`
    least: jax.Array  # `f32[C]`
    # Changed tours to be priced, `t` of a chain side by side, `i32[P, C t]`. They are made a step ahead: what one
    # turn of a loop hands to the next is stored, where otherwise every reader would compute it once more.
    changed: jax.Array

    @property
    def tries(self) -> int:
        """Changes that a chain prices at a time."""
        return self.changed.shape[1] // self.tours.shape[1]


def most_revisits(num_nodes: int) -> int:
    """Revisits that there is room for in a tour: few plans need more, if the drone is not very fast."""
    return max(min(num_nodes - 2, 6 + num_nodes // 8), 0)


def window_of(num_nodes: int) -> int:
    """Most positions of an operation."""
    return num_nodes if num_nodes <= WHOLE else WINDOW


def begin(
    times: Times, key: jax.Array, *, chains: int, revisits: int, window: int | None = None, tries: int = TRIES
) -> Chains:
    """Chains at the tours of the nearest neighbour, after noise; `times` is of one instance, `window` as in `advance`.

    Each chain prices so many changes at a time.
    """
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, chains, axis=0), times)
    tours = jnp.pad(near_tours(repeated, key), [(0, revisits), (0, 0)])
    return _beginning(times, tours, window=window or window_of(times.num_nodes), tries=tries)


@functools.partial(jax.jit, static_argnames=("window", "tries"))
def _beginning(times: Times, tours: jax.Array, *, window: int, tries: int) -> Chains:
    cost, is_revisit = partition_cost(times, tours, jnp.zeros(tours.shape[1], jnp.int32), window)
    return Chains(tours, is_revisit, cost, tours, cost, jnp.repeat(tours, tries, axis=1))


@functools.partial(jax.jit, static_argnames=("revisits", "window"))
def advance(
    times: Times,
    chains: Chains,
    key: jax.Array,
    temperatures: jax.Array,
    *,
    revisits: int,
    window: int | None = None,
) -> Chains:
    """The chains after a step at each of these temperatures, `f32[steps]`; at most so many revisits in a tour.

    Operations have at most `window` positions; None: `window_of`.
    """
    window = window or window_of(times.num_nodes)
    nodes = times.num_nodes
    truck = times.truck.reshape(nodes, nodes) + jnp.where(jnp.eye(nodes, dtype=bool), jnp.inf, 0.0)
    exists = jnp.arange(nodes) <= times.customers
    _, near = jax.lax.top_k(-jnp.where(exists, truck, jnp.inf), min(NEAREST, max(nodes - 1, 1)))
    customers = times.customers[0]

    def step(chains: Chains, drawn: tuple[jax.Array, jax.Array]) -> tuple[Chains, None]:
        key, temperature = drawn
        rest, luck = jnp.split(jax.random.uniform(key, (8, chains.changed.shape[1]), jnp.float32), [7])
        chains = _accept(times, chains, temperature * -jnp.log(luck[0]), window)
        return chains.replace(changed=_changed(chains, near, customers, rest, revisits)), None

    return jax.lax.scan(step, chains, (jax.random.split(key, len(temperatures)), temperatures))[0]


def _accept(times: Times, chains: Chains, margin: jax.Array, window: int) -> Chains:
    """The chains after the first of their changes that costs less than the tour before and a margin, `f32[L]`."""
    (count, lanes), tries = chains.changed.shape, chains.tries
    cost, is_revisit = partition_cost(times, chains.changed, jnp.zeros(lanes, jnp.int32), window)
    new = (chains.changed.reshape(count, -1, tries) != chains.tours[..., None]).any(axis=0)
    accepted = (cost < jnp.repeat(chains.cost, tries) + margin).reshape(-1, tries) & new
    lane = jnp.arange(0, lanes, tries) + jax.lax.argmax(accepted, 1, jnp.int32)
    moves = accepted.any(axis=1)
    tours = jnp.where(moves, chains.changed[:, lane], chains.tours)
    present = jnp.where(moves, cost[lane], chains.cost)
    return chains.replace(
        tours=tours,
        is_revisit=jnp.where(moves, is_revisit[:, lane], chains.is_revisit),
        cost=present,
        best=jnp.where(present < chains.least, tours, chains.best),
        least=jnp.minimum(present, chains.least),
    )


def _changed(chains: Chains, near: jax.Array, customers: jax.Array, drawn: jax.Array, revisits: int) -> jax.Array:
    """A change of each tour, for each of its tries, `i32[P, L]`; `drawn` are numbers in [0, 1), `f32[7, L]`."""
    tours, is_revisit = (jnp.repeat(leaf, chains.tries, axis=1) for leaf in (chains.tours, chains.is_revisit))
    last = jnp.maximum(ends_of(tours) - 1, 1)
    position = jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    place, other = _places(tours, near, last, drawn[:3])
    kind = (drawn[3] >= np.cumsum(SHARES[:-1], dtype=np.float32)[:, None]).sum(axis=0, dtype=jnp.int32)
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
    node = _at(tours, gone)
    gone = jnp.where((drawn[4] < 0.5) & (node > 0), _first(tours == node), gone)
    removed = jnp.where(position < gone, position, jnp.minimum(position + 1, len(tours) - 1))
    source = jnp.where(kind == INSERT, inserted, jnp.where(kind == REMOVE, removed, source))
    changed = jnp.take_along_axis(tours, source, axis=0, mode="promise_in_bounds")
    # Back to the node before (a loop), to another one, or to the depot.
    node = jnp.where(drawn[6] < 0.95, _at(tours, other), 0)
    node = jnp.where(drawn[6] < 0.5, _at(tours, place - 1), node)
    return jnp.where((kind == INSERT) & (position == place + 1), node, changed)


def _places(tours: jax.Array, near: jax.Array, last: jax.Array, drawn: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two positions, `i32[L]` each: any, and that of a node near by, one that is near in the tour, or any."""
    place = 1 + below(last, drawn[0])
    friend = near[_at(tours, place), below(near.shape[1], drawn[1])]
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


def _at(tours: jax.Array, place: jax.Array) -> jax.Array:
    return jnp.take_along_axis(tours, place[None], axis=0, mode="promise_in_bounds")[0]


@functools.partial(jax.jit, static_argnames="steps")
def plan_annealed(instances: Instance, key: jax.Array, *, steps: int = PLANNED.steps) -> Planned:
    """Tours without revisits of a batch of instances `[I]`, padded or not, each after so many steps of annealing.

    Operations have at most `PLANNED.window` positions. Of the two ways round a tour that cost the same it is that with
    the shorter first leg: one of all plans that are as good is easier to imitate.
    """
    times = make_times(jax.vmap(as_float32)(instances))
    window = min(PLANNED.window, times.num_nodes)

    def anneal(problem: tuple[Times, jax.Array]) -> jax.Array:
        of_one, (begin_key, key) = jax.tree.map(lambda leaf: leaf[None], problem[0]), jax.random.split(problem[1])
        parts = {"revisits": 0, "window": window}
        chains = begin(of_one, begin_key, chains=PLANNED.chains, tries=PLANNED.tries, **parts)
        unit = chains.least.min() / (1 + of_one.customers[0])
        progress = jnp.linspace(0.0, 1.0, steps, dtype=jnp.float32)
        heats = geometric(*TEMPERATURE, progress, unit)
        chains = advance(of_one, chains, key, heats, **parts)
        return chains.best[:, jax.lax.argmin(chains.least, 0, jnp.int32)]

    of = jnp.arange(times.customers.shape[0], dtype=jnp.int32)
    tours = jax.lax.map(anneal, (times, jax.random.split(key, len(of)))).T
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
    revisits = most_revisits(times.num_nodes) if env.allow_revisits else 0
    threads = num_threads()
    begin_key, key = jax.random.split(key)
    parts = [begin(times, each, chains=CHAINS, revisits=revisits) for each in jax.random.split(begin_key, threads)]
    best = _best(env, times, parts)  # compiled before the clock starts
    with ThreadPoolExecutor(threads) as pool:

        def play(parts: list[Chains], key: jax.Array, progress: np.ndarray) -> list[Chains]:
            unit = min(float(part.least.min()) for part in parts) / times.num_nodes
            heats = jnp.asarray(geometric(*TEMPERATURE, progress, unit), jnp.float32)
            return advanced(pool, lambda part, key: advance(times, part, key, heats, revisits=revisits), parts, key)

        for spent, found in anytime(play, parts, key, stop, rounds=STEPS):
            if min(float(part.least.min()) for part in found) < best[0]:
                best = _best(env, times, found)
            yield Searched(spent.seconds, *best)


def _best(env: TspDrone, times: Times, parts: Sequence[Chains]) -> tuple[float, dict[str, np.ndarray]]:
    """What the best tour costs, and its actions."""
    best = min(parts, key=lambda part: float(part.least.min()))
    tour = best.best[:, best.least.argmin()][:, None]
    actions = jax.device_get(plan_actions(times, tour, window=window_of(times.num_nodes)))
    return float(best.least.min()), {role: plan[0, : env.max_episode_steps, None] for role, plan in actions.items()}

"""Simulated annealing of whole plans with time windows: who serves, in which tour, where drones leave and return. JAX.

A plan is a sequence of codes, `i32[P]`: the depot, the first tour, the depot, the next tour, ..., the depot; tours may
be empty. A code is `node + n * span`. With span 0 the truck goes to the node. With span k the drone flies to it from
the stop of the truck before, and returns at the k-th stop after, or earlier: before its next flight, or at the depot.
Every sequence means something: one walk along it tells its money and whether it keeps all constraints. Plans are
the last axis, `L`. On its way, annealing may miss windows, for a fine that rises; the best plans are feasible.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.truck_and_drone.chains import Method, anneal_from, below, code_at, kind_by, nearest_of
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_and_drone.legs import distance
from jaxvrp.envs.truck_and_drone.operations import Operation, operations_to_actions
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.io.arrays import cut_arrays
from jaxvrp.players import Searched
from jaxvrp.search.stop import Stop

TRIES = 32
"""Changes that a chain prices at a time."""

NEAREST = 12
"""Nodes near a customer, to which changes bring it."""

SPANS = (0, 0, 1, 1, 1, 2, 2, 3)
"""From which the span of a customer that changes is drawn."""

SPARE = 2
"""Tours more than the first plan has, at least."""

MULTIPLE = 4
"""Tours that there is room for are a multiple of this, so that problems share compiled programs."""

ROUNDING = 1e-6
"""Share by which times may exceed limits."""

EXCHANGE, TURN, SPAN = range(3)
SHARES = (0.75, 0.1, 0.15)
"""Kinds of changes, and how often each is drawn: two parts of the sequence change places, one of them perhaps empty;
the sequence between two positions is reversed; a customer goes to the truck, or to the drone with another span."""

LENGTHS = ((1, 0), (0, 1), (1, 0), (0, 1), (1, 1), (1, 1), (2, 0), (0, 2), (3, 0), (0, 3), (2, 1), (1, 2))
"""Lengths of the two parts that change places; one of these pairs is drawn."""


class Tables(struct.PyTreeNode):
    """What is read of an instance with `n` nodes."""

    distance: jax.Array  # `f32[n²]`, from a to b at a n + b
    near: jax.Array  # `i32[n, K]`, the nearest nodes of each
    instance: Instance


def make_tables(instance: Instance) -> Tables:
    """The tables of an instance without padding (JAX arrays)."""
    nodes = jnp.arange(instance.num_nodes, dtype=jnp.int32)
    between = distance(instance, nodes[:, None], nodes)
    return Tables(between.ravel(), nearest_of(between, NEAREST), instance)


class _Walk(NamedTuple):
    """Where a tandem stands on its way along a sequence, `[L]` each."""

    stop: jax.Array  # `i32`, of the truck
    clock: jax.Array  # `f32`, when it goes on
    load: jax.Array  # `f32`, of the tour so far
    stops: jax.Array  # `i32`, customers of the truck in the tour so far
    customer: jax.Array  # `i32`, of the drone that is away; 0 if it is on board
    span: jax.Array  # `i32`, stops until it returns
    leave: jax.Array  # `f32`, when it leaves its customer
    used: jax.Array  # `f32`, of its endurance by then
    money: jax.Array  # `f32`, so far; inf if a constraint other than a window is violated
    late: jax.Array  # `f32`, time by which windows were missed; after each of them the clock goes back


def price(tables: Tables, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The money for sequences `i32[P, L]` and the time by which they are late, see `_Walk`, `f32[L]` each."""
    given, nodes = tables.instance, tables.instance.num_nodes
    node, span = codes % nodes, codes // nodes
    flies_next = jnp.concatenate([span[1:] > 0, jnp.zeros_like(span[:1], bool)])
    grounded = given.no_fly[node] & (span > 0)
    closes = given.closes[node] * (1 + ROUNDING)
    rows = node, span, flies_next | (node == 0), given.opens[node], closes, given.service[node], given.demand[node]
    none, nothing = jnp.zeros_like(codes[0]), jnp.zeros(codes.shape[1], jnp.float32)
    start = _Walk(none, nothing + given.opens[0], nothing, none, none, none, nothing, nothing, nothing, nothing)
    go = functools.partial(_gone, tables)
    walk, _ = jax.lax.scan(go, start, jax.tree.map(lambda row: row[1:], rows))
    return jnp.where(grounded.any(axis=0), jnp.inf, walk.money), walk.late


def _gone(tables: Tables, walk: _Walk, row: tuple[jax.Array, ...]) -> tuple[_Walk, None]:
    """The walks one code further; `row` has what `price` reads of that."""
    given, (node, span, must_meet, opens, closes, service, demand) = tables.instance, row
    flies, is_depot, is_away = span > 0, node == 0, walk.customer > 0
    way, back = (
        tables.distance.at[start * given.num_nodes + node].get(mode="promise_in_bounds")
        for start in (walk.stop, walk.customer)
    )
    # The truck comes to a stop, takes the drone in, serves.
    meets = is_away & ~flies & (must_meet | (walk.span <= 1))
    arrival = walk.clock + given.truck_pace * way
    met = jnp.maximum(arrival, walk.leave + given.drone_pace * back) + given.recovery_time
    begin = jnp.maximum(jnp.where(meets, met, arrival), opens)
    # Or it launches the drone, no earlier than so that the drone need not wait.
    flight = given.drone_pace * way
    launch = jnp.maximum(walk.clock + given.launch_time, opens - flight)
    begin = jnp.where(flies, launch + flight, begin)
    load = walk.load + demand
    used = walk.used + given.drone_pace * back
    late = jnp.maximum(begin - closes, 0.0)
    begin -= late
    wrong = load > given.truck_capacity * (1 + ROUNDING)
    wrong |= meets & (used > given.endurance * (1 + ROUNDING))
    wrong |= (flies & is_away) | (is_depot & (walk.stops == 0) & is_away)
    paid = given.truck_price * jnp.where(flies, 0.0, way)
    paid += given.drone_price * (jnp.where(flies, way, 0.0) + jnp.where(meets, back, 0.0))
    leaves = begin + service
    after = _Walk(
        stop=jnp.where(flies, walk.stop, node),
        clock=jnp.where(is_depot, given.opens[0], jnp.where(flies, launch, leaves)),
        load=jnp.where(is_depot, 0.0, load),
        stops=jnp.where(is_depot, 0, walk.stops + ~flies),
        customer=jnp.where(flies, node, jnp.where(meets, 0, walk.customer)),
        span=jnp.where(flies, span, walk.span - 1),
        leave=jnp.where(flies, leaves, walk.leave),
        used=jnp.where(flies, flight + service, walk.used),
        money=walk.money + jnp.where(wrong, jnp.inf, paid),
        late=walk.late + late,
    )
    return after, None


def changed_codes(tables: Tables, codes: jax.Array, drawn: jax.Array) -> jax.Array:
    """A change of each sequence, `i32[P, L]`; `drawn` are numbers in [0, 1), `f32[8, L]`."""
    nodes, last = tables.instance.num_nodes, len(codes) - 1
    position = jnp.arange(len(codes), dtype=jnp.int32)[:, None]
    place = 1 + below(last - 1, drawn[0])
    node = code_at(codes, place) % nodes
    other = _other_place(tables, codes, place, node, drawn)
    low, high, first, second = _parts(codes % nodes == 0, place, other, drawn)
    kind = kind_by(SHARES, drawn[3])
    middle = high - low - first
    exchanged = jnp.select(
        [position < low + length for length in (0, second, second + middle, second + middle + first)],
        [position, position - low + high, position - second + first, position - second - middle],
        position,
    )
    turned = jnp.where((position >= low) & (position <= high) & (high < last), low + high - position, position)
    source = jnp.where(kind == EXCHANGE, exchanged, jnp.where(kind == TURN, turned, position))
    changed = jnp.take_along_axis(codes, source, axis=0, mode="promise_in_bounds")
    # Two customers that change places may also change their roles.
    swaps = (kind == EXCHANGE) & (first == 1) & (second == 1) & (drawn[5] < 0.5) & (changed % nodes > 0)
    changed = jnp.where(swaps, changed % nodes + codes // nodes * nodes, changed)
    renewed = (kind == SPAN) | (drawn[7] < 0.4)
    span = jnp.asarray(SPANS, jnp.int32)[below(len(SPANS), drawn[7] / 0.4 % 1)]
    is_it = renewed & (node > 0) & (changed % nodes == node)
    return jnp.where(is_it, node + nodes * span, changed)


def _other_place(tables: Tables, codes: jax.Array, place: jax.Array, node: jax.Array, drawn: jax.Array) -> jax.Array:
    """`i32[L]`, where a node near the one at `place` is; or any place; or one a few places away."""
    last = len(codes) - 1
    friend = tables.near[node, below(tables.near.shape[1], drawn[1])]
    at_friend = jnp.maximum(jax.lax.argmax(codes % tables.instance.num_nodes == friend, 0, jnp.int32), 1)
    other = jnp.where(drawn[2] < 0.7, at_friend, 1 + below(last - 1, drawn[1]))
    return jnp.where(drawn[2] > 0.9, jnp.clip(place + 1 + below(8, drawn[1]) - 4, 1, last - 1), other)


def _parts(is_depot: jax.Array, place: jax.Array, other: jax.Array, drawn: jax.Array) -> tuple[jax.Array, ...]:
    """Where two parts of a sequence begin, the first one first, and how long each is, `i32[L]`; they do not overlap."""
    position, last = jnp.arange(len(is_depot), dtype=jnp.int32)[:, None], len(is_depot) - 1
    low, high = jnp.minimum(place, other), jnp.maximum(place, other)
    home = is_depot & (position > 0)
    tour_ends = [jax.lax.argmax(home & (position >= at), 0, jnp.int32) for at in (low, high)]
    lengths = jnp.array(LENGTHS, jnp.int32)[below(len(LENGTHS), drawn[4])]
    is_tails = drawn[6] < 0.12
    first = jnp.where(is_tails, tour_ends[0] - low, lengths[:, 0])
    second = jnp.where(is_tails, tour_ends[1] - high, lengths[:, 1])
    # An empty part lies before its place, or behind it.
    behind = (drawn[5] < 0.5).astype(jnp.int32)
    low = jnp.minimum(low + behind * (first == 0), last)
    high = high + behind * (second == 0)
    first = jnp.minimum(first, last - low)
    high = jnp.minimum(jnp.maximum(high, low + first), last)
    return low, high, first, jnp.minimum(second, last - high)


def first_codes(instance: Instance) -> np.ndarray:
    """A feasible sequence `i32[P]`, trucks alone: customers by the end of their windows, each to the nearest truck."""
    locs = np.asarray(instance.locs, np.float64)
    way = np.linalg.norm(locs[:, None] - locs, axis=2)
    drive = float(instance.truck_pace) * way
    opens, closes, service, demand = (
        np.asarray(getattr(instance, name)) for name in ("opens", "closes", "service", "demand")
    )
    tours: list[list[int]] = []
    clocks: list[float] = []
    for node in sorted(range(1, len(locs)), key=lambda node: (closes[node], way[0, node])):
        begins = [max(clock + drive[tour[-1], node], opens[node]) for tour, clock in zip(tours, clocks, strict=True)]
        fits = [
            begin <= closes[node]
            and begin + service[node] + drive[node, 0] <= closes[0]
            and demand[[*tour, node]].sum() <= instance.truck_capacity
            for begin, tour in zip(begins, tours, strict=True)
        ]
        near = [number for number in np.argsort([way[tour[-1], node] for tour in tours]) if fits[number]]
        if not near:
            tours.append([])
            clocks.append(opens[0])
            begins.append(max(opens[0] + drive[0, node], opens[node]))
        number = near[0] if near else len(tours) - 1
        tours[number].append(node)
        clocks[number] = begins[number] + service[node]
    spare = SPARE + -(len(tours) + SPARE) % MULTIPLE
    return np.array([0, *(node for tour in tours for node in (*tour, 0)), *[0] * spare], np.int32)


def tours_of(codes: np.ndarray, num_nodes: int) -> list[list[Operation]]:
    """The tours that a feasible sequence `i32[P]` means."""
    tours: list[list[Operation]] = [[]]
    internal: list[int] = []
    start, fly, left = 0, None, 0
    spans = [*(codes // num_nodes).tolist(), 0]
    for position, (node, span) in enumerate(zip((codes % num_nodes).tolist(), spans, strict=False)):
        if span:
            fly, left, internal = node, span, []
            continue
        left -= 1
        if position and (start or node or internal):
            if fly is None or left <= 0 or node == 0 or spans[position + 1]:
                tours[-1].append(Operation(start, node, fly, tuple(internal)))
                start, fly, internal = node, None, []
            else:
                internal.append(node)
        if node == 0:
            tours.append([])
    return [tour for tour in tours if tour]


METHOD = Method(price, changed_codes, TRIES, temperature=(1.0, 0.003), fine=(48.0, 960.0), patience=12)


class SearchedTours(NamedTuple):
    """The best plan so far: seconds since the search began, money, and tours."""

    seconds: float
    cost: float
    tours: list[list[Operation]]


def search_tours(instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[SearchedTours]:
    """Search a plan for an instance with time windows until it is time to stop, chains on each core."""
    count = int(np.asarray(instance.exists).sum())
    if count == 1:
        yield SearchedTours(0.0, 0.0, [])
        return
    instance = cut_arrays(Instance.schema, instance, {"nodes": count})
    tables, horizon = make_tables(as_float32(instance)), float(instance.closes[0] - instance.opens[0])
    how = {"nodes": count, "late_unit": horizon or 1.0}
    for found in anneal_from(METHOD, tables, first_codes(instance), key, stop, **how):
        yield SearchedTours(found.seconds, found.cost, tours_of(found.codes, count))


def search_episode(env: TruckDroneTours, instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Plan all tours of an instance; see `jaxvrp.toolbox.Search`."""
    for found in search_tours(instance, key, stop):
        actions = operations_to_actions([operation for tour in found.tours for operation in tour])
        # Of one length, so that plans are played by one program; what follows the end of an episode changes nothing.
        rest = env.max_episode_steps - len(actions["truck"])
        padded = {role: np.pad(chosen, [(0, rest), (0, 0)]) for role, chosen in actions.items()}
        yield Searched(found.seconds, found.cost, padded)

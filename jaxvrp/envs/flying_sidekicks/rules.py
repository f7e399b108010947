"""The rules of a truck with several drones: the driver's tasks, one by one. No word of observations or rewards.

The driver does everything: drives, serves, launches and recovers drones. A task begins when the one before is over. But
the last launch before the truck waits for a drone at the same stop, none recovered in between, is held back by as much
of this wait as the drone that is launched would hover otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import lowest_true
from jaxvrp.envs.flying_sidekicks.instance import LATENESS, Instance
from jaxvrp.rows import columns_at, entry_at, rows_at

DRIVE, SERVE, LAUNCH, RECOVER, NOTHING = range(5)
"""Kinds of tasks."""

BEYOND = 1e12
"""Later than any deadline."""

ROUNDING = 2e-7
"""Share of the clock by which masks take tasks ahead to be longer: what is in time now stays so when its turn comes."""


class Walk(struct.PyTreeNode):
    """Where truck and drones stand. Trailing axes `[...]` make it many, of the same instance."""

    stop: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[...]`, node of the truck
    clock: jax.Array  # `f32[...]`, when the last task was over
    is_pending: jax.Array  # `bool[...]`, the truck is yet to serve the customer where it is
    # `i32[D, ...]`, of each drone that is away; 0 on board. If 0, the next four mean nothing
    customer: Annotated[jax.Array, fields.Whole(0, "served")]
    leave: jax.Array  # `f32[D, ...]`, when it leaves its customer
    used: jax.Array  # `f32[D, ...]`, of its endurance by then
    spared: jax.Array  # `f32[D, ...]`, by how much its launch can be held back
    is_here: jax.Array  # `bool[D, ...]`, it was launched at this stop
    # `i32[...]`, the drone that was launched last, here, no drone recovered since; -1 for none
    held: Annotated[jax.Array, fields.Whole(-1, "walk/customer")]
    excess: jax.Array  # `f32[...]`, by how much flights exceeded endurances, in all


def begin(num_drones: int, shape: tuple[int, ...] = ()) -> Walk:
    """All at the depot, time 0."""
    none, nothing, no = (jnp.zeros(shape, dtype) for dtype in (jnp.int32, jnp.float32, bool))
    by_drone = (num_drones, *shape)
    nothings = jnp.zeros(by_drone, jnp.float32)
    return Walk(
        stop=none,
        clock=nothing,
        is_pending=no,
        customer=jnp.zeros(by_drone, jnp.int32),
        leave=nothings,
        used=nothings,
        spared=nothings,
        is_here=jnp.zeros(by_drone, bool),
        held=none - 1,
        excess=nothing,
    )


def drone_indices(walk: Walk) -> jax.Array:
    """`i32[D, ...]`."""
    return jax.lax.broadcasted_iota(jnp.int32, walk.customer.shape, 0)


def perform(instance: Instance, walk: Walk, kind: jax.Array, node: jax.Array, drone: jax.Array) -> Walk:
    """After a task of a `kind`: drive to `node`, serve, launch `drone` to `node`, or recover `drone`, `i32[...]` each.

    Driving on serves first, if that is pending. Whether a task is allowed is not asked.
    """
    drives, serves, launches, recovers = (kind == each for each in (DRIVE, SERVE, LAUNCH, RECOVER))
    is_it, is_held = drone_indices(walk) == drone, drone_indices(walk) == walk.held

    def of_drone(values: jax.Array) -> jax.Array:
        return jnp.where(is_it, values, 0).sum(axis=0)

    # From the customer of a drone that is recovered; to that of a drone that is launched.
    customer = of_drone(walk.customer)
    start, end = jnp.where(launches, walk.stop, customer), jnp.where(launches, node, walk.stop)
    flight = entry_at(instance.drone_time, drone, start, end)
    arrival = of_drone(walk.leave) + flight
    wait = jnp.maximum(arrival - walk.clock, 0.0)
    hover = jnp.maximum(walk.clock - arrival - of_drone(walk.spared), 0.0)
    used = of_drone(walk.used) + entry_at(instance.drain_back, drone, customer, walk.stop) + hover
    excess = jnp.maximum(used - entry_at(instance.endurance, drone) * (1.0 + LATENESS), 0.0)

    way = entry_at(instance.truck_time, walk.stop, node)
    service = jnp.where(walk.is_pending, entry_at(instance.service, walk.stop), 0.0)
    lasts = jnp.where(drives | serves, service, 0.0) + jnp.where(drives, way, 0.0)
    lasts += jnp.where(launches, entry_at(instance.launch_time, drone), 0.0)
    lasts += jnp.where(recovers, wait + entry_at(instance.recovery_time, drone), 0.0)
    clock = walk.clock + lasts
    is_launched, is_recovered = is_it & launches, is_it & recovers
    return Walk(
        stop=jnp.where(drives, node, walk.stop),
        clock=clock,
        is_pending=jnp.where(drives, node != 0, walk.is_pending & ~serves),
        customer=jnp.where(is_launched, node, jnp.where(is_recovered, 0, walk.customer)),
        leave=jnp.where(is_launched, clock + flight + entry_at(instance.drone_service, drone), walk.leave),
        used=jnp.where(is_launched, entry_at(instance.drain_out, drone, start, end), walk.used),
        spared=jnp.where(is_launched, 0.0, walk.spared + jnp.where(is_held & recovers, wait, 0.0)),
        is_here=is_launched | (walk.is_here & ~drives),
        held=jnp.where(launches, drone, jnp.where(drives | recovers, -1, walk.held)),
        excess=walk.excess + jnp.where(recovers, excess, 0.0),
    )


class State(struct.PyTreeNode):
    """Where an episode stands."""

    instance: Instance  # the problem, padded to the environment's size
    walk: Walk
    task: jax.Array  # `i32[3]`, kind, node and drone of the last one; `NOTHING` at the start
    served: jax.Array  # `bool[n]`, served, or on a drone's way; the depot and padding from the start
    is_home: jax.Array  # `bool[]`, the truck is at the depot for the last time
    growth: jax.Array  # `f32[]`, of the clock, in the last step
    by_drone: jax.Array  # `i32[]`, customers that drones were launched to
    waiting: jax.Array  # `f32[]`, time that the truck waited for drones
    invalid_actions: jax.Array  # `i32[]`, actions that were executed as something else
    step: jax.Array  # `i32[]`
    done: jax.Array  # `bool[]`


def reset(instance: Instance) -> State:
    """All at the depot."""
    none, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    served = ~instance.exists | (jnp.arange(instance.num_nodes) == 0)
    walk, is_over = begin(instance.num_drones), served.all()
    task = jnp.array([NOTHING, 0, 0], jnp.int32)
    return State(instance, walk, task, served, is_over, nothing, none, nothing, none, none, is_over)


def num_actions(num_nodes: int, num_drones: int) -> int:
    """Actions: for each node, to drive there and to launch each drone to it; to recover each drone; to serve."""
    return (num_nodes + 1) * (num_drones + 1)


def task_of(action: jax.Array, num_nodes: int, num_drones: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Kind, node and drone of actions, `i32[...]` each; node and drone are 0 where the kind has none."""
    node, choice = action // (num_drones + 1), action % (num_drones + 1)
    at_stop, is_last = node >= num_nodes, choice == num_drones
    kind = jnp.where(at_stop, jnp.where(is_last, SERVE, RECOVER), jnp.where(choice == 0, DRIVE, LAUNCH))
    drone = jnp.where(at_stop, jnp.where(is_last, 0, choice), jnp.maximum(choice - 1, 0))
    return kind, jnp.where(at_stop, 0, node), drone


def action_of(kind: Any, node: Any, drone: Any, num_nodes: int, num_drones: int) -> np.ndarray:
    """The actions of tasks, see `task_of`; NumPy."""
    at_node = node * (num_drones + 1) + np.where(kind == LAUNCH, 1 + drone, 0)
    at_stop = num_nodes * (num_drones + 1) + np.where(kind == RECOVER, drone, num_drones)
    return np.where((kind == DRIVE) | (kind == LAUNCH), at_node, at_stop)


def advance(state: State, action: jax.Array, num_invalid: jax.Array) -> State:
    """The state after an action, `i32[]`."""
    instance = state.instance
    kind, node, drone = task_of(action, instance.num_nodes, instance.num_drones)
    walk = perform(instance, state.walk, kind, node, drone)
    where = jnp.where(
        kind == RECOVER, entry_at(state.walk.customer, drone), jnp.where(kind == SERVE, state.walk.stop, node)
    )
    growth = walk.clock - state.walk.clock
    served = state.served | (jnp.arange(instance.num_nodes) == node)
    is_home = state.is_home | ((kind == DRIVE) & (node == 0))
    waited = jnp.where(kind == RECOVER, growth - entry_at(instance.recovery_time, drone), 0.0)
    return state.replace(
        walk=walk,
        task=jnp.stack([kind, where, drone]),
        served=served,
        is_home=is_home,
        growth=growth,
        by_drone=state.by_drone + (kind == LAUNCH),
        waiting=state.waiting + waited,
        invalid_actions=state.invalid_actions + num_invalid,
        step=state.step + 1,
        done=is_home & (walk.customer == 0).all(),
    )


@jax.jit
def play(state: State, actions: jax.Array) -> State:
    """States `[T + 1, ...]` of an episode with actions `i32[T]`, whatever the masks say."""
    none = jnp.zeros((), jnp.int32)
    states = jax.lax.scan(lambda state, action: (advance(state, action, none),) * 2, state, actions)[1]
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)


# Jitted, so that a program that asks several times traces it once.
@jax.jit
def allowed(state: State) -> jax.Array:
    """The mask, `bool[num_actions]`: tasks after which all drones that are away can be recovered in time.

    Recoveries may be here, at the next stop and, of one drone, at the stop after, in any order. If one customer is
    left, the depot may be the stop after it, for all drones; or a drone that is on board, or recovered here, serves
    that customer, and the depot is the next stop. With one or two drones this is exact if no detour of the truck saves
    time, but for flights that can end at the depot alone while several customers are left: whether the truck can be
    there in time is a travelling salesman's problem. With more drones, flights are left out also that fit only if
    recoveries are spread over more stops, or if those here, which hold a launch back, are not in order of deadline.
    The price doubles with each drone.
    """
    instance, walk = state.instance, state.walk
    nodes, drones = instance.num_nodes, instance.num_drones
    actions = jnp.arange(num_actions(nodes, drones), dtype=jnp.int32)
    kind, node, drone = task_of(actions, nodes, drones)
    away = entry_at(walk.customer, drone) > 0
    number, unserved = jnp.arange(nodes, dtype=jnp.int32), ~state.served
    is_left = entry_at(unserved, node)
    goes_home = (node == 0) & state.served.all()
    legal = jnp.select(
        [kind == DRIVE, kind == LAUNCH, kind == RECOVER],
        [
            (is_left | goes_home) & ~state.is_home,
            is_left & ~away & ~entry_at(instance.no_fly, drone, node) & ~state.is_home,
            away & ~entry_at(walk.is_here, drone),
        ],
        walk.is_pending,
    )
    after = perform(instance, _repeated(walk, len(actions)), kind, node, drone)
    left = unserved & (number != node[:, None])
    is_home = state.is_home | ((kind == DRIVE) & (node == 0))
    slack = _slack_by_stops(instance, after, left, is_home)
    # One customer is left after tasks at the last two, or at a stop.
    last = jnp.stack([lowest_true(unserved), jnp.where(unserved, number, 0).max()])
    rows = jnp.where(unserved.sum() == 2, last, nodes)[:, None] * (drones + 1) + jnp.arange(drones + 1, dtype=jnp.int32)
    rows = rows.ravel()
    few = jax.tree.map(lambda leaf: columns_at(leaf, rows), after)
    by_launch = _slack_by_launch(instance, few, rows_at(left, rows), rows_at(is_home, rows))
    slack = jnp.maximum(slack, jnp.where(rows[:, None] == actions, by_launch[:, None], -jnp.inf).max(axis=0))
    slack = jnp.where(legal, jnp.minimum(slack, walk.excess - after.excess), -jnp.inf)
    # The mask before this one has seen to it that one of them is in time, to rounding.
    return legal & (slack >= jnp.minimum(slack.max(), 0.0))


def _repeated(walk: Walk, *counts: int) -> Walk:
    """The walk once for each index of new trailing axes of these lengths."""
    expanded = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape, *(1,) * len(counts)), walk)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[: -len(counts)], *counts)), expanded)


def _slack_by_stops(instance: Instance, walks: Walk, left: jax.Array, is_home: jax.Array) -> jax.Array:
    """`f32[A]`, how much later walks `[A]` could be, for the stops of `allowed`, with nodes `left` (`bool[A, n]`).

    At home (`bool[A]`) all drones are recovered there.
    """
    # Fixed deadlines know nothing of launches that a recovery here holds back; walks after the recoveries do.
    starts = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=-1), walks, gather(instance, walks))
    times = _times(instance, starts)
    pause, left = ROUNDING * starts.clock, left[:, None]
    at_depot = _latest(jax.tree.map(lambda leaf: leaf[..., 0], times), _nowhere(instance))
    arrivals = _latest_arrivals(instance, times, left, at_depot, pause[..., None])
    way = rows_at(instance.truck_time, starts.stop) + pause[..., None]
    is_last = ~left.any(axis=-1)

    def onward(arrival: jax.Array, home: jax.Array) -> jax.Array:
        to_customer = jnp.where(left, arrival - way, -jnp.inf).max(axis=-1)
        return jnp.where(is_home[:, None], -jnp.inf, jnp.where(is_last, home - way[..., 0], to_customer))

    here = _times(instance, starts, starts.stop)
    here = here._replace(latest=jnp.where((starts.customer > 0) & starts.is_here, -jnp.inf, here.latest))
    service = jnp.where(starts.is_pending, entry_at(instance.service, starts.stop) + pause, 0.0)
    by_stop = _latest(here, [onward(*sets) for sets in zip(arrivals, at_depot, strict=True)])
    slack = _latest(here, [latest - service for latest in by_stop])[-1]
    return jnp.minimum(slack, walks.excess[:, None] - starts.excess).max(axis=-1)


def _latest_arrivals(instance: Instance, times: _Times, left: jax.Array, at_depot: Sets, pause: jax.Array) -> Sets:
    """`f32[..., n]`, latest arrivals at a next stop with the drones of each set away; see `_latest`.

    `times` are those of all nodes (`f32[D, ..., n]`), `at_depot` the latest arrivals there after it (`f32[...]`).
    """
    is_other = left[..., None, :] & ~np.eye(instance.num_nodes, dtype=bool)
    single = jnp.where(is_other, times.latest[..., None, :] - instance.truck_time, -jnp.inf).max(axis=-1)
    is_last = left.sum(axis=-1, keepdims=True) == 1
    onward = [jnp.where(is_last, home[..., None] - instance.truck_time[:, 0], -jnp.inf) for home in at_depot]
    for drone, latest in enumerate(single):
        onward[1 << drone] = jnp.maximum(onward[1 << drone], latest)
    by_stop = _latest(times, [latest - pause for latest in onward])
    return _latest(times, [latest - instance.service - pause for latest in by_stop])


def _slack_by_launch(instance: Instance, walks: Walk, left: jax.Array, is_home: jax.Array) -> jax.Array:
    """`f32[R]`, how much later walks `[R]` could be if a drone serves the last customer left, and the truck goes home.

    The drone is recovered before if it is away; the truck serves before that, before the launch or after it.
    """
    drones, last = instance.num_drones, lowest_true(left)
    many = _repeated(walks, drones, 3)
    drone, when = (jax.lax.broadcasted_iota(jnp.int32, many.stop.shape, axis) for axis in (1, 2))
    node = jnp.broadcast_to(last[:, None, None], drone.shape)
    is_away = (drone_indices(many) == drone) & (many.customer > 0)
    may = ~(is_away & many.is_here).any(axis=0) & ~entry_at(instance.no_fly, drone, node)
    may &= ((left.sum(axis=1) == 1) & ~is_home)[:, None, None]
    after = perform(instance, many, jnp.where(when == 0, SERVE, NOTHING), node, drone)
    after = perform(instance, after, jnp.where(is_away.any(axis=0), RECOVER, NOTHING), node, drone)
    after = perform(instance, after, jnp.where(when == 1, SERVE, NOTHING), node, drone)
    after = perform(instance, after, jnp.full_like(drone, LAUNCH), node, drone)
    at_depot = _latest(_times(instance, after, jnp.zeros_like(node)), _nowhere(instance))[-1]
    service = jnp.where(after.is_pending, entry_at(instance.service, after.stop), 0.0)
    slack = at_depot - entry_at(instance.truck_time[:, 0], after.stop) - service - 2 * ROUNDING * after.clock
    slack = jnp.minimum(slack, many.excess - after.excess)
    return jnp.where(may, slack, -jnp.inf).max(axis=(1, 2))


Sets = Sequence[jax.Array]
"""Of the 2^D sets of drones, times; bit d of a set's index is drone d. Not as an array, so that they are fused."""


class _Times(NamedTuple):
    """Times of recoveries at a stop, from the clock on, `f32[D, ...]` each; a drone on board waits for nothing."""

    arrival: jax.Array  # of the drone
    latest: jax.Array  # when its recovery may begin; -inf for never
    recovery: jax.Array  # how long it takes


def _times(instance: Instance, walk: Walk, node: jax.Array | None = None) -> _Times:
    """The times of recoveries at `node`, `i32[...]`; without it at each node, `f32[D, ..., n]`."""
    back, drain = _way_back(instance, walk, node)
    if node is None:
        walk = jax.tree.map(lambda leaf: leaf[..., None], walk)
    away = walk.customer > 0
    endurance, recovery = (
        values.reshape(-1, *(1,) * (walk.customer.ndim - 1)) for values in (instance.endurance, instance.recovery_time)
    )
    arrival = walk.leave - walk.clock + back
    hover = endurance * (1.0 + LATENESS) - walk.used - drain
    latest = jnp.where(hover >= 0, arrival + walk.spared + hover, -jnp.inf)
    return _Times(
        arrival=jnp.where(away, arrival, -jnp.inf),
        latest=jnp.where(away, latest, jnp.inf),
        recovery=jnp.where(away, recovery + ROUNDING * walk.clock, 0.0),
    )


def _way_back(instance: Instance, walk: Walk, node: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """How long the flights of all drones take, and what they use of endurance; shapes and `node` as in `_times`."""
    drone = drone_indices(walk)
    matrices = instance.drone_time, instance.drain_back
    if node is None:
        back, drain = (jax.vmap(rows_at)(matrix, walk.customer) for matrix in matrices)
    else:
        back, drain = (entry_at(matrix, drone, walk.customer, node) for matrix in matrices)
    return back, drain


def _nowhere(instance: Instance) -> Sets:
    """Latest times to drive on from the last stop."""
    return [jnp.asarray(-jnp.inf, jnp.float32)] * 2**instance.num_drones


def _latest(times: _Times, onward: Sets) -> Sets:
    """`f32[...]`, the latest times at a stop at which all drones of each set can still be recovered.

    They are recovered here in any order, but for a set with which the truck drives on, by `onward` (`f32[...]`) at the
    latest.
    """
    latest = [jnp.full_like(times.latest[0], jnp.inf)]
    for index in range(1, len(onward)):
        starts = [onward[index]]
        for drone in (each for each in range(len(times.arrival)) if index >> each & 1):
            rest = latest[index ^ 1 << drone]
            start = jnp.minimum(times.latest[drone], rest - times.recovery[drone])
            starts.append(jnp.where(times.arrival[drone] + times.recovery[drone] <= rest, start, -jnp.inf))
        latest.append(functools.reduce(jnp.maximum, starts))
    return latest


def gather(instance: Instance, walk: Walk) -> Walk:
    """The walk after all drones that may be are recovered at the stop, the one with the least time first."""
    endurance = instance.endurance.reshape(-1, *(1,) * (walk.customer.ndim - 1))

    def recover(_: jax.Array, walk: Walk) -> Walk:
        back, drain = _way_back(instance, walk, walk.stop)
        latest = walk.leave + back + endurance - walk.used - drain + walk.spared
        # Without a limit, the drone that is there first.
        latest = jnp.where(jnp.isfinite(latest), latest, BEYOND + walk.leave + back)
        waits = (walk.customer > 0) & ~walk.is_here
        first = jax.lax.argmin(jnp.where(waits, latest, jnp.inf), 0, jnp.int32)
        kind = jnp.where(waits.any(axis=0), RECOVER, NOTHING)
        return perform(instance, walk, kind, jnp.zeros_like(first), first)

    return jax.lax.fori_loop(0, instance.num_drones, recover, walk)

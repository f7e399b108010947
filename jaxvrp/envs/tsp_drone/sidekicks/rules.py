"""The rules of a truck with several drones: the driver's tasks, one by one. No word of observations or rewards.

The driver does everything: drives, serves, launches and recovers drones. A task begins when the one before is over. But
the last launch before the truck waits for a drone at the same stop, none recovered in between, is held back by as much
of this wait as the drone that is launched would hover otherwise.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.tsp_drone.sidekicks.instance import LATENESS, Instance
from jaxvrp.notebook import NotebookStill

DRIVE, SERVE, LAUNCH, RECOVER, NOTHING = range(5)
"""Kinds of tasks."""

BEYOND = 1e12
"""Later than any deadline."""


class Walk(struct.PyTreeNode):
    """Where truck and drones stand. Trailing axes `[...]` make it many, of the same instance."""

    stop: jax.Array  # `i32[...]`, node of the truck
    clock: jax.Array  # `f32[...]`, when the last task was over
    is_pending: jax.Array  # `bool[...]`, the truck is yet to serve the customer where it is
    customer: jax.Array  # `i32[D, ...]`, of each drone that is away; 0 on board. If 0, the next four mean nothing
    leave: jax.Array  # `f32[D, ...]`, when it leaves its customer
    used: jax.Array  # `f32[D, ...]`, of its endurance by then
    spared: jax.Array  # `f32[D, ...]`, by how much its launch can be held back
    is_here: jax.Array  # `bool[D, ...]`, it was launched at this stop
    held: jax.Array  # `i32[...]`, the drone that was launched last, here, no drone recovered since; -1 for none
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
    count = instance.num_nodes
    drives, serves, launches, recovers = (kind == each for each in (DRIVE, SERVE, LAUNCH, RECOVER))
    is_it, is_held = drone_indices(walk) == drone, drone_indices(walk) == walk.held

    def of_drone(values: jax.Array) -> jax.Array:
        return jnp.where(is_it, values, 0).sum(axis=0)

    def between(matrix: jax.Array, start: jax.Array, end: jax.Array) -> jax.Array:
        return matrix.ravel().at[(drone * count + start) * count + end].get(mode="promise_in_bounds")

    # From the customer of a drone that is recovered; to that of a drone that is launched.
    customer = of_drone(walk.customer)
    start, end = jnp.where(launches, walk.stop, customer), jnp.where(launches, node, walk.stop)
    flight = between(instance.drone_time, start, end)
    arrival = of_drone(walk.leave) + flight
    wait = jnp.maximum(arrival - walk.clock, 0.0)
    hover = jnp.maximum(walk.clock - arrival - of_drone(walk.spared), 0.0)
    used = of_drone(walk.used) + between(instance.drain_back, customer, walk.stop) + hover
    excess = jnp.maximum(used - instance.endurance[drone] * (1.0 + LATENESS), 0.0)

    way = instance.truck_time.ravel().at[walk.stop * count + node].get(mode="promise_in_bounds")
    service = jnp.where(walk.is_pending, instance.service[walk.stop], 0.0)
    lasts = jnp.where(drives | serves, service, 0.0) + jnp.where(drives, way, 0.0)
    lasts += jnp.where(launches, instance.launch_time[drone], 0.0)
    lasts += jnp.where(recovers, wait + instance.recovery_time[drone], 0.0)
    clock = walk.clock + lasts
    is_launched, is_recovered = is_it & launches, is_it & recovers
    return Walk(
        stop=jnp.where(drives, node, walk.stop),
        clock=clock,
        is_pending=jnp.where(drives, node != 0, walk.is_pending & ~serves),
        customer=jnp.where(is_launched, node, jnp.where(is_recovered, 0, walk.customer)),
        leave=jnp.where(is_launched, clock + flight + instance.drone_service[drone], walk.leave),
        used=jnp.where(is_launched, between(instance.drain_out, start, end), walk.used),
        spared=jnp.where(is_launched, 0.0, walk.spared + jnp.where(is_held & recovers, wait, 0.0)),
        is_here=is_launched | (walk.is_here & ~drives),
        held=jnp.where(launches, drone, jnp.where(drives | recovers, -1, walk.held)),
        excess=walk.excess + jnp.where(recovers, excess, 0.0),
    )


class State(NotebookStill, struct.PyTreeNode):
    """Where an episode stands."""

    instance: Instance  # the problem, padded to the environment's size
    walk: Walk
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
    return State(instance, walk, served, is_over, nothing, none, nothing, none, none, is_over)


def num_actions(num_nodes: int, num_drones: int) -> int:
    """Actions: for each node, to drive there and to launch each drone to it; to recover each drone; to serve."""
    return (num_nodes + 1) * (num_drones + 1)


def task_of(action: jax.Array, num_nodes: int, num_drones: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Kind, node and drone of actions, `i32[...]` each; node and drone are 0 where the kind has none."""
    node, which = action // (num_drones + 1), action % (num_drones + 1)
    at_stop, is_last = node >= num_nodes, which == num_drones
    kind = jnp.where(at_stop, jnp.where(is_last, SERVE, RECOVER), jnp.where(which == 0, DRIVE, LAUNCH))
    drone = jnp.where(at_stop, jnp.where(is_last, 0, which), jnp.maximum(which - 1, 0))
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
    growth = walk.clock - state.walk.clock
    served = state.served | (jnp.arange(instance.num_nodes) == node)
    is_home = state.is_home | ((kind == DRIVE) & (node == 0))
    waited = jnp.where(kind == RECOVER, growth - instance.recovery_time[drone], 0.0)
    return state.replace(
        walk=walk,
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


def allowed(state: State) -> jax.Array:
    """The mask, `bool[num_actions]`: tasks after which all drones away can be recovered here and at the next stop.

    Or at the depot, if the truck has one customer left before. With one drone this is exact, if no detour of the truck
    saves time. With several, flights that fit only if several later stops share the recoveries are left out: whether
    there is such a way is a travelling salesman's problem with deadlines.
    """
    instance, walk = state.instance, state.walk
    nodes, drones = instance.num_nodes, instance.num_drones
    actions = jnp.arange(num_actions(nodes, drones), dtype=jnp.int32)
    kind, node, drone = task_of(actions, nodes, drones)
    away = walk.customer[drone] > 0
    unserved = ~state.served
    goes_home = (node == 0) & state.served.all()
    legal = jnp.select(
        [kind == DRIVE, kind == LAUNCH, kind == RECOVER],
        [
            (unserved[node] | goes_home) & ~state.is_home,
            unserved[node] & ~away & ~instance.no_fly[drone, node] & ~state.is_home,
            away & ~walk.is_here[drone],
        ],
        walk.is_pending,
    )
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, len(actions))), walk)
    after = perform(instance, many, kind, node, drone)
    left = unserved & (jnp.arange(nodes, dtype=jnp.int32) != node[:, None])
    excess = _least_excess(instance, after, left, state.is_home | ((kind == DRIVE) & (node == 0)))
    excess = jnp.where(legal, excess, jnp.inf)
    # The mask before this one has seen to it that one of them is in time, to rounding.
    return legal & (excess <= jnp.maximum(excess.min(), 0.0))


def _least_excess(instance: Instance, walks: Walk, left: jax.Array, is_home: jax.Array) -> jax.Array:
    """`f32[A]`, the excess of walks `[A]` that have nodes `left` (`bool[A, n]`), at best, see `allowed`.

    At home (`bool[A]`) all drones are recovered there.
    """
    here = gather(instance, walks)
    starts = _stacked(walks, here)
    nodes = jnp.arange(instance.num_nodes, dtype=jnp.int32)
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, len(nodes))), starts)
    there = gather(instance, _drive(instance, many, nodes)).excess
    is_next = left | ((nodes == 0) & ~left.any(axis=1, keepdims=True))
    excess = jnp.where(is_next[:, None], there, jnp.inf).min(axis=(1, 2))

    last = jax.lax.argmax(left, 1, jnp.int32)[:, None]
    at_last = _drive(instance, starts, last)
    at_depot = _drive(instance, _stacked(at_last, gather(instance, at_last)), jnp.zeros_like(last)[..., None])
    by_depot = gather(instance, at_depot).excess.min(axis=(1, 2))
    excess = jnp.where(left.sum(axis=1) == 1, jnp.minimum(excess, by_depot), excess)
    return jnp.where(is_home, here.excess, excess)


def _stacked(*walks: Walk) -> Walk:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=-1), *walks)


def _drive(instance: Instance, walk: Walk, node: jax.Array) -> Walk:
    """After the way to `node`, `i32[...]`, broadcast."""
    node = jnp.broadcast_to(node, walk.stop.shape)
    return perform(instance, walk, jnp.full_like(node, DRIVE), node, jnp.zeros_like(node))


def gather(instance: Instance, walk: Walk) -> Walk:
    """After the recovery of all drones that may be recovered at the stop, the one with the least time first."""
    drones = drone_indices(walk)
    endurance = instance.endurance.reshape(-1, *(1,) * (walk.customer.ndim - 1))

    def recover(_: jax.Array, walk: Walk) -> Walk:
        way = (drones * instance.num_nodes + walk.customer) * instance.num_nodes + walk.stop
        back, drain = (
            matrix.ravel().at[way].get(mode="promise_in_bounds")
            for matrix in (instance.drone_time, instance.drain_back)
        )
        latest = walk.leave + back + endurance - walk.used - drain + walk.spared
        # Without a limit, the drone that is there first.
        latest = jnp.where(jnp.isfinite(latest), latest, BEYOND + walk.leave + back)
        waits = (walk.customer > 0) & ~walk.is_here
        first = jax.lax.argmin(jnp.where(waits, latest, jnp.inf), 0, jnp.int32)
        kind = jnp.where(waits.any(axis=0), RECOVER, NOTHING)
        return perform(instance, walk, kind, jnp.zeros_like(first), first)

    return jax.lax.fori_loop(0, instance.num_drones, recover, walk)

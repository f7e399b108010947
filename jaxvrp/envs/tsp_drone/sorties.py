"""Sorties that are limited as a whole, by `Instance.max_sortie`: flight, waiting for the truck, and recovery."""

from __future__ import annotations

import functools
from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone import rules
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import drone_distance, drone_time, launch_time, node_indices, truck_time
from jaxvrp.envs.truck_and_drone.rules import SLACK, State

Kind = TypeVar("Kind", bound=State)

LATER = 2.0 * SLACK
"""Twice the slack of the mask of launches: what that was sure of holds later, however sums are rounded."""


def launch(state: Kind, customer: jax.Array) -> Kind:
    """The drone leaves the truck for a customer."""
    launched = rules.launch(state, customer)
    instance = state.instance
    if instance.max_sortie is None:
        return launched
    there = launched.drone_elapsed + drone_time(instance, customer, node_indices(instance))
    return launched.replace(in_range=launched.in_range & (there <= latest(instance, state.truck_node, LATER)))


def latest(instance: Instance, start: jax.Array, slack: float) -> jax.Array:
    """`f32[]`, when both must be at the node of the meeting, on the clock of `truck_elapsed`, after a launch there."""
    return launch_time(instance, start) + (instance.max_sortie - instance.recovery_time) * (1.0 + slack)


def in_time(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: customers after whom a sortie from here can end within `max_flight` and `max_sortie`."""
    instance, start, nodes = state.instance, state.truck_node, node_indices(state.instance)
    begin = launch_time(instance, start)

    def served(customer: jax.Array) -> jax.Array:
        flight = drone_distance(instance, start, customer) + drone_distance(instance, customer, nodes)
        there = begin + drone_time(instance, start, customer) + drone_time(instance, customer, nodes)
        in_range = (flight <= instance.max_flight * (1.0 + SLACK)) & (there <= latest(instance, start, SLACK))
        in_range &= instance.exists & (nodes != customer)
        unserved = ~state.served & (nodes != customer)
        launched = state.replace(launch_node=start)
        return _meets(launched, start, begin, unserved, in_range, allow_revisits=allow_revisits, slack=SLACK)

    return jax.vmap(served)(nodes)


def meets_later(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[]`, whether the truck can still come in time to another node to meet the drone that is away."""
    meets = functools.partial(_meets, state, allow_revisits=allow_revisits, slack=LATER)
    return meets(state.truck_node, state.truck_elapsed, ~state.served, state.in_range)


def keeps_time(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: nodes where the truck can meet the drone that is away within `max_sortie`, or after which it can."""
    instance, nodes = state.instance, node_indices(state.instance)
    arrival = state.truck_elapsed + truck_time(instance, state.truck_node, nodes)
    meets = functools.partial(_meets, state, allow_revisits=allow_revisits, slack=LATER)
    unserved = ~state.served & (nodes[:, None] != nodes)
    later = jax.vmap(lambda node, time, left: meets(node, time, left, state.in_range))(nodes, arrival, unserved)
    is_due = arrival <= latest(instance, state.launch_node, LATER)
    return is_due & (state.in_range | ~state.served & later)


def _meets(
    state: State,
    node: jax.Array,
    elapsed: jax.Array,
    unserved: jax.Array,
    in_range: jax.Array,
    *,
    allow_revisits: bool,
    slack: float,
) -> jax.Array:
    """`bool[]`, whether the truck, at a node after so much time, comes in time to a node where the drone can be.

    It drives straight there. Without revisits, to the depot also over the one customer that is left: whether it comes
    over several in time, is not asked.
    """
    instance, nodes = state.instance, node_indices(state.instance)
    due = latest(instance, state.launch_node, slack)
    is_there = in_range & (elapsed + truck_time(instance, node, nodes) <= due)
    if allow_revisits:
        return is_there.any()
    left = unserved.sum(dtype=jnp.int32)
    over_last = elapsed + truck_time(instance, node, nodes) + truck_time(instance, nodes, 0) <= due
    comes_home = jnp.where(left == 0, is_there[0], in_range[0] & (left == 1) & (unserved & over_last).any())
    return (is_there & unserved).any() | comes_home

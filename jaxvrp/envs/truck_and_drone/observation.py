"""What truck and drone see: a context and the nodes, in the units of the instance."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone import rules
from jaxvrp.envs.truck_and_drone.legs import drone_time, launch_time, node_indices, truck_time
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.rows import rows_at
from jaxvrp.spaces import Feature

NODE = "node"

LARGEST_RANGE = 4.0
"""A range of so many drone distances to the farthest node, or more, is as good as none."""

CONTEXT = (
    Feature("drones_turn", "1 if it is the drone's turn"),
    Feature("away", "1 if the drone is away"),
    Feature("must_meet", "1 if the meeting is here, as the truck came back to a node"),
    Feature("unserved", "customers not served / customers"),
    Feature("x", "truck's x, from the depot / S"),
    Feature("y", "truck's y, from the depot / S"),
    Feature("drone_x", "x of the drone, or of its customer, from the depot / S"),
    Feature("drone_y", "y of the drone, or of its customer, from the depot / S"),
    Feature("truck_elapsed", "truck's time since the meeting before the launch / H"),
    Feature("drone_elapsed", "drone's, until it leaves its customer / H"),
    Feature("wait_here", "how long the drone would wait here for the truck, below 0 the truck for it / H"),
    Feature("stay_allowed", "1 if the mask allows the drone's first action, riding or flying on"),
    Feature("meet_allowed", "1 if the mask allows to meet"),
    Feature("truck_home", "truck's time to the depot / H"),
    Feature("pace_ratio", "drone's longest time from the depot / the truck's"),
    Feature("range", "longest flight / (4 F), at most 1"),
    Feature("launch_time", "time of a launch / H"),
    Feature("recovery_time", "time of a recovery / H"),
)

STATIC = (
    Feature("exists", "1 if there is such a node"),
    Feature("is_depot", "1 for the depot"),
    Feature("x", "x, from the depot / S"),
    Feature("y", "y, from the depot / S"),
    Feature("no_fly", "1 if the drone may not serve it"),
    Feature("truck_home", "truck's time from here to the depot / H"),
    Feature("drone_home", "drone's time from here to the depot / H"),
)

DYNAMIC = (
    Feature(
        "present", "1 if truck or drone is here or may still come (with revisits: any node); if 0, all below are 0"
    ),
    Feature("unserved", "1 if it is a customer not served, nor on the drone's way"),
    Feature("truck_here", "1 where the truck is"),
    Feature("drone_here", "1 for the customer of the drone that is away"),
    Feature("launched_here", "1 where that drone left the truck"),
    Feature("allowed", "1 if the mask of the agent at its turn allows it"),
    Feature("in_range", "1 if the drone that is away could meet the truck here"),
    Feature("truck_time", "truck's time to here / H"),
    Feature("drone_time", "drone's time to here, from its customer if it is away / H"),
    Feature("wait", "how long the drone would wait here if the truck came next, below 0 the truck for it / H"),
)


def _drone_node(state: State) -> jax.Array:
    """`i32[]`, where the drone is; if it is away, its customer."""
    return jnp.where(state.is_away, state.drone_customer, state.truck_node)


def context(state: State, drone_mask: jax.Array) -> list[jax.Array]:
    """The numbers of `CONTEXT`; `drone_mask` is `bool[n + 2]`."""
    instance, figures = state.instance, state.figures
    per_time = 1.0 / figures.horizon
    per_sortie = 1.0 / state.sortie_unit
    truck, drone = (
        (rows_at(instance.locs, node) - instance.locs[0]) / figures.extent
        for node in (state.truck_node, _drone_node(state))
    )
    wait = state.truck_elapsed - rules.drone_arrival(state, state.truck_node)
    return [
        state.is_drones_turn,
        state.is_away,
        state.must_meet,
        jnp.sum(~state.served) / figures.num_customers,
        truck[0],
        truck[1],
        drone[0],
        drone[1],
        state.truck_elapsed * per_sortie,
        state.drone_elapsed * per_sortie,
        jnp.where(state.is_away, wait, 0.0) * per_sortie,
        state.is_drones_turn & drone_mask[0],
        drone_mask[1],
        rows_at(figures.truck_home, state.truck_node) * per_time,
        figures.pace_ratio,
        jnp.minimum(instance.max_flight / (LARGEST_RANGE * figures.flight_unit), 1.0),
        launch_time(instance, state.truck_node) * per_time,
        instance.recovery_time * per_time,
    ]


def static_planes(state: State) -> list[jax.Array]:
    """The numbers of `STATIC` of each node, `[n]` each."""
    instance, figures = state.instance, state.figures
    place = (instance.locs - instance.locs[0]) / figures.extent
    return [
        instance.exists,
        jnp.arange(instance.num_nodes) == 0,
        place[:, 0],
        place[:, 1],
        instance.no_fly,
        figures.truck_home / figures.horizon,
        figures.drone_home / figures.horizon,
    ]


def dynamic_planes(state: State, drone_mask: jax.Array, truck_mask: jax.Array, present: jax.Array) -> list[jax.Array]:
    """The numbers of `DYNAMIC` of each node, `[n]` each; masks `bool[n + 2]` and `bool[n]`."""
    instance, index = state.instance, node_indices(state.instance)
    per_time = 1.0 / state.figures.horizon
    truck_leg = truck_time(instance, state.truck_node, index)
    drone_leg = drone_time(instance, _drone_node(state), index)
    wait = state.truck_elapsed + truck_leg - (state.drone_elapsed + drone_leg)
    return [
        present,
        ~state.served,
        index == state.truck_node,
        state.is_away & (index == state.drone_customer),
        state.is_away & (index == state.launch_node),
        jnp.where(state.is_drones_turn, drone_mask[FIRST_SERVE:], truck_mask),
        state.in_range,
        truck_leg * per_time,
        drone_leg * per_time,
        jnp.where(state.is_away, wait, 0.0) * (1.0 / state.sortie_unit),
    ]


def stacked(numbers: list[jax.Array]) -> jax.Array:
    """`f32[K, ...]`, of truth values and numbers `[...]`."""
    return jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers])

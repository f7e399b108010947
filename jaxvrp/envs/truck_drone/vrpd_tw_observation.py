"""What truck and drones see in `vrpd_tw`: as in `truck_drone_basic`, with windows, nodes and the truck's target.

`D` drones, `C` customers, `N` route nodes; `max_steps` is the unit of clocks and windows. Worlds are given as agents
know them (`world.as_known`). Contexts, pointers and the entities that are not here are those of `observation`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone import observation
from jaxvrp.envs.truck_drone.observation import CUSTOMER, FARTHEST, NODE, NODE_DYNAMIC, NODE_STATIC
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.spaces import ByKind, EntityKind, Feature, Place

CUSTOMER_DYNAMIC = (
    Feature("present", "1 from when it is known until it is served"),
    Feature("x", "x"),
    Feature("y", "y"),
    Feature("demand", "demand"),
    Feature("start", "start of the window / max_steps"),
    Feature("deadline", "end of the window / max_steps"),
    Feature("opens", "time until the window opens / max_steps, at least 0"),
    Feature("window", "window remaining / max_steps, in [0, 1]"),
    Feature("carried", "1 if a drone has its package"),
    Feature("flight_to_start", "map units that a drone can fly until the window opens, in [-4, 4]"),
    Feature("flight_to_deadline", "map units that a drone can fly until the window closes, in [-4, 4]"),
)
"""All changes: a customer may become known in the course of the episode.

The last two are times in the unit of distances: whether a flight is too early or too late is then a difference of two
numbers of one size, while in units of `max_steps` a step is too little to be told apart.
"""

TARGET = Feature("target", "1 if the truck is driving there")


def entity_kinds(num_customers: int, num_nodes: int, num_drones: int) -> tuple[EntityKind, ...]:
    """Customers, route nodes and drones."""
    _, nodes, drones = observation.entity_kinds(num_customers, num_nodes, num_drones)
    places = (Place("present", "x", "y"),)
    return (
        EntityKind(CUSTOMER, num_customers, (), CUSTOMER_DYNAMIC, places),
        EntityKind(NODE, num_nodes, NODE_STATIC, (*NODE_DYNAMIC, TARGET), nodes.places),
        drones,
    )


def static_entities(world: World, max_steps: int) -> ByKind:
    """`{"customer": f32[0, C], "node": f32[2, N], "drone": f32[0, D]}`."""
    num_customers = world.customers.served.shape[0]
    return observation.static_entities(world, max_steps) | {CUSTOMER: jnp.zeros((0, num_customers), jnp.float32)}


def entities(physics: Physics, world: World, max_steps: int) -> ByKind:
    """`{"customer": f32[11, C], "node": f32[2, N], "drone": f32[8, D]}`."""
    basic, instance = observation.entities(physics, world, max_steps), world.instance
    present, window, carried = basic[CUSTOMER]
    of_customers = [
        present,
        instance.customer_position[:, 0],
        instance.customer_position[:, 1],
        instance.demand,
        window_start(world, max_steps),
        instance.window_end.astype(jnp.float32) / max_steps,
        jnp.maximum(instance.window_start - world.step, 0).astype(jnp.float32) / max_steps,
        window,
        carried,
        flight_until(physics, world, instance.window_start),
        flight_until(physics, world, instance.window_end),
    ]
    return basic | {
        CUSTOMER: jnp.where(present > 0, jnp.stack(of_customers), 0.0),
        NODE: jnp.concatenate([basic[NODE], is_target(world)[None]]),
    }


def window_start(world: World, max_steps: int) -> jax.Array:
    """`f32[C]`, in units of `max_steps`."""
    return world.instance.window_start.astype(jnp.float32) / max_steps


def flight_until(physics: Physics, world: World, step: jax.Array) -> jax.Array:
    """Map units that a drone can fly until `step` (`i32[...]`), at most `FARTHEST`; negative once it is past."""
    stride = physics.drone_speed * physics.dt
    return jnp.clip((step - world.step).astype(jnp.float32) * stride, -FARTHEST, FARTHEST)


def is_target(world: World) -> jax.Array:
    """Whether the truck is driving to each node, `f32[N]`, 0 or 1."""
    node = jnp.arange(world.instance.node_position.shape[0], dtype=jnp.int32)
    target = -1 if world.truck.target_node is None else world.truck.target_node
    return (node == target).astype(jnp.float32)


def additional(world: World, origin: jax.Array, max_steps: int) -> jax.Array:
    """What follows on the flat vectors of `truck_drone_basic`, `f32[C + 3N]`; nodes relative to `origin`, `f32[2]`.

    Per customer the start of its window; per node its position, and whether the truck is driving there.
    """
    nodes = jnp.concatenate([world.instance.node_position - origin, is_target(world)[:, None]], axis=1)
    return jnp.concatenate([window_start(world, max_steps), nodes.ravel()])


def extended(vectors: jax.Array, world: World, max_steps: int) -> jax.Array:
    """Vectors `f32[A, F]` of `truck_drone_basic` with `additional` numbers and the clock, `f32[A, F + C + 3N + 1]`."""
    clock = world.step.astype(jnp.float32) / max_steps
    more = jnp.append(additional(world, world.truck.position, max_steps), clock)
    return jnp.concatenate([vectors, jnp.broadcast_to(more, (vectors.shape[0], more.shape[0]))], axis=1)

"""What truck and drones see in `truck_drone_basic`: flat vectors, or entities beside a context.

`D` drones, `C` customers, `N` route nodes; `max_steps` is the unit of clocks and windows. Layouts of the flat vectors
are in the docstring of `TruckDroneBasic`; the numbers of entities and contexts have their names here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.physics import Physics, distance
from jaxvrp.envs.truck_drone.world import RETURNING, World
from jaxvrp.spaces import ByKind, EntityKind, Feature, Place, Pointer

STATUS_CODE = (0.0, 0.25, 0.5, 1.0)
"""How the status of a drone is observed, by status: onboard, flying, returning, crashed."""

TINY = 1e-30
"""Stands for a battery rate of 0 where something is divided by it."""

FARTHEST = 4.0
"""Map units: no range that is told is longer."""

CUSTOMER, NODE, DRONE = "customer", "node", "drone"

CUSTOMER_STATIC = (
    Feature("x", "x"),
    Feature("y", "y"),
    Feature("demand", "demand"),
    Feature("deadline", "end of the window / max_steps"),
)
CUSTOMER_DYNAMIC = (
    Feature("present", "1 until it is served"),
    Feature("window", "window remaining / max_steps, in [0, 1]"),
    Feature("carried", "1 if a drone has its package"),
)
NODE_STATIC = (Feature("x", "x"), Feature("y", "y"))
NODE_DYNAMIC = (Feature("present", "1"),)
DRONE_DYNAMIC = (
    Feature("present", "1 unless it has crashed"),
    Feature("x", "x"),
    Feature("y", "y"),
    Feature("battery", "battery"),
    Feature("onboard", "1 on the truck"),
    Feature("returning", "1 on the way to the truck"),
    Feature("carrying", "1 with a package"),
    Feature("range", "map units that it can fly, at most 4"),
)
TRUCK_CONTEXT = (Feature("x", "own x"), Feature("y", "own y"), Feature("clock", "step / max_steps"))
DRONE_CONTEXT = (
    Feature("x", "own x"),
    Feature("y", "own y"),
    Feature("truck_x", "the truck's x"),
    Feature("truck_y", "the truck's y"),
    Feature("clock", "step / max_steps"),
    Feature("battery", "own battery"),
    Feature("onboard", "1 on the truck"),
    Feature("returning", "1 on the way to the truck"),
    Feature("carrying", "1 with a package"),
    Feature("crashed", "1 if crashed"),
    Feature("range", "map units that it can fly, at most 4"),
    Feature("margin", "what is left of the range above the battery guard's threshold, map units, in [-4, 4]"),
)

TRUCK_PLACES = (("x", "y"),)
DRONE_PLACES = (("x", "y"), ("truck_x", "truck_y"))
TRUCK_POINTERS = (Pointer(None, 1), Pointer(NODE, 1), Pointer(DRONE, 1), Pointer(DRONE, 1))
"""STAY; MOVE to a node; RELEASE and RECOVER a drone."""

DRONE_POINTERS = (Pointer(None, 2), Pointer(CUSTOMER, 1))
"""HOVER and RETURN; DELIVER to a customer."""


def entity_kinds(num_customers: int, num_nodes: int, num_drones: int) -> tuple[EntityKind, ...]:
    """Customers, route nodes and drones."""
    place = (Place("present", "x", "y"),)
    return (
        EntityKind(CUSTOMER, num_customers, CUSTOMER_STATIC, CUSTOMER_DYNAMIC, place),
        EntityKind(NODE, num_nodes, NODE_STATIC, NODE_DYNAMIC, place),
        EntityKind(DRONE, num_drones, (), DRONE_DYNAMIC, place),
    )


def static_entities(world: World, max_steps: int) -> ByKind:
    """`{"customer": f32[4, C], "node": f32[2, N], "drone": f32[0, D]}`."""
    instance = world.instance
    x, y = instance.customer_position[:, 0], instance.customer_position[:, 1]
    deadline = instance.window_end.astype(jnp.float32) / max_steps
    return {
        CUSTOMER: jnp.stack([x, y, instance.demand, deadline]),
        NODE: jnp.stack([instance.node_position[:, 0], instance.node_position[:, 1]]),
        DRONE: jnp.zeros((0, world.drones.status.shape[0]), jnp.float32),
    }


def entities(physics: Physics, world: World, max_steps: int) -> ByKind:
    """`{"customer": f32[3, C], "node": f32[1, N], "drone": f32[8, D]}`."""
    drones, waiting = world.drones, ~world.customers.served
    customer = jnp.arange(waiting.shape[0], dtype=jnp.int32)
    carried = (drones.carrying[:, None] == customer).any(axis=0)
    of_customers = [waiting.astype(jnp.float32), _window(world, max_steps), carried.astype(jnp.float32)]
    of_drones = [
        jnp.ones_like(drones.battery),
        drones.position[:, 0],
        drones.position[:, 1],
        drones.battery,
        drones.is_onboard.astype(jnp.float32),
        (drones.status == RETURNING).astype(jnp.float32),
        (drones.carrying >= 0).astype(jnp.float32),
        _range(physics, world),
    ]
    return {
        CUSTOMER: jnp.where(waiting, jnp.stack(of_customers), 0.0),
        NODE: jnp.ones((1, world.instance.node_position.shape[0]), jnp.float32),
        DRONE: jnp.where(drones.is_crashed, 0.0, jnp.stack(of_drones)),
    }


def truck_context(world: World, max_steps: int) -> jax.Array:
    """`f32[1, 3]`."""
    return jnp.concatenate([world.truck.position, _clock(world, max_steps)[None]])[None]


def drone_context(physics: Physics, world: World, max_steps: int) -> jax.Array:
    """`f32[D, 12]`."""
    drones, flown = world.drones, _range(physics, world)
    way_home = distance(drones.position, world.truck.position) + physics.drone_speed * physics.dt
    margin = flown - physics.forced_return_factor * way_home
    columns = [
        drones.position[:, 0],
        drones.position[:, 1],
        world.truck.position[0],
        world.truck.position[1],
        _clock(world, max_steps),
        drones.battery,
        drones.is_onboard,
        drones.status == RETURNING,
        drones.carrying >= 0,
        drones.is_crashed,
        flown,
        jnp.clip(margin, -FARTHEST, FARTHEST),
    ]
    shape = drones.battery.shape
    return jnp.stack([jnp.broadcast_to(column, shape).astype(jnp.float32) for column in columns], axis=1)


def _range(physics: Physics, world: World) -> jax.Array:
    """How far each drone can fly with what it carries, `f32[D]`, at most `FARTHEST` map units."""
    battery, rate = world.drones.battery, physics.consumption(world.instance, world.drones.carrying)
    return jnp.where(battery < FARTHEST * rate, battery / jnp.maximum(rate, TINY), FARTHEST)


def _clock(world: World, max_steps: int) -> jax.Array:
    """`f32[]`."""
    return world.step.astype(jnp.float32) / max_steps


def _window(world: World, max_steps: int) -> jax.Array:
    """What remains of each customer's window, `f32[C]`; 0 for the served."""
    remaining = (world.instance.window_end - world.step).astype(jnp.float32) / max_steps
    return jnp.where(world.customers.served, 0.0, jnp.clip(remaining, 0.0, 1.0))


def truck_observation(world: World, max_steps: int) -> jax.Array:
    """`f32[1, 4 + 8D + 5C + (1+D)]`: places relative to the truck, but for its own."""
    num_drones = world.drones.status.shape[0]
    features = jnp.concatenate(
        [
            world.truck.position,
            world.truck.velocity,
            world.drones.is_onboard.astype(jnp.float32),
            _fleet(world, world.drones.position - world.truck.position).ravel(),
            _customers(world, world.truck.position[None], max_steps).ravel(),
            jnp.eye(1 + num_drones, dtype=jnp.float32)[0],
        ]
    )
    return features[None]


def drone_observation(world: World, max_steps: int) -> jax.Array:
    """`f32[D, 11 + 5C + 4(D-1) + (1+D)]`: places relative to each drone, but for its own and its target."""
    drones, num_drones = world.drones, world.drones.status.shape[0]
    return jnp.concatenate(
        [
            drones.position,
            drones.velocity,
            drones.battery[:, None],
            (drones.carrying >= 0).astype(jnp.float32)[:, None],
            drones.target,
            drones.is_onboard.astype(jnp.float32)[:, None],
            world.truck.position - drones.position,
            _customers(world, drones.position, max_steps).reshape(num_drones, -1),
            _other_drones(world).reshape(num_drones, -1),
            jnp.eye(1 + num_drones, dtype=jnp.float32)[1:],
        ],
        axis=1,
    )


def global_observation(world: World, max_steps: int) -> jax.Array:
    """`f32[4 + 7D + 5C + 1]`, what a central critic sees, in absolute coordinates."""
    return jnp.concatenate(
        [
            world.truck.position,
            world.truck.velocity,
            _fleet(world, world.drones.position).ravel(),
            _customers(world, jnp.zeros((1, 2), jnp.float32), max_steps).ravel(),
            _clock(world, max_steps)[None],
        ]
    )


def _status_code(world: World) -> jax.Array:
    """`f32[D]`."""
    return jnp.asarray(STATUS_CODE, jnp.float32)[world.drones.status]


def _fleet(world: World, position: jax.Array) -> jax.Array:
    """`f32[D, 7]` with the given positions: position, velocity, battery, carrying flag, status code."""
    drones = world.drones
    scalars = [drones.battery, (drones.carrying >= 0).astype(jnp.float32), _status_code(world)]
    return jnp.concatenate([position, drones.velocity, jnp.stack(scalars, axis=1)], axis=1)


def _customers(world: World, viewpoint: jax.Array, max_steps: int) -> jax.Array:
    """`f32[A, C, 5]` from viewpoints `f32[A, 2]`: relative position, served flag, window remaining, demand."""
    served = world.customers.served.astype(jnp.float32)
    scalars = jnp.stack([served, _window(world, max_steps), world.instance.demand], axis=1)
    relative = world.instance.customer_position - viewpoint[:, None]
    shared = jnp.broadcast_to(scalars, (viewpoint.shape[0], *scalars.shape))
    return jnp.concatenate([relative, shared], axis=2)


def _other_drones(world: World) -> jax.Array:
    """`f32[D, D-1, 4]`, the other drones in index order: relative position, battery, status code."""
    drones, num_drones = world.drones, world.drones.status.shape[0]
    relative = drones.position[None] - drones.position[:, None]
    scalars = jnp.stack([drones.battery, _status_code(world)], axis=1)
    shared = jnp.broadcast_to(scalars, (num_drones, *scalars.shape))
    everyone = jnp.concatenate([relative, shared], axis=2)
    # Entry (i, j) of the result is drone j below the diagonal and drone j + 1 from it on.
    below = jnp.tri(num_drones, num_drones - 1, -1, dtype=bool)
    return jnp.where(below[:, :, None], everyone[:, :-1], everyone[:, 1:])

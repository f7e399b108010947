"""What truck and drones see: flat vectors, or entities beside a context.

`D` drones, `C` customers, `N` route nodes; `max_steps` is the unit of clocks and windows. Layouts of the flat vectors
are in the docstrings of `TruckDrone` and `VrpdTw`; the numbers of entities and contexts have their names here. With
`shows_windows` (`vrpd_tw`) agents see windows, nodes and the truck's target besides.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.physics import Physics, distance
from jaxvrp.envs.truck_drone.world import RETURNING, World
from jaxvrp.spaces import ByKind, ByRole, EntityKind, Feature, Place, Pointer

STATUS_CODE = (0.0, 0.25, 0.5, 1.0)
"""How the status of a drone is observed, by status: onboard, flying, returning, crashed."""

TINY = 1e-30
"""Stands for a battery rate of 0 where something is divided by it."""

FARTHEST = 4.0
"""Map units: longer ranges are shown as this."""

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

WINDOWED_CUSTOMER_DYNAMIC = (
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
"""All change: a customer may become known in the course of the episode.

The last two are times in the unit of distances: whether a flight is too early or too late is then a difference of two
numbers of one size, while in units of `max_steps` a single step is too small to be told apart.
"""

WINDOWED_NODE_DYNAMIC = (*NODE_DYNAMIC, Feature("target", "1 if the truck is driving there"))

BESIDE_ENTITIES = {
    "truck": (TRUCK_CONTEXT, TRUCK_POINTERS, TRUCK_PLACES),
    "drone": (DRONE_CONTEXT, DRONE_POINTERS, DRONE_PLACES),
}
"""By role: the context of an agent, what its actions point at, and which numbers of the context are places."""


def entity_kinds(num_customers: int, num_nodes: int, num_drones: int, *, shows_windows: bool) -> tuple[EntityKind, ...]:
    """Customers, route nodes and drones."""
    place = (Place("present", "x", "y"),)
    static, dynamic = ((), WINDOWED_CUSTOMER_DYNAMIC) if shows_windows else (CUSTOMER_STATIC, CUSTOMER_DYNAMIC)
    return (
        EntityKind(CUSTOMER, num_customers, static, dynamic, place),
        EntityKind(NODE, num_nodes, NODE_STATIC, WINDOWED_NODE_DYNAMIC if shows_windows else NODE_DYNAMIC, place),
        EntityKind(DRONE, num_drones, (), DRONE_DYNAMIC, place),
    )


def static_entities(world: World, max_steps: int, *, shows_windows: bool) -> ByKind:
    """`{"customer": f32[4, C], "node": f32[2, N], "drone": f32[0, D]}`; with windows `"customer": f32[0, C]`."""
    instance, num_drones = world.instance, world.drones.status.shape[0]
    x, y = instance.customer_position[:, 0], instance.customer_position[:, 1]
    deadline = instance.window_end.astype(jnp.float32) / max_steps
    return {
        CUSTOMER: jnp.zeros((0, *x.shape), jnp.float32)
        if shows_windows
        else jnp.stack([x, y, instance.demand, deadline]),
        NODE: jnp.stack([instance.node_position[:, 0], instance.node_position[:, 1]]),
        DRONE: jnp.zeros((0, num_drones), jnp.float32),
    }


def entities(physics: Physics, world: World, max_steps: int, *, shows_windows: bool) -> ByKind:
    """`{"customer": f32[3, C], "node": f32[1, N], "drone": f32[8, D]}`; with windows f32[11, C] and f32[2, N]."""
    drones, waiting = world.drones, ~world.customers.served
    # Planes from the beginning: on a TPU, a row that a reduction made is copied twice before it is stacked.
    carried = (drones.carrying[None, :, None] == jnp.arange(waiting.shape[0], dtype=jnp.int32)).any(axis=1)
    of_customers = [waiting.astype(jnp.float32)[None], _window(world, max_steps)[None], carried.astype(jnp.float32)]
    # Read from the nodes, although none is padding: a TPU lays a constant out row by row, in tiles 25 times as large.
    of_nodes = jnp.isfinite(world.instance.node_position[:, 0])[None].astype(jnp.float32)
    if shows_windows:
        of_customers = _windowed(physics, world, max_steps, *of_customers)
        of_nodes = jnp.concatenate([of_nodes, _is_target(world)])
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
        CUSTOMER: jnp.where(waiting, jnp.concatenate(of_customers), 0.0),
        NODE: of_nodes,
        DRONE: jnp.where(drones.is_crashed, 0.0, jnp.stack(of_drones)),
    }


def _windowed(
    physics: Physics, world: World, max_steps: int, present: jax.Array, window: jax.Array, carried: jax.Array
) -> list[jax.Array]:
    """`WINDOWED_CUSTOMER_DYNAMIC` in several planes, `f32[.., C]`, of which three are given, `f32[1, C]` each."""
    instance, stride = world.instance, physics.drone_speed * physics.dt

    def flight_until(step: jax.Array) -> jax.Array:
        return jnp.clip((step - world.step).astype(jnp.float32) * stride, -FARTHEST, FARTHEST)

    of_instance = [
        instance.customer_position[:, 0],
        instance.customer_position[:, 1],
        instance.demand,
        instance.window_start.astype(jnp.float32) / max_steps,
        instance.window_end.astype(jnp.float32) / max_steps,
        jnp.maximum(instance.window_start - world.step, 0).astype(jnp.float32) / max_steps,
    ]
    flights = [flight_until(instance.window_start), flight_until(instance.window_end)]
    return [present, jnp.stack(of_instance), window, carried, jnp.stack(flights)]


def contexts(physics: Physics, world: World, max_steps: int) -> ByRole:
    """`{"truck": f32[1, 3], "drone": f32[D, 12]}`, see `TRUCK_CONTEXT` and `DRONE_CONTEXT`."""
    drones, flown, clock = world.drones, _range(physics, world), _clock(world, max_steps)
    way_home = distance(drones.position, world.truck.position) + physics.drone_speed * physics.dt
    margin = flown - physics.forced_return_factor * way_home
    columns = [
        drones.position[:, 0],
        drones.position[:, 1],
        world.truck.position[0],
        world.truck.position[1],
        clock,
        drones.battery,
        drones.is_onboard,
        drones.status == RETURNING,
        drones.carrying >= 0,
        drones.is_crashed,
        flown,
        jnp.clip(margin, -FARTHEST, FARTHEST),
    ]
    shape = drones.battery.shape
    return {
        "truck": jnp.concatenate([world.truck.position, clock[None]])[None],
        "drone": jnp.stack([jnp.broadcast_to(column, shape).astype(jnp.float32) for column in columns], axis=1),
    }


def _range(physics: Physics, world: World) -> jax.Array:
    """How far each drone can fly with what it carries, `f32[D]`, at most `FARTHEST` map units."""
    battery, rate = world.drones.battery, physics.consumption(world.instance, world.drones.carrying)
    return jnp.where(battery < FARTHEST * rate, battery / jnp.maximum(rate, TINY), FARTHEST)


def _clock(world: World, max_steps: int) -> jax.Array:
    return world.step.astype(jnp.float32) / max_steps


def _window(world: World, max_steps: int) -> jax.Array:
    """What remains of each customer's window, `f32[C]`; 0 for the served."""
    remaining = (world.instance.window_end - world.step).astype(jnp.float32) / max_steps
    return jnp.where(world.customers.served, 0.0, jnp.clip(remaining, 0.0, 1.0))


def _is_target(world: World) -> jax.Array:
    """Whether the truck is driving to each node, `f32[1, N]`, 0 or 1."""
    node = jnp.arange(world.instance.node_position.shape[0], dtype=jnp.int32)[None]
    target = -1 if world.truck.target_node is None else world.truck.target_node
    return (node == target).astype(jnp.float32)


# --- flat vectors ---------------------------------------------------------------------------------------------------


def vectors(world: World, max_steps: int, *, shows_windows: bool) -> ByRole:
    """`{"truck": f32[1, F], "drone": f32[D, F]}`; with windows, all end with the same `C + 3N + 1` numbers."""
    seen = {"truck": _of_truck(world, max_steps), "drone": _of_drones(world, max_steps)}
    if not shows_windows:
        return seen
    addition = jnp.append(_addition(world, world.truck.position, max_steps), _clock(world, max_steps))
    return {
        role: jnp.concatenate([rows, jnp.broadcast_to(addition, (len(rows), len(addition)))], axis=1)
        for role, rows in seen.items()
    }


def global_observation(world: World, max_steps: int, *, shows_windows: bool) -> jax.Array:
    """`f32[4 + 7D + 5C + 1]`, what a central critic sees, in absolute coordinates; with windows, `C + 3N` more."""
    origin = jnp.zeros(2, jnp.float32)
    parts = [
        world.truck.position,
        world.truck.velocity,
        _fleet(world, world.drones.position).ravel(),
        _customers(world, origin[None], max_steps).ravel(),
        _clock(world, max_steps)[None],
    ]
    return jnp.concatenate([*parts, _addition(world, origin, max_steps)] if shows_windows else parts)


def _addition(world: World, origin: jax.Array, max_steps: int) -> jax.Array:
    """What is seen with windows besides, `f32[C + 3N]`.

    Per customer the start of its window; per node its position relative to `origin` (`f32[2]`), and whether the truck
    is driving there.
    """
    start = world.instance.window_start.astype(jnp.float32) / max_steps
    nodes = jnp.concatenate([world.instance.node_position - origin, _is_target(world).T], axis=1)
    return jnp.concatenate([start, nodes.ravel()])


def _of_truck(world: World, max_steps: int) -> jax.Array:
    """`f32[1, 4 + 8D + 5C + (1+D)]`: places relative to the truck, but for its own."""
    num_drones = world.drones.status.shape[0]
    return jnp.concatenate(
        [
            world.truck.position,
            world.truck.velocity,
            world.drones.is_onboard.astype(jnp.float32),
            _fleet(world, world.drones.position - world.truck.position).ravel(),
            _customers(world, world.truck.position[None], max_steps).ravel(),
            jnp.eye(1 + num_drones, dtype=jnp.float32)[0],
        ]
    )[None]


def _of_drones(world: World, max_steps: int) -> jax.Array:
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


def _status_code(world: World) -> jax.Array:
    return jnp.asarray(STATUS_CODE, jnp.float32)[world.drones.status]


def _fleet(world: World, position: jax.Array) -> jax.Array:
    """`f32[D, 7]` with the given positions: position, velocity, battery, carrying flag, status code."""
    drones = world.drones
    scalars = [drones.battery, (drones.carrying >= 0).astype(jnp.float32), _status_code(world)]
    return jnp.concatenate([position, drones.velocity, jnp.stack(scalars, axis=1)], axis=1)


def _customers(world: World, viewpoint: jax.Array, max_steps: int) -> jax.Array:
    """`f32[A, C, 5]` from viewpoints `f32[A, 2]`: relative position, served flag, window remaining, demand."""
    scalars = [world.customers.served.astype(jnp.float32), _window(world, max_steps), world.instance.demand]
    return _seen_from(viewpoint, world.instance.customer_position, scalars)


def _seen_from(viewpoint: jax.Array, places: jax.Array, scalars: list[jax.Array]) -> jax.Array:
    """`f32[A, P, 2+K]` from viewpoints `f32[A, 2]`: relative positions of places `f32[P, 2]`, their `K` scalars."""
    relative = places - viewpoint[:, None]
    shared = jnp.broadcast_to(jnp.stack(scalars, axis=1), (*relative.shape[:2], len(scalars)))
    return jnp.concatenate([relative, shared], axis=2)


def _other_drones(world: World) -> jax.Array:
    """`f32[D, D-1, 4]`, the other drones in index order: relative position, battery, status code."""
    position, num_drones = world.drones.position, world.drones.status.shape[0]
    rows = _seen_from(position, position, [world.drones.battery, _status_code(world)])
    # Entry (i, j) of the result is drone j below the diagonal and drone j + 1 from it on.
    below = jnp.tri(num_drones, num_drones - 1, -1, dtype=bool)
    return jnp.where(below[:, :, None], rows[:, :-1], rows[:, 1:])

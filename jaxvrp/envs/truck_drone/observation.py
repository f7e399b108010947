"""What truck and drones see in `truck_drone_basic`: flat vectors; layouts in the docstring of `TruckDroneBasic`.

`D` drones, `C` customers; `max_steps` is the unit of clocks and windows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.world import World

STATUS_CODE = (0.0, 0.25, 0.5, 1.0)
"""How the status of a drone is observed, by status: onboard, flying, returning, crashed."""


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
    clock = world.step.astype(jnp.float32) / max_steps
    return jnp.concatenate(
        [
            world.truck.position,
            world.truck.velocity,
            _fleet(world, world.drones.position).ravel(),
            _customers(world, jnp.zeros((1, 2), jnp.float32), max_steps).ravel(),
            clock[None],
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
    served = world.customers.served
    remaining = (world.instance.window_end - world.step).astype(jnp.float32) / max_steps
    window = jnp.where(served, 0.0, jnp.clip(remaining, 0.0, 1.0))
    scalars = jnp.stack([served.astype(jnp.float32), window, world.instance.demand], axis=1)
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

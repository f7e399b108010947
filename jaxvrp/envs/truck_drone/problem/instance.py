"""The truck-and-drones problem as data."""

from __future__ import annotations

import jax
from flax import struct


class Instance(struct.PyTreeNode):
    """One problem, as data.

    Attributes:
        truck_position: `f32[2]`, where truck and drones start.
        node_position: `f32[N, 2]`, where the truck can drive.
        customer_position: `f32[C, 2]`.
        demand: `f32[C]`, parcel size.
        window_start: `i32[C]`, first step of the time window.
        window_end: `i32[C]`, last step at which a delivery is on time.
    """

    truck_position: jax.Array
    node_position: jax.Array
    customer_position: jax.Array
    demand: jax.Array
    window_start: jax.Array
    window_end: jax.Array

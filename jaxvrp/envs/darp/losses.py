"""Who could not be served any more after each choice, as far as pairs of requests tell.

A vehicle misses those whom it reaches too late from its next node. Whom it misses is left to the vehicles to come, and
of requests that cannot share a vehicle, each of these serves one: a request with as many rivals among the missed as
there are vehicles to come is counted, and those of a clique of one more than the vehicles come to one loss.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.problem.instance import distance, travel_time
from jaxvrp.envs.darp.rules import State


class Losses(struct.PyTreeNode):
    """What is known of one state.

    Attributes:
        rivals: `f32[N/2]`, waiting requests that cannot share a vehicle with each, for each vehicle to come.
        missed_rivals: `f32[N/2]`, likewise those whom the current vehicle misses already.
        more: `f32[N+1]`, losses that each choice adds to those that are certain; of the depot, that of going home now.
    """

    rivals: jax.Array
    missed_rivals: jax.Array
    more: jax.Array


def losses(state: State) -> Losses:
    """Of one state, whose figures have rivals."""
    instance, visits = state.binding, rules.outlook(state)
    assert state.figures.rivals is not None
    rivals = state.figures.rivals.astype(jnp.float32)
    waiting = ~state.visited[1::2]
    others = ~state.vehicle_finished & (jnp.arange(state.vehicle_finished.shape[0]) != state.current_agent)
    to_come = others.sum(dtype=jnp.float32)
    latest = instance.deadline[1::2] + rules.SLACK
    missed = waiting & (visits.arrival[1::2] > latest)
    way = travel_time(instance, distance(instance.locs[:, None], instance.locs[1::2]))
    missed_after = waiting & (visits.leave[:, None] + way > latest)
    # Who is served next is not missed; at the depot, all who wait are left to others.
    request = jnp.arange(waiting.shape[0])
    missed_after &= jnp.arange(missed_after.shape[0])[:, None] != 2 * request + 1
    missed_after = missed_after.at[0].set(waiting)

    def lost(left: jax.Array) -> jax.Array:
        left = left.astype(jnp.float32)
        too_many = left * (left @ rivals >= to_come)
        return too_many.sum(axis=-1) / (to_come + 1.0)

    per_vehicle = 1.0 / jnp.maximum(to_come, 1.0)
    return Losses(
        rivals=rivals @ waiting.astype(jnp.float32) * per_vehicle,
        missed_rivals=rivals @ missed.astype(jnp.float32) * per_vehicle,
        more=jnp.maximum(lost(missed_after) - lost(missed), 0.0),
    )

"""A search that goes on from the middle of episodes: the cost of the rest of each episode under a good plan.

What has been done stands at the beginning of each sequence (`lanes.Past`); ruin and recreate change the rest.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.baselines.lanes import Lanes, Past, between, length_of, make_lanes, pick
from jaxvrp.envs.darp.baselines.search import advance, begin_from, heats
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.darp.rules import State


@functools.partial(jax.jit, static_argnames="rounds")
def cost_to_go(
    states: State, key: jax.Array, *, rounds: int, penalty: float | jax.Array, orphan_factor: float | jax.Array = 1.0
) -> jax.Array:
    """What the rest of episodes costs by the best plan that a search finds for it, distance and penalties: `f32[B]`.

    Args:
        states: `[B, ...]`.
        key, rounds: see `search.ruin_and_recreate`.
        penalty: of an unvisited node, in units of distance, `f32[]` or `f32[B]`.
        orphan_factor: how often the drop-off of a passenger on board counts, likewise.

    Raises:
        ValueError: the states are of an environment with limits, whose tours the search judges from their beginning.
    """
    if states.schedule is not None:
        raise ValueError("with env.limits no search goes on from the middle of a tour; leave env.limits out")
    lanes = make_lanes(jax.vmap(as_float32)(states.binding), 1, penalty, limits=False)
    lanes, sequence = _after(lanes, states, penalty * jnp.asarray(orphan_factor, jnp.float32))
    # The sequence goes home from where the vehicle is.
    begun = length_of(lanes, sequence) - between(lanes, states.current_node, jnp.zeros_like(states.current_node))
    begin_key, rounds_key = jax.random.split(key)
    search = begin_from(lanes, sequence, begin_key)
    found = advance(search, rounds_key, heats(jnp.arange(rounds, dtype=jnp.float32) / rounds))
    return jnp.where(states.done, 0.0, found.best.cost - begun)


def _after(lanes: Lanes, states: State, stranding: jax.Array) -> tuple[Lanes, jax.Array]:
    """Lanes of what is left to do, and sequences that hold what is done, `i32[T, B]`; see `Past`."""
    aboard, waits = jax.vmap(rules.on_board)(states)[:, 2::2].T, ~states.visited[:, 1::2].T
    requests, batch = aboard.shape
    stops = len(lanes.instance.demand) + len(lanes.instance.capacity)
    node, vehicle = states.current_node, states.current_agent
    lane = jnp.arange(batch, dtype=jnp.int32)
    pickup = 2 * jnp.arange(requests, dtype=jnp.int32)[:, None] + 1
    is_before = aboard & (pickup != node)
    place = vehicle + jnp.cumsum(is_before, axis=0, dtype=jnp.int32)
    # At the depot the vehicle is at the depot's stop of its own tour.
    position = vehicle + is_before.sum(axis=0, dtype=jnp.int32) + (node != 0)
    sequence = jnp.zeros((stops, batch), jnp.int32)
    sequence = sequence.at[jnp.where(is_before, place, stops), lane].set(pickup, mode="drop")
    sequence = sequence.at[jnp.where(node != 0, position, stops), lane].set(node, mode="drop")
    exists = aboard | waits
    start = states.current_time - pick(lanes.instance.service_time, node)
    past = Past(position, start, aboard, jnp.broadcast_to(stranding, (batch,)))
    # A delivered passenger is no load, though the vehicle may stand at the drop-off.
    demand = lanes.instance.demand.at[1:].multiply(jnp.repeat(exists, 2, axis=0))
    return lanes.replace(instance=lanes.instance.replace(demand=demand), past=past), sequence

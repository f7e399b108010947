"""Episodes in which agents hold choices for some steps, and the dispatcher decides everything else.

What agents hold is `i32[T, 1+D]`, the truck first: a row for each decision of an episode, `FREE` where the dispatcher
decides. A drone holds an action of its own. On board it cannot act: then DELIVER_i asks the truck for its release, and
anything else for none. The truck holds an action, or a node as its destination (`towards`): then it releases and
recovers as the dispatcher says, and drives there whenever the dispatcher would drive or stay. What the mask forbids is
left to the dispatcher.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import is_over, settle
from jaxvrp.envs.truck_drone.baselines.greedy import choose
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.planned import cost
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import DELIVER, STAY, World
from jaxvrp.spaces import ByRole

FREE = -1
"""Held by an agent for which the dispatcher decides."""


class Played(struct.PyTreeNode):
    """Episodes `B` with held choices, step by step; `T` decisions, time first."""

    held: jax.Array  # `i32[T, B, 1+D]`
    actions: jax.Array  # `i32[T, B, 1+D]`, what was played, the truck first; all 0 after the end
    worlds: World  # leaves `[T+1, B, ...]`, without the instance; what follows the end is undefined
    earned: jax.Array  # `f32[T+1, B]`, the sum of rewards before each step; undefined likewise
    cost: jax.Array  # `f32[K, B]`, see `planned.cost`
    length: jax.Array  # `i32[B]`, decisions until the end


def towards(env: TruckDrone, node: jax.Array | int) -> jax.Array | int:
    """What a truck holds whose destination is `node` (`i32[]`)."""
    return 1 + env.num_route_nodes + 2 * env.num_drones + node


def overridden(env: TruckDrone, world: World, held: jax.Array, action: ByRole) -> ByRole:
    """The actions in one world: `{"truck": i32[1], "drone": i32[D]}`, legal by the mask.

    Those of a row `held` (`i32[1+D]`), and the legal `action` where nothing is held.
    """
    mask, truck, by_drones = env.action_mask(world), action["truck"][0], held[1:]
    # Drones on board ask the truck for their release, or for none.
    served, release = env.known_world(world).customers.served, 1 + env.num_route_nodes
    drones = jnp.arange(env.num_drones, dtype=jnp.int32)
    asks = world.drones.is_onboard & (by_drones >= DELIVER) & ~served[jnp.maximum(by_drones - DELIVER, 0)]
    refuses = world.drones.is_onboard & (by_drones >= 0) & (by_drones < DELIVER)
    truck = jnp.where((refuses & (truck == release + drones)).any(), STAY, truck)
    truck = jnp.where(asks.any(), release + jax.lax.argmax(asks, 0, jnp.int32), truck)
    destination = held[0] - towards(env, 0)
    truck = jnp.where((destination >= 0) & (truck <= env.num_route_nodes), 1 + destination, truck)
    return {
        "truck": _legal_or(held[:1], mask["truck"], truck[None]),
        "drone": _legal_or(by_drones, mask["drone"], action["drone"]),
    }


def _legal_or(held: jax.Array, mask: jax.Array, otherwise: jax.Array) -> jax.Array:
    """`held` (`i32[agents]`) where `mask` (`bool[agents, actions]`) allows it, else `otherwise`."""
    known = (held >= 0) & (held < mask.shape[1])
    index = jnp.where(known, held, 0)
    return jnp.where(known & jnp.take_along_axis(mask, index[:, None], axis=1)[:, 0], held, otherwise)


@jax.jit
def play_held(env: TruckDrone, instance: Instance, held: jax.Array) -> Played:
    """Play episodes on one instance; `held` `i32[T, B, 1+D]`, see `Played`."""
    steps, batch = held.shape[:2]
    first = env.init_state(instance)
    of_first = cost(env, first, jnp.zeros((), jnp.float32))
    nothing = Played(
        held=held,
        actions=jnp.zeros_like(held),
        worlds=jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (steps + 1, batch, *jnp.shape(leaf))), first.replace(instance=None)
        ),
        earned=jnp.zeros((steps + 1, batch), jnp.float32),
        cost=jnp.broadcast_to(of_first[:, None], (len(of_first), batch)),
        length=jnp.zeros(batch, jnp.int32),
    )
    return replay_from(env, instance, nothing, jnp.zeros((), jnp.int32))


def replay_from(env: TruckDrone, instance: Instance, played: Played, start: jax.Array) -> Played:
    """Play episodes anew from decision `start` (`i32[]`) on; before it, nothing that is held has changed.

    Episodes that had ended before it stay as they are.
    """

    def advance(world: World, held: jax.Array) -> tuple[World, ByRole, jax.Array, jax.Array]:
        world = world.replace(instance=instance)
        action = overridden(env, world, held, choose(env, world))
        moved, outcome = settle(env, world, env.transition(world, action, jnp.zeros((), jnp.int32)))
        # One reward, shared by all agents.
        return moved.replace(instance=None), action, outcome.reward["truck"][0], outcome.done

    def goes_on(loop: tuple[jax.Array, World, jax.Array, Played]) -> jax.Array:
        return (loop[0] < played.held.shape[0]) & ~loop[2].all()

    def play(loop: tuple[jax.Array, World, jax.Array, Played]) -> tuple[jax.Array, World, jax.Array, Played]:
        step, world, over, so_far = loop
        world, action, reward, done = jax.vmap(advance)(world, so_far.held[step])
        chosen = jnp.concatenate([action["truck"], action["drone"]], axis=1)
        earned = so_far.earned[step] + jnp.where(over, 0.0, reward)
        so_far = so_far.replace(
            actions=so_far.actions.at[step].set(jnp.where(over[:, None], 0, chosen)),
            worlds=jax.tree.map(lambda kept, leaf: kept.at[step + 1].set(leaf), so_far.worlds, world),
            earned=so_far.earned.at[step + 1].set(earned),
            length=jnp.where(over, so_far.length, step + 1),
        )
        return step + 1, world, over | done, so_far

    world = jax.tree.map(lambda leaf: leaf[start], played.worlds)
    # Where the end was before, the world is one that has ended, as it was kept.
    ended = (played.length > 0) & (start >= played.length)
    over = ended | jax.vmap(lambda world: is_over(env, world.replace(instance=instance)))(world)
    later = jnp.arange(played.held.shape[0], dtype=jnp.int32)[:, None, None] >= start
    actions = jnp.where(later & ~over[:, None], 0, played.actions)
    begun = played.replace(actions=actions, length=jnp.where(over, played.length, start))
    stop, world, _, now = jax.lax.while_loop(goes_on, play, (start, world, over, begun))
    found = jax.vmap(lambda world, earned: cost(env, world.replace(instance=instance), earned), out_axes=1)(
        world, now.earned[stop]
    )
    return now.replace(cost=jnp.where(ended, played.cost, found))

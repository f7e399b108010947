"""Whole episodes: playing them to their end, recording them step by step, cutting recorded ones at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import Environment, Instance, State, TimeStep
from jaxvrp.spaces import ByRole


class _Play(struct.PyTreeNode):
    """Episodes under way: `[E, ...]` throughout."""

    state: State
    timestep: TimeStep
    carry: Carry


def _begin(env: Environment, actor: Actor, instances: Instance) -> _Play:
    num_envs = jax.tree.leaves(instances)[0].shape[0]
    return _Play(*jax.vmap(env.reset_to)(instances), actor.init(num_envs))


def _advance(env: Environment, actor: Actor, play: _Play, key: jax.Array) -> tuple[_Play, ByRole]:
    """The episodes one step later, and the actions."""
    action, carry = actor.act(key, play.carry, play.state, play.timestep)
    return _Play(*jax.vmap(env.step)(play.state, action), carry), action


def play_episodes(env: Environment, actor: Actor, instances: Instance, key: jax.Array) -> dict[str, jax.Array]:
    """Play every instance (leading axis `[E]`) once, to its end; to be jitted by the caller.

    Returns:
        `{metric: f32[E]}`: the environment's metrics at the end, `return` (mean over agents) and `length` (in
            environment steps, of which a step of agents that choose by events takes several).
    """
    start = _begin(env, actor, instances)
    zero = jnp.zeros(start.timestep.terminated.shape, jnp.float32)

    def body(loop: tuple[jax.Array, _Play, jax.Array, jax.Array]) -> tuple[jax.Array, _Play, jax.Array, jax.Array]:
        step, play, total, length = loop
        play, _ = _advance(env, actor, play, jax.random.fold_in(key, step))
        return step + 1, play, total + play.timestep.team_reward, length + play.timestep.duration

    def unfinished(loop: tuple[jax.Array, _Play, jax.Array, jax.Array]) -> jax.Array:
        return (loop[0] < env.max_episode_steps) & ~loop[1].timestep.done.all()

    _, play, total, length = jax.lax.while_loop(unfinished, body, (jnp.zeros((), jnp.int32), start, zero, zero))
    return {**play.timestep.metrics, "return": total, "length": length}


def record_episodes(
    env: Environment,
    actor: Actor,
    instances: Instance,
    key: jax.Array,
    record: Callable[[ByRole, State, TimeStep], Any],
) -> tuple[State, Any]:
    """Play every instance (leading axis `[E]`) for `max_episode_steps` steps; finished episodes stay as they are.

    `record` makes the record of a step from the actor's actions (also those of finished episodes), the next states and
    the next timesteps, all `[E, ...]`.

    Returns:
        The last states `[E, ...]`, and the records with a leading axis `[max_episode_steps]`.
    """

    def advance(play: _Play, key: jax.Array) -> tuple[_Play, Any]:
        play, action = _advance(env, actor, play, key)
        return play, record(action, play.state, play.timestep)

    play, records = jax.lax.scan(advance, _begin(env, actor, instances), jax.random.split(key, env.max_episode_steps))
    return play.state, records


def record_episode(env: Environment, actor: Actor, instance: Instance, key: jax.Array) -> tuple[State, ByRole]:
    """States `[T + 1, ...]` and actions `{role: [T, agents, ...]}` of one episode; its last state repeats."""
    single = jax.tree.map(lambda leaf: leaf[None], instance)
    first = jax.vmap(env.init_state)(single)
    _, (states, actions) = record_episodes(env, actor, single, key, lambda action, state, _: (state, action))
    states = jax.tree.map(lambda start, rest: jnp.concatenate([start, rest[:, 0]]), first, states)
    return states, jax.tree.map(lambda leaf: leaf[:, 0], actions)


def count_states(step: ArrayLike, ended: ArrayLike) -> int:
    """States up to the first that `ended`, or to the last before `step` stops growing; both arguments `[T+1]`."""
    return int((np.append(np.diff(step) <= 0, True) | np.asarray(ended)).argmax()) + 1


def until_end(states: State) -> State:
    """The states of one episode (leaves `[T+1, ...]`, fields `step` and `done`) up to its end, as NumPy arrays.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    states = jax.tree.map(np.asarray, states)
    if states.step.ndim != 1 or states.step.size == 0:
        raise ValueError(f"states.step has shape {states.step.shape}; it needs [T+1], the states of one episode")
    length = count_states(states.step, states.done)
    return jax.tree.map(lambda leaf: leaf[:length], states)

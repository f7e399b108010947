"""Whole episodes: played to their end, recorded with all that happened, and cut at their end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import Environment, Instance, State, TimeStep, arrive, unpaid_timestep
from jaxvrp.spaces import ByRole

Record = Callable[[ByRole, State, TimeStep], Any]
"""Makes the record of a step from an actor's actions (also those of finished episodes), the next states and the next
timesteps, all `[E, ...]`."""


class Episode(struct.PyTreeNode):
    """One episode, with all that is known of it: what is handed on to whoever shows it, measures it or plans by it.

    Attributes:
        env: the environment that was played.
        instance: the problem; None if only the states of somebody's own loop are known.
        states: leaves `[T + 1, ...]`, the first before any action.
        actions: `{role: [T, agents, ...]}`, as the agents asked for them; None if they are not known, or if a search
            found states that no actions lead to.
        timesteps: leaves `[T + 1, ...]`, what the agents saw and were paid in each state.
    """

    env: Any  # an `Environment`; each kind has functions of its own that read it
    instance: Instance
    states: State
    actions: Any  # `ByRole` or None
    timesteps: Any  # `TimeStep`; None of a moment, of which nothing has been played


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
    env: Environment, actor: Actor, instances: Instance, key: jax.Array, record: Record
) -> tuple[State, Any]:
    """Play every instance (leading axis `[E]`) for `max_episode_steps` steps; finished episodes stay as they are.

    Returns:
        The last states `[E, ...]`, and the records with a leading axis `[max_episode_steps]`.
    """
    last, records = _recorded(env, actor, _begin(env, actor, instances), key, record)
    return last.state, records


def _recorded(env: Environment, actor: Actor, start: _Play, key: jax.Array, record: Record) -> tuple[_Play, Any]:
    """The end of episodes that begin with `start`, and the records of `record_episodes`."""

    def advance(play: _Play, key: jax.Array) -> tuple[_Play, Any]:
        play, action = _advance(env, actor, play, key)
        return play, record(action, play.state, play.timestep)

    return jax.lax.scan(advance, start, jax.random.split(key, env.max_episode_steps))


def record_episode(env: Environment, actor: Actor, instance: Instance, key: jax.Array) -> Episode:
    """The episode of an actor, `max_episode_steps` long: its last state repeats, see `whole`; traceable."""
    return record_rows(env, actor, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], instance), key, 0)


def record_rows(
    env: Environment, actor: Actor, instances: Instance, key: jax.Array, rows: jax.Array | int | slice
) -> Episode:
    """As `record_episode`, of these rows of instances `[E, ...]`, which are all played side by side.

    With `slice(None)`, all of them are kept: leaves are `[T + 1, E, ...]`.
    """

    def kept(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[rows], tree)

    start = _begin(env, actor, instances)
    _, steps = _recorded(env, actor, start, key, lambda *step: kept(step))
    return _from_steps(env, kept(instances), kept((start.state, start.timestep)), steps)


@functools.partial(jax.jit, static_argnames="by_mask")
def follow(env: Environment, instance: Instance, actions: ByRole, *, by_mask: bool = True) -> Episode:
    """The episode with these actions, `{role: [T, agents, ...]}`; without `by_mask`, forbidden ones are executed, too.

    Then `env.transition` must have a meaning for each action.
    """

    def advance(state: State, action: ByRole) -> tuple[State, tuple[ByRole, State, TimeStep]]:
        if by_mask:
            state, timestep = env.step(state, action)
        else:
            state, timestep = arrive(env, state, env.transition(state, action, jnp.zeros((), jnp.int32)))
        return state, (action, state, timestep)

    start = env.reset_to(instance)
    return _from_steps(env, instance, start, jax.lax.scan(advance, start[0], actions)[1])


def _from_steps(
    env: Environment, instance: Instance, start: tuple[State, TimeStep], steps: tuple[ByRole, State, TimeStep]
) -> Episode:
    """The episode of recorded steps: actions and what these led to (leaves `[T, ...]`), after its `start`."""
    actions, *after = steps
    states, timesteps = jax.tree.map(
        lambda first, rest: jnp.concatenate([jnp.asarray(first)[None], rest]), start, tuple(after)
    )
    return Episode(env, instance, states, actions, timesteps)


def from_states(env: Environment, states: State, actions: ByRole | None = None, instance: Instance = None) -> Episode:
    """The episode of states (leaves `[T + 1, ...]`) that a loop of one's own, or a search, has come through."""
    timesteps = timesteps_of(env, states)
    return Episode(env, instance, states, actions, timesteps)


@jax.jit
def timesteps_of(env: Environment, states: State) -> TimeStep:
    """What agents see in states `[L, ...]`; no step led to the first."""

    def of_state(of: tuple[State, jax.Array]) -> TimeStep:
        state, is_first = of
        timestep = unpaid_timestep(env, state)
        reward = jax.tree.map(lambda paid: jnp.where(is_first, 0.0, paid), env.reward(state))
        return timestep.replace(reward=reward, duration=jnp.where(is_first, 0.0, env.duration(state)))

    count = jax.tree.leaves(states)[0].shape[0]
    # One by one, as in play: the masks of all states at once can take gigabytes.
    return jax.lax.map(of_state, (states, jnp.arange(count) == 0))


def whole(episode: Episode) -> Episode:
    """The episode up to its end, leaves as NumPy arrays, but for those of the environment.

    The end is the first state that is done; or the last before `step` of the states, where they count steps, stops
    growing: a loop of one's own may go on, or begin anew.

    Raises:
        ValueError: the states have no leading time axis, or more than one; or nothing has been played.
    """
    if episode.timesteps is None:
        raise ValueError("nothing of it has been played, so it has no page and no picture; write .json or .csv")
    # Parameters stay of a weak type: as arrays of NumPy they would have 64 bits with `JAX_ENABLE_X64`.
    episode = jax.device_get(episode).replace(env=episode.env)
    ended = np.asarray(episode.timesteps.done)
    length = count_states(getattr(episode.states, "step", np.arange(ended.size)), ended)
    states, timesteps = jax.tree.map(lambda leaf: leaf[:length], (episode.states, episode.timesteps))
    actions = jax.tree.map(lambda leaf: leaf[: length - 1], episode.actions)
    return episode.replace(states=states, actions=actions, timesteps=timesteps)


def count_states(step: ArrayLike, ended: ArrayLike) -> int:
    """States up to the first that `ended`, or to the last before `step` stops growing; both arguments `[T+1]`.

    Raises:
        ValueError: they have no leading time axis, or more than one.
    """
    ended = np.asarray(ended)
    if ended.ndim != 1 or not ended.size:
        raise ValueError(f"what ended has the shape {ended.shape}; it needs [T+1], the states of one episode")
    return int((np.append(np.diff(step) <= 0, True) | ended).argmax()) + 1


def until_end(states: State) -> State:
    """The states of one episode (leaves `[T+1, ...]`, fields `step` and `done`) up to its end, as NumPy arrays.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    states = jax.tree.map(np.asarray, states)
    length = count_states(states.step, states.done)
    return jax.tree.map(lambda leaf: leaf[:length], states)

"""Playing a batch of environments with the current parameters, and recording what the update needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import TimeStep, VecEnv
from jaxvrp.actor import Carry
from jaxvrp.spaces import ByRole
from jaxvrp.vectorize import VecTimeStep
from train.episode_statistics import ended_episodes
from train.on_policy.actor_critic import Actors, Critics, sample_actions


class Players(struct.PyTreeNode):
    """Where every environment of the batch stands between two rollouts; each leaf has a leading `[E]` (or is a scalar).

    Attributes:
        vec: state of the `VecEnv`.
        timestep: what the agents see now.
        carry: recurrent states, `{"actor": ..., "critic": ...}`.
        reset: `bool[E]`, an episode begins here.
    """

    vec: Any
    timestep: TimeStep
    carry: dict[str, Carry]
    reset: jax.Array


class Transition(struct.PyTreeNode):
    """One step of all environments, as recorded (`[E, ...]`; a rollout stacks them to `[K, L, E, ...]`).

    Attributes:
        observation: `{role: f32[E, agents, F]}`.
        critic_input: `{critic: f32[E, A, F]}`; empty where it is the observation.
        action_mask: `{role: bool[E, agents, actions]}`.
        action: `{role: i32[E, agents]}`.
        log_prob: `{role: f32[E, agents]}`.
        value: `{role: f32[E, agents]}`, on the normalised scale.
        reward: `{role: f32[E, agents]}`.
        final_value: `{role: f32[E, agents]}` of the observation before an auto-reset; empty if nothing is truncated.
        terminated, truncated: `bool[E]`.
        reset: `bool[E]`, an episode begins with this step.
        valid: `{role: bool[E, agents]}`, as in `TimeStep`.
    """

    observation: ByRole
    critic_input: ByRole
    action_mask: ByRole
    action: ByRole
    log_prob: ByRole
    value: ByRole
    reward: ByRole
    final_value: ByRole
    terminated: jax.Array
    truncated: jax.Array
    reset: jax.Array
    valid: ByRole


@dataclasses.dataclass(frozen=True)
class Rollout:
    """Plays `num_chunks * chunk_length` steps; recurrent states are kept at the beginning of each chunk only.

    Attributes:
        vec_env: the environments, this device's share.
        actors, critics: the networks.
        num_chunks, chunk_length: K and L of what is recorded.
    """

    vec_env: VecEnv
    actors: Actors
    critics: Critics
    num_chunks: int
    chunk_length: int

    def reset(self, key: jax.Array) -> Players:
        """Everybody at the beginning of an episode."""
        vec, timestep = self.vec_env.reset(key)
        num_envs = self.vec_env.num_envs
        carry = {"actor": self.actors.initial_carry(num_envs), "critic": self.critics.initial_carry(num_envs)}
        return Players(vec, _plain(timestep), carry, jnp.ones(num_envs, bool))

    def play(self, params: dict[str, Any], players: Players, key: jax.Array) -> tuple[Players, Transition, Any, Any]:
        """Play and record.

        Args:
            params: `{"actor": {role: ...}, "critic": {critic: ...}}`.
            players: where everybody stands.
            key: typed key.

        Returns:
            The players afterwards; transitions `[K, L, E, ...]`; recurrent states at the beginnings of the chunks
            `[K, E, ...]`; statistics of finished episodes: `{"episodes": f32[], name: sums}`.
        """
        pool_key, play_key = jax.random.split(key)
        players = players.replace(vec=self.vec_env.refresh_pool(players.vec, pool_key))

        def play_chunk(players: Players, key: jax.Array) -> tuple[Players, Any]:
            keys = jax.random.split(key, self.chunk_length)
            new_players, recorded = jax.lax.scan(lambda p, k: self._step(params, p, k), players, keys)
            return new_players, (*recorded, players.carry)

        keys = jax.random.split(play_key, self.num_chunks)
        players, (transitions, statistics, carries) = jax.lax.scan(play_chunk, players, keys)
        return players, transitions, carries, jax.tree.map(lambda leaf: leaf.sum(axis=(0, 1)), statistics)

    def bootstrap(self, params: dict[str, Any], players: Players) -> ByRole:
        """Values `{role: f32[E, agents]}` of where the players stand, on the normalised scale."""
        return self._value(params, players, players.timestep.observation, players.timestep.global_observation)[0]

    def _value(
        self, params: dict[str, Any], players: Players, observation: ByRole, global_observation: jax.Array
    ) -> tuple[ByRole, Carry]:
        """Values `{role: f32[E, agents]}` of what is observed, and the critics' recurrent states afterwards."""
        inputs = _sequence(self.critics.inputs(observation, global_observation))
        values, carry = self.critics.apply(params["critic"], inputs, players.carry["critic"], players.reset[None])
        return _first(values), carry

    def _step(
        self, params: dict[str, Any], players: Players, key: jax.Array
    ) -> tuple[Players, tuple[Transition, dict[str, jax.Array]]]:
        """One step of all environments: the players afterwards, what is recorded, statistics of finished episodes."""
        before = players.timestep
        logits, actor_carry = self.actors.apply(
            params["actor"], _sequence(before.observation), players.carry["actor"], players.reset[None]
        )
        action, log_prob = sample_actions(key, _first(logits), before.action_mask)
        value, critic_carry = self._value(params, players, before.observation, before.global_observation)
        vec, after = self.vec_env.step(players.vec, action, refresh=False)
        new_players = Players(vec, _plain(after), {"actor": actor_carry, "critic": critic_carry}, after.done)
        transition = Transition(
            observation=before.observation,
            critic_input=self._critic_input(before),
            action_mask=before.action_mask,
            action=action,
            log_prob=log_prob,
            value=value,
            reward=after.reward,
            final_value=self._final_value(params, new_players, after),
            terminated=after.terminated,
            truncated=after.truncated,
            reset=players.reset,
            valid=before.valid,
        )
        return new_players, (transition, ended_episodes(after))

    def _critic_input(self, timestep: TimeStep) -> ByRole:
        """What critics see that is not recorded as an observation anyway."""
        return self.critics.inputs({}, timestep.global_observation) if self.critics.is_central else {}

    def _final_value(self, params: dict[str, Any], players: Players, timestep: VecTimeStep) -> ByRole:
        """Values before an auto-reset, which truncated episodes are bootstrapped from; {} if nothing is truncated."""
        if not self.vec_env.env.truncates:
            return {}
        assert timestep.final_global_observation is not None, "VecEnv observes the ends of episodes that are truncated"
        # The episode's own recurrent state, though it has ended.
        unreset = players.replace(reset=jnp.zeros_like(players.reset))
        return self._value(params, unreset, timestep.final_observation, timestep.final_global_observation)[0]


def _sequence(arrays: ByRole) -> ByRole:
    """As a sequence of one step: `[...] -> [1, ...]`."""
    return jax.tree.map(lambda leaf: leaf[None], arrays)


def _first(arrays: ByRole) -> ByRole:
    """The only step of a sequence: `[1, ...] -> [...]`."""
    return jax.tree.map(lambda leaf: leaf[0], arrays)


def _plain(timestep: TimeStep) -> TimeStep:
    """The part of a `VecTimeStep` that the next step needs, as a `TimeStep`: the rest need not be carried."""
    fields = {name: getattr(timestep, name) for name in TimeStep.__dataclass_fields__}
    return TimeStep(**{**fields, "metrics": {}})

"""Playing a batch of environments with the current parameters, and recording what the update needs."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import TimeStep, VecEnv
from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import executed_action
from jaxvrp.policies.actors import Actors, Seen
from jaxvrp.policies.choice import likeliest_actions, log_probs, sample_actions
from jaxvrp.policies.networks.inputs import rows_of
from jaxvrp.spaces import ByKind, ByRole
from jaxvrp.vectorize import VecState, VecTimeStep
from train.on_policy.critics import Critics
from train.on_policy.imitation import Comparison

Tree = TypeVar("Tree")


class Players(struct.PyTreeNode):
    """Where every environment of the batch stands between two rollouts; each leaf has a leading `[E]` (or is a scalar).

    With recurrent states, `{"actor": ..., "critic": ...}`, and where an episode begins, `bool[E]`. `teacher` is what
    the teacher remembers of the episodes that it plays; () between rollouts, and without one.
    """

    vec: Any
    timestep: TimeStep
    carry: dict[str, Carry]
    reset: jax.Array
    teacher: Carry = ()


class Decision(struct.PyTreeNode):
    """What all environments decided in a step, and what was known then (`[E, ...]`): what the update learns from."""

    observation: ByRole  # `{role: f32[E, agents, F]}`
    global_observation: jax.Array | None  # `f32[E, G]`; None where no critic sees it
    entities: ByKind  # `{kind: f32[E, dynamic features, count]}`; {} where observations are flat
    row: jax.Array | None  # `i32[E]`, of the table of static entities, see `Recording`; None where there are none
    action_mask: ByRole  # `{role: bool[E, agents, actions]}`, what there was to choose from
    action: ByRole  # `{role: i32[E, agents]}`
    log_prob: ByRole  # `{role: f32[E, agents]}`
    teacher_action: ByRole  # `{role: i32[E, agents]}`, what it would have done, or did, always legal; {} without one
    alternative: ByRole  # `{role: i32[E, agents]}`, what was compared with it, see `Comparison`; {} where nothing is
    alternative_gain: ByRole  # `{role: f32[E, agents]}`, how much more that pays
    reset: jax.Array  # `bool[E]`, an episode begins with this step


class Transition(Decision):
    """One step of all environments, as recorded (`[E, ...]`; a rollout stacks them to `[K, L, E, ...]`)."""

    value: ByRole  # `{role: f32[E, agents]}`, on the normalised scale
    reward: ByRole  # `{role: f32[E, agents]}`
    duration: jax.Array | None  # `f32[E]`, environment steps that it took; None where each takes one
    # `{role: f32[E, agents]}` of the observation before an auto-reset; empty if nothing is truncated
    final_value: ByRole
    terminated: jax.Array  # `bool[E]`
    truncated: jax.Array
    valid: ByRole  # `{role: bool[E, agents]}`, as in `TimeStep`


class Statics(struct.PyTreeNode):
    """What never changes in the episodes of a rollout, a row for each: planes, and what an encoder made of them alone.

    `{kind: f32[rows, static features, count]}`, {} where observations are flat; `f32[rows, M, H]`, None without one.
    """

    planes: ByKind
    encoded: jax.Array | None = None


class Recording(struct.PyTreeNode):
    """What is kept of a rollout."""

    transitions: Transition  # `[K, L, E, ...]`
    carries: Any  # recurrent states at the beginnings of the chunks, `[K, E, ...]`
    last_value: ByRole  # `{role: f32[E, agents]}` of where the players stand at the end, on the normalised scale
    # table of static entities, `{kind: f32[rows, static features, count]}`, see `Rollout`; `Transition.row` says which
    # is whose. {} where observations are flat
    static: ByKind
    statistics: dict[str, jax.Array]  # of finished episodes, `{"episodes": f32[], name: sums}`


@dataclasses.dataclass(frozen=True)
class Rollout:
    """Plays `num_chunks * chunk_length` steps; recurrent states are kept at the beginning of each chunk only.

    Where the `vec_env` resets nothing, that is one whole episode of every environment, and those of a group, side by
    side, play the same instance. The table of static entities then has a row for each group, else `3E` rows: those of
    the episodes that are under way, and those of the pool that the next ones come from. A teacher that remembers what
    it did plays, where the `vec_env` resets nothing.
    """

    vec_env: VecEnv
    actors: Actors
    critics: Critics
    num_chunks: int
    chunk_length: int
    teacher: Actor | None = None
    comparison: Comparison | None = None

    def reset(self, key: jax.Array, memory: Any = None) -> Players:
        """All environments at the beginning of an episode; those of a group, of the same.

        `memory` is what episodes left behind so far, the content of `Environment.memory`; None for nothing.
        """
        instance_key, pool_key = jax.random.split(key)
        vec, timestep = self.vec_env.reset_to(self.vec_env.generate(instance_key, memory=memory), pool_key)
        vec = vec if memory is None else vec.replace(memory=memory)
        num_envs = self.vec_env.num_envs
        carry = {"actor": self.actors.initial_carry(num_envs), "critic": self.critics.initial_carry(num_envs)}
        return Players(vec, _plain(timestep), carry, jnp.ones(num_envs, bool))

    def play(self, params: dict[str, Any], players: Players, key: jax.Array) -> tuple[Players, Recording]:
        """Play with `{"actor": {role: ...}, "critic": {critic: ...}}`; the players afterwards, and the recording."""
        pool_key, play_key = jax.random.split(key)
        if self.vec_env.auto_reset:
            players = players.replace(vec=self.vec_env.refresh_pool(players.vec, pool_key))
        else:
            players = self.reset(pool_key, players.vec.memory)
        if self.teacher is not None:
            players = players.replace(teacher=self.teacher.init(self.vec_env.num_envs))
        table = self.static_table(players.vec)
        static = Statics(table, self.actors.encode_static(params["actor"], table))

        def play_chunk(players: Players, key: jax.Array) -> tuple[Players, Any]:
            keys = jax.random.split(key, self.chunk_length)
            step = functools.partial(self._step, params, static)
            new_players, recorded = jax.lax.scan(step, players, keys)
            return new_players, (*recorded, players.carry)

        keys = jax.random.split(play_key, self.num_chunks)
        players, (transitions, statistics, carries) = jax.lax.scan(play_chunk, players, keys)
        # Without resets, an episode that is over is reported again in each later step: the last step has each once.
        ended = (lambda leaf: leaf.sum(axis=(0, 1))) if self.vec_env.auto_reset else (lambda leaf: leaf[-1, -1])
        statistics = jax.tree.map(ended, statistics)
        last_value = self._value(params, players, self.seen(players, static))[0]
        players = players.replace(teacher=())
        return players, Recording(transitions, carries, last_value, table, statistics)

    def static_table(self, vec: VecState) -> ByKind:
        """What never changes in the episodes of a rollout, `{kind: f32[rows, static features, count]}`."""
        env = self.vec_env.env
        if not self.vec_env.auto_reset:
            first = jax.tree.map(lambda leaf: leaf[:: self.vec_env.group_size], vec.env)
            return jax.vmap(env.static_entities)(first)

        under_way, coming = jax.vmap(env.static_entities)(vec.env), jax.vmap(env.static_entities)(vec.pool)
        return jax.tree.map(lambda *tables: jnp.concatenate(tables), under_way, coming)

    def _row(self, vec: VecState) -> jax.Array | None:
        """Row of the table of each environment's instance, `i32[E]`; None if there is no table."""
        if not self.vec_env.env.entity_kinds:
            return None
        num_envs = self.vec_env.num_envs
        if not self.vec_env.auto_reset:
            return jnp.arange(num_envs, dtype=jnp.int32) // self.vec_env.group_size
        return jnp.where(vec.pool_row < 0, jnp.arange(num_envs, dtype=jnp.int32), num_envs + vec.pool_row)

    def seen(self, players: Players, static: Statics) -> Seen:
        """What the players see where they stand."""
        now, row = players.timestep, self._row(players.vec)
        rows = Statics({}) if row is None else rows_of(static, row)
        return Seen(now.observation, now.global_observation, rows.planes, now.entities, now.valid, rows.encoded)

    def _value(self, params: dict[str, Any], players: Players, seen: Seen) -> tuple[ByRole, Carry]:
        """Values `{role: f32[E, agents]}` of what is seen, normalised, and the critics' recurrent states afterwards."""
        inputs = self.critics.inputs(_sequence(seen))
        values, carry = self.critics.apply(params["critic"], inputs, players.carry["critic"], players.reset[None])
        return jax.tree.map(lambda leaf: leaf[0], values), carry

    def _step(
        self, params: dict[str, Any], static: Statics, players: Players, key: jax.Array
    ) -> tuple[Players, tuple[Transition, dict[str, jax.Array]]]:
        """One step of all environments: the players afterwards; what is recorded, and statistics of ended episodes."""
        before, seen = players.timestep, self.seen(players, static)
        logits, actor_carry = self._logits(params["actor"], players, seen)
        teacher_action, teacher_carry = self._teacher_action(players)
        if self.comparison is not None:
            # In states that the best that the policy knows leads to.
            action = likeliest_actions(logits, before.action_mask)
        elif jax.tree.leaves(teacher_carry):
            action = teacher_action
        else:
            action = sample_actions(key, logits, before.action_mask)
        alternative, alternative_gain = self._compared(key, players, teacher_action)
        value, critic_carry = self._value(params, players, seen)
        vec, after = self.vec_env.step(players.vec, action, refresh=False)
        carry = {"actor": actor_carry, "critic": critic_carry}
        new_players = Players(vec, _plain(after), carry, after.done, teacher_carry)
        transition = Transition(
            observation=before.observation,
            global_observation=before.global_observation if self.critics.is_central else None,
            entities=before.entities,
            row=self._row(players.vec),
            action_mask=before.action_mask,
            action=action,
            log_prob=log_probs(logits, before.action_mask, action),
            teacher_action=teacher_action,
            alternative=alternative,
            alternative_gain=alternative_gain,
            value=value,
            reward=after.reward,
            duration=after.duration if "duration" in self.vec_env.env.extras else None,
            final_value=self._final_value(params, new_players, after, seen),
            terminated=after.terminated,
            truncated=after.truncated,
            reset=players.reset,
            valid=before.valid,
        )
        return new_players, (transition, after.ended_episodes())

    def _logits(self, params: dict[str, Any], players: Players, seen: Seen) -> tuple[ByRole, Carry]:
        """Logits `{role: f32[E, agents, actions]}`, and the actors' recurrent states afterwards."""
        mask = players.timestep.action_mask
        logits, carry = self.actors.apply_step(
            params, _sequence(seen), mask, players.carry["actor"], players.reset[None]
        )
        return jax.tree.map(lambda leaf: leaf[0], logits), carry

    def _teacher_action(self, players: Players) -> tuple[ByRole, Carry]:
        """What the teacher would do where the players stand, and what it remembers afterwards.

        What is illegal becomes what the rules make of it.
        """
        if self.teacher is None:
            return {}, ()
        # Teachers draw nothing: all of them are deterministic.
        action, carry = self.teacher.act(jax.random.key(0), players.teacher, players.vec.env, players.timestep)
        executed = jax.vmap(lambda *row: executed_action(self.vec_env.env, *row)[0])
        return executed(action, players.timestep.action_mask, players.timestep.valid), carry

    def _compared(self, key: jax.Array, players: Players, teacher_action: ByRole) -> tuple[ByRole, ByRole]:
        """Alternatives of what the teacher would do, and what they gain."""
        if self.comparison is None:
            return {}, {}
        return self.comparison.compare(
            jax.random.fold_in(key, 1), players.vec.env, players.timestep.action_mask, teacher_action
        )

    def _final_value(self, params: dict[str, Any], players: Players, timestep: VecTimeStep, before: Seen) -> ByRole:
        """Values before an auto-reset, which truncated episodes are bootstrapped from; {} if nothing is truncated.

        `before` is what was seen before the step, in the same episodes: what never changes in these is taken from it.
        """
        if "is_truncated" not in self.vec_env.env.extras:
            return {}
        # The episode's own recurrent state, though it has ended.
        unreset = players.replace(reset=jnp.zeros_like(players.reset))
        final = before.replace(
            observation=timestep.final_observation,
            global_observation=timestep.final_global_observation,
            entities=timestep.final_entities,
        )
        return self._value(params, unreset, final)[0]


def _sequence(arrays: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf[None], arrays)


def _plain(timestep: TimeStep) -> TimeStep:
    """The part of a `VecTimeStep` that the next step needs, as a `TimeStep`: the rest need not be carried."""
    fields = {name: getattr(timestep, name) for name in TimeStep.__dataclass_fields__}
    return TimeStep(**{**fields, "metrics": {}, "duration": None})

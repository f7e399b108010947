"""The trainer of TD3 and SAC: collect, write into the replay buffer, scanned gradient steps, all in one jitted chunk.

Every role has an actor, critics and a replay buffer of its own; its agents share them.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxvrp import Environment, VecEnv
from train.learning.learner import Insight
from train.learning.sharding import DATA, Programs, device_key, vec_specs
from train.off_policy.collect import Collector, Method, TurnActor, box_of, sizes
from train.off_policy.config import OffPolicyConfig
from train.off_policy.q_learning import Metrics, RoleState
from train.off_policy.replay_buffer import Decisions, ReplayBuffer
from train.settings.config import check_divides

POOL_STEPS = 128
"""Instances are drawn for so many steps ahead, however short the rollouts are."""


MakeMethod = Callable[[Any, int, int], Method]
"""From the configuration and the sizes of observation and action."""


class TrainState(struct.PyTreeNode):
    """The whole state of a run, which a checkpoint holds; `update` is `i32[]`, updates done."""

    learned: dict[str, RoleState]
    replay: dict[str, ReplayBuffer]
    vec: Any
    key: jax.Array
    update: jax.Array


class Trainer(Programs):
    """A learner, see `train.learning.learner.Learner`; `init` and `train_chunk` are jitted.

    With `num_seeds` above 1 every leaf of the state and of the metrics has a leading axis `[seeds]`.
    """

    def __init__(
        self,
        config: OffPolicyConfig,
        env: Environment,
        evaluation_env: Environment,
        mesh: Mesh,
        make_method: MakeMethod,
    ):
        """A ValueError names a key that does not fit the environment, the devices or another key."""
        self.config, self.env, self.evaluation_env, self.mesh = config, env, evaluation_env, mesh
        self.make_method = make_method
        self.methods = self._methods(config)
        self._check_keys()
        self.collector = Collector(
            vec_env=VecEnv(
                env, config.num_envs // mesh.size, pool_steps=max(POOL_STEPS, config.rollout_length), axis=DATA
            ),
            policies=self.methods,
            num_steps=config.rollout_length,
            unrecorded_steps=math.ceil(config.target_exploration_steps / config.num_envs),
            random_steps=math.ceil(config.random_steps / config.num_envs),
        )

    def _specs(self) -> TrainState:
        """See `Programs`."""
        vec = jax.eval_shape(self.collector.vec_env.reset, jax.eval_shape(lambda: jax.random.key(0)))[0]
        whole: Any = P()
        split: Any = P(DATA)
        return TrainState(whole, split, vec_specs(vec), whole, whole)

    def actor_params(self, state: TrainState) -> Any:
        """Parameters of the actors, by role."""
        return {role: role_state.params["actor"] for role, role_state in state.learned.items()}

    def init_actors(self, key: jax.Array) -> Any:
        """As `actor_params` of a fresh state of one seed."""
        return {role: role_state.params["actor"] for role, role_state in self._init_learned(key).items()}

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> TurnActor:
        """The actors as a player of the environment of evaluation."""
        return TurnActor(self.evaluation_env, self.methods, params, deterministic, temperature)

    def critic_params(self, state: TrainState) -> Any:
        """None: the values of critics that read actions are not shown."""
        del state

    def insight(self, params: Any, critic: Any, states: Any) -> Insight:
        """An empty `Insight`: actions are continuous."""
        del params, critic, states
        return Insight({}, {})

    def _check_keys(self) -> None:
        config, roles = self.config, self.env.roles
        for name, role in roles.items():
            if not (math.isfinite(box_of(role).low) and math.isfinite(box_of(role).high)):
                raise ValueError(
                    f"role '{name}' of env.name '{config.env['name']}' has unbounded actions; give its Box bounds"
                )
        check_divides(config, "batch_size", "num_devices", self.mesh.size)
        for method in self.methods.values():
            check_divides(config, "gradient_steps", "policy_delay", method.batches_per_step)
        # An update, so that no place is written twice; a minibatch, so that learning begins.
        num_agents = max(role.num_agents for role in roles.values())
        needed = max(config.steps_per_update * num_agents, config.batch_size + config.num_envs)
        if config.buffer_size < needed:
            raise ValueError(
                f"buffer_size is {config.buffer_size}; it must hold an update and a minibatch, {needed} decisions"
            )

    def _methods(self, config: OffPolicyConfig) -> dict[str, Method]:
        return {name: self.make_method(config, *sizes(role)) for name, role in self.env.roles.items()}

    def _init(self, key: jax.Array) -> TrainState:
        key, learn_key, env_key = jax.random.split(key, 3)
        vec_env, capacity = self.collector.vec_env, self.config.buffer_size // self.config.num_envs
        widths = {name: Decisions.width(*sizes(role)) for name, role in self.env.roles.items()}
        return TrainState(
            learned=self._init_learned(learn_key),
            replay={role: ReplayBuffer.create(vec_env.num_envs, capacity, width) for role, width in widths.items()},
            vec=vec_env.reset(device_key(env_key))[0],
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    def _init_learned(self, key: jax.Array) -> dict[str, RoleState]:
        keys = jax.random.split(key, len(self.methods))
        return {role: method.init(k) for (role, method), k in zip(self.methods.items(), keys, strict=True)}

    def _train_chunk(self, numbers: dict[str, Any], state: TrainState) -> tuple[TrainState, Metrics]:
        learner = copy.copy(self)
        learner.config = dataclasses.replace(self.config, **numbers)
        learner.methods = self._methods(learner.config)
        learner.collector = dataclasses.replace(self.collector, policies=learner.methods)
        return jax.lax.scan(lambda s, _: learner._update(s), state, length=self.config.log_interval)

    def _update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One update: rollout, into the replay buffers, gradient steps."""
        key, play_key, learn_key = jax.random.split(state.key, 3)
        step = state.update * self.config.rollout_length
        actors = self.actor_params(state)
        vec, played, episodes = self.collector.play(actors, state.vec, step, device_key(play_key))
        replay = {role: state.replay[role].add(rows, keep) for role, (rows, keep) in played.items()}
        held = {role: jax.lax.psum(buffer.size.sum(), DATA) for role, buffer in replay.items()}
        least = jnp.stack([buffer.size.sum() for buffer in replay.values()]).min() * self.mesh.size
        ready = self.collector.policy_plays(step + self.config.rollout_length)
        ready &= jax.lax.pmin(least, DATA) >= self.config.batch_size
        learned, metrics = self._learn(ready, state.learned, replay, device_key(learn_key))
        metrics |= {f"{role}/replay_size": count.astype(jnp.float32) for role, count in held.items()}
        for role, (rows, keep) in played.items():
            size = jnp.abs(Decisions.unpacked(rows, *sizes(self.env.roles[role])).action).mean(axis=-1)
            kept = (jnp.where(keep, size, 0.0).sum(), keep.sum(dtype=jnp.float32))
            total, count = jax.lax.psum(kept, DATA)
            metrics[f"{role}/action_magnitude"] = total / jnp.maximum(count, 1.0)
        metrics |= {f"episode/{name}": value for name, value in jax.lax.psum(episodes, DATA).items()}
        return TrainState(learned, replay, vec, key, state.update + 1), metrics

    def _learn(
        self, ready: jax.Array, learned: dict[str, RoleState], replay: dict[str, ReplayBuffer], key: jax.Array
    ) -> tuple[dict[str, RoleState], Metrics]:
        """`gradient_steps` minibatches for every role, if `ready`; metrics as sums over updates that learn."""

        def learn(learned: dict[str, RoleState]) -> tuple[dict[str, RoleState], Metrics]:
            metrics = {"learn/updates": jnp.ones((), jnp.float32)}
            new_learned = {}
            for role, role_key in zip(self.methods, jax.random.split(key, len(replay)), strict=True):
                new_learned[role], role_metrics = self._gradient_steps(role, learned[role], replay[role], role_key)
                metrics |= {f"learn/{role}/{name}": value for name, value in role_metrics.items()}
            return new_learned, metrics

        def wait(learned: dict[str, RoleState]) -> tuple[dict[str, RoleState], Metrics]:
            return learned, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        shapes = jax.eval_shape(learn, learned)[1]
        return jax.lax.cond(ready, learn, wait, learned)

    def _gradient_steps(
        self, role: str, role_state: RoleState, buffer: ReplayBuffer, key: jax.Array
    ) -> tuple[RoleState, Metrics]:
        """`gradient_steps` minibatches for one role; means of the metrics over them."""
        method = self.methods[role]
        sample_key, learn_key = jax.random.split(key)
        num_steps = self.config.gradient_steps // method.batches_per_step
        batch_size = self.config.batch_size // self.mesh.size
        places = buffer.sample(sample_key, (num_steps, method.batches_per_step, batch_size))

        def learn(role_state: RoleState, xs: tuple[jax.Array, jax.Array]) -> tuple[RoleState, Metrics]:
            batch_places, step_key = xs
            batches = Decisions.unpacked(buffer.take(batch_places), *sizes(self.env.roles[role]))
            return method.learn(role_state, batches, step_key)

        keys = jax.random.split(learn_key, num_steps)
        role_state, metrics = jax.lax.scan(learn, role_state, (places, keys))
        return role_state, jax.tree.map(lambda leaf: leaf.mean(axis=0), metrics)

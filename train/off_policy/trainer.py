"""What TD3 and SAC share: collect, write into replay, scanned gradient steps, all in one jitted chunk.

Every role has an actor, critics and a replay of its own; its agents share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxvrp import Environment, VecEnv
from jaxvrp.spaces import Box
from train.config import check_divides
from train.off_policy.collect import Collector, TurnActor, box_of, sizes
from train.off_policy.config import OffPolicyConfig
from train.off_policy.q_learning import Learned, Metrics
from train.off_policy.replay_buffer import Decisions, Replay
from train.running.prepare import evaluation_env, prepare
from train.sharding import DATA, compiled, device_key, vec_specs

POOL_STEPS = 128
"""Instances are drawn for so many steps ahead, however short the rollouts are."""


class Method(Protocol):
    """What is particular to an algorithm, for one role; actions are in [-1, 1]."""

    @property
    def batches_per_step(self) -> int:
        """Minibatches of one call of `learn`."""

    def init(self, key: jax.Array) -> Learned:
        """Fresh parameters, those of `actor` among them."""

    def act(self, actor: Any, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """See `train.collect.Policy`."""

    def learn(self, learned: Learned, batches: Decisions, key: jax.Array) -> tuple[Learned, Metrics]:
        """Learn from minibatches `[batches_per_step, B, ...]`, this device's share; metrics are the same everywhere."""


MakeMethod = Callable[[Any, int, int], Method]
"""From the configuration and the sizes of observation and action."""


class TrainState(struct.PyTreeNode):
    """Everything that a run is; a checkpoint holds it whole.

    Attributes:
        learned: by role.
        replay: by role.
        vec: state of the `VecEnv`.
        key: typed key.
        update: `i32[]`, updates done.
    """

    learned: dict[str, Learned]
    replay: dict[str, Replay]
    vec: Any
    key: jax.Array
    update: jax.Array


class Trainer:
    """A learner, see `train.loop.Learner`; `init` and `train_chunk` are jitted.

    With `num_seeds` above 1 every leaf of the state and of the metrics has a leading axis `[seeds]`.

    Attributes:
        config: what it was made from.
        env: the environment.
        mesh: the devices.
        methods: by role.
    """

    def __init__(self, config: OffPolicyConfig, env: Environment, mesh: Mesh, make_method: MakeMethod):
        self.config, self.env, self.mesh = config, env, mesh
        self.methods = {name: make_method(config, *sizes(role)) for name, role in env.roles.items()}
        self.collector = Collector(
            vec_env=VecEnv(
                env, config.num_envs // mesh.size, pool_steps=max(POOL_STEPS, config.rollout_length), axis=DATA
            ),
            policies=self.methods,
            num_steps=config.rollout_length,
            unseen_steps=math.ceil(config.target_exploration_steps / config.num_envs),
            random_steps=math.ceil(config.random_steps / config.num_envs),
        )
        self.init, self.train_chunk = compiled(
            self._init, self._train_chunk, self._specs(), mesh=mesh, num_seeds=config.num_seeds
        )

    def actor_params(self, state: TrainState) -> Any:
        """Parameters of the actors, by role."""
        return {name: learned.params["actor"] for name, learned in state.learned.items()}

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> TurnActor:
        """The actors as a player of the environment of evaluation."""
        return TurnActor(evaluation_env(self.env, self.config), self.methods, params, deterministic, temperature)

    def _specs(self) -> TrainState:
        vec = jax.eval_shape(self.collector.vec_env.reset, jax.eval_shape(lambda: jax.random.key(0)))[0]
        specs = vec_specs(vec)
        whole: Any = P()
        split: Any = P(DATA)
        return TrainState(whole, split, specs, whole, whole)

    def _init(self, key: jax.Array) -> TrainState:
        key, learn_key, env_key = jax.random.split(key, 3)
        keys = jax.random.split(learn_key, len(self.methods))
        return TrainState(
            learned={name: method.init(k) for (name, method), k in zip(self.methods.items(), keys, strict=True)},
            replay={name: self._empty(name) for name in self.methods},
            vec=self.collector.vec_env.reset(device_key(env_key))[0],
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    def _empty(self, name: str) -> Replay:
        observation_size, action_size = sizes(self.env.roles[name])
        capacity = self.config.buffer_size // self.config.num_envs
        return Replay.create(self.collector.vec_env.num_envs, capacity, 2 * observation_size + action_size + 2)

    def _train_chunk(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        return jax.lax.scan(lambda s, _: self._update(s), state, length=self.config.log_interval)

    def _update(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """One update: rollout, into replay, gradient steps."""
        key, play_key, learn_key = jax.random.split(state.key, 3)
        step = state.update * self.config.rollout_length
        actors = self.actor_params(state)
        vec, played, episodes = self.collector.play(actors, state.vec, step, device_key(play_key))
        replay = {name: state.replay[name].add(*rows) for name, rows in played.items()}
        held = {name: jax.lax.psum(memory.size.sum(), DATA) for name, memory in replay.items()}
        least = jnp.stack([memory.size.sum() for memory in replay.values()]).min() * self.mesh.size
        ready = self.collector.explored(step + self.config.rollout_length)
        ready &= jax.lax.pmin(least, DATA) >= self.config.batch_size
        learned, metrics = self._learn(ready, state.learned, replay, device_key(learn_key))
        metrics |= {f"{name}/replay_size": count.astype(jnp.float32) for name, count in held.items()}
        metrics |= {f"{name}/action_magnitude": self._magnitude(name, *rows) for name, rows in played.items()}
        metrics |= {f"episode/{name}": value for name, value in jax.lax.psum(episodes, DATA).items()}
        return TrainState(learned, replay, vec, key, state.update + 1), metrics

    def _learn(
        self, ready: jax.Array, learned: dict[str, Learned], replay: dict[str, Replay], key: jax.Array
    ) -> tuple[dict[str, Learned], dict[str, jax.Array]]:
        """`gradient_steps` minibatches for every role, if `ready`; metrics as sums over updates that learn."""

        def train(learned: dict[str, Learned]) -> tuple[dict[str, Learned], dict[str, jax.Array]]:
            metrics = {"learn/updates": jnp.ones((), jnp.float32)}
            after = {}
            for (name, method), k in zip(self.methods.items(), jax.random.split(key, len(replay)), strict=True):
                after[name], own = self._gradient_steps(name, method, learned[name], replay[name], k)
                metrics |= {f"learn/{name}/{metric}": value for metric, value in own.items()}
            return after, metrics

        def wait(learned: dict[str, Learned]) -> tuple[dict[str, Learned], dict[str, jax.Array]]:
            return learned, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        shapes = jax.eval_shape(train, learned)[1]
        return jax.lax.cond(ready, train, wait, learned)

    def _gradient_steps(
        self, name: str, method: Method, learned: Learned, replay: Replay, key: jax.Array
    ) -> tuple[Learned, Metrics]:
        sample_key, learn_key = jax.random.split(key)
        count = self.config.gradient_steps // method.batches_per_step
        batch = self.config.batch_size // self.mesh.size
        places = replay.sample(sample_key, (count, method.batches_per_step, batch))

        def learn(learned: Learned, xs: tuple[jax.Array, jax.Array]) -> tuple[Learned, Metrics]:
            batches = Decisions.unpacked(replay.take(xs[0]), *sizes(self.env.roles[name]))
            return method.learn(learned, batches, xs[1])

        learned, metrics = jax.lax.scan(learn, learned, (places, jax.random.split(learn_key, count)))
        return learned, jax.tree.map(lambda leaf: leaf.mean(axis=0), metrics)

    def _magnitude(self, name: str, rows: jax.Array, keep: jax.Array) -> jax.Array:
        """Mean size of the numbers in the actions that were kept, over all devices."""
        size = jnp.abs(Decisions.unpacked(rows, *sizes(self.env.roles[name])).action).mean(axis=-1)
        total, count = jax.lax.psum((jnp.where(keep, size, 0.0).sum(), keep.sum(dtype=jnp.float32)), DATA)
        return total / jnp.maximum(count, 1.0)


def make_train(config: OffPolicyConfig, make_method: MakeMethod) -> Trainer:
    """Build the environment and the learner of a configuration.

    Raises:
        ValueError: a value is out of range, or does not fit the others; the message says which.
        TypeError: a value has the wrong type.
    """
    config, env, mesh = prepare(config, Box)
    for name, role in env.roles.items():
        if not (math.isfinite(box_of(role).low) and math.isfinite(box_of(role).high)):
            raise ValueError(
                f"role '{name}' of env.name '{config.env['name']}' has unbounded actions; give its Box bounds"
            )
    check_divides("batch_size", config.batch_size, "the number of devices", mesh.size)
    trainer = Trainer(config, env, mesh, make_method)
    for method in trainer.methods.values():
        check_divides("gradient_steps", config.gradient_steps, "policy_delay", method.batches_per_step)
    _check_buffer(config, (role.num_agents for role in env.roles.values()))
    return trainer


def _check_buffer(config: OffPolicyConfig, agents: Iterable[int]) -> None:
    """The replay must hold an update, so that no place is written twice, and a minibatch, so that learning begins."""
    needed = max(config.steps_per_update * max(agents), config.batch_size + config.num_envs)
    if config.buffer_size < needed:
        raise ValueError(
            f"buffer_size is {config.buffer_size}; it must hold an update and a minibatch, {needed} decisions"
        )

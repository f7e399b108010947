"""The learner of MAPPO and IPPO: separate actors by role, a central or local critic; trained inside `jit`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxvrp import Entities, Environment, VecEnv
from jaxvrp.spaces import Discrete
from train.config import check_divides
from train.networks import NETWORKS
from train.networks.layers import NetworkSpec
from train.on_policy import ppo
from train.on_policy.actor_critic import TEAM, Actors, Critics, PolicyActor
from train.on_policy.config import PPOConfig
from train.on_policy.rollout import Players, Rollout
from train.on_policy.value_norm import ValueNorm
from train.running.prepare import prepare
from train.sharding import DATA, batch_specs, compiled, device_key, vec_specs

HEAD_GAIN = {"actor": 0.01, "critic": 1.0}


class TrainState(struct.PyTreeNode):
    """Everything that a run is; a checkpoint holds it whole.

    Attributes:
        params: `{"actor": {role: ...}, "critic": {critic: ...}}`.
        optimizer: of the same structure.
        value_norm: `{role: ValueNorm}`.
        players: the environments and what the agents remember.
        key: typed key.
        update: `i32[]`, updates done.
    """

    params: Any
    optimizer: Any
    value_norm: dict[str, ValueNorm]
    players: Players
    key: jax.Array
    update: jax.Array


class Trainer:
    """A learner, see `train.running.loop.Learner`; `init` and `train_chunk` are jitted.

    With `num_seeds` above 1 every leaf of the state and of the metrics has a leading axis `[seeds]`.

    Attributes:
        config: what it was made from.
        env: the environment.
        mesh: the devices.
        actors, critics: the networks.
    """

    def __init__(self, config: PPOConfig, env: Environment, mesh: Mesh):
        self.config, self.env, self.mesh = config, env, mesh
        roles = env.roles
        separate = () if config.share_drone_policy else (n for n, role in roles.items() if role.num_agents > 1)
        actors = {
            name: _network(config, "actor", role.action.num_actions, role.entities)
            for name, role in roles.items()
            if isinstance(role.action, Discrete)
        }
        self.actors = Actors(actors, roles, frozenset(separate))
        heads = {TEAM: (sum(role.num_agents for role in roles.values()), env.global_entities)}
        if config.critic == "local":
            heads = {name: (1, role.entities) for name, role in roles.items()}
        self.critics = Critics({name: _network(config, "critic", *head) for name, head in heads.items()}, roles)
        self.rollout = Rollout(
            vec_env=VecEnv(env, config.num_envs // mesh.size, pool_steps=config.rollout_length, axis=DATA),
            actors=self.actors,
            critics=self.critics,
            num_chunks=config.rollout_length // config.sequence_length,
            chunk_length=config.sequence_length,
        )
        self.optimizer = _optimizer(config, self.actors, self.critics)
        self.init, self.train_chunk = compiled(
            self._init, self._train_chunk, self._specs(), mesh=mesh, num_seeds=config.num_seeds
        )

    def actor_params(self, state: TrainState) -> Any:
        """Parameters of the actors, by role."""
        return state.params["actor"]

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> PolicyActor:
        """The actors as a player."""
        return PolicyActor(self.actors, params, deterministic, temperature)

    def _specs(self) -> TrainState:
        players = jax.eval_shape(self.rollout.reset, jax.eval_shape(lambda: jax.random.key(0)))
        whole: Any = P()
        specs = batch_specs(players).replace(vec=vec_specs(players.vec))
        return TrainState(whole, whole, whole, specs, whole, whole)

    def _init(self, key: jax.Array) -> TrainState:
        key, actor_key, critic_key, env_key = jax.random.split(key, 4)
        players = self.rollout.reset(device_key(env_key))
        seen = self.critics.inputs(players.timestep.observation, players.timestep.global_observation)
        params = {
            "actor": {name: self.actors.init(k, name) for name, k in _split(actor_key, self.actors.networks)},
            "critic": {name: self.critics.init(k, name, seen[name]) for name, k in _split(critic_key, seen)},
        }
        return TrainState(
            params=params,
            optimizer=self.optimizer.init(params),
            value_norm={name: ValueNorm.create() for name in self.env.roles},
            players=players,
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    def _train_chunk(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        return jax.lax.scan(lambda s, _: self._update(s), state, length=self.config.log_interval)

    def _update(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """One update: rollout, advantages, epochs of minibatches."""
        key, play_key, shuffle_key = jax.random.split(state.key, 3)
        players, transitions, carries, episodes = self.rollout.play(state.params, state.players, device_key(play_key))
        last_value = self.rollout.bootstrap(state.params, players)
        batch, norm, metrics = ppo.prepare(self.config, transitions, carries, last_value, state.value_norm)
        order = self._minibatches(device_key(shuffle_key), batch.reset.shape[1])
        (params, optimizer), losses = jax.lax.scan(
            lambda learned, envs: self._learn(*learned, ppo.take(batch, envs)), (state.params, state.optimizer), order
        )
        metrics |= jax.tree.map(lambda leaf: leaf.mean(axis=0), losses)
        metrics |= {f"episode/{name}": value for name, value in jax.lax.psum(episodes, DATA).items()}
        state = TrainState(params, optimizer, norm, players, key, state.update + 1)
        return state, metrics

    def _minibatches(self, key: jax.Array, num_envs: int) -> jax.Array:
        """Environments of every minibatch of every epoch, `i32[epochs * minibatches, e]`."""
        keys = jax.random.split(key, self.config.num_epochs)
        shuffled = jax.vmap(lambda k: jax.random.permutation(k, num_envs))(keys)
        return shuffled.reshape(self.config.num_epochs * self.config.num_minibatches, -1)

    def _learn(self, params: Any, optimizer: Any, batch: ppo.Batch) -> tuple[tuple[Any, Any], dict[str, jax.Array]]:
        """One gradient step of every network."""
        grads, metrics = jax.grad(ppo.loss, has_aux=True)(
            params, batch, config=self.config, actors=self.actors, critics=self.critics
        )
        grads, metrics = jax.lax.psum((grads, metrics), DATA)
        for name in self.actors.roles:
            norm = jax.vmap(optax.tree.norm) if name in self.actors.separate else optax.tree.norm
            metrics[f"{name}/grad_norm"] = norm(grads["actor"][name])
        for name in self.critics.networks:
            metrics[f"{name}/critic_grad_norm"] = optax.tree.norm(grads["critic"][name])
        updates, optimizer = self.optimizer.update(grads, optimizer, params)
        return (optax.apply_updates(params, updates), optimizer), metrics


def make_train(config: PPOConfig) -> Trainer:
    """Build the environment and the learner of a configuration.

    Raises:
        ValueError: a value is out of range, or does not fit the others; the message says which.
        TypeError: a value has the wrong type.
    """
    config, env, mesh = prepare(config, Discrete)
    check_divides("num_envs", config.num_envs, "num_minibatches (times devices)", config.num_minibatches * mesh.size)
    check_divides("rollout_length", config.rollout_length, "chunk_length", config.sequence_length)
    return Trainer(config, env, mesh)


def _network(config: PPOConfig, part: str, head_size: int, entities: Entities | None) -> nn.Module:
    spec = NetworkSpec(is_actor=part == "actor", head_size=head_size, head_gain=HEAD_GAIN[part], entities=entities)
    return NETWORKS[config.network](config, spec)


def _optimizer(config: PPOConfig, actors: Actors, critics: Critics) -> optax.GradientTransformation:
    """Adam with its own clipping for every network; one for each agent where agents have separate actors."""
    steps = config.num_updates * config.num_epochs * config.num_minibatches

    def adam(learning_rate: float) -> optax.GradientTransformation:
        rate = optax.linear_schedule(learning_rate, 0.0, steps) if config.lr_decay else learning_rate
        return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))

    labels = {
        "actor": {name: f"actor/{name}" for name in actors.networks},
        "critic": {name: f"critic/{name}" for name in critics.networks},
    }
    transforms = {label: adam(config.critic_lr) for label in labels["critic"].values()}
    for name, label in labels["actor"].items():
        tx = adam(config.actor_lr)
        separate = name in actors.separate
        transforms[label] = optax.GradientTransformation(jax.vmap(tx.init), jax.vmap(tx.update)) if separate else tx
    return optax.partition(transforms, labels)


def _split(key: jax.Array, names: Iterable[str]) -> list[tuple[str, jax.Array]]:
    names = list(names)
    return list(zip(names, jax.random.split(key, len(names)), strict=True))

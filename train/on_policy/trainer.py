"""The learner of MAPPO and IPPO: separate actors by role, a central or local critic; trained inside `jit`."""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxvrp import Environment, VecEnv
from jaxvrp.io.limits import LARGEST_WHOLE
from jaxvrp.policies.actors import Actors, Params, PolicyActor, Seen, build_actors, places_of
from jaxvrp.policies.choice import masked_logits
from jaxvrp.policies.networks import build_network
from jaxvrp.policies.networks.layers import NetworkSpec
from train.learning.learner import Insight
from train.learning.sharding import DATA, Programs, batch_specs, device_key, vec_specs
from train.learning.vectors import Vector, apart, counts_apart, joined_like, with_counts
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.critics import TEAM, Critics
from train.on_policy.imitation import Guidance, guidance_at, make_comparison, make_teacher
from train.on_policy.rollout import Players, Rollout, Statics
from train.on_policy.value_norm import ValueNorm
from train.settings.config import check_divides

CRITIC_HEAD_GAIN = 1.0
"""Scale of the last layers at the start: values that are not small."""


class TrainState(struct.PyTreeNode):
    """Everything that a run is; a checkpoint holds it whole. `update` is `i32[]`, updates done."""

    params: Any
    optimizer: Any
    value_norm: dict[str, ValueNorm]
    players: Players
    key: jax.Array
    update: jax.Array


class Trainer(Programs):
    """A learner, see `train.learning.learner.Learner`; `init` and `train_chunk` are jitted.

    With `num_seeds` above 1 every leaf of the state and of the metrics has a leading axis `[seeds]`.
    """

    def __init__(self, config: PPOConfig, env: Environment, evaluation_env: Environment, mesh: Mesh):
        """A ValueError names a key that does not fit the environment, the devices or another key."""
        _check_keys(config, env, mesh)
        teacher = make_teacher(config, env)
        self.config, self.env, self.evaluation_env, self.mesh = config, env, evaluation_env, mesh
        self.actors = build_actors(config, env)
        self.critics = _critics(config, env)
        self.rollout = Rollout(
            vec_env=VecEnv(
                env,
                config.num_envs // mesh.size,
                pool_steps=config.rollout_length,
                axis=DATA,
                auto_reset=config.rollout == "continuing",
                group_size=config.group_size,
            ),
            actors=self.actors,
            critics=self.critics,
            num_chunks=config.rollout_length // config.sequence_length,
            chunk_length=config.sequence_length,
            teacher=teacher,
            comparison=make_comparison(config, env, teacher),
        )
        self.optimizer = _optimizer(config, self.actors, self.critics)
        # A CPU, where it gains nothing, rounds sums and quotients of other sizes in another way.
        self.joins = mesh.devices.flat[0].platform != "cpu"

    def _specs(self) -> TrainState:
        """See `Programs`."""
        players = jax.eval_shape(self.rollout.reset, jax.eval_shape(lambda: jax.random.key(0)))
        whole: Any = P()
        return TrainState(whole, whole, whole, batch_specs(players).replace(vec=vec_specs(players.vec)), whole, whole)

    def actor_params(self, state: TrainState) -> Any:
        """Parameters of the actors, by role."""
        return state.params["actor"]

    def init_actors(self, key: jax.Array) -> Any:
        """As `actor_params` of a fresh state of one seed."""
        return self.actors.init_all(key)

    def with_actor(self, state: TrainState, params: Any) -> TrainState:
        """The state with other parameters of the actors."""
        return state.replace(params={**state.params, "actor": params})

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> PolicyActor:
        """The actors as a player of the environment of evaluation."""
        env = self.evaluation_env
        return PolicyActor(env, build_actors(self.config, env), params, deterministic, temperature)

    def critic_params(self, state: TrainState) -> Any:
        """Parameters and value statistics of the critics; None without a critic."""
        if not self.critics.networks:
            return None
        return {"params": state.params["critic"], "value_norm": state.value_norm}

    def insight(self, params: Any, critic: Any, states: Any) -> Insight:
        """Probabilities, and values if there is a critic, of the states of an episode of evaluation; pure.

        The states `[L, ...]` are those from its beginning on, so that memories are as they were.
        """
        env = self.evaluation_env
        actors, critics = build_actors(self.config, env), self.critics
        mask = jax.vmap(env.action_mask)(states)
        seen = jax.tree.map(lambda leaf: leaf[:, None], jax.vmap(functools.partial(Seen.in_state, env))(states))
        reset = jnp.zeros(jax.tree.leaves(seen)[0].shape[:2], bool)
        logits, _ = actors.apply(params, actors.encode(params, seen), actors.initial_carry(1), reset)
        probability = {role: jax.nn.softmax(masked_logits(logits[role][:, 0], mask[role]), axis=-1) for role in logits}
        if critic is None or not critics.networks:
            return Insight(probability, {})
        # As in the rollout: critics read what the actors' encoder made of entities only if it reads static ones alone.
        static = actors.encode_static(params, jax.tree.map(lambda leaf: leaf[:, 0], seen.static))
        seen = seen.replace(encoded=None if static is None else static[:, None])
        values, _ = critics.apply(critic["params"], critics.inputs(seen), critics.initial_carry(1), reset)
        norms = critic["value_norm"]
        return Insight(probability, {role: norms[role].denormalize(value[:, 0]) for role, value in values.items()})

    def loss(
        self, params: dict[str, Any], batch: ppo.Batch, guidance: Guidance, *, roles: Sequence[str] | None = None
    ) -> tuple[jax.Array, ppo.Metrics]:
        """This device's share of the loss of a minibatch `[L, B, ...]`: the sum over all actors and critics.

        Of actors, over those of `roles` alone, if these are given. An update that treats roles one after the other
        takes the same terms apart. The loss is `f32[]`; the metrics are those of all terms, by name.
        """
        total = jnp.zeros((), jnp.float32)
        metrics: ppo.Metrics = {}
        seen = self.seen(params["actor"], batch)
        for role in self.actors.roles if roles is None else roles:
            loss, role_metrics = ppo.actor_loss(
                params["actor"][role], batch, seen, role, config=self.config, actors=self.actors, guidance=guidance
            )
            total += loss
            metrics |= role_metrics
        for critic in self.critics.networks:
            loss, critic_metrics = ppo.critic_loss(
                params["critic"][critic], batch, critic, config=self.config, critics=self.critics
            )
            total += loss
            metrics |= critic_metrics
        return total, metrics

    def gradients(self, params: Params, batch: ppo.Batch, guidance: Guidance) -> tuple[Params, ppo.Metrics]:
        """The gradient of `loss`, and its metrics.

        Where rows can be taken apart (nothing remembers, no critic values rows without a decision, and nothing is
        encoded once for all), block by block, and those without a decision are left out: what has ended, and what is
        forced. Actors that share no encoder are taken one by one: those who act in turn decide in different rows.
        """
        encoder = self.actors.encoder
        encodes_once = encoder is not None and encoder.once
        if self.critics.networks or encodes_once or jax.tree.leaves(batch.carry):
            return jax.grad(self.loss, has_aux=True)(params, batch, guidance)
        roles = tuple(self.actors.roles)
        teams = [(role,) for role in roles] if encoder is None else [roles]
        parts = [self._gradients_by_block(params, batch, guidance, team) for team in teams]
        gradients, metrics = zip(*parts, strict=True)
        return jax.tree.map(lambda *leaves: sum(leaves), *gradients), functools.reduce(operator.or_, metrics)

    def _gradients_by_block(
        self, params: Params, batch: ppo.Batch, guidance: Guidance, roles: Sequence[str]
    ) -> tuple[Params, ppo.Metrics]:
        """As `gradients`, of the actors of `roles`."""
        gradient = jax.grad(functools.partial(self.loss, roles=roles), has_aux=True)
        rows, decides = ppo.blocks(batch, self.actors.separate, roles)

        def of_block(block: ppo.Batch) -> tuple[Params, ppo.Metrics]:
            return gradient(params, block.replace(static=batch.static), guidance)

        first = jax.tree.map(lambda leaf: leaf[0], rows)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_block, first))

        def add(total: Any, block: tuple[ppo.Batch, jax.Array]) -> tuple[Any, None]:
            found = jax.lax.cond(block[1], of_block, lambda _: nothing, block[0])
            return jax.tree.map(jnp.add, total, found), None

        return jax.lax.scan(add, nothing, (rows, decides))[0]

    def seen(self, params: Params, batch: ppo.Batch) -> Seen:
        """What the actors, with their parameters, saw in a minibatch, encoded."""
        encoded = self.actors.encode_static(params, batch.static)
        if encoded is not None:
            encoded = encoded[batch.row]
        return self.actors.encode(params, batch.seen.replace(encoded=encoded))

    def _init(self, key: jax.Array) -> TrainState:
        key, actor_key, critic_key, env_key = jax.random.split(key, 4)
        players = self.rollout.reset(device_key(env_key))
        static = Statics(self.rollout.static_table(players.vec))
        inputs = self.critics.inputs(self.rollout.seen(players, static))
        critic_keys = zip(inputs, jax.random.split(critic_key, len(inputs)), strict=True)
        params = {
            "actor": self.init_actors(actor_key),
            "critic": {critic: self.critics.init(k, critic, inputs[critic]) for critic, k in critic_keys},
        }
        return TrainState(
            params=params,
            optimizer=self.optimizer.init(params),
            value_norm={name: ValueNorm.create() for name in self.env.roles},
            players=players,
            key=key,
            update=jnp.zeros((), jnp.int32),
        )

    def _train_chunk(self, numbers: dict[str, Any], state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        self.config.check_training()
        learner = copy.copy(self)
        learner.config = dataclasses.replace(self.config, **numbers)
        learner.optimizer = _optimizer(learner.config, self.actors, self.critics)
        return jax.lax.scan(lambda s, _: learner._update(s), state, length=self.config.log_interval)

    def _update(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """One update: rollout, advantages, epochs of minibatches."""
        key, play_key, shuffle_key = jax.random.split(state.key, 3)
        players, recording = self.rollout.play(state.params, state.players, device_key(play_key))
        batch, norm, metrics = ppo.prepare(self.config, recording, state.value_norm)
        guided = guidance_at(self.config, state.update)
        # Environments of every minibatch of every epoch, `i32[epochs * minibatches, e]`.
        keys, num_envs = jax.random.split(device_key(shuffle_key), self.config.num_epochs), batch.reset.shape[1]
        order = jax.vmap(lambda k: jax.random.permutation(k, num_envs))(keys)
        order = order.reshape(self.config.num_epochs * self.config.num_minibatches, -1)
        (params, optimizer), losses = self.learn(state.params, state.optimizer, batch, order, guided)
        metrics |= jax.tree.map(lambda leaf: leaf.mean(axis=0), losses)
        metrics |= {f"episode/{name}": value for name, value in jax.lax.psum(recording.statistics, DATA).items()}
        return TrainState(params, optimizer, norm, players, key, state.update + 1), metrics

    def learn(
        self, params: Params, optimizer: Any, batch: ppo.Batch, order: jax.Array, guided: Guidance
    ) -> tuple[tuple[Params, Any], ppo.Metrics]:
        """A step of every network for each row of `order`, `i32[steps, e]`: the environments of its minibatch.

        Returns new parameters, new states of the optimiser, and metrics by step.
        """

        def carried(optimizer: Any) -> Any:
            return counts_apart(optimizer) if self.joins else optimizer

        def whole(optimizer: Any) -> Any:
            return with_counts(*optimizer) if self.joins else optimizer

        def step(learned: tuple[Params, Any], envs: jax.Array) -> tuple[tuple[Params, Any], Any]:
            params, optimizer = learned[0], whole(learned[1])
            minibatch = ppo.take(batch, envs)
            gradient, metrics = jax.lax.psum(self.gradients(apart(params), minibatch, guided), DATA)
            (params, optimizer), norms = self.apply_gradients(self.joined(gradient), params, optimizer)
            metrics |= norms
            return (params, carried(optimizer)), Vector.of(metrics) if self.joins else metrics

        first = self.joined(params)
        optimizer = joined_like(jax.eval_shape(self.optimizer.init, first), optimizer)
        (params, optimizer), metrics = jax.lax.scan(step, (first, carried(optimizer)), order)
        return apart(((params, whole(optimizer)), metrics))

    def joined(self, params: Params) -> Params:
        """Parameters with a `Vector` for every network, where arrays are joined; else the same."""
        if not self.joins:
            return params
        actor = {name: Vector.of(part, int(name in self.actors.separate)) for name, part in params["actor"].items()}
        return {"actor": actor, "critic": {name: Vector.of(part) for name, part in params["critic"].items()}}

    def apply_gradients(self, grads: Params, params: Params, optimizer: Any) -> tuple[tuple[Params, Any], ppo.Metrics]:
        """New parameters and optimiser states, and the norms of the gradients by network; all `joined` or none."""
        metrics: ppo.Metrics = {}
        for name in self.actors.names:
            norm = jax.vmap(optax.tree.norm) if name in self.actors.separate else optax.tree.norm
            metrics[f"{name}/grad_norm"] = norm(grads["actor"][name])
        for name in self.critics.networks:
            metrics[f"{name}/critic_grad_norm"] = optax.tree.norm(grads["critic"][name])
        updates, optimizer = self.optimizer.update(grads, optimizer, params)
        return (optax.apply_updates(params, updates), optimizer), metrics


def _check_keys(config: PPOConfig, env: Environment, mesh: Mesh) -> None:
    check_divides(config, "num_envs", "group_size", config.group_size, devices=mesh.size)
    check_divides(config, "num_envs", "num_minibatches", config.num_minibatches, devices=mesh.size)
    check_divides(config, "rollout_length", "chunk_length", config.sequence_length)
    if config.rollout == "episodes" and config.rollout_length < env.max_episode_steps:
        raise ValueError(
            f"rollout_length is {config.rollout_length}, but rollout is 'episodes', and those of "
            f"'{config.env['name']}' have up to {env.max_episode_steps} steps; set rollout_length to "
            f"{env.max_episode_steps} or more"
        )


def _critics(config: PPOConfig, env: Environment) -> Critics:
    """A network for every role (local), or one with a value for every agent of all roles (central); or none at all."""
    num_agents = sum(role.num_agents for role in env.roles.values())
    heads: dict[str, tuple[int, tuple[tuple[int, int], ...]]]
    if config.baseline != "critic":
        heads = {}
    elif config.critic == "local":
        heads = {name: (1, places_of(role)) for name, role in env.roles.items()}
    else:
        # Of several agents there is a mean place, which is no agent's.
        heads = {TEAM: (num_agents, places_of(next(iter(env.roles.values()))) if num_agents == 1 else ())}
    networks = {}
    for name, (size, places) in heads.items():
        spec = NetworkSpec(
            is_actor=False,
            num_agents=num_agents,
            head_size=size,
            head_gain=CRITIC_HEAD_GAIN,
            kinds=env.entity_kinds,
            places=places,
        )
        networks[name] = build_network(config, spec)
    return Critics(networks, env.roles)


def _optimizer(config: PPOConfig, actors: Actors, critics: Critics) -> optax.GradientTransformation:
    """Adam with its own clipping for every network; one for each agent where agents have separate actors."""
    steps = config.num_updates * config.num_epochs * config.num_minibatches
    if config.lr_decay and steps > LARGEST_WHOLE:
        raise ValueError(
            f"total_steps is {config.total_steps}, num_epochs {config.num_epochs}: {steps} gradient steps, of which "
            f"lr_decay counts at most {LARGEST_WHOLE}; lower one of them, or set lr_decay to false"
        )

    def adam(learning_rate: float) -> optax.GradientTransformation:
        rate = optax.linear_schedule(learning_rate, 0.0, steps) if config.lr_decay else learning_rate
        return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))

    labels = {
        "actor": {name: f"actor/{name}" for name in actors.names},
        "critic": {name: f"critic/{name}" for name in critics.networks},
    }
    transforms = {label: adam(config.critic_lr) for label in labels["critic"].values()}
    for name, label in labels["actor"].items():
        tx = adam(config.actor_lr)
        separate = name in actors.separate
        transforms[label] = optax.GradientTransformation(jax.vmap(tx.init), jax.vmap(tx.update)) if separate else tx
    return optax.partition(transforms, labels)

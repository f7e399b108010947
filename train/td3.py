"""TD3 (Fujimoto et al. 2018): twin critics, smoothed target actions, delayed actors; end to end inside `jit`.

python -m train.td3 --config pcb_td3
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from jaxvrp.fields import option
from train.off_policy import q_learning, trainer
from train.off_policy.config import OffPolicyConfig
from train.off_policy.q_learning import Metrics, Params, RoleNetworks, RoleState
from train.off_policy.replay_buffer import Decisions
from train.running.command import command_line, launch


@dataclasses.dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Keys of TD3."""

    batch_size: int = option(128, help="decisions of a minibatch; a multiple of the devices", minimum=1)
    actor_lr: float = option(1e-3, help="learning rate of the actors", above=0)
    critic_lr: float = option(1e-3, help="learning rate of the critics", above=0)
    exploration_noise: float = option(0.1, help="deviation of the noise on the actions played", minimum=0)
    policy_noise: float = option(0.2, help="deviation of the noise on the target actor's actions", minimum=0)
    noise_clip: float = option(0.5, help="bound of the noise on the target actor's actions", minimum=0)
    policy_delay: int = option(
        2, help="steps of the critics for one of the actor and the targets", minimum=1, maximum=100
    )


class TD3:
    """The learner of one role; see `train.off_policy.trainer.Method`."""

    def __init__(self, config: TD3Config, observation_size: int, action_size: int):
        self.config = config
        self.networks = RoleNetworks.create(config, observation_size, action_size, actor_outputs=action_size)
        self.optimizers = {"actor": optax.adam(config.actor_lr), "critic": optax.adam(config.critic_lr)}

    @property
    def batches_per_step(self) -> int:
        """Minibatches of one call of `learn`: the critics' steps for one of the actor."""
        return self.config.policy_delay

    def init(self, key: jax.Array) -> RoleState:
        """Fresh parameters; the targets are copies."""
        params = self.networks.init(key)
        optimizer = {part: tx.init(params[part]) for part, tx in self.optimizers.items()}
        return RoleState(params=params, target=jax.tree.map(jnp.copy, params), optimizer=optimizer)

    def act(self, actor: Params, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """Actions with exploration noise, see `train.off_policy.collect.Policy`."""
        action = deterministic_action(actor, observation, self.networks)
        return jnp.clip(action + self.config.exploration_noise * noise, -1.0, 1.0)

    def learn(self, state: RoleState, batches: Decisions, key: jax.Array) -> tuple[RoleState, Metrics]:
        """`policy_delay` steps of the critics, then one of the actor and of the targets."""
        keys = jax.random.split(key, self.batches_per_step)
        # Unrolled: see `train.networks.gru.GRULayer`.
        state, critic_metrics = jax.lax.scan(self._critic_step, state, (batches, keys), unroll=True)
        critic_metrics = jax.tree.map(jnp.mean, critic_metrics)
        last_batch = jax.tree.map(lambda leaf: leaf[-1], batches)
        loss = functools.partial(
            actor_loss, critic=state.params["critic"], observation=last_batch.observation, networks=self.networks
        )
        state, actor_metrics = q_learning.gradient_step(state, "actor", loss, self.optimizers["actor"])
        target = q_learning.polyak(state.target, state.params, self.config.tau)
        return state.replace(target=target), critic_metrics | actor_metrics

    def _critic_step(self, state: RoleState, xs: tuple[Decisions, jax.Array]) -> tuple[RoleState, Metrics]:
        """One step of the critics on a minibatch, with a key for the noise on the targets' actions."""
        batch, key = xs
        noise = jax.random.normal(key, batch.action.shape, jnp.float32)
        target = critic_target(state.target, batch, noise, self.config, self.networks)
        loss = functools.partial(q_learning.critic_loss, batch=batch, target=target, networks=self.networks)
        return q_learning.gradient_step(state, "critic", loss, self.optimizers["critic"])


def deterministic_action(actor: Params, observation: jax.Array, networks: RoleNetworks) -> jax.Array:
    """The actor's actions `f32[B, A]` in [-1, 1] for observations `f32[B, F]`."""
    outputs: Any = networks.actor.apply(actor, observation)
    return jnp.tanh(outputs)


def critic_target(
    target: dict[str, Params], batch: Decisions, noise: jax.Array, config: TD3Config, networks: RoleNetworks
) -> jax.Array:
    """The critics' target, `f32[B]`: the lesser value of a smoothed action of the target actor.

    Args:
        target: parameters of the target `actor` and `critic`.
        batch: `[B, ...]`.
        noise: `f32[B, A]`, standard normal.
        config: `policy_noise`, `noise_clip`, `gamma`.
        networks: of the role.
    """
    chex.assert_equal_shape([noise, batch.action])
    smoothing = jnp.clip(config.policy_noise * noise, -config.noise_clip, config.noise_clip)
    next_action = deterministic_action(target["actor"], batch.next_observation, networks)
    smoothed = jnp.clip(next_action + smoothing, -1.0, 1.0)
    next_value = networks.q(target["critic"], batch.next_observation, smoothed).min(axis=0)
    return q_learning.td_target(batch, next_value, config.gamma)


def actor_loss(
    actor: Params, critic: Params, observation: jax.Array, networks: RoleNetworks
) -> tuple[jax.Array, Metrics]:
    """Minus the first critic's mean value of the actor's actions, `f32[]`, and metrics.

    Args:
        actor: parameters.
        critic: parameters with leading axis `[2]`.
        observation: `f32[B, F]`.
        networks: of the role.
    """
    action = deterministic_action(actor, observation, networks)
    loss = -networks.q(critic, observation, action)[0].mean()
    return loss, {"actor_loss": loss}


def make_train(config: TD3Config) -> trainer.Trainer:
    """Build the environment and the learner of a configuration; raises as `trainer.make_train`."""
    return trainer.make_train(config, TD3)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `python -m train.td3 --help` lists every key."""
    launch.main("td3", argv)


if __name__ == "__main__":
    command_line.entry(main)

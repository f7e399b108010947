"""The keys of TD3 and SAC."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxvrp.fields import again, option
from jaxvrp.policies.networks.layers import ACTIVATIONS
from train.settings.config import RunConfig


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig(RunConfig):
    """Keys that TD3 and SAC share. A step is a step of a single environment, though several are played at once."""

    arguments: ClassVar[tuple[str, ...]] = (*RunConfig.arguments, "tau", "actor_lr", "critic_lr")

    num_envs: int = again(RunConfig, "num_envs", 32)
    rollout_length: int = again(RunConfig, "rollout_length", 8)
    log_interval: int = again(RunConfig, "log_interval", 10)
    eval_interval: int = again(RunConfig, "eval_interval", 100)
    save_interval: int = option(
        500,
        help="updates between two checkpoints, which hold the replay too; a multiple of `log_interval`",
        group="run",
        minimum=1,
    )
    eval_episodes: int = again(RunConfig, "eval_episodes", 128)
    hidden_sizes: tuple[int, ...] = option((400, 300), help="widths of the dense layers", group="network", minimum=1)
    activation: str = option("relu", help="activation of the dense layers", group="network", choices=tuple(ACTIVATIONS))
    layer_norm: bool = option(
        False,
        help="LayerNorm (without scale and bias) on an input of 8 numbers or more and after each layer",
        group="network",
    )
    buffer_size: int = option(
        500_000, help="decisions that the replay of a role holds; at least an update and a minibatch", minimum=1
    )
    batch_size: int = option(256, help="decisions of a minibatch; a multiple of the devices", minimum=1)
    gradient_steps: int = option(
        32, help="minibatches learned from in an update; a multiple of `policy_delay` for TD3", minimum=1
    )
    target_exploration_steps: int = option(
        0,
        help="steps of random play at first, which do not enter the replay; environments with a memory learn from them",
        minimum=0,
    )
    random_steps: int = option(
        10_000,
        help="steps of random play after these, into the replay, before the policy plays and learns",
        minimum=0,
    )
    tau: float = option(
        0.005, help="share of the new parameters in the moving average of the target networks", above=0, maximum=1
    )
    actor_lr: float = option(3e-4, help="learning rate of the actors", above=0)
    critic_lr: float = option(3e-4, help="learning rate of the critics", above=0)


@dataclasses.dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Keys of TD3."""

    arguments: ClassVar[tuple[str, ...]] = (
        *OffPolicyConfig.arguments,
        "exploration_noise",
        "policy_noise",
        "noise_clip",
    )

    batch_size: int = again(OffPolicyConfig, "batch_size", 128)
    actor_lr: float = again(OffPolicyConfig, "actor_lr", 1e-3)
    critic_lr: float = again(OffPolicyConfig, "critic_lr", 1e-3)
    exploration_noise: float = option(0.1, help="deviation of the noise on the actions played", minimum=0)
    policy_noise: float = option(0.2, help="deviation of the noise on the target actor's actions", minimum=0)
    noise_clip: float = option(0.5, help="bound of the noise on the target actor's actions", minimum=0)
    policy_delay: int = option(
        2, help="steps of the critics for one of the actor and the targets", minimum=1, maximum=100
    )


@dataclasses.dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Keys of SAC."""

    arguments: ClassVar[tuple[str, ...]] = (*OffPolicyConfig.arguments, "temperature_lr", "target_entropy")

    temperature_lr: float = option(3e-4, help="learning rate of the temperature", above=0)
    initial_temperature: float = option(1.0, help="weight of the entropy at first", above=0)
    target_entropy: float | None = option(
        None, help="entropy that the temperature holds; null: minus the count of numbers in an action"
    )

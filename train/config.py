"""What a run is made of: frozen dataclasses, every key with its help text and its range."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxvrp.fields import option
from train.networks import ACTIVATIONS, NETWORKS


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Keys of every learner. Intervals are in updates."""

    env: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"name": "truck_drone"},
        metadata={"help": "environment: name, and any of its parameters (--env.num_drones 4)"},
    )
    seed: int = option(0, help="seed of everything drawn in training", minimum=0, maximum=2**32 - 1)
    num_seeds: int = option(1, help="independent trainings in one program, from keys of this one seed", minimum=1)
    total_steps: int = option(1_000_000, help="environment steps, of one seed", minimum=1)
    num_envs: int = option(256, help="environments played in parallel, of one seed", minimum=1)
    num_devices: int | None = option(None, help="devices to spread the environments over; null: all", minimum=1)
    log_interval: int = option(1, help="updates between two lines of metrics", minimum=1)
    eval_interval: int = option(10, help="updates between two evaluations", minimum=1)
    save_interval: int = option(10, help="updates between two checkpoints", minimum=1)
    eval_episodes: int = option(512, help="fixed instances that are evaluated", minimum=1)
    eval_seed: int = option(1_000_003, help="seed of those instances", minimum=0, maximum=2**32 - 1)
    rollout_length: int = option(100, help="steps between two updates", minimum=1)
    gamma: float = option(0.99, help="discount", minimum=0, maximum=1)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update, of one seed."""
        return self.num_envs * self.rollout_length

    @property
    def num_updates(self) -> int:
        """Updates that make up `total_steps`, rounded up to whole chunks of `log_interval`."""
        return math.ceil(self.total_steps / (self.steps_per_update * self.log_interval)) * self.log_interval


@dataclasses.dataclass(frozen=True)
class PPOConfig(RunConfig):
    """Keys of MAPPO and IPPO."""

    critic: str = option(
        "central",
        help="what the critic sees: the global observation (MAPPO) or the role's own (IPPO)",
        choices=("central", "local"),
    )
    network: str = option("mlp", help="kind of network", choices=NETWORKS)
    hidden_sizes: tuple[int, ...] = option((64, 64), help="widths of the dense layers", minimum=1)
    activation: str = option("relu", help="activation of the dense layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = option(True, help="LayerNorm on the input and after each layer")
    recurrent_size: int = option(64, help="width of the recurrent state (gru)", minimum=1)
    recurrent_layers: int = option(1, help="recurrent layers (gru)", minimum=1)
    chunk_length: int = option(10, help="length of the sequences that are learned from (gru)", minimum=1)
    attention_size: int = option(64, help="width of the entities (attention)", minimum=1)
    attention_heads: int = option(4, help="heads of a layer (attention)", minimum=1)
    attention_layers: int = option(1, help="self-attention of the actors; 0: entities are only pooled", minimum=0)
    critic_attention_layers: int = option(0, help="the same of the critics", minimum=0)
    share_drone_policy: bool = option(True, help="agents of a role share one actor; false: one actor each")
    num_epochs: int = option(4, help="passes over a rollout", minimum=1)
    num_minibatches: int = option(4, help="minibatches of a pass, each of some environments", minimum=1)
    gae_lambda: float = option(0.95, help="trace decay of the advantages", minimum=0, maximum=1)
    clip_eps: float = option(0.2, help="clip range of ratio and value", above=0)
    entropy_coef: float = option(0.01, help="weight of the entropy bonus", minimum=0)
    actor_lr: float = option(1e-3, help="learning rate of the actors", above=0)
    critic_lr: float = option(1e-3, help="learning rate of the critic", above=0)
    lr_decay: bool = option(True, help="let both learning rates fall linearly to 0")
    max_grad_norm: float = option(0.5, help="clip the norm of each network's gradient", above=0)
    value_loss: str = option("huber", help="error of the values", choices=("huber", "mse"))
    huber_delta: float = option(10.0, help="where the Huber loss becomes linear", above=0)
    value_clip: bool = option(True, help="clip the change of the values as well")
    value_norm: bool = option(True, help="normalise the returns that the critic learns (ValueNorm)")
    value_norm_decay: float = option(0.99, help="memory of these statistics per update", minimum=0, maximum=1)
    normalize_advantage: bool = option(True, help="normalise advantages per role, over real decisions")

    @property
    def sequence_length(self) -> int:
        """Length of the sequences of a minibatch: whole rollouts where there is no memory."""
        return self.chunk_length if self.network == "gru" else self.rollout_length


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPOConfig):
    """IPPO is MAPPO whose critic sees what its role sees."""

    critic: str = option(
        "local",
        help="what the critic sees: the role's own observation (IPPO) or the global one (MAPPO)",
        choices=("local", "central"),
    )


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig(RunConfig):
    """Keys of TD3 and SAC. Where several environments are played at once, a step is one of one of them."""

    num_envs: int = option(32, help="environments played in parallel, of one seed", minimum=1)
    rollout_length: int = option(8, help="steps between two updates", minimum=1)
    log_interval: int = option(10, help="updates between two lines of metrics", minimum=1)
    eval_interval: int = option(100, help="updates between two evaluations", minimum=1)
    save_interval: int = option(500, help="updates between two checkpoints, which hold the replay too", minimum=1)
    eval_episodes: int = option(128, help="fixed instances that are evaluated", minimum=1)
    hidden_sizes: tuple[int, ...] = option((400, 300), help="widths of the dense layers", minimum=1)
    activation: str = option("relu", help="activation of the dense layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = option(False, help="LayerNorm on the input and after each layer")
    buffer_size: int = option(500_000, help="decisions that the replay of a role holds", minimum=1)
    gradient_steps: int = option(32, help="minibatches learned from in an update", minimum=1)
    target_exploration_steps: int = option(
        0, help="steps of random play at first, of which only the environment learns", minimum=0
    )
    random_steps: int = option(10_000, help="steps of random play into the replay, before the policy plays", minimum=0)
    tau: float = option(0.005, help="share of the new parameters in the targets' moving average", above=0, maximum=1)


@dataclasses.dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Keys of TD3."""

    batch_size: int = option(128, help="decisions of a minibatch", minimum=1)
    actor_lr: float = option(1e-3, help="learning rate of the actors", above=0)
    critic_lr: float = option(1e-3, help="learning rate of the critics", above=0)
    exploration_noise: float = option(0.1, help="deviation of the noise on the actions played", minimum=0)
    policy_noise: float = option(0.2, help="deviation of the noise on the targets' actions", minimum=0)
    noise_clip: float = option(0.5, help="bound of that noise", minimum=0)
    policy_delay: int = option(2, help="steps of the critics for one of actor and targets", minimum=1)


@dataclasses.dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Keys of SAC."""

    batch_size: int = option(256, help="decisions of a minibatch", minimum=1)
    actor_lr: float = option(3e-4, help="learning rate of the actors", above=0)
    critic_lr: float = option(3e-4, help="learning rate of the critics", above=0)
    temperature_lr: float = option(3e-4, help="learning rate of the temperature", above=0)
    initial_temperature: float = option(1.0, help="weight of the entropy at first", above=0)
    target_entropy: float | None = option(
        None, help="entropy that the temperature is to hold; null: minus the size of an action"
    )


CONFIGS: dict[str, type[RunConfig]] = {"mappo": PPOConfig, "ippo": IPPOConfig, "td3": TD3Config, "sac": SACConfig}
"""By algorithm: the defaults of its command line."""


def check_divides(name: str, value: int, by_name: str, by: int) -> None:
    """Raise a ValueError that names the nearest value that works, unless `by` divides `value`."""
    if value % by:
        nearest = max(round(value / by), 1) * by
        raise ValueError(f"{name} is {value}, which {by_name} ({by}) does not divide; take {nearest}, for example")

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
    num_seeds: int = option(1, help="independent trainings in one program, seeds seed, seed + 1, ...", minimum=1)
    total_steps: int = option(1_000_000, help="environment steps, of one seed", minimum=1)
    num_envs: int = option(256, help="environments played in parallel, of one seed", minimum=1)
    num_devices: int | None = option(None, help="devices to spread the environments over; null: all", minimum=1)
    log_interval: int = option(1, help="updates between two lines of metrics", minimum=1)
    eval_interval: int = option(10, help="updates between two evaluations", minimum=1)
    save_interval: int = option(10, help="updates between two checkpoints", minimum=1)
    eval_episodes: int = option(512, help="fixed instances that are evaluated", minimum=1)
    eval_seed: int = option(1_000_003, help="seed of those instances", minimum=0, maximum=2**32 - 1)


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
    rollout_length: int = option(100, help="steps between two updates", minimum=1)
    num_epochs: int = option(4, help="passes over a rollout", minimum=1)
    num_minibatches: int = option(4, help="minibatches of a pass, each of some environments", minimum=1)
    gamma: float = option(0.99, help="discount", minimum=0, maximum=1)
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
    def steps_per_update(self) -> int:
        """Environment steps of one update, of one seed."""
        return self.num_envs * self.rollout_length

    @property
    def num_updates(self) -> int:
        """Updates that make up `total_steps`, rounded up to whole chunks of `log_interval`."""
        return math.ceil(self.total_steps / (self.steps_per_update * self.log_interval)) * self.log_interval

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


CONFIGS: dict[str, type[PPOConfig]] = {"mappo": PPOConfig, "ippo": IPPOConfig}
"""By algorithm: the defaults of its command line."""


def check_divides(name: str, value: int, by_name: str, by: int) -> None:
    """Raise a ValueError that names the nearest value that works, unless `by` divides `value`."""
    if value % by:
        nearest = max(round(value / by), 1) * by
        raise ValueError(f"{name} is {value}, which {by_name} ({by}) does not divide; take {nearest}, for example")

"""The keys that TD3 and SAC share."""

from __future__ import annotations

import dataclasses

from jaxvrp.fields import option
from train.config import RunConfig
from train.networks.layers import ACTIVATIONS


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig(RunConfig):
    """Keys of TD3 and SAC. A step is a step of a single environment, though several are played at once."""

    num_envs: int = option(
        32, help="environments played in parallel, of one seed; spread over the devices", group="run", minimum=1
    )
    rollout_length: int = option(8, help="steps between two updates", group="run", minimum=1)
    log_interval: int = option(
        10,
        help="updates between two lines of metrics; so many are one call of the compiled program",
        group="run",
        minimum=1,
    )
    eval_interval: int = option(
        100, help="updates between two evaluations; a multiple of `log_interval`", group="evaluation", minimum=1
    )
    save_interval: int = option(
        500,
        help="updates between two checkpoints, which hold the replay too; a multiple of `log_interval`",
        group="run",
        minimum=1,
    )
    eval_episodes: int = option(128, help="fixed instances that are evaluated", group="evaluation", minimum=1)
    hidden_sizes: tuple[int, ...] = option((400, 300), help="widths of the dense layers", group="network", minimum=1)
    activation: str = option("relu", help="activation of the dense layers", group="network", choices=tuple(ACTIVATIONS))
    layer_norm: bool = option(
        False, help="LayerNorm (without scale and bias) on the input and after each layer", group="network"
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

"""The keys that TD3 and SAC share."""

from __future__ import annotations

import dataclasses

from jaxvrp.fields import option
from train.config import RunConfig
from train.networks.layers import ACTIVATIONS


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
    batch_size: int = option(256, help="decisions of a minibatch", minimum=1)
    gradient_steps: int = option(32, help="minibatches learned from in an update", minimum=1)
    target_exploration_steps: int = option(
        0, help="steps of random play at first, of which only the environment learns", minimum=0
    )
    random_steps: int = option(10_000, help="steps of random play into the replay, before the policy plays", minimum=0)
    tau: float = option(0.005, help="share of the new parameters in the targets' moving average", above=0, maximum=1)
    actor_lr: float = option(3e-4, help="learning rate of the actors", above=0)
    critic_lr: float = option(3e-4, help="learning rate of the critics", above=0)

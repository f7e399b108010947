"""The keys of MAPPO and IPPO."""

from __future__ import annotations

import dataclasses

from jaxvrp.fields import option
from train.config import RunConfig
from train.networks import NETWORKS
from train.networks.layers import ACTIVATIONS


@dataclasses.dataclass(frozen=True)
class PPOConfig(RunConfig):
    """Keys of MAPPO and IPPO."""

    critic: str = option(
        "central",
        help="what the critic sees: the global observation (MAPPO) or the role's own (IPPO)",
        choices=("central", "local"),
    )
    network: str = option("mlp", help="kind of network", choices=tuple(NETWORKS))
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

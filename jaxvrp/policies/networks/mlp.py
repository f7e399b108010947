"""Dense layers without memory."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax

from jaxvrp.actor import Carry
from jaxvrp.policies.networks.layers import Memoryless, NetworkSpec, Trunk


class MLP(Memoryless):
    """A trunk and a linear head; no memory."""

    hidden_sizes: tuple[int, ...]
    head_size: int
    head_gain: float
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, inputs: jax.Array, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """See `jaxvrp.policies.networks`."""
        del reset
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm)(inputs)
        return nn.Dense(self.head_size, kernel_init=nn.initializers.orthogonal(self.head_gain))(x), carry


def build(config: Any, spec: NetworkSpec) -> MLP:
    """As `NetworkKeys` say."""
    return MLP(config.hidden_sizes, spec.head_size, spec.head_gain, config.activation, config.layer_norm)

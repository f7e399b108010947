"""The networks of actors and critics, in flax linen: one file a network, and the table of them.

All of them map sequences: `(inputs [L, B, A, F], carry, reset [L, B]) -> (outputs [L, B, A, head], carry)`, with `L`
steps in time, `B` environments and `A` agents, and they have `initial_carry(num_envs, num_agents)`. A network without
memory has the carry `()` and ignores `reset`. A new kind is a file with such a module and a function `build`, and a line
below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn

from train.networks import attention, gru, mlp
from train.networks.layers import NetworkSpec

NETWORKS: dict[str, Callable[[Any, NetworkSpec], nn.Module]] = {
    "mlp": mlp.build,
    "gru": gru.build,
    "attention": attention.build,
}
"""By the name in the configuration: `(PPOConfig, NetworkSpec) -> module`."""

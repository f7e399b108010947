"""The networks of actors and critics, in flax linen: one file a network, and the table of them.

All of them map sequences: `(inputs [L, B, A, F], carry, reset [L, B]) -> (outputs [L, B, A, head], carry)`, with `L`
steps in time, `B` environments and `A` agents, and they have `initial_carry(num_envs, num_agents)`. A network without
memory has the carry `()` and ignores `reset`. A new kind is a file with such a module and a function `build`, and a
line of `NETWORKS`; keys of its own, if it needs any, are `PPOConfig`'s.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn

from train.networks import attention, gru, mlp
from train.networks.layers import NetworkSpec


@dataclasses.dataclass(frozen=True)
class NetworkKind:
    """A kind of network.

    Attributes:
        build: `(configuration, NetworkSpec) -> module`.
        has_memory: whether its carry matters, so that it learns from sequences of `chunk_length` steps.
        reads_entities: whether it reads observations as sets; its parameters then serve any number of entities.
    """

    build: Callable[[Any, NetworkSpec], nn.Module]
    has_memory: bool = False
    reads_entities: bool = False


NETWORKS = {
    "mlp": NetworkKind(mlp.build),
    "gru": NetworkKind(gru.build, has_memory=True),
    "attention": NetworkKind(attention.build, reads_entities=True),
}
"""By the name in the configuration."""


def build_network(config: Any, spec: NetworkSpec) -> nn.Module:
    """The network that a `PPOConfig` names.

    Raises:
        ValueError: it reads sets, and the observation is none; or its keys do not fit together.
    """
    kind = NETWORKS[config.network]
    if kind.reads_entities and spec.entities is None:
        others = " or ".join(f"'{name}'" for name, other in NETWORKS.items() if not other.reads_entities)
        raise ValueError(f"network is '{config.network}', which needs observations that are sets; take {others} here")
    return kind.build(config, spec)

"""The networks of actors and critics, in flax linen: one file a network, and the table of them.

All of them map sequences: `(inputs [L, B, A, F], carry, reset [L, B]) -> (outputs [L, B, A, head], carry)`, with `L`
steps in time, `B` environments and `A` agents (inputs are `EntityInput` for those that read entities), and they have
`initial_carry(num_envs, num_agents)`. A network without memory has the carry `()` and ignores `reset`. A new kind is a
file with such a module and a function `build`, and a line of `NETWORKS`; keys of its own, if it needs any, are
`PPOConfig`'s.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn

from train.networks import attention, gru, mlp
from train.networks.attention import TeamEncoder
from train.networks.layers import NetworkSpec


@dataclasses.dataclass(frozen=True)
class NetworkKind:
    """A kind of network."""

    build: Callable[[Any, NetworkSpec], nn.Module]
    # what the actors of all roles share and read, or None for nothing
    build_encoder: Callable[[Any, NetworkSpec], TeamEncoder | None] = lambda config, spec: None
    has_memory: bool = False  # whether its carry matters, so that it learns from sequences of `chunk_length` steps
    reads_entities: bool = False  # whether it reads entities; its parameters then serve any number of them
    # keys of the configuration that say what it computes, and not what shapes its parameters have
    shapeless: tuple[str, ...] = ()


NETWORKS = {
    "mlp": NetworkKind(mlp.build, shapeless=("activation", "layer_norm")),
    "gru": NetworkKind(gru.build, has_memory=True, shapeless=("activation", "layer_norm")),
    "attention": NetworkKind(
        attention.build, attention.build_encoder, reads_entities=True, shapeless=("attention_heads",)
    ),
}
"""By the name in the configuration."""


def build_network(config: Any, spec: NetworkSpec) -> nn.Module:
    """The network that a `PPOConfig` names; a ValueError says which of its keys do not fit together."""
    return NETWORKS[config.network].build(config, spec)


def build_encoder(config: Any, spec: NetworkSpec) -> TeamEncoder | None:
    """What the actors of all roles share, by a `PPOConfig`; None for nothing."""
    return NETWORKS[config.network].build_encoder(config, spec)

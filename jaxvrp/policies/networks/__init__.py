"""The networks of actors and critics, in flax linen: one file a network, and the table of them.

All of them map sequences: `(inputs [L, B, A, F], carry, reset [L, B]) -> (outputs [L, B, A, head], carry)`, with `L`
steps in time, `B` environments and `A` agents (inputs are `EntityInput` for those that read entities), and they have
`initial_carry(num_envs, num_agents)`. A network without memory has the carry `()` and ignores `reset`. A new kind is a
file with such a module and a function `build`, and a line of `NETWORKS`; keys of its own, if it needs any, stand in
`NetworkKeys`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn

from jaxvrp.fields import option
from jaxvrp.policies.networks import attention, gru, mlp
from jaxvrp.policies.networks.attention import TeamEncoder
from jaxvrp.policies.networks.layers import ACTIVATIONS, NetworkSpec


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
        attention.build,
        attention.build_encoder,
        reads_entities=True,
        shapeless=("attention_heads", "attention_nearest"),
    ),
}
"""By the name in the configuration."""


@dataclasses.dataclass(frozen=True)
class NetworkKeys:
    """The keys of a configuration that say what networks are."""

    network: str = option(
        "mlp",
        help="kind of network; `attention` reads any number of entities, `mlp` and `gru` read vectors",
        group="network",
        choices=tuple(NETWORKS),
    )
    hidden_sizes: tuple[int, ...] = option((64, 64), help="widths of the dense layers", group="network", minimum=1)
    activation: str = option("relu", help="activation of the dense layers", group="network", choices=tuple(ACTIVATIONS))
    layer_norm: bool = option(
        True,
        help="LayerNorm (without scale and bias) on an input of 8 numbers or more and after each layer",
        group="network",
    )
    recurrent_size: int = option(64, help="width of the recurrent state (`gru`)", group="network", minimum=1)
    attention_size: int = option(
        64, help="width of the entities (`attention`); a multiple of `attention_heads`", group="network", minimum=1
    )
    attention_heads: int = option(4, help="heads of a layer (`attention`)", group="network", minimum=1)
    attention_encode: str = option(
        "auto",
        help="what is encoded at a time (`attention`): `agent`, all that an agent sees, on a map turned to it; `step`, "
        "all that the team sees, once a step; `instance`, the features that never change, once an episode; `auto`, "
        "`agent` for a single agent, else `step`",
        group="network",
        choices=("auto", "agent", "step", "instance"),
    )
    attention_nearest: int = option(
        0,
        help="entities of a kind that an actor encodes, those nearest to its agent (`attention_encode: agent`); 0: all",
        group="network",
        minimum=0,
    )
    attention_layers: int = option(
        1,
        help="self-attention layers of the actors (`attention`); 0: entities are only pooled",
        group="network",
        minimum=0,
        maximum=100,
    )
    share_drone_policy: bool = option(
        True, help="the agents of a role share one actor; false: one actor each", group="network"
    )


def build_network(config: NetworkKeys, spec: NetworkSpec) -> nn.Module:
    """The network that a configuration names; a ValueError says which of its keys do not fit together."""
    return NETWORKS[config.network].build(config, spec)


def build_encoder(config: NetworkKeys, spec: NetworkSpec) -> TeamEncoder | None:
    """What the actors of all roles share, by a configuration; None for nothing."""
    return NETWORKS[config.network].build_encoder(config, spec)

"""What all networks are made of, and what they are built from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax

from jaxvrp.actor import Carry
from jaxvrp.spaces import EntityKind, Pointer

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": nn.relu, "tanh": nn.tanh, "silu": nn.silu}


@dataclasses.dataclass(frozen=True)
class NetworkSpec:
    """What a network is needed for."""

    is_actor: bool  # whether its outputs are logits of actions; else they are values
    num_agents: int  # of all roles, in the environment
    head_size: int  # numbers of an output
    head_gain: float  # scale of the last layer's kernel at the start
    kinds: tuple[EntityKind, ...] = ()  # entities that it sees; () if its input is a vector
    pointers: tuple[Pointer, ...] = ()  # what the actions of an actor point at
    # indices of the numbers of the context, two by two, that are places on the map: first the agent's
    places: tuple[tuple[int, int], ...] = ()


class Memoryless(nn.Module):
    """A network that carries nothing from step to step."""

    def initial_carry(self, num_envs: int, num_agents: int) -> Carry:
        """No memory: `()`."""
        del num_envs, num_agents
        return ()


def layer_norm(x: jax.Array) -> jax.Array:
    """Normalise `[..., F]` to mean 0 and variance 1 over the last axis (Ba et al. 2016).

    Without scale and bias: the dense layer that follows absorbs them, and their gradients are slow on a CPU.
    """
    return nn.LayerNorm(use_scale=False, use_bias=False)(x)


class Trunk(nn.Module):
    """Dense layers, each with activation and, if wanted, LayerNorm; the input is normalised as well (MAPPO)."""

    hidden_sizes: tuple[int, ...]
    activation: str
    layer_norm: bool
    kernel_init: Callable[..., jax.Array] = nn.initializers.orthogonal(2**0.5)

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Activations `f32[..., hidden_sizes[-1]]` of inputs `f32[..., F]`."""
        # As rows: four axes cost XLA's CPU kernels a factor of two.
        x = inputs.reshape(-1, inputs.shape[-1])
        x = layer_norm(x) if self.layer_norm else x
        for size in self.hidden_sizes:
            x = nn.Dense(size, kernel_init=self.kernel_init)(x)
            x = ACTIVATIONS[self.activation](x)
            x = layer_norm(x) if self.layer_norm else x
        return x.reshape(*inputs.shape[:-1], -1)

"""The networks of actors and critics, in flax linen.

All of them map sequences: `(inputs [L, B, A, F], carry, reset [L, B]) -> (outputs [L, B, A, head], carry)`, with `L`
steps in time, `B` environments and `A` agents. A network without memory has the carry `()` and ignores `reset`. A new
kind is a module with this signature and an entry in `make_network`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp import Entities
from train.attention import Attention
from train.layers import layer_norm

Carry = Any

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": nn.relu, "tanh": nn.tanh, "silu": nn.silu}
NETWORKS = ("mlp", "gru", "attention")
MAX_UNROLL = 16


class Trunk(nn.Module):
    """Dense layers, each with activation and, if wanted, LayerNorm; the input is normalised as well (MAPPO)."""

    hidden_sizes: tuple[int, ...]
    activation: str
    layer_norm: bool
    kernel_init: Callable[..., jax.Array] = nn.initializers.orthogonal(2**0.5)

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """`[..., F] -> [..., hidden_sizes[-1]]`."""
        # As rows: four axes cost XLA's CPU kernels a factor of two.
        x = inputs.reshape(-1, inputs.shape[-1])
        x = layer_norm(x) if self.layer_norm else x
        for size in self.hidden_sizes:
            x = nn.Dense(size, kernel_init=self.kernel_init)(x)
            x = ACTIVATIONS[self.activation](x)
            x = layer_norm(x) if self.layer_norm else x
        return x.reshape(*inputs.shape[:-1], -1)


class MLP(nn.Module):
    """A trunk and a linear head; no memory."""

    hidden_sizes: tuple[int, ...]
    head_size: int
    head_gain: float
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, inputs: jax.Array, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """See the module's docstring."""
        del reset
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm)(inputs)
        return nn.Dense(self.head_size, kernel_init=nn.initializers.orthogonal(self.head_gain))(x), carry

    def initial_carry(self, num_envs: int, num_agents: int) -> Carry:
        """No memory: `()`."""
        del num_envs, num_agents
        return ()


class GRULayer(nn.Module):
    """One gated recurrent layer (Cho et al. 2014, in the form of cuDNN) over time.

    The input's share of the gates is one matrix product for the whole sequence; the scan holds only the recurrent one.
    """

    size: int

    @nn.compact
    def __call__(self, inputs: jax.Array, hidden: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        """`inputs [L, B, A, F]`, `hidden [B, A, H]`, `reset [L, B]` -> `[L, B, A, H]` and the last hidden state.

        Where `reset` holds, the hidden state is zero before the step.
        """
        length, batch, agents = inputs.shape[:3]
        kernel_init = _gates(nn.initializers.xavier_uniform(), self.size)
        gates = nn.Dense(3 * self.size, kernel_init=kernel_init)(inputs.reshape(-1, inputs.shape[-1]))
        gates = gates.reshape(length, batch * agents, -1)
        recurrent = self.param("recurrent", _gates(nn.initializers.orthogonal(), self.size), (self.size, 3 * self.size))
        bias = self.param("recurrent_bias", nn.initializers.zeros, (self.size,))
        fresh = jnp.repeat(reset, agents, axis=1)[..., None]

        def advance(hidden: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            gate, new_episode = xs
            hidden = jnp.where(new_episode, 0.0, hidden)
            own = hidden @ recurrent
            update, forget = jnp.split(nn.sigmoid(gate[:, : 2 * self.size] + own[:, : 2 * self.size]), 2, axis=1)
            new = jnp.tanh(gate[:, 2 * self.size :] + forget * (own[:, 2 * self.size :] + bias))
            hidden = new + update * (hidden - new)
            return hidden, hidden

        # Rolled loops run their small products on one core: 3 times slower on a CPU, measured at 10 steps.
        unroll = min(length, MAX_UNROLL)
        hidden, out = jax.lax.scan(advance, hidden.reshape(batch * agents, -1), (gates, fresh), unroll=unroll)
        return out.reshape(length, batch, agents, -1), hidden.reshape(batch, agents, -1)


class GRU(nn.Module):
    """A trunk, recurrent layers and a linear head; the carry is `f32[B, A, layers, H]`."""

    hidden_sizes: tuple[int, ...]
    head_size: int
    head_gain: float
    recurrent_size: int
    recurrent_layers: int = 1
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, inputs: jax.Array, carry: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        """See the module's docstring."""
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm)(inputs)
        last = []
        for layer in range(self.recurrent_layers):
            x, hidden = GRULayer(self.recurrent_size)(x, carry[:, :, layer], reset)
            last.append(hidden)
        x = x.reshape(-1, self.recurrent_size)
        x = layer_norm(x) if self.layer_norm else x
        outputs = nn.Dense(self.head_size, kernel_init=nn.initializers.orthogonal(self.head_gain))(x)
        return outputs.reshape(*inputs.shape[:-1], -1), jnp.stack(last, axis=2)

    def initial_carry(self, num_envs: int, num_agents: int) -> jax.Array:
        """Zeros."""
        return jnp.zeros((num_envs, num_agents, self.recurrent_layers, self.recurrent_size), jnp.float32)


def make_network(
    kind: str,
    *,
    head_size: int,
    head_gain: float,
    hidden_sizes: tuple[int, ...],
    recurrent_size: int,
    recurrent_layers: int,
    activation: str,
    layer_norm: bool,
    attention_size: int = 64,
    attention_heads: int = 4,
    attention_layers: int = 1,
    entities: Entities | None = None,
    pointer: bool = False,
) -> nn.Module:
    """A network of the given kind, one of `NETWORKS`; `attention` reads its input as `entities`.

    Raises:
        ValueError: another kind, or one that does not suit the observation.
    """
    if kind == "attention":
        head = {"head_size": head_size, "head_gain": head_gain, "pointer": pointer}
        return _attention(entities, attention_size, attention_heads, attention_layers, head)
    common: dict[str, Any] = {
        "hidden_sizes": hidden_sizes,
        "head_size": head_size,
        "head_gain": head_gain,
        "activation": activation,
        "layer_norm": layer_norm,
    }
    if kind == "mlp":
        return MLP(**common)
    if kind == "gru":
        return GRU(**common, recurrent_size=recurrent_size, recurrent_layers=recurrent_layers)
    raise ValueError(f"network is '{kind}'; it must be one of: {', '.join(NETWORKS)}")


def _attention(entities: Entities | None, size: int, heads: int, layers: int, head: dict[str, Any]) -> nn.Module:
    if entities is None:
        raise ValueError("network is 'attention', which needs observations that are sets; take 'mlp' or 'gru' here")
    if size % heads:
        raise ValueError(f"attention_size is {size}, which attention_heads ({heads}) does not divide")
    return Attention(entities=entities, size=size, num_heads=heads, num_layers=layers, **head)


def _gates(initializer: Callable[..., jax.Array], size: int) -> Callable[..., jax.Array]:
    """Initialise the three gates of `[inputs, 3 * size]` one by one, as if they were separate layers."""

    def init(key: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> jax.Array:
        keys = jax.random.split(key, 3)
        return jnp.concatenate([initializer(k, (shape[0], size), dtype) for k in keys], axis=1)

    return init

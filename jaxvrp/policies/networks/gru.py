"""A gated recurrent layer behind dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.policies.networks.layers import NetworkSpec, Trunk, layer_norm

MAX_UNROLL = 16
"""Steps of the scan that are unrolled at most."""


class GRULayer(nn.Module):
    """One gated recurrent layer (Cho et al. 2014, in the form of cuDNN) over time.

    The input's share of the gates is one matrix product for the whole sequence; the scan holds only the recurrent one.
    """

    size: int

    @nn.compact
    def __call__(self, inputs: jax.Array, hidden: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Hidden states after every step, `f32[L, B, A, H]`, and the last of them, `f32[B, A, H]`.

        Inputs are `f32[L, B, A, F]`; where `reset`, `bool[L, B]`, holds, the state is zero before the step.
        """
        length, batch, agents = inputs.shape[:3]
        kernel_init = _gates(nn.initializers.xavier_uniform(), self.size)
        gates = nn.Dense(3 * self.size, kernel_init=kernel_init)(inputs.reshape(-1, inputs.shape[-1]))
        gates = gates.reshape(length, batch * agents, -1)
        recurrent = self.param("recurrent", _gates(nn.initializers.orthogonal(), self.size), (self.size, 3 * self.size))
        bias = self.param("recurrent_bias", nn.initializers.zeros, (self.size,), jnp.float32)
        begins = jnp.repeat(reset, agents, axis=1)[..., None]

        def advance(hidden: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            gate, begins = xs
            hidden = jnp.where(begins, 0.0, hidden)
            recalled = hidden @ recurrent
            update, forget = jnp.split(nn.sigmoid(gate[:, : 2 * self.size] + recalled[:, : 2 * self.size]), 2, axis=1)
            new = jnp.tanh(gate[:, 2 * self.size :] + forget * (recalled[:, 2 * self.size :] + bias))
            hidden = new + update * (hidden - new)
            return hidden, hidden

        # Rolled loops run their small products on one core: 3 times slower on a CPU, measured at 10 steps.
        unroll = min(length, MAX_UNROLL)
        hidden, out = jax.lax.scan(advance, hidden.reshape(batch * agents, -1), (gates, begins), unroll=unroll)
        return out.reshape(length, batch, agents, -1), hidden.reshape(batch, agents, -1)


class GRU(nn.Module):
    """A trunk, a recurrent layer and a linear head; the carry is `f32[B, A, H]`."""

    hidden_sizes: tuple[int, ...]
    head_size: int
    head_gain: float
    recurrent_size: int
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, inputs: jax.Array, carry: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        """See `jaxvrp.policies.networks`."""
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm)(inputs)
        x, carry = GRULayer(self.recurrent_size)(x, carry, reset)
        x = x.reshape(-1, self.recurrent_size)
        x = layer_norm(x) if self.layer_norm else x
        outputs = nn.Dense(self.head_size, kernel_init=nn.initializers.orthogonal(self.head_gain))(x)
        return outputs.reshape(*inputs.shape[:-1], -1), carry

    def initial_carry(self, num_envs: int, num_agents: int) -> jax.Array:
        """Zeros."""
        return jnp.zeros((num_envs, num_agents, self.recurrent_size), jnp.float32)


def build(config: Any, spec: NetworkSpec) -> GRU:
    """As `NetworkKeys` say."""
    dense = {"activation": config.activation, "layer_norm": config.layer_norm}
    return GRU(config.hidden_sizes, spec.head_size, spec.head_gain, config.recurrent_size, **dense)


def _gates(initializer: Callable[..., jax.Array], size: int) -> Callable[..., jax.Array]:
    """Initialise the three gates of `[inputs, 3 * size]` one by one, as if they were separate layers."""

    def init(key: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> jax.Array:
        keys = jax.random.split(key, 3)
        return jnp.concatenate([initializer(k, (shape[0], size), dtype) for k in keys], axis=1)

    return init

"""What all networks are made of, and what they are built from."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.spaces import EntityKind, Pointer

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": nn.relu, "tanh": nn.tanh, "silu": nn.silu}


EPSILON = 1e-6
"""Added to the variance that LayerNorm divides by."""

SMALL = 16
"""Rows and columns of a matrix that is multiplied by sums off a CPU; with 35 a TPU moves as much either way."""


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


@jax.custom_vjp
def layer_norm(x: jax.Array) -> jax.Array:
    """Normalise `f32[..., F]` to mean 0 and variance 1 over the last axis (Ba et al. 2016).

    Without scale and bias: the dense layer that follows absorbs them, and their gradients are slow on a CPU. The
    gradient is written out: it needs what comes out alone, and half as many passes as the one that JAX derives.
    """
    return _normalized(x)[0]


def _normalized(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    normal, scale = jax.lax.platform_dependent(x, cpu=_by_squares, tpu=_by_squares, default=_by_deviations)
    return normal, (normal, scale)


def _by_squares(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    mean = _mean(x)
    scale = jax.lax.rsqrt(jnp.maximum(_mean(x * x) - mean * mean, 0.0) + EPSILON)
    return (x - mean) * scale, scale


def _by_deviations(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which XLA makes one kernel of a GPU of."""
    deviation = x - _mean(x)
    scale = jax.lax.rsqrt(_mean(deviation * deviation) + EPSILON)
    return deviation * scale, scale


def _slope(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array]:
    normal, scale = kept
    return (scale * (slope - _mean(slope) - normal * _mean(slope * normal)),)


layer_norm.defvjp(_normalized, _slope)


def _mean(x: jax.Array) -> jax.Array:
    """Over the last axis, `f32[..., 1]`; on a CPU by a matrix product, which is vectorised, as sums of rows are not."""
    ones = jnp.full((x.shape[-1], 1), 1 / x.shape[-1], jnp.float32)
    return jax.lax.platform_dependent(
        x,
        cpu=lambda x: jnp.matmul(x, ones, precision=jax.lax.Precision.HIGHEST),
        default=lambda x: x.mean(axis=-1, keepdims=True),
    )


@jax.custom_vjp
def softmax(x: jax.Array) -> jax.Array:
    """Of `f32[..., F]` over the last axis; the gradient is written out as that of `layer_norm`."""
    return jax.nn.softmax(x, axis=-1)


def _softmax_slope(weight: jax.Array, slope: jax.Array) -> tuple[jax.Array]:
    weighted = slope * weight
    return (weighted - weight * weighted.sum(axis=-1, keepdims=True),)


softmax.defvjp(lambda x: 2 * (softmax(x),), _softmax_slope)


def contract(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """`jnp.einsum` of two arrays of matrices, over one axis; off a CPU small ones are multiplied by sums of products.

    A matrix of ten rows takes a whole tile of a TPU's memory, and of a unit of a GPU or TPU that multiplies matrices.
    """
    if max(*left.shape[1:], *right.shape[1:]) > SMALL:
        return jnp.einsum(equation, left, right)
    return _contract_small(equation, left, right)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _contract_small(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    on_cpu, elsewhere = (functools.partial(form, equation) for form in (jnp.einsum, _sums_of_products))
    return jax.lax.platform_dependent(left, right, cpu=on_cpu, default=elsewhere)


def _sums_of_products(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """The sum is not along the last axis, where XLA gives each a warp of a GPU."""
    of_left, of_right, out = _axes(equation)
    (summed,) = set(of_left) - set(out)
    axes = out[:2] + summed + out[2:]

    def placed(x: jax.Array, names: str) -> jax.Array:
        x = x.transpose([names.index(name) for name in axes if name in names])
        return jnp.expand_dims(x, [place for place, name in enumerate(axes) if name not in names])

    return (placed(left, of_left) * placed(right, of_right)).sum(axis=2)


def _axes(equation: str) -> list[str]:
    """Of both arrays, and of what they make."""
    return re.split(",|->", equation)


def _contract_slopes(equation: str, kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of both arrays; on a CPU those of `jnp.einsum`, whose bits differ from those of other products."""

    def on_cpu(left: jax.Array, right: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.vjp(functools.partial(jnp.einsum, equation), left, right)[1](slope)

    def elsewhere(left: jax.Array, right: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
        of_left, of_right, out = _axes(equation)
        to_left = _sums_of_products(f"{out},{of_right}->{of_left}", slope, right)
        return to_left, _sums_of_products(f"{out},{of_left}->{of_right}", slope, left)

    return jax.lax.platform_dependent(*kept, slope, cpu=on_cpu, default=elsewhere)


_contract_small.defvjp(
    lambda equation, left, right: (_contract_small(equation, left, right), (left, right)), _contract_slopes
)


def by_platform(on_cpu: Callable[..., Any], elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    """A function in a form for a CPU and one for other devices."""
    return lambda *arguments: jax.lax.platform_dependent(*arguments, cpu=on_cpu, default=elsewhere)


computed_once = by_platform(lambda x: x, jax.lax.optimization_barrier)
"""The same array, stored by a GPU: else every kernel that reads it computes it anew."""


FEWEST_NORMALIZED = 8
"""LayerNorm takes an offset and a scale from its input: of two numbers a sign is left, of many nearly all."""


class Trunk(nn.Module):
    """Dense layers, each with activation and, if wanted, LayerNorm; so has an input of at least `FEWEST_NORMALIZED`."""

    hidden_sizes: tuple[int, ...]
    activation: str
    layer_norm: bool
    kernel_init: Callable[..., jax.Array] = nn.initializers.orthogonal(2**0.5)

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Activations `f32[..., hidden_sizes[-1]]` of inputs `f32[..., F]`."""
        # As rows: four axes cost XLA's CPU kernels a factor of two.
        x = inputs.reshape(-1, inputs.shape[-1])
        x = layer_norm(x) if self.layer_norm and x.shape[-1] >= FEWEST_NORMALIZED else x
        for size in self.hidden_sizes:
            x = nn.Dense(size, kernel_init=self.kernel_init)(x)
            x = ACTIVATIONS[self.activation](x)
            x = layer_norm(x) if self.layer_norm else x
        return x.reshape(*inputs.shape[:-1], -1)

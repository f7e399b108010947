"""Dense layers of networks that read entities; off a CPU as few products as there can be, for fewer kernels of a GPU.

A bias is then a row of the kernel, so that its gradient has no kernel for itself, and layers that read different
entities, or make different logits of them, are one product. Parameters are the same in either form.

Shapes: as in `attention`; `K` numbers that a layer reads, width `H`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.policies.networks.layers import by_platform

Arrays = list[jax.Array]

Weights = tuple[jax.Array, jax.Array]
"""Kernel and bias of a layer, `f32[K, H]` and `f32[H]`."""


class Dense(nn.Module):
    """A dense layer of this width whose parameters are those of `flax.linen.Dense`; `gain` scales its first kernel."""

    size: int
    gain: float = 2.0**0.5
    use_bias: bool = True

    @nn.compact
    def weights(self, features: int) -> tuple[jax.Array, ...]:
        """Of a layer that reads so many numbers: `Weights`, or the kernel alone."""
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), (features, self.size), jnp.float32)
        if not self.use_bias:
            return (kernel,)
        return kernel, self.param("bias", nn.initializers.zeros, (self.size,), jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`f32[..., H]` of `f32[..., K]`."""
        weights = self.weights(x.shape[-1])
        return _affine(x, *weights) if self.use_bias else _product(x, *weights)


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`f32[..., H]` of `f32[..., K]`, as one matrix: more axes cost XLA's CPU kernels a factor of two.

    Not fused with what makes `x`, nor the gradient with what makes the gradient's factor. These are transposed planes,
    and XLA of JAX 0.10 cannot compile a transposition and a product in one kernel of a GPU for most sizes. On a CPU XLA
    fuses nothing into products, and drops the barriers.
    """
    flat = jax.lax.optimization_barrier(x.reshape(-1, x.shape[-1]))
    return _gradient_apart(jnp.matmul(flat, kernel)).reshape(*x.shape[:-1], -1)


@jax.custom_vjp
def _gradient_apart(x: jax.Array) -> jax.Array:
    return x


_gradient_apart.defvjp(lambda x: (x, None), lambda _, gradient: (jax.lax.optimization_barrier(gradient),))


def _with_bias(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    product = _product(x, kernel)
    return (product.reshape(-1, len(bias)) + bias).reshape(product.shape)


def _as_product(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    return _product(_with_ones(x), _rows(kernel, bias))


def _with_ones(x: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.ones_like(x[..., :1]), x], axis=-1)


def _rows(kernel: jax.Array, bias: jax.Array) -> jax.Array:
    return jnp.concatenate([bias[None], kernel])


_affine = by_platform(_with_bias, _as_product)


def _embedded_by_kind(numbers: Arrays, weights: list[Weights]) -> jax.Array:
    return jnp.concatenate([_with_bias(x, *layer) for x, layer in zip(numbers, weights, strict=True)], axis=1)


def _embedded_at_once(numbers: Arrays, weights: list[Weights]) -> jax.Array:
    """Each kind has columns of its own, in which the others are 0."""
    width, start, rows = sum(x.shape[-1] + 1 for x in numbers), 0, []
    for x in map(_with_ones, numbers):
        end = start + x.shape[-1]
        rows.append(jnp.pad(x, ((0, 0), (0, 0), (start, width - end))))
        start = end
    return _product(jnp.concatenate(rows, axis=1), jnp.concatenate([_rows(*layer) for layer in weights]))


embedded = by_platform(_embedded_by_kind, _embedded_at_once)
"""Entities, `f32[R, M, H]`, of several kinds (`f32[R, M of the kind, K]`), each with its `Weights`."""


Near = tuple[Arrays, jax.Array] | None
"""What lies between agents and entities, by kind `f32[R, A, M of the kind, K]`, and the kernel that reads it."""


def _matched_by_kind(queries: Arrays, entities: Arrays, key: Weights, near: Near) -> Arrays:
    matches = [_with_bias(x, *key)[:, None] + query for query, x in zip(queries, entities, strict=True)]
    if near is None:
        return matches
    between, nearness = near
    return [match + _product(numbers, nearness) for match, numbers in zip(matches, between, strict=True)]


def _matched_at_once(queries: Arrays, entities: Arrays, key: Weights, near: Near) -> Arrays:
    x = jnp.concatenate(entities, axis=1)
    if near is None:
        match = _as_product(x, *key)[:, None]
    else:
        (between, nearness), (kernel, bias) = near, key
        match = _product(x, kernel)[:, None] + _as_product(jnp.concatenate(between, axis=2), nearness, bias)
    ends = itertools.accumulate(of_kind.shape[1] for of_kind in entities)
    return jnp.split(match + queries[0], list(ends)[:-1], axis=2)


matched = by_platform(_matched_by_kind, _matched_at_once)
"""How agents and entities go together, of each kind `f32[R, A, M of the kind, H]`.

From the agents' query (`f32[R, A, 1, H]`, for each kind the same: a CPU sums its gradients in that order), the entities
(`f32[R, M of the kind, H]`), the layer that reads these, and what lies between.
"""


def _pointed_by_head(chosen: Arrays, weights: list[Weights]) -> jax.Array:
    return _joined_logits(_with_bias(x, *layer) for x, layer in zip(chosen, weights, strict=True))


def _pointed_at_once(chosen: Arrays, weights: list[Weights]) -> jax.Array:
    """Each head takes some rows and columns of what is made of all."""
    kernel = jnp.concatenate([_rows(*layer) for layer in weights], axis=1)
    product = _product(_with_ones(jnp.concatenate(chosen, axis=2)), kernel)
    logits, row, column = [], 0, 0
    for x, (_, bias) in zip(chosen, weights, strict=True):
        last_row, last_column = row + x.shape[2], column + len(bias)
        logits.append(product[:, :, row:last_row, column:last_column])
        row, column = last_row, last_column
    return _joined_logits(logits)


def _joined_logits(logits: Iterable[jax.Array]) -> jax.Array:
    return jnp.concatenate([logit.reshape(*logit.shape[:2], -1) for logit in logits], axis=-1)


pointed = by_platform(_pointed_by_head, _pointed_at_once)
"""Logits `f32[R, A, actions]` of heads, each with its `Weights`, from what they choose from, `f32[R, A, M, H]` each."""

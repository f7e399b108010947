"""What an agent may see and do: the two spaces that the environments of this suite need.

Spaces are static descriptions (hashable, no arrays), so they can be read while tracing.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers `0 .. num_actions - 1`, as `int32`."""

    num_actions: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one element: a scalar."""
        return ()

    @property
    def dtype(self) -> jnp.dtype:
        """`int32`."""
        return jnp.dtype("int32")

    def sample(self, key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
        """Uniform elements, `i32[*shape]`."""
        return jax.random.randint(key, shape, 0, self.num_actions, jnp.int32)

    def contains(self, value: jax.Array) -> jax.Array:
        """Whether each entry of `value` is an element: `bool`, of the shape of `value`."""
        return (value >= 0) & (value < self.num_actions)


@dataclasses.dataclass(frozen=True)
class Box:
    """Real vectors of a fixed `shape` between `low` and `high`, as `float32`."""

    low: float
    high: float
    shape: tuple[int, ...]

    @property
    def dtype(self) -> jnp.dtype:
        """`float32`."""
        return jnp.dtype("float32")

    def sample(self, key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
        """Uniform elements, `f32[*shape, *self.shape]`; both bounds must be finite."""
        return jax.random.uniform(key, (*shape, *self.shape), jnp.float32, self.low, self.high)

    def contains(self, value: jax.Array) -> jax.Array:
        """Whether each element lies inside the bounds: `bool`, without the trailing axes of `self.shape`."""
        inside = (value >= self.low) & (value <= self.high)
        return inside.all(axis=tuple(range(inside.ndim - len(self.shape), inside.ndim)))


Space = Discrete | Box

"""The replay buffer: a ring of decisions for every environment of the batch, and uniform samples over all of them.

One ring per environment makes the whole independent of how the environments are spread over devices. Every decision is
one row of one array, so that a minibatch is one gather.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
from flax import struct


class Decisions(struct.PyTreeNode):
    """Decisions of agents, from which the algorithms learn.

    What an agent saw when its turn came, `f32[..., F]`, and right after it, before any reset; its action as executed,
    `f32[..., A]`, in [-1, 1]; `terminated` is 1 where the episode is over, so that no value is bootstrapped.
    """

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    next_observation: jax.Array

    @staticmethod
    def width(observation_size: int, action_size: int) -> int:
        """Numbers in a row of `packed`."""
        return 2 * observation_size + action_size + 2

    def packed(self) -> jax.Array:
        """One row each, `f32[..., 2F + A + 2]`."""
        single = jnp.stack([self.reward, self.terminated], axis=-1)
        return jnp.concatenate([self.observation, self.action, single, self.next_observation], axis=-1)

    @classmethod
    def unpacked(cls, rows: jax.Array, observation_size: int, action_size: int) -> Decisions:
        """From rows `f32[..., 2F + A + 2]`."""
        middle = observation_size + action_size
        parts = jnp.split(rows, (observation_size, middle, middle + 2), axis=-1)
        observation, action, single, next_observation = parts
        return cls(observation, action, single[..., 0], single[..., 1], next_observation)


class ReplayBuffer(struct.PyTreeNode):
    """Rings of C rows, one for each of `E` environments, ring after ring: `f32[E * C, W]`.

    `position`, `i32[E]`, is where the next row of a ring goes; its first `size` rows, `i32[E]`, are filled.
    """

    rows: jax.Array
    position: jax.Array
    size: jax.Array

    @classmethod
    def create(cls, num_envs: int, capacity: int, width: int) -> ReplayBuffer:
        """An empty one, with room for `capacity` rows of `width` numbers for each environment."""
        zeros = jnp.zeros(num_envs, jnp.int32)
        return cls(jnp.zeros((num_envs * capacity, width), jnp.float32), zeros, jnp.copy(zeros))

    @property
    def capacity(self) -> int:
        """Rows of a ring."""
        return self.rows.shape[0] // self.position.shape[0]

    def add(self, rows: jax.Array, keep: jax.Array) -> ReplayBuffer:
        """The buffer with the rows `f32[E, M, W]`, M at most C, that `keep`, `bool[E, M]`, names; the oldest go."""
        num_envs, capacity, width = self.position.shape[0], self.capacity, self.rows.shape[1]
        chex.assert_shape(rows, (num_envs, None, width))
        chex.assert_shape(keep, rows.shape[:2])
        assert rows.shape[1] <= capacity, "a row would be written twice"
        slot = (self.position[:, None] + jnp.cumsum(keep, axis=1, dtype=jnp.int32) - 1) % capacity
        place = jnp.arange(num_envs, dtype=jnp.int32)[:, None] * capacity + slot
        # Rows that are not kept get different places beyond the end, which are dropped.
        beyond = self.rows.shape[0] + jnp.arange(keep.size, dtype=jnp.int32).reshape(keep.shape)
        place = jnp.where(keep, place, beyond).ravel()
        count = keep.sum(axis=1, dtype=jnp.int32)
        return ReplayBuffer(
            rows=self.rows.at[place].set(rows.reshape(-1, width), mode="drop", unique_indices=True),
            position=(self.position + count) % capacity,
            size=jnp.minimum(self.size + count, capacity),
        )

    def sample(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Places of rows, `i32[*shape]`, for `take`: uniform over all filled rows, with replacement."""
        ends = jnp.cumsum(self.size, dtype=jnp.int32)
        chosen = jax.random.randint(key, shape, 0, jnp.maximum(ends[-1], 1), jnp.int32)
        lane = jnp.minimum(jnp.searchsorted(ends, chosen, side="right").astype(jnp.int32), ends.shape[0] - 1)
        return lane * self.capacity + chosen - (ends - self.size)[lane]

    def take(self, places: jax.Array) -> jax.Array:
        """Rows `f32[..., W]` at `places`, `i32[...]`."""
        return self.rows[places]

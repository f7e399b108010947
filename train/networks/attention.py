"""A network for observations that are sets: attention over the entities, and a pointer or a pooled head.

Nothing in it depends on how many entities there are, and permuting them permutes the pointer's logits, so one set of
parameters serves instances of any size. After Kool et al. (2019), but encoded anew at every step, since what is known
of an entity changes as the vehicle moves; and where entities have places, their distances are features of them and
biases of the attention: without that, dial-a-ride took three times as many steps to learn.

Shapes: `R` rows of the batch (steps, environments and agents, merged), `M` entities of `K` numbers, a context of `C`,
width `H`.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp import Entities
from jaxvrp.actor import Carry
from train.networks.layers import NetworkSpec, layer_norm

FAR = 4.0
"""Distance to the nearest of no others, in units of the coordinates: beyond any real one."""

NEAR = 1e-6
"""Below this a distance counts as none, in the same units."""

SOFTNESS = 8.0
"""Inverse temperature of the soft minimum of distances, per unit of them."""

LOGIT_RANGE = 10.0
"""Logits lie within this, so that exploration never dies out (Bello et al. 2017)."""


def _dense(size: int, gain: float = 2.0**0.5, *, use_bias: bool = True) -> nn.Dense:
    return nn.Dense(size, use_bias=use_bias, kernel_init=nn.initializers.orthogonal(gain))


def _slopes(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Initial weights of the distance, one per head: the first looks everywhere, the last at what is near."""
    del key
    (num_heads,) = shape
    return jnp.linspace(0.0, 10.0, num_heads, dtype=dtype)


def next_places(rows: jax.Array, places: tuple[tuple[int, int, int], ...]) -> jax.Array:
    """Where each entity is to be visited next, `f32[R, M, 2]`: the first of its places that is present, else the last.

    Args:
        rows: `f32[R, M, K]`.
        places: as in `Entities`.
    """
    *earlier, (_, x, y) = places
    next_place = rows[..., x : y + 1]
    for column, x, y in reversed(earlier):
        next_place = jnp.where(rows[..., column : column + 1] > 0, rows[..., x : y + 1], next_place)
    return next_place


def distances(
    rows: jax.Array, present: jax.Array, places: tuple[tuple[int, int, int], ...]
) -> tuple[jax.Array, jax.Array]:
    """Distances between entities, and what they come to for each of them.

    Args:
        rows: `f32[R, M, K]`.
        present: `bool[R, M]`.
        places: as in `Entities`.

    Returns:
        Distances between their next places, `f32[R, M, M]`; and five features of each entity, `f32[R, M, 5]`, 0 if it
        is not there: distance from its next place to the nearest of the others, to the others by a soft minimum, from
        its last place to the nearest of the others, from its next place to the depot, and to its last place.
    """
    next_place, (_, x, y) = next_places(rows, places), places[-1]
    last_place = rows[..., x : y + 1]
    distance = _length(next_place[:, :, None] - next_place[:, None])
    is_other = present[:, None] & ~jnp.eye(rows.shape[1], dtype=bool)
    nearness = nn.softmax(jnp.where(is_other, -SOFTNESS * distance, -1e9), axis=-1)
    features = [
        jnp.where(is_other, distance, FAR).min(axis=-1),
        jnp.where(is_other, nearness * distance, 0.0).sum(axis=-1),
        jnp.where(is_other, _length(last_place[:, :, None] - next_place[:, None]), FAR).min(axis=-1),
        _length(next_place),
        _length(next_place - last_place),
    ]
    return distance, jnp.stack(features, axis=-1) * present[..., None]


def canonical_frame(
    context: jax.Array, rows: jax.Array, present: jax.Array, entities: Entities
) -> tuple[jax.Array, jax.Array]:
    """The same observation on a map that is moved, turned and mirrored to one position.

    The agent is at the origin and the depot on the positive x-axis (at the depot: the centre of the next places is),
    and most of these are on the side of positive y, the far ones counting more. So turning an instance, or looking at
    it in a mirror, changes nothing, and one instance teaches what to do on all of these.

    Args:
        context: `f32[R, C]`.
        rows: `f32[R, M, K]`.
        present: `bool[R, M]`.
        entities: its `places`, `coordinates` and `position` say which columns these are.

    Returns:
        Context and rows with other coordinates; in the context, those of the depot as the agent sees it.
    """
    assert entities.position is not None
    x, y = entities.position
    agent = context[:, x : y + 1]
    next_offset = jnp.where(present[..., None], next_places(rows, entities.places) - agent[:, None], 0.0)
    ahead = jnp.where(_length(agent)[:, None] > NEAR, -agent, next_offset.sum(axis=1))
    ahead /= jnp.maximum(_length(ahead)[:, None], NEAR)
    left = jnp.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    side = (next_offset * _length(next_offset)[..., None]).sum(axis=1)
    left *= jnp.where((left * side).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    axes = jnp.stack([ahead, left], axis=-1)

    def turn(place: jax.Array) -> jax.Array:
        # Written out: a product of a matrix for each row is slow on a CPU.
        offset = place - agent[:, None]
        return offset[..., :1] * axes[:, None, 0] + offset[..., 1:] * axes[:, None, 1]

    for column, x, y in (*entities.places, *entities.coordinates):
        is_present = rows[..., column : column + 1]
        rows = rows.at[..., x : y + 1].set(turn(rows[..., x : y + 1]) * is_present)
    x, y = entities.position
    depot = turn(jnp.zeros_like(agent)[:, None])[:, 0]
    return context.at[:, x : y + 1].set(depot), rows


def _length(vector: jax.Array) -> jax.Array:
    """Euclidean length over the last axis, `f32[...]`."""
    return jnp.sqrt((vector**2).sum(axis=-1))


class AttentionLayer(nn.Module):
    """Multi-head self-attention and a dense layer, both residual, normalised before (Xiong et al. 2020)."""

    size: int
    num_heads: int

    @nn.compact
    def __call__(self, x: jax.Array, present: jax.Array, distance: jax.Array | None) -> jax.Array:
        """Embeddings of the entities, `f32[R, M, H]`, after the layer.

        Args:
            x: embeddings before it, `f32[R, M, H]`.
            present: `bool[R, M]`; who is not there is not attended to.
            distance: `f32[R, M, M]` between entities, which each head minds as much as it learns to; None for none.
        """
        rows, entities, size = x.shape
        flat = x.reshape(-1, size)
        shape = (rows, entities, 3, self.num_heads, size // self.num_heads)
        projected = _dense(3 * size, 1.0, use_bias=False)(layer_norm(flat)).reshape(shape)
        query, key, value = jnp.moveaxis(projected, 2, 0)
        score = jnp.einsum("rmhe,rnhe->rhmn", query, key) / jnp.sqrt(jnp.float32(shape[-1]))
        if distance is not None:
            slope = self.param("slope", _slopes, (self.num_heads,))
            score -= slope[:, None, None] * distance[:, None]
        weight = nn.softmax(jnp.where(present[:, None, None], score, -1e9), axis=-1)
        mixed = jnp.einsum("rhmn,rnhe->rmhe", weight, value).reshape(-1, size)
        flat += _dense(size, 1.0, use_bias=False)(mixed)
        flat += nn.relu(_dense(size)(layer_norm(flat)))
        return flat.reshape(x.shape)


class Attention(nn.Module):
    """Context and entities in; logits that point (`pointer`), or `head_size` numbers, out; no memory.

    Attributes:
        entities: how the observation is to be read, and what the logits belong to.
        head_size: numbers of a row; with `pointer`, those of `entities.num_actions`.
        head_gain: scale of the last layer.
        pointer: whether the outputs are logits of the context's and the entities' actions.
        size: width.
        num_heads, num_layers: of the self-attention; with no layer, entities are only pooled.
    """

    entities: Entities
    head_size: int
    head_gain: float
    pointer: bool
    size: int = 64
    num_heads: int = 4
    num_layers: int = 1

    @nn.compact
    def __call__(self, inputs: jax.Array, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """Outputs `f32[L, B, A, head_size]` of observations `f32[L, B, A, F]`; see `train.networks`."""
        del reset
        context, rows = self._split(inputs.reshape(-1, inputs.shape[-1]))
        present = rows[..., self.entities.present] > 0
        distance = None
        if self.entities.places:
            distance, features = distances(rows, present, self.entities.places)
            if self.entities.position:
                context, rows = canonical_frame(context, rows, present, self.entities)
            rows = jnp.concatenate([rows, features], axis=-1)
        situation = _dense(self.size)(context)
        x = _dense(self.size)(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:2], self.size)
        x = nn.relu(x + situation[:, None])
        for _ in range(self.num_layers):
            x = AttentionLayer(self.size, self.num_heads)(x, present, distance)
        x = layer_norm(x.reshape(-1, self.size)).reshape(x.shape)
        query = nn.relu(_dense(self.size)(jnp.concatenate([situation, self._glimpse(x, present)], axis=1)))
        out = self._point(query, x) if self.pointer else _dense(self.head_size, self.head_gain)(query)
        return out.reshape(*inputs.shape[:-1], -1), carry

    def initial_carry(self, num_envs: int, num_agents: int) -> Carry:
        """No memory: `()`."""
        del num_envs, num_agents
        return ()

    def _split(self, flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Context `f32[R, C]` and rows `f32[R, M, K]` of flat observations `f32[R, F]`."""
        start = self.entities.context_size
        return flat[:, :start], flat[:, start:].reshape(-1, self.entities.num_entities, self.entities.entity_size)

    def _glimpse(self, x: jax.Array, present: jax.Array) -> jax.Array:
        """The entities pooled, `f32[R, H]`: each head has a score for every entity, and takes its weighted mean."""
        heads, flat = self.num_heads, x.reshape(-1, self.size)
        score = _dense(heads, 1.0, use_bias=False)(flat).reshape(*x.shape[:2], heads)
        weight = nn.softmax(jnp.where(present[..., None], score, -1e9), axis=1)
        value = _dense(self.size, 1.0, use_bias=False)(flat).reshape(*x.shape[:2], heads, -1)
        return (weight[..., None] * value).sum(axis=1).reshape(-1, self.size)

    def _point(self, query: jax.Array, x: jax.Array) -> jax.Array:
        """Logits of the context's and the entities' actions, `f32[R, num_actions]`.

        Args:
            query: what the agent looks for, `f32[R, H]`.
            x: embeddings of the entities, `f32[R, M, H]`.
        """
        key = _dense(self.size)(x.reshape(-1, self.size)).reshape(x.shape)
        match = nn.relu(key + query[:, None]).reshape(-1, self.size)
        logits = _dense(self.entities.entity_actions, self.head_gain)(match).reshape(x.shape[0], -1)
        if self.entities.context_actions:
            context_logits = _dense(self.entities.context_actions, self.head_gain)(query)
            logits = jnp.concatenate([context_logits, logits], axis=1)
        return LOGIT_RANGE * nn.tanh(logits / LOGIT_RANGE)


def build(config: Any, spec: NetworkSpec) -> Attention:
    """As a `PPOConfig` wants it: actors point at what they choose; `spec.entities` is needed.

    Raises:
        ValueError: the heads do not divide the width.
    """
    assert spec.entities is not None
    if config.attention_size % config.attention_heads:
        raise ValueError(
            f"attention_size is {config.attention_size}, "
            f"which attention_heads ({config.attention_heads}) does not divide"
        )
    return Attention(
        entities=spec.entities,
        head_size=spec.head_size,
        head_gain=spec.head_gain,
        pointer=spec.is_actor,
        size=config.attention_size,
        num_heads=config.attention_heads,
        num_layers=config.attention_layers if spec.is_actor else config.critic_attention_layers,
    )

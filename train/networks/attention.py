"""A network that reads entities: attention over them, and a pointer or a pooled head.

Nothing in it depends on how many entities there are, and permuting them permutes the pointer's logits, so one set of
parameters serves instances of any size. After Kool et al. (2019), but encoded anew at every step, since what is known
of an entity changes as the vehicle moves; and where entities have places, their distances are features of them and
biases of the attention: without that, dial-a-ride took three times as many steps to learn.

Shapes: `R` rows of the batch (steps, environments and agents, merged), `M` entities of all kinds, `K` numbers of an
entity, width `H`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp import EntityKind, Pointer
from jaxvrp.actor import Carry
from train.networks.inputs import EntityInput
from train.networks.layers import NetworkSpec, layer_norm

FAR = 4.0
"""Distance to the nearest of no others, in units of the coordinates: beyond any real one."""

NEAR = 1e-6
"""Below this a distance counts as none, in the same units."""

SOFTNESS = 8.0
"""Inverse temperature of the soft minimum of distances, per unit of them."""

LOGIT_RANGE = 10.0
"""Logits lie within this, so that exploration never dies out (Bello et al. 2017)."""


def _dense(size: int, gain: float = 2.0**0.5, *, use_bias: bool = True, name: str | None = None) -> nn.Dense:
    return nn.Dense(size, use_bias=use_bias, kernel_init=nn.initializers.orthogonal(gain), name=name)


def _slopes(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Initial weights of the distance, one per head: the first looks everywhere, the last at what is near."""
    del key
    (num_heads,) = shape
    return jnp.linspace(0.0, 10.0, num_heads, dtype=dtype)


class Sites(NamedTuple):
    """Where entities are, `f32[R, M, 2]` each: the next place to be visited, and the last."""

    next: jax.Array
    last: jax.Array


def sites(rows: jax.Array, kind: EntityKind) -> Sites:
    """Where each entity is to be visited next (the first of its places that is present, else the last) and at last.

    Args:
        rows: `f32[R, M, K]`, of this kind.
        kind: has places.
    """
    *earlier, last = (tuple(kind.index(name) for name in place) for place in kind.places)
    last_place = _pair(rows, last[1:])
    next_place = last_place
    for present, *coordinates in reversed(earlier):
        next_place = jnp.where(rows[..., present, None] > 0, _pair(rows, coordinates), next_place)
    return Sites(next_place, last_place)


def _pair(rows: jax.Array, columns: Sequence[int]) -> jax.Array:
    """Two columns, `f32[..., 2]`."""
    x, y = columns
    return jnp.stack([rows[..., x], rows[..., y]], axis=-1)


def distances(where: Sites, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Distances between entities, and what they come to for each of them.

    Args:
        where: of all entities.
        present: `bool[R, M]`.

    Returns:
        Distances between their next places, `f32[R, M, M]`; and five features of each entity, `f32[R, M, 5]`, 0 if it
        is not there: distance from its next place to the nearest of the others, to the others by a soft minimum, from
        its last place to the nearest of the others, from its next place to the depot, and to its last place.
    """
    distance = _length(where.next[:, :, None] - where.next[:, None])
    is_other = present[:, None] & ~jnp.eye(present.shape[1], dtype=bool)
    nearness = nn.softmax(jnp.where(is_other, -SOFTNESS * distance, -1e9), axis=-1)
    features = [
        jnp.where(is_other, distance, FAR).min(axis=-1),
        jnp.where(is_other, nearness * distance, 0.0).sum(axis=-1),
        jnp.where(is_other, _length(where.last[:, :, None] - where.next[:, None]), FAR).min(axis=-1),
        _length(where.next),
        _length(where.next - where.last),
    ]
    return distance, jnp.stack(features, axis=-1) * present[..., None]


class Frame(NamedTuple):
    """A map that is moved, turned and mirrored: `origin` `f32[R, 2]`; `axes` `f32[R, 2, 2]`, where x and y go."""

    origin: jax.Array
    axes: jax.Array

    def turn(self, place: jax.Array) -> jax.Array:
        """Places `f32[R, M, 2]` on this map."""
        # Written out: a product of a matrix for each row is slow on a CPU.
        offset = place - self.origin[:, None]
        return offset[..., :1] * self.axes[:, None, 0] + offset[..., 1:] * self.axes[:, None, 1]


def canonical_frame(agent: jax.Array, next_place: jax.Array, present: jax.Array) -> Frame:
    """The map in one position: turning an instance, or looking at it in a mirror, changes nothing on it.

    The agent is at the origin and the depot on the positive x-axis (at the depot: the centre of the next places is),
    and most of these are on the side of positive y, the far ones counting more. So one instance teaches what to do on
    all of these.

    Args:
        agent: `f32[R, 2]`, its place; the depot is at 0.
        next_place: `f32[R, M, 2]`, of the entities.
        present: `bool[R, M]`.
    """
    offset = jnp.where(present[..., None], next_place - agent[:, None], 0.0)
    ahead = jnp.where(_length(agent)[:, None] > NEAR, -agent, offset.sum(axis=1))
    ahead /= jnp.maximum(_length(ahead)[:, None], NEAR)
    left = jnp.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    side = (offset * _length(offset)[..., None]).sum(axis=1)
    left *= jnp.where((left * side).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return Frame(agent, jnp.stack([ahead, left], axis=-1))


def turned(rows: jax.Array, kind: EntityKind, frame: Frame) -> jax.Array:
    """Rows `f32[R, M, K]` of a kind with their places on another map; those that are not present at its origin."""
    for place in kind.places:
        present, x, y = (kind.index(name) for name in place)
        moved = frame.turn(_pair(rows, (x, y))) * (rows[..., present, None] > 0)
        rows = rows.at[..., x].set(moved[..., 0]).at[..., y].set(moved[..., 1])
    return rows


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
    """Context and entities in; logits that point (`pointers`), or `head_size` numbers, out; no memory.

    Attributes:
        kinds: the entities.
        head_size: numbers of a row; with `pointers`, as many as they name.
        head_gain: scale of the last layer.
        pointers: what the logits belong to; () for an output that does not point.
        places: see `NetworkSpec`.
        size: width.
        num_heads, num_layers: of the self-attention; with no layer, entities are only pooled.
    """

    kinds: tuple[EntityKind, ...]
    head_size: int
    head_gain: float
    pointers: tuple[Pointer, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    size: int = 64
    num_heads: int = 4
    num_layers: int = 1

    @nn.compact
    def __call__(self, inputs: EntityInput, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """Outputs `f32[L, B, A, head_size]`; see `train.networks`."""
        del reset
        context = inputs.context.reshape(-1, inputs.context.shape[-1])
        rows = {kind.name: _rows(inputs, kind) for kind in self.kinds}
        present = jnp.concatenate([rows[kind.name][..., kind.present] > 0 for kind in self.kinds], axis=1)
        distance, features = None, None
        if all(kind.places for kind in self.kinds):
            where = jax.tree.map(
                lambda *parts: jnp.concatenate(parts, axis=1), *(sites(rows[kind.name], kind) for kind in self.kinds)
            )
            distance, features = distances(where, present)
            if self.places:
                agent = _pair(context, self.places[0])
                frame = canonical_frame(agent, where.next, present)
                rows = {kind.name: turned(rows[kind.name], kind, frame) for kind in self.kinds}
                context = self._turned_context(context, frame)
                away = _length(where.next - agent[:, None]) * present
                features = jnp.concatenate([features, away[..., None]], axis=-1)
        situation = _dense(self.size)(context)
        x = self._embedded(rows, features)
        x = nn.relu(x + situation[:, None])
        for _ in range(self.num_layers):
            x = AttentionLayer(self.size, self.num_heads)(x, present, distance)
        x = layer_norm(x.reshape(-1, self.size)).reshape(x.shape)
        query = nn.relu(_dense(self.size)(jnp.concatenate([situation, self._glimpse(x, present)], axis=1)))
        counts = [rows[kind.name].shape[1] for kind in self.kinds]
        out = self._point(query, x, counts) if self.pointers else _dense(self.head_size, self.head_gain)(query)
        return out.reshape(*inputs.context.shape[:-1], -1), carry

    def initial_carry(self, num_envs: int, num_agents: int) -> Carry:
        """No memory: `()`."""
        del num_envs, num_agents
        return ()

    def _turned_context(self, context: jax.Array, frame: Frame) -> jax.Array:
        """The context `f32[R, C]` on another map; the agent is at its origin, so the depot stands in its place."""
        depot = jnp.zeros_like(frame.origin)
        others = [_pair(context, place) for place in self.places[1:]]
        moved = frame.turn(jnp.stack([depot, *others], axis=1))
        for row, (x, y) in enumerate(self.places):
            context = context.at[:, x].set(moved[:, row, 0]).at[:, y].set(moved[:, row, 1])
        return context

    def _embedded(self, rows: dict[str, jax.Array], features: jax.Array | None) -> jax.Array:
        """Entities of all kinds, one after the other, `f32[R, M, H]`.

        Args:
            rows: `f32[R, M of the kind, K]`.
            features: more numbers of each entity, `f32[R, M, ...]`.
        """
        embedded, start = [], 0
        for kind in self.kinds:
            numbers = rows[kind.name]
            count = numbers.shape[1]
            if features is not None:
                numbers = jnp.concatenate([numbers, features[:, start : start + count]], axis=-1)
            start += count
            dense = _dense(self.size, name=f"embedding_{kind.name}")
            embedded.append(dense(numbers.reshape(-1, numbers.shape[-1])).reshape(*numbers.shape[:2], self.size))
        return jnp.concatenate(embedded, axis=1)

    def _glimpse(self, x: jax.Array, present: jax.Array) -> jax.Array:
        """The entities pooled, `f32[R, H]`: each head has a score for every entity, and takes its weighted mean."""
        heads, flat = self.num_heads, x.reshape(-1, self.size)
        score = _dense(heads, 1.0, use_bias=False)(flat).reshape(*x.shape[:2], heads)
        weight = nn.softmax(jnp.where(present[..., None], score, -1e9), axis=1)
        value = _dense(self.size, 1.0, use_bias=False)(flat).reshape(*x.shape[:2], heads, -1)
        return (weight[..., None] * value).sum(axis=1).reshape(-1, self.size)

    def _point(self, query: jax.Array, x: jax.Array, counts: list[int]) -> jax.Array:
        """Logits of the actions, in the order of the pointers, `f32[R, head_size]`.

        Args:
            query: what the agent looks for, `f32[R, H]`.
            x: embeddings of the entities, `f32[R, M, H]`.
            counts: how many of them are of each kind.
        """
        key = _dense(self.size)(x.reshape(-1, self.size)).reshape(x.shape)
        match = jnp.split(nn.relu(key + query[:, None]), list(itertools.accumulate(counts))[:-1], axis=1)
        matches = dict(zip([kind.name for kind in self.kinds], match, strict=True))
        logits = []
        for kind_name, per_entity in self.pointers:
            chosen = query[:, None] if kind_name is None else matches[kind_name]
            dense = _dense(per_entity, self.head_gain)
            logits.append(dense(chosen.reshape(-1, self.size)).reshape(len(query), -1))
        return LOGIT_RANGE * nn.tanh(jnp.concatenate(logits, axis=1) / LOGIT_RANGE)


def _rows(inputs: EntityInput, kind: EntityKind) -> jax.Array:
    """The numbers of the entities of a kind as each agent sees them, `f32[R, M, K]`."""
    planes = jnp.concatenate([inputs.static[kind.name], inputs.dynamic[kind.name]], axis=-2)
    rows = jnp.moveaxis(planes, -2, -1)[:, :, None]
    *_, agents, _ = inputs.context.shape
    rows = jnp.broadcast_to(rows, (*rows.shape[:2], agents, *rows.shape[3:]))
    return rows.reshape(-1, *rows.shape[3:])


def build(config: Any, spec: NetworkSpec) -> Attention:
    """As a `PPOConfig` wants it: actors point at what they choose.

    Raises:
        ValueError: the heads do not divide the width, or it is not said what the actions point at.
    """
    if config.attention_size % config.attention_heads:
        raise ValueError(
            f"attention_size is {config.attention_size}, "
            f"which attention_heads ({config.attention_heads}) does not divide"
        )
    if spec.is_actor and not spec.pointers:
        raise ValueError("network is 'attention', but the environment's Role does not say what its actions point at")
    return Attention(
        kinds=spec.kinds,
        head_size=spec.head_size,
        head_gain=spec.head_gain,
        pointers=spec.pointers if spec.is_actor else (),
        places=spec.places,
        size=config.attention_size,
        num_heads=config.attention_heads,
        num_layers=config.attention_layers if spec.is_actor else config.critic_attention_layers,
    )

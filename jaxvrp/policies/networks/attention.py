"""Networks that read entities: an encoder, attention over them, and a decoder that points at them or pools them.

Nothing in them depends on how many entities there are, and permuting them permutes the pointer's logits, so one set of
parameters serves instances of any size. After Kool et al. (2019); where entities have places, their distances are
features of them and biases of the attention: without that, dial-a-ride took three times as many steps to learn.

What is encoded, and how often, is the key `encode`:

- `agent`: all that an agent sees, anew at each of its decisions, on a map that is turned to it (`Attention`).
- `step`: all that the team sees, once a step; the actors of all roles share the encoder, and each of their decoders
  adds what its agents alone see (`TeamEncoder`, `Decoder`).
- `instance`: what never changes in an episode, once; the decoders add what does. As cheap as it gets.

Shapes: `R` rows of the batch (steps and environments, for `agent` also agents, merged), `A` agents that share a row,
`M` entities of all kinds, `K` numbers of an entity, width `H`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.policies.networks.dense import Dense, Near, embedded, matched, pointed
from jaxvrp.policies.networks.inputs import EntityInput
from jaxvrp.policies.networks.layers import Memoryless, NetworkSpec, contract, layer_norm, softmax
from jaxvrp.policies.networks.places import Sites, canonical_frame, distances, length, pair, sites, turned
from jaxvrp.spaces import ByKind, EntityKind, Pointer

LOGIT_RANGE = 10.0
"""Logits lie within this, so that exploration never dies out (Bello et al. 2017)."""


def _slopes(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Initial weights of the distance, one per head: the first looks everywhere, the last at what is near."""
    del key
    (num_heads,) = shape
    return jnp.linspace(0.0, 10.0, num_heads, dtype=dtype)


class Table(NamedTuple):
    """The entities of all kinds: `{kind: f32[R, M of the kind, K]}`, and which are `present`, `bool[R, M]`.

    `where` is likewise; None unless all kinds have places.
    """

    rows: dict[str, jax.Array]
    present: jax.Array
    where: Sites | None


def table(static: ByKind, entities: ByKind, kinds: tuple[EntityKind, ...]) -> Table:
    """The entities that are seen, from planes `{kind: f32[R, features, M]}`."""
    rows = {
        kind.name: jnp.moveaxis(jnp.concatenate([static[kind.name], entities[kind.name]], axis=1), 1, 2)
        for kind in kinds
    }
    present = jnp.concatenate([rows[kind.name][..., kind.present] > 0 for kind in kinds], axis=1)
    where = None
    if all(kind.places for kind in kinds):
        where = joined_sites([sites(rows[kind.name], kind) for kind in kinds])
    return Table(rows, present, where)


def constants(static: ByKind, kinds: tuple[EntityKind, ...]) -> Table:
    """What never changes of the entities, as a table; those of which nothing is constant are void.

    A row of zeros is void as well. Entities are where they are to be visited first; there are no distances unless all
    of a kind with constants have constant places.
    """
    rows, present, parts = {}, [], []
    for kind in kinds:
        numbers = jnp.moveaxis(static[kind.name], 1, 2)
        rows[kind.name] = numbers
        there = (numbers != 0).any(axis=-1)
        present.append(there)
        names = [feature.name for feature in kind.static]
        columns = [[names.index(x), names.index(y)] for _, x, y in kind.places if x in names and y in names]
        if columns:
            parts.append(Sites(pair(numbers, columns[0]), pair(numbers, columns[-1])))
        elif not names:
            nowhere = jnp.zeros((*there.shape, 2), jnp.float32)
            parts.append(Sites(nowhere, nowhere))
    where = joined_sites(parts) if len(parts) == len(kinds) else None
    return Table(rows, jnp.concatenate(present, axis=1), where)


def joined_sites(parts: list[Sites]) -> Sites:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *parts)


def _table_of(inputs: EntityInput, kinds: tuple[EntityKind, ...], agents: int = 1) -> Table:
    """The entities of steps and environments, merged; each row `agents` times."""

    def merged(planes: jax.Array) -> jax.Array:
        planes = jnp.broadcast_to(planes[:, :, None], (*planes.shape[:2], agents, *planes.shape[2:]))
        return planes.reshape(math.prod(planes.shape[:3]), *planes.shape[3:])

    static, entities = jax.tree.map(merged, (inputs.static, inputs.entities))
    return table(static, entities, kinds)


def nearest(seen: Table, to: jax.Array, kinds: tuple[EntityKind, ...]) -> tuple[Table, ByKind]:
    """The entities of each kind that are nearest to any of the places `f32[R, P, 2]`, as many as `kinds` count.

    By where they are to be visited next; void ones come last.

    Returns:
        Them, and which they are of their kind, `{kind: i32[R, count]}`.
    """
    assert seen.where is not None
    away = length(seen.where.next[:, :, None] - to[:, None]).min(axis=-1)
    nearness = jnp.where(seen.present, -away, -jnp.inf)
    rows, chosen, indices, start = {}, {}, [], 0
    for kind in kinds:
        numbers = seen.rows[kind.name]
        end = start + numbers.shape[1]
        _, index = jax.lax.top_k(nearness[:, start:end], kind.count)
        rows[kind.name] = jnp.take_along_axis(numbers, index[..., None], axis=1)
        chosen[kind.name] = index
        indices.append(start + index)
        start = end
    index = jnp.concatenate(indices, axis=1)
    where = Sites(*(jnp.take_along_axis(place, index[..., None], axis=1) for place in seen.where))
    return Table(rows, jnp.take_along_axis(seen.present, index, axis=1), where), chosen


def spread(
    logits: jax.Array, chosen: ByKind, pointers: tuple[Pointer, ...], kinds: tuple[EntityKind, ...]
) -> jax.Array:
    """Logits `f32[R, A, actions]` of all entities of `kinds`, from those of the `chosen`; see `nearest`.

    The others have the least that there is, so that they are legal, but come last.
    """
    counts = {kind.name: kind.count for kind in kinds}
    parts, start = [], 0
    for kind_name, per_entity in pointers:
        few = 1 if kind_name is None else chosen[kind_name].shape[1]
        part = logits[..., start : start + few * per_entity]
        start += few * per_entity
        if kind_name is not None:
            # `len` is for programs of one size: an export plays any number of episodes.
            rows = jnp.arange(part.shape[0])[:, None]
            by_entity = jnp.moveaxis(part.reshape(*part.shape[:2], few, per_entity), 1, 2)
            whole = jnp.full((part.shape[0], counts[kind_name], *by_entity.shape[2:]), -LOGIT_RANGE)
            whole = whole.at[rows, chosen[kind_name]].set(by_entity, unique_indices=True)
            part = jnp.moveaxis(whole, 2, 1).reshape(*part.shape[:2], -1)
        parts.append(part)
    return jnp.concatenate(parts, axis=-1)


class AttentionLayer(nn.Module):
    """Multi-head self-attention and a dense layer, both residual, normalised before (Xiong et al. 2020)."""

    size: int
    num_heads: int

    @nn.compact
    def __call__(self, x: jax.Array, present: jax.Array, distance: jax.Array | None) -> jax.Array:
        """Embeddings of the entities, `f32[R, M, H]`, after the layer, from those before it.

        Entities that are not `present`, `bool[R, M]`, are not attended to. Each head minds the `distance` between
        entities, `f32[R, M, M]`, as much as it learns to; None for none.
        """
        rows, entities, size = x.shape
        flat = x.reshape(-1, size)
        shape = (rows, entities, self.num_heads, size // self.num_heads)
        projected = Dense(3 * size, 1.0, use_bias=False)(layer_norm(flat))
        query, key, value = (part.reshape(shape) for part in jnp.split(projected, 3, axis=-1))
        score = contract("rmhe,rnhe->rhmn", query, key) / jnp.sqrt(jnp.float32(shape[-1]))
        if distance is not None:
            slope = self.param("slope", _slopes, (self.num_heads,))
            score -= slope[:, None, None] * distance[:, None]
        weight = softmax(jnp.where(present[:, None, None], score, -1e9))
        mixed = contract("rhmn,rnhe->rmhe", weight, value).reshape(-1, size)
        flat += Dense(size, 1.0, use_bias=False)(mixed)
        flat += nn.relu(Dense(size)(layer_norm(flat)))
        return flat.reshape(x.shape)


class Encoder(nn.Module):
    """Embeddings of entities that know of each other; with no self-attention layer they do not."""

    kinds: tuple[EntityKind, ...]
    size: int
    num_heads: int
    num_layers: int

    @nn.compact
    def __call__(self, seen: Table, more: jax.Array | None = None, situation: jax.Array | None = None) -> jax.Array:
        """`f32[R, M, H]`; `more` are further numbers, `f32[R, M, ...]`; `situation`, `f32[R, H]`, is added to all."""
        distance, features = None, more
        if seen.where is not None:
            distance, features = distances(seen.where, seen.present)
            features = features if more is None else jnp.concatenate([features, more], axis=-1)
        x = self._embedded(seen.rows, features)
        x = nn.relu(x if situation is None else x + situation[:, None])
        for _ in range(self.num_layers):
            x = AttentionLayer(self.size, self.num_heads)(x, seen.present, distance)
        return layer_norm(x.reshape(-1, self.size)).reshape(x.shape)

    def _embedded(self, rows: dict[str, jax.Array], features: jax.Array | None) -> jax.Array:
        """Entities of all kinds, one after the other, `f32[R, M, H]`."""
        numbers, weights, start = [], [], 0
        for kind in self.kinds:
            of_kind = rows[kind.name]
            count = of_kind.shape[1]
            if features is not None:
                of_kind = jnp.concatenate([of_kind, features[:, start : start + count]], axis=-1)
            start += count
            numbers.append(of_kind)
            weights.append(Dense(self.size, name=f"embedding_{kind.name}").weights(of_kind.shape[-1]))
        return embedded(numbers, weights)


def pairs(agent_places: jax.Array, where: Sites, present: jax.Array) -> jax.Array:
    """What lies between agents and entities, `f32[R, A, M, 2 + P]`; 0 if the entity is not there.

    Offset from the agent to where the entity is to be visited next, and the distances to there from all places of its
    context, `f32[R, A, P, 2]`, of which the first is where the agent is.
    """
    offset = where.next[:, None, :, None] - agent_places[:, :, None]
    numbers = jnp.concatenate([offset[..., 0, :], length(offset)], axis=-1)
    return numbers * present[:, None, :, None]


class Decoder(nn.Module):
    """From embeddings of entities and what agents alone see to logits that point at them, or to `head_size` numbers.

    `pointers` say what the logits belong to; () for an output that does not point.
    """

    kinds: tuple[EntityKind, ...]
    head_size: int
    head_gain: float
    pointers: tuple[Pointer, ...]
    size: int
    num_heads: int

    @nn.compact
    def __call__(self, x: jax.Array, situation: jax.Array, present: jax.Array, between: jax.Array | None) -> jax.Array:
        """Outputs `f32[R, A, head_size]` from embeddings `f32[R, M, H]` and what agents alone see, `f32[R, A, H]`.

        `present` is `bool[R, M]`; for `between` see `pairs`, None for nothing.
        """
        glimpse = self._glimpse(x, situation, present, between)
        query = nn.relu(Dense(self.size)(jnp.concatenate([situation, glimpse], axis=-1)))
        if not self.pointers:
            return Dense(self.head_size, self.head_gain)(query)
        return self._point(query, x, between)

    def _glimpse(self, x: jax.Array, situation: jax.Array, present: jax.Array, between: jax.Array | None) -> jax.Array:
        """The entities pooled, `f32[R, A, H]`: each head has a score for every entity, and takes its weighted mean."""
        heads = self.num_heads
        wanted = Dense(self.size, 1.0, use_bias=False)(situation).reshape(*situation.shape[:2], heads, -1)
        offered = jnp.split(Dense(2 * self.size, 1.0, use_bias=False)(x), 2, axis=-1)
        key, value = (part.reshape(*x.shape[:2], heads, -1) for part in offered)
        score = contract("rahe,rmhe->rahm", wanted, key) / jnp.sqrt(jnp.float32(key.shape[-1]))
        if between is not None:
            score += jnp.moveaxis(Dense(heads, 1.0, use_bias=False)(between), 3, 2)
        weight = softmax(jnp.where(present[:, None, None], score, -1e9))
        return contract("rahm,rmhe->rahe", weight, value).reshape(*situation.shape[:2], self.size)

    def _point(self, query: jax.Array, x: jax.Array, between: jax.Array | None) -> jax.Array:
        """Logits of the actions, in the order of the pointers, `f32[R, A, head_size]`."""
        match = self._matches(query, x, between)
        chosen = [query[:, :, None] if kind_name is None else match[kind_name] for kind_name, _ in self.pointers]
        weights = [Dense(per_entity, self.head_gain).weights(self.size) for _, per_entity in self.pointers]
        return LOGIT_RANGE * nn.tanh(pointed(chosen, weights) / LOGIT_RANGE)

    def _matches(self, query: jax.Array, x: jax.Array, between: jax.Array | None) -> dict[str, jax.Array]:
        """How agents and entities go together, of the kinds that are pointed at, `{kind: f32[R, A, M of it, H]}`."""
        pointed_at = {kind_name for kind_name, _ in self.pointers}
        places, start = {}, 0
        for kind in self.kinds:
            if kind.name in pointed_at:
                places[kind.name] = slice(start, start + kind.count)
            start += kind.count
        if not places:
            return {}
        key = Dense(self.size, name="key").weights(self.size)
        near: Near = None
        if between is not None:
            (nearness,) = Dense(self.size, use_bias=False, name="nearness").weights(between.shape[-1])
            near = [between[:, :, place] for place in places.values()], nearness
        queries, entities = [query[:, :, None] for _ in places], [x[:, place] for place in places.values()]
        matches = matched(queries, entities, key, near)
        return {name: nn.relu(match) for name, match in zip(places, matches, strict=True)}


class Head(Memoryless):
    """A network that ends in a `Decoder`, with its fields and the `places` of `NetworkSpec`; no memory."""

    kinds: tuple[EntityKind, ...]
    head_size: int
    head_gain: float
    pointers: tuple[Pointer, ...]
    places: tuple[tuple[int, int], ...]
    size: int
    num_heads: int

    def decoded(self, kinds: tuple[EntityKind, ...], *inputs: Any) -> jax.Array:
        """What the decoder of entities of these kinds makes of its inputs."""
        head = (self.head_size, self.head_gain, self.pointers)
        out: jax.Array = Decoder(kinds, *head, self.size, self.num_heads, name="decoder")(*inputs)
        return out

    def places_in(self, context: jax.Array) -> jax.Array:
        """`f32[..., P, 2]`, of a context `f32[..., C]`."""
        return jnp.stack([pair(context, place) for place in self.places], axis=-2)


class Attention(Head):
    """Context and entities in; logits that point (`pointers`), or `head_size` numbers, out.

    All is encoded anew for every agent, on a map that is turned to it, or of each kind the `most` that are nearest to
    the places of the context.
    """

    num_layers: int
    most: int | None = None

    @nn.compact
    def __call__(self, inputs: EntityInput, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """Outputs `f32[L, B, A, head_size]`; see `jaxvrp.policies.networks`."""
        del reset
        context = inputs.context.reshape(-1, inputs.context.shape[-1])
        seen, more, kinds = _table_of(inputs, self.kinds, inputs.context.shape[2]), None, self.kinds
        chosen: ByKind = {}
        if self.most is not None:
            kinds = tuple(dataclasses.replace(kind, count=min(kind.count, self.most)) for kind in kinds)
            seen, chosen = nearest(seen, self.places_in(context), kinds)
        if seen.where is not None and self.places:
            seen, context, more = self._turned(seen, context, kinds)
        situation = Dense(self.size)(context)
        x = Encoder(kinds, self.size, self.num_heads, self.num_layers, name="encoder")(seen, more, situation)
        out = self.decoded(kinds, x, situation[:, None], seen.present, None)
        if chosen and self.pointers:
            out = spread(out, chosen, self.pointers, self.kinds)
        return out.reshape(*inputs.context.shape[:-1], -1), carry

    def _turned(
        self, seen: Table, context: jax.Array, kinds: tuple[EntityKind, ...]
    ) -> tuple[Table, jax.Array, jax.Array]:
        """Entities and context `f32[R, C]` on the agent's map, and what lies between, `f32[R, M, 2 + P]`.

        The agent is at its origin, so the depot stands in its place in the context.
        """
        assert seen.where is not None
        places = self.places_in(context)
        frame = canonical_frame(places[:, 0], seen.where.next, seen.present)
        moved = frame.turn(places)
        where = Sites(*(frame.turn(place) for place in seen.where))
        between = pairs(moved[:, None], where, seen.present)[:, 0]
        moved = moved.at[:, 0].set(frame.turn(jnp.zeros_like(places[:, :1]))[:, 0])
        for row, (x, y) in enumerate(self.places):
            context = context.at[:, x].set(moved[:, row, 0]).at[:, y].set(moved[:, row, 1])
        rows = {kind.name: turned(seen.rows[kind.name], kind, frame) for kind in kinds}
        # Distances are those of the map as it was: turning rounds.
        return Table(rows, seen.present, seen.where), context, between


class TeamEncoder(nn.Module):
    """Entities in, embeddings out: of what all agents see, or of what never changes (`once`); all decoders read it."""

    kinds: tuple[EntityKind, ...]
    once: bool
    size: int
    num_heads: int
    num_layers: int

    @nn.compact
    def __call__(self, static: ByKind, entities: ByKind) -> jax.Array:
        """`f32[..., M, H]`, from planes `f32[..., features, count]`; `entities` is not read if it encodes `once`."""
        encoder = Encoder(self.kinds, self.size, self.num_heads, self.num_layers, name="encoder")
        leading = next(iter(static.values())).shape[:-2]
        rows = math.prod(leading)
        static, entities = jax.tree.map(lambda planes: planes.reshape(rows, *planes.shape[-2:]), (static, entities))
        seen = constants(static, self.kinds) if self.once else table(static, entities, self.kinds)
        return encoder(seen).reshape(*leading, -1, self.size)


class Pointing(Head):
    """What a `TeamEncoder` made of the entities, and contexts in; logits that point out.

    If the encoder did not see what changes (`once`), it is added here.
    """

    once: bool

    @nn.compact
    def __call__(self, inputs: EntityInput, carry: Carry, reset: jax.Array) -> tuple[jax.Array, Carry]:
        """Outputs `f32[L, B, A, head_size]`; see `jaxvrp.policies.networks`."""
        del reset
        assert inputs.encoded is not None
        context = inputs.context.reshape(-1, *inputs.context.shape[2:])
        seen = _table_of(inputs, self.kinds)
        x = inputs.encoded.reshape(-1, *inputs.encoded.shape[2:])
        if self.once:
            changing = [Dense(self.size, name=f"update_{kind.name}")(seen.rows[kind.name]) for kind in self.kinds]
            x = nn.relu(x + jnp.concatenate(changing, axis=1))
        between = None
        if seen.where is not None and self.places:
            between = pairs(self.places_in(context), seen.where, seen.present)
        situation = nn.relu(Dense(self.size)(context))
        out = self.decoded(self.kinds, x, situation, seen.present, between)
        return out.reshape(*inputs.context.shape[:-1], -1), carry


def encodes_by_agent(config: Any, spec: NetworkSpec) -> bool:
    """Whether an actor's entities are encoded for each agent anew: by default where there is but one agent."""
    return config.attention_encode == "agent" or (config.attention_encode == "auto" and spec.num_agents == 1)


def build(config: Any, spec: NetworkSpec) -> nn.Module:
    """As `NetworkKeys` say: actors point at what they choose."""
    if config.attention_size % config.attention_heads:
        raise ValueError(
            f"attention_size is {config.attention_size}, "
            f"which attention_heads ({config.attention_heads}) does not divide"
        )
    if spec.is_actor and not spec.pointers:
        raise ValueError("network is 'attention', but the environment's Role does not say what its actions point at")
    head = {
        "kinds": spec.kinds,
        "head_size": spec.head_size,
        "head_gain": spec.head_gain,
        "pointers": spec.pointers if spec.is_actor else (),
        "places": spec.places,
        "size": config.attention_size,
        "num_heads": config.attention_heads,
    }
    by_agent = encodes_by_agent(config, spec)
    most = _most(config, spec, by_agent=by_agent) if spec.is_actor else None
    if spec.is_actor and not by_agent:
        return Pointing(**head, once=config.attention_encode == "instance")
    num_layers = config.attention_layers if spec.is_actor else 0  # a critic pools what it sees
    return Attention(**head, num_layers=num_layers, most=most)


def _most(config: Any, spec: NetworkSpec, *, by_agent: bool) -> int | None:
    """Entities of a kind that an actor encodes, those nearest to it; None for all."""
    if not config.attention_nearest:
        return None
    keys = f"attention_nearest is {config.attention_nearest}"
    if not by_agent:
        raise ValueError(f"{keys}, which needs attention_encode: agent (what is near differs by agent)")
    if not spec.places or not all(kind.places for kind in spec.kinds):
        raise ValueError(f"{keys}, but agents and entities of this environment have no places; leave it out")
    return int(config.attention_nearest)


def build_encoder(config: Any, spec: NetworkSpec) -> TeamEncoder | None:
    """The encoder that the actors of all roles share; None if each encodes for itself."""
    if encodes_by_agent(config, spec):
        return None
    once = config.attention_encode == "instance"
    return TeamEncoder(spec.kinds, once, config.attention_size, config.attention_heads, config.attention_layers)

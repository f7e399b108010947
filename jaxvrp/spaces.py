"""What agents may see and do: two spaces, entities that are seen by all, and roles.

Spaces are static descriptions (hashable, no arrays), so they can be read while tracing.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers `0 .. num_actions - 1`, as `int32`."""

    num_actions: int
    shape: ClassVar[tuple[int, ...]] = ()
    dtype: ClassVar[jnp.dtype] = jnp.dtype("int32")

    def contains(self, value: jax.Array) -> jax.Array:
        """Whether each entry of `value` is an element: `bool`, of the shape of `value`."""
        return (value >= 0) & (value < self.num_actions)


@dataclasses.dataclass(frozen=True)
class Box:
    """Real vectors of a fixed `shape` between `low` and `high`, as `float32`.

    Attributes:
        bounds: of each number of a vector its own (least, greatest), where more is known than `low` and `high`; ().
    """

    low: float
    high: float
    shape: tuple[int, ...]
    bounds: tuple[tuple[float, float], ...] = ()
    dtype: ClassVar[jnp.dtype] = jnp.dtype("float32")

    def sample(self, key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
        """Uniform elements, `f32[*shape, *self.shape]`; both bounds must be finite."""
        return jax.random.uniform(key, (*shape, *self.shape), jnp.float32, self.low, self.high)

    def contains(self, value: jax.Array) -> jax.Array:
        """Whether each element lies inside the bounds: `bool`, without the trailing axes of `self.shape`."""
        inside = (value >= self.low) & (value <= self.high)
        return inside.all(axis=tuple(range(inside.ndim - len(self.shape), inside.ndim)))


Space = Discrete | Box


class Feature(NamedTuple):
    """A number that agents see: its name, its meaning with the unit, and its bounds, if any.

    The numbers of a void row are 0, which lies within the bounds.
    """

    name: str
    meaning: str
    low: float = -math.inf
    high: float = math.inf


class Place(NamedTuple):
    """A place of an entity on the map: names of the feature that is 1 if it is there, and of the coordinates."""

    present: str
    x: str
    y: str


@dataclasses.dataclass(frozen=True)
class EntityKind:
    """Entities of one kind that all agents see, with the same features.

    Their numbers are planes, `f32[features, count]`: a row for each feature, a column for each entity.

    Attributes:
        name: of the kind.
        count: entities, void ones included.
        static: features that never change during an episode.
        dynamic: features that change. The first is 1 if the entity exists and 0 if it is void; all features of a void
            entity are 0.
        places: where the entity is to be visited, in this order: the next place is the first that is present.
    """

    name: str
    count: int
    static: tuple[Feature, ...]
    dynamic: tuple[Feature, ...]
    places: tuple[Place, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """The static features, then the dynamic ones."""
        return self.static + self.dynamic

    @property
    def present(self) -> int:
        """Index of the feature that is 1 if an entity exists."""
        return len(self.static)

    def index(self, name: str) -> int:
        """Index of a feature in `features`."""
        return [feature.name for feature in self.features].index(name)


class Pointer(NamedTuple):
    """A block of a role's actions: `per_entity` actions for each entity of a kind, or without an entity (`kind` None).

    The actions of the first entity of the kind come first, then those of the second.
    """

    kind: str | None
    per_entity: int


@dataclasses.dataclass(frozen=True)
class Role:
    """Agents of one kind: how many, and the spaces of one agent.

    Attributes:
        num_agents: rows of the role's arrays.
        observation: space of an agent's observation; in environments with entities, of its context.
        action: space of an agent's actions.
        context: the features of `observation`, in environments with entities.
        pointers: what the actions point at, in their order; () if not declared.
        places: pairs of names in `context` that are coordinates on the map; the agent's own come first.
    """

    num_agents: int
    observation: Box
    action: Space
    context: tuple[Feature, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    places: tuple[tuple[str, str], ...] = ()


ByRole = dict[str, jax.Array]
"""Arrays by the name of the role, `{role: [agents, ...]}`."""

ByKind = dict[str, jax.Array]
"""Planes by the name of the kind of entities, `{kind: f32[features, count]}`."""


def agent_names(roles: dict[str, Role]) -> dict[str, list[str]]:
    """`{"truck": ["truck_0"], "drone": ["drone_0", ...]}`: the names that exports use."""
    return {name: [f"{name}_{i}" for i in range(role.num_agents)] for name, role in roles.items()}

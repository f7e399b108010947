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
    """A number that agents see: its name, a phrase that says what it is, with its unit, and bounds where it keeps some.

    Where something is void its numbers are 0, which lies within the bounds.
    """

    name: str
    meaning: str
    low: float = -math.inf
    high: float = math.inf


class Place(NamedTuple):
    """Where an entity is on the map: names of the features that say whether (1 or 0), and of its coordinates."""

    present: str
    x: str
    y: str


@dataclasses.dataclass(frozen=True)
class EntityKind:
    """Things of one kind that all agents see: so many rows, the same features of each.

    Numbers lie as planes, `f32[features, count]`: those of one feature side by side.

    Attributes:
        name: of the kind.
        count: rows, void ones included.
        static: what never changes during an episode.
        dynamic: what does; the first is 1 if the entity is there, 0 if its row is void, and all of that row are 0 then.
        places: where it is to be visited, in that order: the next place is the first that is present.
    """

    name: str
    count: int
    static: tuple[Feature, ...]
    dynamic: tuple[Feature, ...]
    places: tuple[Place, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """Static and dynamic ones, in this order."""
        return self.static + self.dynamic

    @property
    def present(self) -> int:
        """Index of the feature that says whether an entity is there."""
        return len(self.static)

    def index(self, name: str) -> int:
        """Of a feature among all."""
        return [feature.name for feature in self.features].index(name)


class Pointer(NamedTuple):
    """A block of a role's actions: `per_entity` for each entity of a kind, or so many of no entity (`kind` None).

    The actions of the first entity of the kind come first, then those of the second.
    """

    kind: str | None
    per_entity: int


@dataclasses.dataclass(frozen=True)
class Role:
    """Agents of one kind: how many, and the spaces of one agent.

    Attributes:
        num_agents: rows of the role's arrays.
        observation: what an agent sees; beside entities, what it alone sees.
        action: what it chooses from.
        context: the numbers of `observation`, one by one, if entities are seen beside them.
        pointers: what the actions point at, in their order; () if nobody said so.
        places: names of the numbers of `context`, two by two, that are places on the map: first the agent's.
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

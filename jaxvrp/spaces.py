"""What agents may see and do: two spaces, observations that are sets, and roles.

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


@dataclasses.dataclass(frozen=True)
class Entities:
    """How a flat observation is to be read as a set: a context `[context_size]`, then a row for each entity.

    In a role's observation the first `context_actions` actions belong to the context, the next `entity_actions` to the
    first entity, and so on; so a network with a pointer head serves any number of entities.

    Attributes:
        num_entities, entity_size, context_size: numbers in the observation.
        present: column of a row that is 1 if the entity is there, 0 if the row is void.
        context_actions, entity_actions: see above; 0 where nothing is chosen.
        places: columns (present, x, y) of the places of an entity, in the order in which they are visited; the next is
            the first that is present. Coordinates are relative to the depot. Networks may look at distances.
        coordinates: the same of whatever else is a place on the map.
        position: columns of the context with the agent's own place; None if it has none.
    """

    num_entities: int
    entity_size: int
    context_size: int
    present: int = 0
    context_actions: int = 0
    entity_actions: int = 0
    places: tuple[tuple[int, int, int], ...] = ()
    coordinates: tuple[tuple[int, int, int], ...] = ()
    position: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Of the flat observation."""
        return self.context_size + self.num_entities * self.entity_size

    @property
    def num_actions(self) -> int:
        """Of a role whose actions point at entities."""
        return self.context_actions + self.num_entities * self.entity_actions

    @property
    def spaces(self) -> tuple[tuple[int, ...], Discrete]:
        """Shape of the observation and space of the action of a role whose actions point at entities."""
        return (self.size,), Discrete(self.num_actions)


@dataclasses.dataclass(frozen=True)
class Role:
    """Agents of one kind: how many, and the spaces of one agent; `entities` if its observation is a set."""

    num_agents: int
    observation: Box
    action: Space
    entities: Entities | None = None


ByRole = dict[str, jax.Array]
"""Arrays by the name of the role, `{role: [agents, ...]}`."""


def agent_names(roles: dict[str, Role]) -> dict[str, list[str]]:
    """`{"truck": ["truck_0"], "drone": ["drone_0", ...]}`: the names that exports use."""
    return {name: [f"{name}_{i}" for i in range(role.num_agents)] for name, role in roles.items()}

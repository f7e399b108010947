"""The contract of every environment: `Environment`, `TimeStep`, `Role`, `Entities`.

An environment is a frozen pytree of parameters with pure functions. Authors write the abstract functions below;
`reset`, `reset_to` and `step` are composed from them here, once, so that masks, fallbacks, the fixed point after
the end and the structure of `TimeStep` are the same everywhere.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.spaces import Box, Discrete, Space

if TYPE_CHECKING:
    from jaxvrp.actor import Actor

State = Any
Instance = Any
Tree = TypeVar("Tree")


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


@struct.dataclass
class TimeStep:
    """What the agents are told after a reset or a step; the same structure, dtypes and shapes always.

    Attributes:
        observation: `{role: f32[agents, ...]}`.
        global_observation: `f32[G]`, what a central critic sees.
        action_mask: `{role: bool[agents, actions]}`, roles with a discrete action only; no row is all false.
        reward: `{role: f32[agents]}`, of the last step; 0 after a reset.
        terminated: `bool[]`, the task is over.
        truncated: `bool[]`, the episode was cut short (its value is to be bootstrapped).
        metrics: `{name: f32[] or f32[agents]}`, totals of the episode so far.
        valid: `{role: bool[agents]}`, only for roles whose rows can be void (padding).
    """

    observation: dict[str, jax.Array]
    global_observation: jax.Array
    action_mask: dict[str, jax.Array]
    reward: dict[str, jax.Array]
    terminated: jax.Array
    truncated: jax.Array
    metrics: dict[str, jax.Array]
    valid: dict[str, jax.Array]

    @property
    def done(self) -> jax.Array:
        """`terminated | truncated`."""
        return self.terminated | self.truncated


def select(condition: jax.Array, on_true: Tree, on_false: Tree) -> Tree:
    """Leaf-wise `where` with a leading-axes condition; leaves that are the same array on both sides are not touched.

    The second half is what keeps constant data (the instance) out of the hot path.
    """

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        if a is b:
            return a
        shaped = condition.reshape(condition.shape + (1,) * (jnp.ndim(a) - condition.ndim))
        return jnp.where(shaped, a, b)

    return jax.tree.map(pick, on_true, on_false)


class Environment(struct.PyTreeNode, abc.ABC):
    """A cooperative multi-agent environment of pure functions; itself a pytree.

    Sizes and kinds are static fields, physical and reward parameters are leaves: `jax.vmap` over a batch of
    environments that differ in a parameter works. Subclass it as a frozen dataclass and write the abstract functions;
    do not override `reset`, `reset_to` or `step`.
    """

    @property
    @abc.abstractmethod
    def roles(self) -> dict[str, Role]:
        """The agents by kind, static. The order of the keys is the order of the agents."""

    @property
    def agent_names(self) -> dict[str, list[str]]:
        """`{"truck": ["truck_0"], "drone": ["drone_0", ...]}`: the names that exports use."""
        return {name: [f"{name}_{i}" for i in range(role.num_agents)] for name, role in self.roles.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """What it was made from, by keyword of its factory: by default the fields of the dataclass."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def baselines(self) -> dict[str, Callable[[], Actor]]:
        """What a learned policy is compared with, by name: makers of actors. Random play, unless extended."""
        from jaxvrp.actor import RandomActor  # it builds on this module

        return {"random": lambda: RandomActor(self)}

    @property
    def renderer(self) -> Callable[[State, str | os.PathLike], None] | None:
        """Draws the states `[T + 1, ...]` of one episode into a file (`.gif`, `.png`); None if there is none."""
        return None

    @property
    def global_entities(self) -> Entities | None:
        """How the global observation is to be read as a set; None if it is not one."""
        return None

    @property
    @abc.abstractmethod
    def max_episode_steps(self) -> int:
        """An upper bound of the length of an episode, static; evaluation runs this many steps."""

    @abc.abstractmethod
    def generate(self, key: jax.Array) -> Instance:
        """Draw one problem, as data."""

    @abc.abstractmethod
    def init_state(self, instance: Instance) -> State:
        """The state at the beginning of an episode on `instance`; draws nothing."""

    @abc.abstractmethod
    def transition(self, state: State, action: dict[str, jax.Array], num_invalid: jax.Array) -> State:
        """One step of the rules with legal actions; `num_invalid` (`i32[]`) of them are fallbacks, to be counted."""

    @abc.abstractmethod
    def observation(self, state: State) -> dict[str, jax.Array]:
        """`{role: f32[agents, ...]}`."""

    @abc.abstractmethod
    def global_observation(self, state: State) -> jax.Array:
        """`f32[G]`."""

    @abc.abstractmethod
    def action_mask(self, state: State) -> dict[str, jax.Array]:
        """`{role: bool[agents, actions]}` of the roles with a discrete action; no row is all false."""

    def fallback(self, mask: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """What a forbidden action is executed as, `{role: i32[agents]}`, legal by `mask`: 0, unless overridden."""
        return {name: jnp.zeros(rows.shape[0], jnp.int32) for name, rows in mask.items()}

    @abc.abstractmethod
    def reward(self, state: State) -> dict[str, jax.Array]:
        """`{role: f32[agents]}` of the step that led to `state`."""

    @abc.abstractmethod
    def is_terminal(self, state: State) -> jax.Array:
        """`bool[]`: the task is over in `state`."""

    @abc.abstractmethod
    def metrics(self, state: State) -> dict[str, jax.Array]:
        """`{name: f32[] or f32[agents]}`, totals of the episode so far."""

    def is_truncated(self, state: State) -> jax.Array:
        """`bool[]`: the episode is cut short in `state`; never, unless overridden together with `truncates`."""
        del state
        return jnp.zeros((), bool)

    @property
    def truncates(self) -> bool:
        """Whether `is_truncated` can ever hold (static); a learner then values the final observations."""
        return False

    def valid(self, state: State) -> dict[str, jax.Array]:
        """`{role: bool[agents]}` for roles whose rows can be void; none by default."""
        del state
        return {}

    def reset(self, key: jax.Array) -> tuple[State, TimeStep]:
        """A fresh problem: `reset_to(generate(key))`."""
        return self.reset_to(self.generate(key))

    def reset_to(self, instance: Instance) -> tuple[State, TimeStep]:
        """Begin an episode on a given problem."""
        state = self.init_state(instance)
        zeros = {name: jnp.zeros(role.num_agents, jnp.float32) for name, role in self.roles.items()}
        return state, self._timestep(state, zeros)

    def step(self, state: State, action: Mapping[str, jax.Array]) -> tuple[State, TimeStep]:
        """Play one step; a finished state stays as it is and pays 0.

        Args:
            state: from `reset`, `reset_to` or `step`.
            action: `{role: i32[agents]}` (discrete) or `{role: f32[agents, ...]}` (box). A forbidden or out-of-range
                index is executed as the `fallback`, a box entry is clipped, a non-finite one becomes 0 (clipped); all
                are counted in the metric `invalid_actions`.

        Raises:
            ValueError: a role is missing or unknown, or an array has the wrong shape.
            TypeError: an array has the wrong dtype.
        """
        roles = self.roles
        requested = checked_action(roles, action)
        mask = self.action_mask(state)
        executed, num_invalid = _judge(roles, requested, mask, self.fallback(mask))
        finished = self.is_terminal(state) | self.is_truncated(state)
        moved = self.transition(state, executed, num_invalid)
        reward = jax.tree.map(lambda r: jnp.where(finished, 0.0, r), self.reward(moved))
        state = select(finished, state, moved)
        return state, self._timestep(state, reward)

    def _timestep(self, state: State, reward: dict[str, jax.Array]) -> TimeStep:
        return TimeStep(
            observation=self.observation(state),
            global_observation=self.global_observation(state),
            action_mask=self.action_mask(state),
            reward=reward,
            terminated=self.is_terminal(state),
            truncated=self.is_truncated(state) & ~self.is_terminal(state),
            metrics=self.metrics(state),
            valid=self.valid(state),
        )


def _judge(
    roles: dict[str, Role],
    action: dict[str, jax.Array],
    mask: dict[str, jax.Array],
    fallback: dict[str, jax.Array],
) -> tuple[dict[str, jax.Array], jax.Array]:
    executed, num_invalid = {}, jnp.zeros((), jnp.int32)
    for name, role in roles.items():
        if isinstance(role.action, Discrete):
            chosen = jnp.arange(role.action.num_actions, dtype=jnp.int32) == action[name][:, None]
            legal = (chosen & mask[name]).any(axis=1)
            executed[name] = jnp.where(legal, action[name], fallback[name])
        else:
            finite = jnp.where(jnp.isfinite(action[name]), action[name], 0.0)
            executed[name] = jnp.clip(finite, role.action.low, role.action.high)
            legal = (executed[name] == action[name]).reshape(role.num_agents, -1).all(axis=1)
        num_invalid += jnp.sum(~legal, dtype=jnp.int32)
    return executed, num_invalid


def checked_action(roles: dict[str, Role], action: Mapping[str, Any], batch: tuple[int, ...] = ()) -> dict[str, Any]:
    """The same actions as arrays of the right dtype, or one clear line.

    Args:
        roles: the agents.
        action: `{role: [*batch, agents, ...]}`.
        batch: leading axes.

    Raises:
        ValueError: a role is missing or unknown, or an array has the wrong shape.
        TypeError: an array has the wrong dtype.
    """
    if not isinstance(action, Mapping) or set(action) != set(roles):
        given = sorted(action) if isinstance(action, Mapping) else type(action).__name__
        raise ValueError(f"action must be a dict with exactly the roles {list(roles)}; got {given}")
    return {name: _typed(name, role, action[name], batch) for name, role in roles.items()}


def _typed(name: str, role: Role, action: Any, batch: tuple[int, ...]) -> jax.Array:
    array = action if isinstance(action, jax.Array) else np.asarray(action)
    discrete = isinstance(role.action, Discrete)
    wanted = (*batch, role.num_agents, *role.action.shape)
    if not jnp.issubdtype(array.dtype, jnp.integer if discrete else jnp.floating):
        raise TypeError(f"action['{name}'] has dtype {array.dtype}; it needs {role.action.dtype} of shape {wanted}")
    if array.shape != wanted:
        raise ValueError(f"action['{name}'] has shape {array.shape}; it needs {wanted}, one entry for each agent")
    if discrete and not isinstance(array, jax.Array):
        # An int64 far outside int32 would wrap around into a legal index.
        array = np.clip(array.astype(np.int64), -1, role.action.num_actions)
    return jnp.asarray(array, role.action.dtype)

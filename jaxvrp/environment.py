"""The contract of every environment: `Environment` and `TimeStep`.

An environment is a frozen pytree of parameters with pure functions. Authors write the abstract functions below;
`reset`, `reset_to` and `step` are composed from them here, so that masks, fallbacks, finished states and the structure
of `TimeStep` are the same in all environments.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import checked_action, judge, no_action
from jaxvrp.io.messages import shown
from jaxvrp.rows import where_leading
from jaxvrp.spaces import ByKind, ByRole, EntityKind, Role

State = Any
Instance = Any
Tree = TypeVar("Tree")


class Outcome(struct.PyTreeNode):
    """The result of a step, without observations and masks.

    Attributes:
        reward: `{role: f32[agents]}`; 0 if the episode was over before.
        terminated: `bool[]`, the task is over.
        truncated: `bool[]`, the episode was cut short, so learners bootstrap its value.
        metrics: `{name: f32[] or f32[agents]}`, totals of the episode so far.
        duration: `f32[]`, environment steps of this step, see `Environment.duration`; 0 if the episode was over before,
            so that durations sum to the time of the episode.
    """

    reward: ByRole
    terminated: jax.Array
    truncated: jax.Array
    metrics: dict[str, jax.Array]
    duration: jax.Array

    @property
    def done(self) -> jax.Array:
        """`terminated | truncated`."""
        return self.terminated | self.truncated


class TimeStep(Outcome):
    """What agents see after a reset or a step; the same structure, dtypes and shapes always.

    `reward` and `duration` are those of the last step, 0 after a reset.

    Attributes:
        observation: `{role: f32[agents, ...]}`.
        global_observation: `f32[G]`, what a central critic sees; None where it sees the entities.
        entities: `{kind: f32[dynamic features, count]}`, seen by all agents; {} where observations are flat.
        action_mask: `{role: bool[agents, actions]}`, roles with a discrete action only; no row is all false.
        valid: `{role: bool[agents]}`, only for roles whose rows can be void (padding).
    """

    observation: ByRole
    global_observation: jax.Array | None
    entities: ByKind
    action_mask: ByRole
    valid: ByRole

    @property
    def team_reward(self) -> jax.Array:
        """`f32[...]`, the mean of the rewards of all agents whose rows are valid: a shared reward counts once.

        Not after an auto-reset of `VecEnv`: `valid` is of the new episode then, and `reward` of the old one.
        """
        return team_reward(self.reward, self.valid)


def team_reward(reward: ByRole, valid: ByRole) -> jax.Array:
    """`f32[...]`, the mean of the rewards (`{role: f32[..., agents]}`) over the agents that are `valid`."""
    is_valid = {name: jnp.ones_like(paid, bool) for name, paid in reward.items()} | valid
    all_rewards = jnp.concatenate([reward[name] for name in reward], axis=-1)
    all_valid = jnp.concatenate([is_valid[name] for name in reward], axis=-1)
    return jnp.where(all_valid, all_rewards, 0.0).sum(axis=-1) / jnp.maximum(all_valid.sum(axis=-1), 1)


def select(condition: jax.Array, on_true: Tree, on_false: Tree) -> Tree:
    """Leaf-wise `where` with a condition on the leading axes; a leaf that is the same array on both sides is returned.

    This costs nothing for constant data such as the instance.
    """

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return a if a is b else where_leading(condition, a, b)

    return jax.tree.map(pick, on_true, on_false)


def _replace(self: Any, **changes: Any) -> Any:
    """A copy with other parameters, checked as by `jaxvrp.make`, with its errors; under `vmap`, a batch of copies."""
    return fields.replace(self, changes, f"parameter of {type(self).__name__}:")


class Environment(struct.PyTreeNode, abc.ABC):
    """A cooperative multi-agent environment of pure functions; itself a pytree.

    Sizes and kinds are static fields, physical and reward parameters are leaves: `jax.vmap` over a batch of
    environments that differ in a parameter works. Subclass it as a frozen dataclass and write the abstract functions;
    do not override `reset`, `reset_to`, `step` or `replace`. Baselines, pictures and the columns of
    tables belong to its card, players, problems and story, see `jaxvrp.registry`.
    """

    @property
    @abc.abstractmethod
    def roles(self) -> dict[str, Role]:
        """The agents by kind, static. The order of the keys is the order of the agents."""

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """Kinds of entities that all agents see, static; () where observations are flat vectors."""
        return ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The keywords of the factory with their values: by default the fields of the dataclass."""
        return {fields.keyword(field): getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def extras(self) -> tuple[str, ...]:
        """Which of the functions `duration` and `is_truncated` it writes, static.

        Learners discount by durations, and value final observations, only where they are named here.
        """
        return ()

    @property
    @abc.abstractmethod
    def max_episode_steps(self) -> int:
        """An upper bound of the length of an episode, static; evaluation runs this many steps."""

    @abc.abstractmethod
    def generate(self, key: jax.Array) -> Instance:
        """Draw one problem, as data."""

    @abc.abstractmethod
    def init_state(self, instance: Instance) -> State:
        """The first state of an episode on `instance`, with everything that is computed once; deterministic."""

    @abc.abstractmethod
    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """One step of the rules with legal actions; `num_invalid` (`i32[]`) of them are fallbacks, to be counted."""

    @abc.abstractmethod
    def observation(self, state: State) -> ByRole:
        """`{role: f32[agents, ...]}`; in environments with entities, each agent's context."""

    def global_observation(self, state: State) -> jax.Array | None:
        """`f32[G]`, for central critics; None in environments with entities."""
        return None

    def static_entities(self, state: State) -> ByKind:
        """`{kind: f32[static features, count]}`, the same in all states of an episode; see `entity_kinds`."""
        return {}

    def entities(self, state: State) -> ByKind:
        """`{kind: f32[dynamic features, count]}`, in this state; see `entity_kinds`."""
        return {}

    @abc.abstractmethod
    def action_mask(self, state: State) -> ByRole:
        """`{role: bool[agents, actions]}` of the roles with a discrete action; no row is all false."""

    def fallback(self, mask: ByRole) -> ByRole:
        """The action that replaces a forbidden one, by role; 0 (in a box: the point nearest to 0), unless overridden.

        `i32[agents]`, legal by `mask`, for discrete actions. `f32[agents, ...]` for continuous actions that are not
        finite; such a row may be NaN, if `transition` handles NaN.
        """
        return {name: no_action(role) for name, role in self.roles.items()}

    @abc.abstractmethod
    def reward(self, state: State) -> ByRole:
        """`{role: f32[agents]}` of the step that led to `state`."""

    def duration(self, state: State) -> jax.Array:
        """`f32[]`, at least 1: environment steps that the transition to `state` took; 1, unless overridden.

        In a semi-Markov process (Sutton, Precup & Singh 1999) the value after a transition of k steps is discounted by
        `gamma**k`: MAPPO and IPPO do so; TD3 and SAC discount every transition by `gamma`. Within a transition nothing
        is discounted: its reward counts as it is.
        """
        return jnp.ones((), jnp.float32)

    @abc.abstractmethod
    def is_terminal(self, state: State) -> jax.Array:
        """`bool[]`: the task is over in `state`."""

    def is_truncated(self, state: State) -> jax.Array:
        """`bool[]`: the episode is cut short in `state`; never, unless overridden."""
        return jnp.zeros((), bool)

    @abc.abstractmethod
    def metrics(self, state: State) -> dict[str, jax.Array]:
        """`{name: f32[] or f32[agents]}`, totals of the episode so far."""

    def valid(self, state: State) -> ByRole:
        """`{role: bool[agents]}` for roles whose rows can be void; none by default."""
        return {}

    def reset(self, key: jax.Array) -> tuple[State, TimeStep]:
        """A fresh problem: `reset_to(generate(key))`."""
        return self.reset_to(self.generate(key))

    def reset_to(self, instance: Instance) -> tuple[State, TimeStep]:
        """Begin an episode on a given problem."""
        state = self.init_state(instance)
        return state, unpaid_timestep(self, state)

    def step(self, state: State, action: Mapping[str, jax.Array]) -> tuple[State, TimeStep]:
        """Play one step; a finished state stays as it is and pays 0.

        Actions are `{role: i32[agents]}` (discrete, any integer dtype) or `{role: f32[agents, ...]}` (box). A forbidden
        or out-of-range index is executed as the `fallback`, and so is a non-finite element of a box; an element outside
        the box is clipped. All are counted in the metric `invalid_actions`. Inside `jit`, `vmap` and `scan` JAX casts
        NumPy's 64-bit integers to 32 bits, unless `jax_enable_x64` is set: 2**32 becomes 0.

        Raises:
            ValueError: a role is missing or unknown, or an array has the wrong shape.
            TypeError: an array has the wrong dtype.
        """
        requested = checked_action(self.roles, action)
        executed, num_invalid = executed_action(self, requested, self.action_mask(state), self.valid(state))
        return arrive(self, state, self.transition(state, executed, num_invalid))

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # flax gives every class a `replace` of its own, which checks nothing.
        cls.replace = _replace  # type: ignore[method-assign]
        said: Any = () if cls.extras is Environment.extras else cls.extras
        if isinstance(said, tuple):  # a property is known of an environment only; `check_env` looks at it
            _require_named(cls, said)


def _require_named(cls: type[Environment], said: tuple[str, ...]) -> None:
    """Refuse a class that writes an optional function where, or after, its `extras` are `said` without it."""

    def place(name: str) -> int:
        """Which class of those that it derives from, in their order, has the name that counts."""
        return next(at for at, kind in enumerate(cls.__mro__) if name in vars(kind))

    written = [name for name in ("duration", "is_truncated") if place(name) < cls.__mro__.index(Environment)]
    unsaid = [name for name in written if name not in said and place(name) <= place("extras")]
    if unsaid:
        named = tuple(name for name in written if name in (*said, *unsaid))
        raise TypeError(f"{cls.__name__} writes {' and '.join(unsaid)}; say so by `extras = {named!r}`")


Environment.replace = _replace  # type: ignore[method-assign]


def require_environment(env: Any) -> None:
    """Refuse what is no environment, such as the name of one.

    Raises:
        TypeError: one line.
    """
    if not isinstance(env, Environment):
        raise TypeError(f"env is {shown(env)}; it must be an environment, such as jaxvrp.make('darp')")


def is_over(env: Environment, state: State) -> jax.Array:
    """`bool[]`: the episode has ended in `state`, either way."""
    return env.is_terminal(state) | env.is_truncated(state)


def executed_action(env: Environment, action: ByRole, mask: ByRole, valid: ByRole) -> tuple[ByRole, jax.Array]:
    """The actions as executed under a timestep's `mask` and `valid`, and the number of changed ones (`i32[]`)."""
    return judge(env.roles, action, mask, env.fallback(mask), valid)


def settle(env: Environment, state: State, moved: State) -> tuple[State, Outcome]:
    """The state after a step from `state` to `moved`, by `transition`, and its outcome.

    A finished state stays as it is and pays 0.
    """
    finished = is_over(env, state)
    reward = jax.tree.map(lambda paid: jnp.where(finished, 0.0, paid), env.reward(moved))
    duration = jnp.where(finished, 0.0, env.duration(moved))
    state = select(finished, state, moved)
    terminated = env.is_terminal(state)
    truncated = env.is_truncated(state) & ~terminated
    return state, Outcome(reward, terminated, truncated, env.metrics(state), duration)


def arrive(env: Environment, state: State, moved: State) -> tuple[State, TimeStep]:
    """As `settle`, and what the agents see then."""
    state, outcome = settle(env, state, moved)
    return state, observe(env, state, outcome)


def unpaid_timestep(env: Environment, state: State) -> TimeStep:
    """What agents see in `state` by itself: nothing has been paid yet."""
    nothing = {name: jnp.zeros(role.num_agents, jnp.float32) for name, role in env.roles.items()}
    terminated = env.is_terminal(state)
    truncated = env.is_truncated(state) & ~terminated
    return observe(env, state, Outcome(nothing, terminated, truncated, env.metrics(state), jnp.zeros((), jnp.float32)))


def observe(env: Environment, state: State, outcome: Outcome) -> TimeStep:
    """What agents see in `state`, with the outcome of the step that led there."""
    return TimeStep(
        observation=env.observation(state),
        global_observation=env.global_observation(state),
        entities=env.entities(state),
        action_mask=env.action_mask(state),
        valid=env.valid(state),
        **vars(outcome),
    )

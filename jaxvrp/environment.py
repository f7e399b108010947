"""The contract of every environment: `Environment`, `TimeStep`, `Role`, `Turns`.

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
from flax import struct

from jaxvrp.actions import checked_action, judge, no_action
from jaxvrp.spaces import Box, Entities, Space

if TYPE_CHECKING:
    from jaxvrp.actor import Actor

State = Any
Instance = Any
Memory = Any
ByRole = dict[str, jax.Array]
Choose = Callable[[ByRole, ByRole], ByRole]
"""`(observation {role: f32[n, ...]}, agent {role: i32[n]}) -> action {role: [n, ...]}`, of agents whose turn it is."""
Tree = TypeVar("Tree")


@dataclasses.dataclass(frozen=True)
class Role:
    """Agents of one kind: how many, and the spaces of one agent; `entities` if its observation is a set."""

    num_agents: int
    observation: Box
    action: Space
    entities: Entities | None = None


class TimeStep(struct.PyTreeNode):
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

    @property
    def team_reward(self) -> jax.Array:
        """`f32[]`, the mean of the rewards of all agents whose rows are valid: a shared reward counts once.

        Not after an auto-reset of `VecEnv`: `valid` is of the new episode then, and `reward` of the old one.
        """
        everybody = {name: jnp.ones_like(reward, bool) for name, reward in self.reward.items()} | self.valid
        reward, counted = (
            jnp.concatenate([by[name] for name in self.reward], axis=-1) for by in (self.reward, everybody)
        )
        return jnp.where(counted, reward, 0.0).sum(axis=-1) / jnp.maximum(counted.sum(axis=-1), 1)


class Turns(struct.PyTreeNode):
    """What every agent saw, did and got in one step that it played in turn; see `Environment.play`.

    Attributes:
        observation: `{role: f32[agents, ...]}`, when its turn came.
        action: `{role: [agents, ...]}`, as executed.
        next_observation: `{role: f32[agents, ...]}`, right after its turn.
        reward: `{role: f32[agents]}`.
        terminated: `{role: bool[agents]}`, whether its episode is over, so that nothing is to be bootstrapped.
        valid: `{role: bool[agents]}`, whether it had a turn.
    """

    observation: ByRole
    action: ByRole
    next_observation: ByRole
    reward: ByRole
    terminated: ByRole
    valid: ByRole


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
    def debug_recorder(self) -> Callable[[State, str | os.PathLike], None] | None:
        """Records every step of one episode, states `[T + 1, ...]`, in an empty folder; None if there is none."""
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
        """What a forbidden action is executed as, by role; 0 (in a box: the point nearest to 0), unless overridden.

        `i32[agents]`, legal by `mask`, where actions are discrete. `f32[agents, ...]` for continuous ones that are not
        finite; such a row may be NaN, if `transition` understands that.
        """
        del mask
        return {name: no_action(role) for name, role in self.roles.items()}

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

    @property
    def memory(self) -> Memory:
        """What later episodes may learn of earlier ones, a pytree that `VecEnv` carries; nothing by default."""
        return ()

    def remember(self, memory: Memory, state: State) -> Memory:
        """`memory` after a step of a batch of states (leading axis `[E]`), before any reset."""
        del state
        return memory

    def agreed(self, memory: Memory, axis: str) -> Memory:
        """One memory of those of all devices along a mapped axis; must be written where `remember` is."""
        del axis
        return memory

    def recall(self, memory: Memory) -> Environment:
        """This environment, generating instances by what is remembered."""
        del memory
        return self

    @property
    def for_evaluation(self) -> Environment:
        """The environment that policies are evaluated in: this one, unless overridden (longer episodes, say)."""
        return self

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
                index is executed as the `fallback`, and so is an element of a box that is not finite; one outside the
                box is clipped. All are counted in the metric `invalid_actions`.

        Raises:
            ValueError: a role is missing or unknown, or an array has the wrong shape.
            TypeError: an array has the wrong dtype.
        """
        roles = self.roles
        requested = checked_action(roles, action)
        return self._arrive(state, self.transition(state, *self.judged(state, requested)))

    def play(self, state: State, choose: Choose) -> tuple[State, TimeStep, Turns]:
        """Play one step with actions that `choose` is asked for: of all agents at once, or of one after the other.

        An environment whose agents act in turn asks for one action at a time (`n` = 1 in `Choose`), after the moves
        before it. Choosing the same actions beforehand and passing them to `step` gives the same.
        """
        moved, turns = self.take_turns(state, choose)
        finished = self._finished(state)
        return *self._arrive(state, moved), turns.replace(
            reward=jax.tree.map(lambda reward: jnp.where(finished, 0.0, reward), turns.reward),
            valid=jax.tree.map(lambda valid: valid & ~finished, turns.valid),
        )

    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """The next state, as from `transition`, and what the agents went through; all act at once by default."""
        agents = {name: jnp.arange(role.num_agents, dtype=jnp.int32) for name, role in self.roles.items()}
        observation = self.observation(state)
        executed, num_invalid = self.judged(state, choose(observation, agents))
        moved = self.transition(state, executed, num_invalid)
        everybody = {name: jnp.ones(role.num_agents, bool) for name, role in self.roles.items()}
        return moved, Turns(
            observation=observation,
            action=executed,
            next_observation=self.observation(moved),
            reward=self.reward(moved),
            terminated=jax.tree.map(lambda ones: ones & self.is_terminal(moved), everybody),
            valid=everybody | self.valid(state),
        )

    def judged(self, state: State, action: ByRole) -> tuple[ByRole, jax.Array]:
        """The actions as they are executed in `state`, and how many of them are not those asked for (`i32[]`)."""
        mask = self.action_mask(state)
        return judge(self.roles, action, mask, self.fallback(mask), self.valid(state))

    def _arrive(self, state: State, moved: State) -> tuple[State, TimeStep]:
        """The step from `state` to `moved`; a finished state stays."""
        finished = self._finished(state)
        reward = jax.tree.map(lambda r: jnp.where(finished, 0.0, r), self.reward(moved))
        state = select(finished, state, moved)
        return state, self._timestep(state, reward)

    def _finished(self, state: State) -> jax.Array:
        return self.is_terminal(state) | self.is_truncated(state)

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

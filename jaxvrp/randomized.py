"""Environments that draw parameters and sizes for each episode: one policy for many fleets, in one program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.actor import Actor, Carry
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, Instance, State, TimeStep, writes
from jaxvrp.memory import Memory
from jaxvrp.spaces import ByRole
from jaxvrp.toolbox import Padding, ReplayKind, Toolbox
from jaxvrp.turns import Choose, TurnBasedEnvironment, Turns

Ranges = dict[str, tuple[float, float]]
"""Least and greatest value, by the name of a field of the environment."""

Drawn = dict[str, jax.Array]
"""What was drawn for an episode, `f32[]` each (sizes too), by the name of a field of the environment."""

DRAW = 0x7A0D0312
"""Folded into the key of a problem for what is drawn beside it; problems themselves fold and split small numbers."""


class RandomizedInstance(struct.PyTreeNode):
    """A problem and the parameters that it is played with.

    Attributes:
        problem: of the base environment, or what its `prepare` made of it.
        drawn: see `Drawn`.
    """

    problem: Instance
    drawn: Drawn


class RandomizedState(struct.PyTreeNode):
    """A state of the base environment, and the parameters of its episode.

    Attributes:
        base: of the base environment.
        drawn: see `Drawn`; the same from the beginning of an episode to its end.
    """

    base: State
    drawn: Drawn


def _property_of_base(name: str) -> Any:
    """A property that is that of the base environment."""
    return property(lambda self: getattr(self.base, name), doc="That of the base environment.")


def _function_of_base(name: str) -> Any:
    """A function of a state that calls that of the base environment, with what was drawn for the episode."""

    def call(self: Randomized, state: RandomizedState) -> Any:
        return getattr(self.of(state), name)(state.base)

    call.__name__, call.__doc__ = name, getattr(Environment, name).__doc__
    return call


class Randomized(Environment):
    """An environment with parameters and sizes that `generate` draws; made by `jaxvrp.randomize`.

    Each is uniform in its range: a parameter over the interval, a size over the whole numbers in it.

    All else is the base environment, with its leaves replaced by what was drawn for the episode; so agents see what
    they see there. Problems are those that the base environment generates from the same keys with these parameters; of
    a size that was drawn, what is beyond it is void.

    Attributes:
        base: the environment; its own values count for what is not drawn.
        ranges: see `Ranges`.
        paddings: of the sizes among them.
        first_ranges: what is drawn from at first, by the same names; `memory` moves it linearly to `ranges`. None if
            nothing moves.
        num_steps: steps of an environment in which it moves there.
        progress: how far it is, from 0 to 1, `f32[]`.
    """

    base: Environment
    ranges: Ranges
    paddings: tuple[tuple[str, Padding], ...] = struct.field(pytree_node=False)
    first_ranges: Ranges | None = None
    num_steps: float = 1.0
    progress: Any = 0.0

    def of(self, state: RandomizedState | RandomizedInstance) -> Environment:
        """The base environment with the parameters of this state; `state.base` is a state of it."""
        return self._with(state.drawn)

    def _with(self, drawn: Drawn) -> Environment:
        sizes = dict(self.paddings)
        # Not `replace`: its checks would be those of every step; and 0.7 in float32 is below a minimum of 0.7.
        return dataclasses.replace(self.base, **{name: drawn[name] for name in drawn if name not in sizes})

    roles = _property_of_base("roles")
    entity_kinds = _property_of_base("entity_kinds")
    max_episode_steps = _property_of_base("max_episode_steps")

    observation = _function_of_base("observation")
    global_observation = _function_of_base("global_observation")
    static_entities = _function_of_base("static_entities")
    entities = _function_of_base("entities")
    action_mask = _function_of_base("action_mask")
    reward = _function_of_base("reward")
    duration = _function_of_base("duration")
    is_terminal = _function_of_base("is_terminal")
    is_truncated = _function_of_base("is_truncated")
    metrics = _function_of_base("metrics")
    valid = _function_of_base("valid")

    @property
    def memory(self) -> Memory | None:
        """That of the base environment, and that by which ranges move; None if there is neither."""
        inner, clock = self.base.memory, None if self.first_ranges is None else self._clock()
        if inner is None:
            return clock
        inner = self._of_base(inner)
        return inner if clock is None else _both(inner, clock)

    def _of_base(self, inner: Memory) -> Memory:
        """The memory of the base environment, as one of this."""
        return Memory(
            initial=inner.initial,
            update=lambda content, states: inner.update(content, states.base),
            apply=lambda content: dataclasses.replace(self, base=inner.apply(content)),
            merge=inner.merge,
        )

    def _clock(self) -> Memory:
        """Steps of an environment so far, `i32[]`; the same on all devices, since they play in lockstep."""
        return Memory(
            initial=jnp.zeros((), jnp.int32),
            update=lambda steps, _: steps + 1,
            apply=lambda steps: dataclasses.replace(self, progress=jnp.minimum(steps / self.num_steps, 1.0)),
            merge=lambda steps, _: steps,
        )

    def generate(self, key: jax.Array) -> RandomizedInstance:
        """Parameters and sizes, and a problem of the base environment with these."""
        drawn = self._draw(jax.random.fold_in(key, DRAW))
        problem = self._with(drawn).generate(key)
        for name, padding in self.paddings:
            problem = padding.void_beyond(problem, drawn[name].astype(jnp.int32))
        return RandomizedInstance(problem, drawn)

    def _draw(self, key: jax.Array) -> Drawn:
        names = sorted(self.ranges)  # a dictionary that went through a program is sorted
        uniform = jax.random.uniform(key, (len(names),), jnp.float32)
        return {name: self._drawn_from(name, uniform[i]) for i, name in enumerate(names)}

    def _drawn_from(self, name: str, uniform: jax.Array) -> jax.Array:
        """A value in the range, from a uniform number in [0, 1)."""
        low, high = self._present_range(name)
        if name not in (sizes := dict(self.paddings)):
            return jnp.clip(low + uniform * (high - low), low, high)
        multiple = sizes[name].multiple
        least, most = (jnp.round(bound / multiple) for bound in (low, high))
        return multiple * jnp.minimum(least + jnp.floor(uniform * (most - least + 1)), most)

    def _present_range(self, name: str) -> tuple[jax.Array, jax.Array]:
        """The range as far as it has moved; exact at both ends."""
        low, high = (jnp.asarray(bound, jnp.float32) for bound in self.ranges[name])
        if self.first_ranges is None:
            return low, high
        first_low, first_high = self.first_ranges[name]
        done, to_do = self.progress, 1 - self.progress
        return to_do * first_low + done * low, to_do * first_high + done * high

    def prepare(self, instance: RandomizedInstance) -> RandomizedInstance:
        """The problem prepared by the base environment."""
        return instance.replace(problem=self.of(instance).prepare(instance.problem))

    def init_state(self, instance: RandomizedInstance) -> RandomizedState:
        """The beginning of an episode with these parameters."""
        return RandomizedState(self.of(instance).init_state(instance.problem), instance.drawn)

    def transition(self, state: RandomizedState, action: ByRole, num_invalid: jax.Array) -> RandomizedState:
        """One step of the base environment; the parameters stay."""
        return state.replace(base=self.of(state).transition(state.base, action, num_invalid))

    def fallback(self, mask: ByRole) -> ByRole:
        """That of the base environment."""
        return self.base.fallback(mask)


class RandomizedTurns(Randomized, TurnBasedEnvironment):
    """`Randomized`, where the agents of the base environment move one after another."""

    def take_turns(self, state: RandomizedState, choose: Choose) -> tuple[RandomizedState, Turns]:
        """As the base environment."""
        env = self.of(state)
        assert isinstance(env, TurnBasedEnvironment)
        moved, turns = env.take_turns(state.base, choose)
        return state.replace(base=moved), turns


def _both(of_base: Memory, clock: Memory) -> Memory:
    """The two memories of one randomised environment as one: what the first one changes is the base alone."""
    merge = of_base.merge
    return Memory(
        initial=(of_base.initial, clock.initial),
        update=lambda content, states: (of_base.update(content[0], states), clock.update(content[1], states)),
        apply=lambda content: dataclasses.replace(clock.apply(content[1]), base=of_base.apply(content[0]).base),
        merge=merge and (lambda content, axis: (merge(content[0], axis), content[1])),
    )


@writes.register
def _base_writes(env: Randomized, name: str) -> bool:
    """As the base environment."""
    return writes(env.base, name)


@seen_as.register
def _base_seen_as(env: Randomized, kind: Literal["flat", "entities"]) -> Randomized:
    """As the base environment can be seen."""
    return dataclasses.replace(env, base=seen_as(env.base, kind))


def unwrapped(env: Environment) -> Environment:
    """The base of a randomised environment, any other one itself."""
    return env.base if isinstance(env, Randomized) else env


def adapted(toolbox: Toolbox) -> Toolbox:
    """From the toolbox of a base environment to that of `Randomized`: each episode has its own parameters."""
    replay = toolbox.replay
    return dataclasses.replace(
        toolbox,
        baselines={name: functools.partial(_OneByOne, make) for name, make in toolbox.baselines.items()},
        planners={name: functools.partial(_OnBase, make) for name, make in toolbox.planners.items()},
        renderer=toolbox.renderer and _of_base(toolbox.renderer),
        step_recorder=toolbox.step_recorder and _of_base(toolbox.step_recorder),
        replay=replay and ReplayKind(_of_base(replay.export), replay.check, replay.script),
        still=None,
    )


def _of_base(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """What takes a base environment, and states of one episode of it, takes randomised ones."""

    def call(env: Randomized, states: RandomizedState, other: Any) -> Any:
        first: RandomizedState = jax.tree.map(lambda leaf: leaf[0], states)
        return function(env.of(first), states.base, other)

    return call


class _OneByOne:
    """A baseline that plays every environment of a batch by itself, with the parameters of its episode."""

    def __init__(self, make: Callable[[Environment], Actor], env: Randomized):
        self.make, self.env = make, env

    def init(self, num_envs: int) -> Carry:
        """What the baseline remembers, of each."""
        carry = self.make(self.env.base).init(1)
        return jax.tree.map(lambda leaf: jnp.repeat(leaf, num_envs, axis=0), carry)

    def act(self, key: jax.Array, carry: Carry, state: RandomizedState, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""

        def act_alone(key: jax.Array, carry: Carry, state: RandomizedState, timestep: TimeStep) -> tuple[ByRole, Carry]:
            batch = jax.tree.map(lambda leaf: leaf[None], (carry, state.base, timestep))
            played = self.make(self.env.of(state)).act(key, *batch)
            return jax.tree.map(lambda leaf: leaf[0], played)

        keys = jax.random.split(key, timestep.terminated.shape[0])
        return jax.vmap(act_alone)(keys, carry, state, timestep)


class _OnBase:
    """A planner for a whole batch at once, which goes by what problems hold; what else is drawn, it does not see.

    One by one, as baselines are played, it would plan at every step: a condition that is mapped takes both ways.
    """

    def __init__(self, make: Callable[[Environment], Actor], env: Randomized):
        self.planner = make(env.base)

    def init(self, num_envs: int) -> Carry:
        """What the planner remembers."""
        return self.planner.init(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: RandomizedState, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        return self.planner.act(key, carry, state.base, timestep)

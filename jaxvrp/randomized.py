"""Environments that draw parameters and sizes for each episode: one policy for many fleets, in one program."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.actor import Actor, Carry
from jaxvrp.card import Card, Padding
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, Instance, State, TimeStep, require_environment
from jaxvrp.episodes import Episode
from jaxvrp.io.messages import nearest, shown
from jaxvrp.memory import Memory, RememberingEnvironment, memory_of
from jaxvrp.players import Players, Search, Searched
from jaxvrp.registry import card_of, name_of, players_of, toolbox_of
from jaxvrp.spaces import ByRole
from jaxvrp.toolbox import Toolbox
from jaxvrp.turns import Choose, TurnBasedEnvironment, Turns

Ranges = dict[str, tuple[float, float]]
"""Least and greatest value, by the name of a field of the environment."""

T = TypeVar("T")

Drawn = dict[str, jax.Array]
"""The values drawn for an episode, `f32[]` each (sizes too), by the name of a field of the environment."""

DRAW = 0x7A0D0312
"""Folded into the key of a problem to draw its parameters; problems themselves fold and split small numbers."""

RANGES, FIRST_RANGES = "randomize.", "randomize_from."
"""Stand before the name of a parameter in messages, as on the command line."""


class RandomizedInstance(struct.PyTreeNode):
    """A problem of the base environment, and the parameters that it is played with."""

    problem: Instance
    drawn: Drawn


class RandomizedState(struct.PyTreeNode):
    """A state of the base environment, and the parameters of its episode, which stay the same to its end."""

    base: State
    drawn: Drawn


def _property_of_base(name: str) -> Any:
    return property(lambda self: getattr(self.base, name), doc="That of the base environment.")


def _function_of_base(name: str) -> Any:
    """A function of a state: that of the base environment with the parameters of the episode."""

    def call(self: Randomized, state: RandomizedState) -> Any:
        return getattr(self.of(state), name)(state.base)

    call.__name__, call.__doc__ = name, getattr(Environment, name).__doc__
    return call


class Randomized(RememberingEnvironment):
    """An environment with parameters and sizes that `generate` draws; made by `randomize`.

    Each is uniform in its range: a parameter over the interval, a size over the whole numbers in it.

    All else is the base environment, with its leaves replaced by the drawn values; so agents see the same as there.
    Problems are those that the base environment generates from the same keys with these parameters; beyond a drawn
    size they are void.

    Attributes:
        base: the environment; its own values count for what is not drawn.
        ranges: see `Ranges`.
        paddings: of the sizes among them.
        first_ranges: the ranges at first, by the same names; `memory` moves them linearly to `ranges`. None if nothing
            moves.
        num_steps: steps of an environment in which they move there.
        progress: the share of that way, from 0 to 1, `f32[]`.
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
    extras = _property_of_base("extras")

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

    def fallback(self, mask: ByRole) -> ByRole:
        """That of the base environment."""
        return self.base.fallback(mask)

    @property
    def memory(self) -> Memory | None:
        """The base environment's, and the steps so far (`i32[]`), which move the ranges; None if there is neither.

        The steps are the same on all devices, since these play in lockstep.
        """
        of_base = memory_of(self.base)
        if of_base is None and self.first_ranges is None:
            return None
        if of_base is None:
            of_base = Memory((), lambda nothing, _: nothing, lambda _: self.base, lambda nothing, _: nothing)
        remembered, merge = of_base, of_base.merge

        def apply(content: Any) -> Randomized:
            progress = jnp.minimum(content[1] / self.num_steps, 1.0)
            return dataclasses.replace(self, base=remembered.apply(content[0]), progress=progress)

        return Memory(
            initial=(remembered.initial, jnp.zeros((), jnp.int32)),
            update=lambda content, states: (remembered.update(content[0], states.base), content[1] + 1),
            apply=apply,
            merge=merge and (lambda content, axis: (merge(content[0], axis), content[1])),
        )

    def generate(self, key: jax.Array) -> RandomizedInstance:
        """Parameters and sizes, and a problem of the base environment with these."""
        drawn = self._draw(jax.random.fold_in(key, DRAW))
        problem = self._with(drawn).generate(key)
        for name, padding in self.paddings:
            problem = padding.void_beyond(problem, drawn[name].astype(jnp.int32))
        return RandomizedInstance(problem, drawn)

    def _draw(self, key: jax.Array) -> Drawn:
        names, multiples = sorted(self.ranges), {name: padding.multiple for name, padding in self.paddings}
        uniform, drawn = jax.random.uniform(key, (len(names),), jnp.float32), {}
        for i, name in enumerate(names):  # sorted, as a dictionary is that went through a program
            low, high = self._present_range(name)
            if name in multiples:
                least, most = (jnp.round(bound / multiples[name]) for bound in (low, high))
                count = jnp.minimum(least + jnp.floor(uniform[i] * (most - least + 1)), most)
                drawn[name] = multiples[name] * count
            else:
                drawn[name] = jnp.clip(low + uniform[i] * (high - low), low, high)
        return drawn

    def _present_range(self, name: str) -> tuple[jax.Array, jax.Array]:
        """The range as far as it has moved; exact at both ends."""
        low, high = (jnp.asarray(bound, jnp.float32) for bound in self.ranges[name])
        if self.first_ranges is None:
            return low, high
        first_low, first_high = self.first_ranges[name]
        done, to_do = self.progress, 1 - self.progress
        return to_do * first_low + done * low, to_do * first_high + done * high

    def init_state(self, instance: RandomizedInstance) -> RandomizedState:
        """The beginning of an episode with these parameters."""
        return RandomizedState(self.of(instance).init_state(instance.problem), instance.drawn)

    def transition(self, state: RandomizedState, action: ByRole, num_invalid: jax.Array) -> RandomizedState:
        """One step of the base environment; the parameters stay."""
        return state.replace(base=self.of(state).transition(state.base, action, num_invalid))


class RandomizedTurns(Randomized, TurnBasedEnvironment):
    """`Randomized`, where the agents of the base environment move one after another."""

    def take_turns(self, state: RandomizedState, choose: Choose) -> tuple[RandomizedState, Turns]:
        """As the base environment."""
        env = self.of(state)
        assert isinstance(env, TurnBasedEnvironment)
        moved, turns = env.take_turns(state.base, choose)
        return state.replace(base=moved), turns


@seen_as.register
def _base_seen_as(env: Randomized, kind: Literal["flat", "entities"]) -> Randomized:
    return dataclasses.replace(env, base=seen_as(env.base, kind))


@toolbox_of.register
def _toolbox_of_base(env: Randomized) -> Toolbox:
    """The toolbox of the base environment, where each episode has its own parameters."""
    toolbox = toolbox_of(env.base)
    view = toolbox.view
    if view:
        names = [name for name in ("export", "draw", "record_steps") if getattr(view, name)]
        of_base: dict[str, Any] = {name: _on_base(getattr(view, name)) for name in names}
        view = dataclasses.replace(view, **of_base)
    return dataclasses.replace(toolbox, story=toolbox.story and _on_base(toolbox.story), view=view, still=None)


@card_of.register
def _card_of_base(env: Randomized) -> Card:
    return card_of(env.base)


@players_of.register
def _players_of_base(env: Randomized) -> Players:
    """The players of the base environment, where each episode has its own parameters.

    Left out are searches of many problems at once, which have the same parameters, and looking ahead with a policy.
    """
    players = players_of(env.base)
    return dataclasses.replace(
        players,
        baselines={name: functools.partial(_OneByOne, make) for name, make in players.baselines.items()},
        planners={name: functools.partial(_OnBase, make) for name, make in players.planners.items()},
        searches={name: functools.partial(_search_of_base, search) for name, search in players.searches.items()},
        searches_all={},
        lookahead=None,
        tidied=players.tidied and _on_base(players.tidied),
        forms=lambda env: [dataclasses.replace(env, base=form) for form in players.forms(env.base)],
    )


def _search_of_base(
    search: Search, env: Randomized, instance: RandomizedInstance, key: jax.Array, stop: Any, **options: Any
) -> Iterator[Searched]:
    """A search of the base environment, on the problem and with the parameters that were drawn."""
    return search(env.of(instance), instance.problem, key, stop, **options)


@name_of.register
def _name_of_base(env: Randomized) -> str:
    return name_of(env.base)


def _on_base(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of episodes of a base environment, for those of randomised ones."""

    def call(episode: Episode, *rest: Any) -> Any:
        first: RandomizedState = jax.tree.map(lambda leaf: leaf[0], episode.states)
        problem = None if episode.instance is None else episode.instance.problem
        of_base = episode.replace(env=episode.env.of(first), instance=problem, states=episode.states.base)
        return function(of_base, *rest)

    return call


class _OneByOne:
    """A baseline that plays every environment of a batch by itself, with the parameters of its episode."""

    def __init__(self, make: Callable[[Environment], Actor], env: Randomized):
        self.make, self.env = make, env

    def init(self, num_envs: int) -> Carry:
        """The baseline's beginning, once for each environment."""
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
    """A planner for a whole batch at once: it reads the problems, and not the other drawn parameters.

    One by one, as baselines are played, it would plan at every step: a condition that is mapped takes both ways.
    """

    def __init__(self, make: Callable[[Environment], Actor], env: Randomized):
        self.planner = make(env.base)

    def init(self, num_envs: int) -> Carry:
        """See `Actor.init`."""
        return self.planner.init(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: RandomizedState, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        return self.planner.act(key, carry, state.base, timestep)


def randomize(
    env: Environment,
    ranges: Mapping[str, Any],
    *,
    first_ranges: Mapping[str, Any] | None = None,
    num_steps: float = 1.0,
) -> Environment:
    """The environment with parameters and sizes that are drawn for each episode, uniform in their ranges.

    Args:
        env: the environment; its own values count for what is not drawn.
        ranges: `{parameter: [least, greatest]}`, both included, by keyword; {} gives the environment itself. Sizes are
            those with a padding on the environment's card, up to the environment's own.
        first_ranges: the ranges of some of them at first. From there the bounds move linearly to those of `ranges`
            with the steps of `VecEnv`; a pool is drawn from where its steps so far have brought them.
        num_steps: steps of each environment in which they move there.

    Raises:
        ValueError: an unknown parameter, one that cannot be drawn, an invalid range, or a number of steps that is not
            above 0; one line.
        TypeError: a bound of the wrong type, or what is no environment.
    """
    require_environment(env)
    first_ranges = first_ranges or {}
    if alone := [name for name in first_ranges if name not in ranges]:
        raise ValueError(
            f"{FIRST_RANGES}{alone[0]} is a range to begin with, and {RANGES}{alone[0]}, where it ends, is missing; "
            "give both"
        )
    if not (_is_finite(num_steps) and num_steps > 0):
        raise ValueError(f"num_steps is {shown(num_steps)}; it must be a finite number above 0")
    if not ranges:
        return env
    kind = RandomizedTurns if isinstance(env, TurnBasedEnvironment) else Randomized
    checked, paddings = _checked(env, ranges, RANGES), card_of(env).paddings
    return kind(
        env,
        ranges=checked,
        first_ranges={**checked, **_checked(env, first_ranges, FIRST_RANGES)} if first_ranges else None,
        num_steps=float(num_steps),
        paddings=tuple((name, paddings[name]) for name in checked if name in paddings),
    )


def _checked(env: Environment, ranges: Mapping[str, Any], prefix: str) -> Ranges:
    """The ranges by name of field; `prefix` stands before names in messages."""
    known = {fields.keyword(field): field for field in dataclasses.fields(env)}
    paddings, can_be = card_of(env).paddings, drawable(env)
    for name, bounds in ranges.items():
        if name not in known:
            raise ValueError(f"unknown parameter {shown(prefix + name)}; {nearest(name, can_be)}")
        if name not in can_be:
            raise ValueError(f"{prefix}{name} cannot be drawn: {_why_not(known[name])}; these can: {', '.join(can_be)}")
        _check_order(prefix + name, bounds)
        if name in paddings:
            _check_size(prefix, known[name], bounds, getattr(env, name), paddings[name])
    lows, highs = ({name: bounds[end] for name, bounds in ranges.items() if name not in paddings} for end in (0, 1))
    # What must not be above another parameter is drawn apart from it: it may be the greatest, and that the least.
    for values in (lows, highs, *(lows | {name: most} for name, most in highs.items())):
        fields.replace(env, values, "parameter", prefix)
    return {known[name].name: (float(low), float(high)) for name, (low, high) in ranges.items()}


def drawable(env: Environment) -> list[str]:
    """The parameters that can be drawn, by keyword: those that are single numbers, and sizes with a padding."""
    hints, paddings = fields.type_hints(type(env)), card_of(env).paddings

    def can_be_drawn(field: dataclasses.Field) -> bool:
        is_number = hints[field.name] is float and field.metadata.get("pytree_node", True)
        return field.name in paddings or is_number

    return [fields.keyword(field) for field in dataclasses.fields(env) if can_be_drawn(field)]


def _why_not(field: dataclasses.Field) -> str:
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        return "it is a size, and no instance is padded up to it"
    return "it is no number, but says of what kind the environment is"


def _check_size(prefix: str, field: dataclasses.Field, bounds: Any, largest: int, padding: Padding) -> None:
    """Refuse a range of a size that is not of whole numbers from its least value to the environment's own."""
    name = fields.keyword(field)
    of = "whole numbers" if padding.multiple == 1 else f"multiples of {padding.multiple}"
    least = max(field.metadata["range"].minimum, padding.multiple)
    if any(bound % padding.multiple for bound in bounds) or bounds[0] < least:
        raise ValueError(f"{prefix}{name} is {shown(bounds)}; it must be two {of}, {least} or more")
    if bounds[1] > largest:
        raise ValueError(
            f"{prefix}{name} is {shown(bounds)}, and instances are padded up to env.{name}, which is {largest}; set "
            f"env.{name} to {int(bounds[1])}, or lower the range"
        )


def _check_order(name: str, bounds: Any) -> None:
    """Refuse what is not two finite numbers in order."""
    is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2
    if is_pair and all(_is_finite(bound) for bound in bounds) and bounds[0] <= bounds[1]:
        return
    raise ValueError(f"{name} is {shown(bounds)}; it must be two finite numbers in order, for example [0.5, 1.5]")


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and (isinstance(value, numbers.Integral) or math.isfinite(value))

"""Who plays an environment besides policies: baselines, planners, and searches of whole episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.actor import Actor
from jaxvrp.episodes import Episode

GREEDY = "greedy"
"""The strongest simple baseline of every environment that has one, whatever else it is called."""


class Searched(NamedTuple):
    """The best plan that a search has found so far.

    Attributes:
        seconds: since it began, without compilation.
        cost: of the episode, see `Players.cost`, or what the search minimises where the plan says its `cost`.
        actions: of an episode from its beginning, `{role: [T, agents, ...]}`.
        episode: makes the episode, if playing `actions` does not lead to it; else None.
        figures: at its end, by names of `Environment.metrics`, as far as they are known.
    """

    seconds: float
    cost: float
    actions: dict[str, np.ndarray]
    episode: Callable[[], Episode] | None = None
    figures: Mapping[str, Any] = MappingProxyType({})


Search = Callable[[Any, Any, jax.Array, float], Iterator[Searched]]
"""`(env, instance, key, seconds)`: plans one episode for that time; yields the best so far, at least once."""


class SearchedAll(NamedTuple):
    """The best that a search has found so far for each problem of a batch `[B]`.

    Attributes:
        seconds: since it began, without compilation.
        cost: `f32[B]`, of the episodes.
        actions: of episodes from their beginning, `{role: [B, T, agents, ...]}`.
        episode: makes the episode of a problem, by its row, if playing `actions` does not lead to it; else None.
    """

    seconds: float
    cost: np.ndarray
    actions: dict[str, np.ndarray]
    episode: Callable[[int], Episode] | None = None


def least(cost: jax.Array) -> jax.Array:
    """`i32[...]`: the first of the least costs `f32[K, ..., B]`, of which the first part that differs decides."""
    return jnp.lexsort(cost[::-1], axis=-1)[..., 0]


SearchAll = Callable[[Any, Any, jax.Array, float], Iterator[SearchedAll]]
"""`(env, instances [B], key, seconds)`: plans an episode of each instance in one program, in `seconds` in all."""


@dataclasses.dataclass(frozen=True)
class Players:
    """The players of an environment; every part is optional.

    Attributes:
        baselines: by name, `env -> Actor`: the opponents of a learned policy, besides random play; the
            strongest comes first, and `greedy` is another name of it, see `full_name`. The parameters of `env` may be
            traced: one program plays problems of one size, whatever their parameters.
        repeated: `env -> names` of the baselines that play there as another one does, and are no players there.
        planners: likewise, slower ones that plan whole episodes when these begin. They can be imitated and compared
            with, but are not played in the table at the end of a training.
        lookahead: `(env, policy) -> planner` that continues with a policy; None if there is none.
        searches: by name, anytime planners of one episode; the first is the best choice.
        searches_all: by the same names, those that can plan many episodes in one program.
        cost: `(env, state, return) -> f32[K]`, the cost of an episode by its last state and its return, in parts that
            add up to it. Less is better: the first part that differs decides. Infinite if it is worth nothing; None:
            minus the return.
        tidied: `episode -> (cost, episode)` without what gains nothing, for plans that are kept if they cost no more.
        forms: `env -> environments` with the same instances but other decision times, `env` among them. A player that
            was not trained plays in the form in which its mean return is highest.
    """

    baselines: Mapping[str, Callable[[Any], Actor]] = dataclasses.field(default_factory=dict)
    repeated: Callable[[Any], Collection[str]] = lambda env: ()
    planners: Mapping[str, Callable[[Any], Actor]] = dataclasses.field(default_factory=dict)
    lookahead: Callable[[Any, Actor], Actor] | None = None
    searches: Mapping[str, Search] = dataclasses.field(default_factory=dict)
    searches_all: Mapping[str, SearchAll] = dataclasses.field(default_factory=dict)
    cost: Callable[[Any, Any, jax.Array], jax.Array] | None = None
    tidied: Callable[[Episode], tuple[float, Episode]] | None = None
    forms: Callable[[Any], Sequence[Any]] = lambda env: (env,)

    def of(self, env: Any) -> Self:
        """These players without the baselines that only repeat another one in an environment."""
        repeated = self.repeated(env)
        different = {name: make for name, make in self.baselines.items() if name not in repeated}
        return dataclasses.replace(self, baselines=different) if repeated else self

    def full_name(self, player: str) -> str:
        """The name of a player in tables: that of the first baseline for `greedy`, else the same name."""
        return next(iter(self.baselines), player) if player == GREEDY else player

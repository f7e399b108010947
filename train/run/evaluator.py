"""Playing the fixed instances of a run: figures of any actor on whole episodes, and one recorded episode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.environment import select
from jaxvrp.episodes import Episode, play_episodes, record_episode, record_rows
from train.learning.learner import Learner
from train.run.metrics import by_agent
from train.run.progress import Episodes

Figures = dict[str, Any]

Program = Callable[..., Any]


class Evaluator:
    """Plays fixed instances with any actor; their seed is not the training seed."""

    def __init__(self, env: Environment, num_episodes: int, seed: int):
        """Nothing is played yet."""
        self.env, self.num_episodes, self.seed = env, num_episodes, seed

    def instances(self) -> Any:
        """The fixed instances, leading axis `[num_episodes]`."""
        return jax.vmap(self.env.generate)(jax.random.split(jax.random.key(self.seed), self.num_episodes))

    def play(self, actor: Actor, best_of: int = 1) -> dict[str, jax.Array]:
        """Mean figures of an actor, of its best of several tries on each instance; pure, to be jitted by the caller."""
        keys = self.keys(best_of)
        best = self.attempt(actor, keys[0])

        def retry(best: dict[str, jax.Array], key: jax.Array) -> tuple[dict[str, jax.Array], None]:
            return better(best, self.attempt(actor, key)), None

        if best_of > 1:
            best, _ = jax.lax.scan(retry, best, keys[1:])
        return mean_figures(self.env, best)

    def attempt(self, actor: Actor, key: jax.Array) -> dict[str, jax.Array]:
        """Figures `f32[num_episodes]` of one try on each instance; pure."""
        return play_episodes(self.env, actor, self.instances(), key)

    def keys(self, best_of: int) -> jax.Array:
        """The keys of so many tries, `[best_of]`."""
        key = jax.random.fold_in(jax.random.key(self.seed), self.num_episodes)
        return jnp.concatenate([key[None], jax.random.split(key, best_of - 1)]) if best_of > 1 else key[None]

    def baseline_programs(self) -> dict[str, list[Program]]:
        """By name, jitted programs that play the baselines of the environment, and random play at the end.

        Each plays in all forms of the environment (`Players.forms`).
        """
        forms = [Evaluator(env, self.num_episodes, self.seed) for env in registry.players_of(self.env).forms(self.env)]
        return {
            name: [jax.jit(functools.partial(form.play, baseline_actors(form.env)[name])) for form in forms]
            for name in baseline_actors(self.env)
        }

    def baselines(
        self, episodes: Episodes | None = None, programs: Mapping[str, Sequence[Program]] | None = None
    ) -> dict[str, Figures]:
        """Figures of the baselines, by name; of the forms in which each plays, that with the highest return counts.

        `episodes` shows the name of the player, and is advanced; `programs` are those of `baseline_programs`, if they
        are compiled already.
        """
        figures = {}
        for name, played in (programs or self.baseline_programs()).items():
            if episodes:
                episodes.begin(name)
            figures[name] = max((to_host(play()) for play in played), key=lambda each: each["return"])
            if episodes:
                episodes.advance(self.num_episodes)
        return figures

    def record(self, actor: Actor, index: int = 0) -> Episode:
        """The episode on instance `index` of an actor that draws nothing, see `record_episode`; pure."""
        instance = jax.tree.map(lambda leaf: leaf[index], self.instances())
        return record_episode(self.env, actor, instance, jax.random.key(self.seed))


def baseline_actors(env: Environment) -> dict[str, Actor]:
    """What a policy is compared with, by name: the baselines of the environment, and random play."""
    baselines = registry.players_of(env).baselines
    return {**{name: make_actor(env) for name, make_actor in baselines.items()}, "random": RandomActor(env)}


def mean_figures(env: Environment, metrics: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Means `f32[]` over episodes of metrics `[episodes]`, under the names that the headlines give to them.

    Of a metric `[episodes, agents]` there is a mean for each agent, see `train.run.metrics.by_agent`.
    """
    names = {headline.metric: headline.figure for headline in registry.card_of(env).headlines}
    means: dict[str, jax.Array] = {}
    for name, value in metrics.items():
        means |= by_agent(names.get(name, name), value.mean(axis=0))
    return {names.get(name, name): mean for name, mean in means.items()}


def evaluation_function(
    learner: Learner, evaluator: Evaluator, *, deterministic: bool = True, temperature: float = 1.0
) -> Callable[[Any], dict[str, jax.Array]]:
    """A jitted function from `actor_params` to mean figures; with a leading axis `[seeds]` if there are several."""

    def play(params: Any) -> dict[str, jax.Array]:
        return evaluator.play(learner.actor(params, deterministic=deterministic, temperature=temperature))

    return jax.jit(jax.vmap(play) if learner.config.num_seeds > 1 else play)


def best_of_tries(
    learner: Learner, params: Any, evaluator: Evaluator, best_of: int, episodes: Episodes, *, temperature: float = 1.0
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Mean figures of a policy's best of several sampled tries on each instance; with `[seeds]` if there are several.

    And which of the tries that was, `i32[episodes]`, likewise. The figures are those of `Evaluator.play`, by one
    program that is called for each try, so that `episodes` can be advanced between.
    """

    def play(params: Any, key: jax.Array) -> dict[str, jax.Array]:
        return evaluator.attempt(learner.actor(params, deterministic=False, temperature=temperature), key)

    num_seeds = learner.config.num_seeds
    attempt = jax.jit(jax.vmap(play, in_axes=(0, None)) if num_seeds > 1 else play)
    best: dict[str, jax.Array] | None = None
    returns = []
    for key in evaluator.keys(best_of):
        figures = jax.block_until_ready(attempt(params, key))
        returns.append(figures["return"])
        best = figures if best is None else better(best, figures)
        episodes.advance(evaluator.num_episodes * num_seeds)
    assert best is not None
    means = functools.partial(mean_figures, evaluator.env)
    return (jax.vmap(means) if num_seeds > 1 else means)(best), jnp.argmax(jnp.stack(returns), axis=0)


def better(best: dict[str, jax.Array], figures: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Figures `f32[..., episodes]`, of each instance those of the higher return; of the same, the earlier."""
    return select(figures["return"] > best["return"], figures, best)


def recording_function(
    learner: Learner, evaluator: Evaluator, *, key: jax.Array | None = None, temperature: float = 1.0
) -> Callable[[Any], Episode]:
    """A jitted function from `actor_params` of one seed to the episode on the first fixed instance.

    That of the most probable actions, or of the sampled try with this key.
    """

    def record(params: Any) -> Episode:
        actor = learner.actor(params, deterministic=key is None, temperature=temperature)
        if key is None:
            return evaluator.record(actor)
        return record_rows(evaluator.env, actor, evaluator.instances(), key, 0)

    return jax.jit(record)


def first_seed(learner: Learner, params: Any) -> Any:
    """The parameters of the first seed, if the learner has several."""
    return jax.tree.map(lambda leaf: leaf[0], params) if learner.config.num_seeds > 1 else params


def to_host(figures: dict[str, jax.Array]) -> Figures:
    """Python numbers, and lists where there are seeds."""
    return {name: np.asarray(value).tolist() for name, value in jax.device_get(figures).items()}

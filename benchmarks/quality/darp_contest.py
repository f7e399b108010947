"""Players of dial-a-ride on the same instances: whole plans, each checked by `solution_report` and replayed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Seconds, called, progress, seconds_of, timed
from benchmarks.quality.baselines import SEED
from benchmarks.quality.seeds import by_seed, cell
from jaxvrp import TimeStep
from jaxvrp.actor import Actor
from jaxvrp.envs.darp import Darp, Instance, routes_to_actions, solution_report
from jaxvrp.envs.darp.baselines.solvers import solve_ortools, solve_pyvrp
from jaxvrp.episodes import record_episodes
from jaxvrp.spaces import ByRole
from train.running.folder.run_folder import Trained

SOLVERS: dict[str, Callable[..., list[list[int]]]] = {"pyvrp": solve_pyvrp, "ortools": solve_ortools}
TITLES = {"pyvrp": "PyVRP", "ortools": "OR-Tools"}
AT_ONCE = 16
"""Tries of one instance that are played side by side."""

OVERALL = ("player", "feasible", "mean gap of these", "greatest", "s/instance", "CPU s/instance")
HEAD = (
    "player",
    "instances",
    "cost",
    "gap",
    "feasible",
    "served",
    "vehicles",
    "s/instance",
    "CPU s/instance",
    "replayed",
)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a player did on the n instances.

    Attributes:
        actions: `i32[n, N+V]`, the plans.
        seconds: per instance, without compilation.
        cost: `f64[n]`, distance and penalties for unvisited nodes.
        distance: `f64[n]`.
        feasible: `bool[n]`, nothing is violated, nobody unserved.
        served: `f64[n]`, share of the requests.
        vehicles: `i64[n]`, how many leave the depot.
    """

    actions: np.ndarray
    seconds: Seconds
    cost: np.ndarray
    distance: np.ndarray
    feasible: np.ndarray
    served: np.ndarray
    vehicles: np.ndarray


def play(env: Darp, actor: Actor, instances: Instance, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `i32[E, N+V]` of whole episodes, 0 after their end, and their returns `f32[E]`."""

    def kept(action: ByRole, state: Any, timestep: TimeStep) -> tuple[jax.Array, jax.Array, jax.Array]:
        return action["vehicle"][:, 0], timestep.reward["vehicle"][:, 0], timestep.done

    _, (actions, rewards, ended) = record_episodes(env, actor, instances, key, kept)
    # What an actor chooses after the end is part of no plan: no vehicle is left to do it.
    was_over = jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])
    return jnp.where(was_over, 0, actions).T, rewards.sum(axis=0)


@dataclasses.dataclass(frozen=True)
class Standing:
    """How a player did on several contests.

    Attributes:
        feasible: `bool[n]`, of all their instances.
        gap: `f64[n]`, above the reference.
        seconds: of all together.
    """

    feasible: np.ndarray
    gap: np.ndarray
    seconds: Seconds


def play_best(env: Darp, actor: Actor, instances: Instance, key: jax.Array, tries: int) -> jax.Array:
    """Actions `i32[E, N+V]` of the best of several tries on each instance."""
    count = instances.demand.shape[0]
    together = max(1, min(tries, AT_ONCE // count))
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, together, axis=0), instances)

    def attempt(best: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        actions, gained = play(env, actor, repeated, key)
        actions, gained = actions.reshape(count, together, -1), gained.reshape(count, together)
        pick = gained.argmax(axis=1)[:, None]
        actions, gained = jnp.take_along_axis(actions, pick[..., None], 1)[:, 0], jnp.max(gained, axis=1)
        better = gained > best[1]
        return (jnp.where(better[:, None], actions, best[0]), jnp.where(better, gained, best[1])), None

    nothing = jnp.zeros((count, env.max_episode_steps), jnp.int32), jnp.full(count, -jnp.inf, jnp.float32)
    return jax.lax.scan(attempt, nothing, jax.random.split(key, -(-tries // together)))[0][0]


def replayed(env: Darp, instances: Instance, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Total distance `f32[E]` of plans played in the environment, and how many actions it refused, `f32[E]`."""
    state, _ = jax.vmap(env.reset_to)(instances)

    def advance(state: Any, action: jax.Array) -> tuple[Any, None]:
        return jax.vmap(env.step)(state, {"vehicle": action[:, None]})[0], None

    state, _ = jax.lax.scan(advance, state, actions.T)
    metrics = jax.vmap(env.metrics)(state)
    return metrics["total_distance"], metrics["invalid_actions"]


class Contest:
    """Players on the same instances.

    Attributes:
        env: what is played.
        instances: a batch `[E]`, NumPy.
        optimum: `f64[E]`, known costs; None to compare with a solver, the first of `SOLVERS` that has played.
        results: by player; of a training with several seeds, each seed is one.
        rows_of: the names of the results in a row, by player; not of those that are a row by themselves.
        pools: likewise, by name, of rows behind these for players who have one each as well.
    """

    def __init__(self, env: Darp, instances: Instance, optimum: np.ndarray | None = None):
        self.env, self.instances, self.optimum = env, jax.device_get(instances), optimum
        self.results: dict[str, Result] = {}
        self.rows_of: dict[str, list[str]] = {}
        self.pools: dict[str, list[str]] = {}

    def learned(self, name: str, run: Trained, tries: int = 1, *, temperature: float | None = None) -> None:
        """Let each seed of a run play, its best of several tries; greedily without a temperature of its samples.

        It plays as it was trained, which masks more or less than `env` does; plans are judged by `env`.
        """
        env, learner = run.learner.env, run.learner
        assert isinstance(env, Darp)

        def plan(params: Any, shown: Instance, key: jax.Array) -> jax.Array:
            actor = learner.actor(params, deterministic=temperature is None, temperature=temperature or 1.0)
            return play_best(env, actor, shown, key, tries)

        seeds = by_seed(learner, run.params)
        instances = jax.tree.map(jnp.asarray, self.instances)
        compiled = jax.jit(plan).lower(seeds[0], instances, jax.random.key(SEED)).compile()
        names = [name] if len(seeds) == 1 else [f"{name}, seed {seed}" for seed in range(len(seeds))]
        for each, params in zip(names, seeds, strict=True):
            plans, seconds = seconds_of(functools.partial(called, compiled, params, instances, jax.random.key(SEED)))
            self.results[each] = self._judged(jax.device_get(plans), seconds.per(len(plans)))
        if len(seeds) > 1:
            self.rows_of[name] = names

    def pool(self, name: str, players: Sequence[str]) -> None:
        """A further row, of what several players did together: the seeds of one training."""
        self.pools[name] = [result for player in players for result in self.rows_of.get(player, [player])]

    def act(self, name: str, actor: Actor, tries: int = 1) -> None:
        """Let an actor play: its best of several tries on each instance counts."""
        self._batched(name, lambda: play_best(self.env, actor, self.instances, jax.random.key(SEED), tries))

    def solve(self, solver: str, seconds: float) -> None:
        """Let an outside solver (a key of `SOLVERS`) plan the instances, one after the other."""
        count, penalty = self.instances.demand.shape[0], float(self.env.penalty_unvisited)
        indices = progress(range(count), "instance", desc=solver, leave=False)
        routes, taken = seconds_of(
            lambda: [SOLVERS[solver](self._instance(i), seconds=seconds, penalty=penalty) for i in indices]
        )
        plans = [routes_to_actions(plan, self.env.num_agents) for plan in routes]
        steps = self.env.max_episode_steps
        self._add(solver, np.stack([np.pad(plan, (0, steps - len(plan))) for plan in plans]), taken.per(count))

    def _batched(self, name: str, plan: Callable[[], jax.Array]) -> None:
        actions, seconds = timed(plan)
        self._add(name, actions, seconds.per(len(actions)))

    def _instance(self, index: int) -> Instance:
        return jax.tree.map(lambda leaf: leaf[index], self.instances)

    def _add(self, name: str, actions: np.ndarray, seconds: Seconds) -> None:
        self.results[name] = self._judged(actions, seconds)

    def _judged(self, actions: np.ndarray, seconds: Seconds) -> Result:
        reports = [solution_report(self._instance(i), plan) for i, plan in enumerate(actions)]
        requests = np.count_nonzero(self.instances.demand[: len(actions), 1::2], axis=1)
        served = np.array([sum(map(_num_served, report.routes)) for report in reports])
        distance = np.array([report.cost for report in reports])
        unvisited = np.array([report.violations["unserved"].count for report in reports])
        return Result(
            actions=actions,
            seconds=seconds,
            cost=distance + float(self.env.penalty_unvisited) * unvisited,
            distance=distance,
            feasible=np.array([report.feasible for report in reports]),
            served=served / np.maximum(requests, 1),
            vehicles=np.array([sum(map(bool, report.routes)) for report in reports]),
        )

    def reference(self) -> np.ndarray:
        """Costs to compare with; empty if there are none."""
        if self.optimum is not None:
            return self.optimum
        solver = self._solver()
        return self.results[solver].cost if solver else np.zeros(0)

    def reference_name(self) -> str:
        """Whose costs those are; empty if there are none."""
        if self.optimum is not None:
            return "the best known cost"
        solver = self._solver()
        return TITLES[solver] if solver else ""

    def _solver(self) -> str | None:
        return next((solver for solver in SOLVERS if solver in self.results), None)

    def gap(self, name: str) -> float:
        """How much dearer a player is than the reference; nan without one."""
        known = self.reference()
        return float(self.results[name].cost.sum() / known.sum() - 1) if len(known) else float("nan")

    def standing(self, name: str) -> Standing:
        """How a player did on each instance; gaps are nan without a reference."""
        result, known = self.results[name], self.reference()
        gap = result.distance / known - 1 if len(known) else np.full(len(result.cost), np.nan)
        count = len(result.cost)
        return Standing(result.feasible, gap, Seconds(result.seconds.wall * count, result.seconds.cpu * count))

    def each_instance(self, names: Sequence[str]) -> list[list[str]]:
        """A table with a row for each instance, and a column for each player: its gap, or what is wrong."""
        return [["instance", *self.results], *([name, *self._verdicts(i)] for i, name in enumerate(names))]

    def _verdicts(self, index: int) -> list[str]:
        """Of each player, on one instance: the gap of a feasible plan, else the nodes that are not served."""
        words = []
        for name, result in self.results.items():
            unserved = (result.cost[index] - result.distance[index]) / float(self.env.penalty_unvisited)
            gap = f"{100 * self.standing(name).gap[index]:+.2f} %"
            words.append(gap if result.feasible[index] else f"{unserved:.0f} unserved")
        return words

    def players(self) -> dict[str, list[str]]:
        """The names of the results in each row, by player."""
        merged = {name: player for player, names in self.rows_of.items() for name in names}
        rows = {
            player: self.rows_of.get(player, [player]) for player in (merged.get(name, name) for name in self.results)
        }
        return rows | self.pools

    def figures(self) -> dict[str, dict[str, list[float]]]:
        """Means over the instances, of each player, of each seed."""
        return {
            player: {
                "cost": [float(self.results[name].cost.mean()) for name in names],
                "gap": [self.gap(name) for name in names],
                "feasible": [float(self.results[name].feasible.mean()) for name in names],
                "served": [float(self.results[name].served.mean()) for name in names],
                "vehicles": [float(self.results[name].vehicles.mean()) for name in names],
                "seconds": [self.results[name].seconds.wall for name in names],
                "cpu_seconds": [self.results[name].seconds.cpu for name in names],
            }
            for player, names in self.players().items()
        }

    def rows(self) -> list[list[str]]:
        """A row for each player, under `HEAD`; of several seeds, the mean and its interval."""
        return [self._row(player, figures) for player, figures in self.figures().items()]

    def _row(self, player: str, figures: dict[str, list[float]]) -> list[str]:
        names = self.players()[player]
        count = len(self.results[names[0]].cost)
        wall, cpu = (sum(figures[kind]) / len(names) for kind in ("seconds", "cpu_seconds"))
        fleets = np.concatenate([self.results[name].vehicles for name in names])
        return [
            player,
            str(count),
            cell(figures["cost"], ".2f"),
            "-" if np.isnan(figures["gap"]).any() else cell(figures["gap"], "+.2f", percent=True),
            cell(figures["feasible"], ".1f", percent=True),
            cell(figures["served"], ".2f", percent=True),
            f"{cell(figures['vehicles'], '.2f')} ({fleets.min()} to {fleets.max()})",
            f"{wall:.2g}",
            f"{cpu:.2g}",
            f"{sum(map(self.num_replayed, names))}/{count * len(names)}",
        ]

    def num_replayed(self, name: str) -> int:
        """How many of a player's plans the environment plays as they are, at the cost that the report found."""
        result = self.results[name]
        actions = jnp.asarray(result.actions, jnp.int32)
        distance, refused = jax.device_get(jax.jit(replayed)(self.env, self.instances, actions))
        return int(np.count_nonzero((refused == 0) & np.isclose(distance, result.distance, rtol=1e-5)))


def overall(contests: Sequence[Contest]) -> list[list[str]]:
    """A row for each player, under `OVERALL`: how it did on all instances of the contests."""
    rows = []
    for player, names in contests[0].players().items():
        standings = [contest.standing(name) for contest in contests for name in names]
        feasible = np.concatenate([standing.feasible for standing in standings])
        gap = np.concatenate([standing.gap for standing in standings])[feasible]
        wall, cpu = (sum(getattr(standing.seconds, kind) for standing in standings) for kind in ("wall", "cpu"))
        gaps = [f"{100 * gap.mean():+.2f} %", f"{100 * gap.max():+.2f} %"] if len(gap) else ["-", "-"]
        count = len(feasible)
        rows.append([player, f"{feasible.sum()}/{count}", *gaps, f"{wall / count:.2g}", f"{cpu / count:.2g}"])
    return rows


def _num_served(route: tuple[int, ...]) -> int:
    """Requests with both ends in a route, in order."""
    return sum(node % 2 == 0 and node - 1 in route[:place] for place, node in enumerate(route))

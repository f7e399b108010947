"""A plan for a problem: how it is found, written and drawn, and what is said of it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp import show
from jaxvrp.episodes import Episode, follow
from jaxvrp.io.messages import cut, printable
from jaxvrp.orders import geojson
from jaxvrp.players import Searched, SearchedAll
from jaxvrp.search.found import Report, with_found
from jaxvrp.show.export import draw
from train.solving.problem import Problem, chosen

PAGE = ".html"
"""The ending of a plan that is a page."""

Progress = Callable[[Searched], None]


@dataclasses.dataclass(frozen=True)
class Solution:
    """A plan for a problem."""

    problem: Problem
    method: str
    cost: float  # of its episode, see `jaxvrp.Players.cost`; by default minus the return
    seconds: float  # after which a plan of this cost was found, infinite if the cost is
    searched_seconds: float  # how long the method looked for plans
    interrupted: bool  # whether Ctrl-C ended that
    words: str  # the cost, for people
    episode: Episode  # on the host
    plan: dict[str, Any]  # a JSON object; at least `cost`, `feasible`, `routes`, `method`, `seconds`

    def write(self, path: str | os.PathLike) -> None:
        """Write the plan, by the ending of the path; see `jaxvrp.Problems`. `.html` is a page that plays it."""
        if pathlib.Path(path).suffix.lower() == PAGE:
            self.write_page(path)
            return
        self.problem.problems.write_plan(self.problem.problem, path, self.plan)

    def write_page(self, path: str | os.PathLike) -> None:
        """Write one page, without other files, that plays the plan and has a sheet for each vehicle, to be printed."""
        problem, env = self.problem.problem, self.problem.env
        exported = show.export_episode(self.episode, problem)
        set_by_file = self.problem.problems.parameters(problem, env)  # the others are of instances that are drawn
        episode = {
            **exported,
            "config": {name: value for name, value in exported["config"].items() if name in set_by_file},
            "is_plan": True,
            "subtitle": f"plan by {self.method}, feasible: {verdict(self)}",
        }
        show.write_page(episode, path, sheets=self.problem.problems.sheets(problem, self.plan))

    def draw(self, path: str | os.PathLike) -> None:
        """Draw the plan."""
        draw(self.episode, path, self.problem.problem)


def solved(
    problem: Problem, *, seconds: float, method: str | None = None, seed: int = 0, progress: Progress | None = None
) -> Solution:
    """The best plan that a method finds in so many seconds; see `solve`."""
    method = chosen(problem, method)
    reports = problem.methods[method](jax.random.key(seed), seconds)
    best, found, interrupted = watched_to_the_end(reports, progress)
    episode = best.episode() if best.episode else follow(problem.env, problem.instance, best.actions)
    if problem.players.tidied:
        cost, tidied = problem.players.tidied(episode)
        if cost <= best.cost:
            figures = jax.tree.map(lambda leaf: leaf[-1], tidied.timesteps.metrics)
            best, episode = best._replace(cost=cost, figures=figures), tidied
    return solution_of(problem, method, best, float(found), episode, interrupted=interrupted)


def solved_together(
    batch: Problem,
    problems: Sequence[Any],
    method: str,
    seconds: float,
    seed: int,
    progress: Callable[[SearchedAll], None] | None,
) -> list[Solution]:
    """Solutions of `problems`, which `batch` holds padded, by a search for all of them."""
    search = batch.players.searches_all[method]
    reports = search(batch.env, batch.instance, jax.random.key(seed), seconds * len(problems))
    best, found, interrupted = watched_to_the_end(reports, progress)
    solutions = []
    for row, problem in enumerate(problems):
        instance, actions = jax.tree.map(lambda leaf, row=row: leaf[row], (batch.instance, best.actions))
        of_row = Searched(best.seconds, float(best.cost[row]), actions)
        episode = best.episode(row) if best.episode else follow(batch.env, instance, actions)
        of_problem = dataclasses.replace(batch, problem=problem)
        solutions.append(solution_of(of_problem, method, of_row, float(found[row]), episode, interrupted=interrupted))
    return solutions


def watched_to_the_end(
    reports: Iterable[Report], progress: Callable[[Report], None] | None
) -> tuple[Report, np.ndarray, bool]:
    """The last report of a search, when its cost was found (see `with_found`), and whether Ctrl-C ended the search.

    Raises:
        KeyboardInterrupt: there was no report yet.
    """
    last: tuple[Report, np.ndarray] | None = None
    interrupted = False
    try:
        for last in with_found(reports):
            if progress:
                progress(last[0])
    except KeyboardInterrupt:
        if last is None:
            raise
        interrupted = True
    assert last is not None
    best, found = last
    return best, found, interrupted


def solution_of(
    problem: Problem, method: str, best: Searched, found: float, episode: Episode, *, interrupted: bool
) -> Solution:
    """The solution that an episode is, found after so many seconds."""
    episode = jax.device_get(episode)
    plan = problem.problems.plan(problem.problem, episode)
    if np.isfinite(best.cost) and "cost" in plan:
        # A checker does not know the reward of an environment that is derived from its own.
        is_return = np.isclose(plan["cost"], -np.asarray(episode.timesteps.team_reward).sum(), rtol=1e-5)
        best = best._replace(cost=plan["cost"]) if is_return else best
    cost, seconds = (value if np.isfinite(value) else None for value in (best.cost, found))
    card = {"cost": cost, "method": method, "seconds": seconds, "searched_seconds": best.seconds}
    words = cost_words(problem, best)
    plan = {**card, **plan, "cost": cost}
    return Solution(problem, method, best.cost, found, best.seconds, interrupted, words, episode, plan)


def cost_words(problem: Problem, found: Searched) -> str:
    """The cost of a plan, for people."""
    return problem.problems.cost_words(problem.problem, problem.env, found)


def verdict(solution: Solution) -> str:
    """Whether the plan is feasible, and if not, why."""
    if solution.plan["feasible"]:
        return "yes"
    reasons = solution.plan.get("reasons")
    return f"no: {'; '.join(reasons)}" if reasons else "no"


def report(solution: Solution) -> str:
    """What a plan comes to, for people: cost, whether it is feasible, what is broken, totals, and the routes."""
    plan = solution.plan
    rows = [("method", solution.method)]
    if np.isfinite(solution.cost):
        rows += [("cost", solution.words), ("found after", f"{solution.seconds:.2f} s")]
    else:
        rows.append(("cost", "none: no such plan was found"))
    end = ", then interrupted" if solution.interrupted else ""
    rows += [("searched for", f"{solution.searched_seconds:.2f} s{end}"), ("feasible", verdict(solution))]
    for name, found in plan.get("violations", {}).items():
        first = [f"first at {key.removeprefix('first_')} {each}" for key, each in found.items() if key != "count"]
        rows.append((f"  {name}", ", ".join([str(found["count"]), *first])))
    rows += plan.get("totals", {}).items()
    routes = plan["routes"]
    named = routes.items() if isinstance(routes, dict) else ((f"route {i + 1}", each) for i, each in enumerate(routes))
    rows += [(name, (", " if isinstance(each[0], str) else " ").join(map(str, each))) for name, each in named if each]
    rows = [(cut(name), printable(value, sys.maxsize)) for name, value in rows]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def endings_of(problem: Problem) -> tuple[str, ...]:
    """Of the files that a plan can be written to."""
    in_degrees = (geojson.ENDING,) if getattr(problem.problem, "earth", None) else ()
    page = (PAGE,) if problem.problems.has_page(problem.problem) else ()
    return (*problem.problems.endings, *in_degrees, *page)

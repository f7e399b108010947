"""Dial-a-ride: heuristics, searches, outside solvers and a trained policy on the same instances, every plan checked.

python -m benchmarks.quality --env darp --run darp --search 300 3000
python -m benchmarks.quality --env darp --env.num_nodes 40 --env.num_agents 8 --solvers ortools
python -m benchmarks.quality --env darp --run darp --instances a2-16,a3-24
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds
from benchmarks.published.data import VARIABLE, data_folder
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Plans, Standings
from benchmarks.solvers import solve_ortools, solve_pyvrp
from jaxvrp import TimeStep
from jaxvrp.actor import Actor
from jaxvrp.envs.darp import Darp, Instance, read_cordeau, routes_to_actions, solution_report, stack
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.episodes import record_episodes
from jaxvrp.io.command_line import UserError, above_zero, positive
from jaxvrp.io.text_lines import read_lines
from jaxvrp.spaces import ByRole
from train import Evaluator, Trained, baseline_actors, split_mapping

FAMILIES = ("darp_cordeau2006", "darp_cordeau_laporte2003")
"""Folders of the published instances, within `data_folder()`."""

AS_PUBLISHED: dict[str, Any] = {
    "limits": True,
    "lookahead": True,
    "penalty_unvisited": 100.0,
    "orphan_factor": 1.0,
}
"""Rules that published instances are played by, whatever a policy was trained with."""

SOLVERS: dict[str, Callable[..., list[list[int]]]] = {"pyvrp": solve_pyvrp, "ortools": solve_ortools}
TITLES = {"pyvrp": "PyVRP", "ortools": "OR-Tools"}
"""Of the solvers, in the order in which the others are compared with them."""

HEAD = (
    *("player", "instances", "cost", "gap", "feasible", "served", "vehicles"),
    *("s/instance", "CPU s/instance", "replayed"),
)
NOTES = """cost: distance, and 100 (penalty_unvisited) for each unvisited node; means over instances
gap: summed cost against {reference}
feasible: share of plans that solution_report finds nothing wrong with, everybody served
vehicles: how many leave the depot, means, and the least and the most of a plan
s/instance, CPU s/instance: by the clock, and of all cores; players in JAX play all instances at once, and were compiled
  before; a solver stops by its seconds of CPU
replayed: plans that the environment accepts action by action, at the same cost"""


def play(env: Darp, actor: Actor, instances: Instance, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `i32[E, N+V]` of whole episodes, 0 after their end, and their returns `f32[E]`."""

    def kept(action: ByRole, state: Any, timestep: TimeStep) -> tuple[jax.Array, jax.Array, jax.Array]:
        return action["vehicle"][:, 0], timestep.reward["vehicle"][:, 0], timestep.done

    _, (actions, rewards, ended) = record_episodes(env, actor, instances, key, kept)
    # What an actor chooses after the end is part of no plan: no vehicle is left to do it.
    was_over = jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])
    return jnp.where(was_over, 0, actions).T, rewards.sum(axis=0)


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
        known: `f64[E]`, costs to compare with; None to compare with a solver.
        problems: the instances one by one.
    """

    def __init__(self, env: Darp, instances: Instance, known: np.ndarray | None = None):
        self.env, self.instances, self.known = env, jax.device_get(instances), known
        self.problems = contest.singles(instances)

    def act(self, actor: Actor, tries: int = 1) -> tuple[np.ndarray, Plans]:
        """The plans of an actor, `i32[E, N+V]`, and what they are worth: its best of several tries on each instance."""

        def attempt(number: jax.Array, key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
            del number
            actions, gained = play(self.env, actor, self.instances, key)
            return {"plan": (-gained, actions)}

        best, seconds = measure.timed(lambda: contest.best_of(attempt, jax.random.key(SEED), tries))
        return self.judged(best["plan"][1], seconds)

    def solve(self, solver: str, seconds: float) -> tuple[np.ndarray, Plans]:
        """Likewise of an outside solver (a key of `SOLVERS`), which plans one instance after the other."""
        penalty, steps = float(self.env.penalty_unvisited), self.env.max_episode_steps
        problems = measure.progress(self.problems, "instance", desc=solver, leave=False)
        routes, taken = measure.seconds_of(
            lambda: [SOLVERS[solver](problem, seconds=seconds, penalty=penalty) for problem in problems]
        )
        plans = [routes_to_actions(plan, self.env.num_agents) for plan in routes]
        return self.judged(np.stack([np.pad(plan, (0, steps - len(plan))) for plan in plans]), taken)

    def judged(self, actions: np.ndarray, seconds: Seconds) -> tuple[np.ndarray, Plans]:
        """Plans and what the checker says of them; `seconds` of all together."""
        reports = [solution_report(problem, plan) for problem, plan in zip(self.problems, actions, strict=True)]
        return actions, Plans(reports, seconds.per(len(actions)))

    def cost(self, plans: Plans) -> np.ndarray:
        """`f64[E]`, distance and penalties for unvisited nodes."""
        unvisited = [report.violations["unserved"].count for report in plans.reports]
        return plans.cost + float(self.env.penalty_unvisited) * np.array(unvisited)

    def num_replayed(self, actions: np.ndarray, plans: Plans) -> int:
        """How many plans the environment plays as they are, at the cost that the checker found."""
        distance, refused = jax.device_get(jax.jit(replayed)(self.env, self.instances, jnp.asarray(actions, jnp.int32)))
        return int(np.count_nonzero((refused == 0) & np.isclose(distance, plans.cost, rtol=1e-5)))

    def standings(self, title: str, results: Mapping[str, tuple[np.ndarray, Plans]]) -> Standings:
        """The table of all players, compared with known costs, or else with the first of `SOLVERS` that has played."""
        known, reference = self.known, "the best known cost"
        if known is None:
            solver = next((name for name in SOLVERS if name in results), None)
            known = self.cost(results[solver][1]) if solver else None
            reference = TITLES[solver] if solver else "nothing: no solver has played"
        return Standings(
            title, [list(HEAD), *(self._row(name, *each, known) for name, each in results.items())], reference
        )

    def _row(self, name: str, actions: np.ndarray, plans: Plans, known: np.ndarray | None) -> list[str]:
        cost, count = self.cost(plans), len(plans.reports)
        requests = np.maximum([np.count_nonzero(problem.demand[1::2]) for problem in self.problems], 1)
        # Requests with both ends in a route, in order.
        served = [
            sum(
                node % 2 == 0 and node - 1 in route[:place]
                for route in report.routes
                for place, node in enumerate(route)
            )
            for report in plans.reports
        ]
        fleets = np.array([sum(map(bool, report.routes)) for report in plans.reports])
        return [
            name,
            str(count),
            f"{cost.mean():.2f}",
            contest.gap(cost, known),
            f"{100 * plans.feasible.mean():.1f} %",
            f"{100 * (np.array(served) / requests).mean():.2f} %",
            f"{fleets.mean():.2f} ({fleets.min()} to {fleets.max()})",
            *contest.times(plans.seconds),
            f"{self.num_replayed(actions, plans)}/{count}",
        ]


def find(name: str) -> pathlib.Path:
    """The file of an instance: a path, or a name to look for in the published sets.

    Raises:
        UserError: there is neither.
    """
    if pathlib.Path(name).is_file():
        return pathlib.Path(name)
    found = [path for family in FAMILIES if (path := data_folder() / family / f"{name}.txt").is_file()]
    if not found:
        raise UserError(
            f"--instances: no file '{name}', and no {name}.txt in {' or '.join(FAMILIES)} of {data_folder()}; "
            f"give a path, or set {VARIABLE} to the folder that holds these"
        )
    return found[0]


def best_known(path: pathlib.Path) -> float | None:
    """The cost of an instance in the `best_known.csv` beside it, None if there is none.

    Raises:
        ValueError: that file is damaged; one line.
    """
    table = path.with_name("best_known.csv")
    if not table.is_file():
        return None
    head, *lines = read_lines(table, "a table of best known costs")
    columns = tuple(head.separated())
    column = next((name for name in ("optimal_cost", "cost") if name in columns), None)
    head.expect("instance" in columns and column is not None, "columns 'instance' and 'optimal_cost' or 'cost'")
    for line in lines:
        row = line.fields(columns)
        if row["instance"] == path.stem:
            return line.real(str(column), row[str(column)]) if row[str(column)] else None
    return None


def environment(args: argparse.Namespace, parameters: dict[str, Any]) -> tuple[Any, Trained | None]:
    """The environment with these parameters, that of `--run` if it is given, and the run."""
    run = contest.load(args.run, Darp, "darp", args, parameters) if args.run else None
    return run.learner.env if run else contest.made("darp", parameters), run


def contests(args: argparse.Namespace, parameters: dict[str, Any]) -> Iterator[tuple[str, Contest, Trained | None]]:
    """Title, instances and run of each table: one for each published file, or one of generated instances."""
    for path in map(find, args.instances.split(",")) if args.instances else ():
        try:
            instances, cost = stack([read_cordeau(path)]), best_known(path)
        except (ValueError, OSError) as error:
            raise UserError(str(error)) from None
        sizes = {"num_nodes": instances.num_nodes, "num_agents": instances.num_agents}
        env, run = environment(args, {**sizes, **AS_PUBLISHED, **parameters})
        yield path.stem, Contest(env, instances, None if cost is None else np.array([cost], np.float64)), run
    if not args.instances:
        env, run = environment(args, parameters)
        instances = Evaluator(env, args.episodes, SEED).instances()
        title = f"{args.episodes} generated instances, {env.num_nodes} nodes, {env.num_agents} vehicles"
        yield title, Contest(env, instances), run


def tables(args: argparse.Namespace, parameters: dict[str, Any]) -> Iterator[Standings]:
    """The tables of all contests."""
    for title, field, run in contests(args, parameters):
        turns = {name: functools.partial(field.act, actor) for name, actor in baseline_actors(field.env).items()}
        for rounds in args.search:
            turns[f"search, {rounds} rounds"] = functools.partial(field.act, SearchActor(field.env, rounds), args.tries)
        if run:
            sampled = f"policy, best of {args.best_of} at temperature {args.temperature:g}"
            turns["policy"] = functools.partial(field.act, contest.actor_of(run))
            turns[sampled] = functools.partial(field.act, contest.actor_of(run, args.temperature), args.best_of)
        for solver in args.solvers:
            turns[solver] = functools.partial(field.solve, solver, args.seconds)
        yield field.standings(title, contest.take_turns(turns))


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = split_mapping(argv, "env", has_name=True)
    args = _arguments(words)
    files = map(find, args.instances.split(",")) if args.instances else ()
    measure.check_result_file(args.out, [args.run, *files])
    contest.show(args, argv, tables(args, parameters), NOTES)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = contest.parser("darp", "Dial-a-ride: heuristics, searches, solvers and a policy, side by side.")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of one of its parameters")
    parser.add_argument("--run", help="run folder of train.mappo on darp, or a shipped policy: greedy, sampled")
    parser.add_argument("--best_of", type=positive, default=128, help="samples of the policy (default: 128)")
    parser.add_argument("--temperature", type=above_zero, default=3.0, help="of these (default: 3)")
    parser.add_argument("--episodes", type=positive, default=128, help="generated instances (default: 128)")
    parser.add_argument("--instances", help="instead of these: published ones, a2-16,a3-24 or paths, comma-separated")
    parser.add_argument(
        "--search", type=positive, nargs="*", default=[300], help="rounds of ruin and recreate, a row for each number"
    )
    parser.add_argument("--tries", type=positive, default=1, help="of the search: the best plan counts (default: 1)")
    parser.add_argument("--solvers", nargs="*", choices=tuple(SOLVERS), default=[], help="needs the extra 'solvers'")
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=10.0, help="CPU time of a solver, for each instance"
    )
    return parser.parse_args(argv)

"""Many dial-a-ride problems in one program: `train.solve.solve_all` on generated instances, beside PyVRP on some.

python -m benchmarks.together --count 512 --seconds 0.1 --compared 24 --out result.json
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.quality.baselines import SEED
from jaxvrp.envs.darp import Instance, generate_dataset, routes_to_actions, save, solution_report
from jaxvrp.envs.darp.baselines.solvers import solve_pyvrp
from jaxvrp.io.command_line import Parser, UserError, positive
from train import solve
from train.running.command import command_line
from train.running.shown.tables import aligned

PENALTY = 100.0
"""Of an unvisited node, as the environment has it."""

HEAD = ("player", "instances", "cost", "against PyVRP", "feasible", "s/instance", "CPU s/instance")


def searched(instances: Instance, seconds: float, seed: int) -> tuple[list[solve.Solution], dict[str, Any]]:
    """Solutions of a batch, and how they came about: mean costs with seconds, seconds by the clock and of all cores."""
    curve: list[list[float]] = []
    marks: list[tuple[float, float]] = []

    def note(found: Any) -> None:
        marks.append((time.monotonic(), time.process_time()))
        curve.append([found.seconds, float(found.cost.mean())])

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "instances.npz"
        save(path, instances)
        solutions = solve.solve_all([path], seconds=seconds, seed=seed, env="darp", progress=note)
    # Between looks at the clock, the first of which compilation precedes; what came before that, at the same pace.
    share = (curve[-1][0] - curve[0][0]) / curve[-1][0] if len(curve) > 1 else 1.0
    cpu = (marks[-1][1] - marks[0][1]) / max(share, 1e-9)
    return solutions, {"curve": curve, "seconds": curve[-1][0], "cpu_seconds": cpu}


def solved(instances: Instance, count: int, seconds: float) -> tuple[np.ndarray, np.ndarray, measure.Seconds]:
    """Costs of PyVRP on the first so many instances, whether they are feasible, and the time that it takes.

    Raises:
        UserError: PyVRP is not installed.
    """
    singles = [jax.tree.map(lambda leaf, row=row: leaf[row], instances) for row in range(count)]
    try:
        routes, spent = measure.seconds_of(
            lambda: [
                solve_pyvrp(each, seconds=seconds, penalty=PENALTY) for each in measure.progress(singles, "instance")
            ]
        )
    except ImportError as error:
        raise UserError(f"--compared: {error}") from None
    plans = [routes_to_actions(each, instances.num_agents) for each in routes]
    reports = [solution_report(each, plan) for each, plan in zip(singles, plans, strict=True)]
    costs = [report.cost + PENALTY * report.violations["unserved"].count for report in reports]
    return np.array(costs), np.array([report.feasible for report in reports]), spent.per(count)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    if args.compared > args.count:
        raise UserError(f"--compared is {args.compared}, but there are {args.count} instances; lower it")
    measure.check_result_file(args.out, [])
    env: Any = jaxvrp.make("darp", num_nodes=args.num_nodes, num_agents=args.num_agents)
    instances = jax.device_get(generate_dataset(env, seed=SEED, count=args.count))
    solutions, course = searched(instances, args.seconds, args.seed)
    costs = np.array([solution.cost for solution in solutions])
    feasible = np.array([solution.plan["feasible"] for solution in solutions])
    spent = measure.Seconds(course["seconds"], course["cpu_seconds"]).per(args.count)
    name = f"search, {args.seconds:g} s each"
    rows = [_row(name, costs, feasible, spent, None)]
    if args.compared:
        theirs, kept, taken = solved(instances, args.compared, args.solver_seconds)
        rows.append(
            _row(f"{name}: the first of these", costs[: args.compared], feasible[: args.compared], spent, theirs)
        )
        rows.append(_row(f"PyVRP, {args.solver_seconds:g} s of CPU each", theirs, kept, taken, theirs))
    table = [list(HEAD), *rows]
    print(f"\n{args.num_nodes} nodes, {args.num_agents} vehicles\n\n{aligned(table)}")
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.together", *argv], measure.device_name())
        options: dict[str, Any] = vars(args) | {"out": None}
        measure.write_result(
            args.out, {"machine": header, "options": options, "table": table, **course, "costs": costs.tolist()}
        )
        print(f"wrote {args.out}")


def _row(
    name: str, costs: np.ndarray, feasible: np.ndarray, each: measure.Seconds, reference: np.ndarray | None
) -> list[str]:
    gap = "-" if reference is None else f"{costs.sum() / reference.sum() - 1:+.2%}"
    share = f"{feasible.sum()} of {len(feasible)}"
    return [name, str(len(costs)), f"{costs.mean():.2f}", gap, share, f"{each.wall:.2g}", f"{each.cpu:.2g}"]


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.together", "Many dial-a-ride problems in one program, beside PyVRP on some of them.")
    parser.add_argument("--count", type=positive, default=512, help="generated instances (default: 512)")
    parser.add_argument("--num_nodes", type=positive, default=20, help="nodes of each (default: 20)")
    parser.add_argument("--num_agents", type=positive, default=5, help="vehicles of each (default: 5)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=0.1, help="for each (default: 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--compared", type=int, default=0, help="so many also by PyVRP; needs jaxvrp[solvers]")
    parser.add_argument(
        "--solver_seconds", type=measure.seconds_option, default=10.0, help="CPU, of PyVRP (default: 10)"
    )
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and figures")
    return parser.parse_args(argv)


if __name__ == "__main__":
    command_line.entry(main)

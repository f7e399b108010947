"""How good a plan for one published problem is after so many seconds: `train.solve`, beside the best known cost.

python -m benchmarks.solving --instances a2-16,a5-40 --seconds 10 --out result.json
python -m benchmarks.solving --instances a2-16,a5-40 --method policy --run darp
python -m benchmarks.solving --env pcb --instances adc0,adc2,afe --seconds 10
python -m benchmarks.solving --env tsp_drone --instances uniform_n17,random_n50 --rows 10 --seconds 10
python -m benchmarks.solving --env tsp_drone --instances random_n20 --seconds 10 --env.allow_revisits false
python -m benchmarks.solving --env truck_drone_tours --instances kuo_n10,kuo_n50 --seconds 60
python -m benchmarks.solving --env flying_sidekicks --instances mfstsp_n8_101_2,mfstsp_n25_104_4 --seconds 10
python -m benchmarks.solving --env tsp_drone --instances fstsp_20,fstsp_40 --seconds 1 --record record.json
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.measuring import measure
from benchmarks.published.instances import PUBLISHED, Published
from benchmarks.records.published import FORMAT, PLANS, as_published, as_text, entry_of
from jaxvrp.envs.tsp_drone.problem.murray_chu import NODES
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.whole_files import write_text
from train import LAUNCH, aligned, entry, solve, split_mapping

SEARCHES = True
"""Its time goes to searches, see `entry`."""

SHARES = (0.1, 0.2, 0.5, 1.0)
"""Of the seconds, after which the table looks at the gap."""

REACHED = 1e-5
"""The largest gap at which a best known cost counts as reached: costs are sums in `float32`."""

Record = dict[str, Any]


def solved(published: Published, args: argparse.Namespace) -> Record:
    """What came of one instance.

    Returns:
        `instance`, `group` (None: no set), `best_known` (None: unknown, or of other rules), `cost`, `feasible`,
        `cpu_seconds`, and `curve`: `[seconds, cost]` whenever the best plan changed; what `entry_of` has, of a problem
        with a checker.

    Raises:
        UserError: it cannot be read or solved; one line.
    """
    if published.path.name == NODES and "endurance" in args.given:
        raise UserError(f"--env.endurance: {published.group} says what it is; leave it out")
    opening = {"run": args.run, "env": args.env, "trust": args.trust, "given": args.given}
    problem = solve.open_problem(published.path, row=published.row, **opening)
    curve: list[list[float]] = []
    marks: list[float] = []

    def note(found: Any) -> None:
        marks.append(time.process_time())
        if found.cost < (curve[-1][1] if curve else np.inf):
            curve.append([found.seconds, found.cost])

    solution = solve.solved(problem, seconds=args.seconds, method=args.method, seed=args.seed, progress=note)
    if solution.interrupted:
        raise KeyboardInterrupt
    best_known, entry = published.best_known, {}
    if args.env in PLANS:
        place = published.path, published.row
        entry = entry_of(args.env, *place, _rules_of(problem, published.path, args), solution.plan)
        best_known = best_known if as_published(args.env, problem.problems, *place, entry["rules"]) else None
    return {
        "instance": published.name,
        "group": published.group,
        "best_known": best_known,
        "cost": solution.plan["cost"],
        "feasible": solution.plan["feasible"],
        "method": solution.method,
        # From the first look at the clock on, which compilation precedes.
        "cpu_seconds": marks[-1] - marks[0],
        "curve": curve,
        **entry,
    }


def _rules_of(problem: solve.Problem, path: pathlib.Path, args: argparse.Namespace) -> dict[str, Any]:
    """What a file does not say: as its reader assumes it, or as it is given, and what the environment was chosen to."""
    known = problem.problems.assumed(path)
    given = {name: value for name, value in args.given.items() if name in known}
    chosen = {name: getattr(problem.env, name) for name in problem.problems.choices}
    return {**problem.problems.assumed(path, **given), **chosen}


def gap(record: Record, cost: float) -> float | None:
    """How far a cost is above the best known one, as a share of it."""
    return None if record["best_known"] is None else cost / record["best_known"] - 1


def cost_after(record: Record, seconds: float) -> float:
    """The least cost by then; infinite before there was a plan."""
    return min((cost for when, cost in record["curve"] if when <= seconds), default=np.inf)


def table(records: Sequence[Record], seconds: float) -> list[list[str]]:
    """A head, a row for each instance, and one for the means and the worst."""
    times = [share * seconds for share in SHARES]
    rows = [["instance", "best known", "cost", "feasible", *(f"gap, {when:g} s" for when in times), "CPU s"]]
    for record in records:
        gaps = [gap(record, cost_after(record, when)) for when in times]
        costs = ("-" if cost is None else f"{cost:.2f}" for cost in (record["best_known"], record["cost"]))
        feasible, cpu = "yes" if record["feasible"] else "no", f"{record['cpu_seconds']:.1f}"
        rows.append([record["instance"], *costs, feasible, *map(_percent, gaps), cpu])
    known_ones = [record for record in records if record["best_known"]]
    count = f"{sum(record['feasible'] for record in records)} of {len(records)}"
    for title, over in (("mean", np.mean), ("worst", np.max)) if known_ones else ():
        over_time = [[gap(record, cost_after(record, when)) for when in times] for record in known_ones]
        rows.append([title, "", "", count, *map(_percent, over(np.array(over_time, float), axis=0)), ""])
    return rows


def table_of_sets(records: Sequence[Record]) -> list[list[str]]:
    """A head, and for each set how often the best known cost was reached, and the gaps at the end."""
    rows = [["set", "instances", "reached", "mean gap", "least gap", "largest gap"]]
    groups: dict[str, list[Any]] = {}
    for record in records:
        if record["group"] and record["best_known"]:
            groups.setdefault(record["group"], []).append(gap(record, record["cost"]))
    for group, gaps in groups.items():
        reached = sum(each <= REACHED for each in gaps)
        rows.append([group, str(len(gaps)), str(reached), *map(_percent, (np.mean(gaps), min(gaps), max(gaps)))])
    return rows


def _percent(share: Any) -> str:
    return "-" if share is None or not np.isfinite(share) else f"{share:+.2%}"


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    names = args.instances.split(",")
    instances = [each for name in names for each in PUBLISHED[args.env](name, "--instances")[: args.rows]]
    for out in (args.out, args.record):
        measure.check_result_file(out, [args.run, *(each.path for each in instances)])
    records = []
    with measure.progress(instances, "instance") as bar:
        for published in bar:
            bar.set_postfix_str(published.name)
            records.append(solved(published, args))
    tables = [table(records, args.seconds), *(sets for sets in [table_of_sets(records)] if len(sets) > 1)]
    report = "\n\n".join([f"\n{records[0]['method']}, {args.seconds:g} s an instance", *map(aligned, tables)])
    header = measure.machine(["python", "-m", "benchmarks.solving", *argv], measure.device_name())
    protocol = {
        "method": records[0]["method"],
        "seconds": f"{args.seconds:g} an instance, without compilation",
        "seed": args.seed,
    }
    if args.record:
        entries = [{name: value for name, value in record.items() if name != "curve"} for record in records]
        head = {"format": FORMAT, "environment": args.env, "machine": header, "protocol": protocol}
        write_text(args.record, as_text({**head, "records": entries}))
    measure.write_result(args.out, {"machine": header, "protocol": protocol, "records": records}, report)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.solving", "How good a plan for one published instance is after so many seconds.")
    parser.add_argument("--env", choices=tuple(PUBLISHED), default="darp", help="whose instances (default: darp)")
    parser.add_argument(
        "--instances",
        required=True,
        help="published ones, a2-16,a3-24 or adc0,afe, sets of tsp_drone, uniform_n17, or paths, comma-separated",
    )
    parser.add_argument("--rows", type=positive, help="so many instances of each set (default: all)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=10.0, help="of each (default: 10)")
    parser.add_argument("--method", help="as of train.solve (default: the search)")
    parser.add_argument("--run", help="as of train.solve")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--record", type=measure.result_file, help="JSON file for the plans, see records.check")
    words, given = split_mapping(argv, "env")
    args = parser.parse_args(words, argparse.Namespace(given=given))
    if args.record and args.env not in PLANS:
        raise UserError(f"--record: plans of {args.env} have no checker; leave it out")
    return args


if __name__ == "__main__":
    entry(main, searches=SEARCHES)

"""How good a plan for one published instance is after so many seconds: `train.solve`, beside the best known cost.

python -m benchmarks.solving --instances a2-16,a5-40 --seconds 10 --out result.json --plot curves.png
python -m benchmarks.solving --instances a2-16,a5-40 --method policy --run darp
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.quality.darp import best_known, find
from jaxvrp import pictures
from jaxvrp.io.command_line import Parser, UserError, check_picture_path
from jaxvrp.pictures import STILLS, save_still, series_look
from train import solve
from train.running import command_line
from train.running.keys import LAUNCH
from train.running.tables import aligned

SHARES = (0.1, 0.2, 0.5, 1.0)
"""Of the seconds, after which the table looks at the gap."""

Record = dict[str, Any]


def solved(name: str, args: argparse.Namespace) -> Record:
    """What came of one instance.

    Returns:
        `instance`, `best_known` (None: unknown), `cost`, `feasible`, `cpu_seconds`, and `curve`: `[seconds, cost]`
        whenever the best plan changed.

    Raises:
        UserError: it cannot be read or solved; one line.
    """
    path = find(name)
    try:
        best = best_known(path)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from None
    problem = solve.open_problem(path, run=args.run, env="darp", trust=args.trust)
    curve: list[list[float]] = []
    marks: list[float] = []

    def note(found: Any) -> None:
        marks.append(time.process_time())
        if not curve or found.cost < curve[-1][1]:
            curve.append([found.seconds, found.cost])

    solution = solve.solved(problem, seconds=args.seconds, method=args.method, seed=args.seed, progress=note)
    return {
        "instance": path.stem,
        "best_known": best,
        "cost": solution.cost,
        "distance": solution.plan["distance"],
        "feasible": solution.plan["feasible"],
        "method": solution.method,
        # From the first look at the clock on, which compilation precedes.
        "cpu_seconds": marks[-1] - marks[0],
        "curve": curve,
    }


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
        known = "-" if record["best_known"] is None else f"{record['best_known']:.2f}"
        feasible = "yes" if record["feasible"] else "no"
        cells = [_percent(each) for each in gaps]
        rows.append(
            [record["instance"], known, f"{record['cost']:.2f}", feasible, *cells, f"{record['cpu_seconds']:.1f}"]
        )
    known_ones = [record for record in records if record["best_known"]]
    count = f"{sum(record['feasible'] for record in records)} of {len(records)}"
    for title, over in (("mean", np.mean), ("worst", np.max)) if known_ones else ():
        over_time = np.array(
            [[gap(record, cost_after(record, when)) for when in times] for record in known_ones], float
        )
        gaps = over(over_time, axis=0)
        rows.append([title, "", "", count, *map(_percent, gaps), ""])
    return rows


def _percent(share: Any) -> str:
    return "-" if share is None or not np.isfinite(share) else f"{share:+.2%}"


def draw(records: Sequence[Record], seconds: float, *, ax: Any = None) -> Any:
    """The gap of every instance against seconds; in `ax`, or the axes of a new figure, which it returns."""
    axes = pictures.axes_of(ax, 7.2, 3.9, 120, (0.7, 0.5))
    for number, record in enumerate(record for record in records if record["best_known"]):
        when, cost = zip(*[*record["curve"], [seconds, record["curve"][-1][1]]], strict=True)
        gaps = [100 * (each / record["best_known"] - 1) for each in cost]
        axes.step(when, gaps, where="post", **series_look(number), label=record["instance"])
    axes.set(xlabel="seconds", ylabel="above the best known cost, %", xscale="log", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, ncols=3)
    return axes


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    names = args.instances.split(",")
    measure.check_result_file(args.out, [args.run, *map(find, names)])
    if args.plot:
        check_picture_path(args.plot, STILLS, "--plot")
    records = []
    with measure.progress(names, "instance") as bar:
        for name in bar:
            bar.set_postfix_str(name)
            records.append(solved(name, args))
    rows = table(records, args.seconds)
    print(f"\n{records[0]['method']}, {args.seconds:g} s an instance\n\n{aligned(rows)}")
    if args.plot:
        save_still(draw(records, args.seconds).figure, args.plot, dpi=120)
        print(f"drew {args.plot}")
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.solving", *argv], measure.device_name())
        protocol = {"method": records[0]["method"], "seconds": f"{args.seconds:g} an instance, without compilation"}
        measure.write_result(args.out, {"machine": header, "protocol": protocol, "records": records})
        print(f"wrote {args.out}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.solving", "How good a plan for one published instance is after so many seconds.")
    parser.add_argument("--instances", required=True, help="published ones, a2-16,a3-24, or paths, comma-separated")
    parser.add_argument("--seconds", type=measure.seconds_option, default=10.0, help="of each (default: 10)")
    parser.add_argument("--method", help="as of train.solve (default: the search)")
    parser.add_argument("--run", help="as of train.solve")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of the gaps against seconds")
    return parser.parse_args(argv)


if __name__ == "__main__":
    command_line.entry(main)

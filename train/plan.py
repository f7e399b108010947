"""Check a problem, solve it, and write the plan as a page with a sheet per vehicle.

python -m train.plan MAP.json --seconds 10 --out plan.html
python -m train.plan customers.csv --fleet fleet.yaml --out plan.html plan.csv
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from jaxvrp.io.command_line import Parser, above_zero, index
from jaxvrp.io.messages import escaped
from train import solve
from train.commands.entry import entry
from train.commands.instance_file import INDEX_HELP, Output, check_output, show_warnings, write_all
from train.settings.command_line import split_mapping
from train.solving.case_file import FLEET_HELP, refuse_beside_fleet
from train.solving.problem import chosen, open_problem
from train.solving.solution import PAGE, endings_of, report

SEARCHES = True
"""Its time goes to searches, see `entry`."""


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser(
        "train.plan", "Check a problem, solve it, and write a page: the plan that plays, a sheet per vehicle."
    )
    parser.add_argument("instance", help="the file of the problem")
    parser.add_argument("--fleet", metavar="FILE", help=FLEET_HELP)
    parser.add_argument("--check", action="store_true", help="say what the problem means and what looks wrong, no more")
    parser.add_argument("--seconds", type=above_zero, default=10.0, help="to look for plans (default: 10)")
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    out_help = "the page (default: plan.html; plan.csv where there is no page, as of a moment of a day)"
    parser.add_argument("--out", metavar="FILE", nargs="+", help=out_help)
    parser.add_argument("--env.KEY", metavar="VALUE", help="what the reader of the file else assumes")
    words, given = split_mapping(sys.argv[1:] if argv is None else argv, "env")
    args = parser.parse_args(words)
    refuse_beside_fleet(args, given)
    problem = open_problem(args.instance, row=args.index, given=given, fleet=args.fleet)
    endings = endings_of(problem)
    out = args.out or ["plan.html" if PAGE in endings else "plan.csv"]
    for path in () if args.check else out:
        check_output("--out", path, endings, [pathlib.Path(args.instance)])
    inspection = problem.problems.inspect(problem.problem, problem.env)
    for figure in inspection.figures:
        print(escaped(figure))
    show_warnings(inspection, problem.assumed)
    if args.check:
        if not inspection.warnings:
            print("nothing looks wrong")
        return
    solution = solve.watched(problem, seconds=args.seconds, method=chosen(problem, None), seed=0)
    write_all([Output("--out", path, solution.write) for path in out], report(solution))


if __name__ == "__main__":
    entry(main, searches=SEARCHES)

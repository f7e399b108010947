"""Find the best plan for one problem in so many seconds: by search, by a trained policy, or by a heuristic.

python -m train.solve INSTANCE --seconds 10 --out plan.json stops.csv --picture plan.svg plan.gif
python -m train.solve MAP.json --run vrpd_tw
python -m train.solve BOARDS.pcb --index 2 --out placed.pcb --picture placed.svg
python -m train.solve 'days/*.txt' --shard 3/16 --out plans && python -m train.solve --collect plans
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxvrp.io.command_line import Parser, UserError, above_zero, going_on, index
from jaxvrp.players import Searched, SearchedAll
from jaxvrp.show import STILLS
from train.commands.entry import entry
from train.commands.instance_file import INDEX_HELP, Output, check_output, show_warnings, write_all
from train.run.progress import LINE, Bar
from train.settings.command_line import split_mapping
from train.settings.keys import LAUNCH
from train.solving import shards
from train.solving.case_file import FLEET_HELP, refuse_beside_fleet
from train.solving.problem import Problem, chosen, open_problem, problem_in, read_problems, stack_of
from train.solving.solution import (
    PAGE,
    Progress,
    Solution,
    cost_words,
    endings_of,
    report,
    solved,
    solved_together,
)

__all__ = [
    "Problem",
    "Solution",
    "chosen",
    "open_problem",
    "problem_in",
    "read_problems",
    "report",
    "solve",
    "solve_all",
    "solved",
    "solved_together",
]

SEARCHES = True
"""Its time goes to searches, see `entry`."""

BAR = 0.25
"""Seconds between two drawings of the bar."""


def solve(
    instance: str | os.PathLike,
    *,
    seconds: float = 10.0,
    method: str | None = None,
    run: str | None = None,
    env: str | None = None,
    row: int | None = None,
    seed: int = 0,
    trust: bool = False,
    given: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The best plan for the problem in a file that is found in so many seconds; Ctrl-C keeps the best so far.

    Args:
        instance: the file.
        seconds: to look for plans; what is compiled and read takes time besides.
        method: a search, a planner or a baseline of the environment, or `policy`; by default the first search, the
            policy if there is a run, or else the first baseline.
        run: the folder of a run, or the name of a policy that is shipped; its policy plays first the most probable
            actions, then samples.
        env: the environment, by the name that it is registered under; by default the one that can read the file and
            obeys all that it says.
        row: which problem of the file, from 0, if it has several.
        seed: of what is drawn.
        trust: whether a run may import modules that are not installed; see `train.evaluate --help`.
        given: in the place of what the reader of the file would assume, see `jaxvrp.Problems.assumed`, and what no
            file says, see `choices` there.
        progress: is shown the best plan whenever the clock is read.

    Raises:
        UserError: the file, the run or the method is none; one line.
        KeyboardInterrupt: there was no plan yet.
    """
    problem = open_problem(instance, run=run, env=env, row=row, trust=trust, given=given)
    return solved(problem, seconds=seconds, method=method, seed=seed, progress=progress)


def solve_all(
    instances: Sequence[str | os.PathLike],
    *,
    seconds: float = 10.0,
    method: str | None = None,
    run: str | None = None,
    env: str | None = None,
    seed: int = 0,
    trust: bool = False,
    progress: Callable[[SearchedAll], None] | None = None,
) -> list[Solution]:
    """`solve` for all problems of several files, in their order.

    Where a search plans many episodes in one program (`jaxvrp.Players.searches_all`: `darp`), problems are padded to
    the largest and searched together, so that all have all the time. Else one is solved after the other.

    Args:
        instances: the files, of one environment; of a file with several problems, all are solved.
        seconds: for each problem; together, as many times as much as there are problems.
        method, run, env, seed, trust: as for `solve`.
        progress: is shown the best plans whenever the clock is read, where they are searched together.

    Raises:
        UserError: a file, the run or the method is none, or files are of different environments; one line.
        KeyboardInterrupt: there was no plan yet.

    Returns:
        The solutions. After Ctrl-C no further problem is begun: the list ends with the one whose search was
        `interrupted`; of problems that are searched together, all are.
    """
    read = [(path, *read_problems(path, env, run=run, trust=trust)) for path in instances]
    names = {name for _, name, _ in read}
    if not names:
        return []
    if len(names) > 1:
        raise UserError(f"the files are of {', '.join(sorted(names))}; solve those of one environment at a time")
    problems = [problem for _, _, found in read for problem in found]
    (name,) = names
    if run is None and (stack := stack_of(name, method)):
        batch = problem_in(name, stack(problems), instances[0])
        return solved_together(batch, problems, chosen(batch, method), seconds, seed, progress)
    solutions: list[Solution] = []
    for path, row in ((path, row if len(found) > 1 else None) for path, _, found in read for row in range(len(found))):
        problem = open_problem(path, run=run, env=env, row=row, trust=trust)
        solutions.append(solved(problem, seconds=seconds, method=method, seed=seed))
        if solutions[-1].interrupted:
            break
    return solutions


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    args = _arguments(sys.argv[1:] if argv is None else argv)
    if args.collect:
        print(shards.collect(pathlib.Path(args.collect)))
        return
    if shards.means_many(args.instance):
        with going_on(f"finished plans are in {args.out[0]}, and the same command goes on with the others"):
            shards.solve_shard(args)
        return
    problem = open_problem(
        args.instance,
        run=args.run,
        env=args.env,
        row=args.index,
        trust=args.trust,
        given=args.given,
        fleet=args.fleet,
    )
    method = chosen(problem, args.method)
    source = [pathlib.Path(path) for path in (args.instance, args.fleet) if path]
    for path in args.out:
        check_output("--out", path, endings_of(problem), source)
    if args.picture and PAGE not in endings_of(problem):
        raise UserError(f"--picture: a plan for {args.instance} is not played, so it has no picture; leave it out")
    for path in args.picture:
        check_output("--picture", path, (".gif", *STILLS), source)
    show_warnings(problem.problems.inspect(problem.problem, problem.env), problem.assumed)
    solution = watched(problem, seconds=args.seconds, method=method, seed=args.seed)
    outputs = [Output("--out", path, solution.write) for path in args.out]
    outputs += [Output("--picture", path, solution.draw) for path in args.picture]
    write_all(outputs, report(solution))


def watched(problem: Problem, *, seconds: float, method: str, seed: int) -> Solution:
    """`solved`, while stderr shows how far it is.

    On a terminal that is a bar, drawn at most four times a second; elsewhere a line every ten seconds, and each new
    best.
    """
    shown = "{l_bar}{bar}| {n:.1f}/{total:g} s{postfix}"
    is_terminal = sys.stderr.isatty()
    cost, last_line = "", 0.0

    def words(best: Searched) -> str:
        return f"cost {cost_words(problem, best)}"

    with Bar(
        total=seconds, bar_format=shown, desc="compiling", mininterval=BAR, miniters=0, disable=not is_terminal
    ) as bar:

        def draw(best: Searched) -> None:
            bar.set_description("searching", refresh=False)
            bar.set_postfix_str(words(best), refresh=False)
            bar.update(min(best.seconds, seconds) - bar.n)

        def say(best: Searched) -> None:
            nonlocal cost, last_line
            if cost != words(best) or best.seconds >= last_line + LINE:
                cost, last_line = words(best), best.seconds
                print(f"searching: {best.seconds:.1f} of {seconds:g} s, {cost}", file=sys.stderr)

        return solved(problem, seconds=seconds, method=method, seed=seed, progress=draw if is_terminal else say)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("train.solve", "The best plan for one problem in so many seconds; Ctrl-C keeps the best so far.")
    parser.add_argument("instance", nargs="?", help="the file of the problem; a folder or a pattern for many files")
    parser.add_argument("--fleet", metavar="FILE", help=FLEET_HELP)
    parser.add_argument("--seconds", type=above_zero, default=10.0, help="to look for each plan (default: 10)")
    parser.add_argument("--env", help="the environment; by default the one that reads the file")
    parser.add_argument("--method", help="a search, planner or baseline of it, or policy (default: the best choice)")
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    parser.add_argument("--run", help="folder of a run, or name of a shipped policy, that plays")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--seed", type=index, default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "--out",
        metavar="FILE",
        nargs="+",
        default=[],
        help="write the plan: .json, .csv, a page .html, a board also .pcb; of many files, a folder of plans",
    )
    parser.add_argument(
        "--picture", metavar="FILE", nargs="+", default=[], help="draw the plan: .png, .svg, .pdf; a .gif moves"
    )
    parser.add_argument("--shard", type=shards.shard, metavar="I/N", help="solve only part I of N of many files")
    parser.add_argument("--collect", metavar="DIR", help="check the plans of all shards in a folder, and list them")
    parser.add_argument("--env.KEY", metavar="VALUE", help="what the file does not say")
    words, given = split_mapping(argv, "env")
    args = parser.parse_args(words, argparse.Namespace(given=given))
    if args.instance is None and not args.collect:
        raise UserError(f"there is no problem to solve; give a file, a folder or a pattern, see {parser.prog} --help")
    _check_options(args, argv)
    return args


def _check_options(args: argparse.Namespace, argv: Sequence[str]) -> None:
    """Refuse options that do not go together."""
    if args.collect:
        options = [word for word in argv if word.startswith("--") and not word.startswith("--collect")]
        if extra := options or [args.instance] * (args.instance is not None):
            raise UserError(f"--collect takes a folder alone; leave out {extra[0]}")
        return
    if shards.means_many(args.instance):
        if len(args.out) != 1 or args.picture or args.index is not None:
            raise UserError("many files take --out DIR, one folder for all plans, and neither --picture nor --index")
    elif args.shard:
        raise UserError(f"--shard is of many files, and {args.instance} is one; leave it out")
    refuse_beside_fleet(args, args.given)
    if args.run and args.env:
        raise UserError("--env: a run brings its own environment; leave --env or --run out")
    if args.trust and not args.run:
        raise UserError("--trust is of --run; leave it out")


if __name__ == "__main__":
    entry(main, searches=SEARCHES)

"""Dial-a-ride: heuristics, outside solvers and a trained policy on the same instances, every plan checked.

python -m benchmarks.quality --env darp [--run DIR] [--size 40,8]
python -m benchmarks.quality --env darp --run darp_cordeau --env.penalty_unvisited 100 --solvers ortools
python -m benchmarks.quality --env darp --run darp --policy_alone --seed 7 --temperature 1 2 3
python -m benchmarks.quality --env darp --run DIR --instances a2-16,a3-24
python -m benchmarks.quality --env darp --trained DIR --plot table.png     # all runs of benchmarks.ablation --runs DIR
python -m benchmarks.quality --env darp --trained DIR --pooled             # runs of one training with several --seed
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.quality import plot
from benchmarks.quality.baselines import SEED
from benchmarks.quality.darp_contest import HEAD, OVERALL, SOLVERS, Contest, overall
from benchmarks.quality.seeds import check_seeds, kept_runs
from jaxvrp.envs.darp import Darp, read_cordeau, stack
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.io.command_line import Parser, UserError, above_zero, check_picture_path, positive
from jaxvrp.io.published_data import VARIABLE, data_folder
from jaxvrp.io.text_lines import read_lines
from jaxvrp.pictures import STILLS
from train.config import RunConfig
from train.running.command import command_line
from train.running.command.keys import LAUNCH
from train.running.folder.run_folder import RunFolder, Trained
from train.running.loop.evaluator import Evaluator, baseline_actors, first_seed
from train.running.shown.tables import aligned

FAMILIES = ("darp_cordeau2006", "darp_cordeau_laporte2003")
"""Folders of the published instances, within `data_folder()`."""

SIZES = ("num_nodes", "num_agents")
"""Parameters that say how large an instance is."""

AS_PUBLISHED: dict[str, Any] = {
    "limits": True,
    "lookahead": True,
    "penalty_unvisited": 100.0,
    "orphan_factor": 1.0,
}
"""Rules that published instances are played by, whatever a policy was trained with."""


EACH, ALL = "each instance", "all instances"
"""Titles of the last tables."""

NOTES = """cost: distance, and 100 (penalty_unvisited) for each unvisited node; means over instances
gap: summed cost against {reference}; of each instance, and the mean in the last table, that of the distance where the
  plan is feasible, else how many nodes are not served
±: half the width of the 95 % interval of the mean over the seeds of a training, by Student's t
feasible: share of plans that solution_report finds nothing wrong with, everybody served
vehicles: how many leave the depot, means, and the least and the most of a plan
s/instance, CPU s/instance: by the clock, and of all cores; players in JAX play all instances at once, and were compiled
  before; a solver stops by its seconds of CPU
replayed: plans that the environment accepts action by action, at the same cost"""


def generated(args: argparse.Namespace) -> Iterator[tuple[str, Contest, Trained | None]]:
    """The instances of the trainer's evaluation, or of another seed."""
    parameters = args.parameters | (dict(zip(SIZES, args.size, strict=True)) if args.size else {})
    run = _load(args, parameters) if args.run else None
    env: Any = run.learner.env if run else _made(parameters)
    if not isinstance(env, Darp):
        raise UserError(f"--run {args.run} is a run of another environment; give one of darp")
    title = f"{args.episodes} generated instances" + (", {} nodes, {} vehicles".format(*args.size) if args.size else "")
    yield title, Contest(env, Evaluator(env, args.episodes, args.seed).instances()), run


def _made(parameters: dict[str, Any]) -> Any:
    try:
        return jaxvrp.make("darp", **parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None


def _load(args: argparse.Namespace, env: dict[str, Any] | None = None) -> Trained:
    return RunFolder(args.run, env, trust=args.trust).load(args.checkpoint)


def published(args: argparse.Namespace) -> Iterator[tuple[str, Contest, Trained | None]]:
    """Files in Cordeau's format, with ride times and route durations, one contest each, or one of all."""
    paths = [find(name) for name in args.instances.split(",")]
    for group in [paths] if args.together else [[path] for path in paths]:
        try:
            instances, costs = [read_cordeau(path) for path in group], [best_known(path) for path in group]
        except (ValueError, OSError) as error:
            raise UserError(str(error)) from None
        padded = stack(instances)
        sizes = {name: getattr(padded, name) for name in SIZES}
        rules = {**sizes, **AS_PUBLISHED, **args.parameters}
        run = _load(args, rules) if args.run else None
        env: Any = run.learner.env if run else _made(rules)
        known = None if None in costs else np.array(costs, np.float64)
        yield ", ".join(path.stem for path in group), Contest(env, padded, known), run


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
    columns = tuple(head.comma_separated())
    column = next((name for name in ("optimal_cost", "cost") if name in columns), None)
    head.expect("instance" in columns and column is not None, "columns 'instance' and 'optimal_cost' or 'cost'")
    for line in lines:
        row = line.fields(columns)
        if row["instance"] == path.stem:
            return line.real(str(column), row[str(column)]) if row[str(column)] else None
    return None


def play_all(contest: Contest, run: Trained | None, args: argparse.Namespace) -> None:
    """Let everybody play that was asked for, with a progress bar.

    Raises:
        UserError: a solver is not installed, or refuses the instances.
    """
    turns: dict[str, Callable[[], None]] = {}
    if not args.policy_alone:
        baselines = baseline_actors(contest.env).items()
        turns |= {name: functools.partial(contest.act, name, actor) for name, actor in baselines}
    for rounds in [] if args.policy_alone else args.search:
        search = f"search, {rounds} rounds"
        turns[search] = functools.partial(contest.act, search, SearchActor(contest.env, rounds), args.tries)
    turns |= _policy(contest, run, args) if run else {}
    if args.trained:
        turns |= _trained(contest, args)
    for solver in args.solvers:
        turns[solver] = functools.partial(contest.solve, solver, args.seconds)
    with measure.progress(turns.items(), "player") as bar:
        for name, take_turn in bar:
            bar.set_postfix_str(name)
            try:
                take_turn()
            except (ImportError, ValueError) as error:
                raise UserError(str(error)) from None
    if args.pooled:
        _pool(contest, args)


def _samplings(args: argparse.Namespace) -> dict[str, float]:
    """The temperatures of samples, by the words that are added to a player's name."""
    return {f", best of {args.best_of} at temperature {temperature:g}": temperature for temperature in args.temperature}


def _policy(contest: Contest, run: Trained, args: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """The turns of a policy: greedy, and the best of its samples at each temperature."""
    params = first_seed(run.learner, run.params)
    greedy = run.learner.actor(params, deterministic=True)
    turns: dict[str, Callable[[], None]] = {"policy": functools.partial(contest.act, "policy", greedy)}
    for ending, temperature in _samplings(args).items():
        sampled = run.learner.actor(params, deterministic=False, temperature=temperature)
        best = "policy" + ending
        turns[best] = functools.partial(contest.act, best, sampled, args.best_of)
    return turns


def _trained(contest: Contest, args: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """The turns of all runs in a folder: greedy, and if wanted the best of some samples."""
    turns: dict[str, Callable[[], None]] = {}
    trainings: dict[str, RunConfig] = {}
    rules = AS_PUBLISHED if args.instances else {}
    changes = rules | args.parameters | {name: getattr(contest.env, name) for name in SIZES}
    runs = kept_runs(args.trained, args.only)
    sampled = _sampled(args, runs)
    for name, folder in runs.items():
        reader = RunFolder(folder, changes, trust=args.trust)
        run = reader.load(args.checkpoint)
        if not isinstance(run.learner.env, Darp):
            raise UserError(f"--trained: {folder} is a run of another environment; give those of darp")
        trainings[name] = reader.recorded.config
        turns[name] = functools.partial(contest.learned, name, run)
        for ending, temperature in _samplings(args).items() if name in sampled else ():
            turns[name + ending] = functools.partial(
                contest.learned, name + ending, run, args.best_of, temperature=temperature
            )
    if args.pooled:
        check_seeds(trainings)
    return turns


def _sampled(args: argparse.Namespace, runs: Collection[str]) -> set[str]:
    """The names of the runs that also sample: those of `--sampled`, all if that names none.

    Raises:
        UserError: a run of that name does not play.
    """
    if missing := [name for name in args.sampled or () if name not in runs]:
        raise UserError(f"--sampled: no run '{missing[0]}' plays; choose among: {', '.join(runs)}")
    return set(runs) if args.sampled == [] else set(args.sampled or ())


def _pool(contest: Contest, args: argparse.Namespace) -> None:
    """Rows of all runs together: greedy, and their samples if all have played these."""
    runs = kept_runs(args.trained, args.only)
    for ending in ("", *(_samplings(args) if _sampled(args, runs) == set(runs) else ())):
        contest.pool(f"all {len(runs)} seeds{ending}", [name + ending for name in runs])


def _check(args: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is played.

    Raises:
        UserError: it does not.
    """
    if args.policy_alone and not (args.run or args.solvers or args.trained):
        raise UserError("--policy_alone leaves nobody to play; give --run, --trained or --solvers as well")
    measure.check_sizes([args.size] if args.size else (), "nodes,vehicles")
    for name in args.parameters.keys() & set(SIZES):
        raise UserError(f"--env.{name} is a size; give both: --size nodes,vehicles")
    if args.size and args.instances:
        raise UserError("--size is that of generated instances, published ones have their own; leave one of both out")
    for option, is_given in {"pooled": args.pooled, "sampled": args.sampled is not None}.items():
        if is_given and not args.trained:
            raise UserError(f"--{option} is about the runs of --trained; give that as well")
    if args.plot:
        check_picture_path(args.plot, STILLS, "--plot")
        if args.instances:
            raise UserError("--plot shows generated instances; leave --instances out")


def _draw(contest: Contest, title: str, path: pathlib.Path) -> None:
    has_gap = len(contest.reference()) > 0
    points = [
        plot.Point(
            player,
            [100 * gap for gap in figures["gap"]] if has_gap else figures["cost"],
            sum(figures["cpu_seconds"]) / len(figures["cpu_seconds"]),
        )
        for player, figures in contest.figures().items()
    ]
    plot.draw(points, f"cost above {contest.reference_name()} [%]" if has_gap else "cost", title, path)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = command_line.split_mapping(argv, "env")
    args = _arguments(words, parameters)
    _check(args)
    measure.check_result_file(
        args.out, [args.run, args.trained, *(map(find, args.instances.split(",")) if args.instances else ())]
    )
    tables, contests = {}, []
    for title, contest, run in (published if args.instances else generated)(args):
        play_all(contest, run, args)
        contests.append(contest)
        tables[title] = [list(HEAD), *contest.rows()]
        print(f"\n{title}\n\n{aligned(tables[title])}")
        if args.plot:
            _draw(contest, title, args.plot)
            print(f"drew {args.plot}")
        if args.together and args.instances:
            tables[EACH] = contest.each_instance(title.split(", "))
            print(f"\n{EACH}\n\n{aligned(tables[EACH])}")
    if args.instances and (len(contests) > 1 or args.together):
        tables[ALL] = [list(OVERALL), *overall(contests)]
        print(f"\n{ALL}\n\n{aligned(tables[ALL])}")
    print(f"\n{NOTES.format(reference=contests[0].reference_name() or 'nobody: no solver has played')}")
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
        options = vars(args) | {"out": None, "plot": None, "trained": str(args.trained) if args.trained else None}
        figures = {} if args.instances else {"figures": contests[0].figures()}
        measure.write_result(args.out, {"machine": header, "options": options, "tables": tables, **figures})
        print(f"wrote {args.out}")


def _arguments(argv: Sequence[str], parameters: dict[str, Any]) -> argparse.Namespace:
    parser = Parser("benchmarks.quality", "Dial-a-ride: heuristics, solvers and a policy, side by side.")
    parser.add_argument("--env", choices=("darp",), help="this environment")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of one of its parameters")
    parser.add_argument("--run", help="run folder of train.mappo on darp, or a shipped policy: greedy, sampled")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument(
        "--trained", type=pathlib.Path, help="folder of runs (benchmarks.ablation --runs): a row for each, of all seeds"
    )
    parser.add_argument("--only", nargs="+", help="names of some of these (default: all)")
    parser.add_argument(
        "--pooled", action="store_true", help="these are seeds of one training: also rows of all of them together"
    )
    parser.add_argument(
        "--sampled", nargs="*", help="names of these that also play the best of --best_of samples; no name: all of them"
    )
    parser.add_argument("--best_of", type=positive, default=128, help="samples of the policy (default: 128)")
    parser.add_argument("--policy_alone", action="store_true", help="no heuristics and no search beside the policy")
    parser.add_argument(
        "--temperature", type=above_zero, nargs="+", default=[3.0], help="of these, a row for each (default: 3)"
    )
    parser.add_argument("--episodes", type=positive, default=128, help="generated instances, for all (default: 128)")
    parser.add_argument(
        "--seed", type=positive, default=SEED, help=f"of these (default: {SEED}, as the trainer's evaluation)"
    )
    parser.add_argument(
        "--size", type=measure.sizes_option, help="nodes,vehicles of these (default: the run's, or 20,5)"
    )
    parser.add_argument("--instances", help="instead of these: published ones, a2-16,a3-24 or paths, comma-separated")
    parser.add_argument(
        "--together",
        action="store_true",
        help="pad these to the largest of them and play all at once: one program for all, and a line for each instance",
    )
    parser.add_argument(
        "--search", type=positive, nargs="*", default=[300], help="rounds of ruin and recreate, a row for each number"
    )
    parser.add_argument("--tries", type=positive, default=1, help="of the search: the best plan counts (default: 1)")
    parser.add_argument("--solvers", nargs="*", choices=tuple(SOLVERS), default=[], help="needs jaxvrp[solvers]")
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=10.0, help="CPU time of a solver, for each instance"
    )
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and tables")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of the table of generated instances, PNG or SVG")
    return parser.parse_args(argv, argparse.Namespace(parameters=parameters))

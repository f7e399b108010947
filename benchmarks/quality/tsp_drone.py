"""Truck and drone: baselines and a trained policy on the same instances, every plan checked.

python -m benchmarks.quality --env tsp_drone                                        # generated instances
python -m benchmarks.quality --env tsp_drone --sets random_n11,random_n20,uniform_n11
python -m benchmarks.quality --env tsp_drone --run DIR --sets random_n20 --best_of 1280
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.quality.baselines import SEED
from benchmarks.quality.tsp_drone_contest import HEAD, METHODS, Contest, Turn
from jaxvrp.envs.tsp_drone import Instance, TspDrone, read_agatz, read_one_line, stack
from jaxvrp.io.command_line import Parser, UserError, above_zero, positive
from jaxvrp.io.published_data import VARIABLE, data_folder
from jaxvrp.io.text_lines import read_lines
from train.running.command.keys import LAUNCH
from train.running.folder.run_folder import RunFolder, Trained
from train.running.loop.evaluator import Evaluator, baseline_actors, first_seed
from train.running.shown.tables import aligned

LINES, FILES = "tspd_bogyrbayeva", "tspd_agatz"
"""Folders of the published instances, within `data_folder()`."""

NOTES = """makespan: mean over instances, by solution_report
gap: summed makespans against {reference}
feasible: share of plans that solution_report finds nothing wrong with
s/instance, CPU s/instance: by the clock, and of all cores; all instances are played at once, compiled before
policy, best of K: sampled, every try on the map in another position; its orders: the best partition of any of these
  tries into operations"""


class Published(NamedTuple):
    """A set of published instances.

    Attributes:
        name: as it was asked for.
        instances: of one size, a batch `[E]`.
        makespans: `f64[E]`, known ones.
        reference: what these are.
    """

    name: str
    instances: Instance
    makespans: np.ndarray
    reference: str


def find(name: str, rows: int | None) -> Published:
    """A set: `random_n20` (Bogyrbayeva et al.), or `uniform_n11` and the like (Agatz et al., with proven optima).

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    try:
        found = _of_lines(name) if name.startswith("random_n") else _of_files(name)
    except OSError as error:
        raise UserError(
            f"--sets: cannot read '{name}' ({error}); take random_n20, uniform_n11 or the like, and set {VARIABLE} to "
            f"the folder that holds {LINES} and {FILES}"
        ) from None
    except ValueError as error:
        raise UserError(str(error)) from None
    instances, makespans, reference = found
    return Published(name, stack(instances[:rows]), makespans[:rows], reference)


def _of_lines(name: str) -> tuple[list[Instance], np.ndarray, str]:
    folder = data_folder() / LINES
    instances = read_one_line(folder / f"{name}.txt")
    lines = read_lines(folder / f"{name}_tsp_ep_all.txt", "a makespan in each line")
    lines[-1].expect(len(lines) == len(instances), f"{len(instances)} makespans, found {len(lines)}")
    return instances, np.array([line.real("a makespan", line.text) for line in lines]), "the published TSP-ep-all"


def _of_files(name: str) -> tuple[list[Instance], np.ndarray, str]:
    folder = data_folder() / FILES
    head, *lines = read_lines(folder / "best_known.csv", "a table of best known makespans")
    columns = tuple(head.comma_separated())
    wanted = {"instance", "best_makespan", "status"}
    head.expect(wanted <= set(columns), f"columns {', '.join(sorted(wanted))}")
    layout, _, size = name.partition("_")
    instances, makespans = [], []
    for line in lines:
        row = line.fields(columns)
        is_plain = row["instance"].split("-")[0] == layout and row["instance"].count("-") == 2
        if is_plain and row["instance"].endswith(f"-{size}") and row["status"] == "optimal":
            instances.append(read_agatz(folder / layout / f"{row['instance']}.txt"))
            makespans.append(line.real("best_makespan", row["best_makespan"]))
    if not instances:
        raise FileNotFoundError(f"no optimum of such instances in {folder / 'best_known.csv'}")
    return instances, np.array(makespans), "the proven optimum"


def contests(args: argparse.Namespace) -> Iterator[tuple[str, Contest, Trained | None, str]]:
    """Title, players and reference of each table."""
    for name in args.sets.split(",") if args.sets else []:
        found = find(name, args.rows)
        run = _load(args, {"num_nodes": found.instances.num_nodes})
        env = _env_of(run, {"num_nodes": found.instances.num_nodes}, args)
        title = f"{name}, {len(found.makespans)} instances"
        yield title, Contest(env, found.instances, found.makespans), run, found.reference
    if not args.sets:
        run = _load(args, {})
        env = _env_of(run, {}, args)
        instances = Evaluator(env, args.rows or 128, SEED).instances()
        yield (
            f"{args.rows or 128} generated instances of {env.num_nodes} nodes",
            Contest(env, instances),
            run,
            "nothing",
        )


def _load(args: argparse.Namespace, env: dict[str, Any]) -> Trained | None:
    return RunFolder(pathlib.Path(args.run), env, trust=args.trust).load(args.checkpoint) if args.run else None


def _env_of(run: Trained | None, sizes: dict[str, Any], args: argparse.Namespace) -> TspDrone:
    env = run.learner.env if run else jaxvrp.make("tsp_drone", **sizes)
    if not isinstance(env, TspDrone):
        raise UserError(f"--run {args.run} is a run of another environment; give one of tsp_drone")
    return env


def play_all(contest: Contest, run: Trained | None, args: argparse.Namespace) -> None:
    """Let everybody play that was asked for, with a progress bar."""
    turns: dict[str, Turn] = {
        name: functools.partial(contest.act, name, actor) for name, actor in baseline_actors(contest.env).items()
    }
    for name in METHODS:
        if name not in args.without:
            turns[name] = functools.partial(contest.plan, name, args.window)
    if run:
        params = first_seed(run.learner, run.params)
        greedy = run.learner.actor(params, deterministic=True)
        sampled = run.learner.actor(params, deterministic=False, temperature=args.temperature)
        best = f"policy, best of {args.best_of}"
        turns["policy"] = functools.partial(contest.act, "policy", greedy, 1, "policy, its order")
        turns[best] = functools.partial(contest.act, best, sampled, args.best_of, f"{best}, its orders")
    with measure.progress(turns.items(), "player") as bar:
        for name, take_turn in bar:
            bar.set_postfix_str(name)
            take_turn()


def main(argv: Sequence[str]) -> None:
    """The command line."""
    args = _arguments(argv)
    measure.check_result_file(args.out, [args.run])
    tables, references = {}, []
    for title, contest, run, reference in contests(args):
        play_all(contest, run, args)
        tables[title] = [list(HEAD), *contest.rows()]
        references.append(reference)
        print(f"\n{title}\n\n{aligned(tables[title])}")
    print(f"\n{NOTES.format(reference=', '.join(dict.fromkeys(references)))}")
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
        measure.write_result(args.out, {"machine": header, "options": vars(args) | {"out": None}, "tables": tables})
        print(f"wrote {args.out}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.quality", "Truck and drone: baselines and a policy, side by side.")
    parser.add_argument("--env", choices=("tsp_drone",), help="this environment")
    parser.add_argument("--run", help="run folder of train.mappo on tsp_drone: plays its policy, greedy and sampled")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--best_of", type=positive, default=128, help="samples of the policy (default: 128)")
    parser.add_argument("--temperature", type=above_zero, default=1.0, help="of these (default: 1)")
    parser.add_argument("--sets", help="published instances: random_n20,uniform_n11, ... (default: generated ones)")
    parser.add_argument("--rows", type=positive, help="so many instances of each (default: all; 128 generated ones)")
    parser.add_argument("--window", type=positive, help="positions of an operation of the planners (default: any)")
    parser.add_argument("--without", nargs="*", choices=tuple(METHODS), default=[], help="planners to leave out")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and tables")
    return parser.parse_args(argv)

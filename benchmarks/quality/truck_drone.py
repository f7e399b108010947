"""Truck and drones: the greedy dispatcher, random play and trained policies on the same instances.

python -m benchmarks.quality
python -m benchmarks.quality --battery_rate 1.0 --episodes 512
python -m benchmarks.quality --env.scenario vrpd_tw --sizes 4,20,10 --blind
python -m benchmarks.quality --battery_rate 1.0 --sizes 4,20,10 --episodes 16 --search_seconds 2 10
python -m benchmarks.quality --env.scenario vrpd_tw --env.dynamic_share 0.5 --sizes 4,20,10 --episodes 32 --planner 32
python -m benchmarks.quality --run DIR --sizes 4,20,10 --best_of 8 64 --planner 8 32 --search_seconds 1 10 --curve c.svg
python -m benchmarks.quality --run DIR --sizes 4,20,10 8,50,16      # a policy, at its own size and others
python -m benchmarks.quality --trained DIR --sizes 4,20,10 --plot table.png  # runs of benchmarks.ablation --runs DIR
python -m benchmarks.quality --trained DIR --pooled --sizes 4,20,10  # runs of one training with several --seed
"""

from __future__ import annotations

import argparse
import functools
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxvrp
from benchmarks import measure
from benchmarks.measure import Size, progress
from benchmarks.quality import plot
from benchmarks.quality.baselines import SEED
from benchmarks.quality.seeds import by_seed, cell, check_seeds, kept_runs
from benchmarks.reference.truck_drone import SUBJECT
from jaxvrp import Environment
from jaxvrp.actor import Actor
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import FUTURES, RollingHorizonActor
from jaxvrp.io.command_line import Parser, UserError, above_zero, check_picture_path, positive
from jaxvrp.pictures import STILLS
from jaxvrp.registry import toolbox_of
from jaxvrp.toolbox import Searched
from train.networks import NETWORKS
from train.running.command import command_line
from train.running.command.keys import LAUNCH
from train.running.folder.run_folder import RunFolder, Trained
from train.running.loop.evaluator import Evaluator, baseline_actors, first_seed, mean_figures
from train.running.shown.tables import aligned

FIGURES = ("return", "completion_rate", "success_rate", "on_time_rate", "time_step", "crashed_drones", "forced_returns")
HEAD = ("player", *FIGURES, "s/instance", "CPU s/instance")
NOTES = """means over whole episodes of {episodes} instances, the same for all players
time_step: steps of the simulation that an episode took
s/instance, CPU s/instance: all instances were played at once, by programs that were compiled before"""
SEARCH_NOTE = "search: one instance after the other; it knows all customers beforehand, which no policy does"

SEEDS_NOTE = "±: half the width of the 95 % interval of the mean over the seeds of a training, by Student's t"

Figures = dict[str, list[float]]
"""What a player reached, and `seconds` and `cpu_seconds` of an instance: of each seed."""

Player = tuple[Environment, Actor, int]
"""Where somebody plays, who, and of how many tries on each instance the best counts."""


def players(size: Size, args: argparse.Namespace, parameters: Mapping[str, Any]) -> dict[str, Player]:
    """Everybody who plays at a size, by name; `parameters` are those of the environment beside its size.

    Raises:
        UserError: no such parameter, the run is of another environment, or its networks are tied to another size.
    """
    changes = {**SUBJECT.parameters(size), **parameters}
    if not args.run:
        env = _made(changes)
        return _baselines(env, args.blind) | _planners(env, args)
    run = RunFolder(args.run, changes, trust=args.trust).load(args.checkpoint)
    if run.learner.config.env["name"] != "truck_drone":
        raise UserError(f"--run {args.run} is a run of another environment; give one of truck_drone")
    played: Any = run.learner.env
    params = first_seed(run.learner, run.params)
    greedy = run.learner.actor(params, deterministic=True)
    sampled = run.learner.actor(params, deterministic=False)
    # Baselines decide at every step, whenever the policy does: so they are at their best.
    by_steps = played.replace(decide="steps")
    everybody = _baselines(by_steps, args.blind) | _planners(by_steps, args)
    everybody |= {"policy": (played, greedy, 1), "policy, sampled": (played, sampled, 1)}
    everybody |= {f"policy, best of {tries}": (played, sampled, tries) for tries in args.best_of}
    if args.planner_with_policy:
        for count in args.planner:
            planner = RollingHorizonActor(played, greedy, continuations=count, futures=args.futures)
            everybody[f"planner with the policy, {count} continuations"] = (played, planner, 1)
    return everybody


def _made(parameters: Mapping[str, Any]) -> Environment:
    try:
        return jaxvrp.make("truck_drone", **parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None


def _baselines(env: Environment, blind: bool) -> dict[str, Player]:
    actors = baseline_actors(env)
    if blind:
        actors["greedy, blind to batteries"] = toolbox_of(env).baselines["greedy"](
            env.replace(battery_rate=0.0, hover_cost=0.0)
        )
    return {name: (env, actor, 1) for name, actor in actors.items()}


def _planners(env: Any, args: argparse.Namespace) -> dict[str, Player]:
    """The planner, which continues with the dispatcher, at each number of continuations."""
    return {
        f"planner, {count} continuations": (
            env,
            RollingHorizonActor(env, continuations=count, futures=args.futures),
            1,
        )
        for count in args.planner
    }


def played_by(player: Player, episodes: int) -> Figures:
    """What a player reaches."""
    env, actor, tries = player
    evaluator = Evaluator(env, episodes, SEED)
    figures, seconds = measure.timed(lambda: evaluator.play(actor, tries))
    return _figures([figures], [seconds.per(episodes)])


def played_by_seeds(run: Trained, episodes: int) -> Figures:
    """What each seed of a run reaches, without samples, where it was trained."""
    learner = run.learner
    evaluator = Evaluator(learner.env, episodes, SEED)
    seeds = by_seed(learner, run.params)
    play = jax.jit(lambda params: evaluator.play(learner.actor(params, deterministic=True)))
    compiled = play.lower(seeds[0]).compile()
    turns = [measure.seconds_of(functools.partial(measure.called, compiled, params)) for params in seeds]
    return _figures([figures for figures, _ in turns], [seconds.per(episodes) for _, seconds in turns])


def trained(size: Size, args: argparse.Namespace, parameters: Mapping[str, Any]) -> dict[str, Figures]:
    """What each run of a folder reaches at a size; those that are tied to another size are left out.

    With `--pooled` also what all of them do together, which are then the seeds of one training.
    """
    changes = {**SUBJECT.parameters(size), **parameters}
    found: dict[str, Figures] = {}
    trainings: dict[str, Any] = {}
    for name, folder in progress(kept_runs(args.trained, args.only).items(), "run"):
        reader = RunFolder(folder, changes, trust=args.trust)
        if reader.player.config.env["name"] != "truck_drone":
            raise UserError(f"--trained: {folder} is a run of another environment; give those of truck_drone")
        is_tied = not NETWORKS[getattr(reader.player.config, "network", "mlp")].reads_entities
        if is_tied and any(
            reader.recorded.config.env.get(key) != value for key, value in SUBJECT.parameters(size).items()
        ):
            continue
        found[name] = played_by_seeds(reader.load(args.checkpoint), args.episodes)
        trainings[name] = reader.recorded.config
    if args.pooled:
        check_seeds(trainings)
        found[f"all {len(found)} seeds"] = {
            key: [value for figures in found.values() for value in figures[key]] for key in next(iter(found.values()))
        }
    return found


def _figures(of_seeds: Sequence[Mapping[str, jax.Array]], seconds: Sequence[measure.Seconds]) -> Figures:
    named = {key: [float(figures[key]) for figures in of_seeds] for key in FIGURES}
    return {**named, "seconds": [each.wall for each in seconds], "cpu_seconds": [each.cpu for each in seconds]}


def found_by_search(env: Environment, episodes: int, seconds: float) -> tuple[str, Figures]:
    """Name and figures of the first search in the toolbox; it has so many seconds for each instance."""
    name, search = next(iter(toolbox_of(env).searches.items()))
    instances = jax.jit(Evaluator(env, episodes, SEED).instances)()
    singles = [jax.tree.map(lambda leaf, index=index: leaf[index], instances) for index in range(episodes)]
    keys = jax.random.split(jax.random.key(SEED), episodes)
    # Compiles; as everybody else, it is timed after that.
    next(search(env, singles[0], keys[0], seconds))

    def plans() -> list[Searched]:
        found = (search(env, *problem, seconds) for problem in zip(singles, progress(keys, "instance"), strict=True))
        return [min(each, key=lambda plan: plan.cost) for each in found]

    best, spent = measure.seconds_of(plans)
    actions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(plan.actions for plan in best))
    figures = mean_figures(env, jax.jit(functools.partial(played, env))(instances, actions))
    return f"{name}, {seconds:g} s", _figures([figures], [spent.per(episodes)])


def played(env: Environment, instances: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Metrics and `return`, `f32[E]`, of episodes `[E]` with given actions `{role: [E, T, agents]}`."""

    def play(instance: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        def advance(state: Any, action: Mapping[str, jax.Array]) -> tuple[Any, jax.Array]:
            state, timestep = env.step(state, action)
            return state, timestep.team_reward

        state, paid = jax.lax.scan(advance, env.init_state(instance), actions)
        return {**env.metrics(state), "return": paid.sum()}

    return jax.vmap(play)(instances, actions)


def row(name: str, figures: Figures) -> list[str]:
    """Name and figures of a player, under `HEAD`; of several seeds, the mean and its interval."""
    wall, cpu = (sum(figures[kind]) / len(figures[kind]) for kind in ("seconds", "cpu_seconds"))
    return [name, *(cell(figures[key], ".3f") for key in FIGURES), f"{wall:.2g}", f"{cpu:.2g}"]


def _points(figures: Mapping[str, Figures]) -> list[plot.Point]:
    return [
        plot.Point(name, found["return"], sum(found["cpu_seconds"]) / len(found["cpu_seconds"]))
        for name, found in figures.items()
    ]


def method_of(name: str) -> str:
    """The method that a player is, without its budget: that of `search, 2 s` is `search`."""
    method, _, rest = name.partition(", ")
    return method if any(character.isdigit() for character in rest) else name


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = command_line.split_mapping(argv, "env")
    args = _arguments(words)
    if args.planner_with_policy and not (args.run and args.planner):
        raise UserError("--planner_with_policy continues with the policy of a run; give --run and --planner as well")
    if args.pooled and not args.trained:
        raise UserError("--pooled is about the runs of --trained; give that as well")
    for name in SUBJECT.parameters(args.sizes[0]).keys() & parameters.keys():
        raise UserError(f"--env.{name} differs from table to table; give --sizes instead")
    measure.check_sizes(args.sizes, SUBJECT.labels)
    measure.check_result_file(args.out, [args.run, args.trained])
    _check_plots(args)
    tables, figures_of = {}, {}
    for size, rate in progress(list(itertools.product(args.sizes, args.battery_rate or [None])), "table"):
        played_with = parameters if rate is None else {**parameters, "battery_rate": rate}
        everybody = players(size, args, played_with)
        figures = {name: played_by(player, args.episodes) for name, player in everybody.items()}
        env, *_ = everybody["greedy"]
        figures |= dict(found_by_search(env, args.episodes, seconds) for seconds in args.search_seconds)
        figures |= trained(size, args, played_with) if args.trained else {}
        title = f"({SUBJECT.labels.replace(',', ', ')}) = {size}"
        title += f", battery_rate {rate:g}" if len(args.battery_rate or []) > 1 else ""
        figures_of[title] = figures
        tables[title] = [list(HEAD), *(row(name, found) for name, found in figures.items())]
        print(f"\n{title}\n\n{aligned(tables[title])}")
        if args.plot:
            plot.draw(_points(figures), "return", title, args.plot)
            print(f"drew {args.plot}")
        if args.curve:
            # Random play is so far below all others that they would look alike.
            compared = [point for point in _points(figures) if point.name != "random"]
            plot.draw_curve(compared, method_of, "return", title, args.curve)
            print(f"drew {args.curve}")
    further = {SEARCH_NOTE: args.search_seconds, SEEDS_NOTE: args.trained}
    notes = [NOTES.format(episodes=args.episodes), *(note for note, wanted in further.items() if wanted)]
    print("\n" + "\n".join(notes))
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
        sizes = [str(size) for size in args.sizes]
        kept = str(args.trained) if args.trained else None
        options = vars(args) | {
            "out": None,
            "plot": None,
            "curve": None,
            "trained": kept,
            "sizes": sizes,
            "parameters": parameters,
        }
        result = {"machine": header, "options": options, "tables": tables, "figures": figures_of}
        measure.write_result(args.out, result)
        print(f"wrote {args.out}")


def _check_plots(args: argparse.Namespace) -> None:
    for option, path in (("--plot", args.plot), ("--curve", args.curve)):
        if path is None:
            continue
        check_picture_path(path, STILLS, option)
        if len(args.sizes) * len(args.battery_rate or [None]) > 1:
            raise UserError(f"{option} shows one table; give one of --sizes, and one --battery_rate")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.quality", "Baselines of truck_drone, and a policy, on fixed instances.")
    known = ", ".join(jaxvrp.registered())
    parser.add_argument(
        "--env",
        default="truck_drone",
        help=f"{known} or package.module:make (default: truck_drone); --env NAME --help lists the options of another",
    )
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    parser.add_argument("--blind", action="store_true", help="also a dispatcher that ignores batteries")
    parser.add_argument("--run", help="run folder of train.mappo or train.ippo, or a shipped policy: plays it")
    parser.add_argument(
        "--trained", type=pathlib.Path, help="folder of runs (benchmarks.ablation --runs): a row for each, of all seeds"
    )
    parser.add_argument("--only", nargs="+", help="names of some of these (default: all)")
    parser.add_argument(
        "--pooled", action="store_true", help="these are seeds of one training: also a row of all of them together"
    )
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument(
        "--best_of",
        type=positive,
        nargs="*",
        default=[],
        help="also the best of so many samples; a row for each number",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=measure.sizes_option,
        default=list(SUBJECT.sizes),
        help=f"{SUBJECT.labels} (default: three)",
    )
    parser.add_argument(
        "--battery_rate", type=_rate, nargs="+", help="battery per map unit flown (default: the run's, else 0.5)"
    )
    parser.add_argument("--episodes", type=positive, default=512, help="instances of each size (default: 512)")
    parser.add_argument(
        "--planner",
        type=positive,
        nargs="*",
        default=[],
        help="also the planner: continuations of a decision, a row each",
    )
    parser.add_argument(
        "--futures", type=positive, default=FUTURES, help=f"in which it plays each plan (default: {FUTURES})"
    )
    parser.add_argument(
        "--planner_with_policy", action="store_true", help="also planners that continue with the policy of --run"
    )
    parser.add_argument(
        "--search_seconds",
        type=above_zero,
        nargs="*",
        default=[],
        help="also the search for plans, so many seconds for each instance; a row for each number",
    )
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and tables")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of the table, PNG or SVG")
    parser.add_argument(
        "--curve", type=pathlib.Path, help="picture of the return against the processor's seconds, PNG or SVG"
    )
    return parser.parse_args(argv)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return rate

"""Truck and drones: the greedy dispatcher, random play and trained policies on the same instances.

python -m benchmarks.quality
python -m benchmarks.quality --battery_rate 1.0 --episodes 512
python -m benchmarks.quality --env.scenario vrpd_tw --sizes 4,20,10 --blind
python -m benchmarks.quality --battery_rate 1.0 --sizes 4,20,10 --episodes 16 --search_seconds 2 10
python -m benchmarks.quality --env.scenario vrpd_tw --env.dynamic_share 0.5 --sizes 4,20,10 --episodes 32 --planner 32
python -m benchmarks.quality --run DIR --sizes 4,20,10 8,50,16      # a policy, at its own size and others
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxvrp
from benchmarks import measure
from benchmarks.measure import Size, progress
from benchmarks.quality.baselines import SEED
from benchmarks.reference.truck_drone import SUBJECT
from jaxvrp import Environment
from jaxvrp.actor import Actor
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import FUTURES, RollingHorizonActor
from jaxvrp.io.command_line import Parser, UserError, above_zero, positive
from jaxvrp.registry import toolbox_of
from jaxvrp.toolbox import Searched
from train.running import command_line
from train.running.evaluator import Evaluator, baseline_actors, first_seed, mean_figures
from train.running.keys import LAUNCH
from train.running.run_folder import RunFolder
from train.running.tables import aligned

FIGURES = ("return", "completion_rate", "success_rate", "on_time_rate", "time_step", "crashed_drones", "forced_returns")
HEAD = ("player", *FIGURES, "s/instance", "CPU s/instance")
NOTES = """means over whole episodes of {episodes} instances, the same for all players
time_step: steps of the simulation that an episode took
s/instance, CPU s/instance: all instances were played at once, by programs that were compiled before"""
SEARCH_NOTE = (
    "search: one instance after the other; it knows all customers beforehand, so that it bounds what a policy can reach"
)

Player = tuple[Environment, Actor, int]
"""Where somebody plays, who, and of how many tries on each instance the best counts."""


def players(size: Size, args: argparse.Namespace, parameters: Mapping[str, Any]) -> dict[str, Player]:
    """Everybody who plays at a size, by name; `parameters` are those of the environment beside its size.

    Raises:
        UserError: no such parameter, the run is of another environment, or its networks are tied to another size.
    """
    changes = {**SUBJECT.parameters(size), **parameters}
    if args.battery_rate is not None:
        changes["battery_rate"] = args.battery_rate
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
    if args.best_of > 1:
        everybody[f"policy, best of {args.best_of}"] = (played, sampled, args.best_of)
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


def row(name: str, player: Player, episodes: int) -> list[str]:
    """Name and figures of a player, under `HEAD`."""
    env, actor, tries = player
    evaluator = Evaluator(env, episodes, SEED)
    figures, seconds = measure.timed(lambda: evaluator.play(actor, tries))
    return _cells(name, figures, seconds.per(episodes))


def search_row(env: Environment, episodes: int, seconds: float) -> list[str]:
    """Name and figures, under `HEAD`, of the first search in the toolbox; it has so many seconds for each instance."""
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
    return _cells(f"{name}, {seconds:g} s", figures, spent.per(episodes))


def played(env: Environment, instances: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Metrics and `return`, `f32[E]`, of episodes `[E]` with given actions `{role: [E, T, agents]}`."""

    def play(instance: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        def advance(state: Any, action: Mapping[str, jax.Array]) -> tuple[Any, jax.Array]:
            state, timestep = env.step(state, action)
            return state, timestep.team_reward

        state, paid = jax.lax.scan(advance, env.init_state(instance), actions)
        return {**env.metrics(state), "return": paid.sum()}

    return jax.vmap(play)(instances, actions)


def _cells(name: str, figures: Mapping[str, jax.Array], each: measure.Seconds) -> list[str]:
    return [
        name,
        *(f"{figures[key]:.3f}" for key in FIGURES),
        f"{each.wall:.2g}",
        f"{each.cpu:.2g}",
    ]


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = command_line.split_mapping(argv, "env")
    args = _arguments(words)
    if args.planner_with_policy and not (args.run and args.planner):
        raise UserError("--planner_with_policy continues with the policy of a run; give --run and --planner as well")
    for name in SUBJECT.parameters(args.sizes[0]).keys() & parameters.keys():
        raise UserError(f"--env.{name} differs from table to table; give --sizes instead")
    measure.check_sizes(args.sizes, SUBJECT.labels)
    measure.check_result_file(args.out, [args.run])
    tables = {}
    for size in progress(args.sizes, "size"):
        everybody = players(size, args, parameters)
        rows = [row(name, player, args.episodes) for name, player in everybody.items()]
        env, *_ = everybody["greedy"]
        rows += [search_row(env, args.episodes, seconds) for seconds in args.search_seconds]
        title = f"({SUBJECT.labels.replace(',', ', ')}) = {size}"
        tables[title] = [list(HEAD), *rows]
        print(f"\n{title}\n\n{aligned(tables[title])}")
    notes = [NOTES.format(episodes=args.episodes), *([SEARCH_NOTE] if args.search_seconds else [])]
    print("\n" + "\n".join(notes))
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
        sizes = [str(size) for size in args.sizes]
        options = vars(args) | {"out": None, "sizes": sizes, "parameters": parameters}
        measure.write_result(args.out, {"machine": header, "options": options, "tables": tables})
        print(f"wrote {args.out}")


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
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--best_of", type=positive, default=1, help="also the best of so many samples (default: 1, no)")
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=measure.sizes_option,
        default=list(SUBJECT.sizes),
        help=f"{SUBJECT.labels} (default: three)",
    )
    parser.add_argument("--battery_rate", type=_rate, help="battery per map unit flown (default: the run's, else 0.5)")
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
    return parser.parse_args(argv)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return rate

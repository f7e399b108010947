"""Truck and drones: dispatcher, random play, planner, search and trained policies on the same instances.

python -m benchmarks.quality
python -m benchmarks.quality --env.battery_rate 1.0 --episodes 4 --search_seconds 10
python -m benchmarks.quality --env.scenario vrpd_tw --sizes 4,20,10 --blind
python -m benchmarks.quality --run DIR --sizes 4,20,10 --best_of 8 64 --planner 8 32 --search_seconds 1 10
python -m benchmarks.quality --run DIR --sizes 4,20,10 8,50,16      # a policy, at its own size and others
python -m benchmarks.quality --run vrpd_tw --sizes 4,20,10 --dynamic_share 0 0.5 1    # what information is worth
python -m benchmarks.quality --run DIR DIR DIR                      # the seeds of one training, and all together
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Standings
from benchmarks.reference.truck_drone import SUBJECT
from jaxvrp import Environment
from jaxvrp.actor import Actor
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import RollingHorizonActor
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.io.command_line import UserError, above_zero, positive
from jaxvrp.registry import players_of
from train import Evaluator, RunFolder, baseline_actors, mean_figures, split_mapping

FIGURES = ("return", "completion_rate", "success_rate", "on_time_rate", "time_step", "crashed_drones", "forced_returns")
HEAD = ("player", "decides by", *FIGURES, "s/instance", "CPU s/instance")
NOTES = """means over whole episodes of the same instances for all players
decides by: a policy as it was trained; the others play by steps and by events, and the higher return counts
time_step: steps of the simulation that an episode took
s/instance, CPU s/instance: all instances were played at once, by programs that were compiled before
search: one instance after the other; it knows all customers beforehand, which no policy does
±: half the width of the 95 % interval of the mean over the seeds of a training, by Student's t"""

FREE = {"seed", "logger", "pictures", "start_from"}
"""Keys in which the seeds of one training may differ."""


class Played(NamedTuple):
    """What a player reached.

    Attributes:
        decides: when it decided, `"steps"` or `"events"`.
        figures: means over the instances.
        seconds: of an instance.
    """

    decides: str
    figures: Mapping[str, float]
    seconds: Seconds


def strongest(envs: Sequence[Any], actor_in: Callable[[Any], Actor], episodes: int, tries: int = 1) -> Played:
    """What a player reaches in that one of the environments where it has the highest return.

    Args:
        envs: with the same instances.
        actor_in: from an environment to the player.
        episodes: how many instances.
        tries: on each instance, of which the best counts.
    """
    found = []
    for env in envs:
        evaluator, actor = Evaluator(env, episodes, SEED), actor_in(env)
        figures, seconds = measure.timed(functools.partial(evaluator.play, actor, tries))
        found.append(_played(env, figures, seconds.per(episodes)))
    return max(found, key=lambda played: played.figures["return"])


def _played(env: Any, figures: Mapping[str, Any], seconds: Seconds) -> Played:
    return Played(env.decide, {key: float(figures[key]) for key in FIGURES}, seconds)


def players(env: Environment, runs: Sequence[Any], args: argparse.Namespace) -> dict[str, Callable[[], Played]]:
    """The turns of all players; `runs` are the policies, in the environments in which they play."""
    envs = players_of(env).forms(env)
    play = functools.partial(strongest, envs, episodes=args.episodes)
    turns: dict[str, Callable[[], Played]] = {}
    for name in baseline_actors(env):
        turns[name] = functools.partial(play, lambda form, name=name: baseline_actors(form)[name])
    if args.blind:
        greedy = players_of(env).baselines["greedy"]
        turns["greedy, blind to batteries"] = functools.partial(
            play, lambda form: greedy(form.replace(battery_rate=0.0, hover_cost=0.0))
        )
    for count in args.planner:
        planner = functools.partial(RollingHorizonActor, continuations=count)
        turns[f"planner, {count} continuations"] = functools.partial(play, planner)
    for seconds in args.search_seconds:
        by_steps = next(form for form in envs if form.decide == "steps")
        turns[f"search, {seconds:g} s"] = functools.partial(found_by_search, by_steps, args.episodes, seconds)
    for run in runs:
        policy = functools.partial(strongest, [run.learner.env], episodes=args.episodes)
        name = "policy" if len(runs) == 1 else f"seed {run.learner.config.seed}"
        turns[name] = functools.partial(policy, lambda _, run=run: contest.actor_of(run))
        for tries in (1, *args.best_of) if len(runs) == 1 else ():
            name = "policy, sampled" if tries == 1 else f"policy, best of {tries}"
            turns[name] = functools.partial(policy, lambda _, run=run: contest.actor_of(run, 1.0), tries=tries)
    return turns


def found_by_search(env: Environment, episodes: int, seconds: float) -> Played:
    """What the first search reaches, with so many seconds for each instance."""
    search = next(iter(players_of(env).searches.values()))
    instances = jax.jit(Evaluator(env, episodes, SEED).instances)()
    problems = [jax.tree.map(lambda leaf, row=row: leaf[row], instances) for row in range(episodes)]
    keys = jax.random.split(jax.random.key(SEED), episodes)
    next(search(env, problems[0], keys[0], seconds))  # compiles

    def plans() -> list[Any]:
        pairs = zip(problems, measure.progress(keys, "instance", leave=False), strict=True)
        return [min(search(env, *problem, seconds), key=lambda plan: plan.cost) for problem in pairs]

    best, spent = measure.seconds_of(plans)
    actions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(plan.actions for plan in best))
    figures = mean_figures(env, jax.jit(functools.partial(replayed, env))(instances, actions))
    return _played(env, figures, spent.per(episodes))


def replayed(env: Environment, instances: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Metrics and `return`, `f32[E]`, of episodes `[E]` with given actions `{role: [E, T, agents]}`."""

    def play(instance: Any, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        def advance(state: Any, action: Mapping[str, jax.Array]) -> tuple[Any, jax.Array]:
            state, timestep = env.step(state, action)
            return state, timestep.team_reward

        state, paid = jax.lax.scan(advance, env.init_state(instance), actions)
        return {**env.metrics(state), "return": paid.sum()}

    return jax.vmap(play)(instances, actions)


def row(name: str, seeds: Sequence[Played]) -> list[str]:
    """Name and figures of a player, under `HEAD`; of several seeds, the mean and its interval."""
    figures = [contest.cell([seed.figures[key] for seed in seeds], ".3f") for key in FIGURES]
    wall, cpu = (sum(getattr(seed.seconds, kind) for seed in seeds) for kind in ("wall", "cpu"))
    return [name, seeds[0].decides, *figures, *contest.times(Seconds(wall, cpu).per(len(seeds)))]


def check_seeds(trainings: Mapping[str, Any]) -> None:
    """Check that the configurations of several runs, by folder, are those of one training with other seeds.

    Raises:
        UserError: another key than the seed differs, or a seed is there twice; one line.
    """
    for (name, config), (other_name, other) in itertools.combinations(trainings.items(), 2):
        if config.seed == other.seed:
            raise UserError(f"--run: '{name}' and '{other_name}' have the same seed, {config.seed}")
        keys = vars(config).keys() | vars(other).keys()
        if differing := sorted(key for key in keys - FREE if vars(config).get(key) != vars(other).get(key)):
            raise UserError(f"--run: '{name}' and '{other_name}' differ in {differing[0]}; only the seed may differ")


def tables(args: argparse.Namespace, parameters: Mapping[str, Any]) -> Iterator[Standings]:
    """A table for each size and share of unknown customers; `parameters` are the other ones of the environment."""
    shares: list[float | None] = args.dynamic_share or [None]
    for size, share in measure.progress(list(itertools.product(args.sizes, shares)), "table"):
        unknown = {} if share is None else {"dynamic_share": share}
        changes = {**SUBJECT.parameters(size), **parameters, **unknown}
        runs = [contest.load(run, TruckDrone, "truck_drone", args, changes) for run in args.run]
        env = runs[0].learner.env if runs else contest.made("truck_drone", changes)
        results = contest.take_turns(players(env, runs, args))
        rows = [list(HEAD), *(row(name, [played]) for name, played in results.items())]
        if len(runs) > 1:
            seeds = [results[f"seed {run.learner.config.seed}"] for run in runs]
            rows.append(row(f"all {len(runs)} seeds", seeds))
        title = f"({SUBJECT.labels.replace(',', ', ')}) = {size}"
        yield Standings(title if share is None else f"{title}, dynamic_share = {share:g}", rows)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = split_mapping(argv, "env")
    args = _arguments(words)
    for name in SUBJECT.parameters(args.sizes[0]).keys() & parameters.keys():
        raise UserError(f"--env.{name} differs from table to table; give --sizes instead")
    if args.dynamic_share and "dynamic_share" in parameters:
        raise UserError("--env.dynamic_share differs from table to table; give --dynamic_share alone")
    measure.check_sizes(args.sizes, SUBJECT.labels)
    measure.check_result_file(args.out, args.run)
    if len(args.run) > 1:
        check_seeds({run: RunFolder(run, trust=args.trust).recorded.config for run in args.run})
    contest.show(args, argv, tables(args, parameters), f"{args.episodes} instances; {NOTES}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = contest.parser("truck_drone", "Baselines of truck_drone, and a policy, on fixed instances.")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    parser.add_argument(
        "--run",
        nargs="+",
        default=[],
        help="run folder of train.mappo or train.ippo, or a shipped policy: plays it; of several, which must be the "
        "seeds of one training, a row each and one of all together",
    )
    parser.add_argument(
        "--best_of", type=positive, nargs="*", default=[], help="of one run: the best of so many samples, a row each"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=measure.sizes_option,
        default=list(SUBJECT.sizes),
        help=f"{SUBJECT.labels} (default: three)",
    )
    parser.add_argument("--episodes", type=positive, default=512, help="instances of each size (default: 512)")
    parser.add_argument(
        "--dynamic_share",
        type=float,
        nargs="*",
        default=[],
        help="a table for each: the probability that a customer becomes known during the episode only",
    )
    parser.add_argument("--blind", action="store_true", help="also a dispatcher that ignores batteries")
    parser.add_argument(
        "--planner",
        type=positive,
        nargs="*",
        default=[],
        help="also the planner: continuations of a decision, a row each",
    )
    parser.add_argument(
        "--search_seconds",
        type=above_zero,
        nargs="*",
        default=[],
        help="also the search: seconds an instance, a row each",
    )
    return parser.parse_args(argv)

"""Tandems with time windows: baselines, a trained policy and the search, every plan checked by `tours_report`.

python -m benchmarks.quality --env truck_drone_tours                                  # generated instances
python -m benchmarks.quality --env truck_drone_tours --run truck_drone_tours --best_of 128
python -m benchmarks.quality --env truck_drone_tours --run truck_drone_tours --sets kuo_n10,kuo_n15
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measuring import measure
from benchmarks.measuring.measure import seconds_of, timed
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Plans, Standings
from benchmarks.quality.tsp_drone import SYMMETRIES, tours, turned
from jaxvrp import registry
from jaxvrp.actor import Actor
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_and_drone.operations import tours_of
from jaxvrp.envs.truck_and_drone.plan import operations_of
from jaxvrp.envs.truck_drone_tours import Instance, stack
from jaxvrp.envs.truck_drone_tours.baselines.annealing import search_tours
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.plan import PROBLEMS
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.episodes import record_episodes
from jaxvrp.io.command_line import UserError, above_zero, positive
from train import Evaluator, baseline_actors

NAME = "truck_drone_tours"

LEAST = 1e-9
"""Seconds of a search that has to be compiled, and no more."""

HEAD = ("player", "instances", "cost", "gap", "feasible", "s/instance", "CPU s/instance")

NOTES = """cost: mean over instances, by tours_report
gap: summed costs against {reference}
feasible: share of plans that tours_report finds nothing wrong with
s/instance, CPU s/instance: by the clock, and of all cores; compiled before, and all at once but for the search
policy, best of K: sampled, every try on the map in another position"""


def find(name: str, rows: int | None) -> tuple[Instance, np.ndarray]:
    """The first so many instances of a set of `tsp_drone.tours`, a batch `[E]`, and published costs, `f64[E]`.

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    found = tours(name, "--sets")[:rows]
    try:
        instances = [PROBLEMS.read(each.path)[0] for each in found]
    except (OSError, ValueError) as error:
        raise UserError(f"--sets: {error}") from None
    return stack(instances), np.array([each.makespan for each in found])


def attempted(
    env: TruckDroneTours, actor: Actor, instances: Instance, number: jax.Array, key: jax.Array
) -> dict[str, tuple[jax.Array, State]]:
    """One try, an `attempt` of `contest.best_of`, on the map in another position: its states, `[E, T + 1]`."""
    moved = instances.replace(locs=turned(instances.locs, number % SYMMETRIES))
    bare = lambda state: state.replace(instance=None, figures=None)  # noqa: E731
    last, rest = record_episodes(env, actor, moved, key, lambda action, state, _: bare(state))
    first = bare(jax.vmap(env.init_state)(moved))
    states = jax.tree.map(lambda start, others: jnp.concatenate([start[None], others]).swapaxes(0, 1), first, rest)
    return {"plan": (last.tours.cost + env.unserved_price * jnp.sum(~last.served, axis=1), states)}


def standings(
    env: TruckDroneTours, instances: Instance, known: np.ndarray | None, policies: dict[str, Any], seconds: float
) -> contest.Table:
    """The table of all players.

    Args:
        env: what is played.
        instances: a batch `[E]`.
        known: `f64[E]`, costs to compare with; None for those of the search.
        policies: by name, an actor and how many tries it has.
        seconds: of the search, for each instance.
    """
    computed, problems = as_float32(instances), contest.singles(instances)

    def act(actor: Actor, tries: int) -> Plans:
        attempt = functools.partial(attempted, env, actor, computed)
        best, taken = timed(lambda: contest.best_of(attempt, jax.random.key(SEED), tries))
        plans = [tours_of(operations_of(states)) for states in contest.singles(best["plan"][1])]
        reports = [tours_report(problem, plan) for problem, plan in zip(problems, plans, strict=True)]
        return Plans(reports, taken.per(len(problems)))

    def search() -> Plans:
        def plans(seconds: float) -> list[Any]:
            return [list(search_tours(problem, jax.random.key(SEED), seconds))[-1].tours for problem in problems]

        plans(LEAST)
        found, taken = seconds_of(lambda: plans(seconds))
        reports = [tours_report(problem, plan) for problem, plan in zip(problems, found, strict=True)]
        return Plans(reports, taken.per(len(problems)))

    turns: dict[str, Callable[[], Plans]] = {f"search, {seconds:g} s": search}
    for name, actor in baseline_actors(env).items():
        turns[name] = functools.partial(act, actor, 1)
    for name, make in registry.players_of(env).planners.items():
        turns[name] = functools.partial(act, make(env), 1)
    turns |= {name: functools.partial(act, *player) for name, player in policies.items()}
    rows = [list(HEAD)]
    for name, plans in contest.take_turns(turns).items():
        known = plans.cost if known is None else known
        rows.append(_row(name, plans, known))
    return rows


def _row(name: str, plans: Plans, known: np.ndarray) -> list[str]:
    cost, feasible = plans.cost, f"{100 * plans.feasible.mean():.1f} %"
    return [
        name,
        str(len(cost)),
        f"{cost.mean():.4f}",
        contest.gap(cost, known),
        feasible,
        *contest.times(plans.seconds),
    ]


def tables(args: argparse.Namespace) -> Iterator[Standings]:
    """A table for each published set; without sets, one of generated instances."""
    for name in args.sets.split(",") if args.sets else [None]:
        found, known = find(name, args.rows) if name else (None, None)
        sizes = {"num_nodes": found.num_nodes} if found else {}
        run = contest.load(args.run, TruckDroneTours, NAME, args, sizes) if args.run else None
        env: Any = run.learner.env if run else contest.made(NAME, sizes)
        policies = {"policy": (contest.actor_of(run), 1)} if run else {}
        if run and args.best_of > 1:
            policies[f"policy, best of {args.best_of}"] = contest.actor_of(run, args.temperature), args.best_of
        if found:
            title, reference = f"{name}, {found.exists.shape[0]} instances", "the least published cost"
        else:
            count = args.rows or 128
            found = Evaluator(env, count, SEED).instances()
            title, reference = f"{count} generated instances of {env.num_nodes} nodes", "the search"
        yield Standings(title, standings(env, found, known, policies, args.seconds), reference)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = contest.parser(NAME, "Tandems with time windows: baselines, a policy and the search, side by side.")
    parser.add_argument("--run", help="run folder of train.mappo on truck_drone_tours, or a shipped policy")
    parser.add_argument("--best_of", type=positive, default=1, help="samples of the policy (default: none)")
    parser.add_argument("--temperature", type=above_zero, default=1.0, help="of these (default: 1)")
    parser.add_argument("--sets", help="published instances: kuo_n10,kuo_n15, ... (default: generated ones)")
    parser.add_argument("--rows", type=positive, help="so many instances of each (default: all; 128 generated ones)")
    parser.add_argument("--seconds", type=above_zero, default=2.0, help="of the search, each instance (default: 2)")
    args = parser.parse_args(argv)
    measure.check_result_file(args.out, [args.run])
    contest.show(args, argv, tables(args), NOTES)

"""Requests that arrive during the day: rules, planners, hindsight and a trained policy on the same days.

python -m benchmarks.quality --env dispatch                                      # both scenarios
python -m benchmarks.quality --env dispatch --env.scenario same_day --run DIR    # and a policy
python -m benchmarks.quality --env dispatch --env.scenario same_day --tune 128   # the threshold rule, on other days
python -m benchmarks.quality --env dispatch --run DIR --transfer 256             # a policy at other fleets and loads
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from benchmarks.measure import Seconds, timed
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Standings
from jaxvrp.actor import Actor
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, RelocateActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.hindsight import decide_with_hindsight, serve_rides
from jaxvrp.envs.dispatch.baselines.rollout import RolloutActor
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.envs.dispatch.scenarios import SCENARIOS
from jaxvrp.episodes import play_episodes
from jaxvrp.io.command_line import UserError, positive
from train import Evaluator, split_mapping

HEAD = ("player", "days", "value", "value share", "served", "above replan", "CPU s/day")

TUNING_SEED = 2_000_003
"""Of the days that rules are tuned on."""

DISTRICTS, FLOORS, RATES = (0.0, 8.0, 12.0, 16.0, 1e9), (0.0, 0.2, 0.4, 0.6, 0.8), (0.0, 0.03, 0.045, 0.06, 0.08, 0.12)
"""What is tried for `ThresholdActor`; a district of 0 asks drones first, one of 1e9 vehicles."""

NOTES = """value: of the requests served on a day, mean and 95 % interval over days
value share: of the value of all requests; served: share of the requests
above replan: value on the player's days, against that of {reference} on the same ones, with a 95 % interval of the
  mean difference
CPU s/day: of all cores, compiled before; days are played in one batch
hindsight: a search that knows all requests, so a lower bound of what is possible"""


class Played(NamedTuple):
    """Value and share of the requests served, `f64[n]`, and the time of a day."""

    value: np.ndarray
    served: np.ndarray
    seconds: Seconds


class Field:
    """Days of an environment, and players on the first of them."""

    def __init__(self, env: Dispatch, days: int):
        """All `days` are generated."""
        self.env, self.instances = env, Evaluator(env, days, SEED).instances()
        exists = np.asarray(self.instances.load) > 0
        self.offered = np.where(exists, np.asarray(self.instances.value, np.float64), 0.0).sum(axis=1)
        self.count = np.maximum(exists.sum(axis=1), 1)

    def first(self, days: int) -> Any:
        """The first days."""
        return jax.tree.map(lambda leaf: leaf[:days], self.instances)

    def act(self, actor: Actor, days: int, replan_rounds: int = 0) -> Played:
        """What an actor serves on the first days."""
        env = dataclasses.replace(self.env, replan_rounds=replan_rounds or self.env.replan_rounds)
        instances = self.first(days)
        figures, seconds = timed(lambda: play_episodes(env, actor, instances, jax.random.key(SEED)))
        if figures["broken_promises"].any():
            raise UserError("a promise was broken, which must not be; report it")
        return Played(np.asarray(figures["value_served"], np.float64), figures["served_share"], seconds.per(days))

    def look_back(self, days: int, rounds: int) -> Played:
        """What the search that knows everything serves."""
        instances, key = self.first(days), jax.random.key(SEED)
        if self.env.num_zones_each_way:
            stops = 2 * self.env.max_requests // self.env.fleet_size * 2
            search = functools.partial(serve_rides, as_float32(instances), key, rounds=rounds, max_stops=stops)
            found, seconds = timed(search)
            served = found.is_served.sum(axis=1)
        else:
            found, seconds = timed(lambda: decide_with_hindsight(self.env, instances, key, rounds=rounds))
            served = (found.choice > 0).sum(axis=1)
        return Played(np.asarray(found.value, np.float64), served / self.count[:days], seconds.per(days))

    def row(self, name: str, played: Played, replan: Played) -> list[str]:
        """A row of the table."""
        days = len(played.value)
        same = min(days, len(replan.value))
        base = replan.value[:same].mean()
        ahead = contest.cell(list(100 * (played.value[:same] - replan.value[:same]) / base), "+.1f")
        share = 100 * played.value.sum() / self.offered[:days].sum()
        return [
            name,
            str(days),
            contest.cell(list(played.value), ".1f"),
            f"{share:.1f} %",
            f"{100 * played.served.mean():.1f} %",
            f"{ahead} %",
            f"{played.seconds.cpu:.2g}",
        ]


def tuned(env: Dispatch, days: int) -> Standings:
    """The best ten rules of the grid on other days."""
    instances = Evaluator(env, days, TUNING_SEED).instances()
    districts = (0.0,) if env.num_zones_each_way else DISTRICTS
    floors = (0.0,) if len(np.unique(instances.value)) <= 2 else FLOORS

    @jax.jit
    def value(district: jax.Array, floor: jax.Array, rate: jax.Array) -> jax.Array:
        actor = ThresholdActor(env, district, floor, rate)  # type: ignore[arg-type]
        return play_episodes(env, actor, instances, jax.random.key(0))["value_served"].mean()

    found = {rule: float(value(*map(jnp.asarray, rule))) for rule in itertools.product(districts, floors, RATES)}
    rows = [[*(f"{number:g}" for number in rule), f"{found[rule]:.2f}"] for rule in found]
    rows.sort(key=lambda row: -float(row[-1]))
    title = f"{env.scenario}: threshold rules on {days} other days (seed {TUNING_SEED})"
    return Standings(title, [["district", "floor", "rate", "value"], *rows[:10]])


def standings(env: Dispatch, run: Any, args: argparse.Namespace) -> Standings:
    """The table of one scenario."""
    field, rounds = Field(env, args.days), args.replan_rounds
    turns: dict[str, Callable[[], Played]] = {
        "accept": functools.partial(field.act, AcceptActor(), args.days),
        "threshold": functools.partial(field.act, ThresholdActor(env), args.days),
    }
    if env.num_zones_each_way:
        turns["relocate"] = functools.partial(field.act, RelocateActor(), args.days)
        turns["cover"] = functools.partial(field.act, CoverActor(), args.days)
    replan = f"replan ({rounds} rounds)"
    replan_days = min(args.days, args.replan_days)
    turns[replan] = functools.partial(field.act, AcceptActor(), replan_days, rounds)
    if env.num_zones_each_way:
        turns[f"cover, {replan}"] = functools.partial(field.act, CoverActor(), replan_days, rounds)
    turns[f"threshold, {replan}"] = functools.partial(field.act, ThresholdActor(env), replan_days, rounds)
    if run:
        policy = contest.actor_of(run)
        turns["policy"] = functools.partial(field.act, policy, args.days)
        turns[f"policy, {replan}"] = functools.partial(field.act, policy, replan_days, rounds)
    if args.rollout_days:
        rollout = RolloutActor(env, args.samples)
        name = f"rollout ({args.samples} futures)"
        turns[name] = functools.partial(field.act, rollout, min(args.days, args.rollout_days))
    if args.hindsight_days:
        name = f"hindsight ({args.hindsight_rounds} rounds)"
        days = min(args.days, args.hindsight_days)
        turns[name] = functools.partial(field.look_back, days, args.hindsight_rounds)
    results = contest.take_turns(turns)
    rows = [list(HEAD), *(field.row(name, played, results[replan]) for name, played in results.items())]
    return Standings(f"{env.scenario}, {args.days} generated days", rows, replan)


def transfer(run: Any, args: argparse.Namespace, parameters: Mapping[str, Any]) -> Standings:
    """A policy at fleets and loads that it was not trained with, beside rules that were not tuned for them."""
    trained, rounds = run.learner.env, args.replan_rounds
    head = ["fleet", "load", "days", "threshold", f"replan ({rounds} rounds)", "policy", "policy above the better"]
    rows = [head]
    for fleet, load in ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0)):
        vehicles = {name: getattr(trained, name, None) for name in ("num_vehicles", "num_drones")}
        changes = {name: max(1, round(fleet * count)) for name, count in vehicles.items() if count is not None}
        changes["max_requests"] = round(load * trained.max_requests)
        changes["expected_requests"] = load * trained.expected_requests
        changed = contest.load(args.run, Dispatch, "dispatch", args, {**parameters, **changes})
        field = Field(changed.learner.env, args.transfer)
        rules = field.act(ThresholdActor(field.env), args.transfer), field.act(AcceptActor(), args.transfer, rounds)
        policy = field.act(contest.actor_of(changed), args.transfer).value
        better = max((played.value for played in rules), key=np.mean)
        values = [contest.cell(list(value), ".1f") for value in (*(played.value for played in rules), policy)]
        ahead = contest.cell(list(100 * (policy - better) / better.mean()), "+.1f")
        rows.append([f"{fleet:g} x", f"{load:g} x", str(args.transfer), *values, f"{ahead} %"])
    return Standings(f"{trained.scenario}, {args.transfer} days of each fleet and load", rows, "the better rule")


def tables(args: argparse.Namespace, parameters: Mapping[str, Any]) -> Iterator[Standings]:
    """A table for each scenario that is asked for."""
    scenarios = [parameters["scenario"]] if "scenario" in parameters else list(SCENARIOS)
    run = contest.load(args.run, Dispatch, "dispatch", args, dict(parameters)) if args.run else None
    envs = (contest.made("dispatch", {**parameters, "scenario": scenario}) for scenario in scenarios)
    if args.transfer:
        yield transfer(run, args, parameters)
        return
    env: Any
    for env in [run.learner.env] if run else envs:
        yield tuned(env, args.tune) if args.tune else standings(env, run, args)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = split_mapping(argv, "env")
    parser = contest.parser("dispatch", "Requests that arrive: rules, planners, hindsight and a policy, side by side.")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of one of its parameters")
    parser.add_argument("--run", help="run folder of train.mappo on dispatch, or a shipped policy")
    parser.add_argument("--days", type=positive, default=512, help="generated days (default: 512)")
    parser.add_argument("--replan_rounds", type=positive, default=10, help="of re-planning (default: 10)")
    parser.add_argument("--replan_days", type=positive, default=512, help="days for re-planning (default: 512)")
    parser.add_argument("--rollout_days", type=int, default=8, help="days for the rollout; 0: none (default: 8)")
    parser.add_argument("--samples", type=positive, default=2, help="futures of the rollout (default: 2)")
    parser.add_argument("--hindsight_days", type=int, default=16, help="days for hindsight; 0: none (default: 16)")
    parser.add_argument("--hindsight_rounds", type=positive, default=1000, help="of its search (default: 1000)")
    parser.add_argument("--tune", type=positive, help="instead: tune the threshold rule on so many other days")
    parser.add_argument("--transfer", type=positive, help="instead: --run at other fleets and loads, so many days each")
    args = parser.parse_args(words)
    if args.transfer and not args.run:
        raise UserError("--transfer is about a policy; give --run")
    measure.check_result_file(args.out, [args.run])
    contest.show(args, argv, tables(args, parameters), NOTES)

"""Requests that arrive during the day: rules, re-planning, hindsight and a trained policy on the same days.

python -m benchmarks.quality --env dispatch                                      # all scenarios
python -m benchmarks.quality --env dispatch --env.scenario same_day --run DIR    # and a policy
python -m benchmarks.quality --env dispatch --env.scenario same_day --tune 128   # the threshold rule, on other days
python -m benchmarks.quality --env dispatch --run DIR --transfer 256             # a policy at other fleets and loads
python -m benchmarks.quality --env dispatch --fleets 8                           # how quickly fleets are planned again
python -m benchmarks.quality --env dispatch --env.scenario ride_pooling --futures 32x40    # and sampled futures, slow
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

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds, timed
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Standings
from jaxvrp.actor import Actor, Carry, Memoryless
from jaxvrp.environment import TimeStep
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.hindsight import with_hindsight
from jaxvrp.envs.dispatch.baselines.search import replanned
from jaxvrp.envs.dispatch.env import DISPATCHER, Dispatch
from jaxvrp.envs.dispatch.routes.plans import COLUMNS, LOAD, distance, prepare
from jaxvrp.envs.dispatch.rules import State, idle
from jaxvrp.envs.dispatch.scenarios import SCENARIOS, ChenUlmerThomas
from jaxvrp.episodes import play_episodes
from jaxvrp.io.command_line import UserError, positive
from jaxvrp.spaces import ByRole
from train import Evaluator, split_mapping

HEAD = ("player", "days", "value", "value share", "served", "above replan", "CPU s/day")

TUNING_SEED = 2_000_003
"""Of the days that rules are tuned on."""

DISTRICTS, FLOORS, RATES = (0.0, 8.0, 12.0, 16.0, 1e9), (0.0, 0.2, 0.4, 0.6, 0.8), (0.0, 0.03, 0.045, 0.06, 0.08, 0.12)
"""What is tried for `ThresholdActor`; a district of 0 asks drones first, one of 1e9 vehicles."""

MOST_STOPS = 80
"""Of a vehicle in a whole day, in hindsight."""

OPEN = 24, 48
"""Requests of a fleet that can be planned again, the fewest and the most."""

EARLY = {"max_wait": 25.0, "max_delay": 30.0, "max_stops": 16, "expected_requests": 700.0, "max_requests": 900}
"""A `ride_pooling` of more and earlier requests, so that so many are open."""

ROUNDS = 500, 1000, 1500, 2000
LONG = 10.0
"""CPU seconds of the search that others are compared with."""

NOTES = """value: of the requests served on a day, mean and 95 % interval over days
value share: of the value of all requests; served: share of the requests
above replan: value on the player's days, against that of {reference} on the same ones, with a 95 % interval of the
  mean difference
CPU s/day: of all cores, compiled before; days are played in one batch
late: with noise, share of the served requests that were picked up or dropped off after a deadline
hindsight: a search that knows all requests, so a lower bound of what is possible
futures: each answer is the one that gains most, on average over sampled futures that a rule plays on
above 10 s: planned travel, against that of a search of ten CPU seconds for each fleet"""


class Played(NamedTuple):
    """Value and share of the requests served, `f64[n]`, the time of a day, and with noise the share of late ones."""

    value: np.ndarray
    served: np.ndarray
    seconds: Seconds
    late: np.ndarray | None = None


class PublishedRule(ThresholdActor):
    """The districts of Ulmer & Thomas (2018), with the assignment of Chen, Ulmer & Thomas (2022, section 4.3).

    A drone is the one that can load first; a vehicle is one that waits at the depot, else the one with the least added
    travel. A request goes to the other kind if its own cannot take it.
    """

    def choose(self, state: State) -> jax.Array:
        """`i32[]`, see the class."""
        found, fleet = state.offers, state.prepared.fleet
        far = distance(state.request.dropoff, fleet.depot) * state.prepared.pace[0] > self.district
        of_vehicle = jnp.where(idle(state), -1.0, found.added)
        rank = jnp.where(fleet.is_drone, found.pickup_start, of_vehicle)
        is_other = fleet.is_drone != far
        order = jnp.where(found.feasible, rank + jnp.where(is_other, 10.0 * fleet.horizon, 0.0), jnp.inf)
        return jnp.where(found.feasible.any(), 1 + jax.lax.argmin(order, 0, jnp.int32), 0)


class FuturesActor(Memoryless):
    """Answers by sampled futures: knows the distribution of days and nothing more, at any cost.

    It compares what another player would answer with rejecting the request and with the vehicle that it adds second
    least travel to. Each is played on by that player in the same futures; another answer is taken if its gain exceeds
    the gain's standard error, the one that does so by most.
    """

    def __init__(self, env: Dispatch, player: Actor, futures: int, ahead: int):
        """So many futures, each of so many requests; the `player` remembers nothing."""
        self.env, self.player, self.futures, self.ahead = env, player, futures, ahead

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        future_key, play_key = jax.random.split(key)
        usual, _ = self.player.act(key, (), state, timestep)
        answers = self._answers(state, usual[DISPATCHER])
        days, count = answers.shape
        keys = jax.random.split(future_key, (days, self.futures))
        futures = jax.vmap(jax.vmap(functools.partial(another_future, self.env), (None, 0)))(state, keys)
        shape = days, self.futures, count

        def flat(leaf: jax.Array) -> jax.Array:
            return jnp.broadcast_to(leaf, (*shape, *leaf.shape[3:])).reshape(-1, *leaf.shape[3:])

        actions = {role: flat(action[:, None, None]) for role, action in usual.items()}
        actions[DISPATCHER] = flat(answers[:, None, :, None])
        states = jax.tree.map(lambda leaf: flat(leaf[:, :, None]), futures)
        paid = self._played_on(play_key, states, actions).reshape(shape)
        gain = paid - paid[..., :1]
        sure = gain.mean(axis=1) - gain.std(axis=1, ddof=1) / np.sqrt(self.futures)
        best = jnp.take_along_axis(answers, jnp.argmax(sure, axis=1)[:, None], axis=1)
        return {**usual, DISPATCHER: best}, carry

    def _answers(self, state: State, usual: jax.Array) -> jax.Array:
        """`i32[E, 3]`: the usual answer (`i32[E, 1]`), to reject, and the second vehicle, if it can."""
        added = jnp.where(state.offers.feasible, state.offers.added, jnp.inf)
        second = jnp.argsort(added, axis=1)[:, 1:2].astype(jnp.int32)
        can = jnp.take_along_axis(state.offers.feasible, second, axis=1)
        return jnp.concatenate([usual, jnp.zeros_like(usual), jnp.where(can, 1 + second, 0)], axis=1)

    def _played_on(self, key: jax.Array, states: State, actions: ByRole) -> jax.Array:
        """`f32[n]`, what is paid if these actions are taken in `n` states, and then the player's."""

        def advance(play: tuple[State, ByRole], key: jax.Array) -> tuple[tuple[State, ByRole], jax.Array]:
            state, timestep = jax.vmap(self.env.step)(*play)
            action, _ = self.player.act(key, (), state, timestep)
            return (state, action), timestep.team_reward

        return jax.lax.scan(advance, (states, actions), jax.random.split(key, self.ahead))[1].sum(axis=0)


def another_future(env: Dispatch, state: State, key: jax.Array) -> State:
    """The state, with the requests of another day after its moment."""
    drawn = prepare(env.generate(key))
    rows, following = drawn.table.shape[0], state.step + 1
    first = jnp.sum(drawn.table[:, COLUMNS["arrival"]] <= state.now, dtype=jnp.int32)
    number = jnp.arange(rows, dtype=jnp.int32)
    later = drawn.table[jnp.clip(first + number - following, 0, rows - 1)]
    table = jnp.where((number < following)[:, None], state.prepared.table, later)
    count = jnp.clip(following + drawn.num_requests - first, following, rows)
    return state.replace(prepared=state.prepared.replace(table=table, num_requests=count))


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
        play = functools.partial(play_episodes, env, actor)
        figures, seconds = timed(play, self.first(days), jax.random.key(SEED))
        if figures["broken_promises"].any():
            raise UserError("a promise was broken, which must not be; report it")
        value = np.asarray(figures["value_served"], np.float64)
        return Played(value, figures["served_share"], seconds.per(days), figures.get("late_share"))

    def look_back(self, days: int, rounds: int) -> Played:
        """What the search that knows everything serves."""
        search = functools.partial(with_hindsight, rounds=rounds, max_stops=MOST_STOPS)
        found, seconds = timed(search, self.first(days), jax.random.key(SEED))
        served = np.asarray(found.is_served).sum(axis=1)
        return Played(np.asarray(found.value, np.float64), served / self.count[:days], seconds.per(days))

    def row(self, name: str, played: Played, replan: Played) -> list[str]:
        """A row of the table."""
        days = len(played.value)
        same = min(days, len(replan.value))
        base = replan.value[:same].mean()
        ahead = _signed(list(100 * (played.value[:same] - replan.value[:same]) / base), "+.1f")
        share = 100 * played.value.sum() / self.offered[:days].sum()
        return [
            name,
            str(days),
            contest.cell(list(played.value), ".1f"),
            f"{share:.1f} %",
            f"{100 * played.served.mean():.1f} %",
            f"{ahead} %",
            f"{played.seconds.cpu:.2g}",
            *([] if played.late is None else [contest.cell(list(100 * np.asarray(played.late)), ".2f") + " %"]),
        ]


def _signed(values: Sequence[float], form: str) -> str:
    """The mean with its sign, and half the width of its interval without."""
    return contest.cell(values, form).replace("± +", "± ")


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
    turns: dict[str, Callable[[], Played]] = {"accept": functools.partial(field.act, AcceptActor(), args.days)}
    # In `ride_pooling` the tuned threshold rule rejects nothing.
    rule, actor = ("cover", CoverActor()) if env.num_zones_each_way else ("threshold", ThresholdActor(env))
    turns[rule] = functools.partial(field.act, actor, args.days)
    if isinstance(env, ChenUlmerThomas):
        turns["published rule"] = functools.partial(field.act, PublishedRule(env), args.days)
    replan = f"replan ({rounds} rounds)"
    replan_days = min(args.days, args.replan_days)
    turns[replan] = functools.partial(field.act, AcceptActor(), replan_days, rounds)
    turns[f"{rule}, {replan}"] = functools.partial(field.act, actor, replan_days, rounds)
    if run:
        policy = contest.actor_of(run)
        turns["policy"] = functools.partial(field.act, policy, args.days)
        turns[f"policy, {replan}"] = functools.partial(field.act, policy, replan_days, rounds)
    if args.futures:
        futures, ahead = args.futures
        name = f"{rule}, {futures} futures of {ahead} requests"
        turns[name] = functools.partial(field.act, FuturesActor(env, actor, futures, ahead), args.days)
    if args.hindsight_days and not env.travel_noise:
        name = f"hindsight ({args.hindsight_rounds} rounds)"
        days = min(args.days, args.hindsight_days)
        turns[name] = functools.partial(field.look_back, days, args.hindsight_rounds)
    results = contest.take_turns(turns)
    head = [*HEAD, *(["late"] if env.travel_noise else [])]
    rows = [head, *(field.row(name, played, results[replan]) for name, played in results.items())]
    return Standings(f"{env.scenario}, {args.days} generated days", rows, replan)


def transfer(run: Any, args: argparse.Namespace, parameters: Mapping[str, Any]) -> Standings:
    """A policy at fleets and loads that it was not trained with, beside rules that were not tuned for them."""
    trained, rounds = run.learner.env, args.replan_rounds
    replan, ahead = f"replan ({rounds} rounds)", "above the better"
    head = ["player", "days", "threshold", replan, "policy", f"policy {ahead}", f"policy, {replan}", f"then {ahead}"]
    rows = [head]
    for fleet, load in ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0)):
        vehicles = {name: getattr(trained, name, None) for name in ("num_vehicles", "num_drones")}
        changes = {name: max(1, round(fleet * count)) for name, count in vehicles.items() if count is not None}
        changes["max_requests"] = round(load * trained.max_requests)
        changes["expected_requests"] = load * trained.expected_requests
        changed = contest.load(args.run, Dispatch, "dispatch", args, {**parameters, **changes})
        env: Any = changed.learner.env
        field = Field(env, args.transfer)
        rules = field.act(ThresholdActor(field.env), args.transfer), field.act(AcceptActor(), args.transfer, rounds)
        better = max((played.value for played in rules), key=np.mean)
        row = [contest.cell(list(played.value), ".1f") for played in rules]
        for rounds_of_policy in (0, rounds):
            policy = field.act(contest.actor_of(changed), args.transfer, rounds_of_policy).value
            gain = _signed(list(100 * (policy - better) / better.mean()), "+.1f")
            row += [contest.cell(list(policy), ".1f"), f"{gain} %"]
        rows.append([f"fleet x {fleet:g}, load x {load:g}", str(args.transfer), *row])
    return Standings(f"{trained.scenario}, {args.transfer} days of each fleet and load", rows, "the better rule")


def fleets(env: Dispatch, count: int) -> State:
    """States `[count]` of days that `accept` drives, each at the first moment with its number of open requests.

    These numbers are spread evenly over `OPEN`. Where too few days reach theirs, others come with the most they have.

    Raises:
        UserError: there are too few such days.
    """
    instances = Evaluator(env, 2 * count, SEED).instances()
    actor = AcceptActor()

    @jax.jit
    def drive(state: State, timestep: Any) -> tuple[State, Any, jax.Array]:
        action, _ = actor.act(jax.random.key(0), (), state, timestep)
        state, timestep = jax.vmap(env.step)(state, action)
        is_request = (state.plans.stops[:, LOAD] > 0) | (state.prepared.fleet.depot is not None)
        return state, timestep, jnp.sum(state.plans.present & is_request, axis=(1, 2))

    state, timestep = jax.jit(jax.vmap(env.reset_to))(instances)
    # A step of 7 spreads the numbers of a few days, too.
    wanted = OPEN[0] + 7 * np.arange(2 * count) % (OPEN[1] - OPEN[0] + 1)
    most, found = np.full(2 * count, OPEN[0] - 1), dict[int, Any]()
    for _ in range(env.max_requests):
        state, timestep, opened = drive(state, timestep)
        is_nearer = (opened > most) & (opened <= OPEN[1]) & (most < wanted)
        for day in np.flatnonzero(is_nearer).tolist():
            most[day], found[day] = opened[day], jax.tree.map(lambda leaf, day=day: np.asarray(leaf[day]), state)
        if (most >= wanted).all():
            break
    chosen = [found[day] for day in sorted(found, key=lambda day: (most[day] < wanted[day], day))[:count]]
    if len(chosen) == count:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *chosen)
    raise UserError(f"--fleets {count}: only {len(found)} days have {OPEN[0]} to {OPEN[1]} open requests; give fewer")


def replanning(env: Dispatch, count: int) -> Standings:
    """How much travel searches of different lengths save, and how long they take."""
    state = fleets(env, count)

    def planned(rounds: int) -> tuple[np.ndarray, Seconds]:
        search = functools.partial(replanned, rounds=rounds)
        found, seconds = timed(search, state.prepared, state.plans, jax.random.key(0))
        return np.asarray(found.travel, np.float64).sum(axis=1), seconds.per(count)

    results = {rounds: planned(rounds) for rounds in ROUNDS}
    rounds = round(LONG / results[ROUNDS[-1]][1].cpu * ROUNDS[-1])
    best, seconds = planned(rounds)
    rows = [["rounds", "planned travel", "above 10 s", "CPU s/fleet"]]
    before, _ = planned(0)
    table: dict[Any, Any] = {0: (before, None), **results, f"{LONG:g} s": (best, seconds)}
    for name, (travel, each) in table.items():
        above = _signed(list(100 * (travel - best) / best.mean()), "+.2f")
        rows.append([str(name), f"{travel.mean():.1f}", f"{above} %", "-" if each is None else f"{each.cpu:.2g}"])
    return Standings(f"{env.scenario}, {count} fleets with {OPEN[0]} to {OPEN[1]} open requests", rows)


def tables(args: argparse.Namespace, parameters: Mapping[str, Any]) -> Iterator[Standings]:
    """A table for each scenario that is asked for."""
    scenarios = [parameters["scenario"]] if "scenario" in parameters else list(SCENARIOS)
    if args.fleets:
        for scenario in scenarios:
            more = EARLY if scenario == "ride_pooling" else {}
            yield replanning(contest.made("dispatch", {**more, **parameters, "scenario": scenario}), args.fleets)
        return
    run = contest.load(args.run, Dispatch, "dispatch", args, dict(parameters)) if args.run else None
    envs = (contest.made("dispatch", {**parameters, "scenario": scenario}) for scenario in scenarios)
    if args.transfer:
        yield transfer(run, args, parameters)
        return
    env: Any
    for env in [run.learner.env] if run else envs:
        yield tuned(env, args.tune) if args.tune else standings(env, run, args)


def _futures(text: str) -> tuple[int, int]:
    """`"32x40"`: futures, and requests of each."""
    futures, _, ahead = text.partition("x")
    if not (futures.isdecimal() and ahead.isdecimal() and int(futures) > 1 and int(ahead) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form 32x40: two futures or more, and their requests")
    return int(futures), int(ahead)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    words, parameters = split_mapping(argv, "env", has_name=True)
    parser = contest.parser("dispatch", "Requests that arrive: rules, hindsight and a policy, side by side.")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of one of its parameters")
    parser.add_argument("--run", help="run folder of train.mappo on dispatch, or a shipped policy")
    parser.add_argument("--days", type=positive, default=512, help="generated days (default: 512)")
    parser.add_argument("--replan_rounds", type=positive, default=10, help="of re-planning (default: 10)")
    parser.add_argument("--replan_days", type=positive, default=512, help="days for re-planning (default: 512)")
    parser.add_argument("--hindsight_days", type=int, default=16, help="days for hindsight; 0: none (default: 16)")
    parser.add_argument("--hindsight_rounds", type=positive, default=1000, help="of its search (default: 1000)")
    parser.add_argument(
        "--futures", type=_futures, help="also the rule's answers, improved by so many futures of so many requests"
    )
    parser.add_argument(
        "--fleets", type=positive, help="instead: plan so many fleets again, in the middle of their day"
    )
    parser.add_argument("--tune", type=positive, help="instead: tune the threshold rule on so many other days")
    parser.add_argument("--transfer", type=positive, help="instead: --run at other fleets and loads, so many days each")
    args = parser.parse_args(words)
    if args.transfer and not args.run:
        raise UserError("--transfer is about a policy; give --run")
    measure.check_result_file(args.out, [args.run])
    contest.show(args, argv, tables(args, parameters), NOTES)

"""A player on a frozen set, as a record: its plans, what they come to, the time that they took, versions and machine.

python -m benchmarks.records.run darp_10_requests --method search --seconds 5 --out search.json
python -m benchmarks.records.run darp_10_requests --policy darp --out policy.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxvrp
from benchmarks.measuring.machine import device_name, machine
from benchmarks.records.check import FORMAT, figures_of, shown_record
from benchmarks.records.sets import Known, find_set, generate
from jaxvrp import Environment, Problems, TimeStep, registry
from jaxvrp.actor import Actor, Carry
from jaxvrp.episodes import Episode, record_rows
from jaxvrp.io.command_line import Parser, UserError, above_zero, going_on, index, program_name
from jaxvrp.io.messages import nearest
from jaxvrp.io.whole_files import write_text
from jaxvrp.policies.policy import Policy
from jaxvrp.spaces import ByRole
from train import baseline_actors, check_output, entry, solve

LEAST = 1e-9
"""Seconds of a search that has to be compiled, and no more."""


class PolicyPlayer:
    """A loaded policy as an `Actor`: the most probable actions."""

    def __init__(self, policy: Policy):
        self.policy = policy

    def init(self, num_envs: int) -> Carry:
        """What it remembers at first."""
        return self.policy.memory(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`."""
        del key, timestep
        return self.policy.step(carry, state)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes a record."""
    args = _arguments(argv)
    known = find_set(args.set)
    problems = generate(args.set, known)
    with going_on("no record is written, since not all plans are there; the same command begins anew"):
        plans, seconds = planned(known, problems, args)
    entries = []
    for row, (problem, plan) in enumerate(zip(problems, plans, strict=True)):
        try:
            entries.append(known.recompute(problem, plan))
        except ValueError as error:
            raise UserError(f"the plan for problem {row} of {args.set} is not feasible ({error}); no record") from None
    player = {"policy": args.policy} if args.policy else {"method": args.method}
    if args.method in known.players.searches:
        player |= {"seconds": args.seconds, "seed": args.seed}
    version, checksum = known.problems.version, known.problems.checksum
    record = {
        "format": FORMAT,
        "set": {"name": args.set, "version": version, "checksum": checksum},
        "player": player,
        "figures": figures_of(entries),
        "seconds_per_problem": {name: value / len(plans) for name, value in seconds._asdict().items()},
        "machine": machine(
            [program_name("benchmarks.records.run"), *(sys.argv[1:] if argv is None else argv)], device_name()
        ),
        "plans": entries,
    }
    write_text(args.out, json.dumps(record) + "\n")
    print(
        f"{shown_record(record)}\nwrote {args.out}; check it by {program_name('benchmarks.records.check')} {args.out}"
    )


class Seconds(NamedTuple):
    """How long all plans took, without compilation: by the clock, and of all cores together."""

    wall: float
    cpu: float


def planned(known: Known, problems: Sequence[Any], args: argparse.Namespace) -> tuple[list[dict[str, Any]], Seconds]:
    """A plan for each problem of a set, by the player that the command line names."""
    files, env = known.files, known.env
    players = registry.players_of(env)
    if args.policy:
        try:
            policy = jaxvrp.load_policy(args.policy, **files.parameters(problems[0], env))
        except (ValueError, TypeError) as error:
            raise UserError(f"--policy {args.policy}: {error}") from None
        if type(policy.env) is not type(env):
            raise UserError(f"--policy {args.policy} plays another environment than {args.set}; give one of its own")
        return played(files, policy.env, PolicyPlayer(policy), problems)
    method = args.method = players.full_name(args.method)
    actors = {**{name: make(env) for name, make in players.planners.items()}, **baseline_actors(env)}
    if method in players.searches:
        return searched(known, problems, method, args)
    if method not in actors:
        raise UserError(f"--method {method}: {nearest(method, [*players.searches, *actors])}")
    return played(files, env, actors[method], problems)


def played(
    files: Problems[Any], env: Environment, actor: Actor, problems: Sequence[Any]
) -> tuple[list[dict[str, Any]], Seconds]:
    """The plans of an actor's episodes, all of them in one program."""
    instances = jax.tree.map(lambda *leaves: np.stack(leaves), *[files.instance(problem, env) for problem in problems])

    @jax.jit
    def play(instances: Any) -> tuple[Any, ByRole, Any]:
        episodes = record_rows(env, actor, instances, jax.random.key(0), slice(None))
        return episodes.states, episodes.actions, episodes.timesteps

    program = play.lower(instances).compile()
    found, seconds = _timed(lambda: jax.device_get(program(instances)))

    def episode_of(row: int) -> Episode:
        return Episode(env, None, *jax.tree.map(lambda leaf: leaf[:, row], found))

    return [files.plan(problem, episode_of(row)) for row, problem in enumerate(problems)], seconds


def searched(
    known: Known, problems: Sequence[Any], method: str, args: argparse.Namespace
) -> tuple[list[dict[str, Any]], Seconds]:
    """The plans of a search: of all problems in one program where it can, else of one after the other."""
    if known.files.is_stacked and method in known.players.searches_all:
        batch = solve.problem_in(known.environment, known.files.stack(problems), args.set)

        def search(seconds: float) -> list[dict[str, Any]]:
            return plans_of(solve.solved_together(batch, problems, method, seconds, args.seed, None))
    else:
        made = [solve.problem_in(known.environment, problem, args.set) for problem in problems]

        def search(seconds: float) -> list[dict[str, Any]]:
            return plans_of(solve.solved(each, seconds=seconds, method=method, seed=args.seed) for each in made)

    search(LEAST)
    return _timed(lambda: search(args.seconds))


def plans_of(solutions: Iterable[solve.Solution]) -> list[dict[str, Any]]:
    """Their plans; a search that Ctrl-C has ended is none of so many seconds, and ends all."""
    plans = []
    for solution in solutions:
        if solution.interrupted:
            raise KeyboardInterrupt
        plans.append(solution.plan)
    return plans


def _timed(function: Callable[[], Any]) -> tuple[Any, Seconds]:
    began, began_cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, Seconds(time.perf_counter() - began, time.process_time() - began_cpu)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("benchmarks.records.run", "Let a player plan all problems of a frozen set, and write a record.")
    parser.add_argument("set", help=f"its name, see {program_name('benchmarks.records.sets')}")
    parser.add_argument("--policy", metavar="NAME", help="of a shipped policy, or its folder or file")
    parser.add_argument("--method", help="a search, planner or baseline of the environment")
    parser.add_argument("--seconds", type=above_zero, default=5.0, help="of a search, for each problem (default: 5)")
    parser.add_argument("--seed", type=index, default=0, help="of a search (default: 0)")
    parser.add_argument("--out", metavar="FILE", required=True, help="the record, .json")
    args = parser.parse_args(argv)
    if bool(args.policy) == bool(args.method):
        raise UserError("who plays? give --policy NAME or --method NAME, one of them")
    check_output("--out", args.out, (".json",), [])
    return args


if __name__ == "__main__":
    entry(main)

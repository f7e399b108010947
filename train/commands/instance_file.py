"""A problem from a user's file: its players, the cost of the best episode, and the plan."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxvrp
from jaxvrp import Environment, Problems, TimeStep, registry
from jaxvrp.actor import Actor
from jaxvrp.episodes import Episode, record_episodes, record_rows
from jaxvrp.io.command_line import UserError, refuse_overwriting, refuse_unwritable
from jaxvrp.io.messages import warn
from jaxvrp.io.problems.other_problems import other_problem
from jaxvrp.io.problems.problem_files import only_problem
from jaxvrp.players import least
from jaxvrp.policies.environment import changed_parameters
from jaxvrp.policies.folder import find_run
from jaxvrp.problems import Inspection
from jaxvrp.spaces import ByRole
from train.run.evaluator import Figures, baseline_actors, first_seed, mean_figures, to_host
from train.run.folder import RunFolder, Trained, read_run

Cost = Callable[[Any, Any, jax.Array], jax.Array]
"""See `jaxvrp.Players.cost`."""

AT_ONCE = 16
"""Tries of an instance that are played side by side."""

POLICY = "policy"
"""What the policy of the run is called among the players."""

INDEX_HELP = "which problem of the file, from 0, if it has several"
"""Of the option `--index` of every command that reads such files."""


@dataclasses.dataclass(frozen=True)
class Played:
    """An episode on the host, and figures at its end."""

    figures: Figures
    episode: Episode


@dataclasses.dataclass(frozen=True)
class InstanceFile:
    """A problem in a file, and the run that plays it, in the sizes and with the physics of the problem.

    `row` says which problem of the file it is, from 0; None if it has but one. `assumed` is what the reader of the file
    assumed, in words.
    """

    path: pathlib.Path
    row: int | None
    problems: Problems[Any]
    problem: Any
    folder: RunFolder
    assumed: str

    @classmethod
    def open(
        cls, path: str, run: str, changes: dict[str, Any], *, row: int | None = None, trust: bool = False
    ) -> InstanceFile:
        """Read a file, the value of `--instance`, and a run to play it.

        `changes` are of the run's environment, beside what the problem says.
        """
        keywords, made, problems = _reader_of(path, run, changes, trust)
        given = _given(problems, path, changes)
        changes = {name: value for name, value in changes.items() if name not in given}
        env = _make(changed_parameters(made, keywords, changes)) if changes else made
        problem, parameters = _read(problems, path, row, env, given)
        if double := sorted(changes.keys() & parameters.keys()):
            raise UserError(f"--env.{double[0]}: {path} says what it is; leave one of them out")
        _make(changed_parameters(made, keywords, {**changes, **parameters}), f"{path}: ")
        folder = RunFolder(run, {**changes, **parameters}, trust=trust)
        of_run = {name: getattr(env, name) for name in problems.choices if name not in changes}
        assumed = assumed_words(problems, path, given, of_run)
        return cls(pathlib.Path(path), row, problems, problem, folder, assumed)

    @property
    def name(self) -> str:
        """Of the problem, as part of a file's name."""
        return self.path.stem if self.row is None else f"{self.path.stem}_{self.row}"

    @property
    def env(self) -> Environment:
        """The environment that is played."""
        return self.folder.player.evaluation_env

    def players(self, run: Trained, *, deterministic: bool, temperature: float) -> dict[str, Actor]:
        """The policy of the run, of several seeds the first, and the baselines."""
        params = first_seed(run.learner, run.params)
        policy = run.learner.actor(params, deterministic=deterministic, temperature=temperature)
        return {POLICY: policy, **baseline_actors(self.env)}

    def play(self, actor: Actor, seed: int, tries: int = 1) -> Played:
        """The best of several episodes of an actor; draws from `seed`."""
        play = jax.jit(functools.partial(best_episode, self.env, actor, tries=tries))
        episode, totals = jax.device_get(play(self.problems.instance(self.problem, self.env), jax.random.key(seed)))
        metrics = jax.tree.map(lambda leaf: leaf[-1], episode.timesteps.metrics)
        del totals["cost"]  # the return says it
        figures = mean_figures(self.env, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], {**metrics, **totals}))
        return Played(to_host(figures), episode)

    def plan(self, played: Played, player: str) -> dict[str, Any]:
        """The plan of an episode, with its player and its figures."""
        plan = self.problems.plan(self.problem, played.episode)
        return {**plan, "player": player, "figures": played.figures}


def problems_for(path: str, run: str, changes: dict[str, Any], *, trust: bool) -> Sequence[Any]:
    """All problems of a file, as the environment of a run reads them; else as `InstanceFile.open`."""
    _, _, problems = _reader_of(path, run, changes, trust)
    return _read_all(problems, path, _given(problems, path, changes))


def _reader_of(
    path: str, run: str, changes: dict[str, Any], trust: bool
) -> tuple[dict[str, Any], Environment, Problems[Any]]:
    """The keywords of a run's environment, this environment, and what reads its files."""
    keywords = read_run(find_run(run), trust=trust, named=changes.values()).config.env
    made = _make(keywords)
    problems = registry.problems_of(made)
    if problems is None:
        raise UserError(f"{path}: {type(made).__name__} reads no instances from files; leave it out")
    return keywords, made, problems


def _make(keywords: dict[str, Any], prefix: str = "") -> Environment:
    try:
        return jaxvrp.make(**keywords)
    except (ValueError, TypeError) as error:
        raise UserError(f"{prefix}{error}") from None


def given_to(problems: Problems[Any], path: str | os.PathLike, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values of `--env.KEY` that the reader of a file takes in the place of what it assumes.

    Raises:
        UserError: one that it cannot take.
        ValueError, OSError: the file cannot be read.
    """
    if not values:
        return {}
    known = problems.assumed(path)
    given = {name: value for name, value in values.items() if name in known}
    try:
        problems.assumed(path, **given)
    except ValueError as error:
        raise UserError(f"--env.{error}") from None
    return given


def assumed_words(
    problems: Problems[Any], path: str | os.PathLike, given: Mapping[str, Any], of_run: Mapping[str, Any] | None = None
) -> str:
    """What the reader of a file assumed, but for what is given, and what no file says and a run does; "" if nothing."""
    taken = given_to(problems, path, given)
    found = problems.assumed(path, **taken).items()
    assumed = [f"{name} {_amount(value)}" for name, value in found if name not in given]
    return ", ".join(assumed + [f"{name} {_amount(value)} (of the run)" for name, value in (of_run or {}).items()])


def _amount(value: Any) -> str:
    if isinstance(value, tuple):
        return " and ".join(map(_amount, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.4g}"


def show_warnings(inspection: Inspection, assumed: str, name: str = "") -> None:
    """Say on stderr what was assumed, and what in a problem is absurd, a line each, after the `name` of its file."""
    if assumed:
        print(f"{name}assumed, as the file does not say it: {assumed}; else --env.KEY VALUE", file=sys.stderr)
    for warning in inspection.warnings:
        warn(f"{name}{warning}")


def _given(problems: Problems[Any], path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return given_to(problems, path, values)
    except (ValueError, OSError):  # `_read` says why
        return {}


def _read(
    problems: Problems[Any], path: str, row: int | None, env: Environment, given: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    found = _read_all(problems, path, given)
    try:
        problem = only_problem(found, row, path)
    except ValueError as error:
        raise UserError(str(error)) from None
    if POLICY not in problems.solvers(problem, [POLICY]):
        raise UserError(f"{path}: no policy can play it; leave out the run, and solve it by train.solve")
    try:
        return problem, problems.parameters(problem, env)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: {error}") from None


def _read_all(problems: Problems[Any], path: str, given: Mapping[str, Any]) -> Sequence[Any]:
    try:
        return problems.read(path, **given)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give another file") from None
    except ValueError as error:
        raise UserError(str(other_problem(path) or error)) from None


class Output(NamedTuple):
    """A file that a plan becomes: the option by which it was asked for, its name, and what writes it."""

    option: str
    path: str
    write: Callable[[str], None]


def check_output(option: str, path: str, endings: Sequence[str], sources: Sequence[pathlib.Path]) -> None:
    """Find out before anything is played whether a file can be written there: ending, folder, no file that is read."""
    out = pathlib.Path(path)
    if out.suffix.lower() not in endings:
        raise UserError(f"{option} {out}: the name must end in one of: {', '.join(endings)}")
    refuse_overwriting(out, option, sources)
    refuse_unwritable(out, option)


def write_all(outputs: Sequence[Output], report: str) -> None:
    """Write all of these files, then print the report, whatever becomes of them: one that fails stops no other."""
    written, failures = [], []
    try:
        for option, path, write in outputs:
            try:
                write(path)
            except (ValueError, OSError) as error:
                failures.append(f"{option} {path}: {error}")
            else:
                written.append(path)
    finally:
        print("\n".join([report, *(f"wrote {path}" for path in written)]))
    if failures:
        raise UserError("; ".join(failures))


def episodes_of(tries: int) -> int:
    """How many episodes `best_episode` plays of so many tries."""
    return tries + min(tries, AT_ONCE) if tries > 1 else 1


def best_episode(
    env: Environment, actor: Actor, instance: Any, key: jax.Array, *, tries: int, cost: Cost | None = None
) -> tuple[Episode, dict[str, jax.Array]]:
    """An actor's best episode, and its `return`, `length` and `cost`, `f32[K]`.

    So many tries are not kept: the best is played once more, together with those that were played beside it. The best
    has the least `cost` (`jaxvrp.Players.cost`), by default the greatest return.
    """
    lanes = min(tries, AT_ONCE)
    instances = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], lanes, axis=0), instance)
    keys = jax.random.split(key, -(-tries // lanes))

    def cost_of(last: Any, total: jax.Array) -> jax.Array:
        return -total[None] if cost is None else cost(env, last, total)

    def costs(key: jax.Array) -> jax.Array:
        def paid(action: ByRole, state: Any, timestep: TimeStep) -> jax.Array:
            return timestep.team_reward

        last, rewards = record_episodes(env, actor, instances, key, paid)
        return jax.vmap(cost_of)(last, rewards.sum(axis=0))

    best = jnp.zeros((), jnp.int32)
    if tries > 1:
        each = jax.lax.map(costs, keys)  # [lots, lanes, K]
        best = least(each.reshape(-1, each.shape[-1])[:tries].T)
    episode = record_rows(env, actor, instances, keys[best // lanes], best % lanes)
    length = episode.timesteps.duration[1:].sum()
    total = jax.vmap(lambda timestep: timestep.team_reward)(episode.timesteps)[1:].sum()
    last = jax.tree.map(lambda leaf: leaf[-1], episode.states)
    return episode, {"return": total, "length": length, "cost": cost_of(last, total)}

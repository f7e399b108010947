"""A problem in a file: who reads it, the environment in which it is one, and what can solve it."""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jaxvrp
from jaxvrp import Environment, Problems, registry
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import nearest
from jaxvrp.io.problems.other_problems import other_problem
from jaxvrp.io.problems.problem_files import DamagedFileError, UnknownFormatError, only_problem
from jaxvrp.io.whole_files import UnreadableError
from jaxvrp.players import Players
from train.commands.instance_file import POLICY, InstanceFile, assumed_words, given_to, problems_for
from train.run.evaluator import first_seed
from train.solving.case_file import fleet_is_missing, read_case
from train.solving.methods import Method, episode_program, methods_of, play_once, sample_policy


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem, and the environment in which it is one; `methods` can solve it, by name, the best choice first.

    `assumed` is what the reader of its file assumed, in words.
    """

    env: Environment
    problems: Problems[Any]
    problem: Any
    methods: dict[str, Method]
    assumed: str = ""

    @property
    def instance(self) -> Any:
        """For `Environment.reset_to`."""
        return self.problems.instance(self.problem, self.env)

    @property
    def players(self) -> Players:
        """Of the environment."""
        return registry.players_of(self.env)


def open_problem(
    path: str | os.PathLike,
    *,
    run: str | None = None,
    env: str | None = None,
    row: int | None = None,
    trust: bool = False,
    given: Mapping[str, Any] | None = None,
    fleet: str | os.PathLike | None = None,
) -> Problem:
    """Read a file, and find what can solve it; see `solve`. With a `fleet` it is a table of orders."""
    given = given or {}
    if fleet is not None:
        return problem_in(*read_case(path, fleet), path)
    if run is not None:
        file = InstanceFile.open(str(path), run, dict(given), row=row, trust=trust)
        trained = file.folder.load("latest")
        params = first_seed(trained.learner, trained.params)
        best, sampling = (trained.learner.actor(params, deterministic=choice) for choice in (True, False))
        made = file.problems.weighed(file.problem, file.env)
        instance = file.problems.instance(file.problem, made)
        sample = functools.partial(sample_policy, made, instance, best, sampling)
        methods = {POLICY: sample, **methods_of(made, instance)}
        if lookahead := registry.players_of(made).lookahead:
            program = episode_program(lambda env: lookahead(env, best), tries=1)
            methods[f"planner with {POLICY}"] = functools.partial(play_once, made, instance, program)
        solving = _solving(file.problems, file.problem, methods)
        return Problem(made, file.problems, file.problem, solving, file.assumed)
    name, problems = read_problems(path, env, given)
    try:
        problem = only_problem(problems, row, path)
    except ValueError as error:
        raise UserError(str(error)) from None
    opened = problem_in(name, problem, path, given)
    return dataclasses.replace(opened, assumed=assumed_words(opened.problems, path, given))


def problem_in(name: str, problem: Any, path: str | os.PathLike, given: Mapping[str, Any] | None = None) -> Problem:
    """A problem, or a batch of problems, of a file, in an environment that is registered by this name.

    Of what is `given`, the environment takes what no file says.
    """
    problems = registry.problems_of(jaxvrp.make(name))
    assert problems
    choices = {choice: value for choice, value in (given or {}).items() if choice in problems.choices}
    try:
        plain = jaxvrp.make(name, **choices)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env.{error}") from None
    try:
        made = problems.weighed(problem, jaxvrp.make(name, **choices, **problems.parameters(problem, plain)))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return Problem(
        made, problems, problem, _solving(problems, problem, methods_of(made, problems.instance(problem, made)))
    )


def read_problems(
    path: str | os.PathLike,
    env: str | None,
    given: Mapping[str, Any] | None = None,
    *,
    run: str | None = None,
    trust: bool = False,
) -> tuple[str, Sequence[Any]]:
    """What plays the problems of a file, an environment or a run by its name, and all of these; see `solve`."""
    given = given or {}
    if run is not None:
        return run, problems_for(str(path), run, dict(given), trust=trust)
    mistakes: dict[str, ValueError] = {}
    for name, known in _readers(env, pathlib.Path(path).suffix.lower()):
        try:
            taken = given_to(known, path, given)
            problems = known.read(path, **taken)
            if ignored := sorted(given.keys() - taken.keys() - set(known.choices)):
                raise UserError(f"--env.{ignored[0]}: {_may_be_given(known, path, ignored[0])}")
            return (known.environment or name) if env is None else name, problems
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}; give another file") from None
        except ValueError as error:
            mistakes[name] = error
    refusal = other_problem(path) or fleet_is_missing(path)
    raise UserError(refusal or (str(mistakes[env]) if env else _refusal(path, mistakes)))


def _may_be_given(problems: Problems[Any], path: str | os.PathLike, key: str) -> str:
    """What is said of a key that no reader takes."""
    if key == "scenario":
        return f"{path} is solved in the scenario that reads it; give one of your own as --env package.module:Class"
    known = ", ".join((*problems.assumed(path), *problems.choices))
    return f"the reader of {path} takes {known}" if known else f"{path} says all that its reader needs; leave it out"


def _refusal(path: str | os.PathLike, mistakes: dict[str, ValueError]) -> str:
    """Why no reader, by the name of its environment, takes a file, which is named once."""
    # A reader that knows the format says what is wrong; the other readers only say that they do not know it.
    sure: dict[str, ValueError] = {
        name: error for name, error in mistakes.items() if isinstance(error, DamagedFileError)
    }
    unreadable = [error for error in mistakes.values() if isinstance(error, UnreadableError)]
    if unreadable and not sure:
        remedies = {error.remedy for error in unreadable}
        return f"{unreadable[0].reason}; {remedies.pop() if len(remedies) == 1 else 'correct it, or give another'}"
    likely = {name: error for name, error in mistakes.items() if not isinstance(error, UnknownFormatError)}
    named = sure or likely or mistakes
    if named is mistakes:
        return f"{path} is of no format that is read here; give one of {', '.join(registry.problem_endings())}"
    names: dict[str, list[str]] = collections.defaultdict(list)
    for name, error in named.items():
        names[str(error).removeprefix(str(path)).lstrip(",: ")].append(name)
    reasons = [f"{', '.join(each)}: {reason}" for reason, each in names.items()]
    return f"{path} is no problem that can be read ({'; '.join(reasons)})"


def _readers(env: str | None, ending: str) -> Iterator[tuple[str, Problems[Any]]]:
    """Names and readers of one environment, or of all; those of the ending come first."""
    if env is None:
        yield from registry.all_problems(ending)
        return
    try:
        problems = registry.problems_of(jaxvrp.make(env))
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None
    if problems is None:
        known = ", ".join(name for name, _ in _readers(None, ending))
        raise UserError(f"--env {env}: it reads no problems from files; it must be one of: {known}")
    yield env, problems


def stack_of(name: str, method: str | None) -> Callable[[Sequence[Any]], Any] | None:
    """What makes one batch of problems that a method (None: the first) searches together; None if none can."""
    env = jaxvrp.make(name)
    players, known = registry.players_of(env), registry.problems_of(env)
    is_search_of_all = (method or next(iter(players.searches), None)) in players.searches_all
    return known.stack if known and known.is_stacked and is_search_of_all else None


def chosen(problem: Problem, method: str | None) -> str:
    """The name of a method, by default the best choice."""
    if method is None:
        return next(iter(problem.methods))
    method = problem.players.full_name(method)
    if method not in problem.methods:
        hint = "it needs --run" if method == POLICY else nearest(method, problem.methods)
        raise UserError(f"--method {method}: there is none of that name; {hint}")
    return method


def _solving(problems: Problems[Any], problem: Any, methods: dict[str, Any]) -> dict[str, Any]:
    return {name: methods[name] for name in problems.solvers(problem, list(methods))}

"""Find the best plan for one problem in so many seconds: by search, by a trained policy, or by a heuristic.

python -m train.solve INSTANCE --seconds 10 --out plan.json stops.csv --picture plan.svg plan.gif
python -m train.solve MAP.json --run vrpd_tw
python -m train.solve BOARDS.pcb --index 2 --out placed.pcb --picture placed.svg
python -m train.solve 'days/*.txt' --shard 3/16 --out plans && python -m train.solve --collect plans
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxvrp
from jaxvrp import Environment, Problems, registry, show
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.episodes import Episode, follow
from jaxvrp.io.command_line import Parser, UserError, above_zero, going_on, index
from jaxvrp.io.messages import cut, nearest, printable
from jaxvrp.io.other_problems import other_problem
from jaxvrp.io.problem_files import DamagedFileError, UnknownFormatError, only_problem
from jaxvrp.io.whole_files import UnreadableError
from jaxvrp.orders import geojson
from jaxvrp.players import Players, Searched, SearchedAll
from jaxvrp.search.found import Report, with_found
from jaxvrp.show import STILLS
from jaxvrp.show.export import draw
from train.commands import shards
from train.commands.case_file import FLEET_HELP, fleet_is_missing, read_case
from train.commands.entry import entry
from train.commands.instance_file import (
    INDEX_HELP,
    POLICY,
    InstanceFile,
    Output,
    assumed_words,
    best_episode,
    check_output,
    episodes_of,
    given_to,
    show_warnings,
    write_all,
)
from train.run.evaluator import first_seed
from train.run.progress import LINE, Bar
from train.settings.command_line import split_mapping
from train.settings.keys import LAUNCH

PAGE = ".html"
"""The ending of a plan that is a page."""

LOTS = (64, 16, 4, 1)
"""Sampled episodes of a policy between two looks at the clock: the most for which time is left."""

TOGETHER = 16
"""Problems that are solved in one program: with more, a killed process would lose more."""

KEPT = 64
"""Baselines and planners whose programs are kept for the next problem."""

BAR = 0.25
"""Seconds between two drawings of the bar."""

Progress = Callable[[Searched], None]

MakeActor = Callable[[Any], Actor]
"""See `jaxvrp.Players.baselines`."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem, and the environment in which it is one; `methods` can solve it, by name, the best choice first.

    `assumed` is what the reader of its file assumed, in words.
    """

    env: Environment
    problems: Problems[Any]
    problem: Any
    methods: dict[str, Callable[[jax.Array, float], Iterator[Searched]]]
    assumed: str = ""

    @property
    def instance(self) -> Any:
        """For `Environment.reset_to`."""
        return self.problems.instance(self.problem, self.env)

    @property
    def players(self) -> Players:
        """Of the environment."""
        return registry.players_of(self.env)


@dataclasses.dataclass(frozen=True)
class Solution:
    """A plan for a problem."""

    problem: Problem
    method: str
    cost: float  # of its episode, see `jaxvrp.Players.cost`; by default minus the return
    seconds: float  # after which a plan of this cost was found, infinite if the cost is
    searched_seconds: float  # how long the method looked for plans
    interrupted: bool  # whether Ctrl-C ended that
    words: str  # the cost, for people
    episode: Episode  # on the host
    plan: dict[str, Any]  # a JSON object; at least `cost`, `feasible`, `routes`, `method`, `seconds`

    def write(self, path: str | os.PathLike) -> None:
        """Write the plan, by the ending of the path; see `jaxvrp.Problems`. `.html` is a page that plays it."""
        if pathlib.Path(path).suffix.lower() == PAGE:
            self.write_page(path)
            return
        self.problem.problems.write_plan(self.problem.problem, path, self.plan)

    def write_page(self, path: str | os.PathLike) -> None:
        """Write one page, without other files, that plays the plan and has a sheet for each vehicle, to be printed."""
        problem, env = self.problem.problem, self.problem.env
        exported = show.export_episode(self.episode, problem)
        set_by_file = self.problem.problems.parameters(problem, env)  # the others are of instances that are drawn
        episode = {
            **exported,
            "config": {name: value for name, value in exported["config"].items() if name in set_by_file},
            "is_plan": True,
            "subtitle": f"plan by {self.method}, feasible: {verdict(self)}",
        }
        show.write_page(episode, path, sheets=self.problem.problems.sheets(problem, self.plan))

    def draw(self, path: str | os.PathLike) -> None:
        """Draw the plan."""
        draw(self.episode, path, self.problem.problem)


def solve(
    instance: str | os.PathLike,
    *,
    seconds: float = 10.0,
    method: str | None = None,
    run: str | None = None,
    env: str | None = None,
    row: int | None = None,
    seed: int = 0,
    trust: bool = False,
    given: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The best plan for the problem in a file that is found in so many seconds; Ctrl-C keeps the best so far.

    Args:
        instance: the file.
        seconds: to look for plans; what is compiled and read takes time besides.
        method: a search, a planner or a baseline of the environment, or `policy`; by default the first search, the
            policy if there is a run, or else the first baseline.
        run: the folder of a run, or the name of a policy that is shipped; its policy plays first the most probable
            actions, then samples.
        env: the environment, by the name that it is registered under; by default the one that can read the file and
            obeys all that it says.
        row: which problem of the file, from 0, if it has several.
        seed: of what is drawn.
        trust: whether a run may import modules that are not installed; see `train.evaluate --help`.
        given: in the place of what the reader of the file would assume, see `jaxvrp.Problems.assumed`, and what no
            file says, see `choices` there.
        progress: is shown the best plan whenever the clock is read.

    Raises:
        UserError: the file, the run or the method is none; one line.
        KeyboardInterrupt: there was no plan yet.
    """
    problem = open_problem(instance, run=run, env=env, row=row, trust=trust, given=given)
    return solved(problem, seconds=seconds, method=method, seed=seed, progress=progress)


def solve_all(
    instances: Sequence[str | os.PathLike],
    *,
    seconds: float = 10.0,
    method: str | None = None,
    run: str | None = None,
    env: str | None = None,
    seed: int = 0,
    trust: bool = False,
    progress: Callable[[SearchedAll], None] | None = None,
) -> list[Solution]:
    """`solve` for all problems of several files, in their order.

    Where a search plans many episodes in one program (`jaxvrp.Players.searches_all`: `darp`), problems are padded to
    the largest and searched together, so that all have all the time. Else one is solved after the other.

    Args:
        instances: the files, of one environment; of a file with several problems, all are solved.
        seconds: for each problem; together, as many times as much as there are problems.
        method, run, env, seed, trust: as for `solve`.
        progress: is shown the best plans whenever the clock is read, where they are searched together.

    Raises:
        UserError: a file, the run or the method is none, or files are of different environments; one line.
        KeyboardInterrupt: there was no plan yet.

    Returns:
        The solutions. After Ctrl-C no further problem is begun: the list ends with the one whose search was
        `interrupted`; of problems that are searched together, all are.
    """
    read = [(path, *read_problems(path, env)) for path in instances]
    names = {name for _, name, _ in read}
    if not names:
        return []
    if len(names) > 1:
        raise UserError(f"the files are of {', '.join(sorted(names))}; solve those of one environment at a time")
    problems = [problem for _, _, found in read for problem in found]
    (name,) = names
    if run is None and (stack := _stack_of(name, method)):
        batch = problem_in(name, stack(problems), instances[0])
        return solved_together(batch, problems, chosen(batch, method), seconds, seed, progress)
    options: dict[str, Any] = {"seconds": seconds, "method": method, "seed": seed}
    opening: dict[str, Any] = {"run": run, "env": env, "trust": trust}
    solutions: list[Solution] = []
    for path, row in ((path, row if len(found) > 1 else None) for path, _, found in read for row in range(len(found))):
        solutions.append(solved(open_problem(path, row=row, **opening), **options))
        if solutions[-1].interrupted:
            break
    return solutions


def _stack_of(name: str, method: str | None) -> Callable[[Sequence[Any]], Any] | None:
    """What makes one batch of problems that a method (None: the first) searches together; None if none can."""
    env = jaxvrp.make(name)
    players, known = registry.players_of(env), registry.problems_of(env)
    is_search_of_all = (method or next(iter(players.searches), None)) in players.searches_all
    return known.stack if known and known.is_stacked and is_search_of_all else None


def solved_together(
    batch: Problem,
    problems: Sequence[Any],
    method: str,
    seconds: float,
    seed: int,
    progress: Callable[[SearchedAll], None] | None,
) -> list[Solution]:
    """Solutions of `problems`, which `batch` holds padded, by a search for all of them."""
    search = batch.players.searches_all[method]
    reports = search(batch.env, batch.instance, jax.random.key(seed), seconds * len(problems))
    best, found, interrupted = watched_to_the_end(reports, progress)
    solutions = []
    for row, problem in enumerate(problems):
        instance, actions = jax.tree.map(lambda leaf, row=row: leaf[row], (batch.instance, best.actions))
        of_row = Searched(best.seconds, float(best.cost[row]), actions)
        episode = best.episode(row) if best.episode else follow(batch.env, instance, actions)
        of_problem = dataclasses.replace(batch, problem=problem)
        solutions.append(solution_of(of_problem, method, of_row, float(found[row]), episode, interrupted=interrupted))
    return solutions


def watched_to_the_end(
    reports: Iterable[Report], progress: Callable[[Report], None] | None
) -> tuple[Report, np.ndarray, bool]:
    """The last report of a search, when its cost was found (see `with_found`), and whether Ctrl-C ended the search.

    Raises:
        KeyboardInterrupt: there was no report yet.
    """
    last: tuple[Report, np.ndarray] | None = None
    interrupted = False
    try:
        for last in with_found(reports):
            if progress:
                progress(last[0])
    except KeyboardInterrupt:
        if last is None:
            raise
        interrupted = True
    assert last is not None
    best, found = last
    return best, found, interrupted


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
        methods = {POLICY: _policy(made, instance, best, sampling), **_methods(made, instance)}
        if lookahead := registry.players_of(made).lookahead:
            program = _episodes(lambda env: lookahead(env, best), tries=1)
            methods[f"planner with {POLICY}"] = _once(made, instance, program)
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
        made, problems, problem, _solving(problems, problem, _methods(made, problems.instance(problem, made)))
    )


def solved(
    problem: Problem, *, seconds: float, method: str | None = None, seed: int = 0, progress: Progress | None = None
) -> Solution:
    """The best plan that a method finds in so many seconds; see `solve`."""
    method = chosen(problem, method)
    reports = problem.methods[method](jax.random.key(seed), seconds)
    best, found, interrupted = watched_to_the_end(reports, progress)
    episode = best.episode() if best.episode else follow(problem.env, problem.instance, best.actions)
    if problem.players.tidied:
        cost, tidied = problem.players.tidied(episode)
        if cost <= best.cost:
            figures = jax.tree.map(lambda leaf: leaf[-1], tidied.timesteps.metrics)
            best, episode = best._replace(cost=cost, figures=figures), tidied
    return solution_of(problem, method, best, float(found), episode, interrupted=interrupted)


def solution_of(
    problem: Problem, method: str, best: Searched, found: float, episode: Episode, *, interrupted: bool
) -> Solution:
    """The solution that an episode is, found after so many seconds."""
    episode = jax.device_get(episode)
    plan = problem.problems.plan(problem.problem, episode)
    if np.isfinite(best.cost) and "cost" in plan:
        # A checker does not know the reward of an environment that is derived from its own.
        is_return = np.isclose(plan["cost"], -np.asarray(episode.timesteps.team_reward).sum(), rtol=1e-5)
        best = best._replace(cost=plan["cost"]) if is_return else best
    cost, seconds = (value if np.isfinite(value) else None for value in (best.cost, found))
    card = {"cost": cost, "method": method, "seconds": seconds, "searched_seconds": best.seconds}
    words = cost_words(problem, best)
    plan = {**card, **plan, "cost": cost}
    return Solution(problem, method, best.cost, found, best.seconds, interrupted, words, episode, plan)


def chosen(problem: Problem, method: str | None) -> str:
    """The name of a method, by default the best choice."""
    if method is None:
        return next(iter(problem.methods))
    method = problem.players.full_name(method)
    if method not in problem.methods:
        hint = "it needs --run" if method == POLICY else nearest(method, problem.methods)
        raise UserError(f"--method {method}: there is none of that name; {hint}")
    return method


def read_problems(
    path: str | os.PathLike, env: str | None, given: Mapping[str, Any] | None = None
) -> tuple[str, Sequence[Any]]:
    """The environment that a file has problems of, by name, and all of these; `given` as for `solve`."""
    given = given or {}
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


def _methods(env: Environment, instance: Any) -> dict[str, Any]:
    players = registry.players_of(env)
    planners = {name: make for name, make in players.planners.items() if name not in players.searches}
    makers: dict[str, MakeActor] = {**planners, **players.baselines, "random": RandomActor}
    searches = {name: functools.partial(search, env, instance) for name, search in players.searches.items()}
    return {**searches, **{name: _once(env, instance, _of_many(make)) for name, make in makers.items()}}


def _solving(problems: Problems[Any], problem: Any, methods: dict[str, Any]) -> dict[str, Any]:
    return {name: methods[name] for name in problems.solvers(problem, list(methods))}


def _once(env: Environment, instance: Any, program: Any) -> Callable[[jax.Array, float], Iterator[Searched]]:
    """One episode, by a program of `_episodes`."""

    def play(key: jax.Array, seconds: float) -> Iterator[Searched]:
        del seconds
        yield _timed(program, env, instance, key)

    return play


def _policy(
    env: Environment, instance: Any, deterministic: Actor, sampling: Actor
) -> Callable[[jax.Array, float], Iterator[Searched]]:
    """What a policy holds for best, then the best of as many samples as there is time for."""

    def play(key: jax.Array, seconds: float) -> Iterator[Searched]:
        (best,) = _once(env, instance, _episodes(lambda env: deterministic, tries=1))(key, seconds)
        yield best
        programs = {tries: _episodes(lambda env: sampling, tries=tries) for tries in LOTS}
        now = of_each = best.seconds
        while now < seconds:
            tries = next((each for each in LOTS if episodes_of(each) * of_each <= seconds - now), LOTS[-1])
            key, sample_key = jax.random.split(key)
            found = _timed(programs[tries], env, instance, sample_key)
            of_each = found.seconds / episodes_of(tries)
            now += found.seconds
            best = (found if found.cost < best.cost else best)._replace(seconds=now)
            yield best

    return play


def _episodes(make: MakeActor, *, tries: int) -> Any:
    """A jitted program `(env, instance, key) -> (actions, cost, metrics)`: the best of several episodes of an actor."""

    def play(env: Environment, instance: Any, key: jax.Array) -> tuple[dict[str, jax.Array], jax.Array, Any]:
        cost = registry.players_of(env).cost
        episode, totals = best_episode(env, make(env), instance, key, tries=tries, cost=cost)
        return episode.actions, totals["cost"], jax.tree.map(lambda leaf: leaf[-1], episode.timesteps.metrics)

    return jax.jit(play)


@functools.lru_cache(maxsize=KEPT)
def _of_many(make: MakeActor) -> Any:
    """One episode by the actor that `make` makes; of all problems of one size, so that these compile it once."""
    return _episodes(make, tries=1)


def _timed(program: Any, env: Environment, instance: Any, key: jax.Array) -> Searched:
    """What a program of `_episodes` finds, and how long it takes, without compilation."""
    compiled = program.lower(env, instance, key).compile()  # at once, where it has been compiled
    start = time.monotonic()
    actions, cost, figures = jax.device_get(compiled(env, instance, key))
    return Searched(time.monotonic() - start, float(cost.sum(dtype=np.float64)), actions, figures=figures)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    args = _arguments(sys.argv[1:] if argv is None else argv)
    if args.collect:
        print(shards.collect(pathlib.Path(args.collect)))
        return
    if shards.means_many(args.instance):
        with going_on(f"finished plans are in {args.out[0]}, and the same command goes on with the others"):
            solve_shard(args)
        return
    problem = open_problem(
        args.instance,
        run=args.run,
        env=args.env,
        row=args.index,
        trust=args.trust,
        given=args.given,
        fleet=args.fleet,
    )
    method = chosen(problem, args.method)
    source = [pathlib.Path(path) for path in (args.instance, args.fleet) if path]
    for path in args.out:
        check_output("--out", path, endings_of(problem), source)
    if args.picture and PAGE not in endings_of(problem):
        raise UserError(f"--picture: a plan for {args.instance} is not played, so it has no picture; leave it out")
    for path in args.picture:
        check_output("--picture", path, (".gif", *STILLS), source)
    show_warnings(problem.problems.inspect(problem.problem, problem.env), problem.assumed)
    solution = watched(problem, seconds=args.seconds, method=method, seed=args.seed)
    outputs = [Output("--out", path, solution.write) for path in args.out]
    outputs += [Output("--picture", path, solution.draw) for path in args.picture]
    write_all(outputs, report(solution))


def solve_shard(args: argparse.Namespace) -> None:
    """Solve all files of a folder or a pattern, or the part that a shard is, into a folder of plans with a manifest.

    A plan of an earlier run is kept if file and settings are the same. Files that cannot be read are named at the end,
    with exit status 2; all others are solved.
    """
    part, out = args.shard or shards.Shard(1, 1), pathlib.Path(args.out[0])
    out.mkdir(parents=True, exist_ok=True)
    entries, groups = _pending(shards.files_of(args.instance, part), out, args)
    with Bar(total=sum(map(len, groups.values())), unit="plan") as bar:
        for (name, _), group in groups.items():
            for entry in _solve_pending(name, group, args):
                entries.append(entry)
                bar.update()
    entries.sort(key=lambda entry: (entry["file"], entry.get("problem") or 0))
    manifest = shards.write_manifest(out, part, entries)
    print(f"{sum('plan' in entry for entry in entries)} plans, listed in {manifest}")
    if refused := [entry["error"] for entry in entries if "error" in entry]:
        raise UserError(f"{len(refused)} of the files are refused, the first: {refused[0]}")


class _Pending(NamedTuple):
    """A problem of a file, and where its plan goes."""

    file: pathlib.Path
    row: int | None
    problem: Any
    path: pathlib.Path
    source: dict[str, Any]


def _pending(
    files: Sequence[pathlib.Path], out: pathlib.Path, args: argparse.Namespace
) -> tuple[list[shards.Entry], dict[tuple, list[_Pending]]]:
    """The entries of files that are done or refused; and what is to be solved, by environment and size."""
    settings = {name: getattr(args, name) for name in ("seconds", "method", "run", "env", "seed")}
    settings |= {f"env.{name}": value for name, value in args.given.items()}
    entries: list[shards.Entry] = []
    groups: dict[tuple, list[_Pending]] = {}
    for file in files:
        try:
            name, problems = read_problems(file, args.env, args.given)
        except UserError as error:
            entries.append({"file": file.name, "error": str(error)})
            continue
        sha256 = shards.checksum(file)
        for row, problem in enumerate(problems):
            number = row if len(problems) > 1 else None
            path = shards.plan_path(out, file, number)
            source = {"file": file.name, "problem": number, "sha256": sha256, "settings": settings}
            if (entry := shards.entry_of(path)) and source.items() <= entry.items():
                entries.append(entry)
                continue
            shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(problem))
            groups.setdefault((name, shapes), []).append(_Pending(file, number, problem, path, source))
    return entries, groups


def _solve_pending(name: str, group: Sequence[_Pending], args: argparse.Namespace) -> Iterator[shards.Entry]:
    """Solve problems of one size, many in one program where a search can; plans are written at once."""
    stack = None if args.run else _stack_of(name, args.method)
    size = TOGETHER if stack else 1
    for part in (group[first : first + size] for first in range(0, len(group), size)):
        try:
            if stack:
                problems = [each.problem for each in part]
                batch = problem_in(name, stack(problems), part[0].file, args.given)
                method = chosen(batch, args.method)
                for each in part:
                    inspection = batch.problems.inspect(each.problem, batch.env)
                    show_warnings(inspection, batch.assumed, f"{each.file.name}: ")
                solutions = solved_together(batch, problems, method, args.seconds, args.seed, None)
            else:
                opening = {"run": args.run, "env": args.env, "trust": args.trust, "row": part[0].row}
                problem = open_problem(part[0].file, **opening, given=args.given)
                inspection = problem.problems.inspect(problem.problem, problem.env)
                show_warnings(inspection, problem.assumed, f"{part[0].file.name}: ")
                solutions = [solved(problem, seconds=args.seconds, method=args.method, seed=args.seed)]
        except UserError as error:
            yield from ({"file": each.file.name, "error": str(error)} for each in part)
            continue
        if solutions[-1].interrupted:  # a plan of fewer seconds than the settings say would never be made again
            raise KeyboardInterrupt
        for each, solution in zip(part, solutions, strict=True):
            dataclasses.replace(solution, plan={**solution.plan, "source": each.source}).write(each.path)
            entry = shards.entry_of(each.path)
            assert entry
            yield entry


def endings_of(problem: Problem) -> tuple[str, ...]:
    """Of the files that a plan can be written to."""
    in_degrees = (geojson.ENDING,) if getattr(problem.problem, "earth", None) else ()
    page = (PAGE,) if problem.problems.has_page(problem.problem) else ()
    return (*problem.problems.endings, *in_degrees, *page)


def watched(problem: Problem, *, seconds: float, method: str, seed: int) -> Solution:
    """`solved`, while stderr shows how far it is.

    On a terminal that is a bar, drawn at most four times a second; elsewhere a line every ten seconds, and each new
    best.
    """
    shown = "{l_bar}{bar}| {n:.1f}/{total:g} s{postfix}"
    is_terminal = sys.stderr.isatty()
    cost, last_line = "", 0.0

    def words(best: Searched) -> str:
        return f"cost {cost_words(problem, best)}"

    with Bar(
        total=seconds, bar_format=shown, desc="compiling", mininterval=BAR, miniters=0, disable=not is_terminal
    ) as bar:

        def draw(best: Searched) -> None:
            bar.set_description("searching", refresh=False)
            bar.set_postfix_str(words(best), refresh=False)
            bar.update(min(best.seconds, seconds) - bar.n)

        def say(best: Searched) -> None:
            nonlocal cost, last_line
            if cost != words(best) or best.seconds >= last_line + LINE:
                cost, last_line = words(best), best.seconds
                print(f"searching: {best.seconds:.1f} of {seconds:g} s, {cost}", file=sys.stderr)

        return solved(problem, seconds=seconds, method=method, seed=seed, progress=draw if is_terminal else say)


def cost_words(problem: Problem, found: Searched) -> str:
    """The cost of a plan, for people."""
    return problem.problems.cost_words(problem.problem, problem.env, found)


def verdict(solution: Solution) -> str:
    """Whether the plan is feasible, and if not, why."""
    if solution.plan["feasible"]:
        return "yes"
    reasons = solution.plan.get("reasons")
    return f"no: {'; '.join(reasons)}" if reasons else "no"


def report(solution: Solution) -> str:
    """What a plan comes to, for people: cost, whether it is feasible, what is broken, totals, and the routes."""
    plan = solution.plan
    rows = [("method", solution.method)]
    if np.isfinite(solution.cost):
        rows += [("cost", solution.words), ("found after", f"{solution.seconds:.2f} s")]
    else:
        rows.append(("cost", "none: no such plan was found"))
    end = ", then interrupted" if solution.interrupted else ""
    rows += [("searched for", f"{solution.searched_seconds:.2f} s{end}"), ("feasible", verdict(solution))]
    for name, found in plan.get("violations", {}).items():
        first = [f"first at {key.removeprefix('first_')} {each}" for key, each in found.items() if key != "count"]
        rows.append((f"  {name}", ", ".join([str(found["count"]), *first])))
    rows += plan.get("totals", {}).items()
    routes = plan["routes"]
    named = routes.items() if isinstance(routes, dict) else ((f"route {i + 1}", each) for i, each in enumerate(routes))
    rows += [(name, (", " if isinstance(each[0], str) else " ").join(map(str, each))) for name, each in named if each]
    rows = [(cut(name), printable(value, sys.maxsize)) for name, value in rows]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("train.solve", "The best plan for one problem in so many seconds; Ctrl-C keeps the best so far.")
    parser.add_argument("instance", nargs="?", help="the file of the problem; a folder or a pattern for many files")
    parser.add_argument("--fleet", metavar="FILE", help=FLEET_HELP)
    parser.add_argument("--seconds", type=above_zero, default=10.0, help="to look for each plan (default: 10)")
    parser.add_argument("--env", help="the environment; by default the one that reads the file")
    parser.add_argument("--method", help="a search, planner or baseline of it, or policy (default: the best choice)")
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    parser.add_argument("--run", help="folder of a run, or name of a shipped policy, that plays")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--seed", type=index, default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "--out",
        metavar="FILE",
        nargs="+",
        default=[],
        help="write the plan: .json, .csv, a page .html, a board also .pcb; of many files, a folder of plans",
    )
    parser.add_argument(
        "--picture", metavar="FILE", nargs="+", default=[], help="draw the plan: .png, .svg, .pdf; a .gif moves"
    )
    parser.add_argument("--shard", type=shards.shard, metavar="I/N", help="solve only part I of N of many files")
    parser.add_argument("--collect", metavar="DIR", help="check the plans of all shards in a folder, and list them")
    parser.add_argument("--env.KEY", metavar="VALUE", help="what the file does not say")
    words, given = split_mapping(argv, "env")
    args = parser.parse_args(words, argparse.Namespace(given=given))
    if args.collect:
        if extra := [word for word in argv if word.startswith("--") and not word.startswith("--collect")]:
            raise UserError(f"--collect takes a folder alone; leave out {extra[0]}")
        return args
    if args.instance is None:
        raise UserError(f"there is no problem to solve; give a file, a folder or a pattern, see {parser.prog} --help")
    if shards.means_many(args.instance):
        if len(args.out) != 1 or args.picture or args.index is not None:
            raise UserError("many files take --out DIR, one folder for all plans, and neither --picture nor --index")
    elif args.shard:
        raise UserError(f"--shard is of many files, and {args.instance} is one; leave it out")
    said = [name for name in ("run", "env", "index") if getattr(args, name) is not None]
    if args.fleet and said:
        raise UserError(f"--fleet: the fleet says what plays; leave --{said[0]} out")
    if args.run and args.env:
        raise UserError("--env: a run brings its own environment; leave --env or --run out")
    if args.trust and not args.run:
        raise UserError("--trust is of --run; leave it out")
    return args


if __name__ == "__main__":
    entry(main)

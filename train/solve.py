"""The best plan for one problem in so many seconds: by search, by a trained policy, or by a heuristic.

python -m train.solve INSTANCE --seconds 10 --out plan.json stops.csv --picture plan.svg
python -m train.solve MAP.json --run vrpd_tw
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxvrp
from jaxvrp import Environment, registry
from jaxvrp.actor import Actor
from jaxvrp.io.command_line import Parser, UserError, above_zero, refuse_overwriting
from jaxvrp.io.messages import nearest
from jaxvrp.pictures import STILLS
from jaxvrp.toolbox import InstanceFiles, Searched, Toolbox
from train.running import command_line
from train.running.evaluator import baseline_actors, first_seed
from train.running.instance_file import POLICY, InstanceFile, best_episode
from train.running.keys import LAUNCH

TRIES = 64
"""Sampled episodes of a policy between two looks at the clock."""

Progress = Callable[[Searched], None]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem, and the environment in which it is one.

    Attributes:
        env: plays it.
        files: how its plans are told and written.
        problem: what was read.
        methods: what can solve it, by name, the best choice first.
    """

    env: Environment
    files: InstanceFiles
    problem: Any
    methods: dict[str, Callable[[jax.Array, float], Iterator[Searched]]]

    @property
    def toolbox(self) -> Toolbox:
        """What belongs to the environment."""
        return registry.toolbox_of(self.env)


@dataclasses.dataclass(frozen=True)
class Solution:
    """A plan for a problem.

    Attributes:
        problem: whose.
        method: who made it.
        cost: minus the return of its episode.
        seconds: after which it was found.
        states: of its episode, leaves `[T + 1, ...]`.
        plan: a JSON object; at least `cost`, `feasible`, `routes`, `method` and `seconds`.
    """

    problem: Problem
    method: str
    cost: float
    seconds: float
    states: Any
    plan: dict[str, Any]

    def write(self, path: str | os.PathLike) -> None:
        """Write the plan, by the ending of the path; see `jaxvrp.InstanceFiles`."""
        self.problem.files.write_plan(path, self.plan)

    def draw(self, path: str | os.PathLike) -> None:
        """Draw the plan."""
        assert self.problem.toolbox.renderer
        self.problem.toolbox.renderer(self.problem.env, self.states, path)


def solve(
    instance: str | os.PathLike,
    *,
    seconds: float = 10.0,
    method: str | None = None,
    run: str | None = None,
    env: str | None = None,
    seed: int = 0,
    trust: bool = False,
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
        env: the environment, by the name that it is registered under; by default the one that can read the file.
        seed: of what is drawn.
        trust: whether a run may import modules that are not installed; see `train.evaluate --help`.
        progress: is shown the best plan whenever the clock is read.

    Raises:
        UserError: the file, the run or the method is none; one line.
        KeyboardInterrupt: there was no plan yet.
    """
    problem = open_problem(instance, run=run, env=env, trust=trust)
    return solved(problem, seconds=seconds, method=method, seed=seed, progress=progress)


def solve_all(instances: Sequence[str | os.PathLike], **options: Any) -> list[Solution]:
    """`solve` for one file after the other; problems of one size share the programs that are compiled."""
    return [solve(instance, **options) for instance in instances]


def open_problem(
    path: str | os.PathLike, *, run: str | None = None, env: str | None = None, trust: bool = False
) -> Problem:
    """Read a file, and find what can solve it; see `solve`.

    Raises:
        UserError: it cannot be read, or there is no such run or environment; one line.
    """
    if run is not None:
        file = InstanceFile.open(str(path), run, {}, trust=trust)
        trained = file.folder.load("latest")
        params = first_seed(trained.learner, trained.params)
        players = [trained.learner.actor(params, deterministic=choice) for choice in (True, False)]
        policy = {POLICY: _policy(file.env, file.files.instance(file.problem), *players)}
        return Problem(file.env, file.files, file.problem, {**policy, **_methods(file.env, file.files, file.problem)})
    name, problem = _recognised(path, env)
    plain = jaxvrp.make(name)
    files = registry.toolbox_of(plain).instances
    assert files
    try:
        made = jaxvrp.make(name, **files.parameters(problem, plain))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return Problem(made, files, problem, _methods(made, files, problem))


def solved(
    problem: Problem, *, seconds: float, method: str | None = None, seed: int = 0, progress: Progress | None = None
) -> Solution:
    """The best plan that a method finds in so many seconds; see `solve`."""
    method = chosen(problem, method)
    best = None
    try:
        for found in problem.methods[method](jax.random.key(seed), seconds):
            best = found if best is None or found.cost < best.cost else best
            if progress:
                progress(best._replace(seconds=found.seconds))
    except KeyboardInterrupt:
        if best is None:
            raise
    assert best is not None
    states = followed(problem, best.actions)
    plan = problem.files.plan(problem.problem, problem.env, states)
    card = {"cost": best.cost, "method": method, "seconds": best.seconds}
    return Solution(problem, method, best.cost, best.seconds, states, {**card, **plan})


def chosen(problem: Problem, method: str | None) -> str:
    """The name of a method, by default the best choice.

    Raises:
        UserError: there is none of that name.
    """
    if method is None:
        return next(iter(problem.methods))
    if method not in problem.methods:
        hint = "it needs --run" if method == POLICY else nearest(method, problem.methods)
        raise UserError(f"--method {method}: there is none of that name; {hint}")
    return method


def followed(problem: Problem, actions: dict[str, np.ndarray]) -> Any:
    """The states, leaves `[T + 1, ...]` on the host, of an episode with these actions."""
    env, instance = problem.env, problem.files.instance(problem.problem)
    played = jax.tree.map(jnp.asarray, actions)

    def play(instance: Any) -> tuple[Any, Any]:
        start = env.init_state(instance)
        return start, jax.lax.scan(lambda state, action: (env.step(state, action)[0],) * 2, start, played)[1]

    start, states = jax.device_get(jax.jit(play)(instance))
    return jax.tree.map(lambda first, rest: np.concatenate([np.asarray(first)[None], rest]), start, states)


def _recognised(path: str | os.PathLike, env: str | None) -> tuple[str, Any]:
    """The environment that a file is a problem of, by name, and the problem.

    Raises:
        UserError: no environment reads it; one line.
    """
    reasons = []
    for name, files in _readers(env).items():
        try:
            return name, files.read(path)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}; give another file") from None
        except ValueError as error:
            reasons.append(str(error) if env else f"{name}: {error}")
    raise UserError(f"{path} is no problem that can be read ({'; '.join(reasons)})" if env is None else reasons[0])


def _readers(env: str | None) -> dict[str, InstanceFiles]:
    """Of one environment, or of all that read files, by name.

    Raises:
        UserError: there is no such environment, or it reads none.
    """
    if env is None:
        return {name: toolbox.instances for name, toolbox in registry.toolboxes().items() if toolbox.instances}
    try:
        files = registry.toolbox_of(jaxvrp.make(env)).instances
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None
    if files is None:
        raise UserError(f"--env {env}: it reads no problems from files; it must be one of: {', '.join(_readers(None))}")
    return {env: files}


def _methods(env: Environment, files: InstanceFiles, problem: Any) -> dict[str, Any]:
    """Searches, planners and baselines that solve a problem, in this order."""
    toolbox, instance = registry.toolbox_of(env), files.instance(problem)

    def by_search(search: Any) -> Any:
        return lambda key, seconds: search(env, instance, key, seconds)

    planners = {name: make(env) for name, make in toolbox.planners.items() if name not in toolbox.searches}
    actors = {**planners, **baseline_actors(env)}
    searches = {name: by_search(search) for name, search in toolbox.searches.items()}
    return {**searches, **{name: _once(env, instance, actor) for name, actor in actors.items()}}


def _once(env: Environment, instance: Any, actor: Actor) -> Callable[[jax.Array, float], Iterator[Searched]]:
    """One episode of an actor that always plays the same."""

    def play(key: jax.Array, seconds: float) -> Iterator[Searched]:
        del seconds
        program = jax.jit(lambda key: best_episode(env, actor, instance, key, tries=1)).lower(key).compile()
        start = time.monotonic()
        _, actions, totals = jax.device_get(program(key))
        yield Searched(time.monotonic() - start, -float(totals["return"]), actions)

    return play


def _policy(
    env: Environment, instance: Any, deterministic: Actor, sampling: Actor
) -> Callable[[jax.Array, float], Iterator[Searched]]:
    """What a policy holds for best, then the best of as many samples as there is time for."""

    def play(key: jax.Array, seconds: float) -> Iterator[Searched]:
        yield from _once(env, instance, deterministic)(key, seconds)
        program = jax.jit(lambda key: best_episode(env, sampling, instance, key, tries=TRIES)).lower(key).compile()
        start, now = time.monotonic(), 0.0
        while now < seconds:
            key, sample_key = jax.random.split(key)
            _, actions, totals = jax.device_get(program(sample_key))
            now = time.monotonic() - start
            yield Searched(now, -float(totals["return"]), actions)

    return play


def main(argv: Sequence[str] | None = None) -> None:
    """The command line.

    Raises:
        UserError: a mistake of the user's, as one line.
    """
    args = _arguments(sys.argv[1:] if argv is None else argv)
    problem = open_problem(args.instance, run=args.run, env=args.env, trust=args.trust)
    method = chosen(problem, args.method)
    _check_paths(args, problem)
    shown = "{l_bar}{bar}| {n:.1f}/{total:g} s{postfix}"
    with tqdm(total=args.seconds, bar_format=shown, desc="compiling") as bar:

        def progress(best: Searched) -> None:
            bar.set_description("searching")
            bar.set_postfix_str(f"cost {best.cost:.2f}")
            bar.update(min(best.seconds, args.seconds) - bar.n)

        solution = solved(problem, seconds=args.seconds, method=method, seed=args.seed, progress=progress)
    print(report(solution))
    for path in args.out:
        solution.write(path)
        print(f"wrote {path}")
    if args.picture:
        solution.draw(args.picture)
        print(f"drew {args.picture}")


def report(solution: Solution) -> str:
    """What a plan comes to, for people: cost, whether it is feasible, each violation, and who goes where."""
    plan = solution.plan
    rows = [("method", solution.method), ("cost", f"{solution.cost:.2f}"), ("found after", f"{solution.seconds:.1f} s")]
    rows.append(("feasible", "yes" if plan["feasible"] else "no"))
    for name, found in plan.get("violations", {}).items():
        rows.append((f"  {name}", f"{found['count']}, first at node {found['first_node']}"))
    routes = plan["routes"]
    named = routes.items() if isinstance(routes, dict) else ((f"route {i + 1}", each) for i, each in enumerate(routes))
    rows += [(name, " ".join(map(str, each))) for name, each in named if each]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _check_paths(args: argparse.Namespace, problem: Problem) -> None:
    """Find out before anything is searched whether the plan can be written and drawn.

    Raises:
        UserError: another ending, no such folder, or the file that is read.
    """
    endings = {"--out": problem.files.endings, "--picture": (".gif", *STILLS)}
    if args.picture and problem.toolbox.renderer is None:
        raise UserError(f"--picture: {type(problem.env).__name__} has no renderer; leave it out")
    asked = [("--out", path) for path in args.out] + ([("--picture", args.picture)] if args.picture else [])
    for option, name in asked:
        path = pathlib.Path(name)
        if path.suffix.lower() not in endings[option]:
            raise UserError(f"{option} {path}: the name must end in one of: {', '.join(endings[option])}")
        if not path.parent.is_dir():
            raise UserError(f"{option} {path}: there is no folder {path.parent}; make it first")
        refuse_overwriting(path, option, [pathlib.Path(args.instance)])


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("train.solve", "The best plan for one problem in so many seconds; Ctrl-C keeps the best so far.")
    parser.add_argument("instance", help="the file of the problem")
    parser.add_argument("--seconds", type=above_zero, default=10.0, help="to look for plans (default: 10)")
    parser.add_argument("--env", help="the environment; by default the one that reads the file")
    parser.add_argument("--method", help="a search, planner or baseline of it, or policy (default: the best choice)")
    parser.add_argument("--run", help="folder of a run, or name of a shipped policy, that plays")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--out", metavar="FILE", nargs="+", default=[], help="write the plan: .json, .csv")
    parser.add_argument("--picture", metavar="FILE", help="draw the plan: .png, .svg, .pdf; a .gif moves")
    return parser.parse_args(argv)


if __name__ == "__main__":
    command_line.entry(main)

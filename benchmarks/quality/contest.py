"""What all tables of quality share: options, the turns of the players, plans that are checked, the result file."""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import jaxvrp
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds
from jaxvrp.actor import Actor
from jaxvrp.environment import select
from jaxvrp.io.command_line import Parser, UserError
from train import LAUNCH, RunFolder, Trained, aligned, first_seed

SEED = 1_000_003
"""The instances of the trainer's default `eval_seed`."""

LEVEL = 0.95
"""Of the intervals of confidence."""

Result = TypeVar("Result")
Table = list[list[str]]


class Standings(NamedTuple):
    """A table, and what belongs to it.

    Attributes:
        title: above it.
        rows: the head, and a row for each player.
        reference: what its gaps refer to; "" for nothing.
    """

    title: str
    rows: Table
    reference: str = ""


def parser(env: str, about: str) -> Parser:
    """A parser with the options that all environments share."""
    made = Parser("benchmarks.quality", about)
    made.add_argument(
        "--env",
        default=env,
        help=f"{', '.join(jaxvrp.registered())} or package.module:make; --env NAME --help lists the options of another",
    )
    made.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    made.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    made.add_argument("--out", type=measure.result_file, help="JSON file for machine and tables")
    return made


def made(env: str, parameters: Mapping[str, Any]) -> Any:
    """The environment with these parameters.

    Raises:
        UserError: no such parameter, or a value that it cannot have; one line.
    """
    try:
        return jaxvrp.make(env, **parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None


def load(run: str, env: type, name: str, args: argparse.Namespace, changes: dict[str, Any] | None = None) -> Trained:
    """A run in the environment with some `changes`.

    Raises:
        UserError: there is none, or its environment is not of the class `env`, which is called `name`.
    """
    trained = RunFolder(run, changes, trust=args.trust).load(args.checkpoint)
    if not isinstance(trained.learner.env, env):
        raise UserError(f"--run {run} is a run of another environment; give one of {name}")
    return trained


def actor_of(run: Trained, temperature: float | None = None) -> Actor:
    """The policy of a run, of its first seed: the most probable actions, or samples at a temperature."""
    params = first_seed(run.learner, run.params)
    return run.learner.actor(params, deterministic=temperature is None, temperature=temperature or 1.0)


def take_turns(turns: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
    """What each player reaches, one after the other, with a progress bar.

    Raises:
        UserError: a solver is not installed, or refuses the instances.
    """
    results = {}
    with measure.progress(turns.items(), "player", leave=False) as bar:
        for name, turn in bar:
            bar.set_postfix_str(name)
            try:
                results[name] = turn()
            except (ImportError, ValueError) as error:
                raise UserError(str(error)) from None
    return results


def show(args: argparse.Namespace, argv: Sequence[str], tables: Iterable[Standings], notes: str) -> None:
    """Print each table as soon as it is there, write all to `--out`, print the notes, with what the gaps refer to."""
    shown, references = {}, []
    for title, rows, reference in tables:
        shown[title] = rows
        references.append(reference)
        print(f"\n{title}\n\n{aligned(rows)}", flush=True)
    header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
    options = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(args).items()}
    said = f"\n{notes.format(reference=', '.join(dict.fromkeys(references)))}"
    measure.write_result(args.out, {"machine": header, "options": options, "tables": shown}, said)


def best_of(
    attempt: Callable[[jax.Array, jax.Array], Mapping[str, tuple[jax.Array, Any]]], key: jax.Array, tries: int
) -> Mapping[str, tuple[jax.Array, Any]]:
    """What costs least of several tries on each of E instances; pure.

    Args:
        attempt: from the number of a try, `i32[]`, and its key to costs `f32[E]` and what has that cost, leaves
            `[E, ...]`, by name; each name has a best try of its own.
        key: of all tries.
        tries: how many.
    """
    numbered = jnp.arange(tries, dtype=jnp.int32), jax.random.split(key, tries)

    def retry(best: Any, try_: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        found = attempt(*try_)
        return {name: select(found[name][0] < best[name][0], found[name], best[name]) for name in found}, None

    shapes = jax.eval_shape(attempt, numbered[0][0], numbered[1][0])
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    nothing = {name: (jnp.full_like(cost, jnp.inf), plan) for name, (cost, plan) in empty.items()}
    return jax.lax.scan(retry, nothing, numbered)[0]


class Plans(NamedTuple):
    """What a player planned for n instances.

    Attributes:
        reports: what the checker of solutions says of each plan.
        seconds: of an instance, without compilation.
    """

    reports: list[Any]
    seconds: Seconds

    @property
    def cost(self) -> np.ndarray:
        """`f64[n]`, of the plans themselves, without penalties."""
        return np.array([report.cost for report in self.reports])

    @property
    def feasible(self) -> np.ndarray:
        """`bool[n]`, nothing is violated."""
        return np.array([report.feasible for report in self.reports])


def singles(instances: Any) -> list[Any]:
    """The instances of a batch, one by one, NumPy."""
    instances = jax.device_get(instances)
    count = len(jax.tree.leaves(instances)[0])
    return [jax.tree.map(lambda leaf, row=row: leaf[row], instances) for row in range(count)]


def gap(costs: np.ndarray, known: np.ndarray | None) -> str:
    """How much more all costs are than the known ones together; "-" without these."""
    return "-" if known is None else f"{100 * (costs.sum() / known.sum() - 1):+.2f} %"


def times(seconds: Seconds) -> list[str]:
    """The cells `s/instance` and `CPU s/instance`."""
    return [f"{seconds.wall:.2g}", f"{seconds.cpu:.2g}"]


def cell(values: Sequence[float], form: str) -> str:
    """`"705.10 ± 3.21"`: the mean over seeds, and half the width of its interval by Student's t; one value as it is."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    quantile = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2))
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):{form}} ± {half:{form}}"

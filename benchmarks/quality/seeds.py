"""Several seeds of one training as one row: which runs there are, and means with 95 % intervals."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from scipy import special

from jaxvrp.io.command_line import UserError
from train.config import RunConfig
from train.running.folder.run_folder import CONFIG
from train.running.loop.learner import Learner

LEVEL = 0.95
SIGN = "±"
FREE = {"seed", "logger", "pictures", "start_from"}
"""Keys in which the seeds of one training may differ: loggers and pictures change nothing of what is learned, and a
training that goes on from another does so from that one's own seed."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: of them.
        half: half the width of its interval of confidence `LEVEL`, by Student's t; nan of a single value.
    """

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate from at least one value."""
        if len(values) < 2:
            return cls(float(values[0]), math.nan)
        quantile = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2))
        return cls(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values)))


def cell(values: Sequence[float], form: str, *, percent: bool = False) -> str:
    """`"705.10 ± 3.21"`: mean and interval of several values, a single value as it is; the mean as `form` says."""
    scale, unit = (100.0, " %") if percent else (1.0, "")
    estimate = Estimate.of([scale * value for value in values])
    spread = "" if math.isnan(estimate.half) else f" {SIGN} {estimate.half:{form.removeprefix('+')}}"
    return f"{estimate.mean:{form}}{spread}{unit}"


def kept_runs(folder: pathlib.Path, only: Sequence[str] | None = None) -> dict[str, pathlib.Path]:
    """The runs that a folder holds (`benchmarks.ablation --runs`), by name, in the order in which they were begun.

    Args:
        folder: of the runs.
        only: names of those that are wanted; None for all.

    Raises:
        UserError: it holds none, or not one of that name.
    """
    files = sorted(folder.glob(f"*/{CONFIG}"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise UserError(f"--trained {folder}: no run in it; train some: python -m benchmarks.ablation --runs {folder}")
    found = {path.parent.name: path.parent for path in files}
    if missing := [name for name in only or [] if name not in found]:
        raise UserError(f"--only: {folder} holds no run '{missing[0]}'; choose among: {', '.join(found)}")
    return {name: found[name] for name in only or found}


def by_seed(learner: Learner, params: Any) -> list[Any]:
    """The parameters of each seed."""
    if learner.config.num_seeds == 1:
        return [params]
    return [jax.tree.map(lambda leaf, seed=seed: leaf[seed], params) for seed in range(learner.config.num_seeds)]


def check_seeds(trainings: Mapping[str, RunConfig]) -> None:
    """Check that trainings, by the name of their run, are one training with other seeds.

    Raises:
        UserError: there are fewer than two, another key than the seed differs, or a seed is there twice; one line.
    """
    if len(trainings) < 2:
        raise UserError(f"--pooled: --trained holds {len(trainings)} of its seeds; at least 2 are needed")
    for (name, config), (other_name, other) in itertools.combinations(trainings.items(), 2):
        if config.seed == other.seed:
            raise UserError(f"--pooled: '{name}' and '{other_name}' have the same seed, {config.seed}")
        keys = vars(config).keys() | vars(other).keys()
        if differing := sorted(key for key in keys - FREE if vars(config).get(key) != vars(other).get(key)):
            raise UserError(f"--pooled: '{name}' and '{other_name}' differ in {differing[0]}; only the seed may differ")

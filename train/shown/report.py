"""The end of a run: summary, learning curve, pictures of one episode, and the table."""

from __future__ import annotations

import pathlib
from typing import Any

import jax

from jaxvrp import registry
from jaxvrp.io.messages import warn
from jaxvrp.io.whole_files import write_json
from jaxvrp.show import save_still
from jaxvrp.show.export import drawing, is_drawn
from train.learning.learner import Learner
from train.run.compiler import Compiler
from train.run.evaluator import Evaluator, Figures, first_seed, recording_function
from train.run.records import METRICS, START, Record, listed, read_lines, read_start
from train.shown.plots import DPI as CURVE_DPI
from train.shown.plots import learning_curve
from train.shown.tables import figures_table

CURVE = "learning_curve.png"
EPISODE = ("episode.gif", "episode.png")
"""Files that a run draws at its end; of the episode, if its environment has it drawn and `pictures` says so."""


class Report:
    """Everything that a finished run leaves; its programs are compiled while the run goes on."""

    def __init__(self, learner: Learner, params: Any, evaluator: Evaluator, compiler: Compiler):
        """`params` are those of actors at any time, and `evaluator` has the fixed instances."""
        self._learner, self._evaluator = learner, evaluator
        self._headlines = registry.card_of(evaluator.env).headlines
        self._pictures = EPISODE if is_drawn(evaluator.env) and learner.config.pictures else ()
        if self._pictures:
            record = recording_function(learner, evaluator)
            self._record = compiler.compile(record, first_seed(learner, params), quick=True, name="record")
        self._baselines = {
            name: [compiler.compile(form, quick=True, name=f"{name} {number}") for number, form in enumerate(forms)]
            for name, forms in evaluator.baseline_programs().items()
        }

    def write(self, params: Any, policy: Figures, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write all of it, and print the table; `policy` are the figures of the actors. Returns the pictures."""
        evaluator, headlines = self._evaluator, self._headlines
        baselines = evaluator.baselines(programs=self._baselines)
        figures = {"policy": policy, **baselines}
        write_json(folder / "summary.json", figures)
        records = [*start_record(folder), *whole_records(folder / METRICS)]
        save_still(learning_curve(records, baselines, headlines), folder / CURVE, CURVE_DPI)
        if self._pictures:
            episode = jax.device_get(self._record(first_seed(self._learner, params)))
            draw = drawing(episode)
            for name in self._pictures:
                draw(folder / name)
        print(f"\n{evaluator.num_episodes} fixed instances, whole episodes, deterministic policy\n")
        print(figures_table(figures, headlines))
        print(f"\nrun folder: {folder} ({', '.join([CURVE, *self._pictures, 'summary.json', METRICS])})")
        return [folder / name for name in (CURVE, *self._pictures)]


def start_record(folder: pathlib.Path) -> list[Record]:
    """The record of the evaluation before the first update; without it a warning, and no record."""
    start = read_start(folder)
    if not start:
        warn(f"{folder / START} is missing or damaged, and not drawn")
    return start


def whole_records(path: pathlib.Path) -> list[Record]:
    """The records of a file; a warning names the lines that are none."""
    lines = read_lines(path)
    if damaged := [line.number for line in lines if line.record is None]:
        warn(f"{path}: {listed('line', damaged)} damaged, and not drawn")
    return [line.record for line in lines if line.record is not None]

"""The end of a run: summary, learning curve, pictures of one episode, and the table."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from jaxvrp import registry
from jaxvrp.io.whole_files import write_json
from jaxvrp.pictures import save_still
from train.running.loop.evaluator import Evaluator, Figures, recorded_states
from train.running.loop.learner import Learner
from train.running.loop.records import METRICS, START, Record, listed, read_lines, read_start
from train.running.shown.plots import DPI as CURVE_DPI
from train.running.shown.plots import learning_curve
from train.running.shown.tables import figures_table

CURVE = "learning_curve.png"
EPISODE = ("episode.gif", "episode.png")
PICTURES = (CURVE, *EPISODE)
"""Files that a run draws at its end; of the episode, if its toolbox has a renderer and the key `pictures` says so."""


def write_report(learner: Learner, params: Any, policy: Figures, evaluator: Evaluator, folder: pathlib.Path) -> None:
    """Write everything that a finished run leaves, and print the table.

    `policy` are the figures of the actors with these parameters on the fixed instances of `evaluator`.
    """
    toolbox, baselines = registry.toolbox_of(evaluator.env), evaluator.baselines()
    figures = {"policy": policy, **baselines}
    write_json(folder / "summary.json", figures)
    records = [*start_record(folder), *whole_records(folder / METRICS)]
    save_still(learning_curve(records, baselines, toolbox.headlines), folder / CURVE, CURVE_DPI)
    pictures = EPISODE if toolbox.renderer and learner.config.pictures else ()
    if pictures and toolbox.renderer:
        states = recorded_states(learner, params, evaluator)
        for name in pictures:
            toolbox.renderer(evaluator.env, states, folder / name)
    print(f"\n{evaluator.num_episodes} fixed instances, whole episodes, deterministic policy\n")
    print(figures_table(figures, toolbox.headlines))
    print(f"\nrun folder: {folder} ({', '.join([CURVE, *pictures, 'summary.json', METRICS])})")


def start_record(folder: pathlib.Path) -> list[Record]:
    """The record of the evaluation before the first update; without it a warning, and no record."""
    start = read_start(folder)
    if not start:
        print(f"warning: {folder / START} is missing or damaged, and not drawn", file=sys.stderr)
    return start


def whole_records(path: pathlib.Path) -> list[Record]:
    """The records of a file; a warning names the lines that are none."""
    lines = read_lines(path)
    if damaged := [line.number for line in lines if line.record is None]:
        print(f"warning: {path}: {listed('line', damaged)} damaged, and not drawn", file=sys.stderr)
    return [line.record for line in lines if line.record is not None]

"""Draws the learning curves in results of `benchmarks.peers --parts training`: a panel for each comparison.

python -m benchmarks.peers.curves benchmarks/results/learners/particles_cpu.json --out docs/images/learners.png
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.peers.learners import SIDES
from jaxvrp.io.command_line import Parser, check_picture_path, refuse_overwriting
from jaxvrp.show import STILLS, save_still
from jaxvrp.show.drawing import paper
from jaxvrp.show.drawing.palette import NOTE, series_look
from train import entry

COLUMNS, DPI = 3, 120

LOOKS = {side: series_look(number) for number, side in enumerate(SIDES)}


def draw(records: Sequence[dict[str, Any]]) -> Any:
    """A panel for each comparison: the mean over seeds, and a band from the least to the largest, of each side."""
    records = [record for record in records if "error" not in record]
    columns = min(len(records), COLUMNS)
    rows = -(-len(records) // columns)
    figure = paper.new_figure(3.6 * columns, 2.7 * rows + 0.7, DPI)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, record in zip(panels, records, strict=False):
        _draw_sides(axes, record)
    for axes in panels[len(records) :]:
        axes.set_visible(False)
    lines = [paper.legend_entry(**look, linewidth=1.8, label=side) for side, look in LOOKS.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=9, frameon=False)
    figure.suptitle("in training; mean of the seeds; band: from the least seed to the largest", fontsize=9, color=NOTE)
    return figure


def _draw_sides(axes: Any, record: dict[str, Any]) -> None:
    from matplotlib.ticker import EngFormatter

    for side, measured in record["sides"].items():
        curves = np.array([run["curve"] for run in measured["runs"]])
        steps, returned = curves[0, :, 0], curves[:, :, 1]
        axes.plot(steps, returned.mean(axis=0), **LOOKS[side], linewidth=1.6, zorder=3)
        axes.fill_between(steps, returned.min(axis=0), returned.max(axis=0), color=LOOKS[side]["color"], alpha=0.2)
    axes.set_title(f"{record['algorithm']}: {record['problem']}", fontsize=10)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return of an agent")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("benchmarks.peers.curves", "Learning curves of our learners beside others.")
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="results of benchmarks.peers --parts training")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the picture: .png, .svg or .pdf")
    args: argparse.Namespace = parser.parse_args(argv)
    check_picture_path(args.out, STILLS)
    refuse_overwriting(args.out, "--out", args.results)
    found = [json.loads(path.read_text(encoding="utf-8"))["training"] for path in args.results]
    save_still(draw([record for records in found for record in records]), args.out, DPI)


if __name__ == "__main__":
    entry(main)

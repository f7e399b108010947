"""The learning curve of a run. Imports matplotlib inside, as only a finished run needs it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxvrp.io.whole_files import write_whole
from jaxvrp.toolbox import Headline

RETURNS = (("episode/return", "training"), ("eval/return", "evaluation"))

ROLE_PANELS = {"entropy": "/entropy", "value": "/q"}
"""Titles of panels with a curve for each role, and how their metrics end; drawn is the first that a learner has."""


def learning_curve(
    records: Sequence[dict[str, Any]],
    baselines: dict[str, dict[str, Any]],
    headlines: Sequence[Headline],
    path: pathlib.Path,
) -> None:
    """Return, rates, entropies (or values) against environment steps: mean over seeds, band from least to most.

    Args:
        records: of the run, in order.
        baselines: figures by name, whose returns are drawn as levels.
        headlines: of the environment; those with a `curve` are the rates.
        path: of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    rates = [(f"eval/{headline.figure}", headline.curve) for headline in headlines if headline.curve]
    panels = {"return": _return_curves(records), "rate": rates, **_role_panel(records)}
    for axes, (title, curves) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for name, label in curves:
            _curve(axes, records, name, label)
        axes.set(title=title, xlabel="environment steps")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if title == "return":
            _levels(axes, baselines)
        if axes.lines:
            axes.legend(fontsize=8, frameon=False)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    write_whole(path, lambda partial: figure.savefig(partial, dpi=120, format="png"))


def _return_curves(records: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The curves of the return, with the lengths of the episodes where evaluation plays others than training."""
    last = {name: record[name] for record in records for name in ("episode/length", "eval/length") if record.get(name)}
    lengths = [float(np.mean(last.get(name, 0))) for name in ("episode/length", "eval/length")]
    if not all(lengths) or max(lengths) < 2 * min(lengths):
        return list(RETURNS)
    pairs = zip(RETURNS, lengths, strict=True)
    return [(name, f"{label}, {length:.0f} steps") for (name, label), length in pairs]


def _role_panel(records: Sequence[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Title and curves (metric, label) of the panel of what each role learns."""
    for title, suffix in ROLE_PANELS.items():
        names = sorted({name for record in records[:1] for name in record if name.endswith(suffix)})
        if names:
            return {title: [(name, name.removesuffix(suffix)) for name in names]}
    return {"entropy": []}


def _curve(axes: Any, records: Sequence[dict[str, Any]], name: str, label: str) -> None:
    """A metric against environment steps, where it is known: mean over seeds, and their band."""
    points = [(record["env_steps"], record[name]) for record in records if record.get(name) is not None]
    if not points:
        return
    steps = np.array([step for step, _ in points])
    values = np.array([np.atleast_1d(value) for _, value in points], dtype=float)
    (line,) = axes.plot(
        steps, values.mean(axis=1), label=label, linewidth=1.6, marker="." if len(points) < 20 else None
    )
    if values.shape[1] > 1:
        axes.fill_between(steps, values.min(axis=1), values.max(axis=1), color=line.get_color(), alpha=0.2, linewidth=0)


def _levels(axes: Any, baselines: dict[str, dict[str, Any]]) -> None:
    """The returns of the baselines, as horizontal lines."""
    for (name, figures), style in zip(baselines.items(), ("--", ":", "-.") * len(baselines), strict=False):
        axes.axhline(figures["return"], linestyle=style, color="0.4", linewidth=1, label=name)

"""Learning curves: of one run, and of several beside each other. Imports matplotlib inside, as few commands need it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.card import Headline
from jaxvrp.show.drawing import paper
from jaxvrp.show.drawing.palette import NOTE, series_look
from train.run.records import Record, rates_of
from train.shown.tables import deviation_of

TRAINING, EVALUATION = "episode/return", "eval/return"

ROLE_PANELS = {"entropy": "/entropy", "value": "/q"}
"""Titles of panels with a curve for each role, and how their metrics end; drawn is the first that a learner has."""

APART = 1.25
"""Episodes of training and evaluation whose lengths differ by this factor have returns that cannot be compared."""

DPI = 120

LEVELS = ("--", "-.", ":")
"""Lines of the levels of baselines."""

Band = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends, `[P]` each."""


def _deviation_band(values: np.ndarray) -> Band:
    mean, deviation = values.mean(axis=1), deviation_of(values)
    return mean - deviation, mean + deviation


def _confidence_band(values: np.ndarray) -> Band:
    """Student's interval of the mean."""
    from scipy.special import stdtrit

    mean, count = values.mean(axis=1), values.shape[1]
    half = stdtrit(count - 1, 0.975) * deviation_of(values) / np.sqrt(count)
    return mean - half, mean + half


BANDS: dict[str, tuple[str, Callable[[np.ndarray], Band]]] = {
    "range": ("band: from the least seed to the largest", lambda values: (values.min(axis=1), values.max(axis=1))),
    "std": ("band: one standard deviation of the seeds", _deviation_band),
    "ci": ("band: 95 % confidence interval of the mean (Student's t)", _confidence_band),
}
"""What a band says, in words, and how it comes from values `[P, seeds]`."""


def seeds_of(runs: Sequence[Sequence[Record]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric of all seeds of all runs: steps `i64[P]`, ascending, and values `f64[P, seeds]`.

    Where runs have it at other steps, those in between are interpolated; none is carried beyond its first or last. P is
    0 where a run has no such metric, or they share no step.
    """
    curves = [_curve_of(records, name) for records in runs]
    if not curves or not all(len(steps) for steps, _ in curves):
        return np.zeros(0, np.int64), np.zeros((0, 0))
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
    steps = steps[(steps >= first) & (steps <= last)]
    columns = [np.interp(steps, known, seed) for known, values in curves for seed in values.T]
    return steps, np.stack(columns, axis=1)


def _curve_of(records: Sequence[Record], name: str) -> tuple[np.ndarray, np.ndarray]:
    points = [(record["env_steps"], record[name]) for record in records if record.get(name) is not None]
    steps = np.array([step for step, _ in points], np.int64)
    return steps, np.array([np.atleast_1d(value) for _, value in points], dtype=float)


def learning_curve(
    records: Sequence[Record], baselines: Mapping[str, Mapping[str, Any]], headlines: Sequence[Headline]
) -> Any:
    """Return, rates, entropies (or values) against environment steps: mean over seeds, band from least to most.

    Returns of training and evaluation have panels of their own where their episodes are not equally long. Those of the
    baselines are drawn as levels beside those of evaluation; headlines with a `curve` are rates, drawn from 0 to 1
    or to the largest, in a panel that is there if they are.
    Returns a figure of matplotlib.
    """
    rates = {"rate": curves} if (curves := rates_of(headlines)) else {}
    panels = {**_return_panels(records), **rates, **_role_panel(records)}
    figure = paper.new_figure(4.0 * len(panels), 3.6, DPI)
    figure.set_layout_engine("constrained")
    seeds = 1
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), sharex=True), panels.items(), strict=True):
        drawn = [
            _draw_seeds(axes, [records], name, place, label, "range")
            for place, (name, label) in enumerate(curves.items())
        ]
        seeds = max([seeds, *(values.shape[1] for values in drawn)])
        if EVALUATION in curves:
            _levels(axes, baselines)
        if title == "rate":
            _from_0_to_1(axes, drawn)
        _dress(axes, title)
    if seeds > 1:
        figure.suptitle(f"mean of {seeds} seeds; {BANDS['range'][0]}", fontsize=9, color=NOTE)
    return figure


def _return_panels(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """Titles, and curves with their labels, of the panels of returns: one, or two where episodes differ in length."""
    last = {name: record[name] for record in records for name in ("episode/length", "eval/length") if record.get(name)}
    training, evaluation = (float(np.mean(last.get(name, 0))) for name in ("episode/length", "eval/length"))
    longer, shorter = max(training, evaluation), min(training, evaluation)
    if not shorter or longer < APART * shorter:
        return {"return": {TRAINING: "training", EVALUATION: "evaluation"}}
    return {
        f"return in training, {training:.0f} steps": {TRAINING: "training"},
        f"return in evaluation, {evaluation:.0f} steps": {EVALUATION: "evaluation"},
    }


def _role_panel(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """Title, and curves with their labels, of the panel of what each role learns."""
    for title, suffix in ROLE_PANELS.items():
        names = sorted({name for record in records for name in record if name.endswith(suffix)})
        if names:
            return {title: {name: name.removesuffix(suffix) for name in names}}
    return {"entropy": {}}


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seeds: a label for the legend, and the records of each, in order."""

    label: str
    runs: tuple[tuple[Record, ...], ...]


def compare(
    groups: Sequence[Group],
    metrics: Mapping[str, str],
    *,
    rates: Sequence[str] = (),
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    band: str = "range",
) -> Any:
    """A panel for each metric, with a curve for each group: the mean over the seeds of all its runs, and their band.

    `metrics` are names of records, and the titles of their panels; those that are `rates` are drawn as in
    `learning_curve`, from which the rest is, too. `band` is a key of `BANDS`.
    """
    columns = min(len(metrics), 3)
    rows = -(-len(metrics) // columns)
    figure = paper.new_figure(max(4.0 * columns, 5.0), 3.2 * rows + 0.5, DPI)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    seeds, levels = [0] * len(groups), []
    for axes, (name, title) in zip(panels, metrics.items(), strict=False):
        drawn = [_draw_seeds(axes, group.runs, name, place, group.label, band) for place, group in enumerate(groups)]
        seeds = [max(count, values.shape[1]) for count, values in zip(seeds, drawn, strict=True)]
        if name == EVALUATION:
            levels = _levels(axes, baselines or {})
        if name in rates:
            _from_0_to_1(axes, drawn)
        _dress(axes, title, legend=False)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    labels = [f"{group.label} ({count} seed{'s' * (count > 1)})" for group, count in zip(groups, seeds, strict=True)]
    keys = [paper.legend_entry(**series_look(place), linewidth=1.8, label=label) for place, label in enumerate(labels)]
    look = {"fontsize": 8, "frameon": False, "handlelength": 2.6}
    figure.legend(handles=[*keys, *levels], loc="outside lower center", ncols=min(len(keys) + len(levels), 4), **look)
    if max(seeds) > 1:
        figure.suptitle(f"mean of the seeds; {BANDS[band][0]}", fontsize=9, color=NOTE)
    return figure


def _draw_seeds(
    axes: Any, runs: Sequence[Sequence[Record]], name: str, place: int, label: str, band: str
) -> np.ndarray:
    """A metric against environment steps: mean over seeds, and their band; the values, as of `seeds_of`."""
    steps, values = seeds_of(runs, name)
    if not len(steps):
        return values
    look = {**series_look(place), "marker": "." if len(steps) < 20 else None, "zorder": 3}
    axes.plot(steps, values.mean(axis=1), label=label, linewidth=1.6, **look)
    if values.shape[1] > 1:
        low, high = BANDS[band][1](values)
        axes.fill_between(steps, low, high, color=look["color"], alpha=0.2, linewidth=0, zorder=2)
    return values


def _from_0_to_1(axes: Any, drawn: Sequence[np.ndarray]) -> None:
    """The axis of rates, which goes on to the largest value: a length as a share of that at the start can exceed 1."""
    axes.set_ylim(-0.02, 1.02 * max(values.max(initial=1.0) for values in drawn))


def _levels(axes: Any, baselines: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    look = {"color": "0.4", "linewidth": 1}
    return [
        axes.axhline(figures["return"], linestyle=LEVELS[number % len(LEVELS)], label=name, **look)
        for number, (name, figures) in enumerate(baselines.items())
    ]


def _dress(axes: Any, title: str, *, legend: bool = True) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_title(title, fontsize=11)
    axes.set_xlabel("environment steps")
    axes.tick_params(labelbottom=True)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if legend and axes.lines:
        axes.legend(fontsize=8, frameon=False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)

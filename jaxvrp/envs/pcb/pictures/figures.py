"""Figures to be printed: one board, and an episode at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.pictures import curves
from jaxvrp.envs.pcb.pictures.board_view import COLOURS, BoardView, axes_at, legend_entries, scale_to, view_of
from jaxvrp.envs.pcb.pictures.captions import LEGEND_ROW, count_rows, draw_legend, join_words
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.envs.pcb.pictures.played_episode import PlayedEpisode
from jaxvrp.pictures.palette import RIGHT, WRONG

MARGIN, TICKS, TITLE = 0.25, 0.3, 0.66
"""Inches: around a picture, for the ticks of a board, and for two lines of title."""


def board_figure(placement: DrawnPlacement, title: str, dpi: float, fig: Any = None) -> Any:
    """A figure of one board; it grows with the number of parts."""
    view = view_of([placement])
    side = float(np.clip(4.8 + 0.075 * len(placement.boxes), 5.6, 11.0))
    scale = scale_to(view, side, side)
    width, height = scale * (view[2:] - view[:2])
    entries = legend_entries(placement.board)
    columns = max(1, int(max(width, 4.6) / 2.15))
    legend_height = LEGEND_ROW * count_rows(entries, columns)
    across, up = max(width, 4.6) + 2 * MARGIN + TICKS, height + TITLE + TICKS + legend_height + MARGIN
    sheet = pictures.new_sheet(across, up, dpi, fig)
    left = (across - width + TICKS) / 2
    BoardView(axes_at(sheet, left, up - TITLE, view, scale), view, scale, placement).show(placement)
    extent = " x ".join(f"{length:g}" for length in np.round(placement.board.outline, 2).tolist())
    size = f"{len(placement.boxes)} parts on {extent} mm"
    heading = join_words([title, size] if title else [size])
    _draw_heading(sheet, left, up - 0.06, max(width, across - left - MARGIN), heading, placement)
    draw_legend(sheet, entries, columns, MARGIN, legend_height + 0.5 * MARGIN)
    return sheet.figure


def episode_figure(episode: PlayedEpisode, dpi: float, fig: Any = None) -> Any:
    """A figure: the board at the start and at its best, and four metrics over time."""
    start, (after, heading) = episode.placement(0), _best_or_last(episode)
    view = view_of([start, after])
    side = float(np.clip(3.6 + 0.04 * len(start.boxes), 4.4, 6.6))
    scale = scale_to(view, side, side)
    width, height = scale * (view[2:] - view[:2])
    entries = legend_entries(start.board)
    tall = max(height, 4.6)
    across, up = 2 * (max(width, 3.9) + TICKS + MARGIN) + 4.2 + MARGIN, tall + TITLE + TICKS + 0.3 + MARGIN
    sheet = pictures.new_sheet(across, up, dpi, fig)
    left = MARGIN + TICKS
    for placement, text in ((start, "start (step 0)"), (after, heading)):
        BoardView(axes_at(sheet, left, up - TITLE, view, scale), view, scale, placement).show(placement)
        _draw_heading(sheet, left, up - 0.06, max(width, 3.9) + 0.5 * TICKS, text, placement)
        left += max(width, 3.9) + TICKS + MARGIN
    _draw_metrics(sheet, episode, left + 0.35, up - 0.37, tall + TITLE - 0.37)
    draw_legend(sheet, entries, len(entries), MARGIN, 0.3 + 0.5 * MARGIN)
    return sheet.figure


def _best_or_last(episode: PlayedEpisode) -> tuple[DrawnPlacement, str]:
    """The best legal placement, or the last one if there was none; and a heading."""
    steps = episode.states.time
    if episode.best is None:
        return episode.placement(episode.length - 1), f"no legal placement; at the end (step {int(steps[-1])})"
    return episode.best, f"shortest legal placement (step {int(steps[episode.improvements[-1]])})"


def _draw_heading(
    sheet: pictures.Sheet, left: float, top: float, room: float, text: str, placement: DrawnPlacement
) -> None:
    """Two lines above a board, at most `room` wide, their upper edge at `top`: what it is, and what it is worth."""
    worth = join_words([f"HPWL {placement.hpwl:.2f} mm", placement.verdict])
    colour = WRONG if placement.wrong.any() else RIGHT
    lines = (
        (0.1, text, {"weight": "bold", "color": pictures.INK, "fontsize": _fitting(10.5, room, 0.7 * len(text))}),
        (0.35, worth, {"color": colour, "fontsize": _fitting(9.5, room, 0.62 * len(worth))}),
    )
    for below, line, style in lines:
        sheet.text(left, top - below, line, va="top", **style)


def _fitting(most: float, room: float, ems: float) -> float:
    """Points of letters with which a line that is so many times as long fits into `room` inches."""
    return min(most, 72 * room / ems)


def _draw_metrics(sheet: pictures.Sheet, episode: PlayedEpisode, left: float, top: float, height: float) -> None:
    """Four panels above each other."""
    gap, low = 0.38, 0.1
    tall = (height - 3 * gap - low) / 4
    panels = [sheet.axes(left, top - tall - row * (tall + gap), 3.3, tall) for row in range(4)]
    curves.draw_hpwl(panels[0], episode)
    curves.draw_hpwl_legend(panels[0], episode)
    curves.draw_overlap(panels[1], episode)
    agents = episode.agents
    cost, reward = episode.metrics["weighted_cost"][:, agents], episode.reward[:, agents]
    curves.draw_agents(panels[2], episode, cost, "weighted cost c (mean, range of the agents)", COLOURS[5])
    curves.draw_agents(panels[3], episode, reward, "reward (mean, range of the agents)", COLOURS[6], first=1)
    for panel in panels[:3]:
        panel.tick_params(labelbottom=False)
    panels[3].set_xlabel("step", fontsize=8, labelpad=1)

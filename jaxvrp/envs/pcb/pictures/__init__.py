"""Boards and episodes in files, or as figures and panels of matplotlib."""

from jaxvrp.envs.pcb.pictures.draw import (
    draw_board,
    draw_episode,
    draw_overlap,
    draw_placement,
    draw_plan,
    draw_wirelength,
)
from jaxvrp.envs.pcb.pictures.frames import record_steps, render_episode

__all__ = [
    "draw_board",
    "draw_episode",
    "draw_overlap",
    "draw_placement",
    "draw_plan",
    "draw_wirelength",
    "record_steps",
    "render_episode",
]

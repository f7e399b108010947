"""Boards and episodes in files, or as figures and panels of matplotlib."""

from jaxvrp.envs.pcb.pictures.draw import draw_board, draw_episode, draw_plan
from jaxvrp.envs.pcb.pictures.frames import record_steps, render_episode

__all__ = ["draw_board", "draw_episode", "draw_plan", "record_steps", "render_episode"]

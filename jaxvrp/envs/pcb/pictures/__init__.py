"""Everything that draws boards and episodes: in files, or as figures and panels of matplotlib.

`python -m jaxvrp.envs.pcb.pictures BOARDS` draws a board of a file.
"""

from jaxvrp.envs.pcb.pictures.draw import draw_board, draw_episode, draw_overlap, draw_placement, draw_wirelength
from jaxvrp.envs.pcb.pictures.render import render_board, render_episode

__all__ = [
    "draw_board",
    "draw_episode",
    "draw_overlap",
    "draw_placement",
    "draw_wirelength",
    "render_board",
    "render_episode",
]

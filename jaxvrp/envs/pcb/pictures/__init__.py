"""Everything that draws boards and episodes; `python -m jaxvrp.envs.pcb.pictures BOARDS` draws a board of a file."""

from jaxvrp.envs.pcb.pictures.render import render_board, render_episode

__all__ = ["render_board", "render_episode"]

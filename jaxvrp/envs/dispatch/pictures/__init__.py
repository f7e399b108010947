"""Pictures of driven days: in files, or as figures and panels of matplotlib."""

from jaxvrp.envs.dispatch.pictures.draw import draw_answers, draw_episode, draw_lanes, draw_routes, render_episode

__all__ = ["draw_answers", "draw_episode", "draw_lanes", "draw_routes", "render_episode"]

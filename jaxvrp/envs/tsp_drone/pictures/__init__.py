"""Pictures of plans and episodes; `python -m jaxvrp.envs.tsp_drone.pictures` draws a plan from files."""

from jaxvrp.envs.tsp_drone.pictures.render import render_episode, render_plan

__all__ = ["render_episode", "render_plan"]

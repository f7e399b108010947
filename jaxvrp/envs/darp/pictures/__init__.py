"""Pictures of dial-a-ride plans and episodes; `python -m jaxvrp.envs.darp.pictures` draws a plan from files."""

from jaxvrp.envs.darp.pictures.render import render_episode, render_plan

__all__ = ["render_episode", "render_plan"]

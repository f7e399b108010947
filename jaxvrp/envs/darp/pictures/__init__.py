"""Pictures of dial-a-ride plans and episodes: in files, or as figures and panels of matplotlib.

`python -m jaxvrp.envs.darp.pictures` draws a plan from files.
"""

from jaxvrp.envs.darp.pictures.draw import (
    draw_episode,
    draw_loads,
    draw_plan,
    draw_requests,
    draw_routes,
    render_episode,
    render_plan,
)

__all__ = ["draw_episode", "draw_loads", "draw_plan", "draw_requests", "draw_routes", "render_episode", "render_plan"]

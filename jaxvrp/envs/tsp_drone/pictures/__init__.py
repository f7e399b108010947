"""Pictures of plans and episodes: in files, or as figures and panels of matplotlib.

`python -m jaxvrp.envs.tsp_drone.pictures` draws a plan from files.
"""

from jaxvrp.envs.tsp_drone.pictures.draw import (
    draw_episode,
    draw_plan,
    draw_routes,
    draw_times,
    render_episode,
    render_plan,
)

__all__ = ["draw_episode", "draw_plan", "draw_routes", "draw_times", "render_episode", "render_plan"]

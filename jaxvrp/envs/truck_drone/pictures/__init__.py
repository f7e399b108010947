"""Pictures of episodes: in files, or as figures and panels of matplotlib."""

from jaxvrp.envs.truck_drone.pictures.still import (
    draw_batteries,
    draw_deliveries,
    draw_episode,
    draw_routes,
    render_episode,
)

__all__ = ["draw_batteries", "draw_deliveries", "draw_episode", "draw_routes", "render_episode"]

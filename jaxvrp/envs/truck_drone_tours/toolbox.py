"""What belongs to `truck_drone_tours` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_and_drone.shown.notebook import draw_state
from jaxvrp.envs.truck_drone_tours.plan import PROBLEMS
from jaxvrp.envs.truck_drone_tours.shown.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    problems=PROBLEMS,
    still=lambda state: draw_state(state, lambda state: f"{int(state.tours.tandems_left)} tandems left, "),
)

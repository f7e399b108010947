"""What belongs to `truck_drone` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_drone.plan import PROBLEMS
from jaxvrp.envs.truck_drone.shown.notebook import draw_state
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(story=story_of, problems=PROBLEMS, still=draw_state)

"""What belongs to `darp` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.darp.plan import PROBLEMS
from jaxvrp.envs.darp.shown.notebook import draw_state
from jaxvrp.envs.darp.shown.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(story=story_of, problems=PROBLEMS, still=draw_state)

"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.dispatch.plan import PROBLEMS
from jaxvrp.envs.dispatch.shown.notebook import draw_state
from jaxvrp.envs.dispatch.shown.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(story=story_of, problems=PROBLEMS, still=draw_state)

"""What belongs to `flying_sidekicks` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.flying_sidekicks.plan import PROBLEMS
from jaxvrp.envs.flying_sidekicks.shown.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(story=story_of, problems=PROBLEMS)

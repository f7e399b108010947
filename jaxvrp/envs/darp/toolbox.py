"""What belongs to `darp` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.darp import notebook
from jaxvrp.envs.darp.plan import PROBLEMS
from jaxvrp.envs.darp.story import story_of
from jaxvrp.toolbox import Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    problems=PROBLEMS,
    still=notebook.draw_state,
)

"""What belongs to `darp` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.darp import notebook
from jaxvrp.envs.darp.plan import PROBLEMS
from jaxvrp.envs.darp.story import story_of
from jaxvrp.toolbox import ProblemSet, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    problems=PROBLEMS,
    still=notebook.draw_state,
    sets={
        "darp_10_requests": ProblemSet(
            1,
            {"num_nodes": 20, "num_agents": 5},
            seed=10,
            count=32,
            checksum="b276d9dc0cc1de281c89073e2814e4e14e322c422da5cc06e1e888ccfd1613da",
        ),
        "darp_25_requests": ProblemSet(
            1,
            {"num_nodes": 50, "num_agents": 8},
            seed=25,
            count=32,
            checksum="61043da529cd00485c65682684da96fbad9798d6d7e5fe766fc45147262c592b",
        ),
    },
)

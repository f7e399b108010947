"""What belongs to `tsp_drone` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_and_drone import notebook
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.envs.tsp_drone.story import story_of
from jaxvrp.toolbox import ProblemSet, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    problems=PROBLEMS,
    still=notebook.draw_state,
    sets={
        "tsp_drone_20_nodes": ProblemSet(
            1,
            {"num_nodes": 20},
            seed=20,
            count=32,
            checksum="9628f06339347fe9d1b11ccc907f0b5be0948a6757382cc3315ca9c09dea8c96",
        ),
        "tsp_drone_50_nodes": ProblemSet(
            1,
            {"num_nodes": 50},
            seed=50,
            count=32,
            checksum="4add4a698e1ddf65005bdb35c70bd3afebbb3405843df2d40fd17288f3e276fb",
        ),
    },
)

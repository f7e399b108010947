"""What belongs to `pcb` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.pcb.pictures import frames
from jaxvrp.envs.pcb.plan import PROBLEMS
from jaxvrp.envs.pcb.shown import notebook, replay
from jaxvrp.toolbox import Toolbox, View

TOOLBOX = Toolbox(
    view=View(
        export=replay.export_episode,
        check=replay.check_episode,
        script=Path(replay.__file__).with_suffix(".js"),
        draw=lambda episode, path, problem: frames.render_episode(episode.env, episode.states, path, problem),
        record_steps=lambda episode, folder: frames.record_steps(episode.env, episode.states, folder),
    ),
    problems=PROBLEMS,
    still=notebook.draw_state,
)

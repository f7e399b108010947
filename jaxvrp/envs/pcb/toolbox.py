"""What belongs to `pcb` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.pcb import notebook, plan, replay
from jaxvrp.envs.pcb.pictures import frames
from jaxvrp.toolbox import InstanceFiles, Toolbox, View

TOOLBOX = Toolbox(
    view=View(
        export=replay.export_episode,
        check=replay.check_episode,
        script=Path(__file__).with_name("replay.js"),
        draw=frames.render,
        record_steps=lambda episode, folder: frames.record_steps(episode.env, episode.states, folder),
    ),
    instances=InstanceFiles(
        read=plan.read_problems,
        parameters=plan.parameters_of,
        instance=plan.instance_of,
        plan=plan.plan_of,
        write_plan=plan.write_plan,
        endings=plan.ENDINGS,
        inspect=plan.inspect,
    ),
    still=notebook.draw_state,
)

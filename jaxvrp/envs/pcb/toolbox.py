"""What belongs to `pcb` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.pcb import notebook, plan, replay
from jaxvrp.envs.pcb.pictures.frames import record_steps, render_episode, render_plan
from jaxvrp.toolbox import InstanceFiles, ReplayKind, Toolbox

TOOLBOX = Toolbox(
    renderer=render_episode,
    step_recorder=record_steps,
    replay=ReplayKind(replay.export_episode, replay.check_episode, Path(__file__).with_name("replay.js")),
    instances=InstanceFiles(
        read=plan.read_problems,
        parameters=plan.parameters_of,
        instance=plan.instance_of,
        plan=plan.plan_of,
        write_plan=plan.write_plan,
        endings=plan.ENDINGS,
        draw=render_plan,
        inspect=plan.inspect,
    ),
    still=notebook.draw_state,
)

"""An episode, or a plan, of a truck and its drone as a story."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import Operation, action_names
from jaxvrp.envs.truck_and_drone.plan import operations_of, problem_of, with_actions
from jaxvrp.envs.truck_and_drone.shown.story import Cast, Part, lost_in, rounded, tell, turn_events
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.problem.solution import solution_report
from jaxvrp.envs.tsp_drone.shown.reasons import reasons_of
from jaxvrp.episodes import Episode, whole
from jaxvrp.show.common import whys_of
from jaxvrp.story import Card, Story


def story_of(episode: Episode, problem: Instance | None = None) -> Story:
    """The story of an episode, with the times and places of the file that a `problem` was read from."""
    episode = with_actions(whole(episode))
    env, states = episode.env, episode.states
    assert isinstance(env, TspDrone)
    operations = operations_of(states)
    instance = problem_of(states) if problem is None else problem
    clocks = tuple((states.clock.astype(float) + states.truck_elapsed).tolist())
    story = story_of_plan(instance, operations, allow_revisits=env.allow_revisits, clocks=clocks)
    return dataclasses.replace(
        story,
        events=turn_events(states, clocks, lambda step, vehicle: int(vehicle == DRONE)),
        lost=lost_in(states, "neither truck nor drone"),
        actions=action_names(env.num_nodes),
        episode=episode,
        why=whys_of(reasons_of(env), episode),
    )


def story_of_plan(
    instance: Instance,
    operations: Sequence[Operation],
    *,
    allow_revisits: bool = True,
    clocks: tuple[float, ...] | None = None,
) -> Story:
    """The story of a plan, which need not keep the rules; arguments as of `solution_report`.

    `clocks` are the truck's in states of an episode; None: a plan has a state at the end of each operation.
    """
    report = solution_report(instance, operations, allow_revisits=allow_revisits)
    end = report.cost or max(clocks or (0.0,)) or 1e-6
    cast = Cast(
        ways=report.ways,
        parts=(Part(TRUCK, TRUCK, 0), Part(DRONE, DRONE, 1)),
        locs=np.asarray(instance.locs, np.float64),
        nodes=np.flatnonzero(instance.exists).tolist(),
        no_fly=np.asarray(instance.no_fly),
        span=(0.0, end),
    )
    story = tell(
        cast, report, "Truck and drone", [("makespan", rounded(report.cost))], clocks or (0.0, *report.end.tolist())
    )
    return dataclasses.replace(story, cards=(Card(TRUCK, agent=1, vehicle=0), Card(DRONE, agent=0, vehicle=1)))

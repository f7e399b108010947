"""An episode of a truck with several drones as a story."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.flying_sidekicks.env import TRUCK, FlyingSidekicks
from jaxvrp.envs.flying_sidekicks.instance import Instance
from jaxvrp.envs.flying_sidekicks.plan import steps_of, tasks_of
from jaxvrp.envs.flying_sidekicks.report import LAUNCH, Task, flights_report, name_of_drone
from jaxvrp.envs.flying_sidekicks.rules import action_of
from jaxvrp.envs.truck_and_drone.plan import problem_of
from jaxvrp.envs.truck_and_drone.shown.story import Cast, Part, lost_in, rounded, tell
from jaxvrp.envs.truck_and_drone.ways import name_of
from jaxvrp.episodes import Episode, whole
from jaxvrp.story import Card, Event, Story


def story_of(episode: Episode, problem: Instance | None = None) -> Story:
    """The story of an episode, with the times and places of the file that a `problem` was read from."""
    episode = whole(episode)
    env, states = episode.env, episode.states
    assert isinstance(env, FlyingSidekicks)
    instance = problem_of(states) if problem is None else problem
    report, steps = flights_report(instance, tasks_of(states)), steps_of(states)
    drones = tuple(map(name_of_drone, range(instance.num_drones)))
    clocks = tuple(states.walk.clock.astype(float).tolist())
    cast = Cast(
        ways=report.ways,
        parts=tuple(Part(name, name, colour) for colour, name in enumerate((TRUCK, *drones))),
        locs=np.asarray(instance.locs, np.float64),
        nodes=np.flatnonzero(instance.exists).tolist(),
        no_fly=np.asarray(instance.no_fly).all(axis=0) & (np.arange(instance.num_nodes) > 0),
        span=(0.0, report.cost or max(clocks) or 1e-6),
    )
    title, summary = f"Truck and {len(drones)} drone{'s' * (len(drones) > 1)}", [("makespan", rounded(report.cost))]
    return dataclasses.replace(
        tell(cast, report, title, summary, clocks),
        events=tuple(_event(task, step, clocks[step]) for step, task in enumerate(steps, 1)),
        cards=(Card(TRUCK, agent=0, vehicle=0), *(Card(name, vehicle=at) for at, name in enumerate(drones, 1))),
        lost=lost_in(states, "no vehicle", "tasks"),
        actions={TRUCK: _names(env.num_nodes, tuple(map(name_of_drone, range(env.num_drones))))},
        episode=episode.replace(actions=_actions_of(env, episode)),
    )


def _actions_of(env: FlyingSidekicks, episode: Episode) -> Mapping[str, Any]:
    """The actions of an episode, those that were executed if they are not known."""
    if episode.actions is not None:
        return episode.actions
    kind, node, drone = episode.states.task[1:].T
    return {TRUCK: action_of(kind, node, drone, env.num_nodes, env.num_drones)[:, None]}


def _event(task: Task, step: int, clock: float) -> Event:
    """A launch or a recovery, in words; a mark for every other task."""
    if task.drone is None:
        return Event(clock, step, "", vehicle=0)
    goes = "sets out for" if task.kind == LAUNCH else "is back from"
    return Event(clock, step, f"{name_of_drone(task.drone)} {goes} {name_of(task.node)}", vehicle=1 + task.drone)


def _names(num_nodes: int, drones: tuple[str, ...]) -> tuple[str, ...]:
    """What the actions are called."""
    places = map(name_of, range(num_nodes))
    at_nodes = [name for place in places for name in (f"drive: {place}", *(f"{each}: {place}" for each in drones))]
    return (*at_nodes, *(f"recover {each}" for each in drones), "serve")

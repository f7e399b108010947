"""An episode of tandems as a story: tours one after the other by turns, all of them together by the clock."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK
from jaxvrp.envs.truck_and_drone.operations import action_names, tours_of
from jaxvrp.envs.truck_and_drone.plan import operations_of, problem_of, with_actions
from jaxvrp.envs.truck_and_drone.shown.story import Cast, Part, activity_at, lost_in, rounded, tell, turn_events
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.envs.truck_drone_tours.shown.reasons import REASONS
from jaxvrp.episodes import Episode, whole
from jaxvrp.show.common import whys_of
from jaxvrp.story import Card, Story, held


def story_of(episode: Episode, problem: Instance | None = None) -> Story:
    """The story of an episode, with the times and places of the file that a `problem` was read from."""
    episode = with_actions(whole(episode))
    env, states = episode.env, episode.states
    assert isinstance(env, TruckDroneTours)
    instance = problem_of(states) if problem is None else problem
    report = tours_report(instance, tours_of(operations_of(states)))
    departure = float(instance.departure)
    turns = _Turns(states, departure, report.end)
    ends = [departure + 1e-6, *report.end.tolist(), *turns.clocks]
    cast = Cast(
        ways=report.ways,
        parts=tuple(
            Part(vehicle, f"{vehicle} {tour + 1}", tour, tour, turns.of(tour))
            for tour in range(max(turns.count, 1))
            for vehicle in (TRUCK, DRONE)
        ),
        locs=np.asarray(instance.locs, np.float64),
        nodes=np.flatnonzero(instance.exists).tolist(),
        no_fly=np.asarray(instance.no_fly),
        span=(departure, max(ends)),
    )
    summary = [("cost", rounded(report.cost)), ("tours", str(len(report.end)))]
    return dataclasses.replace(
        tell(cast, report, "Tandems", summary, turns.clocks),
        events=turn_events(states, turns.clocks, lambda step, vehicle: cast.index(vehicle, turns.tours[step])),
        cards=tuple(
            Card(f"{kind}s", agent=agent, steps=tuple(_said(cast, kind, tour, clock) for tour, clock in turns.moments))
            for agent, kind in ((1, TRUCK), (0, DRONE))
        ),
        lost=lost_in(states, "neither truck nor drone"),
        actions=action_names(env.num_nodes),
        episode=episode,
        why=whys_of(REASONS, episode),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Turns:
    """Which tour and what time it is in the states of an episode, leaves `[L, ...]`."""

    states: State
    departure: float
    ends: np.ndarray  # `f64[tours]`

    @functools.cached_property
    def tours(self) -> list[int]:
        """Of each state, the tour that is under way, or that is next."""
        left = self.states.tours.tandems_left
        return (left[0] - left).tolist()

    @functools.cached_property
    def moments(self) -> list[tuple[int, float]]:
        """Of each state, the tour that led to it, and the truck's time in that."""
        tours, shift = self.tours, self.departure - float(self.states.clock[0])
        clocks = (self.states.clock.astype(float) + self.states.truck_elapsed + shift).tolist()
        before = [0, *tours[:-1]]
        return [
            (last, float(self.ends[last]) if tour > last and last < len(self.ends) else clock)
            for last, tour, clock in zip(before, tours, clocks, strict=True)
        ]

    @property
    def clocks(self) -> tuple[float, ...]:
        """Of each state, the time in the tour that led to it."""
        return tuple(clock for _, clock in self.moments)

    @property
    def count(self) -> int:
        """Tours that have begun."""
        return max((last for last, _ in self.moments[1:]), default=-1) + 1

    def of(self, tour: int) -> tuple[tuple[int, float], ...]:
        """The turns of a tour, from the state in which it begins to that in which it is over."""
        of_tour = [(step, clock) for step, (last, clock) in enumerate(self.moments) if last == tour and step]
        return ((of_tour[0][0] - 1, self.departure), *of_tour) if of_tour else ()


def _said(cast: Cast, kind: str, tour: int, clock: float) -> tuple[str, str, bool]:
    """What the card of all trucks, or drones, says of a state."""
    vehicle = cast.vehicles[cast.index(kind, tour)]
    note = held(vehicle.notes, clock)
    return activity_at(vehicle, clock), f"{vehicle.name} · {note[1] if note else ''}", False

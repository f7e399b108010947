"""One played episode of a truck with several drones, as pictures and replays need it."""

from __future__ import annotations

import jax
import numpy as np

from jaxvrp.envs.flying_sidekicks.plan import tasks_of
from jaxvrp.envs.flying_sidekicks.report import DRIVE, LAUNCH, Event, flights_report
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.envs.truck_and_drone import instance as single
from jaxvrp.envs.truck_and_drone.played import TRUCK, Leg, Plan, Wait


def plan_of_states(states: State) -> Plan:
    """The plan of one episode; leaves of `states` are `[T+1, ...]`, what follows the end is cut.

    Raises:
        ValueError: states of no or of several episodes.
    """
    tasks = tasks_of(states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    report = flights_report(instance, tasks)
    drones = tuple(f"drone {number + 1}" for number in range(instance.num_drones))
    served_by: list[str | None] = [None] * instance.num_nodes
    served_at = np.full(instance.num_nodes, np.nan)
    for event in report.events:
        if event.does == "serve":
            served_by[event.node], served_at[event.node] = event.who, event.begin
    waits = [event for event in report.events if event.does in ("wait", "hover")]
    return Plan(
        # Of the problem, pictures show places and customers that no drone may serve.
        instance=single.Instance(
            locs=np.asarray(instance.locs, np.float64),
            exists=instance.exists,
            no_fly=instance.no_fly.all(axis=0) & (np.arange(instance.num_nodes) > 0),
            **dict.fromkeys(("truck_pace", "drone_pace", "max_flight", "launch_time", "recovery_time"), np.float64(0)),
        ),
        report=report,
        legs=_legs(report.events, drones),
        waits=tuple(Wait(event.who, event.node, event.begin, event.end) for event in waits),
        served_by=tuple(served_by),
        served_at=served_at,
        served_in=np.where(np.isnan(served_at), -1, 0),
        tours=((),),
        end=report.cost,
        vehicles=(TRUCK, *drones),
    )


def _legs(events: tuple[Event, ...], drones: tuple[str, ...]) -> tuple[Leg, ...]:
    """Ways of all vehicles; the truck carries the drones that it has not launched."""
    place: dict[str, int] = {}
    away: set[str] = set()
    legs = []
    for event in events:
        if event.drone is not None and event.does == LAUNCH:
            away.add(event.drone)
            place[event.drone] = event.node
        elif event.drone is not None:
            away.discard(event.drone)
        if event.does in (DRIVE, "fly"):
            aboard = tuple(each for each in drones if each not in away) if event.who == TRUCK else ()
            legs.append(Leg(event.who, place.get(event.who, 0), event.node, event.begin, event.end, aboard))
            place[event.who] = event.node
    return tuple(legs)

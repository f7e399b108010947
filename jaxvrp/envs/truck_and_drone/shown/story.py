"""What stories of a truck and its drones share: places, vehicles, and the chart of what they do, from their ways."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.truck_and_drone.ways import DRONE, TRUCK, Leg, Wait, Ways, name_of
from jaxvrp.io.messages import number
from jaxvrp.io.problems.violations import PlanReport
from jaxvrp.story import (
    Activity,
    Bar,
    Event,
    Place,
    Point,
    Row,
    Rows,
    Standing,
    Story,
    Units,
    Vehicle,
)

REST = 1e-3
"""Share of the time of a plan for which vehicles rest in the end."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A vehicle of a story: `vehicle` of the ways of a tour, its name, and the number of its colour."""

    vehicle: str
    name: str
    colour: int
    tour: int = 0
    turns: tuple[tuple[int, float], ...] = ()  # as of `jaxvrp.story.Vehicle`


@dataclasses.dataclass(frozen=True, eq=False)
class Cast:
    """The vehicles and places of a plan."""

    ways: Ways
    parts: tuple[Part, ...]  # of each tour the truck first, then its drones
    locs: np.ndarray  # `f64[n, 2]`
    nodes: Sequence[int]  # those that exist, the depot first
    no_fly: np.ndarray  # `bool[n]`, customers that no drone may serve
    span: tuple[float, float]

    @functools.cached_property
    def vehicles(self) -> tuple[Vehicle, ...]:
        """In the order of the parts."""
        return tuple(map(self._vehicle, self.parts))

    def index(self, vehicle: str, tour: int = 0) -> int:
        """Which vehicle that is."""
        return next(at for at, part in enumerate(self.parts) if (part.vehicle, part.tour) == (vehicle, tour))

    def place(self, node: int) -> Point:
        """Where a node is."""
        x, y = self.locs[node].tolist()
        return x, y

    @functools.cached_property
    def places(self) -> tuple[Place, ...]:
        """The depot and the customers."""
        return (Place("depot", "", "depot", self.place(0)), *(self._customer(node) for node in self.nodes[1:]))

    def by_drone(self) -> str:
        """How many customers drones serve, of how many."""
        count = sum(service.by != TRUCK for service in self.ways.server.values())
        return f"{count} of {len(self.nodes) - 1}"

    def _customer(self, node: int) -> Place:
        standings, note = [Standing(self.span[0], "open")], "not served"
        if (service := self.ways.server.get(node)) is not None:
            standings.append(Standing(service.begin, "served", self.index(service.by, service.tour)))
            server = self.parts[self.index(service.by, service.tour)].name
            note = f"served by {server if ' ' in server else f'the {server}'} at {number(service.begin)}"
        if self.no_fly[node]:
            note += ", not by the drone"
        return Place(name_of(node), str(node), "customer", self.place(node), tuple(standings), note)

    def _legs(self, part: Part) -> list[Leg]:
        """The ways of a vehicle, also those on board of the truck, in order."""
        legs = (leg for leg in self.ways.legs if leg.tour == part.tour and part.vehicle in (leg.vehicle, *leg.carries))
        return sorted(legs, key=lambda leg: leg.leave)

    def _vehicle(self, part: Part) -> Vehicle:
        legs, is_truck = self._legs(part), part.vehicle == TRUCK
        flights = [] if is_truck else [leg for leg in legs if leg.vehicle == part.vehicle]
        waits = [wait for wait in self.ways.waits if (wait.vehicle, wait.tour) == (part.vehicle, part.tour)]
        served = (each for each in self.ways.server.values() if (each.by, each.tour) == (part.vehicle, part.tour))
        services = sorted(service.begin for service in served)
        return Vehicle(
            name=part.name,
            sign=part.name.split()[-1] if " " in part.name else "",
            kind="truck" if is_truck else "drone",
            colour=part.colour,
            track=((self.span[0], self.place(0)), *(end for leg in legs for end in self._ends(leg))),
            hosts=() if is_truck else self._hosts(part, flights, waits),
            carries=tuple(change for out in flights[::2] for change in ((out.leave, True), (out.arrive, False))),
            activities=tuple(self._activities(part, legs, waits)),
            notes=tuple(
                (time, f"{done}/{len(services)} served") for done, time in enumerate([self.span[0], *services])
            ),
            turns=part.turns,
        )

    def _ends(self, leg: Leg) -> tuple[tuple[float, Point], tuple[float, Point]]:
        return (leg.leave, self.place(leg.origin)), (leg.arrive, self.place(leg.node))

    def _hosts(self, part: Part, flights: list[Leg], waits: list[Wait]) -> tuple[tuple[float, int | None], ...]:
        """A drone is on board but from the launch of a flight until it meets the truck."""
        truck = self.index(TRUCK, part.tour)
        hosts: list[tuple[float, int | None]] = [(self.span[0], truck)]
        for out, back in zip(flights[::2], flights[1::2], strict=False):
            # Both times are sums of the same ways, in another order.
            meets = [wait.until for wait in waits if math.isclose(wait.since, back.arrive, rel_tol=1e-9)]
            hosts += [(out.leave, None), (max([back.arrive, *meets]), truck)]
        return tuple(hosts)

    def _activities(self, part: Part, legs: list[Leg], waits: list[Wait]) -> list[Activity]:
        """What a vehicle does; where it neither moves nor waits, it is at a node."""
        done = [
            *(Activity(leg.leave, leg.arrive, *_moves(part, leg)) for leg in legs),
            *(Activity(wait.since, wait.until, "waits", "waits") for wait in waits),
        ]
        done.sort(key=lambda activity: activity.begin)
        filled, clock, node = [], self.span[0], 0
        last = self.span[1] + REST * (self.span[1] - self.span[0] or 1.0)
        arrivals = {leg.arrive: leg.node for leg in legs}
        for activity in [*done, Activity(last, last, "rests")]:
            if activity.begin > clock:
                filled.append(Activity(clock, activity.begin, "rests", f"at {_at(node)}"))
            if activity.end > activity.begin:
                filled.append(activity)
            clock, node = max(clock, activity.end), arrivals.get(activity.end, node)
        return filled


def _at(node: int) -> str:
    return "the depot" if node == 0 else name_of(node)


def _moves(part: Part, leg: Leg) -> tuple[str, str]:
    """The name of an activity, and words for it."""
    if leg.vehicle != part.vehicle:
        return "aboard", f"rides to {_at(leg.node)}"
    return "moves", f"{'drives' if part.vehicle == TRUCK else 'flies'} to {_at(leg.node)}"


def rounded(value: float, digits: int = 5) -> str:
    """A number of so many digits, or a larger whole number, never with an exponent."""
    return f"{value:.0f}" if value >= 10**digits - 0.5 else f"{value:.{digits}g}"


def activity_at(vehicle: Vehicle, time: float) -> str:
    """What a vehicle does at a time, in words."""
    begun = [activity for activity in vehicle.activities if activity.begin <= time]
    return begun[-1].words if begun else "waits"


def chart(cast: Cast) -> Rows:
    """A row for each vehicle: on the way, on board, waiting."""
    return Rows(
        "On the way, on board, waiting",
        tuple(_row(cast, at, part) for at, part in enumerate(cast.parts)),
        keys=(("moves", "on its way"), ("aboard", "drone on board"), ("waits", "waits")),
    )


def _row(cast: Cast, at: int, part: Part) -> Row:
    bars = [
        Bar(
            activity.begin,
            activity.end,
            activity.name,
            at if activity.name == "moves" else None,
            words=f"{part.name} {activity.words}: {number(activity.begin)} to {number(activity.end)}",
        )
        for activity in cast.vehicles[at].activities
        if activity.name in ("moves", "aboard", "waits")
    ]
    return Row(part.name, tuple(bars), vehicle=at)


def turn_events(states: State, clocks: Sequence[float], vehicle_of: Callable[[int, str], int]) -> tuple[Event, ...]:
    """A mark for each turn, with words for launches and meetings.

    `states` (leaves `[L, ...]`) have these `clocks`; `vehicle_of(step, "truck" or "drone")` is who moves after a state.
    """
    events = []
    customers = np.where(states.is_away, states.drone_customer, 0).tolist()
    for step, (before, after) in enumerate(itertools.pairwise(customers), 1):
        words = ""
        if after and not before:
            words = f"the drone sets out for {_at(after)}"
        elif before and not after:
            words = f"truck and drone meet at {_at(int(states.truck_node[step]))}"
        mover = DRONE if states.is_drones_turn[step - 1] else TRUCK
        events.append(Event(clocks[step], step, words, vehicle=vehicle_of(step - 1, mover)))
    return tuple(events)


def tell(
    cast: Cast, report: PlanReport, title: str, summary: Sequence[tuple[str, str]], clocks: tuple[float, ...]
) -> Story:
    """What follows from a plan alone: `report` is its checker's, `summary` says what comes first of it."""
    several = sum(part.vehicle != TRUCK and part.tour == 0 for part in cast.parts) > 1
    return Story(
        title=f"{title}: {len(cast.nodes) - 1} customers",
        summary=(
            *summary,
            ("by drone", cast.by_drone()),
            ("truck waits", number(cast.ways.waited(TRUCK))),
            ("drones wait" if several else "drone waits", number(cast.ways.waited(DRONE))),
        ),
        verdict=report.verdict(),
        is_feasible=report.feasible,
        units=Units(),
        span=cast.span,
        clocks=clocks,
        places=cast.places,
        vehicles=cast.vehicles,
        charts=(chart(cast),),
        words={"steps": "by turn"},
    )


def lost_in(states: Any, nobody: str, turns: str = "turns") -> tuple[tuple[str, str], ...]:
    """Whom nobody served, and why, for episodes that were cut off; `turns` is what their steps are called."""
    why = f"{nobody} had come, or set out, when the episode stops after {len(states.step) - 1} {turns}"
    return tuple((name_of(node), why) for node in np.flatnonzero(~states.served[-1]).tolist())

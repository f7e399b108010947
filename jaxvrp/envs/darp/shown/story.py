"""An episode of dial-a-ride as a story: the tour of each vehicle, what became of each request, and why.

Vehicles drive one after the other, and each has its own clock. Times are those of `solution_report`, which may serve
later than the clock of the states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.plan import report_of
from jaxvrp.envs.darp.problem.instance import Instance, end_of, name_of
from jaxvrp.envs.darp.problem.solution import Leg, SolutionReport, solution_report, tolerance_of
from jaxvrp.envs.darp.problem.vroom import Shipments
from jaxvrp.envs.darp.rules import State
from jaxvrp.envs.darp.shown.reasons import reasons_of
from jaxvrp.episodes import Episode, whole
from jaxvrp.io.units import SECONDS
from jaxvrp.show.common import whys_of
from jaxvrp.story import (
    Activity,
    Aim,
    Bar,
    Card,
    Dot,
    Event,
    Levels,
    Place,
    Point,
    Row,
    Rows,
    Standing,
    Story,
    Units,
    Vehicle,
    Why,
    number,
)

UNITS = Units()
"""Of instances, which name none; shipments have those of their file."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Source:
    """What all parts of a story are made from."""

    instance: Instance  # one problem as NumPy arrays
    report: SolutionReport
    steps: tuple[int, ...]  # of each leg of the report, the state before it
    length: int  # L, the number of states

    @functools.cached_property
    def units(self) -> Units:
        """Of times and lengths."""
        instance = self.instance
        return Units("s", "km", (instance.clock.start, 1 / SECONDS)) if isinstance(instance, Shipments) else UNITS

    @functools.cached_property
    def requests(self) -> list[int]:
        """Those that are no padding."""
        return (np.flatnonzero(self.instance.demand[1::2] > 0) + 1).tolist()

    @functools.cached_property
    def used(self) -> list[int]:
        """Vehicles that left the depot; those that the story tells of."""
        return sorted({leg.vehicle for leg in self.report.legs})

    def vehicle(self, number: int) -> str:
        """The name of a vehicle, with its id if its file has some."""
        instance = self.instance
        return f"vehicle {instance.tour.drivers[number].id if isinstance(instance, Shipments) else number}"

    def legs_of(self, vehicle: int) -> list[Leg]:
        """The drives of a vehicle."""
        return [leg for leg in self.report.legs if leg.vehicle == vehicle]

    def server(self, node: int) -> int | None:
        """Who visited a node, as an index of the story's vehicles; None for nobody."""
        vehicle = int(self.report.served_by[node])
        return None if vehicle < 0 else self.used.index(vehicle)

    def opens(self, node: int) -> float:
        """From when on a node can be served; on a clock not before vehicles can leave."""
        return float(self.instance.earliest[[0, node] if self.units.clock else [node]].max())

    def place(self, node: int) -> Point:
        """Where a node is."""
        x, y = self.instance.locs[node].tolist()
        return x, y

    @functools.cached_property
    def span(self) -> tuple[float, float]:
        """The times worth showing: all that happened, the windows that bind, and the depot's if it closes soon."""
        nodes, legs = _nodes(self.requests), self.report.legs
        closing = float(self.instance.deadline[0])
        ends = self.instance.deadline[nodes]
        first = min([float(self.instance.earliest[0]), *(leg.leave for leg in legs)])
        last = max([first + 1e-6, *ends[np.isfinite(ends) & (ends < closing)].tolist(), *(leg.begin for leg in legs)])
        return first, closing if last < closing <= last + 0.35 * (last - first) else last


def _nodes(requests: list[int]) -> list[int]:
    return [node for request in requests for node in (2 * request - 1, 2 * request)]


def story_of(episode: Episode, problem: Instance | None = None) -> Story:
    """The story of an episode, with the times and places of the file that a `problem` was read from."""
    episode = whole(episode)
    env, states = episode.env, episode.states
    assert isinstance(env, Darp)
    instance, report = report_of(states, problem)
    source = _Source(instance, report, _steps_of(report, states), len(states.step))
    why = whys_of(reasons_of(env), episode)
    decisions = _Decisions(source, states, why[ROLE], np.asarray(episode.timesteps.action_mask[ROLE])[:, 0])
    story = _tell(source)
    return dataclasses.replace(
        story,
        cards=(decisions.card(), *story.cards),
        lost=tuple(
            (f"request {request}", decisions.why_unserved(request))
            for request in source.requests
            if not report.delivered[request]
        ),
        actions={ROLE: tuple(name_of(node) for node in range(env.num_nodes + 1))},
        why=why,
    )


def story_of_plan(instance: Instance, actions: ArrayLike, tolerance: float | None = None) -> Story:
    """The story of a plan, which need not keep the rules; arguments and errors as of `solution_report`."""
    tolerance = tolerance_of(instance) if tolerance is None else tolerance
    report = solution_report(instance, actions, tolerance=tolerance)
    steps = tuple(range(len(report.legs)))
    return _tell(_Source(jax.tree.map(np.asarray, instance), report, steps, len(steps) + 1))


def _tell(source: _Source) -> Story:
    """What follows from the tours alone."""
    report, instance = source.report, source.instance
    delivered, fleet = int(report.delivered.sum()), int((instance.capacity > 0).sum())
    return Story(
        title=f"Dial-a-ride: {len(source.requests)} requests, {fleet} vehicles",
        summary=(
            ("driven", f"{report.cost / SECONDS:.1f} min") if source.units.clock else ("distance", number(report.cost)),
            ("served", f"{delivered} of {len(source.requests)}"),
            ("vehicles", f"{len(source.used)} of {fleet}"),
            ("plan", "feasible" if report.feasible else "not feasible"),
        ),
        verdict=report.verdict(),
        is_feasible=report.feasible,
        units=source.units,
        span=source.span,
        clocks=_clocks(source),
        places=_places(source),
        vehicles=tuple(_vehicle(source, vehicle) for vehicle in source.used),
        charts=(_requests_chart(source), Levels("Passengers on board", tuple(range(len(source.used))))),
        events=_events(source),
        cards=tuple(Card(source.vehicle(number), vehicle=at) for at, number in enumerate(source.used)),
        words={"open": "", "lost": "never served (in the end)"},
    )


def _steps_of(report: SolutionReport, states: State) -> tuple[int, ...]:
    """The states before the legs: of steps that went somewhere; the last one also brings about the way home."""
    moved = np.flatnonzero((states.current_node[:-1] != 0) | (states.current_node[1:] != 0)).tolist()
    return tuple(moved + moved[-1:] * (len(report.legs) - len(moved)))


def _clocks(source: _Source) -> tuple[float, ...]:
    clocks = [source.span[0]] * source.length
    for leg, step in zip(source.report.legs, source.steps, strict=True):
        clocks[step + 1 :] = [leg.begin] * (len(clocks) - step - 1)
    return tuple(clocks)


# --- places and vehicles ----------------------------------------------------------------------------------------------


def _places(source: _Source) -> tuple[Place, ...]:
    return (Place("depot", "", "depot", source.place(0)), *(_stop(source, node) for node in _nodes(source.requests)))


def _stop(source: _Source, node: int) -> Place:
    """A pickup or a drop-off; nobody is served from the beginning on."""
    report, brief, (first, last) = source.report, source.units.brief, source.span
    deadline, begin = float(source.instance.deadline[node]), float(report.service_start[node])
    server = source.server(node)
    end = Standing(last, "lost")
    if server is not None:
        end = Standing(begin, "late" if report.late[node] else "served", server)
    until = f" to {brief(deadline)}" if np.isfinite(deadline) else ""
    served = "never served" if server is None else f"served at {brief(begin)}"
    return Place(
        name=name_of(node),
        label=str((node + 1) // 2),
        kind=end_of(node),
        position=source.place(node),
        standings=(Standing(first, "open"), end),
        note=f"window {'' if until else 'from '}{brief(source.opens(node))}{until}, {served}",
        deadline=deadline if np.isfinite(deadline) else None,
    )


def _vehicle(source: _Source, vehicle: int) -> Vehicle:
    legs, start = source.legs_of(vehicle), source.span[0]
    steps = [step for leg, step in zip(source.report.legs, source.steps, strict=True) if leg.vehicle == vehicle]
    stops = [leg.begin for leg in legs if leg.node]
    turns = [turn for step, leg in zip(steps, legs, strict=True) for turn in ((step, leg.leave), (step + 1, leg.begin))]
    if steps[-2:-1] == steps[-1:]:  # the way home is part of the step that brought the last passenger
        del turns[-3:-1]
    return Vehicle(
        name=source.vehicle(vehicle),
        sign="",
        kind="vehicle",
        colour=vehicle,
        track=tuple(point for leg in legs for point in _way(source, leg)),
        levels=((start, 0.0), *((leg.begin, float(leg.load)) for leg in legs)),
        capacity=float(source.instance.capacity[vehicle]) if vehicle < source.instance.num_agents else 0.0,
        level_name="on board",
        activities=tuple(activity for leg in legs for activity in _activities(source, leg)),
        notes=tuple((time, f"{done}/{len(stops)} stops") for done, time in enumerate([start, *stops])),
        aims=_aims(source, legs),
        turns=tuple(turns),
    )


def _way(source: _Source, leg: Leg) -> list[tuple[float, Point]]:
    return [
        (leg.leave, source.place(leg.origin)),
        (leg.arrival, source.place(leg.node)),
        (leg.begin, source.place(leg.node)),
    ]


def _activities(source: _Source, leg: Leg) -> Iterator[Activity]:
    """What a vehicle does from one departure to the next."""
    yield Activity(leg.leave, leg.arrival, "moves", f"to {name_of(leg.node)}")
    if leg.begin > leg.arrival:
        yield Activity(leg.arrival, leg.begin, "waits", "waiting")
    if leg.node:
        yield Activity(leg.begin, leg.begin + float(source.instance.service_time[leg.node]), "serves", "serving")


def _aims(source: _Source, legs: list[Leg]) -> tuple[Aim, ...]:
    """Where those on board want to go, from each stop on."""
    aims, aboard = [], dict[int, Point]()
    for leg in legs:
        request = (leg.node + 1) // 2
        if leg.node % 2:
            aboard[request] = source.place(leg.node + 1)
        else:
            aboard = {} if leg.node == 0 else {other: goal for other, goal in aboard.items() if other != request}
        aims.append(Aim(leg.begin, tuple(aboard.values()), fan=True))
    return tuple(aims)


# --- charts, events, cards --------------------------------------------------------------------------------------------


def _requests_chart(source: _Source) -> Rows:
    """A row for each request, vehicle after vehicle in the order of pickups; those never picked up last."""
    longest, order = float(source.instance.max_ride_time), [leg.node for leg in source.report.legs]
    limit = f" up to {source.units.duration(longest)}" if np.isfinite(longest) else ""

    def turn(request: int) -> int:
        return order.index(2 * request - 1) if 2 * request - 1 in order else len(order)

    return Rows(
        f"Requests: windows and rides{limit}",
        tuple(_request_row(source, request) for request in sorted(source.requests, key=turn)),
        keys=(
            ("window", "window of the pickup"),
            ("second window", "of the drop-off"),
            ("ride", "ride, by the vehicle's colour"),
            ("service", "service begins"),
            ("late", "late"),
        ),
    )


def _request_row(source: _Source, request: int) -> Row:
    report, units, pickup, drop_off = source.report, source.units, 2 * request - 1, 2 * request
    bars = [*_windows(source, pickup, "window", 0.18), *_windows(source, drop_off, "second window", -0.18)]
    server = source.server(pickup)
    if report.delivered[request]:
        begin, end = report.service_start[[pickup, drop_off]].tolist()
        look = "late ride" if report.too_long[request] else "ride"
        bars.append(
            Bar(begin, end, look, server, thick=0.0, words=f"ride of {units.duration(float(report.ride[request]))}")
        )
    dots = [
        Dot(
            float(report.service_start[node]),
            "late" if report.late[node] else "service",
            source.server(node),
            where=0.18 if node % 2 else -0.18,
            shape=end_of(node),
            words=f"{name_of(node)} at {units.brief(float(report.service_start[node]))}",
        )
        for node in (pickup, drop_off)
        if source.server(node) is not None
    ]
    return Row(str(request), tuple(bars), tuple(dots), server, _trouble(source, request))


def _windows(source: _Source, node: int, look: str, where: float) -> Iterator[Bar]:
    """The window of a node, if another one than the depot's binds, within the times worth showing."""
    (first, last), instance = source.span, source.instance
    opens, closes = source.opens(node), float(instance.deadline[node])
    begin = max(opens, first)
    if (opens > instance.earliest[0] or closes < instance.deadline[0]) and begin < last:
        until = source.units.brief(closes) if np.isfinite(closes) else "any time"
        words = f"window of {name_of(node)}: {source.units.brief(opens)} to {until}"
        yield Bar(begin, min(closes, last), look, where=where, thick=0.36, words=words)


def _trouble(source: _Source, request: int) -> str:
    """What went wrong with a request, in a few words; empty if nothing did."""
    report, lasting, pickup, drop_off = source.report, source.units.duration, 2 * request - 1, 2 * request
    if not report.delivered[request]:
        return "not served" if source.server(pickup) is None else "never dropped off"
    late = max(report.late[pickup], report.late[drop_off])
    words = [f"late by {lasting(late)}"] if late else []
    if report.too_long[request]:
        limit = lasting(float(source.instance.max_ride_time))
        words.append(f"rides {lasting(float(report.ride[request]))}, limit {limit}")
    return ", ".join(words)


def _events(source: _Source) -> tuple[Event, ...]:
    """Vehicles that set out and come back, requests that are brought; a mark for each decision."""
    events = []
    for leg, step in zip(source.report.legs, source.steps, strict=True):
        vehicle, name = source.used.index(leg.vehicle), source.vehicle(leg.vehicle)
        if leg.origin == 0:
            events.append(Event(leg.leave, step, f"{name} sets out", vehicle=vehicle))
        events.append(Event(leg.begin, step + 1, _arrival(source, leg, name), vehicle=vehicle))
    return tuple(events)


def _arrival(source: _Source, leg: Leg, name: str) -> str:
    if leg.node == 0:
        trouble = f", {leg.load_before} still on board" if leg.load_before else ", late" if leg.wrong else ""
        return f"{name} is back at the depot{trouble}"
    if leg.node % 2:
        return ""
    late, request = float(source.report.late[leg.node]), leg.node // 2
    trouble = f", {source.units.duration(late)} late" if late else ""
    trouble += ", ride too long" if source.report.too_long[request] else ""
    return f"request {request} delivered by {name}{trouble}"


# --- decisions, and why a request was not served ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Decisions:
    """What was decided in an episode, and what was forbidden."""

    source: _Source
    states: State  # leaves `[L, ...]`
    why: tuple[tuple[Why, ...], ...]  # by state and agent
    allowed: np.ndarray  # `bool[L, N+1]`

    def card(self) -> Card:
        """Who decides, and where."""
        now = zip(self.states.current_agent.tolist(), self.states.current_node.tolist(), strict=True)
        steps = tuple((self.source.vehicle(number), f"at {name_of(node)}", False) for number, node in now)
        return Card("decision", agent=0, steps=steps)

    def why_unserved(self, request: int) -> str:
        """When a request could last be served, by the states of the episode, and what forbade it later."""
        pickup, drop_off = 2 * request - 1, 2 * request
        vehicles, nodes = self.states.current_agent.tolist(), self.states.current_node.tolist()
        decisions = range(len(nodes) - 1)

        def choice(at: int) -> str:
            return f"{self.source.vehicle(vehicles[at])} went to {name_of(nodes[at + 1])}"

        if self.source.server(pickup) is not None:
            vehicle = int(self.source.report.served_by[pickup])
            last = [at for at in decisions if vehicles[at] == vehicle][-1]
            reason = self._reason(last, drop_off) or "the drop-off was allowed"
            fetched = f"fetched by {self.source.vehicle(vehicle)} at step {nodes.index(pickup)}"
            return f"{fetched}, and left behind at step {last} ({choice(last)}): {reason}"
        allowed = [at for at in decisions if self.allowed[at, pickup]]
        if not allowed:
            return f"could never be fetched: {self._reason(0, pickup) or 'masked from the start'}"
        words = f"could be fetched until step {allowed[-1]} ({choice(allowed[-1])})"
        later = list(filter(None, (self._reason(at, pickup) for at in decisions[allowed[-1] + 1 :])))
        if later:
            words += f"; then: {later[0]}"
        return f"{words}; in the end: {later[-1]}" if later and later[-1] != later[0] else words

    def _reason(self, at: int, node: int) -> str | None:
        """Why a node was masked in a state; None if it was allowed."""
        return next((text for text, nodes in self.why[at][0] if node in nodes), None)

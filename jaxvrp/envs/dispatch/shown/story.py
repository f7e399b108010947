"""A day of dispatching as a story: what was asked and answered, and who was where with whom."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from jaxvrp.envs.dispatch.driven_day import DrivenDay, PlannedDay, driven_day
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.solution import Report, Stop
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.envs.dispatch.shown.reasons import reasons_of
from jaxvrp.episodes import Episode, whole
from jaxvrp.show.common import causes_of, whys_of
from jaxvrp.show.reasons import Cause, Reasons
from jaxvrp.story import (
    Activity,
    Aim,
    Bar,
    Card,
    Counts,
    Dot,
    Event,
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

UNITS = Units("min", "km")

KEPT = "all promises kept"

WORDS = {
    "open": "",
    "asked": "asked now",
    "promised": "accepted, not begun",
    "served": "begun or done",
    "lost": "rejected",
}
"""Of requests, by how they stand."""

LANES = 5
"""Levels within the row of a vehicle, for requests that overlap."""

MOST_REASONS = 3
"""Of a rejected request, those that most vehicles have."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Source:
    """What all parts of a story are made from. Times and places are those of the file."""

    env: Dispatch
    named: NamedDay | None
    day: DrivenDay
    states: State  # leaves `[L, ...]`
    is_planned: bool  # the day was planned ahead: nobody answered requests one by one
    reasons: Reasons
    causes: Mapping[str, Cause]
    why: Mapping[str, tuple[tuple[Why, ...], ...]]  # the same in words

    @property
    def scale(self) -> float:
        """Units of load in a unit of the file."""
        return self.named.scale if self.named else 1.0

    def request(self, number: int) -> str:
        """The name of a request."""
        return _request_name(self.named, number)

    def vehicle(self, number: int) -> str:
        """The name of a vehicle; those that are padding have one, too."""
        if self.named and number < len(self.named.vehicles):
            return self.named.vehicles[number]
        return f"{'drone' if self.day.instance.is_drone[number] else 'vehicle'} {number}"

    def index(self, request: int) -> int | None:
        """Who served a request, as an index of the story's vehicles; None if it was rejected."""
        found = self.day.served.get(request)
        return None if found is None else self.day.vehicles.index(found.vehicle)

    def time(self, minutes: float) -> float:
        """A time of the day on the clock of the file."""
        return float(minutes) + (self.named.clock if self.named else 0.0)

    def place(self, place: np.ndarray) -> Point:
        """A place of the day on the map of the file."""
        x, y = np.add(place, self.named.place if self.named else 0.0).tolist()
        return x, y

    @property
    def units(self) -> Units:
        """Of the clock and the map."""
        start = self.named.start if self.named else None
        return dataclasses.replace(UNITS, clock=(start.start, 1.0)) if start else UNITS

    def said(self, minutes: float) -> str:
        """A time of the clock of the file, in words without a unit."""
        return self.units.moment(minutes) if self.units.clock else number(minutes)

    @functools.cached_property
    def clocks(self) -> tuple[float, ...]:
        """When each state is; the last one when all vehicles are done."""
        return tuple(map(self.time, (*self.states.now[:-1].tolist(), self.day.end)))

    @functools.cached_property
    def span(self) -> tuple[float, float]:
        """The first request, and the end."""
        return min(self.clocks[0], self.clocks[-1]), self.clocks[-1]


def _request_name(named: NamedDay | None, number: int) -> str:
    """The name of a request; reasons that name none ask for that of number 0 on a day without any."""
    return named.requests[number] if named and number < len(named.requests) else f"request {number}"


def _unit(named: NamedDay | None) -> str:
    """Of loads in the file; "" if it says none."""
    return named.unit if named and named.addresses else ""


def _load_words(named: NamedDay | None, load: float) -> str:
    """A load in words, in the unit of its file."""
    return f"{load / (named.scale if named else 1.0):.10g} {_unit(named)}".rstrip()


def story_of(episode: Episode, problem: NamedDay | None = None) -> Story:
    """The story of a day, with the names, the clock and the map of the file that a `problem` was read from.

    Raises:
        ValueError: the episode is a moment of a day.
    """
    episode = whole(episode)
    source = _source(episode, problem)
    env, day = source.env, source.day
    verdict = _verdict(day.report)
    title = f"Dispatch, {env.scenario}: {len(day.requests)} requests, {len(day.vehicles)} vehicles"
    low, high = day.instance.area
    return Story(
        title=(problem and problem.name) or title,
        summary=(
            ("served", f"{len(day.served)} of {len(day.requests)}"),
            ("value", number(day.report.value)),
            ("travel", UNITS.duration(day.travel)),
            ("promises", "kept" if verdict == KEPT else "broken"),
        ),
        verdict=verdict,
        is_feasible=verdict == KEPT,
        units=source.units,
        span=source.span,
        clocks=source.clocks,
        places=tuple(_places(source)),
        vehicles=tuple(_vehicle(source, v) for v in day.vehicles),
        charts=(_lanes_chart(source), *(() if source.is_planned else (_answers_chart(source),))),
        events=tuple(_answer(source, request) for request in day.requests),
        cards=_cards(source),
        shortfall="Rejected",
        lost=tuple((source.request(request), _why_rejected(source, request)) for request in day.rejected),
        area=(source.place(low), source.place(high)),
        zones=env.num_zones_each_way,
        words=WORDS,
        actions=_actions(source),
        why=source.why,
    )


def _verdict(report: Report) -> str:
    broken = [f"{name.replace('_', ' ')} {found.count}" for name, found in report.violations.items() if found.count]
    late = int(report.late.sum())
    return f"not feasible: {', '.join(broken)}" if broken else f"{late} requests late" if late else KEPT


def _source(episode: Episode, named: NamedDay | None) -> _Source:
    env, day = episode.env, driven_day(episode.env, episode.states)
    assert isinstance(env, Dispatch)
    is_planned = isinstance(episode.states, PlannedDay)
    if isinstance(episode.states, PlannedDay):
        episode = episode.replace(states=episode.states.states)
    reasons = reasons_of(env, functools.partial(_request_name, named), functools.partial(_load_words, named))
    causes = causes_of(reasons, episode)
    return _Source(env, named, day, episode.states, is_planned, reasons, causes, whys_of(reasons, episode, causes))


def _actions(source: _Source) -> dict[str, tuple[str, ...]]:
    names = {DISPATCHER: ("reject", *(source.vehicle(v) for v in range(source.env.fleet_size)))}
    if zones := source.env.num_zones_each_way:
        names[DRIVER] = ("go on", *(f"zone {zone}" for zone in range(zones**2)))
    return names


# --- places and vehicles ----------------------------------------------------------------------------------------------


def _places(source: _Source) -> Iterator[Place]:
    depot = source.day.instance.depot
    if depot is not None:
        yield Place("depot", "", "depot", source.place(depot))
    stops = {(stop.request, stop.is_pickup): stop for stop in source.day.stops}
    for request in source.day.requests:
        if depot is None:
            yield _end(source, request, stops.get((request, True)), is_pickup=True)
        yield _end(source, request, stops.get((request, False)), is_pickup=False)


def _end(source: _Source, request: int, stop: Stop | None, *, is_pickup: bool) -> Place:
    """An end of a request; of one that is rejected, only that stays in sight where it would have begun."""
    day, end = source.day.instance, "pickup" if is_pickup else "dropoff"
    arrival, server = source.time(day.arrival[request]), source.index(request)
    later = source.clocks[request + 1] if request + 1 < len(source.clocks) else source.span[1]
    standings = [Standing(arrival, "asked")]
    if stop is not None:
        is_late = stop in source.day.report.late_stops
        begin = source.time(stop.start)
        picked = source.time(source.day.served[request].pickup)
        standings.append(Standing(min(max(later, arrival), max(picked, arrival), begin), "promised", server))
        standings.append(Standing(begin, "late" if is_late else "served", server))
    else:
        standings.append(Standing(later, "lost" if is_pickup or day.depot is not None else "hidden"))
    limits = (float(day.pickup_deadline[request]), float(day.dropoff_deadline[request]))
    deadlines = " and ".join(source.said(source.time(limit)) if np.isfinite(limit) else "none" for limit in limits)
    deadline = limits[0 if is_pickup else 1]
    return Place(
        name=source.request(request),
        label="",
        kind="pickup" if is_pickup else "drop-off",
        position=source.place(getattr(day, end)[request]),
        standings=(Standing(min(source.span[0], arrival), "hidden"), *standings),
        note=f"at {source.said(arrival)}, load {_load_words(source.named, day.load[request])}, deadlines {deadlines}",
        deadline=source.time(deadline) if np.isfinite(deadline) else None,
    )


def _vehicle(source: _Source, v: int) -> Vehicle:
    day, track = source.day, source.day.tracks[v]
    return Vehicle(
        name=source.vehicle(v),
        sign="",
        kind="drone" if day.instance.is_drone[v] else "vehicle",
        colour=day.vehicles.index(v),
        track=tuple((source.time(time), source.place(place)) for time, place in track.points),
        levels=tuple((source.time(time), load / source.scale) for time, load in track.loads),
        capacity=float(day.instance.capacity[v]) / source.scale,
        level_name=f"load in {unit}" if (unit := _unit(source.named)) else "load",
        activities=tuple(_activities(source, v)),
        notes=()
        if source.is_planned
        else tuple((clock, _offer(source, at, v)) for at, clock in enumerate(source.clocks)),
        aims=tuple(_aims(source, v)),
    )


def _activities(source: _Source, v: int) -> Iterator[Activity]:
    """Driving where the track leads on, serving where it stays for a service; else waiting."""
    points = source.day.tracks[v].points
    services = {leg.ended: leg.stop.start for leg in source.day.report.legs if leg.vehicle == v and leg.stop}
    for (begin, here), (end, there) in itertools.pairwise(points):
        if end > begin:
            is_moving, is_serving = (here != there).any(), begin >= services.get(end, np.inf)
            name = "moves" if is_moving else "serves" if is_serving else "waits"
            words = {"moves": "driving", "serves": "serving", "waits": "waiting"}[name]
            yield Activity(source.time(begin), source.time(end), name, words)
    last = source.time(points[-1][0])
    yield Activity(last, max(last, source.span[1]), "waits", "waiting")


def _offer(source: _Source, at: int, v: int) -> str:
    """What a vehicle would do with the request at hand."""
    offers = source.states.offers
    if at >= len(source.day.requests):
        return ""
    if offers.feasible[at, v]:
        return f"yes: +{number(round(float(offers.added[at, v]), 2))} min"
    reason = next((text for text, actions in source.why[DISPATCHER][at][0] if 1 + v in actions), "not asked")
    return f"no: {reason}"


def _aims(source: _Source, v: int) -> Iterator[Aim]:
    """The stops that are still to come, of all requests that have been given to a vehicle."""
    day = source.day
    stops = sorted((stop for stop in day.stops if stop.vehicle == v), key=lambda stop: stop.start)
    arrivals = [float(day.instance.arrival[stop.request]) for stop in stops]
    ends = {True: day.instance.pickup, False: day.instance.dropoff}
    for time in sorted({*arrivals, *(stop.start for stop in stops)}):
        ahead = [stop for stop, arrival in zip(stops, arrivals, strict=True) if arrival <= time < stop.start]
        yield Aim(source.time(time), tuple(source.place(ends[stop.is_pickup][stop.request]) for stop in ahead))


# --- charts, events, cards --------------------------------------------------------------------------------------------


def _lanes_chart(source: _Source) -> Rows:
    """A row for each vehicle with its requests, thin from arrival, thick from pickup on; below, the rejected."""
    bars: dict[int, list[Bar]] = {v: [] for v in source.day.vehicles}
    for request, where in _lanes(source.day).items():
        server, found = source.index(request), source.day.served[request]
        times = source.day.instance.arrival[request], found.pickup, found.dropoff
        for look, (begin, end) in zip(("approach", "ride"), itertools.pairwise(map(source.time, times)), strict=True):
            bars[found.vehicle].append(Bar(begin, end, look, server, where, thick=0.0, words=source.request(request)))
    rejected = tuple(
        Dot(source.time(source.day.instance.arrival[request]), "lost", words=source.request(request))
        for request in source.day.rejected
    )
    rows = [Row(source.vehicle(v), tuple(bars[v]), vehicle=at) for at, v in enumerate(source.day.vehicles)]
    return Rows(
        "Requests of each vehicle",
        (*rows, Row("rejected", dots=rejected)),
        keys=(("approach", "from the request"), ("ride", "from pickup to drop-off"), ("lost", "rejected")),
    )


def _lanes(day: DrivenDay) -> dict[int, float]:
    """Where requests stand in the row of their vehicle: rides at one time beside each other, if there is room."""
    ends, where = {v: [-np.inf] * LANES for v in day.vehicles}, {}
    for request, found in sorted(day.served.items(), key=lambda each: each[1].pickup):
        before = ends[found.vehicle]
        lane = before.index(min(before))
        before[lane] = found.dropoff
        where[request] = 0.15 * (LANES // 2 - lane)
    return where


def _answers_chart(source: _Source) -> Counts:
    def times(*, is_served: bool) -> tuple[float, ...]:
        chosen = (request for request in source.day.requests if (request in source.day.served) == is_served)
        return tuple(source.time(source.day.instance.arrival[request]) for request in chosen)

    series = (("accepted", "on time", times(is_served=True)), ("rejected", "lost", times(is_served=False)))
    return Counts("Answers so far", series)


def _answer(source: _Source, request: int) -> Event:
    server, name = source.index(request), source.request(request)
    time = source.time(source.day.instance.arrival[request])
    if server is None:
        return Event(time, request + 1, f"{name} rejected", "lost")
    return Event(time, request + 1, f"{name} goes to {source.vehicle(source.day.vehicles[server])}", vehicle=server)


def _cards(source: _Source) -> tuple[Card, ...]:
    """The dispatcher, where requests are answered, and the vehicles; those whose drivers decide are agents, too."""
    vehicles = list(source.day.vehicles)

    def status(at: int) -> tuple[str, str, bool]:
        if at >= len(source.day.requests):
            return "all answered", "", False
        takers = int(source.states.offers.feasible[at, vehicles].sum())
        return source.request(at), f"{takers} of {len(vehicles)} can take it", not takers

    drive = source.env.num_zones_each_way > 0
    dispatcher = Card("dispatcher", agent=0, steps=tuple(status(at) for at in range(len(source.clocks))))
    return (
        *(() if source.is_planned else (dispatcher,)),
        *(Card(source.vehicle(v), 1 + at if drive else None, vehicle=at) for at, v in enumerate(vehicles)),
    )


# --- why a request was rejected ---------------------------------------------------------------------------------------


def _why_rejected(source: _Source, request: int) -> str:
    """How many vehicles could have taken a request, at which least cost, and why the others could not."""
    offers = source.states.offers
    able = [v for v in source.day.vehicles if offers.feasible[request, v]]
    if source.is_planned and able:
        return f"the plan leaves it out; alone, {len(able)} vehicles could take it"
    others = _together(source, request, [v for v in source.day.vehicles if v not in able])
    if not able:
        return f"no vehicle could take it: {others}"
    best = min(able, key=lambda v: round(float(offers.added[request, v]), 2))
    cost = f"{source.vehicle(best)} for {number(round(float(offers.added[request, best]), 2))} min more travel"
    return f"{len(able)} vehicles could have taken it, {cost}" + (f"; others: {others}" if others else "")


def _together(source: _Source, request: int, vehicles: list[int]) -> str:
    """The commonest reasons, each with how many vehicles have it; of those that differ by their numbers the least."""
    cause = source.causes[DISPATCHER]
    kinds: dict[int, list[tuple[float, str]]] = {}
    for v in vehicles:
        kind, amount, other = (values[request, 0, 1 + v].item() for values in (cause.kind, cause.amount, cause.other))
        kinds.setdefault(kind, []).append((amount, source.reasons.text(kind, amount, other)))
    words = []
    for alike in sorted(kinds.values(), key=len, reverse=True)[:MOST_REASONS]:
        differ = len({text for _, text in alike}) > 1
        words.append(f"{len(alike)} x {min(alike)[1]}" + (" or more" if differ else ""))
    return ", ".join(words)

"""What a played episode comes to for a person, as data: who was where when, what was done for whom, what went wrong.

`shown/story.py` of an environment makes a `Story` from an `Episode`; `jaxvrp.show` draws it, on a page, as a still, an
animation, and knows no environment. So a story says all that differs between environments, and nothing of colours,
pixels and fonts: what is drawn has a name of `STANDINGS`, `ACTIVITIES` or `LOOKS`, and each way of drawing has one
table of these names.

Times are moments of the story's clock, in its unit, with its origin; places are on its map, y points up. A sequence of
`(time, ...)` entries ascends, and each entry holds until the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from jaxvrp.io.clock import Clock
from jaxvrp.io.messages import number

Point = tuple[float, float]

Why = tuple[tuple[str, tuple[int, ...]], ...]
"""Of one agent in one state: each reason that forbids some of its actions, in words, with these actions."""

VehicleIndex = Annotated[int, "vehicles"]
AgentIndex = Annotated[int, "agents"]
StateIndex = Annotated[int, "steps"]
"""Indices of what a story and its episode have many of."""

PLACES = ("depot", "node", "customer", "pickup", "drop-off")
VEHICLES = ("truck", "drone", "vehicle")
"""Kinds: a node is where a vehicle can stop; a pickup and a drop-off are the two ends of a request."""

STANDINGS = ("hidden", "closed", "open", "overdue", "asked", "promised", "served", "late", "lost")
"""How it stands with a place: not known yet; its window not open; open; its deadline over; a decision about it is at
hand; somebody will come; served; served late; given up, or never served."""

ACTIVITIES = ("rests", "moves", "serves", "waits", "aboard", "returns", "crashed")
"""What vehicles do."""

LOOKS = (
    *("window", "second window", "known", "approach", "ride", "late ride", "delay", "wait"),  # bars
    *ACTIVITIES,  # bars, too
    *("service", "on time", "late", "lost", "gain"),  # dots, and lines of `Counts`
)
"""What bars, dots and lines of charts mean.

A window and the one of the other end of a ride; the time from which something is known until it can be served; from the
request until its ride begins; a ride, and one that takes too long; from the deadline to a late service; a wait for a
window. A service is in the colour of its vehicle, `on time`, `late` and `lost` in those of a standing.
"""

PlaceKind = Annotated[str, PLACES]
VehicleKind = Annotated[str, VEHICLES]
StandingName = Annotated[str, STANDINGS]
ActivityName = Annotated[str, ACTIVITIES]
Look = Annotated[str, LOOKS]


@dataclasses.dataclass(frozen=True)
class Units:
    """The names of units; "" where there is none.

    Attributes:
        time: of the clock, "min", say.
        length: of the map, "km", say.
        clock: minutes after midnight at time 0, and minutes of a unit of time, where moments are clock times.
    """

    time: str = ""
    length: str = ""
    clock: tuple[float, float] | None = None

    def moment(self, time: float) -> str:
        """A moment of the clock: "step 3" where it counts steps, else a clock time, or a number with its unit."""
        if self.clock:
            return Clock(self.clock[0]).shown(time * self.clock[1])
        return f"step {number(time)}" if self.time == "step" else self.duration(time)

    def brief(self, time: float) -> str:
        """A moment without its unit: a clock time, or a number."""
        return self.moment(time) if self.clock else number(time)

    def duration(self, time: float) -> str:
        """A stretch of time."""
        if self.time == "step":
            return f"{number(time)} step{'' if time == 1 else 's'}"
        return f"{number(time)} {self.time}".rstrip()

    def distance(self, length: float) -> str:
        """A length."""
        return f"{number(length)} {self.length}".rstrip()


@dataclasses.dataclass(frozen=True)
class Standing:
    """How it stands with a place from a time on, until the next one.

    Attributes:
        time: of the clock; that of the vehicle's turns where vehicles move one after another, see `Vehicle.turns`.
        vehicle: whose colour it has, by index; None if nobody's.
    """

    time: float
    name: StandingName
    vehicle: VehicleIndex | None = None


@dataclasses.dataclass(frozen=True)
class Place:
    """A depot, a stop, a customer, or an end of a request.

    Attributes:
        name: in full, "pickup 3".
        label: short enough to stand at a mark on the map, "3"; "" for none.
        position: on the map.
        standings: from the beginning on; empty for places that nothing happens to.
        note: what else is to be said of it: window, load, who served it when.
        deadline: until when it can be served in time; None if at any time.
    """

    name: str
    label: str
    kind: PlaceKind
    position: Point
    standings: tuple[Standing, ...] = ()
    note: str = ""
    deadline: float | None = None


@dataclasses.dataclass(frozen=True)
class Region:
    """A part of the map where other rules hold, such as a no-fly zone: a polygon with these corners, in order."""

    name: str
    corners: tuple[Point, ...]


@dataclasses.dataclass(frozen=True)
class Activity:
    """What a vehicle does in a stretch of time: `words` say it on its card, "to customer 3"."""

    begin: float
    end: float
    name: ActivityName
    words: str = ""


@dataclasses.dataclass(frozen=True)
class Aim:
    """Where a vehicle will go, from a time on: along a line through places, or, as a `fan`, a line to each of them."""

    time: float
    places: tuple[Point, ...]
    fan: bool = False


@dataclasses.dataclass(frozen=True)
class Vehicle:
    """A truck, a drone or another vehicle.

    Attributes:
        name: in full.
        sign: one or two letters inside its mark; "" where its level is shown there.
        colour: the number of its colour in the palette; None for ink. Vehicles may share one.
        track: `(time, place)`: where it is; it goes straight from each place to the next. Empty if it is nowhere.
        hosts: `(time, vehicle or None)`: on board of which vehicle it is; empty if it never is on board.
        levels: `(time, level)`: its load, or what is left in its battery; empty if it has none.
        capacity: the level that is full.
        level_name: "on board", "battery".
        is_share: whether levels are shares of the capacity, and change evenly between their times; else they jump.
        carries: `(time, bool)`: whether it has a parcel with it, if its levels do not say so.
        activities: one after the other.
        notes: `(time, words)`: what else its card says.
        aims: where it will go.
        turns: `(step, time)`: its clock at states of the episode, where vehicles move one after another by steps; it
            has not begun before the first, and is done after the last. Empty where its clock is that of the story.
    """

    name: str
    sign: str
    kind: VehicleKind
    colour: int | None
    track: tuple[tuple[float, Point], ...]
    hosts: tuple[tuple[float, VehicleIndex | None], ...] = ()
    levels: tuple[tuple[float, float], ...] = ()
    capacity: float = 1.0
    level_name: str = ""
    is_share: bool = False
    carries: tuple[tuple[float, bool], ...] = ()
    activities: tuple[Activity, ...] = ()
    notes: tuple[tuple[float, str], ...] = ()
    aims: tuple[Aim, ...] = ()
    turns: tuple[tuple[StateIndex, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Bar:
    """A stretch of time in a row of a chart.

    Attributes:
        begin, end: times.
        vehicle: whose colour it has; None if that of its look.
        where: its middle, above (+) or below (-) that of the row, in heights of a row.
        thick: its height, in heights of a row; 0 for a line.
        words: said when it is pointed at.
    """

    begin: float
    end: float
    look: Look
    vehicle: VehicleIndex | None = None
    where: float = 0.0
    thick: float = 0.68
    words: str = ""


@dataclasses.dataclass(frozen=True)
class Dot:
    """A moment in a row of a chart; attributes as of `Bar`, and `shape`: a `kind` of places, or ""."""

    time: float
    look: Look
    vehicle: VehicleIndex | None = None
    where: float = 0.0
    shape: Annotated[str, ("", *PLACES)] = ""
    words: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a chart: of a customer, a request or a vehicle.

    Attributes:
        label: in front of it.
        bars, dots: in the order in which they are drawn.
        vehicle: whose colour the label has; None for ink.
        note: what went wrong, beside the marks; "" if nothing did.
    """

    label: str
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    vehicle: VehicleIndex | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Rows:
    """A chart of rows over time, from the top down; `keys` are `(look, words)` of its legend."""

    title: str
    rows: tuple[Row, ...]
    keys: tuple[tuple[Look, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Levels:
    """A chart of the levels of vehicles over time, a lane for each, shaded by what they do if `shaded`."""

    title: str
    vehicles: tuple[VehicleIndex, ...]
    shaded: bool = False


@dataclasses.dataclass(frozen=True)
class Counts:
    """A chart of numbers that grow over time: `series` are `(words, look, times at which they grow by one)`."""

    title: str
    series: tuple[tuple[str, Look, tuple[float, ...]], ...]


@dataclasses.dataclass(frozen=True)
class Lines:
    """A chart of numbers over time: `lines` are `(words, vehicle, ((time, value), ...))`, in the vehicle's colour."""

    title: str
    lines: tuple[tuple[str, VehicleIndex | None, tuple[tuple[float, float], ...]], ...]


Chart = Rows | Levels | Counts | Lines


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened, in words.

    Attributes:
        time: of the clock; that of the vehicle's turns, if it has any.
        step: the state of the episode that it led to, an index.
        words: "" for what is only marked on the slider.
        look: of the mark; "" for the vehicle's colour.
        vehicle: who did it; None if nobody.
    """

    time: float
    step: StateIndex
    words: str
    look: Annotated[str, ("", *LOOKS)] = ""
    vehicle: VehicleIndex | None = None


@dataclasses.dataclass(frozen=True)
class Card:
    """What the page says of an agent, a vehicle, or both.

    Attributes:
        title: a name.
        agent: by index among those of the episode; None for a vehicle that decides nothing.
        vehicle: by index; None for an agent that is no vehicle: a dispatcher.
        steps: by state `(status, note, is_bad)`, for an agent that is no vehicle.
    """

    title: str
    agent: AgentIndex | None = None
    vehicle: VehicleIndex | None = None
    steps: tuple[tuple[str, str, bool], ...] = ()


@dataclasses.dataclass(frozen=True)
class Story:
    """What a played episode comes to, as `jaxvrp.show` draws it.

    Attributes:
        title: what was played.
        summary: `(name, value)`, what came of it, the most important first.
        verdict: whether it keeps the rules, in words: "feasible", or what is broken.
        is_feasible: the same as a truth value.
        units: of times and lengths.
        span: the first and the last time that are worth showing.
        clocks: of the states, `[L]`; where vehicles have turns, those of the vehicle that moved.
        places, vehicles, charts, events, cards: see there.
        shortfall: what `lost` names: "Not served", "Rejected".
        lost: `(name, why)` of whom nobody served.
        area: the least and the greatest corner of the map; None: that of all places and tracks.
        zones: parts of the area on each side of a grid; 0 for none.
        regions: parts of the map where other rules hold.
        by_vehicle: whether served places have the colour of the vehicle; else that of their standing, and its edge.
        words: what standings, activities and kinds are called in legends, where the usual words do not fit:
            `{"served": "picked up"}`; those with "" are left out. "steps" is what playing by states is called, by
            default "by decision".
        actions: by role, the names of its actions; None for a role whose actions are numbers, or of no interest.
        why: by role, for each state and each agent that is there, why some of its actions are masked; {}: not told.
        instead: by role, for each state and each agent that is there, what became of its action, where that is not what
            it asked for; {}: nothing else became of any.
        episode: a `jaxvrp.episodes.Episode` with all states of `clocks`, where decisions hold for several of them, and
            the one that was given has only those of decisions; else None.

    `title`, `shortfall`, `lost` and the last four are written among what episodes of all kinds have.
    """

    title: str
    summary: tuple[tuple[str, str], ...]
    verdict: str
    is_feasible: bool
    units: Units
    span: tuple[float, float]
    clocks: tuple[float, ...]
    places: tuple[Place, ...]
    vehicles: tuple[Vehicle, ...]
    charts: tuple[Chart, ...] = ()
    events: tuple[Event, ...] = ()
    cards: tuple[Card, ...] = ()
    shortfall: str = "Not served"
    lost: tuple[tuple[str, str], ...] = ()
    area: tuple[Point, Point] | None = None
    zones: int = 0
    regions: tuple[Region, ...] = ()
    by_vehicle: bool = True
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    actions: Mapping[str, tuple[str, ...] | None] = dataclasses.field(default_factory=dict)
    why: Mapping[str, tuple[tuple[Why, ...], ...]] = dataclasses.field(default_factory=dict)
    instead: Mapping[str, tuple[tuple[str | None, ...], ...]] = dataclasses.field(default_factory=dict)
    episode: Any = None


def held(entries: Sequence[Any], time: float) -> Any:
    """The entry that holds at a time, of ascending `(time, ...)`, or objects with a `time`; None before the first."""
    before = None
    for entry in entries:
        if (entry[0] if isinstance(entry, tuple) else entry.time) > time:
            break
        before = entry
    return before

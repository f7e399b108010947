"""What an episode of `truck_drone` comes to for a person: see `jaxvrp.story`. Vehicle 0 is the truck, then drones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.truck_drone.course import NOBODY, WAITING, Course, course_of, runs, step_by_step
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.envs.truck_drone.problem.naming import Naming, naming_of
from jaxvrp.envs.truck_drone.shown.reasons import battery_shortfall, reasons_of, shortfalls
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING
from jaxvrp.episodes import Episode
from jaxvrp.show.common import mean_return, whys_of
from jaxvrp.story import (
    Activity,
    Aim,
    Bar,
    Card,
    Chart,
    Dot,
    Event,
    Levels,
    Place,
    Point,
    Row,
    Rows,
    Standing,
    Story,
    Vehicle,
    number,
)

ACTIVITY = {
    ONBOARD: ("aboard", "on board"),
    FLYING: ("moves", "flying"),
    WAITING: ("waits", "waiting"),
    RETURNING: ("returns", "returning"),
    CRASHED: ("crashed", "crashed"),
}
"""What a drone does, of `jaxvrp.story.ACTIVITIES`, and in words."""

METRICS = (
    *("customers_served", "total_customers", "completion_rate", "success", "on_time_rate", "time_step"),
    *("invalid_actions", "forced_returns", "crashed_drones", "battery_used", "truck_distance", "drone_distance"),
)
"""What the summary says in words of its own, or the charts; of all environments here."""

WORDS = {"open": "waiting", "served": "served on time", "node": "place that the truck can drive to"}

MARGIN = 0.56
"""Half the side of what is seen of a map, as a share of the larger extent of its places."""

TRUCK = 0
"""Number of the truck among vehicles and agents; drone `d` is `1 + d`."""


def story_of(episode: Episode, problem: FleetMap | None = None) -> Story:
    """The story of an episode, with the names and units of a map if it is of one.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    episode = step_by_step(episode)
    course = course_of(episode)
    names = naming_of(course.instance, course.num_drones, problem)
    shortfall = np.asarray(jax.vmap(lambda world: battery_shortfall(course.env, world))(course.world))
    reasons, vehicles, faults = reasons_of(course.env, names), [names.truck, *names.drones], _faults(episode, course)
    scenario = f"{type(course.env).__name__}: {course.num_drones} drones, {course.num_customers} customers"
    story = Story(
        title=(problem.name if problem else "") or scenario,
        summary=tuple(_summary(episode, course, names)),
        verdict=", ".join(faults) or "feasible",
        is_feasible=not faults,
        units=names.units,
        span=_span(course, names),
        clocks=tuple(map(names.time, course.world.step)),
        places=(*_nodes(course, names), *_customers(course, names)),
        vehicles=(_truck(course, names), *(_drone(course, names, drone) for drone in range(course.num_drones))),
        charts=tuple(_charts(course, names)),
        events=tuple(sorted(_events(course, names), key=lambda event: event.time)),
        cards=tuple(Card(name, agent=index, vehicle=index) for index, name in enumerate(vehicles)),
        lost=shortfalls(course, shortfall, names),
        area=_area(course, names),
        by_vehicle=False,
        words=WORDS,
        actions=_action_names(names),
        why=whys_of(reasons, episode) if reasons else {},
        instead=_instead(course, shortfall),
        episode=episode,
    )
    return course.env.extend_story(story, episode)


def _summary(episode: Episode, course: Course, names: Naming) -> Iterator[tuple[str, str]]:
    """What came of it; on a map in its units; and the metrics that a scenario of a user's own adds."""
    is_map, metrics = names.fleet_map is not None, episode.timesteps.metrics
    is_served, is_late = course.served_at >= 0, course.steps_late > 0
    if not is_map:
        yield "return", number(mean_return(episode.timesteps.reward))
    yield "served", f"{is_served.sum()} of {course.num_customers}"
    yield "on time", f"{(is_served & ~is_late).sum()}"
    if is_map:
        done = course.until_the_last_work().world
        yield "end", names.moment(done.step[-1])
        yield "driven", names.distance(done.totals.truck_distance[-1])
        yield "flown", names.distance(done.totals.drone_distance[-1])
    else:
        yield "steps", f"{course.length - 1}"
    yield "battery used", number(float(course.world.totals.battery_used[-1]))
    for name in metrics:
        if name not in METRICS and metrics[name].ndim == 1:
            yield name.replace("_", " "), number(float(metrics[name][-1]))


def _faults(episode: Episode, course: Course) -> list[str]:
    """What went wrong, and how often; a drone may be in the air where the rules of the scenario are content with it."""
    status, is_served = course.world.drones.status[-1], course.served_at >= 0
    is_success = "success" in episode.timesteps.metrics and bool(episode.timesteps.metrics["success"][-1])
    counts = {
        "late": (course.steps_late > 0).sum(),
        "not served": (~is_served).sum(),
        "crashed": (status == CRASHED).sum(),
        "in the air at the end": 0 if is_success else ((status == FLYING) | (status == RETURNING)).sum(),
    }
    return [f"{count} {fault}" for fault, count in counts.items() if count]


def _span(course: Course, names: Naming) -> tuple[float, float]:
    """From the first state to the last, or to the last deadline."""
    first, last = course.world.step[[0, -1]]
    return names.time(first), names.time(max(last, course.instance.window_end.max(initial=0)))


def _area(course: Course, names: Naming) -> tuple[Point, Point]:
    """A square: that in which generated problems lie, or more; on a map, around all places and ways."""
    instance, world = course.instance, course.world
    drones = world.drones.position.reshape(-1, 2)
    places = np.concatenate([instance.node_position, instance.customer_position, world.truck.position, drones])
    middle, half = np.zeros(2), max(1.0, float(np.abs(places).max()))
    if names.fleet_map is not None:
        low, high = places.min(axis=0), places.max(axis=0)
        middle, half = (low + high) / 2, MARGIN * float((high - low).max())
    return names.place(middle - half), names.place(middle + half)


def _action_names(names: Naming) -> dict[str, tuple[str, ...]]:
    def each(verb: str, objects: Sequence[str]) -> list[str]:
        return [f"{verb} {name}" if names.fleet_map else f"{verb}_{index}" for index, name in enumerate(objects)]

    truck = [*each("MOVE", names.nodes), *each("RELEASE", names.drones), *each("RECOVER", names.drones)]
    return {"truck": ("STAY", *truck), "drone": ("HOVER", "RETURN", *each("DELIVER", names.customers))}


def _instead(course: Course, shortfall: np.ndarray) -> dict[str, tuple[tuple[str | None, ...], ...]]:
    """For each state, why the battery guard overrides what a drone asks for there."""
    sent_home = course.world.drones.forced_return[1:]

    def words(state: int, drone: int) -> str | None:
        missing = number(float(shortfall[state, drone]))
        return f"sent home: battery short by {missing}" if sent_home[state, drone] else None

    last, drones = len(sent_home), range(course.num_drones)
    said = [tuple(words(state, drone) for drone in drones) for state in range(last)]
    return {"truck": ((None,),) * (last + 1), "drone": (*said, (None,) * course.num_drones)} if sent_home.any() else {}


# --- places ---------------------------------------------------------------------------------------------------------


def _nodes(course: Course, names: Naming) -> list[Place]:
    nodes = zip(names.nodes, names.labels["nodes"], course.instance.node_position, strict=True)
    return [Place(name, label, "node", names.place(place)) for name, label, place in nodes]


def _customers(course: Course, names: Naming) -> list[Place]:
    return [
        Place(
            names.customers[customer],
            names.labels["customers"][customer],
            "customer",
            names.place(place),
            standings=tuple(_standings(course, names, customer)),
            note=_note(course, names, customer),
            deadline=names.time(course.instance.window_end[customer]),
        )
        for customer, place in enumerate(course.instance.customer_position)
    ]


def _standings(course: Course, names: Naming, customer: int) -> Iterator[Standing]:
    """How it stands with a customer; a window that ends in a step is open in that step."""
    step, served_at = course.world.step, course.served_at[customer]
    known, opens, end = course.known_from[customer], course.opens[customer], course.instance.window_end[customer]
    last, is_served = step[served_at] if served_at >= 0 else step[-1], served_at >= 0
    changes = [(known, "closed")] if known < opens else []
    changes += [(max(known, opens), "open"), (max(known, end + 1), "overdue")]
    before = [(at, name) for at, name in changes if at <= step[0]][-1:]
    yield Standing(names.time(step[0]), before[0][1] if before else "hidden")
    yield from (Standing(names.time(at), name) for at, name in changes if step[0] < at < last)
    if is_served:
        server, is_late = int(course.server[customer]), course.steps_late[customer] > 0
        yield Standing(names.time(last), "late" if is_late else "served", None if server == NOBODY else 1 + server)
    elif len(step) > 1:
        yield Standing(names.time(last), "lost")


def _note(course: Course, names: Naming, customer: int) -> str:
    """Window, news, and the delivery of a customer, in words."""
    opens, known, end = course.opens[customer], course.known_from[customer], course.instance.window_end[customer]
    until = names.clock(end)
    begin = names.clock(opens) if names.units.clock else f"{names.time(opens):.12g}"
    words = [f"window {begin} to {until}" if opens > 0 else f"deadline {until}"]
    if known > 0:
        words.append(f"known from {names.moment(known)}")
    if course.served_at[customer] >= 0:
        step = course.world.step[course.served_at[customer]]
        words.append(f"served at {names.moment(step)}{_by(course, names, customer)}")
    return ", ".join(words)


def _by(course: Course, names: Naming, customer: int) -> str:
    """Who served a customer, and how late."""
    server, late = int(course.server[customer]), course.steps_late[customer]
    by = "" if server == NOBODY else f" by {names.drones[server]}"
    return by + (f", {names.delay(late)} late" if late else "")


# --- vehicles -------------------------------------------------------------------------------------------------------


def _track(course: Course, names: Naming, positions: np.ndarray | jax.Array) -> tuple[tuple[float, Point], ...]:
    """Where it is, `f32[L, 2]`, without the middle of rests."""
    moves = np.append(True, (positions[1:] != positions[:-1]).any(axis=1))
    kept = np.flatnonzero(moves | np.append(moves[1:], True))
    return tuple((names.time(course.world.step[index]), names.place(positions[index])) for index in kept)


def _changes(course: Course, names: Naming, values: Sequence[Any]) -> list[tuple[float, Any]]:
    """`(time, value)` from the begin of the step on that led to the first state with a value."""
    step = course.world.step
    starts = [index for index, value in enumerate(values) if index == 0 or value != values[index - 1]]
    entries = {names.time(step[max(index - 1, 0)]): values[index] for index in starts}
    return [*entries.items()]


def _truck(course: Course, names: Naming) -> Vehicle:
    drives = (course.world.truck.velocity != 0).any(axis=1)
    riding = (course.world.drones.status == ONBOARD).sum(axis=1).tolist()
    starts = [start for start, *_ in runs(np.array(riding))]
    return Vehicle(
        names.truck,
        names.truck[0].upper(),
        "truck",
        None,
        _track(course, names, course.world.truck.position),
        activities=tuple(
            Activity(names.time(begin), names.time(end), *(("moves", "driving") if moves else ("rests", "waiting")))
            for begin, end, moves in course.stretches(drives)
        ),
        notes=tuple(
            (names.time(course.world.step[start]), f"{riding[start]} of {course.num_drones} on board")
            for start in starts
        ),
    )


def _drone(course: Course, names: Naming, drone: int) -> Vehicle:
    drones = jax.tree.map(lambda leaf: leaf[:, drone], course.world.drones)
    levels = zip(map(names.time, course.world.step), drones.battery, strict=True)
    capacity = float(np.asarray(course.env.max_battery))
    goals = [
        (names.place(place),) if aims else () for place, aims in zip(drones.target, drones.has_target, strict=True)
    ]
    return Vehicle(
        names.drones[drone],
        _sign(names.drones, drone),
        "drone",
        drone,
        _track(course, names, drones.position),
        hosts=tuple(_hosts(course, names, drones.status == ONBOARD)),
        levels=tuple((time, float(level) / capacity) for time, level in levels),
        level_name="battery",
        is_share=True,
        carries=tuple(_changes(course, names, (drones.carrying >= 0).tolist())),
        activities=tuple(
            Activity(names.time(begin), names.time(end), *ACTIVITY[activity])
            for begin, end, activity in _activities(course, drone)
        ),
        notes=tuple(_changes(course, names, [*_parcel_notes(drones, names)])),
        aims=tuple(Aim(time, places) for time, places in _changes(course, names, goals)),
    )


def _activities(course: Course, drone: int) -> list[tuple[int, int, int]]:
    """`(begin, end, activity)` in steps; in the step in which it boards a drone returns, and is on board at its end."""
    activity, last = course.activity[:, drone], int(course.world.step[-1])
    was_onboard = np.append(True, activity[:-1] == ONBOARD)
    boards = (activity == ONBOARD) & ~was_onboard
    found = course.stretches(np.where(boards, RETURNING, activity))
    return [*found, (last, last, ONBOARD)] if boards[-1] else found


def _hosts(course: Course, names: Naming, is_onboard: np.ndarray) -> list[tuple[float, int | None]]:
    """When a drone rides on the truck: in steps that begin and end on board; and at the end, if it boards there."""
    rides = is_onboard & np.append(is_onboard[0], is_onboard[:-1])
    entries = _changes(course, names, [TRUCK if aboard else None for aboard in rides])
    boards_last = is_onboard[-1] and not rides[-1]
    return [*entries, (names.time(course.world.step[-1]), TRUCK)] if boards_last else entries


def _sign(drones: Sequence[str], drone: int) -> str:
    """What fits a drone's mark: its initial where that tells drones apart, or its number."""
    initials = [name[0].upper() for name in drones]
    return initials[drone] if len(set(initials)) == len(initials) > 1 else str(drone)


def _parcel_notes(drones: Any, names: Naming) -> Iterator[str]:
    """For each state, whether the drone was sent home, or whose parcel it has."""
    for carried, is_sent_home in zip(drones.carrying, drones.forced_return, strict=True):
        yield "sent home" if is_sent_home else "" if carried < 0 else f"parcel for {names.labels['customers'][carried]}"


# --- charts and events ----------------------------------------------------------------------------------------------


def _charts(course: Course, names: Naming) -> Iterator[Chart]:
    order = np.lexsort((course.instance.window_end, course.served_at, course.served_at < 0))
    has_windows = course.opens.any()
    keys = [("window", "window" if has_windows else "until the deadline")]
    keys += [("known", "known")] if (course.known_from > course.world.step[0]).any() else []
    keys += [("wait", "waits for the window")] if course.steps_waited.any() else []
    yield Rows(
        f"Customers: {'time windows' if has_windows else 'deadlines'} and deliveries",
        tuple(_row(course, names, int(customer)) for customer in order),
        (*keys, ("on time", "served on time"), *([("late", "late")] if course.steps_late.any() else [])),
    )
    yield Levels("Battery", tuple(range(1, 1 + course.num_drones)), shaded=True)


def _row(course: Course, names: Naming, customer: int) -> Row:
    """The time in which a customer can be served on time, and the delivery."""
    first, served_at, late = course.world.step[0], course.served_at[customer], course.steps_late[customer]
    opens, known = max(first, course.opens[customer]), course.known_from[customer]
    label = names.labels["customers"][customer]
    bars = [Bar(names.time(opens), names.time(course.instance.window_end[customer]), "window")]
    if known > first:
        bars.append(Bar(names.time(known), names.time(max(opens, known)), "known", thick=0.0))
    if served_at < 0:
        return Row(label, tuple(bars), note="not served")
    step, waited, server = course.world.step[served_at], course.steps_waited[customer], int(course.server[customer])
    vehicle = None if server == NOBODY else 1 + server
    if late:
        bars.append(Bar(names.time(step - late), names.time(step), "delay", thick=0.0))
    if waited:
        bars.append(Bar(names.time(step - waited), names.time(step), "wait", thick=0.36))
    dot = Dot(names.time(step), "late" if late else "on time", vehicle, words=_note(course, names, customer))
    return Row(label, tuple(bars), (dot,), note=f"{names.delay(late)} late" if late else "")


def _events(course: Course, names: Naming) -> Iterator[Event]:
    """Deliveries, customers that became known, crashes, drones sent home."""
    step, drones = course.world.step, course.world.drones
    for customer, name in enumerate(names.customers):
        index, server, known = course.served_at[customer], int(course.server[customer]), course.known_from[customer]
        if index >= 0:
            words, look = f"{name} served{_by(course, names, customer)}", course.steps_late[customer] > 0
            vehicle = None if server == NOBODY else 1 + server
            yield Event(names.time(step[index]), int(index), words, "late" if look else "on time", vehicle)
        if step[0] < known <= step[-1]:
            yield Event(names.time(known), int(known - step[0]), f"{name} known", "known")
    for phrase, happens, look in (
        ("crashed", drones.status == CRASHED, "crashed"),
        ("sent home by its battery", drones.forced_return, ""),
    ):
        for before, drone in np.argwhere(happens[1:] & ~happens[:-1]).tolist():
            time, words = names.time(step[before + 1]), f"{names.drones[drone]} {phrase}"
            yield Event(time, before + 1, words, look, 1 + drone)

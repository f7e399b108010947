"""Small stories for tests of what draws them."""

import dataclasses
import json

from jaxvrp.show.__main__ import main
from jaxvrp.show.story_format import to_json_values
from jaxvrp.story import (
    Activity,
    Aim,
    Bar,
    Card,
    Counts,
    Dot,
    Event,
    Levels,
    Place,
    Row,
    Rows,
    Standing,
    Story,
    Units,
    Vehicle,
)


def _end(kind, request, position, *standings):
    standings = tuple(Standing(*standing) for standing in standings)
    return Place(f"{kind} {request}", str(request), kind, position, standings, deadline=6.0)


RIDES = Story(
    title="Dial-a-ride: three requests",
    summary=(("cost", "12.3"), ("served", "2 of 3 requests"), ("vehicles", "2 of 2")),
    verdict="not feasible: unserved 1 (first: pickup 3)",
    is_feasible=False,
    units=Units("min", "km"),
    span=(0.0, 10.0),
    clocks=(0.0, 9.0),
    places=(
        Place("depot", "", "depot", (0.0, 0.0)),
        _end("pickup", 1, (2.0, 0.0), (0.0, "open"), (2.0, "served", 0)),
        _end("drop-off", 1, (8.0, 1.0), (0.0, "open"), (8.1, "late", 0)),
        _end("pickup", 2, (1.0, 6.0), (0.0, "open"), (6.1, "served", 1)),
        _end("drop-off", 2, (1.0, 3.0), (0.0, "open"), (9.1, "served", 1)),
        _end("pickup", 3, (5.0, 5.0), (0.0, "open"), (10.0, "lost")),
        _end("drop-off", 3, (5.1, 5.1), (0.0, "open"), (10.0, "lost")),
    ),
    vehicles=(
        Vehicle(
            "vehicle 0", "", "vehicle", 0, ((0.0, (0.0, 0.0)), (2.0, (2.0, 0.0)), (8.1, (8.0, 1.0))),
            levels=((0.0, 0), (2.0, 3), (8.1, 0)), capacity=2.0, level_name="on board",
        ),
        Vehicle(
            "vehicle 1", "", "vehicle", 1, ((0.0, (0.0, 0.0)), (6.1, (1.0, 6.0)), (9.1, (1.0, 3.0))),
            levels=((0.0, 0), (6.1, 1), (9.1, 0)), capacity=2.0, level_name="on board",
        ),
    ),
    charts=(
        Levels("Passengers on board", (0, 1)),
        Rows(
            "Requests",
            (
                Row(
                    "1",
                    (Bar(0.0, 6.0, "window", where=0.2, thick=0.36), Bar(2.0, 8.1, "late ride", 0, thick=0.0)),
                    (Dot(2.0, "service", 0, 0.2, "pickup"), Dot(8.1, "late", 0, -0.2, "drop-off")),
                    0,
                    "late by 2.1",
                ),
                Row("2", (Bar(6.1, 9.1, "ride", 1, thick=0.0),), (Dot(6.1, "service", 1), Dot(9.1, "service", 1)), 1),
                Row("3", note="not served"),
            ),
            (("window", "window of the pickup"), ("ride", "ride"), ("service", "service begins"), ("late", "late")),
        ),
        Counts("Answers", (("accepted", "on time", (1.0, 2.0)), ("rejected", "lost", (3.0,)))),
    ),
    lost=(("request 3", "never fetched"),),
)  # fmt: skip
"""Two vehicles, a late service, a request that nobody serves, an overload."""

FLIGHTS = Story(
    title="A truck with two drones",
    summary=(("served", "2 of 3"), ("on time", "1")),
    verdict="",
    is_feasible=True,
    units=Units("step", "map units"),
    span=(0.0, 20.0),
    clocks=tuple(map(float, range(11))),
    places=(
        Place("node 0", "", "node", (0.5, 0.5)),
        Place("customer 0", "0", "customer", (0.5, -0.5), (Standing(0, "open"), Standing(4, "served", 1)), deadline=8),
        Place(
            "customer 1", "1", "customer", (-0.5, 0.5),
            (Standing(0, "closed"), Standing(2, "open"), Standing(5, "overdue"), Standing(7, "late", 2)), deadline=5,
        ),
        Place("customer 2", "2", "customer", (0.9, 0.9), (Standing(3, "open"), Standing(10, "lost")), deadline=9),
    ),
    vehicles=(
        Vehicle("truck", "", "truck", None, ((0.0, (0.0, 0.0)), (10.0, (0.6, 0.0)))),
        Vehicle(
            "drone_0", "0", "drone", 0,
            ((0.0, (0.0, 0.0)), (2.0, (0.12, 0.0)), (4.0, (0.5, -0.5)), (6.0, (0.36, 0.0)), (10.0, (0.6, 0.0))),
            hosts=((0.0, 0), (2.0, None), (6.0, 0)),
            levels=((0.0, 1.0), (2.0, 1.0), (6.0, 0.4), (10.0, 1.0)), is_share=True, level_name="battery",
            carries=((0.0, False), (2.0, True), (4.0, False)),
            activities=(Activity(0, 2, "aboard"), Activity(2, 4, "moves"), Activity(4, 6, "returns")),
            aims=(Aim(2.0, ((0.5, -0.5),)), Aim(4.0, ())),
        ),
        Vehicle(
            "drone_1", "1", "drone", 1, ((0.0, (0.0, 0.0)), (7.0, (-0.5, 0.5)), (9.0, (-0.4, 0.1))),
            hosts=((0.0, None),), levels=((0.0, 1.0), (9.0, 0.0)), is_share=True, level_name="battery",
            activities=(Activity(0, 7, "moves"), Activity(7, 8, "waits"), Activity(8, 10, "crashed")),
        ),
    ),
    charts=(
        Levels("battery", (1, 2), shaded=True),
        Rows(
            "customers: deadlines and deliveries",
            (
                Row("0", (Bar(0, 8, "window"),), (Dot(4, "on time", 1),)),
                Row("1", (Bar(2, 5, "window"), Bar(5, 7, "delay", thick=0.22)), (Dot(7, "late", 2),), note="2 late"),
                Row("2", (Bar(3, 20, "window"),), note="not served"),
            ),
            (("window", "time window"), ("delay", "late")),
        ),
    ),
    area=((-1.0, -1.0), (1.0, 1.0)),
    by_vehicle=False,
    words={"served": "served on time", "waits": "waiting"},
)  # fmt: skip
"""Colours are standings: customers in time, late, and not served; a crash."""


def crowd(count):
    """A story of a vehicle that serves so many customers, all over the map."""
    spots = [(10.0 * (number % 13), 7.0 * (number % 17) + 0.1 * number) for number in range(count)]
    times = [float(number + 1) for number in range(count)]
    places = tuple(
        Place(f"customer {number}", str(number), "customer", spot, (Standing(0.0, "open"), Standing(time, "served", 0)))
        for number, (spot, time) in enumerate(zip(spots, times, strict=True))
    )
    rows = tuple(Row(str(number), (), (Dot(time, "service", 0),), 0) for number, time in enumerate(times))
    return dataclasses.replace(
        RIDES,
        span=(0.0, count + 1.0),
        clocks=(0.0, float(count)),
        places=places,
        vehicles=(Vehicle("vehicle 0", "", "vehicle", 0, tuple(zip(times, spots, strict=True))),),
        charts=(Rows("Customers", rows),),
    )


def _tour(vehicle, steps, *stops):
    """A vehicle of `RIDES` that moves in these steps, from stop to stop, which it reaches at these times."""
    times = [time for time, _ in vehicle.track]
    ways = zip(times[:-1], times[1:], stops, strict=True)
    return dataclasses.replace(
        vehicle,
        turns=tuple(zip(steps, times, strict=True)),
        activities=tuple(Activity(begin, end, "moves", f"to {stop}") for begin, end, stop in ways),
        notes=((0.0, f"0/{len(stops)} stops"),),
    )


TOURS = dataclasses.replace(
    RIDES,
    clocks=(0.0, 2.0, 8.1, 6.1, 9.1),
    vehicles=(
        _tour(RIDES.vehicles[0], (0, 1, 2), "pickup 1", "drop-off 1"),
        _tour(RIDES.vehicles[1], (2, 3, 4), "pickup 2", "drop-off 2"),
    ),
    events=(
        Event(8.1, 2, "request 1 delivered by vehicle 0, 2.1 late", vehicle=0),
        Event(6.1, 3, "", vehicle=1),
        Event(9.1, 4, "request 2 delivered by vehicle 1", vehicle=1),
    ),
    cards=(
        Card("decision", 0, steps=tuple((f"vehicle {at // 2}", f"at stop {at}", False) for at in range(5))),
        Card("vehicle 0", vehicle=0),
        Card("vehicle 1", vehicle=1),
    ),
)
"""The same, by turns: first vehicle 0 makes two moves, then vehicle 1 makes two."""

FLEET = dataclasses.replace(
    FLIGHTS,
    events=(
        Event(4.0, 4, "customer 0 served by drone 0", "on time", 1),
        Event(7.0, 7, "customer 1 served by drone 1, 2 late", "late", 2),
        Event(8.0, 8, "drone 1 crashed", "crashed", 2),
    ),
    cards=(Card("truck", 0, 0), Card("drone_0", 1, 1), Card("drone_1", 2, 2)),
    lost=(("customer 2", "no drone came"),),
    actions={"truck": ("STAY", "MOVE_0"), "drone": ("HOVER", "RETURN", "DELIVER_0", "DELIVER_1", "DELIVER_2")},
)
"""`FLIGHTS` with agents that decide at every step."""

WHY = [[["late by 3", [3]], ["late by 4.5", [4]]], []]
"""Of the two drones of `FLEET`, in each state."""


def episode_of(story):
    """A story as an episode in the format of files, of a fleet as `FLEET` has it if its actions have names."""
    agents = ("truck", "drone", "drone") if story.actions else ("agent",)
    last, names = len(story.clocks) - 1, {role: story.actions.get(role) for role in agents}
    masks = {"truck": ["11"], "drone": ["11100", "11111"]} if story.actions else {}
    action = {"truck": [1], "drone": [2, 0]} if masks else None
    of_roles = {role: [0.5 * (role == "drone")] * agents.count(role) for role in agents}
    step = {"reward": of_roles, "mask": masks, **({"why": {"truck": [[]], "drone": WHY}} if masks else {})}
    return {
        "format": "jaxvrp-episode",
        "version": 2,
        "kind": "of no environment",
        "title": story.title,
        "config": {},
        "agents": [{"name": f"{role}_{agents[:at].count(role)}", "role": role} for at, role in enumerate(agents)],
        "actions": {role: None if names[role] is None else list(names[role]) for role in agents},
        "summary": {"return": 0.0, "length": last},
        "shortfalls": {"title": story.shortfall, "entries": [{"name": name, "why": why} for name, why in story.lost]},
        "steps": [{"step": at, **step, "action": action if at < last else None} for at in range(last + 1)],
        "story": to_json_values(story),
    }


def assert_refused(episode, says, folder, capsys):
    """Of its file the command says so in one line, and writes no page."""
    (folder / "bad.json").write_text(json.dumps(episode))
    assert main([str(folder / "bad.json")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"error: {folder / 'bad.json'}: ") and says in err
    assert not (folder / "bad.html").exists()

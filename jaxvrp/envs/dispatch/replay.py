"""Days of `dispatch` as `jaxvrp.show.episode_format` has them, played by `replay.js`.

Lengths are km, y points up; times are minutes. A step is a decision; the last one drives all plans out. Vehicles that
are padding are left out, so that vehicles are numbered by their place in `vehicles`. Besides what all episodes have:

    depot       [x, y], or null
    area        [[x, y], [x, y]], the least and the greatest corner
    zones       zones on a side of the grid; 0 without
    requests    [{name, arrival, pickup, dropoff, load, value, deadlines: [pickup, drop-off or null], vehicle, picked,
                dropped}]: the vehicle that served it, when its pickup (or the loading of its trip) and its drop-off
                began; all null if it was rejected; older files have no names
    vehicles    [{name, capacity, is_drone, track: [[time, x, y]], loads: [[time, load]]}]: it goes straight from each
                place to the next; its load from some times on
    end         when all vehicles are done
    verdict     "all promises kept", how many are late, or what is broken
    steps       also: clock; request: the one at hand, or null; offers: for each vehicle [added minutes, time of pickup,
                of drop-off], or null if it cannot take it; stops: how many each vehicle has not begun
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.dispatch import played
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.played import PlayedDay, name_of
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.reasons import reasons_of
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.io import origin
from jaxvrp.show.common import as_json, as_json_float32, common_entries
from jaxvrp.show.reasons import shown_amount, told_reason
from jaxvrp.show.schema import (
    POINT,
    all_of,
    boolean,
    list_of,
    number,
    object_with,
    optional,
    optional_keys,
    text,
    whole_number,
)

NUMBER = r"\d+(?:\.\d+)?"


def export_episode(env: Dispatch, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`; actions that are not given are read off the states."""
    day = played.day_of(env, states)
    zones = env.num_zones_each_way
    names = {DISPATCHER: ["reject", *(name_of(day, v) for v in range(env.fleet_size))]}
    if zones:
        names[DRIVER] = ["go on", *(f"zone {zone}" for zone in range(zones**2))]
    entries = common_entries(
        env,
        day.states,
        day.actions if actions is None else actions,
        kind="dispatch",
        title=f"Dispatch, {env.scenario}: {len(day.requests)} requests, {len(day.vehicles)} vehicles",
        action_names=names,
        step_entries=[_step_entry(day, index) for index in range(len(day.states.step))],
        reasons=reasons_of(env),
    )
    return {
        **entries,
        "depot": as_json(day.instance.depot),
        "area": as_json(day.instance.area),
        "zones": zones,
        "requests": [_request(day, request) for request in day.requests],
        "vehicles": [_vehicle(day, v) for v in day.vehicles],
        "end": as_json_float32(day.end),
        "verdict": played.verdict(day),
        "shortfalls": {
            "title": "Rejected",
            "entries": [
                {"name": f"request {request}", "why": _why_rejected(day, entries["steps"], request)}
                for request in day.rejected()
            ],
        },
    }


def label_episode(named: NamedDay, episode: dict[str, Any]) -> dict[str, Any]:
    """The episode with the names, the clock and the map of a file."""
    episode = _of_file(named, episode)
    names = {f"request {number}": name for number, name in enumerate(named.requests)}
    names |= {vehicle["name"]: name for vehicle, name in zip(episode["vehicles"], named.vehicles, strict=True)}
    drivers = iter(named.vehicles)

    def told(text: str) -> str:
        return re.sub(r"(request|vehicle|drone) \d+", lambda word: names.get(word[0], word[0]), text)

    def all_told(value: Any) -> Any:
        if isinstance(value, list):
            return [all_told(each) for each in value]
        return told(value) if isinstance(value, str) else value

    def renamed(entries: list[dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
        return [{**each, **{field: told(each[field]) for field in fields}} for each in entries]

    left, actions = episode["shortfalls"], episode["actions"]
    return {
        **episode,
        "title": named.name or episode["title"],
        "agents": [
            {**each, "name": next(drivers) if each["role"] == DRIVER else each["name"]} for each in episode["agents"]
        ],
        "actions": {**actions, DISPATCHER: [told(name) for name in actions[DISPATCHER]]},
        "requests": renamed(episode["requests"], "name"),
        "vehicles": renamed(episode["vehicles"], "name"),
        "steps": [
            {**step, "why": {role: all_told(why) for role, why in step["why"].items()}} for step in episode["steps"]
        ],
        "shortfalls": {**left, "entries": renamed(left["entries"], "name", "why")},
    }


def _of_file(named: NamedDay, episode: dict[str, Any]) -> dict[str, Any]:
    """The episode with the clock and the map of a file, in minutes and km."""
    clock, place = named.clock, named.place
    times = dict.fromkeys(("arrival", "deadlines", "picked", "dropped", "clock"), clock)
    steps = [
        {**step, "offers": [origin.told(offer, (0.0, clock, clock)) for offer in step["offers"]]}
        for step in episode["steps"]
    ]
    return {
        **episode,
        "depot": origin.told(episode["depot"], place),
        "area": origin.told(episode["area"], place),
        "end": origin.told(episode["end"], clock),
        "requests": origin.told_entries(episode["requests"], {**times, "pickup": place, "dropoff": place}),
        "vehicles": origin.told_entries(episode["vehicles"], {"track": (clock, *place), "loads": (clock, 0.0)}),
        "steps": origin.told_entries(steps, times),
    }


def _step_entry(day: PlayedDay, index: int) -> dict[str, Any]:
    offers, chosen = day.states.offers, list(day.vehicles)
    rows = np.stack([offers.added[index], offers.pickup_start[index], offers.dropoff_start[index]], axis=1)
    feasible = np.asarray(offers.feasible[index])
    stops = np.isfinite(day.states.plans.start[index]).sum(axis=-1)
    return {
        "step": index,
        "clock": as_json(day.states.now[index]),
        "request": index if index < len(day.requests) else None,
        "offers": [[round(float(value), 2) for value in rows[v]] if feasible[v] else None for v in chosen],
        "stops": stops[chosen].tolist(),
    }


def _request(day: PlayedDay, request: int) -> dict[str, Any]:
    instance, found = day.instance, day.served.get(request)
    return {
        "name": f"request {request}",
        "arrival": as_json(instance.arrival[request]),
        "pickup": as_json(instance.pickup[request]),
        "dropoff": as_json(instance.dropoff[request]),
        "load": int(instance.load[request]),
        "value": as_json(instance.value[request]),
        "deadlines": [as_json(instance.pickup_deadline[request]), as_json(instance.dropoff_deadline[request])],
        "vehicle": day.vehicles.index(found.vehicle) if found else None,
        "picked": as_json_float32(found.pickup) if found else None,
        "dropped": as_json_float32(found.dropoff) if found else None,
    }


def _vehicle(day: PlayedDay, v: int) -> dict[str, Any]:
    track = day.tracks[v]
    points = np.column_stack([track.times, track.places]).round(3)
    return {
        "name": name_of(day, v),
        "capacity": int(day.instance.capacity[v]),
        "is_drone": bool(day.instance.is_drone[v]),
        "track": points.tolist(),
        "loads": [[as_json_float32(time), load] for time, load in track.loads],
    }


def _why_rejected(day: PlayedDay, steps: list[dict[str, Any]], request: int) -> str:
    """How many vehicles could have taken a request, at which least cost, and why the others could not."""
    step = steps[request]
    offers = {v: offer for v, offer in zip(day.vehicles, step["offers"], strict=True) if offer}
    told = [told_reason(step, DISPATCHER, 0, 1 + v) for v in day.vehicles if v not in offers]
    others = _together([str(reason) for reason in told])
    if not offers:
        return f"no vehicle could take it: {others}"
    best = min(offers, key=lambda v: offers[v][0])
    cost = f"{name_of(day, best)} for {shown_amount(offers[best][0])} min more travel"
    return f"{len(offers)} vehicles could have taken it, {cost}" + (f"; others: {others}" if others else "")


def _together(reasons: list[str]) -> str:
    """The commonest reasons, each with how many vehicles have it; of those that differ by their numbers the least."""

    def amount(reason: str) -> float:
        return float(re.findall(NUMBER, reason)[-1])

    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(re.sub(NUMBER, "…", reason), []).append(reason)
    words = []
    for alike in sorted(kinds.values(), key=len, reverse=True)[:3]:
        differ = len(set(alike)) > 1
        words.append(f"{len(alike)} x {min(alike, key=amount)} or more" if differ else f"{len(alike)} x {alike[0]}")
    return ", ".join(words)


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    point = list_of(number, length=3)
    vehicle = object_with(
        name=text, capacity=number, is_drone=boolean, track=list_of(point, least=1), loads=list_of(POINT, least=1)
    )
    object_with(vehicles=list_of(vehicle, least=1), requests=list_of(object_with()))(episode, "")
    fleet, count = len(episode["vehicles"]), len(episode["requests"])
    request = object_with(
        arrival=number,
        pickup=POINT,
        dropoff=POINT,
        load=number,
        value=number,
        deadlines=list_of(optional(number), length=2),
        vehicle=optional(whole_number(fleet)),
        picked=optional(number),
        dropped=optional(number),
    )
    object_with(
        depot=optional(POINT),
        area=list_of(POINT, length=2),
        zones=whole_number(),
        requests=list_of(all_of(request, optional_keys(name=text))),
        end=number,
        verdict=text,
        steps=list_of(
            object_with(
                clock=number,
                request=optional(whole_number(count)),
                offers=list_of(optional(point), length=fleet),
                stops=list_of(number, length=fleet),
            )
        ),
    )(episode, "")

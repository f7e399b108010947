"""A moment of a day as JSON: where vehicles are, and what they have promised but not begun; from a state, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.plans import DEADLINE, LOAD, REQUEST, SLACK, Plans, Prepared, begin, leaves, prepare
from jaxvrp.envs.dispatch.problem.day_file import (
    LENGTHS,
    NOT_NEGATIVE,
    PLACE,
    NamedDay,
    parse_day,
)
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, as_float32
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.envs.dispatch.schedule import rescheduled
from jaxvrp.io.json_files import plain, read_json
from jaxvrp.io.messages import nearest
from jaxvrp.io.problem_files import DamagedFileError
from jaxvrp.replay.schema import list_of, object_of_only, object_with, one_of, text

FORMAT = "jaxvrp-dispatch-moment-1"

PICKUP, DROPOFF = "pickup", "drop-off"

SPARE_STOPS = 8
"""Stops by which a plan may grow when requests move to it."""

STOP = object_of_only({"what": one_of(PICKUP, DROPOFF), "request": text}, {"begin": NOT_NEGATIVE})
VEHICLE = object_of_only({"id": text, "free": NOT_NEGATIVE, "stops": list_of(STOP)}, {"place": PLACE})
MOMENT = object_of_only(
    {"format": one_of(FORMAT), "now": NOT_NEGATIVE, "day": object_with(), "vehicles": list_of(VEHICLE)}, {}
)


class Moment(struct.PyTreeNode):
    """What can be planned again: a day with names, the clock in minutes, and plans."""

    day: NamedDay = struct.field(pytree_node=False)
    now: float = struct.field(pytree_node=False)
    prepared: Prepared
    plans: Plans


def moment_of(content: Mapping[str, Any], state: State) -> dict[str, Any]:
    """A state as a JSON object, which `train.solve` reads.

    Args:
        content: the day, a JSON object as of `parse_day`, with all requests of the state.
        state: of one environment, before or after a decision.
    """
    day = parse_day(content)
    km = LENGTHS[content.get("units", {}).get("length", "km")]
    place, free, stops = np.asarray(state.plans.place), np.asarray(state.plans.free), pending(day, state)
    vehicles = [
        {"id": name, "free": round(float(free[v]) / day.minutes, 6), "stops": stops[name]}
        | ({} if "depot" in content else {"place": [round(float(x) / km, 6) for x in place[:, v]]})
        for v, name in enumerate(day.vehicles)
    ]
    return {
        "format": FORMAT,
        "now": round(float(state.now) / day.minutes, 6),
        "day": dict(content),
        "vehicles": vehicles,
    }


def pending(day: NamedDay, state: State | Moment) -> dict[str, list[dict[str, Any]]]:
    """By vehicle, the stops that it has not begun, and when it will; for JSON, in names and units of the day."""
    stops, start = np.asarray(state.plans.stops), np.asarray(state.plans.start)
    return {
        name: [
            {
                "what": PICKUP if stops[LOAD, v, k] > 0 else DROPOFF,
                "request": day.requests[int(stops[REQUEST, v, k])],
                "begin": day.moment(start[v, k]),
            }
            for k in np.flatnonzero(np.isfinite(start[v]))
        ]
        for v, name in enumerate(day.vehicles)
    }


def planned_rows(moment: Moment) -> list[dict[str, Any]]:
    """The stops of vehicle after vehicle, with when it leaves for each and its load then, as rows of a plan."""
    day, plans = moment.day, moment.plans
    departs, stops, aboard = (np.asarray(a) for a in (leaves(moment.prepared, plans), plans.stops, plans.aboard))
    is_drone, has_depot = np.asarray(day.instance.is_drone), day.instance.depot is not None
    rows: list[dict[str, Any]] = []
    for v, (name, listed) in enumerate(pending(day, moment).items()):
        taken = -stops[LOAD, v] if has_depot else np.zeros_like(stops[LOAD, v])
        load = aboard[v] + (0.0 if is_drone[v] else taken.sum())
        for k, stop in enumerate(listed):
            load += stops[LOAD, v, k] + (taken[k] if is_drone[v] else 0.0)
            trip = (k + 1 if is_drone[v] else 1) if has_depot else None
            times = {"departs": day.moment(departs[v, k]), "begin": stop["begin"]}
            rows.append({"vehicle": name, "trip": trip, "stop": k + 1, **stop, **times, "load": round(float(load))})
    return rows


def read_moment(path: str | os.PathLike) -> Moment:
    """Read a moment.

    Raises:
        ValueError: it is none, or a promise can't be kept; one line that names the file and the place in it.
        OSError: it cannot be read.
    """
    return moment_in(read_json(path, "write a moment as docs/dispatch.md describes"), path)


def moment_in(content: Any, path: str | os.PathLike) -> Moment:
    """The moment that the JSON value of a file describes; errors as of `read_moment`."""
    try:
        return parse_moment(content)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None


def parse_moment(content: Mapping[str, Any]) -> Moment:
    """The moment that a JSON value describes; errors as of `read_moment`, without the file."""
    content = plain(content)
    MOMENT(content, "")
    try:
        day = parse_day(content["day"])
    except ValueError as error:
        raise ValueError(f"day: {error}") from None
    prepared = jax.tree.map(jnp.asarray, prepare(as_float32(day.instance)))
    entries = _by_vehicle(day, content["vehicles"])
    size = max((len(entry["stops"]) for entry in entries.values()), default=0) + SPARE_STOPS
    plans = jax.tree.map(np.array, begin(prepared, size))
    plans.free[:] = now = content["now"] * day.minutes
    km = LENGTHS[content["day"].get("units", {}).get("length", "km")]
    seen: dict[str, str] = {}
    for field, entry in entries.items():
        v = day.vehicles.index(entry["id"])
        if ("place" in entry) == (day.instance.depot is not None):
            remedy = "give place" if day.instance.depot is None else "leave it out: vehicles load at the depot"
            raise ValueError(f"{field} has {'no' if day.instance.depot is None else 'a'} place; {remedy}")
        plans.free[v] = entry["free"] * day.minutes
        if "place" in entry:
            plans.place[:, v] = plans.goal[:, v] = np.asarray(entry["place"]) * km
        _fill(day, field, entry, plans, v, seen)
    moment = Moment(day, now, prepared, rescheduled(prepared, jax.tree.map(jnp.asarray, plans)))
    _refuse_broken(moment, entries)
    return moment


def _by_vehicle(day: NamedDay, listed: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries by their place in the file."""
    names = [entry["id"] for entry in listed]
    for index, name in enumerate(names):
        if name not in day.vehicles:
            raise ValueError(f"vehicles[{index}].id: the day has no vehicle '{name}'; {nearest(name, day.vehicles)}")
        if name in names[:index]:
            raise ValueError(f"vehicles[{index}].id: '{name}' is listed twice; leave one out")
    if missing := [name for name in day.vehicles if name not in names]:
        raise ValueError(f"vehicles: {missing[0]} is not listed; list every vehicle of the day, also without stops")
    return {f"vehicles[{index}]": entry for index, entry in enumerate(listed)}


def _fill(day: NamedDay, field: str, entry: dict[str, Any], plans: Plans, v: int, seen: dict[str, str]) -> None:
    """Write the stops of a vehicle into plans of NumPy arrays; `seen` says where each request was named."""
    instance = day.instance
    picked: set[str] = set()
    pace = MINUTES_PER_HOUR * instance.detour[v] / instance.speed[v]
    for k, stop in enumerate(entry["stops"]):
        where, name, is_pickup = f"{field}.stops[{k}]", stop["request"], stop["what"] == PICKUP
        if name not in day.requests:
            raise ValueError(f"{where}.request: the day has no request '{name}'; {nearest(name, day.requests)}")
        if is_pickup and instance.depot is not None:
            raise ValueError(f"{where}: with a depot there are no pickups; leave it out")
        if name in seen and (is_pickup or name not in picked):
            raise ValueError(f"{where}: '{name}' stands at {seen[name]}, too; leave one out")
        seen[name] = where
        picked ^= {name} if is_pickup or name in picked else set()
        r, end = day.requests.index(name), "pickup" if is_pickup else "dropoff"
        place = np.asarray(getattr(instance, end)[r], float)
        load = int(instance.load[r])
        due = instance.arrival[r]
        if instance.depot is None and not is_pickup:
            due = due + pace * np.hypot(*(instance.pickup[r] - instance.dropoff[r]))
        window = getattr(instance, f"{end}_earliest")[r], getattr(instance, f"{end}_deadline")[r]
        plans.stops[:, v, k] = (*place, *window, load if is_pickup else -load, r, due)
        plans.start[v, k] = 0.0
        if instance.depot is None and not is_pickup and not _was_picked(entry["stops"][:k], name):
            plans.aboard[v] += load
    if picked:
        name = sorted(picked)[0]
        raise ValueError(f"{field}: '{name}' is picked up and never dropped off; add its drop-off")


def _was_picked(stops: list[dict[str, Any]], name: str) -> bool:
    return any(stop["request"] == name and stop["what"] == PICKUP for stop in stops)


def _refuse_broken(moment: Moment, entries: Mapping[str, Any]) -> None:
    """Refuse plans that break a deadline or a capacity: there is nothing that a search could keep."""
    day, instance, plans = moment.day, moment.day.instance, jax.tree.map(np.asarray, moment.plans)
    deadline, load = plans.stops[DEADLINE], plans.stops[LOAD]
    for field, entry in entries.items():
        v = day.vehicles.index(entry["id"])
        carried = plans.aboard[v] + np.cumsum(load[v])
        if instance.depot is not None:
            carried = -load[v] if instance.is_drone[v] else np.full_like(carried, -load[v].sum())
        for k, stop in enumerate(entry["stops"]):
            what = f"{field}.stops[{k}]: {stop['what']} of '{stop['request']}'"
            if plans.start[v, k] > deadline[v, k] + SLACK:
                late = f"{day.moment(plans.start[v, k]):g}, after its deadline, {day.moment(deadline[v, k]):g}"
                raise ValueError(f"{what} begins at {late}; give a plan that keeps it, or a later deadline")
            if max(carried[k], plans.aboard[v]) > instance.capacity[v]:
                raise ValueError(f"{what}: more on board than the capacity, {instance.capacity[v]}; correct the stops")
        if entry["stops"] and instance.depot is not None:
            _refuse_late_home(moment, field, v, plans)


def _refuse_late_home(moment: Moment, field: str, v: int, plans: Plans) -> None:
    instance = moment.day.instance
    count, pace = int(np.isfinite(plans.start[v]).sum()), MINUTES_PER_HOUR * instance.detour[v] / instance.speed[v]
    way = pace * np.hypot(*(plans.stops[:2, v, :count] - np.asarray(instance.depot)[:, None]))
    home = plans.start[v, :count] + instance.stop_time[v] + way
    left = np.asarray(leaves(moment.prepared, moment.plans))[v, :count] + instance.stop_time[v]
    if home[-1] > instance.horizon + SLACK:
        raise ValueError(f"{field} is home at {moment.day.moment(home[-1]):g}, after the horizon; correct the stops")
    if ((home - left) > instance.max_trip[v] + SLACK).any():
        raise ValueError(f"{field} makes a longer trip than its max_trip; correct the stops")

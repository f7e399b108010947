"""A moment of a day as JSON: where vehicles are, and what they have promised but not begun; from a state, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.moment.least_late import Call, Course, cost, least_late
from jaxvrp.envs.dispatch.problem.day_file import NOT_NEGATIVE, PLACE, NamedDay, parse_day, with_streets_of
from jaxvrp.envs.dispatch.problem.instance import Instance, Spot, as_float32, minutes_along, places_of_day, slack_of
from jaxvrp.envs.dispatch.routes.plans import DEADLINE, LOAD, REQUEST, Plans, Prepared, begin, leaves, prepare, way_home
from jaxvrp.envs.dispatch.routes.schedule import rescheduled
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.io.json_files import plain
from jaxvrp.io.messages import nearest
from jaxvrp.io.problems.problem_files import DamagedFileError
from jaxvrp.io.schema import boolean, list_of, object_of_only, object_with, one_of, text
from jaxvrp.io.units import LENGTHS

FORMAT = "jaxvrp-dispatch-moment-1"

PICKUP, DROPOFF = "pickup", "drop-off"

NEAR = 0.01
"""Kilometres from a place of the day at which a vehicle is there; files round."""

SPARE_STOPS = 8
"""Stops by which a plan may grow when requests move to it."""

STOP = object_of_only({"what": one_of(PICKUP, DROPOFF), "request": text}, {"begin": NOT_NEGATIVE})
VEHICLE = object_of_only({"id": text, "free": NOT_NEGATIVE, "stops": list_of(STOP)}, {"place": PLACE, "gone": boolean})
MOMENT = object_of_only(
    {"format": one_of(FORMAT), "now": NOT_NEGATIVE, "day": object_with(), "vehicles": list_of(VEHICLE)},
    {"cancelled": list_of(text)},
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
        {"id": name, "free": round((float(free[v]) + day.clock) / day.minutes, day.decimals + 3), "stops": stops[name]}
        | ({} if "depot" in content else {"place": (np.add(place[:2, v], day.place) / km).round(6).tolist()})
        for v, name in enumerate(day.vehicles)
    ]
    return {
        "format": FORMAT,
        "now": round((float(state.now) + day.clock) / day.minutes, day.decimals + 3),
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
                "begin": day.clock_time(start[v, k]),
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
            times = {"departs": day.clock_time(departs[v, k]), "begin": stop["begin"]}
            rows.append({"vehicle": name, "trip": trip, "stop": k + 1, **stop, **times, "load": round(float(load))})
    return rows


def moment_in(content: Any, path: str | os.PathLike) -> Moment:
    """The moment that the JSON value of a file describes; errors as of `parse_moment`, with the file."""
    try:
        return parse_moment({**content, "day": with_streets_of(content["day"], path)} if "day" in content else content)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None


def parse_moment(content: Mapping[str, Any]) -> Moment:
    """The moment that a JSON value describes.

    Raises:
        ValueError: it is none; one line that names the field, and what is wrong.
    """
    content = plain(content)
    MOMENT(content, "")
    try:
        day = parse_day(content["day"])
    except ValueError as error:
        raise ValueError(f"day: {error}") from None
    now = day.time(content["now"])
    cancelled = content.get("cancelled", ())
    for index, name in enumerate(cancelled):
        _refuse_unknown(day, f"cancelled[{index}]", name)
    entries = _by_vehicle(day, content["vehicles"])
    km = LENGTHS[content["day"].get("units", {}).get("length", "km")]
    seen: dict[str, str] = {}
    courses = {
        field: _course(day, field, entry, now, km, _calls(day, field, entry, now, cancelled, seen))
        for field, entry in entries.items()
    }
    gone = [field for field, entry in entries.items() if entry.get("gone")]
    homeless = [request for field in gone for request in _without_vehicle(day, field, courses[field])]
    here = [course for field, course in courses.items() if field not in gone]
    names = {entries[field]["id"] for field in gone}
    is_gone = np.array([name in names for name in day.vehicles])
    fleet = day.instance.replace(capacity=np.where(is_gone, 0, day.instance.capacity))
    try:
        here = least_late(fleet, here, homeless)
    except ValueError as error:
        name = day.requests[error.args[0]]
        raise ValueError(f"'{name}' has lost its vehicle, and no other can hold it; put it into cancelled") from None
    prepared = jax.tree.map(jnp.asarray, prepare(as_float32(fleet)))
    return _granted(Moment(day, now, prepared, _planned(day, prepared, here)))


def _by_vehicle(day: NamedDay, listed: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries by their place in the file."""
    names = [entry["id"] for entry in listed]
    for index, entry in enumerate(listed):
        field, name, depot = f"vehicles[{index}]", entry["id"], day.instance.depot
        if name not in day.vehicles:
            raise ValueError(f"{field}.id: the day has no vehicle '{name}'; {nearest(name, day.vehicles)}")
        if name in names[:index]:
            raise ValueError(f"{field}.id: '{name}' is listed twice; leave one out")
        if "place" in entry and depot is not None:
            raise ValueError(f"{field} has a place; leave it out: vehicles load at the depot")
        if "place" not in entry and depot is None and not entry.get("gone"):
            raise ValueError(f"{field} has no place; give place")
    if missing := [name for name in day.vehicles if name not in names]:
        raise ValueError(
            f"vehicles: {missing[0]} is not listed; list every vehicle of the day, also without stops, and one that "
            'is gone with "gone": true'
        )
    if all(entry.get("gone") for entry in listed):
        raise ValueError("vehicles: all are gone; there is nothing to plan")
    return {f"vehicles[{index}]": entry for index, entry in enumerate(listed)}


def _refuse_unknown(day: NamedDay, where: str, name: str) -> None:
    if name not in day.requests:
        raise ValueError(f"{where}: the day has no request '{name}'; {nearest(name, day.requests)}")


def _calls(
    day: NamedDay, field: str, entry: dict[str, Any], now: float, cancelled: Sequence[str], seen: dict[str, str]
) -> list[Call]:
    """The stops of a vehicle without those of cancelled requests; `seen` says where each request was named."""
    picked: set[str] = set()
    calls: list[Call] = []
    for k, stop in enumerate(entry["stops"]):
        where, name, is_pickup = f"{field}.stops[{k}]", stop["request"], stop["what"] == PICKUP
        _refuse_unknown(day, f"{where}.request", name)
        if is_pickup and day.instance.depot is not None:
            raise ValueError(f"{where}: with a depot there are no pickups; leave it out")
        if name in seen and (is_pickup or name not in picked):
            raise ValueError(f"{where}: '{name}' stands at {seen[name]}, too; leave one out")
        is_aboard = not is_pickup and name not in picked and day.instance.depot is None
        seen[name] = where
        picked ^= {name} if is_pickup or name in picked else set()
        request = day.requests.index(name)
        if day.instance.arrival[request] > now + slack_of(day.instance):
            arrival = f"{day.clock_time(day.instance.arrival[request]):.13g}, after now, {day.clock_time(now):.13g}"
            raise ValueError(f"{where}: '{name}' arrives at {arrival}; leave it out until then")
        if name not in cancelled:
            calls.append((request, is_pickup))
        elif is_aboard:
            raise ValueError(f"{where}: '{name}' is cancelled, but on board; take it out of cancelled")
    if picked:
        name = sorted(picked)[0]
        raise ValueError(f"{field}: '{name}' is picked up and never dropped off; add its drop-off")
    return calls


def _course(day: NamedDay, field: str, entry: dict[str, Any], now: float, km: float, calls: Sequence[Call]) -> Course:
    """What a vehicle has ahead; it begins nothing before now."""
    instance, v = day.instance, day.vehicles.index(entry["id"])
    place = _place(day, field, np.asarray(entry["place"]) * km) if "place" in entry else instance.start_of(v)
    aboard = sum(int(instance.load[request]) for request in _aboard(instance, calls))
    course = Course(v, place, max(day.time(entry["free"]), now), aboard, tuple(calls))
    if cost(instance, course)[0] == np.inf:
        raise ValueError(f"{field}: more on board than the capacity, {instance.capacity[v]}; correct the stops")
    return course


def _place(day: NamedDay, field: str, place: np.ndarray) -> Spot:
    """Where a vehicle is free, `f64[2]` in the user's kilometres."""
    here = place - day.place
    if day.instance.travel_time is None:
        return Spot(here)
    places = places_of_day(day.instance)
    away = np.linalg.norm(places - here, axis=1)
    row = int(away.argmin())
    if away[row] > NEAR:
        raise ValueError(
            f"{field}.place is {away[row]:.3g} km from any place of the day; along streets, give that of a start, a "
            "pickup or a drop-off"
        )
    return Spot(places[row], row)


def _aboard(instance: Instance, calls: Sequence[Call]) -> list[int]:
    """Passengers who are dropped off without a pickup."""
    return [request for request, _ in calls if (request, True) not in calls] if instance.depot is None else []


def _without_vehicle(day: NamedDay, field: str, course: Course) -> list[int]:
    """The requests of a vehicle that is gone."""
    if aboard := _aboard(day.instance, course.calls):
        raise ValueError(
            f"{field} is gone with '{day.requests[aboard[0]]}' on board; leave the stop out, and give the day another "
            "request, from where the vehicle stands"
        )
    return list(dict.fromkeys(request for request, _ in course.calls))


def _planned(day: NamedDay, prepared: Prepared, courses: Sequence[Course]) -> Plans:
    """Plans of these courses, every stop as early as it can be."""
    size = max((len(course.calls) for course in courses), default=0) + SPARE_STOPS
    plans = jax.tree.map(np.array, begin(prepared, size))
    for course in courses:
        v = course.vehicle
        plans.free[v], plans.aboard[v] = course.free, course.aboard
        if day.instance.depot is None:
            where = (*course.place.place, *([] if prepared.fleet.travel_time is None else [course.place.row]))
            plans.place[:, v] = plans.goal[:, v] = where
        for k, call in enumerate(course.calls):
            plans.stops[:, v, k], plans.start[v, k] = _stop(day.instance, v, *call), 0.0
    return rescheduled(prepared, jax.tree.map(jnp.asarray, plans))


def _stop(instance: Instance, v: int, request: int, is_pickup: bool) -> tuple[float, ...]:
    """The planes of a stop."""
    end = "pickup" if is_pickup else "dropoff"
    place, earliest, deadline = (getattr(instance, end + suffix)[request] for suffix in ("", "_earliest", "_deadline"))
    due = instance.arrival[request]
    if instance.depot is not None:
        due = max(due, instance.pickup_earliest[request])
    elif not is_pickup:
        due = due + minutes_along(instance, v, instance.spot_of(request, True), instance.spot_of(request))
    load = int(instance.load[request]) * (1 if is_pickup else -1)
    return (*place, earliest, deadline, load, request, due)


def _granted(moment: Moment) -> Moment:
    """The moment, in which what is late already may stay as late as it is planned, and may not get later."""
    prepared, plans = moment.prepared, moment.plans
    start = jnp.where(plans.present, plans.start, 0.0)
    moment = moment.replace(plans=plans.replace(stops=plans.stops.at[DEADLINE].max(start)))
    if prepared.fleet.depot is None:
        return moment
    home, trip = homecomings(prepared, plans)
    fleet = prepared.fleet.replace(
        home_by=jnp.maximum(prepared.fleet.latest_return, home.max(axis=-1)),
        max_trip=jnp.maximum(prepared.fleet.max_trip, trip.max(axis=-1)),
    )
    return moment.replace(prepared=prepared.replace(fleet=fleet))


def late(moment: Moment) -> list[tuple[str, str]]:
    """What is late in the plans: which request or vehicle, and a line that says how; vehicle after vehicle."""
    day, instance, found = moment.day, moment.day.instance, list[tuple[str, str]]()
    plans, granted = jax.tree.map(np.asarray, moment.plans), 2 * slack_of(instance)
    has_depot = instance.depot is not None
    home, trip = map(np.asarray, homecomings(moment.prepared, moment.plans) if has_depot else ((), ()))
    for v, (name, stops) in enumerate(pending(day, moment).items()):
        found += _late_stops(day, plans, v, stops)
        if not has_depot:
            continue
        if (last := home[v].max()) > float(instance.latest_return[v]) + granted:
            found.append((name, f"{name} is home at {day.clock_time(last):.13g}, after the horizon"))
        if trip[v].max() > instance.max_trip[v] + granted:
            found.append((name, f"{name} makes a longer trip than its max_trip"))
    return found


def _late_stops(day: NamedDay, plans: Plans, v: int, stops: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for k, stop in enumerate(stops):
        deadlines = day.instance.pickup_deadline if stop["what"] == PICKUP else day.instance.dropoff_deadline
        deadline = deadlines[int(plans.stops[REQUEST, v, k])]
        if plans.start[v, k] > deadline + 2 * slack_of(day.instance):
            times = f"begins at {stop['begin']:.13g}, after its deadline, {day.clock_time(deadline):.13g}"
            yield stop["request"], f"{stop['what']} of {stop['request']} {times}"


def homecomings(prepared: Prepared, plans: Plans) -> tuple[jax.Array, jax.Array]:
    """Were each stop the last of its trip, when the vehicle would be home, and how long the trip would be: `f32[V, S]`.

    0 where there is no stop. The last stop of a trip has the most, since no way is quicker by way of another place.
    """
    left = leaves(prepared, plans) + prepared.fleet.minutes_to_load[:, None]
    home = plans.start + prepared.fleet.stop_time[:, None] + way_home(prepared, plans)
    return jnp.where(plans.present, home, 0.0), jnp.where(plans.present, home - left, 0.0)

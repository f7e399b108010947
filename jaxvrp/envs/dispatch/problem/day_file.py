"""Days of the user's own: requests and vehicles with names, in the user's units; JSON files, and those of `save`."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.dispatch.problem.instance import (
    DEFAULTS,
    MINUTES_PER_HOUR,
    SCHEMA,
    Instance,
    count_places,
    from_origin,
    is_place,
    load,
    make_instance,
    origins_of,
)
from jaxvrp.geography.earth import Earth
from jaxvrp.geography.street_files import read_streets
from jaxvrp.geography.streets import matrix_of
from jaxvrp.io.clock import Clock, with_numbers
from jaxvrp.io.json_files import plain, read_json
from jaxvrp.io.limits import LARGEST, LARGEST_WHOLE, MOST_VEHICLES
from jaxvrp.io.messages import number
from jaxvrp.io.problems.problem_files import DamagedFileError, FileFormat, UnknownFormatError, read_problems
from jaxvrp.io.schema import anything, boolean, list_of, number_from, object_of_only, one_of, text, whole_number
from jaxvrp.io.units import LENGTHS, METRES, SECONDS, SPEEDS, TIMES

FORMAT = "jaxvrp-dispatch-day-1"

MOST_REQUESTS = 100_000
"""Of a day in a file."""

REMEDY = "write a day as docs/dispatch_days.md describes"

PLACE = list_of(number_from(-LARGEST), length=2)
NOT_NEGATIVE, POSITIVE = number_from(0), number_from(0, with_least=False)
WINDOW = {f"{end}_{edge}": NOT_NEGATIVE for end in ("pickup", "dropoff") for edge in ("earliest", "deadline")}
TIMED = ("arrival", *WINDOW)
"""Fields of a request that are times of the clock."""

REQUEST = object_of_only(
    {"arrival": NOT_NEGATIVE, "dropoff": PLACE},
    {"id": text, "pickup": PLACE, "load": whole_number(least=1), "value": number_from(-LARGEST), **WINDOW},
)
VEHICLE = object_of_only(
    {"speed": POSITIVE, "capacity": whole_number(least=1)},
    {
        "id": text,
        "start": PLACE,
        "detour": number_from(1),
        "stop_time": NOT_NEGATIVE,
        "loading_time": NOT_NEGATIVE,
        "turnaround": NOT_NEGATIVE,
        "max_trip": POSITIVE,
        "home_by": NOT_NEGATIVE,
        "is_drone": boolean,
    },
)
UNITS = object_of_only({}, {"length": one_of(*LENGTHS), "time": one_of(*TIMES), "speed": one_of(*SPEEDS)})
DAY = object_of_only(
    {
        "format": one_of(FORMAT),
        "horizon": POSITIVE,
        "vehicles": list_of(VEHICLE, most=MOST_VEHICLES),
        "requests": list_of(REQUEST, most=MOST_REQUESTS),
    },
    {
        "name": text,
        "start": text,
        "units": UNITS,
        "depot": PLACE,
        "area": list_of(PLACE, length=2),
        "travel_seed": whole_number(below=LARGEST_WHOLE),
        "streets": text,
        "travel_time": anything,
        "travel_distance": anything,
    },
)


@dataclasses.dataclass(frozen=True, eq=False)
class NamedDay:
    """A day with names."""

    instance: Instance  # in km and minutes, from `clock` and `place` on
    requests: tuple[str, ...]
    vehicles: tuple[str, ...]
    minutes: float = 1.0  # of the user's unit of time
    name: str = ""
    clock: float = 0.0  # minutes of the user's
    place: tuple[float, float] = (0.0, 0.0)  # kilometres of the user's
    start: Clock | None = None  # when the day begins, where the file says it; times are those of that clock
    earth: Earth | None = None  # which the plane of all places touches, if they were given in degrees
    scale: float = 1.0  # units of load of a kilogram
    addresses: tuple[str, ...] = ()  # of requests: what else is said of them, where that was given
    unit: str = "kg"  # of loads; "" for another one

    @classmethod
    def counted(cls, instance: Instance, requests: tuple[str, ...], vehicles: tuple[str, ...], **more: Any) -> NamedDay:
        """A day in km and minutes of the user's, counted from origins that `float32` can do with."""
        origins = origins_of(instance)
        clock, (x, y) = (origin.tolist() for origin in origins.values())
        return cls(from_origin(instance, origins), requests, vehicles, clock=clock, place=(x, y), **more)

    @property
    def decimals(self) -> int:
        """Of times in the user's unit: three, and more where a day is less than a hundred of them."""
        return max(3, 5 - math.floor(math.log10(float(self.instance.horizon) / self.minutes)))

    def clock_time(self, time: float) -> float:
        """A time of the instance on the user's clock, to a thousandth of the unit or less."""
        return round((float(time) + self.clock) / self.minutes, self.decimals) + 0.0

    def moment(self, time: float) -> float | str:
        """A time of the instance for people: as `clock_time`, or on the clock of a day that has a start."""
        return self.start.shown(float(time) + self.clock) if self.start else self.clock_time(time)

    def words(self, time: float) -> str:
        """The same in a sentence."""
        moment = self.moment(time)
        return moment if isinstance(moment, str) else f"{moment:.13g}"

    def lasting(self, minutes: float) -> float:
        """A length of time in the user's unit, to a thousandth of it or less."""
        return round(float(minutes) / self.minutes, self.decimals) + 0.0

    def amount(self, minutes: float) -> str:
        """A length of time for people: in the user's unit, or in minutes on the clock of a day that has a start."""
        unit = "min" if self.start else next(name for name, each in TIMES.items() if each == self.minutes)
        time = round(minutes / TIMES[unit], 3)
        return f"{number(time) if time < 100 else f'{time:.1f}'} {unit}"

    def time(self, moment: float) -> float:
        """A time on the user's clock in minutes of the instance."""
        return moment * self.minutes - self.clock


def read_days(path: str | os.PathLike) -> list[NamedDay]:
    """The days of an `.npz` of `jaxvrp.envs.dispatch.save`, or the day of a `.json`.

    Warns of requests that no vehicle can ever serve.

    Raises:
        ValueError: it holds none; one line that names the file, the place in it, and the remedy.
        OSError: it cannot be read.
    """
    formats = {
        ".npz": FileFormat("jaxvrp.envs.dispatch.save", _load_quietly),
        ".json": FileFormat(FORMAT, lambda path: day_in(read_json(path, REMEDY, (FORMAT,)), path)),
    }
    found = read_problems(path, formats, lambda read: () if isinstance(read, NamedDay) else read.load.shape[:-1])
    return [each if isinstance(each, NamedDay) else warned(_numbered(each), path) for each in found]


def warned(day: NamedDay, path: str | os.PathLike) -> NamedDay:
    """The day, after a warning of requests that no vehicle can ever serve."""
    if never := unservable(day):
        name, why = next(iter(never.items()))
        more = f" and {len(never) - 1} more" if len(never) > 1 else ""
        warnings.warn(f"{path}: no vehicle can ever serve {name}{more}; rejected whatever is done: {why}", stacklevel=2)
    return day


def _load_quietly(path: str | os.PathLike) -> Instance:
    """`load`, whose warning of loads `read_days` repeats with more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(path)


def _numbered(instance: Instance) -> NamedDay:
    """A day without names and without padding."""
    exists = {"requests": instance.load > 0, "vehicles": instance.capacity > 0}
    if not exists["vehicles"].any():
        raise ValueError("a day has no vehicle; give at least one, with a capacity of at least 1")
    places = is_place(instance)
    rows = {name: exists.get(field.axis or "", ...) for name, field in SCHEMA.items()}
    rows |= dict.fromkeys(("travel_time", "travel_distance"), np.ix_(places, places))
    kept = {name: None if value is None else value[rows[name]] for name, value in vars(instance).items()}
    day = Instance(**kept)
    return NamedDay.counted(day, _names("request", [{}] * day.max_requests), _names("vehicle", [{}] * day.num_vehicles))


def day_in(content: Any, path: str | os.PathLike) -> NamedDay:
    """The day that the JSON value of a file describes; warnings and errors as of `read_days`."""
    if not (isinstance(content, dict) and content.get("format") == FORMAT):
        raise UnknownFormatError(f'{path} has no "format": "{FORMAT}"; {REMEDY}')
    try:
        return warned(parse_day(with_streets_of(content, path)), path)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None


def with_streets_of(content: Mapping[str, Any], path: str | os.PathLike) -> Mapping[str, Any]:
    """The JSON value of a file; with `travel_time` and `travel_distance` if its `streets` names a table in its folder.

    Raises:
        ValueError: there is no such table; one line that names the file, the field, row and column.
    """
    name = content.get("streets") if isinstance(content, Mapping) else None
    if not isinstance(name, str):
        return content
    if both := sorted(content.keys() & {"travel_time", "travel_distance"}):
        raise ValueError(f"streets: {both[0]} says how long ways are, too; leave one of them out")
    try:
        table = read_streets(pathlib.Path(path).parent / name)
    except OSError as error:
        raise ValueError(f"streets: cannot read {name}: {error.strerror}; give another file") from None
    if content.get("depot") is not None:  # else a request has two rows
        requests = content.get("requests")
        names = [str(entry.get("id")) for entry in requests or () if isinstance(entry, Mapping)]
        table = table.in_order(names, f"streets: {name}")
    units = content.get("units") or {}
    found = {"travel_time": table.seconds / (SECONDS * TIMES.get(units.get("time") or "min", 1.0))}
    if table.metres is not None:
        found["travel_distance"] = table.metres / (METRES * LENGTHS.get(units.get("length") or "km", 1.0))
    return {**content, "streets": None, **found}


def parse_day(content: Mapping[str, Any]) -> NamedDay:
    """The day that a JSON value describes; what is null is left out.

    Raises:
        ValueError: it is none, or names `streets`, see `with_streets_of`; one line that names the field, and what is
            wrong.
    """
    content, start = with_numbers(plain(content), "requests", TIMED)
    DAY(content, "")
    _refuse_wrong(content)
    units = {"length": "km", "time": "min", "speed": "km/h", **content.get("units", {})}
    km, minutes = LENGTHS[units["length"]], TIMES[units["time"]]
    numbers = _numbers(content, km, minutes, SPEEDS[units["speed"]])
    depot = np.asarray(content["depot"]) * km if "depot" in content else None
    places = (numbers["start"], numbers["pickup"]) if depot is None else (depot,)
    with warnings.catch_warnings():
        # `read_days` says more of requests that are too large.
        warnings.filterwarnings("ignore", ".* exceed every vehicle's capacity")
        instance = make_instance(
            **numbers,
            depot=depot,
            horizon=content["horizon"] * minutes,
            area=np.asarray(content["area"]) * km if "area" in content else _around(*places, numbers["dropoff"]),
            travel_seed=content.get("travel_seed"),
            **_streets(content, {"travel_time": minutes, "travel_distance": km}),
            **_limits_of_some(content["vehicles"], content["horizon"], minutes),
        )
    names = (_names(kind, content[f"{kind}s"]) for kind in ("request", "vehicle"))
    return NamedDay.counted(instance, *names, minutes=minutes, name=content.get("name", ""), start=start)


def _refuse_wrong(content: Mapping[str, Any]) -> None:
    """Refuse what no field of a day says by itself."""
    if "streets" in content:
        raise ValueError("streets names a file; give travel_time, or write the day to a file beside it")
    if not content["vehicles"]:
        raise ValueError("vehicles: a day has no vehicle; give at least one")
    for field, place in (("requests", "pickup"), ("vehicles", "start")):
        _refuse_wrong_places(field, content[field], place, "depot" in content)
    for before, (earlier, later) in enumerate(itertools.pairwise(content["requests"])):
        if later["arrival"] < earlier["arrival"]:
            raise ValueError(
                f"requests[{before + 1}].arrival is {later['arrival']:g}, before that of requests[{before}], "
                f"{earlier['arrival']:g}; sort requests by arrival"
            )


def _numbers(content: Mapping[str, Any], km: float, minutes: float, kmh: float) -> dict[str, np.ndarray]:
    """Those of all requests and vehicles, in km, minutes and km/h; units are of the file. No place of the depot."""
    defaults = {**DEFAULTS, "pickup_deadline": np.inf, "dropoff_deadline": np.inf}
    units = {name: {"clock": minutes, "map": km}.get(field.origin or "", 1.0) for name, field in SCHEMA.items()}
    units |= {"stop_time": minutes, "turnaround": minutes, "max_trip": minutes, "speed": kmh}
    at_depot = ("pickup", "start") if "depot" in content else ()
    found = {}
    for name, field in SCHEMA.items():
        if field.axis in ("requests", "vehicles") and not field.optional and name not in at_depot:
            values = [entry.get(name, defaults.get(name)) for entry in content[field.axis]]
            found[name] = np.asarray(values).reshape(-1, *field.inner) * units[name]
    return found


def _streets(content: Mapping[str, Any], units: Mapping[str, float]) -> dict[str, np.ndarray]:
    """The matrices that a day has, in minutes and kilometres: of its places in their order, see `Instance`."""
    has_depot = "depot" in content
    size = count_places(len(content["requests"]), len(content["vehicles"]), has_depot)
    locations = "the depot" if has_depot else "each vehicle's start, then each pickup"
    locations += ", then each drop-off"
    return {
        name: unit * matrix_of(content[name], name, size, locations) for name, unit in units.items() if name in content
    }


def _limits_of_some(vehicles: Sequence[Mapping[str, Any]], horizon: float, minutes: float) -> dict[str, np.ndarray]:
    """Numbers, in minutes, that a day has only if one of its vehicles has them; others have what holds without."""
    found = {
        "loading_time": [entry.get("loading_time", entry.get("stop_time", 0.0)) for entry in vehicles],
        "home_by": [entry.get("home_by", horizon) for entry in vehicles],
    }
    return {
        name: np.asarray(values) * minutes for name, values in found.items() if any(name in entry for entry in vehicles)
    }


def _refuse_wrong_places(field: str, entries: Sequence[Mapping[str, Any]], place: str, has_depot: bool) -> None:
    for index, entry in enumerate(entries):
        if (place in entry) == has_depot:
            remedy = f"leave out {place}, or the depot" if has_depot else f"give {place}, or a depot for all"
            raise ValueError(f"{field}[{index}] has {'a' if has_depot else 'no'} {place}; {remedy}")


def _names(kind: str, entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = [entry.get("id", f"{kind}_{index}") for index, entry in enumerate(entries)]
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if (first := seen.setdefault(name, index)) < index:
            raise ValueError(f"{kind}s[{index}].id: '{name}' is the id of {kind}s[{first}], too; rename one")
    return tuple(names)


def _around(*places: np.ndarray) -> np.ndarray:
    """The box of all places, `[2, 2]`; no side less than a tenth of the other, and 1 km around a single place."""
    points = np.concatenate([np.asarray(group, float).reshape(-1, 2) for group in places])
    low, high = points.min(axis=0), points.max(axis=0)
    least = 0.1 * (high - low).max() or 1.0
    wider = np.maximum(least - (high - low), 0.0) / 2
    return np.stack([low - wider, high + wider])


def _direct_ways(day: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Minutes of each vehicle from a request's pickup to its drop-off, and back: `f[R, V]` each."""
    way = MINUTES_PER_HOUR * day.detour / day.speed * np.linalg.norm(day.pickup - day.dropoff, axis=-1)[:, None]
    if day.travel_time is None:
        return way, way
    requests = np.arange(day.max_requests)
    origin, target = (0 if day.depot is not None else day.row_of(requests, True)), day.row_of(requests)
    ways = day.travel_time[origin, target], day.travel_time[target, origin]
    out, back = (np.where(day.is_drone, way, each[:, None]) for each in ways)
    return out, back


def unservable(named: NamedDay) -> dict[str, str]:
    """Requests that no vehicle can serve, even with nothing else to do and at the right place when they arrive: why."""
    day = jax.tree.map(np.asarray, named.instance)
    way, back = _direct_ways(day)
    pickup = np.broadcast_to(np.maximum(day.arrival, day.pickup_earliest)[:, None], way.shape)
    dropoff = np.maximum(pickup + day.minutes_to_load + way, day.dropoff_earliest[:, None])
    limits = [  # what each vehicle comes to, the limit of it, and words
        (np.broadcast_to(day.load[:, None], way.shape), day.capacity, "its load is above every capacity"),
        (pickup, day.pickup_deadline[:, None], "it can't be picked up before {}, and its deadline is {}"),
        (dropoff, day.dropoff_deadline[:, None], "it can't be dropped off before {}, and its deadline is {}"),
    ]
    if day.depot is not None:
        limits[1] = (way + back + day.stop_time, day.max_trip, "its trip is longer than every max_trip")
        limits.append(
            (dropoff + day.stop_time + back, day.latest_return, "no vehicle is home before {}, after the horizon, {}")
        )
    can, found = np.broadcast_to(day.capacity > 0, way.shape), {}
    for reached, limit, words in limits:
        most = np.broadcast_to(limit, way.shape)
        within = can & (reached <= most)
        for request in np.flatnonzero((day.load > 0) & can.any(axis=1) & ~within.any(axis=1)).tolist():
            least = np.argmin(np.where(can[request], reached[request], np.inf))
            times = (named.words(each[request, least]) for each in (reached, most))
            found[request] = words.format(*times)
        can = within
    return {named.requests[request]: found[request] for request in sorted(found)}

"""The files of Murray & Raj (2020): a folder with places and times of the truck, a table of vehicles for all folders.

`tbl_locations.csv` has `node, type, latitude, longitude, altitude, parcel's pounds` in each line, the depot first;
`tbl_truck_travel_data_PG.csv` has `from, to, seconds, metres`. `tbl_vehicles_10x.csv`, in the folder above, has the
truck and then the drones, see `VEHICLE`. Lines that begin with `%` are comments.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from jaxvrp.envs.flying_sidekicks.instance import Instance, make_instance
from jaxvrp.io.text_lines import Line, read_lines

LOCATIONS, ROADS = "tbl_locations.csv", "tbl_truck_travel_data_PG.csv"

VEHICLES = ("tbl_vehicles_101.csv", "tbl_vehicles_102.csv", "tbl_vehicles_103.csv", "tbl_vehicles_104.csv")

VEHICLE = (
    *("vehicle", "type", "take-off speed", "cruise speed", "landing speed", "yaw rate", "cruise altitude"),
    *("capacity", "launch time", "recovery time", "service time", "battery", "range"),
)
"""Columns: metres per second, degrees per second, metres, pounds, seconds, Joule."""

DIVISORS = ("take-off speed", "cruise speed", "landing speed", "yaw rate")

ENDURANCES = {291094: 700.0, 562990: 1400.0, 457503: 350.0, 904033: 700.0}
"""The paper's fixed endurance, in seconds, by the Joule of the battery."""

EARTH, POUND, GRAVITY, FRAME = 6378100.0, 0.453592, 9.8, 1.5
"""Radius in metres, kg of a pound, m/s², and the kg of a drone in the paper's model of power."""

MOST_DRONES = 4
"""In each table of vehicles."""

MOST_NODES = 250
"""Nodes of a folder at most: the tables of times of all its instances take 200 MB then."""


def read_murray_raj(
    folder: str | os.PathLike, vehicles: str | os.PathLike, *, num_drones: int, battery: bool = False
) -> Instance:
    """Read an instance with the first drones of a table, as NumPy arrays; in seconds, and metres east and north.

    A drone flies straight: it takes off, turns by 180 degrees, cruises and lands. Its endurance is fixed
    (`ENDURANCES`), or, with `battery`, its battery drains by the paper's non-linear model of power, in seconds of
    hovering.

    Raises:
        ValueError: a file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: one cannot be read.
    """
    return _Set(_Places(Path(folder)), Path(vehicles)).instance(num_drones, battery=battery)


def tables_of(folder: str | os.PathLike) -> list[Path]:
    """The tables of vehicles of a folder, in the one above."""
    # Of `Path(".")`, the parent is itself.
    return [Path(os.path.abspath(folder)).parent / name for name in VEHICLES]


def read_all(folder: str | os.PathLike) -> list[Instance]:
    """All instances of a folder: with a fixed endurance, of each table of `VEHICLES` with 1 to `MOST_DRONES` drones;
    then likewise with a battery.

    Raises:
        ValueError, OSError: as `read_murray_raj`.
    """
    places = _Places(Path(folder))
    sets = [_Set(places, vehicles) for vehicles in tables_of(folder)]
    counts = range(1, MOST_DRONES + 1)
    return [each.instance(count, battery=battery) for battery in (False, True) for each in sets for count in counts]


class _Places:
    """What the files of a folder say."""

    def __init__(self, folder: Path):
        lines = _table(folder / LOCATIONS, 6)
        lines[-1].expect(len(lines) <= MOST_NODES, f"at most {MOST_NODES} nodes, found {len(lines)}", "take fewer")
        rows = np.array([[line.real("a number", word) for word in line.separated(6)] for line in lines])
        for node, (line, row) in enumerate(zip(lines, rows, strict=True)):
            line.expect(row[0] == node and row[1] == min(node, 1), f"node {node}, of type {min(node, 1)}")
            for name, degrees, most in zip(("latitude", "longitude"), row[2:4], (90, 180), strict=True):
                line.expect(abs(degrees) <= most, f"a {name} from -{most} to {most}, found {degrees:g}")
        latitude, longitude = np.radians(rows[:, 2:4]).T
        self.metres, self.pounds = _metres(latitude, longitude), rows[:, 5]
        east = (longitude - longitude[0]) * math.cos(latitude[0])
        self.locs = EARTH * np.stack([east, latitude - latitude[0]], axis=1)
        self.truck_time = _roads(folder / ROADS, len(rows))


class _Set:
    """The instances of a folder's places with the vehicles of a table."""

    def __init__(self, places: _Places, vehicles: Path):
        self.places = places
        self.truck, *self.lines = _table(vehicles, len(VEHICLE))
        self.drones = [
            {name: line.real(name, word) for name, word in line.fields(VEHICLE).items() if name != "range"}
            for line in self.lines
        ]
        for line, figures in zip(self.lines, self.drones, strict=True):
            for name in DIVISORS:
                line.expect(figures[name] > 0, f"a {name} above 0, found {figures[name]:g}")
        self.flights = [_Flights(each, places.metres, places.pounds * POUND) for each in self.drones]

    def instance(self, num_drones: int, *, battery: bool) -> Instance:
        """The instance with the first `num_drones` of the drones."""
        wanted = f"lines of {num_drones} drones below this one, found {len(self.lines)}"
        self.truck.expect(len(self.lines) >= num_drones, wanted)
        if num_drones < 1:
            raise ValueError(f"num_drones is {num_drones}; it must be at least 1")
        places, drones, flights = self.places, self.drones[:num_drones], self.flights[:num_drones]
        service = np.full(len(places.locs), self.truck.real("service time", self.truck.fields(VEHICLE)["service time"]))
        service[0] = 0.0
        fixed = [] if battery else [_fixed(line, each) for line, each in zip(self.lines, drones, strict=False)]
        return make_instance(
            places.locs,
            truck_time=places.truck_time,
            service=service,
            no_fly=[places.pounds > each["capacity"] for each in drones],
            drone_time=[each.time for each in flights],
            drone_service=[each["service time"] for each in drones],
            launch_time=[each["launch time"] for each in drones],
            recovery_time=[each["recovery time"] for each in drones],
            endurance=[each.battery for each in flights] if battery else fixed,
            drain_out=[each.out for each in flights] if battery else None,
            drain_back=[each.back for each in flights] if battery else None,
        )


def _fixed(line: Line, figures: dict[str, float]) -> float:
    battery = int(figures["battery"])
    line.expect(battery in ENDURANCES, f"a battery whose endurance is known ({', '.join(map(str, ENDURANCES))})")
    return ENDURANCES[battery]


class _Flights:
    """Times of a drone between all nodes in seconds, and what they take of its battery, in seconds of hovering."""

    def __init__(self, figures: dict[str, float], metres: np.ndarray, load: np.ndarray):
        self.figures = figures
        moves = metres > 0
        self.up = moves * (figures["cruise altitude"] / figures["take-off speed"] + 180.0 / figures["yaw rate"])
        self.along = metres / figures["cruise speed"]
        self.down = moves * figures["cruise altitude"] / figures["landing speed"]
        self.time = self.up + self.along + self.down
        hovering = _power(0.0, 0.0, 0.0)
        self.battery = figures["battery"] / hovering
        columns = [self._energy(mass)[:, node] for node, mass in enumerate(np.maximum(load, 0.0))]
        self.out, self.back = np.stack(columns, axis=1) / hovering, self._energy(0.0) / hovering

    def _energy(self, load: float) -> np.ndarray:
        """`f64[n, n]`, Joule, with so many kg on board."""
        figures = self.figures
        return (
            self.up * _power(load, 0.0, figures["take-off speed"])
            + self.along * _power(load, figures["cruise speed"], 0.0)
            + self.down * _power(load, 0.0, figures["landing speed"])
        )


def _power(load: float, cruise: float, vertical: float) -> float:
    """Watt at a horizontal and a vertical speed: induced, profile and parasite power."""
    lift = (FRAME + load) * GRAVITY - 0.0279 * (cruise * math.cos(math.radians(10.0))) ** 2
    thrust = math.hypot(lift, 0.0296 * cruise**2)
    induced = 0.8554 * thrust * (vertical / 2 + math.sqrt((vertical / 2) ** 2 + thrust / 0.3051**2))
    return induced + 0.3177 * thrust**1.5 + 0.0296 * cruise**3


def _metres(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    """`f64[n, n]`, along great circles."""
    across, along = latitude[:, None] - latitude, longitude[:, None] - longitude
    chord = np.sin(across / 2) ** 2 + np.cos(latitude[:, None]) * np.cos(latitude) * np.sin(along / 2) ** 2
    return 2 * EARTH * np.arcsin(np.sqrt(chord))


def _roads(path: Path, count: int) -> np.ndarray:
    """`f64[count, count]`, seconds."""
    times = np.full((count, count), np.nan)
    for line in (lines := _table(path, 4)):
        words = line.separated(4)
        start, end = (line.whole("a node", word, minimum=0) for word in words[:2])
        line.expect(max(start, end) < count, f"nodes below {count}, found {words[0]} and {words[1]}")
        times[start, end] = line.real("seconds", words[2])
        line.expect(times[start, end] >= 0, "seconds of at least 0")
    missing = np.argwhere(np.isnan(times))
    lines[-1].expect(not len(missing), f"a line for each way, found none from {missing[:1].tolist()}", "restore it")
    return times


def _table(path: Path, columns: int) -> list[Line]:
    """The lines of a table without comments."""
    lines = [line for line in read_lines(path, "a table of Murray & Raj") if not line.text.lstrip('"').startswith("%")]
    if not lines:
        raise ValueError(f"{path}: expected a table of Murray & Raj, found comments only; give a whole file")
    for line in lines:
        found = len(line.separated(columns))
        line.expect(found == columns, f"{columns} numbers between commas, found {found}")
    return lines

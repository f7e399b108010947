"""One day of `dispatch` in plain NumPy: the ground truth of the parity test and the baseline of the benchmark.

Written from the spec alone, independent of the JAX environment: every plan that an insertion would lead to is driven
from its beginning, stop by stop. Kilometres, minutes, km/h.

A vehicle is free at a place and a time, and has stops that it has not begun. A ride's vehicle begins a stop when it
leaves for it. A vehicle with a depot begins a trip when it loads; a drone makes one trip for each parcel.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import jax
import numpy as np

from benchmarks.subject import Subject, choose
from jaxvrp.envs.dispatch.problem.instance import Instance

SLACK = 1e-3  # minutes, on every deadline
TIE = 1e-3  # minutes by which added travel is alike
LATELY = 1 / 12  # of the horizon
DAYS = 8  # that random play takes in turn


@dataclasses.dataclass(frozen=True)
class Stop:
    """A pickup or a drop-off of a request that a vehicle has not begun."""

    request: int
    is_pickup: bool


@dataclasses.dataclass
class Vehicle:
    """Where and when it is free, its load then, where it goes without stops, and its stops."""

    place: np.ndarray
    free: float
    aboard: int
    goal: np.ndarray
    stops: list[Stop]


@dataclasses.dataclass(frozen=True)
class Served:
    """A stop that was begun: by which vehicle, and when its service, and the load on the way there, began."""

    vehicle: int
    stop: Stop
    start: float
    loaded: float
    home: float


@dataclasses.dataclass(frozen=True)
class Offer:
    """The best insertion of a vehicle: the stops then, what it adds, and the numbers that are seen."""

    stops: list[Stop]
    added: float
    positions: tuple[int, int]
    pickup_start: float
    dropoff_start: float
    slack: float


class NumpyDispatch:
    """A day that is played by numbers: 0 rejects, 1 + v gives the request at hand to vehicle v."""

    def __init__(self, instance: Instance, max_stops: int, zones: int, travel_price: float = 0.0):
        """`zones` on a side of the grid; 0 for days with a depot."""
        self.day = instance
        self.max_stops, self.zones, self.travel_price = max_stops, zones, travel_price
        self.trips = instance.depot is not None
        self.num_vehicles = len(instance.capacity)
        self.num_requests = int(np.count_nonzero(instance.load))
        self.pace = 60.0 * np.asarray(instance.detour, float) / np.asarray(instance.speed, float)
        self.vehicles = [self._at_start(v) for v in range(self.num_vehicles)]
        self.begun: list[Served] = []
        self.step_number, self.invalid_actions, self.value, self.served = 0, 0, 0.0, 0
        self.travel = np.zeros(self.num_vehicles)
        self.now = 0.0
        if not self.done:
            self.now = float(instance.arrival[0])
            self._advance(self.now)

    def _at_start(self, v: int) -> Vehicle:
        place = np.asarray(self.day.depot if self.trips else self.day.start[v], float)
        return Vehicle(place, 0.0, 0, place, [])

    @property
    def done(self) -> bool:
        """Whether all requests are decided on."""
        return self.step_number >= self.num_requests

    # --- plans ------------------------------------------------------------------------------------------------------

    def _place(self, stop: Stop) -> np.ndarray:
        return np.asarray(self.day.pickup[stop.request] if stop.is_pickup else self.day.dropoff[stop.request], float)

    def _window(self, stop: Stop) -> tuple[float, float]:
        end = "pickup" if stop.is_pickup else "dropoff"
        return (
            float(getattr(self.day, f"{end}_earliest")[stop.request]),
            float(getattr(self.day, f"{end}_deadline")[stop.request]),
        )

    def _way(self, v: int, a: np.ndarray, b: np.ndarray) -> float:
        return float(np.hypot(*(a - b))) * float(self.pace[v])

    def _drive(self, v: int, stops: list[Stop]) -> tuple[list[Served], float]:
        """When each stop begins, if these are the stops of a vehicle, and all minutes of travel."""
        if not self.trips:
            return self._ride(v, stops)
        trips = [[stop] for stop in stops] if self.day.is_drone[v] else [stops] if stops else []
        time, travel, served = self.vehicles[v].free, 0.0, []
        depot = np.asarray(self.day.depot, float)
        for trip in trips:
            loaded, here = time, depot
            time += float(self.day.stop_time[v])
            on_trip = []
            for stop in trip:
                way = self._way(v, here, self._place(stop))
                here, travel = self._place(stop), travel + way
                start = max(self._window(stop)[0], time + way)
                on_trip.append((stop, start))
                time = start + float(self.day.stop_time[v])
            way = self._way(v, here, depot)
            home, travel = time + way, travel + way
            served += [Served(v, stop, start, loaded, home) for stop, start in on_trip]
            time = home + float(self.day.turnaround[v])
        return served, travel

    def _ride(self, v: int, stops: list[Stop]) -> tuple[list[Served], float]:
        time, here, travel, served = self.vehicles[v].free, self.vehicles[v].place, 0.0, []
        for stop in stops:
            way = self._way(v, here, self._place(stop))
            here, travel = self._place(stop), travel + way
            start = max(self._window(stop)[0], time + way)
            served.append(Served(v, stop, start, time, math.inf))
            time = start + float(self.day.stop_time[v])
        return served, travel

    def _slack(self, v: int, served: list[Served]) -> float:
        """The least of the minutes that are left before a deadline; inf without stops."""
        left = [self._window(entry.stop)[1] - entry.start for entry in served]
        if self.trips:
            for entry in served:
                leave = entry.loaded + float(self.day.stop_time[v])
                left.append(min(float(self.day.horizon), leave + float(self.day.max_trip[v])) - entry.home)
        return min(left, default=math.inf)

    def _holds(self, v: int, stops: list[Stop]) -> bool:
        """Whether the load fits all the way, and the plan is not too long."""
        if len(stops) > self.max_stops:
            return False
        capacity, loads = int(self.day.capacity[v]), [int(self.day.load[stop.request]) for stop in stops]
        if self.trips:
            return max(loads, default=0) <= capacity if self.day.is_drone[v] else sum(loads) <= capacity
        aboard = self.vehicles[v].aboard
        for stop, load in zip(stops, loads, strict=True):
            aboard += load if stop.is_pickup else -load
            if aboard > capacity:
                return False
        return True

    def offer(self, v: int, request: int) -> Offer | None:
        """The cheapest feasible insertion, the earliest of those that are alike; None if there is none."""
        planned, count = self.vehicles[v].stops, len(self.vehicles[v].stops)
        _, travel_before = self._drive(v, planned)
        found = []
        for i, j in self._pairs(v, count):
            stops = list(planned)
            stops.insert(j, Stop(request, False))
            if not self.trips:
                stops.insert(i, Stop(request, True))
            if not self._holds(v, stops):
                continue
            served, travel = self._drive(v, stops)
            slack = self._slack(v, served)
            if slack >= -SLACK:
                own = {entry.stop.is_pickup: entry for entry in served if entry.stop.request == request}
                picked = own[False].loaded if self.trips else own[True].start
                found.append(Offer(stops, travel - travel_before, (i, j), picked, own[False].start, slack))
        least = min((offer.added for offer in found), default=math.inf)
        return next((offer for offer in found if offer.added <= least + TIE), None)

    def _pairs(self, v: int, count: int) -> list[tuple[int, int]]:
        """Positions before which the pickup and the drop-off may be, in the order of preference."""
        if not self.trips:
            return [(i, j) for i in range(count + 1) for j in range(i, count + 1)]
        return [(j, j) for j in range(count if self.day.is_drone[v] else 0, count + 1)]

    def offers(self) -> list[Offer | None]:
        """Of each vehicle, for the request at hand."""
        if self.done:
            return [None] * self.num_vehicles
        return [self.offer(v, self.step_number) for v in range(self.num_vehicles)]

    # --- time -------------------------------------------------------------------------------------------------------

    def _advance(self, until: float) -> None:
        for v in range(self.num_vehicles):
            self._begin_stops(v, until)
            if math.isfinite(until) and not self.vehicles[v].stops:
                self._wait(v, until)

    def _begin_stops(self, v: int, until: float) -> None:
        vehicle = self.vehicles[v]
        while vehicle.stops:
            served, _ = self._drive(v, vehicle.stops)
            first = served[0]
            if self.trips and vehicle.free > until:
                return
            if not self.trips and vehicle.free >= until and first.start > until:
                return
            stop_time = float(self.day.stop_time[v])
            if self.trips:
                trip = served[:1] if self.day.is_drone[v] else served
                vehicle.free = first.home + float(self.day.turnaround[v])
            else:
                trip = [first]
                load = int(self.day.load[first.stop.request])
                vehicle.place, vehicle.free = self._place(first.stop), first.start + stop_time
                vehicle.aboard += load if first.stop.is_pickup else -load
                vehicle.goal = vehicle.place
            self.begun += trip
            vehicle.stops = vehicle.stops[len(trip) :]

    def _wait(self, v: int, until: float) -> None:
        """Until then without a plan: on the way to the goal, or waiting."""
        vehicle = self.vehicles[v]
        if until <= vehicle.free:
            return
        way = self._way(v, vehicle.place, vehicle.goal)
        driven = min(way, until - vehicle.free)
        if way > 0:
            vehicle.place = vehicle.place + driven / way * (vehicle.goal - vehicle.place)
        self.travel[v] += driven
        vehicle.free = until

    # --- decisions --------------------------------------------------------------------------------------------------

    def is_idle(self, v: int) -> bool:
        """Whether it has nothing to do."""
        vehicle = self.vehicles[v]
        return not vehicle.stops and vehicle.free <= self.now and self.day.capacity[v] > 0

    def masks(self) -> dict[str, np.ndarray]:
        """`{"dispatcher": bool[1, V + 1], "vehicle": bool[V, Z + 1]}`, the latter with zones."""
        masks = {"dispatcher": np.array([[True] + [offer is not None for offer in self.offers()]])}
        if self.zones:
            idle = np.array([self.is_idle(v) for v in range(self.num_vehicles)])
            may_go = np.repeat(idle[:, None], self.zones**2, axis=1)
            masks["vehicle"] = np.concatenate([np.ones((self.num_vehicles, 1), bool), may_go], axis=1)
        return masks

    def middle(self, zone: int) -> np.ndarray:
        """The middle of a zone of the grid."""
        least, most = np.asarray(self.day.area, float)
        cell = np.array([zone % self.zones, zone // self.zones])
        return least + (cell + 0.5) / self.zones * (most - least)

    def step(self, choice: int, zones: np.ndarray | None = None) -> float:
        """The reward of a decision on the request at hand, and of where drivers go."""
        if self.done:
            return 0.0
        masks, offers, travel_before, gained = self.masks(), self.offers(), float(self.travel.sum()), 0.0
        if not (0 <= choice <= self.num_vehicles and masks["dispatcher"][0, choice]):
            self.invalid_actions += 1
            choice = 0
        was_idle = [self.is_idle(v) for v in range(self.num_vehicles)]
        if choice > 0:
            offer = offers[choice - 1]
            assert offer is not None
            self.vehicles[choice - 1].stops = offer.stops
            self.travel[choice - 1] += offer.added
            self.served += 1
            gained = float(self.day.value[self.step_number])
        for v, zone in enumerate([] if zones is None else zones.tolist()):
            legal = 0 <= zone <= self.zones**2 and masks["vehicle"][v, zone]
            if not legal and self.day.capacity[v] > 0:
                self.invalid_actions += 1
            if legal and zone > 0 and was_idle[v] and not self.vehicles[v].stops:
                self.vehicles[v].goal = self.middle(zone - 1)
        self.value += gained
        self.step_number += 1
        if not self.done:
            self.now = float(self.day.arrival[self.step_number])
        self._advance(math.inf if self.done else self.now)
        return gained - self.travel_price * (float(self.travel.sum()) - travel_before)

    def metrics(self) -> dict[str, float]:
        """Totals of the day so far."""
        drops = [entry for entry in self.begun if not entry.stop.is_pickup]
        picks = drops if self.trips else [entry for entry in self.begun if entry.stop.is_pickup]
        served = max(self.served, 1)
        wait = sum(
            (entry.loaded if self.trips else entry.start) - float(self.day.arrival[entry.stop.request])
            for entry in picks
        )
        return {
            "requests": float(self.step_number),
            "served": float(self.served),
            "served_share": self.served / max(self.step_number, 1),
            "value_served": self.value,
            "rejected": float(self.step_number - self.served),
            "travel": float(self.travel.sum()),
            "drone_travel": float(self.travel[np.asarray(self.day.is_drone)].sum()),
            "drone_share": sum(bool(self.day.is_drone[entry.vehicle]) for entry in drops) / served,
            "mean_wait": wait / served,
            "mean_delay": sum(self._delay(entry) for entry in drops) / served,
            "broken_promises": float(sum(self._slack(entry.vehicle, [entry]) < -2 * SLACK for entry in self.begun)),
            "invalid_actions": float(self.invalid_actions),
        }

    def _delay(self, entry: Served) -> float:
        request = entry.stop.request
        direct = self._way(entry.vehicle, *(np.asarray(p[request], float) for p in (self.day.pickup, self.day.dropoff)))
        return entry.start - float(self.day.arrival[request]) - (0.0 if self.trips else direct)

    # --- what is seen -----------------------------------------------------------------------------------------------

    def _here(self, place: np.ndarray) -> np.ndarray:
        least, most = np.asarray(self.day.area, float)
        return (np.asarray(place, float) - (least + most) / 2) / self._extent

    @property
    def _extent(self) -> float:
        least, most = np.asarray(self.day.area, float)
        return float((most - least).max()) / 2

    def _share(self, minutes: float) -> float:
        return float(np.clip(minutes / float(self.day.horizon), -1, 1))

    def static_entities(self) -> dict[str, np.ndarray]:
        """`{"vehicle": [6, V], "zone": [2, Z]}`."""
        day, horizon = self.day, float(self.day.horizon)
        rows = [
            self.pace * self._extent / horizon,
            np.asarray(day.capacity) / max(int(np.max(day.capacity)), 1),
            np.asarray(day.stop_time) / horizon,
            np.asarray(day.turnaround) / horizon,
            np.minimum(np.asarray(day.max_trip) / horizon, 1.0),
            np.asarray(day.is_drone),
        ]
        seen = {"vehicle": np.where(np.asarray(day.capacity) > 0, np.array(rows, float), 0.0)}
        if self.zones:
            seen["zone"] = np.array([self._here(self.middle(zone)) for zone in range(self.zones**2)]).T
        return seen

    def entities(self) -> dict[str, np.ndarray]:
        """`{"vehicle": [15, V], "zone": [3, Z]}`."""
        offers = self.offers()
        columns = [self._column(v, offers[v]) for v in range(self.num_vehicles)]
        seen = {"vehicle": np.array(columns).T}
        if self.zones:
            seen["zone"] = self._zone_planes()
        return seen

    def _column(self, v: int, offer: Offer | None) -> list[float]:
        vehicle, day, horizon = self.vehicles[v], self.day, float(self.day.horizon)
        if day.capacity[v] == 0:
            return [0.0] * 15
        served, _ = self._drive(v, vehicle.stops)
        left = min((self._window(entry.stop)[1] - entry.start for entry in served), default=math.inf)
        planned = sum(int(day.load[stop.request]) for stop in vehicle.stops)
        return [
            1.0,
            *self._here(vehicle.place),
            max(vehicle.free - self.now, 0.0) / horizon,
            float(self.is_idle(v)),
            *self._here(vehicle.goal),
            len(vehicle.stops) / self.max_stops,
            (planned if self.trips else vehicle.aboard) / int(day.capacity[v]),
            self._share(left),
            *([0.0] * 5 if offer is None else self._offered(offer)),
        ]

    def _offered(self, offer: Offer) -> list[float]:
        horizon = float(self.day.horizon)
        times = [(moment - self.now) / horizon for moment in (offer.pickup_start, offer.dropoff_start)]
        return [1.0, offer.added / horizon, *times, self._share(offer.slack)]

    def zone_of(self, place: np.ndarray) -> int:
        """The zone that a place is in; the nearest one outside of the area."""
        least, most = np.asarray(self.day.area, float)
        cell = np.clip(np.floor((np.asarray(place, float) - least) / (most - least) * self.zones), 0, self.zones - 1)
        return int(cell[0] + self.zones * cell[1])

    def _zone_planes(self) -> np.ndarray:
        known = min(self.step_number + 1, self.num_requests)
        demand, idle = np.zeros(self.zones**2), np.zeros(self.zones**2)
        for request in range(known):
            demand[self.zone_of(self.day.pickup[request])] += 1
        for v in range(self.num_vehicles):
            if self.is_idle(v):
                idle[self.zone_of(self.vehicles[v].goal)] += 1
        real = max(int(np.count_nonzero(self.day.capacity)), 1)
        return np.array([np.ones_like(demand), demand / max(demand.sum(), 1), idle / real])

    def context(self) -> dict[str, np.ndarray]:
        """`{"dispatcher": [1, 15], "vehicle": [V, 11]}`, the latter with zones."""
        day, request, largest = self.day, self.step_number, max(int(np.max(self.day.capacity)), 1)
        real = max(int(np.count_nonzero(day.capacity)), 1)
        asked = [0.0] * 10
        if not self.done:
            way = np.asarray(day.pickup[request], float) - np.asarray(day.dropoff[request], float)
            asked = [
                *self._here(day.pickup[request]),
                *self._here(day.dropoff[request]),
                float(np.hypot(*way)) / self._extent,
                int(day.load[request]) / largest,
                float(day.value[request]),
                self._share(float(day.pickup_deadline[request]) - self.now),
                self._share(float(day.dropoff_deadline[request]) - self.now),
                sum(offer is not None for offer in self.offers()) / real,
            ]
        context = {"dispatcher": np.array([[*self._day_numbers(real), *asked]])}
        if self.zones:
            context["vehicle"] = np.array([self._own(v) + self._day_numbers(real) for v in range(self.num_vehicles)])
        return context

    def _day_numbers(self, real: int) -> list[float]:
        horizon, known = float(self.day.horizon), min(self.step_number + 1, self.num_requests)
        lately = np.count_nonzero(np.asarray(self.day.arrival[:known]) > self.now - LATELY * horizon)
        return [
            self.now / horizon,
            float(np.clip((horizon - self.now) / horizon, 0, 1)),
            lately / real,
            sum(len(vehicle.stops) for vehicle in self.vehicles) / real / self.max_stops,
            sum(self.is_idle(v) for v in range(self.num_vehicles)) / real,
        ]

    def _own(self, v: int) -> list[float]:
        vehicle = self.vehicles[v]
        if self.day.capacity[v] == 0:
            return [0.0] * 6
        free_in = max(vehicle.free - self.now, 0.0) / float(self.day.horizon)
        return [*self._here(vehicle.place), float(self.is_idle(v)), *self._here(vehicle.goal), free_in]


class RandomDispatch:
    """The reference under masked random play, on a few days in turn: a `benchmarks.subject.Reference`."""

    def __init__(self, env: Any):
        """Days and sizes are those of a `jaxvrp` environment."""
        days = jax.device_get(jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), DAYS)))
        self._days = itertools.cycle([jax.tree.map(lambda leaf, i=i: leaf[i], days) for i in range(DAYS)])
        self._sizes = (env.max_stops, env.num_zones_each_way, env.travel_price)
        self._rng = np.random.default_rng(0)
        self.day = NumpyDispatch(next(self._days), *self._sizes)

    def step(self) -> tuple[float, bool]:
        """Reward of a random step, and whether it ended the day."""
        chosen = {role: choose(self._rng, mask) for role, mask in self.day.masks().items()}
        reward, done = self.day.step(int(chosen["dispatcher"][0]), chosen.get("vehicle")), self.day.done
        if done:
            self.day = NumpyDispatch(next(self._days), *self._sizes)
        self.day.context(), self.day.entities()
        return reward, done


SUBJECT = Subject(
    labels="vehicles,stops",
    sizes=((5, 8), (10, 12), (20, 12)),
    parameters=lambda size: {
        **dict(zip(("num_vehicles", "max_stops"), size, strict=True)),
        "max_requests": 26 * size[0],
        "expected_requests": 20.0 * size[0],
    },
    reference=RandomDispatch,
    tiny=(3, 6),
    reference_steps=50,
)

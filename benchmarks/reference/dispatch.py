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

from benchmarks.measuring.subject import Subject, choose
from jaxvrp.envs.dispatch.problem.instance import Instance

SLACK = {"trips": 1e-3 / 480, "rides": 1e-3 / 180}  # horizons, on every deadline, and by which added travel is alike
LATELY = 1 / 12  # of the horizon
SOON, COVERED, EVEN = 1 / 30, 0.8, 10.0  # of the horizon; the weight of cover; pickups that are believed in at first
LONGER = 1.1  # than the direct way, along streets, is one by way of a place where an idle vehicle can turn
WAY, ENOUGH = 0.9, 0.2  # need that a way of the whole horizon costs; the least gain for which a vehicle moves
DAYS = 8  # that random play takes in turn


@dataclasses.dataclass(frozen=True)
class Stop:
    """A pickup or a drop-off of a request that a vehicle has not begun."""

    request: int
    is_pickup: bool


@dataclasses.dataclass
class Vehicle:
    """Where and when it is free, its load then, where it goes without stops, and its stops.

    Places are `f64[2]`; of rides along streets `f64[3]`, with their row of the matrix.
    """

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
        self.turns_at_places = instance.travel_time is not None and not self.trips
        self.slack = SLACK["trips" if self.trips else "rides"] * float(instance.horizon)
        self.num_vehicles = len(instance.capacity)
        self.num_requests = int(np.count_nonzero(instance.load))
        self.pace = 60.0 * np.asarray(instance.detour, float) / np.asarray(instance.speed, float)
        if instance.travel_time is not None:
            self.pace = np.where(instance.is_drone, self.pace, self._street_pace())
        self.loading = instance.stop_time if instance.loading_time is None else instance.loading_time
        self.vehicles = [self._at_start(v) for v in range(self.num_vehicles)]
        self.begun: list[Served] = []
        self.step_number, self.invalid_actions, self.value, self.served = 0, 0, 0.0, 0
        self.travel = np.zeros(self.num_vehicles)
        self.now, self.known = 0.0, 0
        if not self.done:
            self.now = float(instance.arrival[0])
            self._advance(self.now)

    def _at_start(self, v: int) -> Vehicle:
        place = np.asarray(self.day.depot, float) if self.trips else self._with_row(self.day.start[v], v)
        return Vehicle(place, 0.0, 0, place, [])

    @property
    def home_by(self) -> np.ndarray:
        """`f64[V]`: when each vehicle has to be home."""
        last = self.day.horizon if self.day.home_by is None else self.day.home_by
        return np.broadcast_to(last, (self.num_vehicles,))

    @property
    def done(self) -> bool:
        """Whether all requests are decided on."""
        return self.step_number >= self.num_requests

    # --- plans ------------------------------------------------------------------------------------------------------

    def _place(self, stop: Stop) -> np.ndarray:
        first = self.num_vehicles + (0 if stop.is_pickup else len(self.day.load))
        places = self.day.pickup if stop.is_pickup else self.day.dropoff
        return self._with_row(places[stop.request], first + stop.request)

    def _with_row(self, place: np.ndarray, row: int) -> np.ndarray:
        return np.array([*place, row] if self.turns_at_places else place, float)

    def _window(self, stop: Stop) -> tuple[float, float]:
        end = "pickup" if stop.is_pickup else "dropoff"
        return (
            float(getattr(self.day, f"{end}_earliest")[stop.request]),
            float(getattr(self.day, f"{end}_deadline")[stop.request]),
        )

    def _released(self, request: int) -> float:
        """When a parcel can be loaded."""
        return max(float(self.day.arrival[request]), float(self.day.pickup_earliest[request]))

    def _way(self, v: int, a: np.ndarray, b: np.ndarray) -> float:
        """Straight."""
        return float(np.hypot(*(a[:2] - b[:2]))) * float(self.pace[v])

    def _ride_way(self, v: int, a: np.ndarray, b: np.ndarray) -> float:
        """Minutes of a vehicle without a depot between places."""
        if not self.turns_at_places:
            return self._way(v, a, b)
        return float(self.day.travel_time[int(a[2]), int(b[2])])

    def _street_pace(self) -> float:
        """Minutes for a straight kilometre, on average of all ways along streets."""
        ways = self._trip_ways() if self.trips else self._ride_ways()
        minutes, kilometres = (math.fsum(each) for each in zip(*ways, strict=True))
        return minutes / kilometres if kilometres else 0.0

    def _trip_ways(self) -> list[tuple[float, float]]:
        """Minutes and straight kilometres of all ways between stops and the depot."""
        ends = [None, *(Stop(request, False) for request in range(self.num_requests))]
        return [
            (self._street(a, b), float(np.hypot(*(self._end(a) - self._end(b)))))
            for a, b in itertools.product(ends, ends)
        ]

    def _ride_ways(self) -> list[tuple[float, float]]:
        """The same of all ways between starts, pickups and drop-offs."""
        places = self._known_places(self.num_requests)
        return [
            (self._ride_way(0, a, b), float(np.hypot(*(a[:2] - b[:2])))) for a, b in itertools.product(places, places)
        ]

    def _known_places(self, requests: int) -> list[np.ndarray]:
        """Where vehicles start, and where so many requests begin and end."""
        stops = [Stop(request, is_pickup) for request in range(requests) for is_pickup in (True, False)]
        vehicles = np.flatnonzero(self.day.capacity).tolist()
        return [self._with_row(self.day.start[v], v) for v in vehicles] + [self._place(stop) for stop in stops]

    def _end(self, stop: Stop | None) -> np.ndarray:
        """Where a stop is; the depot for None."""
        return np.asarray(self.day.depot, float) if stop is None else self._place(stop)

    def _street(self, a: Stop | None, b: Stop | None) -> float:
        row, column = (0 if stop is None else 1 + stop.request for stop in (a, b))
        return float(self.day.travel_time[row, column])

    def _leg(self, v: int, a: Stop | None, b: Stop | None) -> float:
        """Minutes between stops of a trip, or the depot."""
        if self.day.travel_time is None or self.day.is_drone[v]:
            return self._way(v, self._end(a), self._end(b))
        return self._street(a, b)

    def _drive(self, v: int, stops: list[Stop]) -> tuple[list[Served], float]:
        """When each stop begins, if these are the stops of a vehicle, and all minutes of travel."""
        if not self.trips:
            return self._ride(v, stops)
        trips = [[stop] for stop in stops] if self.day.is_drone[v] else [stops] if stops else []
        time, travel, served = self.vehicles[v].free, 0.0, []
        for trip in trips:
            loaded, here = max(time, *(self._released(stop.request) for stop in trip)), None
            time = loaded + float(self.loading[v])
            on_trip = []
            for stop in trip:
                way = self._leg(v, here, stop)
                here, travel = stop, travel + way
                start = max(self._window(stop)[0], time + way)
                on_trip.append((stop, start))
                time = start + float(self.day.stop_time[v])
            way = self._leg(v, here, None)
            home, travel = time + way, travel + way
            served += [Served(v, stop, start, loaded, home) for stop, start in on_trip]
            time = home + float(self.day.turnaround[v])
        return served, travel

    def _ride(self, v: int, stops: list[Stop]) -> tuple[list[Served], float]:
        time, here, travel, served = self.vehicles[v].free, self.vehicles[v].place, 0.0, []
        for stop in stops:
            way = self._ride_way(v, here, self._place(stop))
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
                leave = entry.loaded + float(self.loading[v])
                left.append(min(float(self.home_by[v]), leave + float(self.day.max_trip[v])) - entry.home)
        return min(left, default=math.inf)

    def _slack_of_insertion(self, v: int, served: list[Served], request: int) -> tuple[float, float]:
        """The slack that is seen, and the least one by which an insertion is judged."""
        del request
        return (self._slack(v, served),) * 2

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
            slack, least = self._slack_of_insertion(v, served, request)
            if least >= -self.slack:
                ends = {entry.stop.is_pickup: entry for entry in served if entry.stop.request == request}
                picked = ends[False].loaded if self.trips else ends[True].start
                found.append(Offer(stops, travel - travel_before, (i, j), picked, ends[False].start, slack))
        least = min((offer.added for offer in found), default=math.inf)
        return next((offer for offer in found if offer.added <= least + self.slack), None)

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
            if self.trips and first.loaded > until:
                vehicle.free = max(vehicle.free, until)
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
        """Until then without a plan: on the way to the goal, or waiting; along streets, it does not turn on its way."""
        vehicle = self.vehicles[v]
        if until <= vehicle.free:
            return
        if self.turns_at_places:
            turn = self._next_turn(v)
            way = self._idle_way(v, turn)
            vehicle.place, vehicle.free = turn, max(vehicle.free + way, until)
            self.travel[v] += way
            return
        way = self._idle_way(v, vehicle.goal)
        driven = min(way, until - vehicle.free)
        if way > 0:
            vehicle.place = vehicle.place + driven / way * (vehicle.goal - vehicle.place)
        self.travel[v] += driven
        vehicle.free = until

    def _idle_way(self, v: int, target: np.ndarray) -> float:
        return self._ride_way(v, self.vehicles[v].place, target)

    def _next_turn(self, v: int) -> np.ndarray:
        """Of the places where vehicles wait, the first that is on the way to the goal, or little off it."""
        place, goal = self.vehicles[v].place, self.vehicles[v].goal
        direct, found = self._ride_way(v, place, goal), []
        for zone in range(self.zones**2):
            turn = self._waiting_place(zone)
            there, onward = self._ride_way(v, place, turn), self._ride_way(v, turn, goal)
            if there > 0 and onward < direct and there + onward <= LONGER * direct:
                found.append((there, zone, turn))
        return min(found)[2] if found else goal

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

    def _waiting_place(self, zone: int) -> np.ndarray:
        """Where vehicles that are sent to a zone wait: in its middle; along streets at the nearest place known."""
        middle = self.middle(zone)
        if self.day.travel_time is None:
            return middle
        known = self._known_places(self.known)
        return min(known, key=lambda place: float(np.hypot(*(place[:2] - middle))))

    def step(self, choice: int, zones: np.ndarray | None = None) -> float:
        """The reward of a decision on the request at hand, and of where drivers go."""
        if self.done:
            return 0.0
        masks, offers, travel_before, gained = self.masks(), self.offers(), float(self.travel.sum()), 0.0
        if not (0 <= choice <= self.num_vehicles and masks["dispatcher"][0, choice]):
            self.invalid_actions += 1
            choice = 0
        self.known = self.step_number + 1
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
                self.vehicles[v].goal = self._waiting_place(zone - 1)
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
            entry.loaded - self._released(entry.stop.request)
            if self.trips
            else entry.start - float(self.day.arrival[entry.stop.request])
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
            "broken_promises": float(
                sum(self._slack(entry.vehicle, [entry]) < -2 * self.slack for entry in self.begun)
            ),
            "invalid_actions": float(self.invalid_actions),
        }

    def _delay(self, entry: Served) -> float:
        request = entry.stop.request
        if self.trips:
            return entry.start - self._released(request)
        direct = self._ride_way(entry.vehicle, *(self._place(Stop(request, end)) for end in (True, False)))
        return entry.start - float(self.day.arrival[request]) - direct

    # --- what is seen -----------------------------------------------------------------------------------------------

    def _here(self, place: np.ndarray) -> np.ndarray:
        least, most = np.asarray(self.day.area, float)
        return (np.asarray(place, float)[:2] - (least + most) / 2) / self._extent

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
        """`{"vehicle": [16, V], "zone": [6, Z]}`; with zones, `"vehicle": [22, V]`."""
        offers = self.offers()
        columns = [self._column(v, offers[v]) for v in range(self.num_vehicles)]
        seen = {"vehicle": np.array(columns).T}
        if self.zones:
            seen["zone"] = self._zone_planes()
        return seen

    def _column(self, v: int, offer: Offer | None) -> list[float]:
        vehicle, day, horizon = self.vehicles[v], self.day, float(self.day.horizon)
        if day.capacity[v] == 0:
            return [0.0] * (22 if self.zones else 16)
        served, _ = self._drive(v, vehicle.stops)
        left = min((self._window(entry.stop)[1] - entry.start for entry in served), default=math.inf)
        planned = sum(int(day.load[stop.request]) for stop in vehicle.stops)
        end = served[-1].home + float(day.turnaround[v]) if served else max(vehicle.free, self.now)
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
            *(self._roving(v) if self.zones else [(end - self.now) / horizon]),
        ]

    def _offered(self, offer: Offer) -> list[float]:
        horizon = float(self.day.horizon)
        times = [(moment - self.now) / horizon for moment in (offer.pickup_start, offer.dropoff_start)]
        return [1.0, offer.added / horizon, *times, self._share(offer.slack)]

    def zone_of(self, place: np.ndarray) -> int:
        """The zone that a place is in; the nearest one outside of the area."""
        least, most = np.asarray(self.day.area, float)
        share = (np.asarray(place, float)[:2] - least) / (most - least)
        cell = np.clip(np.floor(share * self.zones), 0, self.zones - 1)
        return int(cell[0] + self.zones * cell[1])

    def _plan_end(self, v: int) -> tuple[np.ndarray, float]:
        """Where a plan ends, or where the vehicle goes without one, and when."""
        served, _ = self._drive(v, self.vehicles[v].stops)
        if not served:
            return self.vehicles[v].goal, self.vehicles[v].free
        return self._place(served[-1].stop), served[-1].start + float(self.day.stop_time[v])

    def _nearness(self, v: int, zone: int) -> float:
        """1 for a vehicle that could be in the zone now, less the later it could."""
        if self.day.capacity[v] == 0:
            return 0.0
        place, end = self._plan_end(v)
        minutes = max(end - self.now, 0.0) + self._way(v, place, self.middle(zone))
        return math.exp(-minutes / (SOON * float(self.day.horizon)))

    def _pickups(self) -> np.ndarray:
        """Those of each zone so far."""
        counts = np.zeros(self.zones**2)
        for request in range(min(self.step_number + 1, self.num_requests)):
            counts[self.zone_of(self.day.pickup[request])] += 1
        return counts

    def _need(self, zone: int, without: int = -1) -> float:
        """The likely pickups of a zone, of those in an even city, that no vehicle covers; perhaps without one."""
        likely = self._pickups() + EVEN / self.zones**2
        covered = sum(self._nearness(v, zone) for v in range(self.num_vehicles) if v != without)
        return float(likely[zone] / likely.mean()) * math.exp(-COVERED * covered)

    def _needed(self, v: int) -> float:
        return self._need(self.zone_of(self._plan_end(v)[0]), without=v)

    def _spare(self) -> int | None:
        """The idle vehicle that is needed least; None if none is idle."""
        return min(filter(self.is_idle, range(self.num_vehicles)), key=self._needed, default=None)

    def _least(self) -> int | None:
        """The vehicle with the least added travel for the request at hand, the first of several; None for none."""
        # Rounded: vehicles that wait at one place add the same.
        added = [(round(offer.added, 6), v) for v, offer in enumerate(self.offers()) if offer]
        return min(added, default=(0.0, None))[1]

    def _roving(self, v: int) -> list[float]:
        (place, end), offer, soon = self._plan_end(v), self.offers()[v], SOON * float(self.day.horizon)
        return [
            *self._here(place),
            max(end - self.now, 0.0) / soon,
            0.0 if offer is None else offer.added / soon,
            float(v == self._least()),
            min(self._needed(v), 4.0),
            float(v == self._spare()),
        ]

    def _target(self) -> int | None:
        """The zone that needs the spare vehicle enough more than the one where that is, less for the way."""
        spare = self._spare()
        if spare is None:
            return None
        place, zones = self.vehicles[spare].place, range(self.zones**2)
        price = WAY / float(self.day.horizon)
        worth = [self._need(zone, spare) - price * self._way(spare, place, self.middle(zone)) for zone in zones]
        return int(np.argmax(worth)) if max(worth) > self._needed(spare) + ENOUGH else None

    def _zone_planes(self) -> np.ndarray:
        demand, idle = self._pickups(), np.zeros(self.zones**2)
        for v in range(self.num_vehicles):
            if self.is_idle(v):
                idle[self.zone_of(self.vehicles[v].goal)] += 1
        real = max(int(np.count_nonzero(self.day.capacity)), 1)
        zones = range(self.zones**2)
        cover = np.array([sum(self._nearness(v, zone) for v in range(self.num_vehicles)) for zone in zones])
        need = np.array([min(self._need(zone), 4.0) for zone in zones])
        share, target = demand / max(demand.sum(), 1), self._target()
        is_target = [zone == target for zone in zones]
        return np.array([np.ones_like(demand), share, idle / real, cover / real, need, is_target])

    def context(self) -> dict[str, np.ndarray]:
        """`{"dispatcher": [1, 15], "vehicle": [V, 13]}`, the latter with zones."""
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
            return [0.0] * 8
        free_in = max(vehicle.free - self.now, 0.0) / float(self.day.horizon)
        moves = [*self._here(vehicle.place), float(self.is_idle(v)), *self._here(vehicle.goal), free_in]
        return [*moves, min(self._needed(v), 4.0), float(v == self._spare())]


@dataclasses.dataclass(frozen=True)
class Leg:
    """A leg that was begun: by which vehicle, its planned and its real minutes, when it ends; to a stop, or home."""

    vehicle: int
    planned: float
    minutes: float
    end: float
    served: Served | None = None


class NumpyNoisyDispatch(NumpyDispatch):
    """The same with noise: legs take their planned time by a factor, which is known when they end."""

    def __init__(
        self,
        instance: Instance,
        max_stops: int,
        zones: int,
        *,
        factors: np.ndarray,
        planned: float,
        travel_price: float = 0.0,
        late_price: float = 0.0,
    ):
        """`factors`, `[V, L]`, are of mean times; a leg is planned to take `planned` mean times."""
        self.factors, self.planned, self.late_price = factors, planned, late_price
        vehicles = len(instance.capacity)
        self.legs: list[Leg] = []
        self.out: list[list[Leg]] = [[] for _ in range(vehicles)]
        self.left, self.really_free, self.known_until = [0.0] * vehicles, [0.0] * vehicles, -math.inf
        self.drifted = np.zeros(vehicles)
        slower = instance.replace(detour=np.asarray(instance.detour, float) * planned)
        if instance.travel_time is not None:
            slower = slower.replace(travel_time=np.asarray(instance.travel_time, float) * planned)
        super().__init__(slower, max_stops, zones, travel_price)

    # --- legs -------------------------------------------------------------------------------------------------------

    def _take(self, v: int, leaves: float, planned: float) -> Leg:
        """The next leg of a vehicle, of so many planned minutes."""
        number = sum(leg.vehicle == v for leg in self.legs)
        minutes = planned / self.planned * float(self.factors[v, number])
        return Leg(v, planned, minutes, leaves + minutes)

    def _serve(self, v: int, leg: Leg, stop: Stop, loaded: float) -> float:
        """Serve the stop at the end of a leg; when that is done."""
        start = max(self._window(stop)[0], leg.end)
        leg = dataclasses.replace(leg, served=Served(v, stop, start, loaded, math.inf))
        self.legs.append(leg)
        self.out[v].append(leg)
        return start + float(self.day.stop_time[v])

    def _begin_stops(self, v: int, until: float) -> None:
        vehicle = self.vehicles[v]
        while vehicle.stops:
            free = self.really_free[v]
            if self.trips:
                count = 1 if self.day.is_drone[v] else len(vehicle.stops)
                loaded = max(free, *(self._released(stop.request) for stop in vehicle.stops[:count]))
                if loaded > until:
                    if free <= until:
                        self.really_free[v], self.out[v] = until, []
                    break
                self._begin_trip(v, loaded, count)
                continue
            leg = self._take(v, free, self._ride_way(v, vehicle.place, self._place(vehicle.stops[0])))
            if free >= until and max(leg.end, self._window(vehicle.stops[0])[0]) > until:
                break
            stop = vehicle.stops.pop(0)
            self.out[v], self.left[v] = [], free
            self.really_free[v] = self._serve(v, leg, stop, free)
            vehicle.place = vehicle.goal = self._place(stop)
            load = int(self.day.load[stop.request])
            vehicle.aboard += load if stop.is_pickup else -load
        vehicle.free = self._expected(v, until)

    def _begin_trip(self, v: int, loaded: float, count: int) -> None:
        vehicle, here, time = self.vehicles[v], None, loaded + float(self.loading[v])
        trip, vehicle.stops = vehicle.stops[:count], vehicle.stops[count:]
        self.out[v], self.left[v] = [], time
        for stop in trip:
            time, here = self._serve(v, self._take(v, time, self._leg(v, here, stop)), stop, loaded), stop
        home = self._take(v, time, self._leg(v, here, None))
        self.legs.append(home)
        self.out[v].append(home)
        self.really_free[v] = home.end + float(self.day.turnaround[v])

    def _expected(self, v: int, until: float) -> float:
        """When a vehicle is free, as far as it is known then."""
        if self.really_free[v] <= until:
            self.out[v] = []
            return self.really_free[v]
        time = self.left[v]
        for leg in self.out[v]:
            arrival = leg.end if leg.end <= until else max(time + leg.planned, until)
            if leg.served is None:
                time = arrival + float(self.day.turnaround[v])
            else:
                time = max(self._window(leg.served.stop)[0], arrival) + float(self.day.stop_time[v])
        return time if self.out[v] else self.vehicles[v].free

    def is_idle(self, v: int) -> bool:
        """Whether it has nothing to do."""
        return super().is_idle(v) and not self.out[v]

    def _advance(self, until: float) -> None:
        super()._advance(until)
        self.known_until = until

    def _wait(self, v: int, until: float) -> None:
        vehicle = self.vehicles[v]
        if self.out[v] or until <= vehicle.free:
            return
        before = float(self.travel[v])
        super()._wait(v, until)
        self.drifted[v] += float(self.travel[v]) - before
        self.really_free[v] = vehicle.free

    def _idle_way(self, v: int, target: np.ndarray) -> float:
        return super()._idle_way(v, target) / self.planned

    # --- decisions --------------------------------------------------------------------------------------------------

    def _slack_of_insertion(self, v: int, served: list[Served], request: int) -> tuple[float, float]:
        """What is late already may stay as late as it is planned."""
        before = {
            (entry.stop.request, entry.stop.is_pickup): entry for entry in self._drive(v, self.vehicles[v].stops)[0]
        }
        seen, judged = [], []
        for entry in served:
            key, deadline = (entry.stop.request, entry.stop.is_pickup), self._window(entry.stop)[1]
            seen.append(deadline - entry.start)
            judged.append(max(deadline, before[key].start if key in before else -math.inf) - entry.start)
            if self.trips and (not self.day.is_drone[v] or entry.stop.request == request):
                leave = entry.loaded + float(self.loading[v])
                limit = min(float(self.home_by[v]), leave + float(self.day.max_trip[v]))
                if not self.day.is_drone[v] and before:
                    limit = max(limit, *(other.home for other in before.values()))
                seen.append(limit - entry.home)
                judged.append(limit - entry.home)
        return min(seen), min(judged)

    def step(self, choice: int, zones: np.ndarray | None = None) -> float:
        """See `NumpyDispatch.step`; travel and lateness are paid for when they are known."""
        if self.done:
            return 0.0
        value, before = self.value, self.metrics()
        super().step(choice, zones)
        after = self.metrics()
        late = after["late_minutes"] - before["late_minutes"]
        return self.value - value - self.travel_price * (after["travel"] - before["travel"]) - self.late_price * late

    def metrics(self) -> dict[str, float]:
        """Totals of what is known."""
        known = [leg for leg in self.legs if leg.end <= self.known_until]
        travel = self.drifted.copy()
        for leg in known:
            travel[leg.vehicle] += leg.minutes
        entries = [leg.served for leg in known if leg.served and leg.served.start <= self.known_until]
        late = {entry: entry.start - self._window(entry.stop)[1] for entry in entries}
        late = {entry: minutes for entry, minutes in late.items() if minutes > 2 * self.slack}
        self.begun = list(entries)
        served = max(self.served, 1)
        return {
            **super().metrics(),
            "travel": float(travel.sum()),
            "drone_travel": float(travel[np.asarray(self.day.is_drone)].sum()),
            "broken_promises": 0.0,
            "late_share": len({entry.stop.request for entry in late}) / served,
            "late_minutes": sum(late.values()),
            "late_trips": float(self._late_trips()),
        }

    def _late_trips(self) -> int:
        """Trips that are over, and were too long or ended after the horizon."""
        late, left = 0, [0.0] * self.num_vehicles
        for leg in self.legs:
            if leg.served is not None:
                left[leg.vehicle] = leg.served.loaded + float(self.loading[leg.vehicle])
            elif leg.end <= self.known_until:
                is_long = leg.end - left[leg.vehicle] > float(self.day.max_trip[leg.vehicle]) + 2 * self.slack
                late += is_long or leg.end > float(self.home_by[leg.vehicle]) + 2 * self.slack
        return late

    def _delay(self, entry: Served) -> float:
        request = entry.stop.request
        if self.trips:
            return entry.start - self._released(request)
        ends = (self._place(Stop(request, end)) for end in (True, False))
        mean = self._ride_way(entry.vehicle, *ends) / self.planned
        return entry.start - float(self.day.arrival[request]) - mean


class RandomDispatch:
    """The reference under masked random play, on a few days in turn: a `benchmarks.measuring.subject.Reference`."""

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

"""The least makespan of a truck with several drones, by trying every sequence of the driver's tasks; plain Python."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Flight:
    """A drone that is away: its customer, the number of the stop of its launch, when it leaves, what it has used."""

    customer: int
    stop: int
    leave: float
    used: float
    spared: float = 0.0


@dataclasses.dataclass(frozen=True)
class Moment:
    """Where the driver stands after some tasks; `held` is the drone whose launch can still be held back."""

    stop: int = 0
    number: int = 0
    clock: float = 0.0
    is_pending: bool = False
    left: frozenset = frozenset()
    flights: tuple = ()
    held: int | None = None
    is_home: bool = False


class Search:
    """Branch and bound over tasks; `least` is the makespan of `plan`, `(kind, node, drone)` each."""

    def __init__(self, instance):
        self.given = instance
        self.customers = np.flatnonzero(instance.exists)[1:].tolist()
        self.drones = range(instance.num_drones)
        self.least, self.plan = np.inf, None
        self.known = {}
        nodes = [0, *self.customers]
        into = {node: min(instance.truck_time[start, node] for start in nodes if start != node) for node in nodes[1:]}
        self.home = min((instance.truck_time[node, 0] for node in nodes), default=0.0)
        flown = {
            node: min(
                (
                    instance.launch_time[d] + instance.recovery_time[d]
                    for d in self.drones
                    if not instance.no_fly[d, node]
                ),
                default=np.inf,
            )
            for node in nodes[1:]
        }
        self.work = {node: min(into[node] + instance.service[node], flown[node]) for node in nodes[1:]}

    def run(self):
        self.follow(Moment(left=frozenset(self.customers), flights=(None,) * len(self.drones)), ())
        return self.least

    def can_finish(self, moment, *, at_depot=True):
        """Whether all drones can be recovered, also `at_depot`."""
        if not any(moment.flights):
            return True
        if moment.is_home and not at_depot:
            return False
        if (moment, at_depot) not in self.known:
            found = any(self.can_finish(after, at_depot=at_depot) for _, after in self.tasks(moment))
            self.known[moment, at_depot] = found
        return self.known[moment, at_depot]

    def bound(self, moment):
        """Work that the driver has yet to do at least."""
        work = sum(self.work[node] for node in moment.left)
        work += sum(self.given.recovery_time[d] for d in self.drones if moment.flights[d])
        work += self.given.service[moment.stop] * moment.is_pending
        return moment.clock + work + (0.0 if moment.is_home else self.home)

    def follow(self, moment, plan):
        if self.bound(moment) >= self.least - 1e-9:
            return
        if moment.is_home and not any(moment.flights):
            self.least, self.plan = moment.clock, plan
            return
        for task, after in sorted(self.tasks(moment), key=lambda each: each[1].clock):
            self.follow(after, (*plan, task))

    def tasks(self, moment):
        """What the driver may do next, and what comes of it."""
        given, here, clock = self.given, moment.stop, moment.clock
        for drone, flight in enumerate(moment.flights):
            if flight and flight.stop < moment.number and (after := self.recovered(moment, drone, flight)):
                yield ("recover", flight.customer, drone), after
        if moment.is_home:
            return
        if moment.is_pending:
            yield (
                ("serve", here, None),
                dataclasses.replace(moment, clock=clock + given.service[here], is_pending=False),
            )
        for node in moment.left:
            for drone in self.drones:
                if moment.flights[drone] is None and not given.no_fly[drone, node]:
                    yield ("launch", node, drone), self.launched(moment, drone, node)
        for node in [] if moment.is_pending else (moment.left or [0]):
            yield (
                ("drive", node, None),
                dataclasses.replace(
                    moment,
                    stop=node,
                    number=moment.number + 1,
                    clock=clock + given.truck_time[here, node],
                    is_pending=node != 0,
                    left=moment.left - {node},
                    held=None,
                    is_home=node == 0,
                ),
            )

    def launched(self, moment, drone, node):
        given, here = self.given, moment.stop
        away = moment.clock + given.launch_time[drone]
        leave = away + given.drone_time[drone, here, node] + given.drone_service[drone]
        flight = Flight(node, moment.number, leave, given.drain_out[drone, here, node])
        flights = tuple(flight if each == drone else old for each, old in enumerate(moment.flights))
        return dataclasses.replace(moment, clock=away, left=moment.left - {node}, flights=flights, held=drone)

    def recovered(self, moment, drone, flight):
        """None if that takes more than the endurance."""
        given, here = self.given, moment.stop
        arrival = flight.leave + given.drone_time[drone, flight.customer, here]
        start = max(arrival, moment.clock)
        hover = max(start - arrival - flight.spared, 0.0)
        if flight.used + given.drain_back[drone, flight.customer, here] + hover > given.endurance[drone]:
            return None
        flights = list(moment.flights)
        flights[drone] = None
        if moment.held is not None:
            flights[moment.held] = dataclasses.replace(flights[moment.held], spared=start - moment.clock)
        clock = start + given.recovery_time[drone]
        return dataclasses.replace(moment, clock=clock, flights=tuple(flights), held=None)


def least_makespan(instance):
    """Its makespan and its plan."""
    search = Search(instance)
    return search.run(), search.plan

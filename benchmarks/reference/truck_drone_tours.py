"""One truck_drone_tours instance in plain NumPy: the ground truth of the parity test, written from the spec alone.

Independent of the JAX environment, in float64. Whether a tour can be completed after an action is found by trying
everything that truck and drone could do afterwards. Nodes 0 (the depot) to n - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.measuring.subject import Subject
from jaxvrp.envs.truck_drone_tours import Instance, pad

SLACK = 3e-6
"""Share of each limit of time that is granted: the environment computes in float32."""


class Flight(NamedTuple):
    """A drone that is away: where it was launched, its customer, when it leaves that one, what it has used by then."""

    launch: int
    customer: int
    leave: float
    used: float


class Tour(NamedTuple):
    """Where a tour stands, and what is left for it and later ones."""

    turn: str  # "drone", "truck", or "closed"
    truck: int  # its node
    time: float  # when the truck can leave there; with the drone away, at the drone's turn, when it came there
    flight: Flight | None  # None: the drone is on board
    load: float
    unserved: frozenset[int]
    cost: float  # of its ways
    waited: float = 0.0  # for windows


class NumpyTruckDroneTours:
    """The environment for one instance; call `reset_to` before anything else.

    Public state: `tour`, `tours` (closed ones), `totals` (what metrics count), `done`, and `instance`, padded.
    """

    def __init__(self, num_nodes: int, *, num_tandems: int = 0, unserved_price: float = 10.0, reward: str = "dense"):
        """Size and rules of the spec; 0 tandems: as many as customers."""
        self.num_nodes, self.most_tours = num_nodes, num_tandems or max(num_nodes - 1, 1)
        self.unserved_price, self.reward_kind = unserved_price, reward

    def reset_to(self, instance: Instance) -> None:
        """Start on an instance, which may be smaller."""
        given = pad(instance, self.num_nodes)
        locs = np.asarray(given.locs, np.float64)
        self.instance, self.exists = given, np.asarray(given.exists)
        self.between = np.sqrt(((locs[:, None] - locs) ** 2).sum(axis=2))
        self.truck_time, self.drone_time = (self.between * float(pace) for pace in (given.truck_pace, given.drone_pace))
        self.opens, self.closes, self.service, self.demand = (
            np.asarray(values, np.float64) for values in (given.opens, given.closes, given.service, given.demand)
        )
        self.totals = dict.fromkeys(METRICS, 0.0)
        self.tours = self.num_steps = 0
        self.paid = 0.0
        self.tour = self._new_tour(frozenset(np.flatnonzero(self.exists)[1:].tolist()))
        self.done = self._is_over()

    def _new_tour(self, unserved: frozenset[int]) -> Tour:
        return Tour("drone", 0, float(self.opens[0]), None, 0.0, unserved, 0.0)

    def _is_over(self) -> bool:
        return not self.tour.unserved or self.tours == self.most_tours or not self._can_finish(self.tour)

    # --- one turn, by the limits that it meets itself -----------------------------------------------------------------

    def after(self, tour: Tour, action: int) -> Tour | None:
        """Where the tour stands after an action of the one whose turn it is; None where a limit forbids it."""
        if tour.turn == "truck":
            return self._after_truck(tour, action)
        if action >= 2:
            return self._after_launch(tour, action - 2)
        if action == 1:
            return self._after_meeting(tour)
        if not tour.flight:
            return tour._replace(turn="truck")
        # With the drone away and the truck at the depot, nothing else but the meeting is left.
        return None if tour.truck == 0 else self._served(tour, "truck")

    def _served(self, tour: Tour, turn: str) -> Tour | None:
        """The truck serves its node, where it is ready to begin at `time`; then it is somebody's turn."""
        node, begin = tour.truck, max(tour.time, self.opens[tour.truck])
        if self._is_late(begin, node):
            return None
        return tour._replace(turn=turn, time=begin + self.service[node], waited=tour.waited + begin - tour.time)

    def _after_truck(self, tour: Tour, node: int) -> Tour | None:
        load = tour.load + self.demand[node]
        goes_home = node == 0 and tour.truck != 0
        if not (goes_home or node in tour.unserved) or self._is_full(load):
            return None
        there = tour._replace(
            turn="drone",
            truck=node,
            time=tour.time + self.truck_time[tour.truck, node],
            load=load,
            unserved=tour.unserved - {node},
            cost=tour.cost + self.between[tour.truck, node] * float(self.instance.truck_price),
        )
        if tour.flight:
            return there
        return self._served(there, "closed" if node == 0 else "drone")

    def _after_launch(self, tour: Tour, customer: int) -> Tour | None:
        if tour.flight or customer not in tour.unserved or self.instance.no_fly[customer]:
            return None
        way = self.drone_time[tour.truck, customer]
        ready = tour.time + float(self.instance.launch_time)
        leave = max(ready, self.opens[customer] - way)  # so that the drone need not wait at its customer
        load = tour.load + self.demand[customer]
        if self._is_late(leave + way, customer) or self._is_full(load):
            return None
        used = way + self.service[customer]
        return tour._replace(
            turn="truck",
            time=leave,
            flight=Flight(tour.truck, customer, leave + used, used),
            load=load,
            unserved=tour.unserved - {customer},
            waited=tour.waited + leave - ready,
        )

    def _after_meeting(self, tour: Tour) -> Tour | None:
        if not tour.flight:
            return None
        launch, customer, leave, used = tour.flight
        back = self.drone_time[customer, tour.truck]
        time = max(tour.time, leave + back) + float(self.instance.recovery_time)
        if used + back > float(self.instance.endurance) * (1 + SLACK):
            return None
        flown = self.between[launch, customer] + self.between[customer, tour.truck]
        met = tour._replace(time=time, flight=None, cost=tour.cost + flown * float(self.instance.drone_price))
        return self._served(met, "closed" if tour.truck == 0 else "drone")

    def _is_late(self, time: float, node: int) -> bool:
        return time > self.closes[node] * (1 + SLACK)

    def _is_full(self, load: float) -> bool:
        return load > float(self.instance.truck_capacity) * (1 + 1e-5)

    # --- what is allowed ----------------------------------------------------------------------------------------------

    def _actions(self, tour: Tour) -> Iterator[tuple[int, Tour]]:
        """Those that no limit forbids at once, the way home first."""
        size = self.num_nodes + 2 if tour.turn == "drone" else self.num_nodes
        for action in range(size):
            reached = self.after(tour, action)
            if reached is not None:
                yield action, reached

    def _can_finish(self, tour: Tour) -> bool:
        """Whether the tour can be completed, by trying all ways to do so."""
        return tour.turn == "closed" or any(self._can_finish(reached) for _, reached in self._actions(tour))

    def masks(self) -> dict[str, np.ndarray]:
        """`{"drone": bool[n + 2], "truck": bool[n]}`."""
        masks = {"drone": np.zeros(self.num_nodes + 2, bool), "truck": np.zeros(self.num_nodes, bool)}
        for role, mask in masks.items():
            mask[0] = role != self.tour.turn
        mask = masks[self.tour.turn]
        for action, reached in self._actions(self.tour):
            mask[action] = self._can_finish(reached)
        return masks

    # --- what happens -------------------------------------------------------------------------------------------------

    def step(self, drone: int, truck: int) -> tuple[float, bool]:
        """Play a turn; forbidden actions become the first allowed ones, and are counted.

        Returns:
            The reward, and whether the episode is over.
        """
        if self.done:
            return 0.0, True
        chosen, before = {}, self.tour
        for (role, mask), asked in zip(self.masks().items(), (drone, truck), strict=True):
            legal = 0 <= asked < len(mask) and mask[asked]
            self.totals["invalid_actions"] += not legal
            chosen[role] = asked if legal else int(np.argmax(mask))
        reached = self.after(before, chosen[before.turn])
        assert reached is not None
        self._count(before, reached, chosen[before.turn])
        self.num_steps += 1
        growth = reached.cost - before.cost
        self.paid += growth
        self.tour = reached
        if reached.turn == "closed":
            self.tours += 1
            self.tour = self._new_tour(reached.unserved)
            self.done = self._is_over()
        paid = growth if self.reward_kind == "dense" else self.paid * self.done
        return -paid - self.done * self.unserved_price * len(self.tour.unserved), self.done

    def _count(self, before: Tour, reached: Tour, action: int) -> None:
        totals = self.totals
        totals["waiting"] += reached.waited - before.waited
        if before.turn == "truck":
            totals["truck_distance"] += self.between[before.truck, action]
        elif action >= 2:
            totals["served_by_drone"] += 1
        elif action == 1:
            assert before.flight is not None
            launch, customer, leave, _ = before.flight
            arrival = leave + self.drone_time[customer, before.truck]
            totals["sorties"] += 1
            totals["drone_flight"] += self.between[launch, customer] + self.between[customer, before.truck]
            totals["waiting_truck"] += max(arrival - before.time, 0.0)
            totals["waiting_drone"] += max(before.time - arrival, 0.0)

    def metrics(self) -> dict[str, float]:
        """Totals of the episode so far."""
        return {"travel_cost": self.paid, "tours": self.tours, "unserved": len(self.tour.unserved), **self.totals}


METRICS = (
    "waiting",
    "served_by_drone",
    "sorties",
    "drone_flight",
    "truck_distance",
    "waiting_truck",
    "waiting_drone",
    "invalid_actions",
)


SUBJECT = Subject(
    labels="nodes",
    sizes=((16,), (50,)),
    parameters=lambda size: {"num_nodes": size[0]},
    reference=None,  # what tries everything is no measure of speed
    tiny=(8,),
)


def least_cost(instance: Instance) -> float:
    """The least cost of all sequences of actions that serve everybody; n up to 6."""
    world = NumpyTruckDroneTours(instance.num_nodes)
    world.reset_to(instance)
    known: dict[frozenset[int], float] = {frozenset(): 0.0}

    def best_from_depot(unserved: frozenset[int]) -> float:
        if unserved not in known:
            cheapest: dict[frozenset[int], float] = {}
            _close_all(world, world._new_tour(unserved), cheapest)
            known[unserved] = min((cost + best_from_depot(left) for left, cost in cheapest.items()), default=np.inf)
        return known[unserved]

    return best_from_depot(world.tour.unserved)


def _close_all(world: NumpyTruckDroneTours, tour: Tour, cheapest: dict[frozenset[int], float]) -> None:
    """Complete a tour in all ways, and note the least cost by who is left."""
    if tour.turn == "closed":
        cheapest[tour.unserved] = min(tour.cost, cheapest.get(tour.unserved, np.inf))
        return
    for _, reached in world._actions(tour):
        _close_all(world, reached, cheapest)

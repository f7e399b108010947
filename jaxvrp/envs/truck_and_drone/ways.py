"""Who was where when, as the checkers of plans recompute it: legs, waits and services of a truck and its drones."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

TRUCK, DRONE = "truck", "drone"


class Leg(NamedTuple):
    """A way from node `origin` to `node`, of the truck, or of a drone alone."""

    vehicle: str
    origin: int
    node: int
    leave: float
    arrive: float
    carries: tuple[str, ...] = ()  # the drones on board
    serves: bool = False  # whether `vehicle` serves the customer at its end then
    tour: int = 0


class Wait(NamedTuple):
    """`vehicle` waits at `node` between two times: for another, or for a window to open."""

    vehicle: str
    node: int
    since: float
    until: float
    tour: int = 0


class Service(NamedTuple):
    """A customer is served."""

    tour: int
    by: str
    node: int
    arrive: float
    begin: float  # after the wait for its window
    leave: float  # when service is over


@dataclasses.dataclass(frozen=True)
class Ways:
    """What the vehicles of a plan do; times of the instance."""

    legs: tuple[Leg, ...]  # of each vehicle of each tour in the order of departure
    waits: tuple[Wait, ...]
    services: tuple[Service, ...]

    @property
    def server(self) -> dict[int, Service]:
        """By node, how it was served; those that were not are left out."""
        return {service.node: service for service in self.services}

    def waited(self, kind: str) -> float:
        """How long the truck, or all drones, waited, in all."""
        return sum(wait.until - wait.since for wait in self.waits if wait.vehicle.startswith(kind))


def is_wait(since: float, until: float) -> bool:
    """Whether the time between is more than rounding of the clock."""
    return bool(until - since > 1e-12 * abs(until))


def name_of(node: int) -> str:
    """A node in words."""
    return "depot" if node == 0 else f"customer {node}"

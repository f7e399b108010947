"""Why actions of truck and drone are masked, by role."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK
from jaxvrp.show.reasons import Cause, Kind


class Why(Kind):
    """What forbids an action."""

    ALLOWED = ""
    OTHERS_TURN = "the other one's turn"
    MISSING = "no such customer"
    IS_DEPOT = "the depot is no customer"
    SERVED = "served already"
    NO_FLY = "not for the drone"
    AWAY = "the drone is away"
    ON_BOARD = "the drone is on board"
    FLIGHT_TOO_LONG = "flight {amount} too long, to the nearest node to meet at"
    NO_MEETING = "no node would be left to meet at"
    MEETS_TOO_FAR = "a meeting here is {amount} beyond the drone's range"
    MUST_MEET = "the truck waits here to meet the drone"
    NO_LATER = "the truck comes to no later node within the drone's range"
    TOO_LATE = "no node to meet at would be reached within the longest sortie"
    CUSTOMERS_LEFT = "customers are left: {amount}"
    DRONES = "the drone is on its way there"
    TOO_FAR_TO_MEET = "a meeting there is {amount} beyond the drone's range"
    TOO_LATE_TO_MEET = "the drone cannot be there within the longest sortie"
    TOO_FULL = "the tandem would carry {amount} too much"
    NOT_IN_TIME = "afterwards a window, the endurance or the horizon would be exceeded by {amount}"
    NONE_SERVED = "the truck has served no customer of this tour"
    TO_MEET_HERE = "the truck is at the depot, to meet the drone"


def causes(drone: tuple[jax.Array, ...], truck: tuple[jax.Array, ...]) -> dict[str, Cause]:
    """`{"drone": Cause [1, n + 2], "truck": Cause [1, n]}` of kinds and amounts of each."""
    return {
        role: Cause(kind[None], amount[None], jnp.zeros_like(kind)[None])
        for role, (kind, amount) in {DRONE: drone, TRUCK: truck}.items()
    }

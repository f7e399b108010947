"""`vrpd_tw` paid by what a plan on a map comes to, for those who plan; learners are paid by `vrpd_tw` itself.

A plan's price puts first who is not served, then who is served late, then when all is done, then the way driven and
flown: the least of what comes later counts less than a whole of what comes before.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.scenarios import VrpdTw
from jaxvrp.envs.truck_drone.world import World

HALF_STEP = 10.0
"""Map units driven and flown that count as half a step; the longest way counts less than one."""


class Price(NamedTuple):
    """What a plan comes to, the most important first.

    Attributes:
        undone: customers that are not served, and drones that are not back on the truck.
        late: customers that are served after their window.
        end: steps until all is done.
        way: map units that the truck drives and the drones fly.
    """

    undone: float
    late: float
    end: float
    way: float


class PlannedVrpdTw(VrpdTw):
    """`vrpd_tw`; the reward is minus the price of the plan, in steps, in the step that ends it, and 0 before."""

    def shared_reward(self, state: World) -> jax.Array:
        """`f32[]`, for all agents; see the class."""
        return jnp.where(self.is_terminal(state), -self.price(state), 0.0)

    def price(self, state: World) -> jax.Array:
        """`f32[]`, in steps, of the plan that ends in a state; `price_of` reads it."""
        customers, drones, totals = state.customers, state.drones, state.totals
        undone = jnp.sum(~customers.served) + jnp.sum(drones.is_airborne | drones.is_crashed)
        late = jnp.sum(customers.served & (customers.arrival_step > state.instance.window_end))
        of_late, of_undone = _weights(self)
        way = totals.truck_distance + totals.drone_distance
        whole = of_undone * undone + of_late * late + state.step
        return whole.astype(jnp.float32) + way / (way + HALF_STEP)


def _weights(env: TruckDrone) -> tuple[int, int]:
    """Steps that a late customer counts for, and one that is not served."""
    of_late = env.max_steps + 1
    return of_late, of_late * (env.num_customers + 1)


def price_of(env: TruckDrone, price: float) -> Price:
    """The parts of a price in steps."""
    of_late, of_undone = _weights(env)
    undone, rest = divmod(price, of_undone)
    late, rest = divmod(rest, of_late)
    end, share = divmod(rest, 1.0)
    return Price(undone, late, end, HALF_STEP * share / (1.0 - share))


def planned(env: TruckDrone) -> TruckDrone:
    """The environment to plan in; scenarios with rewards of their own are paid by these."""
    if type(env) is not VrpdTw:
        return env
    return make(PlannedVrpdTw, **env.parameters)

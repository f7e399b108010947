"""`vrpd_tw` paid by what a plan on a map comes to, for those who plan; learners are paid by `vrpd_tw` itself.

A plan's price puts first who is not served, then who is served late, then when all is done, then the way driven and
flown until then: the least of what comes later counts less than a whole of what comes before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.scenarios import VrpdTw
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.spaces import ByRole

HALF_STEP = 10.0
"""Map units driven and flown that count as half a step; the longest way counts less than one."""


class Price(NamedTuple):
    """What a plan comes to, the most important first; each `f32[]`."""

    undone: Any  # customers that are not served, and drones that are not back on the truck
    late: Any  # customers that are served after their window
    end: Any  # steps until the last delivery, launch, boarding or crash; all steps if a drone is in the air at the end
    way: Any  # map units that the truck drives and the drones fly until then


class PlannedWorld(World):
    """The world, and how far it was when something was last done in it."""

    end: Any = None  # `i32[]`, the step of the last delivery, launch, boarding or crash; 0 before the first
    way: Any = None  # `f32[]`, map units driven and flown until then


class PlannedVrpdTw(VrpdTw):
    """`vrpd_tw`; the reward is minus the cost of the plan, in the step that ends it, and 0 before.

    As one `f32` it is rounded: who compares plans reads the parts of `cost`.
    """

    def init_state(self, instance: Instance) -> PlannedWorld:
        """As of `vrpd_tw`; nothing is done."""
        world = super().init_state(instance)
        return PlannedWorld(**vars(world), end=jnp.zeros((), jnp.int32), way=jnp.zeros((), jnp.float32))

    def transition(self, state: Any, action: ByRole, num_invalid: jax.Array) -> World:
        """As of `vrpd_tw`, from a `PlannedWorld`; what is done is an event, so that no decision goes on after it."""
        after = super().transition(state, action, num_invalid)
        before, drones = state.drones, after.drones
        changed = (before.is_onboard != drones.is_onboard) | (before.is_crashed != drones.is_crashed)
        is_done = changed.any() | after.customers.just_served.any()
        way = after.totals.truck_distance + after.totals.drone_distance
        return after.replace(end=jnp.where(is_done, after.step, state.end), way=jnp.where(is_done, way, state.way))

    def reward(self, state: Any) -> ByRole:
        """`{"truck": f32[1], "drone": f32[D]}`, the same for all agents; see the class."""
        paid = jnp.where(self.is_terminal(state), -_in_steps(self, self.price(state)).sum(), 0.0)
        return {"truck": paid[None], "drone": jnp.broadcast_to(paid, (self.num_drones,))}

    def price(self, state: Any) -> Price:
        """The price of the plan that ends in a `PlannedWorld`."""
        customers, drones, totals = state.customers, state.drones, state.totals
        airborne = drones.is_airborne.any()
        price = Price(
            undone=jnp.sum(~customers.served) + jnp.sum(drones.is_airborne | drones.is_crashed),
            late=jnp.sum(customers.served & (customers.arrival_step > state.instance.window_end)),
            end=jnp.where(airborne, state.step, state.end),
            way=jnp.where(airborne, totals.truck_distance + totals.drone_distance, state.way),
        )
        return Price(*(part.astype(jnp.float32) for part in price))

    def metrics(self, state: Any) -> dict[str, jax.Array]:
        """As of `vrpd_tw`, and `price`, `f32[4]`: the parts of a `Price`."""
        return {**super().metrics(state), "price": jnp.stack(self.price(state))}


def cost(env: TruckDrone, state: World, earned: jax.Array) -> jax.Array:
    """`f32[K]`, see `jaxvrp.Players.cost`: in a planned environment three parts in steps, else minus the return."""
    return _in_steps(env, env.price(state)) if isinstance(env, PlannedVrpdTw) else -earned[None]


def _in_steps(env: TruckDrone, price: Price) -> jax.Array:
    """`f32[3]`: customers who are not served or late, the end, and the way as a share of a step.

    Side by side none of them is rounded away.
    """
    first = (env.max_steps + 1) * ((env.num_customers + 1) * price.undone + price.late)
    return jnp.stack([first, price.end, price.way / (price.way + HALF_STEP)])


def planned(env: TruckDrone) -> TruckDrone:
    """The environment to plan in; scenarios with rewards of their own are paid by these."""
    if type(env) is not VrpdTw:
        return env
    return make(PlannedVrpdTw, **env.parameters)

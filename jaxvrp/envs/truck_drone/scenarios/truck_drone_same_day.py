"""Scenario `truck_drone_same_day`: orders come in during the day, more than can be served, each with little time."""

from __future__ import annotations

import jax

from jaxvrp.envs.truck_drone.reward import RewardWeights
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.fields import again, size


class TruckDroneSameDay(VrpdTw):
    """`vrpd_tw` in which customers call when their window opens and are lost when it closes; all else is as there.

    A call comes at a step that is uniform in [0, max_steps // 2); the order can be delivered from then on for
    [max_steps // 40, max_steps // 16) steps. After that it may not be chosen any more, and looks as if it was served; a
    drone that has its package may fly home. Orders are more than can be served: to decline is to let the window pass.

    Reward, shared: `delivery_bonus` for each delivery, minus costs as in `vrpd_tw`; neither the end nor time costs
    anything by default.

    End, always a termination: `max_steps`, all served or lost with no drone in the air, or all drones crashed.
    """

    num_drones: int = size(4, help="drones on the truck")
    num_customers: int = size(30, help="customers")
    num_route_nodes: int = size(10, help="places that the truck can drive to")
    max_steps: int = size(200, minimum=40, help="length of an episode", unit="steps")
    dynamic_share: float = again(VrpdTw, "dynamic_share", 1.0)
    makespan_cost: float = again(VrpdTw, "makespan_cost", 0.0)
    completion_bonus: float = again(RewardWeights, "completion_bonus", 0.0)
    incomplete_penalty: float = again(RewardWeights, "incomplete_penalty", 0.0)

    @property
    def window_widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 40, self.max_steps // 16

    def news_range(self, window_start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Customers call when their windows open."""
        return window_start, window_start

    def is_lost(self, world: World) -> jax.Array:
        """`bool[C]`: the window has closed, and no delivery was made."""
        return ~world.customers.served & (world.step >= world.instance.window_end)

    def is_terminal(self, state: World) -> jax.Array:
        """`max_steps`, nothing left to do, or all drones crashed."""
        return super().is_terminal(self.without_lost(state))

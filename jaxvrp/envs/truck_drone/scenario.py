"""What a scenario owns: what is generated, seen, allowed, rewarded, and when it ends.

The world and its physics stay the same; a user's scenario is a frozen dataclass with these functions, made known by
`jaxvrp.register` or given as a dotted path `package.module:MyScenario`. The quickest way is to subclass
`TruckDroneBasic` and to change what differs.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.world import Instance, World, initial_world
from jaxvrp.fields import size


class Scenario(Physics, abc.ABC):
    """Sizes (static), physics parameters (inherited leaves) and the pure functions of a truck-and-drones problem.

    Attributes:
        num_drones: D.
        num_customers: C.
        num_route_nodes: N, places that the truck can drive to.
        max_steps: length of an episode; at least 3, so that windows have a width.
    """

    registry_kind: ClassVar[str] = "scenario"

    num_drones: int = size(2)
    num_customers: int = size(3)
    num_route_nodes: int = size(5)
    max_steps: int = size(200, minimum=3)

    @property
    def num_truck_actions(self) -> int:
        """`STAY, MOVE_0.., RELEASE_0.., RECOVER_0..`."""
        return 1 + self.num_route_nodes + 2 * self.num_drones

    @property
    def num_drone_actions(self) -> int:
        """`HOVER, RETURN, DELIVER_0..`."""
        return 2 + self.num_customers

    @abc.abstractmethod
    def generate(self, key: jax.Array) -> Instance:
        """Draw one problem."""

    def init_world(self, instance: Instance) -> World:
        """The world at step 0: truck at its start, drones onboard, fully charged, without a package."""
        return initial_world(instance, self.num_drones, self.max_battery)

    @abc.abstractmethod
    def observation(self, world: World) -> dict[str, jax.Array]:
        """`{"truck": f32[1, O_truck], "drone": f32[D, O_drone]}`."""

    @abc.abstractmethod
    def global_observation(self, world: World) -> jax.Array:
        """`f32[G]`."""

    @abc.abstractmethod
    def action_mask(self, world: World) -> dict[str, jax.Array]:
        """`{"truck": bool[1, 1 + N + 2D], "drone": bool[D, 2 + C]}`; index 0 is always legal."""

    @abc.abstractmethod
    def reward(self, world: World) -> jax.Array:
        """`f32[]`, shared by all agents, of the step that led to `world`."""

    @abc.abstractmethod
    def is_terminal(self, world: World) -> jax.Array:
        """`bool[]`."""

    def is_truncated(self, world: World) -> jax.Array:
        """`bool[]`: the episode is cut short without being over; never, unless overridden."""
        del world
        return jnp.zeros((), bool)

    @abc.abstractmethod
    def metrics(self, world: World) -> dict[str, jax.Array]:
        """`{name: f32[] or f32[agents]}`, totals of the episode so far."""

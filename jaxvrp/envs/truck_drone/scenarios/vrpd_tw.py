"""Scenario `vrpd_tw`: the vehicle routing problem with drones and time windows."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.envs.truck_drone import observation
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import Freight, Physics, recoverable
from jaxvrp.envs.truck_drone.problem.generator import draw_known_from
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.scenarios.truck_drone_basic import TruckDroneBasic
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.fields import again, parameter, size
from jaxvrp.spaces import ByKind, ByRole, EntityKind


class VrpdTw(Freight, TruckDroneBasic):
    """`truck_drone_basic` as a dispatcher would recognise it; everything else is as there.

    The truck keeps driving to its node until STAY or arrival. A package is loaded at the truck, so that a sortie serves
    one customer, and weighs: a drone that carries it draws `battery_rate * (1 + payload_factor * demand)` per map unit.
    No customer is served before its window opens; a drone that is there waits, at `hover_cost` per step.

    Windows are narrow: the start is whole and uniform in [0, max_steps // 2), the width in
    [max_steps // 10, max_steps // 4), the end is cut at `max_steps`. Each customer becomes known during the episode
    with probability `dynamic_share`; until then it can be neither seen nor chosen, and looks like one that does not
    exist.

    Observation, flat: the vectors of `truck_drone_basic`, and then: start of the window of each customer / max_steps
    (C); per node: position relative to the truck (2), whether the truck is driving there; `step / max_steps`. So
    `f32[12 + 6C + 4(D-1) + (1+D) + 3N]` for a drone, `f32[5 + 8D + 6C + (1+D) + 3N]` for the truck. Globally
    `f32[5 + 7D + 6C + 3N]`: as there, starts of the windows, nodes in absolute coordinates.

    With `observation="entities"` all numbers of customers change in the course of an episode, since customers may
    become known; names and meanings stand in `jaxvrp.envs.truck_drone.observation`.

    Reward, shared: as there, minus `makespan_cost` for each step and `crash_penalty` for each drone that crashes in it;
    `completion_bonus` at the end only if all are served and no drone is in the air.

    End, always a termination: `max_steps`, all served with no drone in the air, or all drones crashed.
    """

    # Calibrated on 512 instances with four drones, twenty customers, ten nodes: random play serves 8 % of the customers
    # and completes no episode; the dispatcher serves all, 78 % on time; of the drones of a dispatcher that ignores
    # batteries none survives. python -m benchmarks.quality --env.scenario vrpd_tw --sizes 4,20,10 --blind
    battery_rate: float = again(Physics, "battery_rate", 0.58)
    hover_cost: float = again(Physics, "hover_cost", 0.02)
    recharge_rate: float = again(Physics, "recharge_rate", 0.025)
    max_steps: int = size(200, minimum=4, help="length of an episode", unit="steps")
    dynamic_share: float = parameter(
        0.0, minimum=0.0, maximum=1.0, help="probability that a customer becomes known during the episode only"
    )
    crash_penalty: float = parameter(10.0, minimum=0.0, help="for each crash of a drone")
    makespan_cost: float = parameter(0.1, minimum=0.0, help="for each step")

    def generate(self, key: jax.Array) -> Instance:
        """A problem of these sizes; `dynamic_share` changes nothing but `known_from`."""
        instance = super().generate(key)
        first, last = self.news_range(instance.window_start)
        return instance.replace(known_from=draw_known_from(key, first, last, self.dynamic_share))

    @property
    def window_widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 10, self.max_steps // 4

    def init_state(self, instance: Instance) -> World:
        """The world at step 0; the truck has no target yet."""
        world = super().init_state(instance)
        if self.truck_motion == "step":
            return world
        return world.replace(truck=world.truck.replace(target_node=jnp.full((), -1, jnp.int32)))

    @property
    def observation_sizes(self) -> dict[str, int]:
        """As in the class docstring, or the lengths of contexts."""
        sizes = super().observation_sizes
        if self.entity_kinds:
            return sizes
        return {role: size + self.num_customers + 3 * self.num_route_nodes + 1 for role, size in sizes.items()}

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """Customers, route nodes, drones; none where observations are flat."""
        kinds = super().entity_kinds
        if not kinds:
            return ()
        customers, nodes, drones = kinds
        customers = dataclasses.replace(customers, static=(), dynamic=observation.VRPD_TW_CUSTOMER_DYNAMIC)
        return customers, dataclasses.replace(nodes, dynamic=observation.VRPD_TW_NODE_DYNAMIC), drones

    def observation(self, state: World) -> ByRole:
        """Layouts in the class docstring."""
        state = self.known_world(state)
        vectors = super().observation(state)
        if self.entity_kinds:
            return vectors
        addition = observation.vrpd_tw_addition(state, state.truck.position, self.max_steps)
        addition = jnp.append(addition, state.step.astype(jnp.float32) / self.max_steps)
        return {
            role: jnp.concatenate([rows, jnp.broadcast_to(addition, (len(rows), len(addition)))], axis=1)
            for role, rows in vectors.items()
        }

    def global_observation(self, state: World) -> jax.Array | None:
        """Layout in the class docstring; None with entities."""
        state = self.known_world(state)
        vector = super().global_observation(state)
        if vector is None:
            return None
        addition = observation.vrpd_tw_addition(state, jnp.zeros(2, jnp.float32), self.max_steps)
        return jnp.concatenate([vector, addition])

    def static_entities(self, state: World) -> ByKind:
        """`{"customer": f32[0, C], "node": f32[2, N], "drone": f32[0, D]}`; {} where observations are flat."""
        nothing = {observation.CUSTOMER: jnp.zeros((0, self.num_customers), jnp.float32)}
        return super().static_entities(state) | nothing if self.entity_kinds else {}

    def entities(self, state: World) -> ByKind:
        """`{"customer": f32[11, C], "node": f32[2, N], "drone": f32[8, D]}`; {} where observations are flat."""
        return observation.vrpd_tw_entities(self, self.known_world(state), self.max_steps) if self.entity_kinds else {}

    def action_mask(self, state: World) -> ByRole:
        """As in `truck_drone_basic`, among known customers; an empty drone may choose where `may_load` says so."""
        return super().action_mask(self.known_world(state))

    def may_load(self, state: World) -> jax.Array:
        """`bool[D]`: empty, and within the truck's reach."""
        is_empty = super().may_load(state)
        return is_empty & recoverable(self, state) if self.load_at_truck else is_empty

    def shared_reward(self, state: World) -> jax.Array:
        """The formula of the class docstring."""
        crashes = jnp.sum(state.drones.just_crashed, dtype=jnp.float32)
        return super().shared_reward(state) - self.crash_penalty * crashes - self.makespan_cost

    def is_complete(self, state: World) -> jax.Array:
        """`bool[]`: all are served, and no drone is in the air."""
        return super().is_complete(state) & ~state.drones.is_airborne.any()


def make(**parameters: Any) -> TruckDrone:
    """The factory behind `jaxvrp.make("vrpd_tw", ...)`, which takes any field of the scenario.

    Raises:
        ValueError: an unknown parameter, or a value out of range.
        TypeError: a value of the wrong type.
    """
    return fields.build(VrpdTw, parameters, "parameter of 'vrpd_tw':")

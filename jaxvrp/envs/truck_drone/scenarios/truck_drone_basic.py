"""Scenario `truck_drone_basic`: deliver to all customers before the deadline, with little energy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.envs.truck_drone import observation, reward
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import recoverable
from jaxvrp.envs.truck_drone.problem import generator
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.reward import RewardWeights
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.spaces import ByKind, ByRole, EntityKind, Role


class TruckDroneBasic(RewardWeights, TruckDrone):
    """One truck, `D` drones, `C` customers with time windows, `N` route nodes on a circle; one shared reward.

    Observation of a drone, `f32[11 + 5C + 4(D-1) + (1+D)]`: own position (2), velocity (2), battery, carrying flag,
    target position (2, zeros if none), onboard flag, truck position relative to it (2); per customer: relative position
    (2), served flag, window remaining, demand; per other drone in index order: relative position (2), battery, status
    code; agent one-hot, truck first.

    Observation of the truck, `f32[4 + 8D + 5C + (1+D)]`: own position (2), velocity (2); onboard flag of each drone;
    per drone: relative position (2), velocity (2), battery, carrying flag, status code; customers as above; one-hot.

    Global observation, `f32[4 + 7D + 5C + 1]`, absolute coordinates: truck position, velocity; per drone position,
    velocity, battery, carrying flag, status code; per customer position, served flag, window remaining, demand;
    `step / max_steps`.

    With `observation="entities"` customers, route nodes and drones are shown once for all agents, and each agent sees a
    context of its own, `f32[3]` (truck) and `f32[12]` (drone); no global observation. Names and meanings stand in
    `jaxvrp.envs.truck_drone.observation` and in the tables of the documentation. Places are absolute there.

    Reward, shared: for each delivery `delivery_bonus` minus `late_penalty` per step late; minus `energy_cost` per unit
    of battery; minus `forced_return_penalty` per drone whose action was overridden; at the end `completion_bonus`, or
    minus `incomplete_penalty` per unserved customer.

    End, always a termination: `max_steps`, all served, or all drones crashed.
    """

    observation_kind: str = fields.choice(
        "flat",
        ("flat", "entities"),
        keyword="observation",
        help="a vector for each agent, or entities once for all; learners choose what their network reads",
    )

    @property
    def roles(self) -> dict[str, Role]:
        """Truck first, then drones; with entities, the names of their context and the targets of their actions."""
        roles = super().roles
        if not self.entity_kinds:
            return roles
        return {
            name: Role(role.num_agents, role.observation, role.action, *observation.BESIDE_ENTITIES[name])
            for name, role in roles.items()
        }

    @property
    def observation_sizes(self) -> dict[str, int]:
        """As in the class docstring, or the lengths of contexts."""
        if self.entity_kinds:
            return {name: len(context) for name, (context, *_) in observation.BESIDE_ENTITIES.items()}
        drones, customers = self.num_drones, self.num_customers
        of_drone = 11 + 5 * customers + 4 * (drones - 1) + (1 + drones)
        return {"truck": 4 + 8 * drones + 5 * customers + (1 + drones), "drone": of_drone}

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """Customers, route nodes, drones; none where observations are flat."""
        if self.observation_kind == "flat":
            return ()
        return observation.entity_kinds(self.num_customers, self.num_route_nodes, self.num_drones)

    def generate(self, key: jax.Array) -> Instance:
        """A problem of these sizes; its distribution is in `problem.generator`."""
        return generator.generate(
            key,
            num_customers=self.num_customers,
            num_route_nodes=self.num_route_nodes,
            max_steps=self.max_steps,
            widths=self.window_widths,
        )

    @property
    def window_widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 3, self.max_steps

    def observation(self, state: World) -> ByRole:
        """Layouts in the class docstring."""
        if self.entity_kinds:
            return {
                "truck": observation.truck_context(state, self.max_steps),
                "drone": observation.drone_context(self, state, self.max_steps),
            }
        return {
            "truck": observation.truck_observation(state, self.max_steps),
            "drone": observation.drone_observation(state, self.max_steps),
        }

    def global_observation(self, state: World) -> jax.Array | None:
        """Layout in the class docstring; None with entities."""
        return None if self.entity_kinds else observation.global_observation(state, self.max_steps)

    def static_entities(self, state: World) -> ByKind:
        """`{"customer": f32[4, C], "node": f32[2, N], "drone": f32[0, D]}`; {} where observations are flat."""
        return observation.static_entities(state, self.max_steps) if self.entity_kinds else {}

    def entities(self, state: World) -> ByKind:
        """`{"customer": f32[3, C], "node": f32[1, N], "drone": f32[8, D]}`; {} where observations are flat."""
        return observation.entities(self, state, self.max_steps) if self.entity_kinds else {}

    def action_mask(self, state: World) -> ByRole:
        """STAY, MOVE and HOVER always; the rest as the drones' states and packages allow."""
        drones = state.drones
        always = jnp.ones(1 + self.num_route_nodes, bool)
        truck = jnp.concatenate([always, drones.is_onboard, recoverable(self, state)])
        # As many as the state has: a replay leaves out those that only fill up the size.
        customer = jnp.arange(state.customers.served.shape[0], dtype=jnp.int32)
        may_load, has_package = self.may_load(state), drones.carrying[:, None] == customer
        deliver = drones.is_airborne[:, None] & ~state.customers.served & (may_load[:, None] | has_package)
        hover = jnp.ones((self.num_drones, 1), bool)
        drone = jnp.concatenate([hover, drones.is_airborne[:, None], deliver], axis=1)
        return {"truck": truck[None], "drone": drone}

    def may_load(self, state: World) -> jax.Array:
        """`bool[D]`: in flight, the drone could take any package; by default, if it has none."""
        return state.drones.carrying < 0

    def shared_reward(self, state: World) -> jax.Array:
        """The formula of the class docstring."""
        return reward.shared_reward(self, state, self.is_terminal(state), self.is_complete(state))

    def is_complete(self, state: World) -> jax.Array:
        """`bool[]`: nothing is left to do; by default, when all are served."""
        return state.customers.served.all()

    def is_terminal(self, state: World) -> jax.Array:
        """`max_steps`, nothing left to do, or all drones crashed."""
        return (state.step >= self.max_steps) | self.is_complete(state) | state.drones.is_crashed.all()

    def metrics(self, state: World) -> dict[str, jax.Array]:
        """Totals of the episode so far, each `f32[]`."""
        served = jnp.sum(state.customers.served, dtype=jnp.float32)
        total = jnp.full((), self.num_customers, jnp.float32)
        if state.instance.exists is not None:
            served -= jnp.sum(~state.instance.exists, dtype=jnp.float32)
            total = jnp.sum(state.instance.exists, dtype=jnp.float32)
        return {
            "customers_served": served,
            "total_customers": total,
            "completion_rate": served / total,
            "success": self.is_complete(state).astype(jnp.float32),
            "on_time_rate": state.totals.on_time.astype(jnp.float32) / total,
            "time_step": state.step.astype(jnp.float32),
            "invalid_actions": state.totals.invalid_actions.astype(jnp.float32),
            "forced_returns": state.totals.forced_returns.astype(jnp.float32),
            "crashed_drones": jnp.sum(state.drones.is_crashed, dtype=jnp.float32),
            "battery_used": state.totals.battery_used,
            "truck_distance": state.totals.truck_distance,
            "drone_distance": state.totals.drone_distance,
        }

"""Scenario `truck_drone_basic`: deliver to all customers before the deadline, with little energy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.physics import recoverable
from jaxvrp.envs.truck_drone.scenario import Scenario
from jaxvrp.envs.truck_drone.world import Instance, World
from jaxvrp.fields import parameter

STATUS_CODE = (0.0, 0.25, 0.5, 1.0)
"""How onboard, flying, returning, crashed are observed."""


class TruckDroneBasic(Scenario):
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

    Reward, shared: for each delivery `delivery_bonus` minus `late_penalty` per step late; minus `energy_cost` per unit
    of battery; minus `forced_return_penalty` per drone whose action was overridden; at the end `completion_bonus`, or
    minus `incomplete_penalty` per unserved customer.

    End, always a termination: `max_steps`, all served, or all drones crashed.
    """

    delivery_bonus: float = parameter(10.0, minimum=0.0)
    late_penalty: float = parameter(0.5, minimum=0.0)
    energy_cost: float = parameter(0.1, minimum=0.0)
    forced_return_penalty: float = parameter(1.0, minimum=0.0)
    completion_bonus: float = parameter(50.0, minimum=0.0)
    incomplete_penalty: float = parameter(10.0, minimum=0.0)

    def generate(self, key: jax.Array) -> Instance:
        """Customers uniform in [-0.8, 0.8]^2, demand in [0.5, 1), windows as specified, nodes on a circle of 0.6."""
        places, demands, starts, widths = jax.random.split(key, 4)
        count = (self.num_customers,)
        start = jax.random.randint(starts, count, 0, self.max_steps // 2, jnp.int32)
        width = jax.random.randint(widths, count, self.max_steps // 3, self.max_steps, jnp.int32)
        angle = 2 * jnp.pi * jnp.arange(self.num_route_nodes, dtype=jnp.float32) / self.num_route_nodes
        return Instance(
            truck_position=jnp.zeros(2, jnp.float32),
            node_position=0.6 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1),
            customer_position=jax.random.uniform(places, (*count, 2), jnp.float32, -0.8, 0.8),
            demand=jax.random.uniform(demands, count, jnp.float32, 0.5, 1.0),
            window_start=start,
            window_end=jnp.minimum(start + width, self.max_steps),
        )

    def observation(self, world: World) -> dict[str, jax.Array]:
        """Layouts in the class docstring."""
        agents = jnp.eye(1 + self.num_drones, dtype=jnp.float32)
        truck = jnp.concatenate(
            [
                world.truck.position,
                world.truck.velocity,
                world.drones.is_onboard.astype(jnp.float32),
                self._fleet(world, world.drones.position - world.truck.position).ravel(),
                self._customers(world, world.truck.position[None]).ravel(),
                agents[0],
            ]
        )
        drones = world.drones
        drone = jnp.concatenate(
            [
                drones.position,
                drones.velocity,
                drones.battery[:, None],
                (drones.carrying >= 0).astype(jnp.float32)[:, None],
                drones.target,
                drones.is_onboard.astype(jnp.float32)[:, None],
                world.truck.position - drones.position,
                self._customers(world, drones.position).reshape(self.num_drones, -1),
                self._others(world).reshape(self.num_drones, -1),
                agents[1:],
            ],
            axis=1,
        )
        return {"truck": truck[None], "drone": drone}

    def global_observation(self, world: World) -> jax.Array:
        """Layout in the class docstring."""
        clock = world.step.astype(jnp.float32) / self.max_steps
        return jnp.concatenate(
            [
                world.truck.position,
                world.truck.velocity,
                self._fleet(world, world.drones.position).ravel(),
                self._customers(world, jnp.zeros((1, 2), jnp.float32)).ravel(),
                clock[None],
            ]
        )

    def action_mask(self, world: World) -> dict[str, jax.Array]:
        """STAY, MOVE and HOVER always; the rest as the drones' states and packages allow."""
        drones = world.drones
        always = jnp.ones(1 + self.num_route_nodes, bool)
        truck = jnp.concatenate([always, drones.is_onboard, recoverable(self, world)])
        customer = jnp.arange(self.num_customers, dtype=jnp.int32)
        empty, own = drones.carrying < 0, drones.carrying[:, None] == customer
        deliver = drones.is_airborne[:, None] & ~world.customers.served & (empty[:, None] | own)
        hover = jnp.ones((self.num_drones, 1), bool)
        drone = jnp.concatenate([hover, drones.is_airborne[:, None], deliver], axis=1)
        return {"truck": truck[None], "drone": drone}

    def reward(self, world: World) -> jax.Array:
        """The formula of the class docstring."""
        customers = world.customers
        late = jnp.maximum(customers.arrival_step - world.instance.window_end, 0).astype(jnp.float32)
        deliveries = jnp.where(customers.just_served, self.delivery_bonus - self.late_penalty * late, 0.0).sum()
        energy = self.energy_cost * world.drones.battery_used.sum()
        forced = self.forced_return_penalty * jnp.sum(world.drones.forced_return, dtype=jnp.float32)
        unserved = jnp.sum(~customers.served, dtype=jnp.float32)
        ending = jnp.where(unserved == 0, self.completion_bonus, -self.incomplete_penalty * unserved)
        return deliveries - energy - forced + jnp.where(self.is_terminal(world), ending, 0.0)

    def is_terminal(self, world: World) -> jax.Array:
        """`max_steps`, all served, or all drones crashed."""
        return (world.step >= self.max_steps) | world.customers.served.all() | world.drones.is_crashed.all()

    def metrics(self, world: World) -> dict[str, jax.Array]:
        """Totals of the episode so far, each `f32[]`."""
        served = jnp.sum(world.customers.served, dtype=jnp.float32)
        total = jnp.full((), self.num_customers, jnp.float32)
        return {
            "customers_served": served,
            "total_customers": total,
            "completion_rate": served / total,
            "success": world.customers.served.all().astype(jnp.float32),
            "on_time_rate": world.totals.on_time.astype(jnp.float32) / total,
            "time_step": world.step.astype(jnp.float32),
            "invalid_actions": world.totals.invalid_actions.astype(jnp.float32),
            "forced_returns": world.totals.forced_returns.astype(jnp.float32),
            "crashed_drones": jnp.sum(world.drones.is_crashed, dtype=jnp.float32),
            "battery_used": world.totals.battery_used,
            "truck_distance": world.totals.truck_distance,
            "drone_distance": world.totals.drone_distance,
        }

    def _status_code(self, world: World) -> jax.Array:
        return jnp.asarray(STATUS_CODE, jnp.float32)[world.drones.status]

    def _fleet(self, world: World, position: jax.Array) -> jax.Array:
        """`f32[D, 7]` with the given positions: position, velocity, battery, carrying flag, status code."""
        drones = world.drones
        scalars = [drones.battery, (drones.carrying >= 0).astype(jnp.float32), self._status_code(world)]
        return jnp.concatenate([position, drones.velocity, jnp.stack(scalars, axis=1)], axis=1)

    def _customers(self, world: World, viewpoint: jax.Array) -> jax.Array:
        """`f32[A, C, 5]` from viewpoints `f32[A, 2]`: relative position, served flag, window remaining, demand."""
        served = world.customers.served
        remaining = (world.instance.window_end - world.step).astype(jnp.float32) / self.max_steps
        window = jnp.where(served, 0.0, jnp.clip(remaining, 0.0, 1.0))
        scalars = jnp.stack([served.astype(jnp.float32), window, world.instance.demand], axis=1)
        relative = world.instance.customer_position - viewpoint[:, None]
        shared = jnp.broadcast_to(scalars, (viewpoint.shape[0], *scalars.shape))
        return jnp.concatenate([relative, shared], axis=2)

    def _others(self, world: World) -> jax.Array:
        """`f32[D, D-1, 4]`, the other drones in index order: relative position, battery, status code."""
        drones = world.drones
        relative = drones.position[None] - drones.position[:, None]
        scalars = jnp.stack([drones.battery, self._status_code(world)], axis=1)
        shared = jnp.broadcast_to(scalars, (self.num_drones, *scalars.shape))
        everyone = jnp.concatenate([relative, shared], axis=2)
        # Entry (i, j) of the result is drone j below the diagonal and drone j + 1 from it on.
        below = jnp.tri(self.num_drones, self.num_drones - 1, -1, dtype=bool)
        return jnp.where(below[:, :, None], everyone[:, :-1], everyone[:, 1:])

"""`flying_sidekicks`: a truck with several drones through the environment contract."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.actions import lowest_true
from jaxvrp.environment import Environment
from jaxvrp.envs.flying_sidekicks import rules
from jaxvrp.envs.flying_sidekicks.instance import Instance, as_float32, pad
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.spaces import Box, ByRole, Discrete, Role

TRUCK = "truck"


class FlyingSidekicks(Environment):
    """A truck and its drones serve every customer once, and are back at the depot as early as possible.

    The problem of Murray & Raj (2020). One role, `"truck"`, with one agent: the driver, who does one task after the
    other. Actions, `Discrete((n + 1) (D + 1))`: i (D + 1), drive to node i, having served here; i (D + 1) + 1 + d,
    launch drone d to customer i; n (D + 1) + d, recover drone d; the last one, serve here. A drone serves one customer
    of a flight, and is recovered at a later stop. Its endurance counts flight, service and hovering over the truck.
    Masks strand no drone: after an allowed task all that are away can be recovered in time, see `rules.allowed`. A
    forbidden action becomes the lowest-index allowed one.

    All is known in advance, so that plans are searched, not learned: `f32[1]`, the share of customers that nobody has
    set out for, is all that is observed; the global observation is the same.

    Reward: minus the growth of the clock; the return is minus the makespan. The episode ends when the truck and all
    drones are home, after at most 2 n - 1 tasks.

    Metrics: makespan, served_by_drone, waiting (of the truck for drones), invalid_actions.

    The fields are the parameters of `make`. Generated customers are uniform in a square with the depot in the middle,
    the truck drives as in a grid of streets, drones fly straight; times are seconds.
    """

    num_nodes: int = fields.size(10, help="n, the depot and customers")
    num_drones: int = fields.size(2, help="D")
    side: float = fields.parameter(5000.0, above=0.0, help="side of the square of generated nodes", unit="metres")
    truck_speed: float = fields.parameter(10.0, above=0.0, help="in generated instances", unit="metres per second")
    drone_speed: float = fields.parameter(20.0, above=0.0, help="in generated instances", unit="metres per second")
    endurance: float = fields.parameter(
        700.0, above=0.0, maximum=np.inf, help="of generated drones: flight, service, hovering", unit="seconds"
    )
    heavy_share: float = fields.parameter(
        0.2, minimum=0.0, maximum=1.0, help="share of generated customers that drones may not serve"
    )
    service_time: float = fields.parameter(30.0, minimum=0.0, help="of the truck at each customer", unit="seconds")
    drone_service: float = fields.parameter(60.0, minimum=0.0, help="of a drone at its customer", unit="seconds")
    launch_time: float = fields.parameter(60.0, minimum=0.0, help="of each generated launch", unit="seconds")
    recovery_time: float = fields.parameter(30.0, minimum=0.0, help="of each generated recovery", unit="seconds")

    @property
    def roles(self) -> dict[str, Role]:
        """The truck's driver."""
        box = Box(0.0, 1.0, (1,))
        return {TRUCK: Role(1, box, Discrete(rules.num_actions(self.num_nodes, self.num_drones)))}

    @property
    def max_episode_steps(self) -> int:
        """Two for each customer, and the way home."""
        return 2 * self.num_nodes - 1

    def generate(self, key: jax.Array) -> Instance:
        """A random instance of the environment's size."""
        place_key, load_key = jax.random.split(key)
        nodes, drones = self.num_nodes, self.num_drones
        is_customer = jnp.arange(nodes) > 0
        locs = self.side * jax.random.uniform(place_key, (nodes, 2), jnp.float32, -0.5, 0.5) * is_customer[:, None]
        # Compiled, a place minus itself is what rounding left, not 0: one of the two may be a product not yet rounded.
        gap = jnp.abs(locs[:, None] - locs) * ~jnp.eye(nodes, dtype=bool)[..., None]
        heavy = is_customer & jax.random.bernoulli(load_key, jnp.float32(self.heavy_share), (nodes,))
        flight = jnp.broadcast_to(jnp.sqrt((gap**2).sum(axis=-1)) / self.drone_speed, (drones, nodes, nodes))

        def repeated(value: float) -> jax.Array:
            return jnp.full(drones, value, jnp.float32)

        return Instance(
            locs=locs,
            exists=jnp.ones(nodes, bool),
            service=jnp.where(is_customer, jnp.asarray(self.service_time, jnp.float32), 0.0),
            truck_time=gap.sum(axis=-1) / self.truck_speed,
            no_fly=jnp.broadcast_to(heavy, (drones, nodes)),
            drone_time=flight,
            drone_service=repeated(self.drone_service),
            launch_time=repeated(self.launch_time),
            recovery_time=repeated(self.recovery_time),
            endurance=repeated(self.endurance),
            drain_out=flight + self.drone_service,
            drain_back=flight,
        )

    def init_state(self, instance: Instance) -> State:
        """All at the depot; a smaller instance is padded, a larger one is a ValueError."""
        return rules.reset(pad(as_float32(instance), self.num_nodes, self.num_drones))

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """One task."""
        return rules.advance(state, action[TRUCK][0], num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"truck": bool[1, (n + 1) (D + 1)]}`."""
        mask = rules.allowed(state)
        # Over, there is nothing to do.
        idle = state.done & (jnp.arange(len(mask)) == len(mask) - 1)
        return {TRUCK: (mask | idle)[None]}

    def fallback(self, mask: ByRole) -> ByRole:
        """The lowest-index allowed action."""
        return {role: lowest_true(allowed) for role, allowed in mask.items()}

    def observation(self, state: State) -> ByRole:
        """`{"truck": f32[1, 1]}`, see the class."""
        return {TRUCK: self.global_observation(state)[None]}

    def global_observation(self, state: State) -> jax.Array:
        """`f32[1]`, the share of customers that are left."""
        customers = jnp.maximum(jnp.sum(state.instance.exists) - 1, 1)
        return (jnp.sum(~state.served) / customers).astype(jnp.float32)[None]

    def reward(self, state: State) -> ByRole:
        """`{"truck": f32[1]}`, see the class."""
        return {TRUCK: -state.growth[None]}

    def is_terminal(self, state: State) -> jax.Array:
        """Truck and drones are home."""
        return state.done

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; all `f32[]`."""
        return {
            "makespan": state.walk.clock,
            "served_by_drone": state.by_drone.astype(jnp.float32),
            "waiting": state.waiting,
            "invalid_actions": state.invalid_actions.astype(jnp.float32),
        }


def make(**parameters: Any) -> FlyingSidekicks:
    """The factory behind `jaxvrp.make("flying_sidekicks", ...)`; parameters are the fields of `FlyingSidekicks`.

    Raises:
        ValueError: an unknown parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    return fields.build(FlyingSidekicks, parameters, "parameter of 'flying_sidekicks':")

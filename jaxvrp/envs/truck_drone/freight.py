"""Physics of parcels that weigh and are loaded at the truck, and of windows that drones wait for."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import World
from jaxvrp.fields import parameter, switch


class Freight(Physics):
    """What `vrpd_tw` adds to the rules of the world; mixed into a scenario."""

    truck_motion: str = fields.choice(
        "persistent",
        ("step", "persistent"),
        help="the truck drives in steps whose action is MOVE alone, or keeps to a node until STAY or arrival",
    )
    load_at_truck: bool = switch(
        True, help="an empty drone takes a package only within `recovery_threshold` of the truck"
    )
    wait_for_window: bool = switch(True, help="nobody is served before the window opens; a drone that is there waits")
    # The power of a multirotor in flight grows about linearly with its payload (Dorling et al. 2017).
    payload_factor: float = parameter(
        0.5, minimum=0.0, help="battery per map unit grows by this share for a package of demand 1"
    )

    def consumption(self, instance: Instance, carrying: jax.Array) -> jax.Array:
        """`f32[D]`, see `Physics.consumption`; `carrying` is `i32[D]`, -1 for nothing."""
        demand = jnp.where(carrying >= 0, instance.demand[jnp.maximum(carrying, 0)], 0.0)
        return self.laden_consumption(demand)

    def laden_consumption(self, demand: jax.Array) -> jax.Array:
        """Battery per map unit flown with a package of this demand, `f32[...]`."""
        return self.battery_rate * (1.0 + self.payload_factor * demand)

    def is_closed(self, world: World) -> jax.Array | None:
        """Whose window has not opened at the end of the step that begins in `world`, `bool[C]`; None: nobody waits."""
        return world.step + 1 < world.instance.window_start if self.wait_for_window else None

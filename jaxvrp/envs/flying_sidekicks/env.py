"""`flying_sidekicks`: a truck with several drones through the environment contract."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.environment import Environment
from jaxvrp.envs.flying_sidekicks import rules
from jaxvrp.envs.flying_sidekicks.instance import Instance, as_float32, pad
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.io.arrays import unit_of
from jaxvrp.spaces import Box, ByRole, Discrete, Role

TRUCK = "truck"

OF_NODE = ("exists", "unserved", "x", "y", "service", "truck's time to here", "truck's time from here to the depot")
OF_DRONE_AND_NODE = ("no_fly", "drone's time to here, from its customer if it is away")
OF_DRONE = ("away", "launched here", "leaves its customer", "endurance left then", "launch time", "recovery time")


class FlyingSidekicks(Environment):
    """A truck and its drones serve every customer once, and are back at the depot as early as possible.

    The problem of Murray & Raj (2020). One role, `"truck"`, with one agent: the driver, who does one task after the
    other. Actions, `Discrete((n + 1) (D + 1))`: i (D + 1), drive to node i, having served here; i (D + 1) + 1 + d,
    launch drone d to customer i; n (D + 1) + d, recover drone d; the last one, serve here. A drone serves one customer
    of a flight, and is recovered at a later stop. Its endurance counts flight, service and hovering over the truck.
    Masks strand no drone: after an allowed task all that are away can be recovered in time, see `rules.allowed`. A
    forbidden action becomes the lowest-index allowed one.

    Observation, `f32[7 n + 2 D n + 6 D + 2]`: each of `OF_NODE` for all nodes, of `OF_DRONE_AND_NODE` for all drones
    and nodes, of `OF_DRONE` for all drones, whether service is pending here, and whether the truck is home.
    Places are from the depot, in units of the largest |x| or |y|; times in units of the truck's longest time from the
    depot; `leaves its customer` is relative to the clock. The global observation is the same.

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
        nodes, drones = self.num_nodes, self.num_drones
        numbers = len(OF_NODE) * nodes + len(OF_DRONE_AND_NODE) * drones * nodes + len(OF_DRONE) * drones + 2
        box = Box(-jnp.inf, jnp.inf, (numbers,))
        return {TRUCK: Role(1, box, Discrete(rules.num_actions(nodes, drones)))}

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
        gap = jnp.abs(locs[:, None] - locs)
        heavy = is_customer & jax.random.bernoulli(load_key, self.heavy_share, (nodes,))
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
        return {role: jax.lax.argmax(allowed, 1, jnp.int32) for role, allowed in mask.items()}

    def observation(self, state: State) -> ByRole:
        """`{"truck": f32[1, F]}`, see the class."""
        return {TRUCK: self.global_observation(state)[None]}

    def global_observation(self, state: State) -> jax.Array:
        """`f32[F]`, what the driver sees."""
        instance, walk = state.instance, state.walk
        places = instance.locs - instance.locs[0]
        unit = unit_of(jnp.where(instance.exists, instance.truck_time[0], 0.0).max())
        is_away = walk.customer > 0
        start = jnp.where(is_away, walk.customer, walk.stop)
        endurance = jnp.where(jnp.isfinite(instance.endurance), instance.endurance, 1e3 * unit)
        times = (
            instance.service,
            instance.truck_time[walk.stop],
            instance.truck_time[:, 0],
            instance.drone_time[jnp.arange(self.num_drones), start].ravel(),
            jnp.where(is_away, walk.leave - walk.clock, 0.0),
            jnp.where(is_away, endurance - walk.used + walk.spared, endurance),
            instance.launch_time,
            instance.recovery_time,
        )
        flags = (instance.exists, ~state.served, instance.no_fly.ravel(), is_away, is_away & walk.is_here)
        service, there, home, flight, leave, left, launch, recovery = (time / unit for time in times)
        exists, unserved, no_fly, away, here = (flag.astype(jnp.float32) for flag in flags)
        x, y = (places / unit_of(jnp.abs(places).max())).T
        last = jnp.stack([walk.is_pending, state.is_home]).astype(jnp.float32)
        of_nodes = (exists, unserved, x, y, service, there, home)
        return jnp.concatenate([*of_nodes, no_fly, flight, away, here, leave, left, launch, recovery, last])

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

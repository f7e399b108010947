"""`truck_drone_tours`: several tandems of a truck and a drone, with time windows, through the environment contract."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK, TruckAndDrone
from jaxvrp.envs.truck_and_drone.instance import as_float32, pad
from jaxvrp.envs.truck_drone_tours import observation, rules
from jaxvrp.envs.truck_drone_tours.problem.generator import generate
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.spaces import ByRole


class TruckDroneTours(TruckAndDrone):
    """Tandems of a truck and its drone serve every customer in its time window, at the least cost of their ways.

    The problem of Kuo et al. (2022). Identical tandems drive one tour each, one after the other: when a tour is closed
    at the depot, the clock returns to 0 and the next tandem leaves. Roles, actions and fallback are those of
    `TspDrone` without revisits, except that the truck may close a tour once it has served a customer. The masks are
    exact: an action is allowed if and only if the tour can be completed after it, in all windows, within load,
    endurance and horizon.

    Entities: the nodes, what never changes (11 numbers each) and what does (11); beside these both see a context of 22
    numbers, their observation: `jaxvrp.envs.truck_drone_tours.observation`. With `observation="flat"` all of it is one
    vector, `f32[22 + 22 n]`.

    Reward, shared: minus the cost of the ways as they are driven and flown, or all of it on the last step
    (`reward="sparse"`), and on the last step minus `unserved_price` for each customer that is left. The episode ends
    when all are served, or when `num_tandems` tours are closed, after at most 2 (n - 1 + tandems) steps. With as
    many tandems as customers, all are served however it is played: each tour serves one at least, and a truck can serve
    each alone. With fewer, whether all can still be served is a packing problem of its own, so that no mask asks it.

    Metrics: travel_cost, tours, unserved, waiting (for windows), served_by_drone, drone_flight, truck_distance,
    waiting_truck, waiting_drone (for each other), sorties, invalid_actions.

    The fields are the parameters of `make`, where `reward_kind` is called `reward`, and `observation_kind`
    `observation`. Generated instances are as those of Kuo et al., in miles, minutes, kg and euro; parameters that say
    what is generated do not count for instances from elsewhere.
    """

    sees: ClassVar[Any] = observation
    allow_revisits: ClassVar[bool] = False

    num_tandems: int = fields.size(0, minimum=0, help="most tours; 0: as many as customers")
    unserved_price: float = fields.parameter(
        10.0, minimum=0.0, help="at the end, for each customer that is not served", unit="money"
    )
    grid: float = fields.parameter(5.0, above=0.0, help="side of the square of generated nodes", unit="miles")
    window_share: float = fields.parameter(
        0.5, minimum=0.0, maximum=1.0, help="share of generated customers with a window"
    )
    window_width: float = fields.parameter(60.0, above=0.0, help="width of generated windows", unit="minutes")
    horizon: float = fields.parameter(480.0, above=0.0, help="when tandems are back at the latest", unit="minutes")
    service_time: float = fields.parameter(10.0, minimum=0.0, help="at each generated customer", unit="minutes")
    truck_speed: float = fields.parameter(35.0, above=0.0, help="in generated instances", unit="miles per hour")
    drone_speed: float = fields.parameter(50.0, above=0.0, help="in generated instances", unit="miles per hour")
    max_demand: float = fields.parameter(
        5.0, minimum=0.0, help="demand of generated customers is uniform from 0", unit="kg"
    )
    truck_capacity: float = fields.parameter(
        1400.0, above=0.0, maximum=np.inf, help="of a tandem in generated instances", unit="kg"
    )
    drone_capacity: float = fields.parameter(
        5.0, minimum=0.0, maximum=np.inf, help="heavier generated customers are the truck's", unit="kg"
    )
    endurance: float = fields.parameter(
        30.0, above=0.0, maximum=np.inf, help="flights and service of a sortie", unit="minutes"
    )
    launch_time: float = fields.parameter(1.0, minimum=0.0, help="of each generated launch", unit="minutes")
    recovery_time: float = fields.parameter(1.0, minimum=0.0, help="of each generated meeting", unit="minutes")
    truck_price: float = fields.parameter(0.12735, minimum=0.0, help="of the truck's way", unit="euro per mile")
    drone_price: float = fields.parameter(0.012735, minimum=0.0, help="of the drone's way", unit="euro per mile")

    def check_fields(self) -> None:
        """Refuse fields that do not fit each other, with a ValueError; see `jaxvrp.fields.build`."""
        heaviest, most = self.max_demand, self.truck_capacity
        if isinstance(heaviest, int | float) and isinstance(most, int | float) and heaviest > most:
            raise ValueError(f"max_demand is {heaviest:g}, above truck_capacity {most:g}; give them in order")

    @property
    def max_episode_steps(self) -> int:
        """Two for each customer, whoever serves it, and two for each way home."""
        customers = max(self.num_nodes - 1, 1)
        return 2 * (customers + min(self.num_tandems or customers, customers))

    def generate(self, key: jax.Array) -> Instance:
        """A random instance of the environment's size, in the manner of Kuo et al."""
        return generate(key, self)

    def init_state(self, instance: Instance) -> State:
        """The first tandem at the depot; a smaller instance is padded, a larger one is a ValueError."""
        if not isinstance(instance, Instance):
            raise ValueError("the instance has no time windows; make 'tsp_drone' to play it")
        return rules.begin(pad(as_float32(instance), self.num_nodes), self.num_tandems)

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """One turn of the agent that decides, drone or truck."""
        return rules.advance(state, action[DRONE][0], action[TRUCK][0], num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"drone": bool[1, n + 2], "truck": bool[1, n]}`."""
        return {DRONE: rules.drone_allowed(state)[None], TRUCK: rules.truck_allowed(state)[None]}

    def reward(self, state: State) -> ByRole:
        """`{"drone": f32[1], "truck": f32[1]}`, the same for both, see the class."""
        fine = jnp.where(state.done, self.unserved_price * jnp.sum(~state.served), 0.0)
        paid = self.paid(state, state.tours.cost) - fine
        return {DRONE: paid[None], TRUCK: paid[None]}

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; all `f32[]`."""
        tours = state.tours
        totals = {
            "travel_cost": tours.cost,
            "tours": rules.tandems(self.num_tandems, state.figures) - tours.tandems_left,
            "unserved": jnp.sum(~state.served),
            "waiting": tours.waiting,
            **vars(state.totals),
        }
        return {name: jnp.asarray(value, jnp.float32) for name, value in totals.items() if name != "revisits"}


def make(**parameters: Any) -> TruckDroneTours:
    """The factory behind `jaxvrp.make("truck_drone_tours", ...)`; parameters are the fields of `TruckDroneTours`.

    Raises:
        ValueError: an unknown parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    return fields.build(TruckDroneTours, parameters, "parameter of 'truck_drone_tours':")

"""`tsp_drone`: the travelling salesman with a drone seen through the environment contract."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.truck_and_drone import observation
from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK, TruckAndDrone
from jaxvrp.envs.truck_and_drone.instance import Instance, as_float32, pad
from jaxvrp.envs.tsp_drone import rules
from jaxvrp.envs.tsp_drone.problem.generator import LAYOUTS, generate
from jaxvrp.envs.tsp_drone.rules import State
from jaxvrp.spaces import ByRole


class TspDrone(TruckAndDrone):
    """A truck and its drone serve every customer once, and are back at the depot as early as possible.

    Two roles with one agent each, `"drone"` and `"truck"`, which act in turn, the drone first; the mask of the other
    holds its action 0 alone. The drone's actions, `Discrete(n + 2)`: 0 ride along or, away, fly on; 1 meet the truck
    where it is; 2 + i fly to serve node i. After a meeting the drone has another turn at once. The truck's,
    `Discrete(n)`: the next node. A forbidden action becomes the lowest-index allowed one.

    Entities: the nodes, what never changes (7 numbers each) and what does (10); beside these both see a context of 18
    numbers, their observation. Names and meanings: `STATIC`, `DYNAMIC`, `CONTEXT` of
    `jaxvrp.envs.truck_and_drone.observation`, or the tables of the documentation. The units are the instance's own:
    S, its extent (the largest |x - x0| or |y - y0| from the depot), H, the truck's time from the depot to the farthest
    node, F, the largest drone distance from the depot. With `observation="flat"` all of it is one vector,
    `f32[18 + 17 n]`: the context, then each feature of all nodes; the global observation is the same.

    Reward, shared: minus the growth of the clock (`reward="dense"`), or all of it on the last step (`"sparse"`); both
    sum to minus the makespan. The episode ends when all are served and both are at the depot, after at most 3 n - 1
    steps: three for a customer of the drone, two for a customer of the truck, two for the way home. Without
    `allow_revisits` there are at most 2 n, since a customer of the drone takes one more step alone.

    Metrics: makespan, served_by_drone, drone_flight, truck_distance, waiting_truck, waiting_drone, sorties, revisits,
    invalid_actions.

    The fields are the parameters of `make`, where `reward_kind` is called `reward`, and `observation_kind`
    `observation`. Those that say what is generated do not count for instances from elsewhere.
    """

    sees: ClassVar[Any] = observation

    layout: str = fields.choice("corner", LAYOUTS, help="where generated nodes lie")
    allow_revisits: bool = fields.switch(True, help="truck and drone may meet at nodes that are served already")
    alpha: float = fields.parameter(2.0, above=0.0, help="how many times as fast as the truck a generated drone is")
    max_flight: float = fields.parameter(
        np.inf, above=0.0, maximum=np.inf, help="longest flight in generated instances, both legs", unit="map units"
    )
    launch_time: float = fields.parameter(0.0, minimum=0.0, help="of each launch in generated instances", unit="time")
    recovery_time: float = fields.parameter(
        0.0, minimum=0.0, help="of each meeting in generated instances", unit="time"
    )

    @property
    def max_episode_steps(self) -> int:
        """See the class: 3 n - 1, and 2 n where the truck must serve a customer before each meeting."""
        return 3 * self.num_nodes - 1 if self.allow_revisits else 2 * self.num_nodes

    def generate(self, key: jax.Array) -> Instance:
        """A random instance of the environment's size."""
        return generate(key, self)

    def init_state(self, instance: Instance) -> State:
        """Both at the depot; a smaller instance is padded, a larger one is a ValueError."""
        if type(instance) is not Instance:
            raise ValueError("the instance has time windows; make 'truck_drone_tours' to play it")
        return rules.begin(pad(as_float32(instance), self.num_nodes))

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """One turn of the agent that decides, drone or truck."""
        return rules.advance(state, action[DRONE][0], action[TRUCK][0], num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"drone": bool[1, n + 2], "truck": bool[1, n]}`."""
        return {
            DRONE: rules.drone_allowed(state, allow_revisits=self.allow_revisits)[None],
            TRUCK: rules.truck_allowed(state, allow_revisits=self.allow_revisits)[None],
        }

    def reward(self, state: State) -> ByRole:
        """`{"drone": f32[1], "truck": f32[1]}`, the same for both, see the class."""
        paid = self.paid(state, state.clock)[None]
        return {DRONE: paid, TRUCK: paid}

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; all `f32[]`."""
        totals = {name: jnp.asarray(value, jnp.float32) for name, value in vars(state.totals).items()}
        return {"makespan": state.clock, **totals}


def make(**parameters: Any) -> TspDrone:
    """The factory behind `jaxvrp.make("tsp_drone", ...)`; parameters are the fields of `TspDrone`.

    Raises:
        ValueError: an unknown parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    return fields.build(TspDrone, parameters, "parameter of 'tsp_drone':")

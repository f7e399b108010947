"""`darp`: dial-a-ride seen through the environment contract."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.environment import Environment
from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.observation import CONTEXT_SIZE, NODE_SIZE, observe
from jaxvrp.envs.darp.problem.generator import generate
from jaxvrp.envs.darp.problem.instance import Instance, as_float32, pad
from jaxvrp.envs.darp.reward import REWARDS, step_reward, unvisited_nodes
from jaxvrp.envs.darp.rules import State
from jaxvrp.spaces import Box, ByRole, Discrete, Entities, Role


class Darp(Environment):
    """Several vehicles, one after the other, bring passengers from pickup to drop-off in time.

    One role, `"vehicle"`: one agent, the vehicle that is under way. Its action is the next node, `Discrete(N + 1)`: 0
    is the depot (the next vehicle takes over), odd indices are pickups, the pickup at i has its drop-off at i + 1.
    A forbidden action becomes the lowest-index allowed customer, the depot if there is none.

    Observation, `f32[13 + 19 (N + 1)]`, the same globally. The units are the instance's own: S, its extent (the
    largest |x - x0| or |y - y0| from the depot), H, the depot's deadline (the largest finite deadline if that has
    none), C, its largest capacity; so a policy may meet any size and unit. First the context:

        0 clock / H · 1 load / own capacity · 2 own capacity / C · 3 at the depot · 4 vehicles to come / vehicles ·
        5 their mean capacity / C · 6 requests not picked up / requests · 7 requests on board / requests · 8, 9 own
        position from the depot / S · 10 S / (speed H) · 11 ride time limit / H, at most 1 · 12 duration limit / H, at
        most 1

    then a row for each node, depot first, all zero for nodes that were visited and for padding (times are clipped to
    [-1, 1]):

        0 present · 1 pickup · 2 drop-off · 3 on board · 4 allowed by the mask · 5, 6 position from the depot / S · 7, 8
        that of its partner (the other end of the request) · 9 demand / C · 10 earliest / H · 11 deadline / H, at most 1
        · 12 service time / H · 13 partner's deadline · 14 distance from the vehicle / S · 15 time until service would
        start / H · 16 deadline minus arrival / H · 17 depot's deadline minus the time home, right after it / H · 18
        what is left of the ride time / H for drop-offs on board, else 1

    Reward: minus the distance and, at the end, the penalties: `penalty_unvisited` per unvisited node, a drop-off whose
    pickup was visited `orphan_factor` times. All of it on the last step (`reward="sparse"`), or the distance as it is
    driven (`"dense"`): the sums are the same. The episode ends when all customers are visited (the leg home is added)
    or all vehicles have finished, within N + V steps.

    Metrics: requests_served, served_share, unvisited_nodes, stranded, total_distance, vehicles_used, invalid_actions.

    The fields are the parameters of `make`, where `reward_kind` is called `reward`. Those that say what is generated do
    not count for instances from elsewhere.
    """

    num_nodes: int = fields.size(20, minimum=2, help="N, pickups and drop-offs; even")
    num_agents: int = fields.size(5, help="V, vehicles")
    reward_kind: str = fields.choice(
        "sparse", REWARDS, keyword="reward", help="all of the reward on the last step, or the distance as it is driven"
    )
    round_travel_time: bool = fields.switch(
        True, help="generated instances round travel times to whole numbers, half to even"
    )
    lookahead: bool = fields.switch(False, help="forbid nodes after which somebody on board cannot be brought in time")
    limits: bool = fields.switch(False, help="enforce ride times and route durations")
    vehicle_capacity: int | tuple[int, ...] = fields.size(
        5, help="what a vehicle can hold; one number, or one per vehicle", unit="passengers"
    )
    min_demand: int = fields.size(1, help="smallest demand of a generated request", unit="passengers")
    max_demand: int = fields.size(3, help="largest demand of a generated request, inclusive", unit="passengers")
    min_pickup_deadline: int = fields.size(
        10, minimum=0, help="earliest deadline of a generated pickup", unit="time units"
    )
    max_pickup_deadline: int = fields.size(
        30, minimum=0, help="latest deadline of a generated pickup, inclusive", unit="time units"
    )
    vehicle_speed: float = fields.parameter(
        25.0, above=0.0, help="speed of generated vehicles", unit="map units per time unit"
    )
    min_loc: float = fields.parameter(0.0, help="least coordinate of generated nodes", unit="map units")
    max_loc: float = fields.parameter(100.0, help="largest coordinate of generated nodes", unit="map units")
    horizon: float = fields.parameter(
        48.0, above=0.0, help="the depot's deadline in generated instances", unit="time units"
    )
    max_ride_time: float = fields.parameter(
        np.inf,
        above=0.0,
        maximum=np.inf,
        help="longest ride in generated instances; counts with limits",
        unit="time units",
    )
    max_route_duration: float = fields.parameter(
        np.inf,
        above=0.0,
        maximum=np.inf,
        help="longest tour in generated instances; counts with limits",
        unit="time units",
    )
    penalty_unvisited: float = fields.parameter(
        100.0, minimum=0.0, help="at the end, for each unvisited node", unit="map units"
    )
    orphan_factor: float = fields.parameter(
        1.0, minimum=0.0, help="how often the drop-off of a stranded passenger counts as unvisited"
    )

    def check_fields(self) -> None:
        """Refuse fields that do not fit each other, with a ValueError; see `jaxvrp.fields.build`."""
        if self.num_nodes % 2:
            raise ValueError(
                f"num_nodes is {self.num_nodes}; it must be even: a pickup and a drop-off for each request"
            )
        for low, high in (
            ("min_demand", "max_demand"),
            ("min_pickup_deadline", "max_pickup_deadline"),
            ("min_loc", "max_loc"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
                raise ValueError(f"{low} is {least}, above {high} {most}; give them in order")
        if isinstance(self.vehicle_capacity, tuple) and len(self.vehicle_capacity) != self.num_agents:
            raise ValueError(
                f"vehicle_capacity lists {len(self.vehicle_capacity)} vehicles, num_agents is {self.num_agents}; "
                "give one for each"
            )

    @property
    def roles(self) -> dict[str, Role]:
        """The vehicle under way."""
        entities = self.global_entities
        box = Box(-jnp.inf, jnp.inf, (entities.size,))
        return {"vehicle": Role(1, box, Discrete(self.num_nodes + 1), entities)}

    @property
    def global_entities(self) -> Entities:
        """Requests are the set, a pickup and a drop-off each; one is there until its drop-off is visited.

        The depot's row belongs to the context: 32 numbers, then N/2 times 38.
        """
        return Entities(
            num_entities=self.num_nodes // 2,
            entity_size=2 * NODE_SIZE,
            context_size=CONTEXT_SIZE + NODE_SIZE,
            present=NODE_SIZE,
            context_actions=1,
            entity_actions=2,
            places=((0, 5, 6), (NODE_SIZE, NODE_SIZE + 5, NODE_SIZE + 6)),
            coordinates=((0, 7, 8), (NODE_SIZE, NODE_SIZE + 7, NODE_SIZE + 8)),
            position=(8, 9),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """By keyword of `make`."""
        values = super().parameters
        return {"reward" if name == "reward_kind" else name: value for name, value in values.items()}

    @property
    def max_episode_steps(self) -> int:
        """N + V: each step visits a customer or sends a vehicle home."""
        return self.num_nodes + self.num_agents

    def generate(self, key: jax.Array) -> Instance:
        """A random instance of the environment's sizes."""
        return generate(key, self)

    def init_state(self, instance: Instance) -> State:
        """The first vehicle at the depot; a smaller instance is padded.

        Raises:
            ValueError: the instance is larger than the environment.
        """
        padded = pad(as_float32(instance), self.num_nodes, self.num_agents)
        return rules.begin(padded, limits=self.limits)

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """Drive to the node, and home with the last one."""
        return rules.drive(state, action["vehicle"][0], num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"vehicle": bool[1, N+1]}`."""
        return {"vehicle": rules.allowed(state, lookahead=self.lookahead)[None]}

    def fallback(self, mask: ByRole) -> ByRole:
        """The lowest-index allowed customer, the depot if there is none."""
        customers = mask["vehicle"].at[:, 0].set(False)
        return {"vehicle": jax.lax.argmax(customers, 1, jnp.int32)}

    def observation(self, state: State) -> ByRole:
        """`{"vehicle": f32[1, F]}`, see the class."""
        return {"vehicle": self.global_observation(state)[None]}

    def global_observation(self, state: State) -> jax.Array:
        """`f32[F]`, what the vehicle sees."""
        return observe(state, self.action_mask(state)["vehicle"][0])

    def reward(self, state: State) -> ByRole:
        """`{"vehicle": f32[1]}`, see the class."""
        paid = step_reward(
            state,
            kind=self.reward_kind,
            penalty_unvisited=self.penalty_unvisited,
            orphan_factor=self.orphan_factor,
        )
        return {"vehicle": paid[None]}

    def is_terminal(self, state: State) -> jax.Array:
        """All customers visited, or all vehicles finished."""
        return state.done

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; all `f32[]`."""
        real = state.instance.demand[2::2] != 0
        served = jnp.sum(state.visited[2::2] & real, dtype=jnp.float32)
        return {
            "requests_served": served,
            "served_share": served / jnp.maximum(jnp.sum(real, dtype=jnp.float32), 1.0),
            "unvisited_nodes": unvisited_nodes(state),
            "stranded": rules.stranded(state).astype(jnp.float32),
            "total_distance": state.total_distance,
            "vehicles_used": state.vehicles_used.astype(jnp.float32),
            "invalid_actions": state.invalid_actions.astype(jnp.float32),
        }


def make(*, reward: str = "sparse", **parameters: Any) -> Darp:
    """The factory behind `jaxvrp.make("darp", ...)`.

    Args:
        reward: `"sparse"` or `"dense"`.
        parameters: any field of `Darp`.

    Raises:
        ValueError: an unknown parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    if reward not in REWARDS:
        raise ValueError(f"reward is '{reward}'; it must be one of: {', '.join(REWARDS)}")
    env = fields.build(Darp, {**parameters, "reward_kind": reward}, "parameter of 'darp':")
    if np.max(env.vehicle_capacity) < env.min_demand:
        text = f"vehicle_capacity {env.vehicle_capacity} is below every demand (min_demand {env.min_demand})"
        warnings.warn(f"{text}; no request can be served", stacklevel=2)
    return env

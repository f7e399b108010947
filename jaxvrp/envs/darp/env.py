"""`darp`: dial-a-ride seen through the environment contract."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.actions import lowest_true
from jaxvrp.entities import flat_box, flatten
from jaxvrp.environment import Environment
from jaxvrp.envs.darp import observation, rules
from jaxvrp.envs.darp.observation import REQUEST
from jaxvrp.envs.darp.problem.figures import figures_of
from jaxvrp.envs.darp.problem.generator import CORDEAU_KINDS, INSTANCES, generate
from jaxvrp.envs.darp.problem.instance import Instance, as_float32, pad, with_streets
from jaxvrp.envs.darp.rules import State
from jaxvrp.geography.streets import MATRIX, STRAIGHT, TRAVEL
from jaxvrp.spaces import Box, ByKind, ByRole, Discrete, EntityKind, Pointer, Role

ROLE = "vehicle"


class Darp(Environment):
    """Several vehicles, one after the other, bring passengers from pickup to drop-off in time.

    One role, `"vehicle"`: one agent, the vehicle that is under way. Its action is the next node, `Discrete(N + 1)`: 0
    is the depot (the next vehicle takes over), odd indices are pickups, the pickup at i has its drop-off at i + 1.
    A forbidden action becomes the lowest-index allowed customer, the depot if there is none.

    Entities: the requests, what never changes (11 numbers each) and what does (14); beside these the vehicle sees a
    context of 16 numbers, its observation. With `prospects`, requests have 22 more that change, and the context 11: how
    long plans by simple rules would be after each choice. Names and meanings: `jaxvrp.envs.darp.observation`, or the
    documentation. The units are the instance's own: S, its extent (the largest |x - x0| or |y - y0| from the depot), H,
    the depot's deadline (the largest finite one if it has none, else the longest tour), C, its largest capacity; so a
    policy may meet any size and unit. Times are clipped to [-1, 1]. With `observation="flat"` all of it is one vector,
    `f32[16 + 25 N/2]`, with `prospects` `f32[27 + 47 N/2]`: the context, then each feature of all requests; the global
    observation is the same.

    Reward: minus the distance and, at the end, the penalties: `penalty_unvisited` per unvisited node, a drop-off whose
    pickup was visited `orphan_factor` times. All of it on the last step (`reward="sparse"`), or the distance as it is
    driven (`"dense"`): the sums are the same. The episode ends when all customers are visited (the leg home is added)
    or all vehicles have finished, within N + V steps.

    Metrics: requests_served, served_share, unvisited_nodes, stranded, total_distance, vehicles_used, invalid_actions.

    The fields are the parameters of `make`, where `reward_kind` is called `reward`, and `observation_kind`
    `observation`. Those that say what is generated do not count for instances from elsewhere.
    """

    num_nodes: int = fields.size(20, minimum=2, help="N, pickups and drop-offs; even")
    num_agents: int = fields.size(5, help="V, vehicles")
    reward_kind: str = fields.choice(
        "sparse",
        ("sparse", "dense"),
        keyword="reward",
        help="all of the reward on the last step, or the distance as it is driven",
    )
    observation_kind: str = fields.choice(
        "entities",
        ("entities", "flat"),
        keyword="observation",
        help="requests as entities, or all in one vector; learners choose the kind that their network reads",
    )
    round_travel_time: bool = fields.switch(
        True, help="generated instances round travel times to whole numbers, half to even"
    )
    prospects: bool = fields.switch(
        False, help="requests also show what plans would come to after each choice, by simple rules; a slower step"
    )
    lookahead: bool = fields.switch(False, help="forbid nodes after which a passenger on board would be late")
    limits: bool = fields.switch(False, help="enforce ride times and route durations")
    tighten: bool = fields.switch(
        True, help="with limits, cut windows for mask, observation and baselines to what a feasible plan can keep"
    )
    instances: str = fields.choice(
        "uniform", INSTANCES, help="which are generated: uniform, or as the sets of Cordeau (2006)"
    )
    cordeau_kind: str = fields.choice(
        "mixed", CORDEAU_KINDS, help="of instances as those of Cordeau: single passengers (a), groups (b), or either"
    )
    travel: str = fields.choice(
        STRAIGHT, TRAVEL, help="vehicles drive straight, or along streets, by a matrix of the instance"
    )
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
    detour: float = fields.parameter(
        0.5,
        minimum=0.0,
        help="with travel by matrix, how much longer a generated way is at most, each direction by itself",
        unit="straight ways",
    )
    max_ride_time: float = fields.parameter(
        np.inf, above=0.0, maximum=np.inf, help="longest ride in generated instances, with limits", unit="time units"
    )
    max_route_duration: float = fields.parameter(
        np.inf, above=0.0, maximum=np.inf, help="longest tour in generated instances, with limits", unit="time units"
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
        for name in ("demand", "pickup_deadline", "loc"):
            low, high = f"min_{name}", f"max_{name}"
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
        """The vehicle under way; its actions are the depot, and pickup and drop-off of each request."""
        context, action = observation.context_features(self.prospects), Discrete(self.num_nodes + 1)
        if not self.entity_kinds:
            requests = observation.requests(self.num_nodes // 2, self.prospects)
            return {ROLE: Role(1, flat_box(context, (requests,)), action)}
        box = Box(-jnp.inf, jnp.inf, (len(context),))
        pointers = (Pointer(None, 1), Pointer(REQUEST, 2))
        return {ROLE: Role(1, box, action, context, pointers, places=(("x", "y"),))}

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """The requests; a request is there until its drop-off is visited."""
        is_flat = self.observation_kind == "flat"
        return () if is_flat else (observation.requests(self.num_nodes // 2, self.prospects),)

    @property
    def max_episode_steps(self) -> int:
        """N + V: each step visits a customer or sends a vehicle home."""
        return self.num_nodes + self.num_agents

    def generate(self, key: jax.Array) -> Instance:
        """A random instance of the environment's sizes."""
        return generate(key, self)

    def init_state(self, instance: Instance) -> State:
        """The first vehicle at the depot; a smaller instance is padded, a larger one is a ValueError.

        So is one with streets where vehicles drive straight; the other way round, straight ways are its streets.
        """
        if self.travel == STRAIGHT and instance.travel_time is not None:
            raise ValueError(
                f"the instance has travel_time, and vehicles drive straight; make it with travel='{MATRIX}'"
            )
        given = as_float32(instance)
        padded = pad(given if self.travel == STRAIGHT else with_streets(given), self.num_nodes, self.num_agents)
        figures = figures_of(padded, tighten=self.limits and self.tighten)
        return rules.begin(padded, figures, limits=self.limits)

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """Drive to the node, and home with the last one."""
        return rules.drive(state, action[ROLE][0], num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"vehicle": bool[1, N+1]}`."""
        return {ROLE: rules.allowed(state, lookahead=self.lookahead)[None]}

    def fallback(self, mask: ByRole) -> ByRole:
        """The lowest-index allowed customer, the depot if there is none."""
        customers = mask[ROLE].at[:, 0].set(False)
        return {ROLE: lowest_true(customers)}

    def observation(self, state: State) -> ByRole:
        """`{"vehicle": f32[1, F]}`, see the class."""
        seen = self.global_observation(state)
        if seen is None:
            seen = observation.context(state, self.action_mask(state)[ROLE][0], prospects=self.prospects)
        return {ROLE: seen[None]}

    def global_observation(self, state: State) -> jax.Array | None:
        """`f32[F]`, what the vehicle sees; None with entities."""
        if self.entity_kinds:
            return None
        allowed = self.action_mask(state)[ROLE][0]
        context = observation.context(state, allowed, prospects=self.prospects)
        dynamic = observation.dynamic_planes(state, allowed, prospects=self.prospects)
        return flatten(context, {REQUEST: observation.static_planes(state)}, {REQUEST: dynamic})

    def static_entities(self, state: State) -> ByKind:
        """`{"request": f32[11, N/2]}`, see the class; {} where all is one vector."""
        return {REQUEST: observation.static_planes(state)} if self.entity_kinds else {}

    def entities(self, state: State) -> ByKind:
        """`{"request": f32[14, N/2]}`, 36 with `prospects`, likewise."""
        if not self.entity_kinds:
            return {}
        allowed = self.action_mask(state)[ROLE][0]
        return {REQUEST: observation.dynamic_planes(state, allowed, prospects=self.prospects)}

    def reward(self, state: State) -> ByRole:
        """`{"vehicle": f32[1]}`, see the class."""
        stranded = rules.stranded(state).astype(jnp.float32)
        unvisited = jnp.sum(~state.visited[1:], dtype=jnp.float32)
        penalty = self.penalty_unvisited * (unvisited + (self.orphan_factor - 1.0) * stranded)
        ending = jnp.where(state.done, penalty, 0.0)
        if self.reward_kind == "dense":
            paid = -(state.step_distance + ending)
        else:
            paid = jnp.where(state.done, -(state.total_distance + ending), 0.0)
        return {ROLE: paid[None]}

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
            "unvisited_nodes": jnp.sum(~state.visited[1:], dtype=jnp.float32),
            "stranded": rules.stranded(state).astype(jnp.float32),
            "total_distance": state.total_distance,
            "vehicles_used": state.vehicles_used.astype(jnp.float32),
            "invalid_actions": state.invalid_actions.astype(jnp.float32),
        }


def make(**parameters: Any) -> Darp:
    """The factory behind `jaxvrp.make("darp", ...)`; `parameters` are fields of `Darp`, two by another name, see there.

    Raises:
        ValueError: an unknown parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    env = fields.build(Darp, parameters, "parameter of 'darp':")
    if np.max(env.vehicle_capacity) < env.min_demand:
        text = f"vehicle_capacity {env.vehicle_capacity} is below every demand (min_demand {env.min_demand})"
        warnings.warn(f"{text}; no request can be served", stacklevel=2)
    return env

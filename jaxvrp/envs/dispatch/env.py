"""`dispatch` seen through the environment contract."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.entities import flat_box, flatten
from jaxvrp.environment import Environment, select
from jaxvrp.envs.dispatch import observation, rules
from jaxvrp.envs.dispatch.problem.instance import Instance, as_float32, pad, with_streets
from jaxvrp.envs.dispatch.routes.plans import Plans, Prepared, prepare
from jaxvrp.envs.dispatch.routes.replan import replan
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.geography.streets import MATRIX, STRAIGHT, TRAVEL
from jaxvrp.spaces import Box, ByKind, ByRole, Discrete, EntityKind, Feature, Pointer, Role

DISPATCHER = "dispatcher"
DRIVER = "vehicle"


class Dispatch(Environment):
    """Requests arrive during the day; each gets an answer at once, and what is promised is kept.

    The role `"dispatcher"`, one agent, decides at each arrival, `Discrete(V + 1)`: 0 rejects the request, `1 + v` gives
    it to vehicle v, at the cheapest places of its plan where all promises are kept. In `RidePooling` there is a second
    role, `"vehicle"`, V agents, `Discrete(1 + Z)`: 0 goes on, `1 + z` drives to the middle of zone z and waits there,
    along streets at the known place nearest to it; legal for vehicles with nothing to do, and void for one that is
    given the request in the same step. A forbidden action becomes 0.

    Entities: the vehicles and, in `RidePooling`, the zones. Names and meanings of all numbers are in
    `jaxvrp.envs.dispatch.observation`. Lengths are in half sides of the area, times in horizons. With
    `observation="flat"` all of it is one vector for each agent, and the global observation is the dispatcher's.

    Reward, the same for all agents: the value of the request that was accepted, less `travel_price` for each minute by
    which the planned travel grew, and for each that vehicles drove without a plan. It sums to the value of the requests
    that are served, less the price of all travel. The episode ends with the decision on the last request; all plans are
    driven out then.

    With `travel_noise`, the time of each leg is multiplied by a lognormal factor of mean 1, which is known when the leg
    ends. Masks plan with a quantile of it, so what is promised can come late. Travel is paid for when it is driven, and
    `late_price` for each minute by which a pickup or drop-off begins after its deadline.

    Metrics: requests, served, served_share, value_served, rejected, travel (minutes), drone_travel, drone_share,
    mean_wait, mean_delay (minutes; of what vehicles have begun), broken_promises (always 0), invalid_actions; with
    noise also late_share (of the requests served), late_minutes and late_trips.
    """

    max_requests: int = fields.size(400, help="R, the most requests of a day; later ones are left out")
    num_vehicles: int = fields.size(10, help="vehicles")
    max_stops: int = fields.size(12, minimum=2, help="S, the most stops of a plan that a vehicle has not begun")
    replan_rounds: int = fields.size(
        0, minimum=0, help="rounds of ruin and recreate after each acceptance, on all that vehicles have not begun"
    )
    observation_kind: str = fields.choice(
        "entities",
        ("entities", "flat"),
        keyword="observation",
        help="vehicles and zones once for all agents, or all in one vector; learners choose what their network reads",
    )
    travel_price: float = fields.parameter(0.0, minimum=0.0, help="price of a minute of travel", unit="value")
    travel_noise: float = fields.size(
        0.0, minimum=0, help="standard deviation of the logarithm of each leg's time, whose mean stays; 0: none"
    )
    reserve: float = fields.parameter(
        0.5, minimum=0.01, maximum=0.99, help="with noise, plans are made with this quantile of each leg's time"
    )
    late_price: float = fields.parameter(0.0, minimum=0.0, help="price of a minute after a deadline", unit="value")
    travel: str = fields.choice(
        STRAIGHT, TRAVEL, help="vehicles drive straight, or along streets, by a matrix of the instance"
    )
    expected_requests: float = fields.parameter(300.0, above=0.0, help="mean number of requests of a generated day")

    scenario: ClassVar[str]

    @property
    def parameters(self) -> dict[str, object]:
        """The fields, and the scenario."""
        return {"scenario": self.scenario, **super().parameters}

    @property
    @abc.abstractmethod
    def fleet_size(self) -> int:
        """V, vehicles of all kinds."""

    @property
    def num_zones_each_way(self) -> int:
        """Zones on a side of the grid; 0 where vehicles wait at the depot."""
        return 0

    @property
    def has_streets(self) -> bool:
        """Whether vehicles that are no drones drive along the streets of a matrix; else all travel straight."""
        return self.travel == MATRIX

    @property
    def _kinds(self) -> tuple[EntityKind, ...]:
        return observation.kinds(self.fleet_size, self.num_zones_each_way)

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """Vehicles and zones; () with flat observations."""
        return self._kinds if self.observation_kind == "entities" else ()

    @property
    def roles(self) -> dict[str, Role]:
        """The dispatcher; its actions are to reject, and each vehicle. With zones, also the drivers."""
        vehicle = Pointer(observation.VEHICLE, 1)
        dispatcher = self._role(1, observation.DISPATCHER_CONTEXT, self.fleet_size, vehicle, ("pickup_x", "pickup_y"))
        if self.num_zones_each_way == 0:
            return {DISPATCHER: dispatcher}
        zones, zone = self.num_zones_each_way**2, Pointer(observation.ZONE, 1)
        driver = self._role(self.fleet_size, observation.DRIVER_CONTEXT, zones, zone, ("x", "y"))
        return {DISPATCHER: dispatcher, DRIVER: driver}

    def _role(
        self, agents: int, context: tuple[Feature, ...], choices: int, pointer: Pointer, place: tuple[str, str]
    ) -> Role:
        action = Discrete(1 + choices)
        if not self.entity_kinds:
            return Role(agents, flat_box(context, self._kinds), action)
        box = Box(-jnp.inf, jnp.inf, (len(context),))
        return Role(agents, box, action, context, (Pointer(None, 1), pointer), places=(place,))

    @property
    def max_episode_steps(self) -> int:
        """R: one decision for each request."""
        return self.max_requests

    def init_state(self, instance: Instance) -> State:
        """The day at its first arrival; a smaller one is padded.

        Raises:
            ValueError: the day is larger than the environment, or of the other scenario, or has streets where vehicles
                drive straight. The other way round, straight ways are its streets.
        """
        if (instance.depot is None) != (self.num_zones_each_way > 0):
            wanted = "without" if self.num_zones_each_way else "with"
            raise ValueError(f"scenario '{self.scenario}' needs a day {wanted} a depot; choose the other scenario")
        return rules.begin(prepared_day(self, instance), max_stops=self.max_stops, zones=self.num_zones_each_way)

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """The dispatcher's decision, then the drivers', then the time until the next arrival."""
        plans, growth = decide(self, state, action)
        return rules.proceed(state, plans, action[DISPATCHER][0], growth, num_invalid)

    def action_mask(self, state: State) -> ByRole:
        """`{"dispatcher": bool[1, V + 1], "vehicle": bool[V, Z + 1]}`, the latter with zones."""
        always = jnp.ones(1, bool)
        masks = {DISPATCHER: jnp.concatenate([always, state.offers.feasible])[None]}
        if self.num_zones_each_way:
            stays = jnp.arange(self.num_zones_each_way**2 + 1, dtype=jnp.int32) == 0
            masks[DRIVER] = rules.idle(state)[:, None] | stays
        return masks

    def valid(self, state: State) -> ByRole:
        """`{"vehicle": bool[V]}`, with zones: padding is void."""
        return {DRIVER: state.prepared.capacity > 0} if self.num_zones_each_way else {}

    def observation(self, state: State) -> ByRole:
        """`{"dispatcher": f32[1, F], "vehicle": f32[V, F]}`, see the class."""
        contexts = {DISPATCHER: observation.dispatcher_context(state)[None]}
        if self.num_zones_each_way:
            contexts[DRIVER] = observation.driver_context(state)
        if self.entity_kinds:
            return contexts
        static, dynamic = self._static_planes(state), self._dynamic_planes(state)
        return {name: jax.vmap(lambda row: flatten(row, static, dynamic))(rows) for name, rows in contexts.items()}

    def global_observation(self, state: State) -> jax.Array | None:
        """`f32[F]`, what the dispatcher sees; None with entities."""
        return None if self.entity_kinds else self.observation(state)[DISPATCHER][0]

    def static_entities(self, state: State) -> ByKind:
        """`{"vehicle": f32[6, V], "zone": f32[2, Z]}`, see the class; {} where all is one vector."""
        return self._static_planes(state) if self.entity_kinds else {}

    def entities(self, state: State) -> ByKind:
        """`{"vehicle": f32[16, V]}`, or `{"vehicle": f32[22, V], "zone": f32[6, Z]}`, likewise."""
        return self._dynamic_planes(state) if self.entity_kinds else {}

    def _static_planes(self, state: State) -> ByKind:
        planes = {observation.VEHICLE: observation.static_vehicles(state)}
        return planes | ({observation.ZONE: observation.static_zones(state)} if self.num_zones_each_way else {})

    def _dynamic_planes(self, state: State) -> ByKind:
        planes = {observation.VEHICLE: observation.dynamic_vehicles(state)}
        return planes | ({observation.ZONE: observation.dynamic_zones(state)} if self.num_zones_each_way else {})

    def reward(self, state: State) -> ByRole:
        """`{"dispatcher": f32[1], "vehicle": f32[V]}`, see the class."""
        paid = (state.gained - self.travel_price * state.driven).astype(jnp.float32)
        if state.late is not None:
            paid = (paid - self.late_price * state.late.latest).astype(jnp.float32)
        agents = {DISPATCHER: 1} | ({DRIVER: self.fleet_size} if self.num_zones_each_way else {})
        return {name: jnp.broadcast_to(paid, (count,)) for name, count in agents.items()}

    def is_terminal(self, state: State) -> jax.Array:
        """All requests are decided on."""
        return state.done

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; all `f32[]`."""
        totals = state.totals
        decided = state.step.astype(jnp.float32)
        served = jnp.maximum(totals.served, 1.0)
        late = {}
        if state.late is not None:
            late = {
                "late_share": jnp.sum(state.late.requests, dtype=jnp.float32) / served,
                "late_minutes": state.late.minutes,
                "late_trips": state.late.trips,
            }
        return {
            "requests": decided,
            "served": totals.served,
            "served_share": totals.served / jnp.maximum(decided, 1.0),
            "value_served": totals.value,
            "rejected": decided - totals.served,
            "travel": totals.travel,
            "drone_travel": totals.drone_travel,
            "drone_share": totals.by_drone / served,
            "mean_wait": totals.wait / served,
            "mean_delay": totals.delay / served,
            "broken_promises": totals.broken,
            "invalid_actions": totals.invalid_actions,
            **late,
        }


def prepared_day(env: Dispatch, instance: Instance) -> Prepared:
    """A day, padded to the sizes of an environment, and what follows from it."""
    if instance.travel_time is not None and not env.has_streets:
        raise ValueError(f"the day has travel_time, and vehicles drive straight; make it with travel='{MATRIX}'")
    day = as_float32(with_streets(instance) if env.has_streets else instance)
    padded = pad(day, env.max_requests, env.fleet_size)
    return prepare(padded, env.travel_noise, env.reserve)


def decide(env: Dispatch, state: State, action: ByRole) -> tuple[Plans, jax.Array]:
    """The plans after legal actions, before time passes, and by how much the travel of each has grown (`f32[V]`)."""
    choice = action[DISPATCHER][0]
    plans, growth = rules.assign(state, choice)
    if env.replan_rounds:
        replanned, change = replan(state.prepared, plans, state.step, env.replan_rounds)
        plans = select(choice > 0, replanned, plans)
        growth += jnp.where(choice > 0, change, 0.0)
    return (rules.send(state, plans, action[DRIVER]) if DRIVER in action else plans), growth

"""`truck_drone`: one truck and its drones, seen through the environment contract; its kinds are called scenarios."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from jaxvrp import fields, registry
from jaxvrp.environment import Environment, is_over
from jaxvrp.envs.truck_drone import observation, physics
from jaxvrp.envs.truck_drone.physics import Physics, recoverable
from jaxvrp.envs.truck_drone.problem.instance import Instance, draw_known_from, draw_problem
from jaxvrp.envs.truck_drone.world import Decision, World, as_known, initial_world
from jaxvrp.episodes import Episode
from jaxvrp.fields import ABSENT, parameter, size
from jaxvrp.spaces import Box, ByKind, ByRole, Discrete, EntityKind, Role

if TYPE_CHECKING:
    from jaxvrp.story import Story

Carry = tuple[World, World, jax.Array, jax.Array]
"""What the loop over the steps of a decision carries: the last two worlds, the reward so far, steps so far."""


class TruckDrone(Physics, Environment):
    """One truck carries `D` drones that deliver to `C` customers, `N` route nodes; all agents share one reward.

    Roles `"truck"` (one agent, `Discrete(1 + N + 2D)`: STAY, MOVE_0.., RELEASE_0.., RECOVER_0..) and `"drone"`
    (`D` agents, `Discrete(2 + C)`: HOVER, RETURN, DELIVER_0..). Where `decide` is `"events"`, a transition repeats the
    actions until `physics.is_event`, for at most `max_repeat` steps.

    A scenario is a subclass with other parameters and rules, and overrides the functions that differ further. Name it
    by `jaxvrp.register`, or give it as a dotted path `package.module:MyScenario`. Without either, as in
    `truck_drone_basic`:

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

    registry_kind: ClassVar[str] = "scenario"

    num_drones: int = size(2, help="drones on the truck")
    num_customers: int = size(3, help="customers")
    num_route_nodes: int = size(5, help="places that the truck can drive to")
    max_steps: int = size(200, minimum=3, help="length of an episode", unit="steps")
    decide: str = fields.choice(
        "steps",
        ("steps", "events"),
        help="when agents choose: at every step, or when something has happened to one of them (choices hold)",
    )
    max_repeat: int = size(20, help="most steps that a choice holds, if `decide` is `events`", unit="steps")
    delivery_bonus: float = parameter(10.0, minimum=0.0, help="for each delivery")
    late_penalty: float = parameter(0.5, minimum=0.0, help="for each step by which a delivery is late")
    energy_cost: float = parameter(0.1, minimum=0.0, help="for each unit of battery drawn")
    forced_return_penalty: float = parameter(1.0, minimum=0.0, help="for each action that the battery guard overrode")
    completion_bonus: float = parameter(50.0, minimum=0.0, help="at the end, if all are served")
    incomplete_penalty: float = parameter(10.0, minimum=0.0, help="at the end, for each customer not served")
    observation_kind: str = fields.choice(
        "flat",
        ("flat", "entities"),
        keyword="observation",
        help="a vector for each agent, or entities once for all; learners choose what their network reads",
    )

    # Further rules, besides those of `Physics`: attributes that a scenario sets, or makes parameters of its own.
    window_shares = (3, 1)
    """Windows of generated problems are `[max_steps // first, max_steps // second)` steps wide."""
    dynamic_share = ABSENT
    """Probability that a customer becomes known during the episode only; absent: all are known from the start."""
    crash_penalty = ABSENT
    """Cost of each crash of a drone."""
    makespan_cost = ABSENT
    """Cost of each step."""
    ends_on_board = False
    """Whether an episode is complete only when no drone is in the air."""
    shows_windows = False
    """Whether agents see the starts of windows, the route nodes, and where the truck is driving."""

    @property
    def roles(self) -> dict[str, Role]:
        """Truck first, then drones; with entities, the names of their context and the targets of their actions."""
        seen = observation.BESIDE_ENTITIES if self.entity_kinds else {}
        boxes = {name: Box(-jnp.inf, jnp.inf, (size,)) for name, size in self.observation_sizes.items()}
        truck, drone = Discrete(1 + self.num_route_nodes + 2 * self.num_drones), Discrete(2 + self.num_customers)
        return {
            "truck": Role(1, boxes["truck"], truck, *seen.get("truck", ())),
            "drone": Role(self.num_drones, boxes["drone"], drone, *seen.get("drone", ())),
        }

    @property
    def observation_sizes(self) -> dict[str, int]:
        """How many numbers an agent of each role sees: `{"truck": F, "drone": F}`."""
        if self.entity_kinds:
            return {name: len(context) for name, (context, *_) in observation.BESIDE_ENTITIES.items()}
        shared = 5 * self.num_customers + (1 + self.num_drones)
        if self.shows_windows:
            shared += self.num_customers + 3 * self.num_route_nodes + 1
        return {"truck": 4 + 8 * self.num_drones + shared, "drone": 11 + 4 * (self.num_drones - 1) + shared}

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """Customers, route nodes, drones; none where observations are flat."""
        if self.observation_kind == "flat":
            return ()
        counts = self.num_customers, self.num_route_nodes, self.num_drones
        return observation.entity_kinds(*counts, shows_windows=self.shows_windows)

    @property
    def max_episode_steps(self) -> int:
        """`max_steps`."""
        return self.max_steps

    def generate(self, key: jax.Array) -> Instance:
        """A problem of these sizes; its distribution is in `draw_problem`."""
        narrowest, widest = self.window_shares
        instance = draw_problem(
            key,
            num_customers=self.num_customers,
            num_route_nodes=self.num_route_nodes,
            max_steps=self.max_steps,
            widths=(self.max_steps // narrowest, self.max_steps // widest),
        )
        if self.dynamic_share is ABSENT:
            return instance
        first, last = self.news_range(instance.window_start)
        return instance.replace(known_from=draw_known_from(key, first, last, self.dynamic_share))

    def news_range(self, window_start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The first and the last step (`i32[C]`) in which customers with these windows can become known.

        None if the last is before the first; then, they are known from the start.
        """
        if self.on_demand:
            return window_start, window_start
        return jnp.ones_like(window_start), window_start - 1

    def init_state(self, instance: Instance) -> World:
        """The world at step 0: truck at its start, drones onboard, fully charged, without a package.

        Raises:
            ValueError: the problem has other sizes than this environment; one line.
        """
        customers, nodes = instance.demand.shape[-1], instance.node_position.shape[-2]
        if (customers, nodes) != (self.num_customers, self.num_route_nodes):
            raise ValueError(
                f"an instance of {customers} customers and {nodes} route nodes does not fit num_customers "
                f"{self.num_customers}, num_route_nodes {self.num_route_nodes}; make the environment with its sizes"
            )
        world = initial_world(instance, self.num_drones, self.max_battery, keeps_target=self.truck_motion != "step")
        if self.decide == "steps":
            return world
        nothing = jnp.zeros((), jnp.int32)
        decision = Decision(nothing, jnp.zeros(self.num_drones, jnp.int32), jnp.zeros((), jnp.float32), nothing)
        return world.replace(decision=decision)

    def transition(self, state: World, action: ByRole, num_invalid: jax.Array) -> World:
        """One step of the physics; where `decide` is `"events"`, steps with these actions until something happens."""
        truck, drone = action["truck"][0], action["drone"]
        first = physics.step(self, state, truck, drone, num_invalid)
        return first if self.decide == "steps" else self._until_an_event(state, first, truck, drone)

    def _until_an_event(self, state: World, first: World, truck: jax.Array, drone: jax.Array) -> World:
        """The world after further steps with the same actions; `first` comes after `state`."""

        def goes_on(carry: Carry) -> jax.Array:
            before, world, _, steps = carry
            return (steps < self.max_repeat) & ~is_over(self, world) & ~physics.is_event(self, before, world)

        def repeat(carry: Carry) -> Carry:
            _, world, reward, steps = carry
            after = physics.step(self, world, truck, drone, jnp.zeros((), jnp.int32))
            return world, after, reward + self.shared_reward(after), steps + 1

        start = (state, first, self.shared_reward(first), jnp.ones((), jnp.int32))
        _, world, reward, steps = jax.lax.while_loop(goes_on, repeat, start)
        return world.replace(decision=Decision(truck, drone, reward, steps))

    @property
    def extras(self) -> tuple[str, ...]:
        """Durations, where agents decide by events; `is_truncated`, in a scenario that writes it."""
        durations = ("duration",) if self.decide == "events" else ()
        is_cut_short = type(self).is_truncated is not Environment.is_truncated
        return (*durations, "is_truncated") if is_cut_short else durations

    def duration(self, state: World) -> jax.Array:
        """The number of steps of the last decision."""
        return state.decision.steps.astype(jnp.float32) if self.decide == "events" else super().duration(state)

    def observation(self, state: World) -> ByRole:
        """Layouts in the class docstring; of the world as agents know it."""
        known = self.known_world(state)
        if self.entity_kinds:
            return observation.contexts(self, known, self.max_steps)
        return observation.vectors(known, self.max_steps, shows_windows=self.shows_windows)

    def global_observation(self, state: World) -> jax.Array | None:
        """Layout in the class docstring; None with entities."""
        if self.entity_kinds:
            return None
        known = self.known_world(state)
        return observation.global_observation(known, self.max_steps, shows_windows=self.shows_windows)

    def static_entities(self, state: World) -> ByKind:
        """`{"customer": f32[4, C], "node": f32[2, N], "drone": f32[0, D]}`; {} where observations are flat.

        Where customers may become known, all that is seen of them changes: `"customer": f32[0, C]`.
        """
        if not self.entity_kinds:
            return {}
        return observation.static_entities(state, self.max_steps, shows_windows=self.shows_windows)

    def entities(self, state: World) -> ByKind:
        """`{"customer": f32[3, C], "node": f32[1, N], "drone": f32[8, D]}`; {} where observations are flat."""
        if not self.entity_kinds:
            return {}
        known = self.known_world(state)
        return observation.entities(self, known, self.max_steps, shows_windows=self.shows_windows)

    def known_world(self, state: World) -> World:
        """The world as agents know it: unknown customers look like padding, lost ones like served ones."""
        return as_known(self.without_lost(state))

    def without_lost(self, state: World) -> World:
        """The world in which customers that may not be served any more count as served."""
        lost = self.is_lost(state)
        if lost is None:
            return state
        return state.replace(customers=state.customers.replace(served=state.customers.served | lost))

    def action_mask(self, state: World) -> ByRole:
        """STAY, MOVE and HOVER always; the rest as the drones' states and packages allow, among known customers."""
        state = self.known_world(state)
        drones = state.drones
        stay_or_move = jnp.ones(1 + self.num_route_nodes, bool)
        truck = jnp.concatenate([stay_or_move, drones.is_onboard, recoverable(self, state)])
        # As many as the state has: a replay leaves out those that only fill up the size.
        customer = jnp.arange(state.customers.served.shape[0], dtype=jnp.int32)
        may_load, has_package = self.may_load(state), drones.carrying[:, None] == customer
        deliver = drones.is_airborne[:, None] & ~state.customers.served & (may_load[:, None] | has_package)
        hover = jnp.ones((self.num_drones, 1), bool)
        drone = jnp.concatenate([hover, drones.is_airborne[:, None], deliver], axis=1)
        return {"truck": truck[None], "drone": drone}

    def may_load(self, state: World) -> jax.Array:
        """`bool[D]`: in flight, the drone could take any package: it has none, and is where packages are loaded."""
        is_empty = state.drones.carrying < 0
        return is_empty & recoverable(self, state) if self.load_at_truck else is_empty

    def reward(self, state: World) -> ByRole:
        """`shared_reward` for every agent, summed over the steps of a decision."""
        shared = self.shared_reward(state) if self.decide == "steps" else state.decision.reward
        return {"truck": shared[None], "drone": jnp.broadcast_to(shared, (self.num_drones,))}

    def shared_reward(self, state: World) -> jax.Array:
        """`f32[]`, for all agents, of the step that led to `state`; the formula of the class docstring."""
        customers, drones = state.customers, state.drones
        late = jnp.maximum(customers.arrival_step - state.instance.window_end, 0).astype(jnp.float32)
        payment = self.delivery_bonus - self.late_penalty * late
        deliveries = jnp.where(customers.just_served, payment, 0.0).sum()
        energy = self.energy_cost * drones.battery_used.sum()
        forced = self.forced_return_penalty * jnp.sum(drones.forced_return, dtype=jnp.float32)
        unserved = jnp.sum(~customers.served, dtype=jnp.float32)
        ending = jnp.where(self.is_complete(state), self.completion_bonus, -self.incomplete_penalty * unserved)
        reward = deliveries - energy - forced + jnp.where(self.is_terminal(state), ending, 0.0)
        if self.crash_penalty is not ABSENT:
            reward -= self.crash_penalty * jnp.sum(drones.just_crashed, dtype=jnp.float32)
        return reward if self.makespan_cost is ABSENT else reward - self.makespan_cost

    def is_complete(self, state: World) -> jax.Array:
        """`bool[]`: nothing is left to do; all are served and, if it `ends_on_board`, no drone is in the air."""
        served = state.customers.served.all()
        return served & ~state.drones.is_airborne.any() if self.ends_on_board else served

    def is_terminal(self, state: World) -> jax.Array:
        """`max_steps`, nothing left to do, or all drones crashed."""
        is_complete = self.is_complete(self.without_lost(state))
        return (state.step >= self.max_steps) | is_complete | state.drones.is_crashed.all()

    def metrics(self, state: World) -> dict[str, jax.Array]:
        """Totals of the episode so far, each `f32[]`."""
        totals = {name: total.astype(jnp.float32) for name, total in vars(state.totals).items() if name != "on_time"}
        served = jnp.sum(state.customers.served, dtype=jnp.float32)
        total = jnp.full((), self.num_customers, jnp.float32)
        if state.instance.exists is not None:
            served -= jnp.sum(~state.instance.exists, dtype=jnp.float32)
            total = jnp.sum(state.instance.exists, dtype=jnp.float32)
        return {
            "customers_served": served,
            "total_customers": total,
            "completion_rate": served / jnp.maximum(total, 1.0),
            "success": self.is_complete(state).astype(jnp.float32),
            "on_time_rate": state.totals.on_time / jnp.maximum(total, 1.0),
            "time_step": state.step.astype(jnp.float32),
            "crashed_drones": jnp.sum(state.drones.is_crashed, dtype=jnp.float32),
            **totals,
        }

    def extend_story(self, story: Story, episode: Episode) -> Story:
        """What pages and pictures tell of an episode by steps (`jaxvrp.story`); a scenario adds what its rules have."""
        del episode
        return story

    def extend_plan(self, plan: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """The plan of an episode on a map (`docs/your_map.md`); further keys of events are columns of sheets."""
        del episode
        return plan


def make(scenario: str | type[TruckDrone] | TruckDrone = "truck_drone_basic", **parameters: Any) -> TruckDrone:
    """The factory behind `jaxvrp.make("truck_drone", ...)`.

    Args:
        scenario: a registered name, a dotted path `package.module:MyScenario`, a class, or an instance.
        parameters: sizes, physics and reward parameters: any field of the scenario.

    Raises:
        ValueError: an unknown scenario or parameter, or a value out of range.
        TypeError: a value of the wrong type, or something that is no scenario.
    """
    if isinstance(scenario, TruckDrone):
        return make(type(scenario), **{**scenario.parameters, **parameters})
    label = scenario if isinstance(scenario, str) else getattr(scenario, "__name__", type(scenario).__name__)
    cls: Any = registry.resolve(scenario, "scenario") if isinstance(scenario, str) else scenario
    if not (inspect.isclass(cls) and issubclass(cls, TruckDrone)):
        raise TypeError(f"scenario '{label}' is no jaxvrp.envs.truck_drone.TruckDrone; derive your class from it")
    return fields.build(cls, parameters, f"parameter of scenario '{label}':")

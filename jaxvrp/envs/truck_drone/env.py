"""`truck_drone`: one truck and its drones, seen through the environment contract; its kinds are called scenarios."""

from __future__ import annotations

import abc
import inspect
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxvrp import fields, registry
from jaxvrp.environment import Environment, is_over
from jaxvrp.envs.truck_drone import physics
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import Decision, World, as_known, initial_world
from jaxvrp.episodes import Episode
from jaxvrp.fields import size
from jaxvrp.spaces import Box, ByRole, Discrete, Role
from jaxvrp.story import Story

Carry = tuple[World, World, jax.Array, jax.Array]
"""Of the loop over the steps of a decision: the last two worlds, the reward so far, steps so far."""


class TruckDrone(Physics, Environment):
    """One truck carries `D` drones that deliver to `C` customers; all agents share one reward. The base of scenarios.

    Roles `"truck"` (one agent, `Discrete(1 + N + 2D)`: STAY, MOVE_0.., RELEASE_0.., RECOVER_0..) and `"drone"`
    (`D` agents, `Discrete(2 + C)`: HOVER, RETURN, DELIVER_0..). The world and its physics are the same in every
    scenario. A scenario is a subclass that defines instances, observations, masks, rewards, metrics, and the end of an
    episode. The quickest way is to subclass `TruckDroneBasic` and to change what differs. Name a scenario by
    `jaxvrp.register`, or give it as a dotted path `package.module:MyScenario`. Where `decide` is `"events"`, a
    transition repeats the actions until `physics.is_event`, for at most `max_repeat` steps.
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

    @property
    def roles(self) -> dict[str, Role]:
        """Truck first, then drones."""
        num_actions = {"truck": 1 + self.num_route_nodes + 2 * self.num_drones, "drone": 2 + self.num_customers}
        return {
            name: Role(count, Box(-jnp.inf, jnp.inf, (self.observation_sizes[name],)), Discrete(num_actions[name]))
            for name, count in {"truck": 1, "drone": self.num_drones}.items()
        }

    @property
    @abc.abstractmethod
    def observation_sizes(self) -> dict[str, int]:
        """How many numbers an agent of each role sees: `{"truck": F, "drone": F}`."""

    @property
    def max_episode_steps(self) -> int:
        """`max_steps`."""
        return self.max_steps

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
        world = initial_world(instance, self.num_drones, self.max_battery)
        if self.decide == "steps":
            return world
        nothing = jnp.zeros((), jnp.int32)
        decision = Decision(nothing, jnp.zeros(self.num_drones, jnp.int32), jnp.zeros((), jnp.float32), nothing)
        return world.replace(decision=decision)

    def transition(self, state: World, action: ByRole, num_invalid: jax.Array) -> World:
        """One step of the physics; where `decide` is `"events"`, steps with these actions until something happens."""
        truck, drone = action["truck"][0], action["drone"]
        first = physics.step(self, state, truck, drone, num_invalid)
        if self.decide == "steps":
            return first

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

    def reward(self, state: World) -> ByRole:
        """`shared_reward` for every agent, summed over the steps of a decision."""
        shared = self.shared_reward(state) if self.decide == "steps" else state.decision.reward
        return {"truck": shared[None], "drone": jnp.broadcast_to(shared, (self.num_drones,))}

    @property
    def extras(self) -> tuple[str, ...]:
        """Durations, where agents decide by events."""
        return ("duration",) if self.decide == "events" else ()

    def duration(self, state: World) -> jax.Array:
        """The number of steps of the last decision."""
        return state.decision.steps.astype(jnp.float32) if self.decide == "events" else super().duration(state)

    def known_world(self, state: World) -> World:
        """The world as agents know it: unknown customers look like padding, lost ones like served ones."""
        return as_known(self.without_lost(state))

    def without_lost(self, state: World) -> World:
        """The world in which customers that may not be served any more count as served."""
        lost = self.is_lost(state)
        if lost is None:
            return state
        return state.replace(customers=state.customers.replace(served=state.customers.served | lost))

    def news_range(self, window_start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The first and the last step (`i32[C]`) in which customers with these windows can become known.

        None if the last is before the first; then, they are known from the start.
        """
        return jnp.ones_like(window_start), window_start - 1

    def extend_story(self, story: Story, episode: Episode) -> Story:
        """What pages and pictures tell of an episode by steps (`jaxvrp.story`); a scenario adds what its rules have."""
        del episode
        return story

    def extend_plan(self, plan: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """The plan of an episode on a map (`docs/your_map.md`); further keys of events are columns of sheets."""
        del episode
        return plan

    @abc.abstractmethod
    def shared_reward(self, state: World) -> jax.Array:
        """`f32[]`, for all agents, of the step that led to `state`."""


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
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise TypeError(f"scenario '{label}' lacks: {missing}; write them, or derive it from TruckDroneBasic")
    return fields.build(cls, parameters, f"parameter of scenario '{label}':")

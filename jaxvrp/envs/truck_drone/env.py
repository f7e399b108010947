"""`truck_drone`: one truck and its drones, seen through the environment contract; its kinds are called scenarios."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Hashable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxvrp import fields, registry
from jaxvrp.environment import Environment, is_over
from jaxvrp.envs.truck_drone import physics
from jaxvrp.envs.truck_drone.events import no_decision, until_event
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import World, initial_world
from jaxvrp.fields import size
from jaxvrp.spaces import Box, ByRole, Discrete, Role


class TruckDrone(Physics, Environment):
    """One truck carries `D` drones that deliver to `C` customers; all agents share one reward. A base of scenarios.

    Roles `"truck"` (one agent, `Discrete(1 + N + 2D)`: STAY, MOVE_0.., RELEASE_0.., RECOVER_0..) and `"drone"`
    (`D` agents, `Discrete(2 + C)`: HOVER, RETURN, DELIVER_0..). The world and its physics are the same in every
    scenario. A scenario says what is generated, seen, allowed, rewarded and counted, and when an episode ends: it is a
    subclass that writes the abstract functions. The quickest way is to subclass `TruckDroneBasic` and to change what
    differs. It is made known by `jaxvrp.register`, or given as a dotted path `package.module:MyScenario`.

    Attributes:
        num_drones: D.
        num_customers: C.
        num_route_nodes: N, places that the truck can drive to.
        max_steps: length of an episode; at least 3, so that windows have a width.
        decide: `"steps"`, or `"events"`: a transition repeats the choices until something happens, see
            `events.is_event`.
        max_repeat: most steps of such a transition.
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
        """Truck first, then drones; the sizes of observations are those that the scenario's `observation` has."""
        observation = _observed(self)
        num_agents = {"truck": 1, "drone": self.num_drones}
        num_actions = {"truck": 1 + self.num_route_nodes + 2 * self.num_drones, "drone": 2 + self.num_customers}
        return {
            name: Role(count, Box(-jnp.inf, jnp.inf, observation[name].shape[1:]), Discrete(num_actions[name]))
            for name, count in num_agents.items()
        }

    @property
    def max_episode_steps(self) -> int:
        """`max_steps`."""
        return self.max_steps

    def init_state(self, instance: Instance) -> World:
        """The world at step 0: truck at its start, drones onboard, fully charged, without a package.

        Raises:
            ValueError: the problem has other sizes than this environment; one line.
        """
        _check_sizes(self, instance)
        world = initial_world(instance, self.num_drones, self.max_battery)
        return world.replace(decision=no_decision(self.num_drones)) if self.decide == "events" else world

    def transition(self, state: World, action: ByRole, num_invalid: jax.Array) -> World:
        """One step of the physics, or as many as the choices hold."""
        truck, drone = action["truck"][0], action["drone"]
        if self.decide == "steps":
            return physics.step(self, state, truck, drone, num_invalid)
        return until_event(
            self,
            state,
            truck,
            drone,
            num_invalid,
            paid=self.shared_reward,
            is_over=functools.partial(is_over, self),
            max_repeat=self.max_repeat,
        )

    def reward(self, state: World) -> ByRole:
        """`shared_reward` for every agent, summed over the steps of a decision."""
        shared = self.shared_reward(state) if self.decide == "steps" else state.decision.reward
        return {"truck": shared[None], "drone": jnp.broadcast_to(shared, (self.num_drones,))}

    @property
    def is_semi_markov(self) -> bool:
        """Where a decision holds for several steps."""
        return self.decide == "events"

    def duration(self, state: World) -> jax.Array:
        """The steps of the last decision; 1 where every step has one."""
        return state.decision.steps.astype(jnp.float32) if self.decide == "events" else super().duration(state)

    @abc.abstractmethod
    def shared_reward(self, state: World) -> jax.Array:
        """`f32[]`, for all agents, of the step that led to `state`."""


def _check_sizes(env: TruckDrone, instance: Instance) -> None:
    """Refuse a problem of other sizes: the numbers of actions follow from the environment's."""
    customers, nodes = instance.demand.shape[-1], instance.node_position.shape[-2]
    if (customers, nodes) != (env.num_customers, env.num_route_nodes):
        raise ValueError(
            f"an instance of {customers} customers and {nodes} route nodes does not fit num_customers "
            f"{env.num_customers}, num_route_nodes {env.num_route_nodes}; make the environment with its sizes"
        )


_OBSERVED: dict[Hashable, ByRole] = {}
"""What the last few kinds of environments show, as types: a step asks for its roles, and tracing this takes as long."""

MOST_OBSERVED = 256


def _observed(env: TruckDrone) -> ByRole:
    """What `observation` returns, as types; the same kind of environment is traced once."""
    leaves, structure = jax.tree.flatten(env)
    # Numbers of Python count by their value, which a scenario could branch on; of arrays only the type is static.
    kinds = tuple(leaf if isinstance(leaf, int | float) else (leaf.shape, leaf.dtype) for leaf in leaves)
    try:
        found = _OBSERVED.get((structure, kinds))
    except TypeError:  # a static field that cannot be compared
        return _trace_observation(env)
    if found is None:
        if len(_OBSERVED) >= MOST_OBSERVED:
            _OBSERVED.clear()
        found = _OBSERVED[structure, kinds] = _trace_observation(env)
    return found


def _trace_observation(env: TruckDrone) -> ByRole:
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.eval_shape(lambda key: env.observation(env.init_state(env.generate(key))), key)


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

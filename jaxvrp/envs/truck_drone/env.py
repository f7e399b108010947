"""`truck_drone`: a scenario seen through the environment contract."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import fields, registry
from jaxvrp.actor import Actor
from jaxvrp.environment import Environment, Role
from jaxvrp.envs.truck_drone import physics
from jaxvrp.envs.truck_drone.scenario import Scenario
from jaxvrp.envs.truck_drone.world import Instance, World
from jaxvrp.spaces import Box, Discrete


class TruckDrone(Environment):
    """One truck carries `D` drones that deliver to `C` customers; all agents share one reward.

    Roles `"truck"` (one agent, `Discrete(1 + N + 2D)`: STAY, MOVE_0.., RELEASE_0.., RECOVER_0..) and `"drone"`
    (`D` agents, `Discrete(2 + C)`: HOVER, RETURN, DELIVER_0..). What is seen, rewarded and counted, and when an
    episode ends, is the scenario's: see `TruckDroneBasic`.
    """

    scenario: Scenario

    @property
    def roles(self) -> dict[str, Role]:
        """Truck first, then drones; observation sizes are read off the scenario."""
        seen = jax.eval_shape(lambda key: self.scenario.observation(self.init_state(self.generate(key))), _any_key())
        counts = {"truck": 1, "drone": self.scenario.num_drones}
        sizes = {"truck": self.scenario.num_truck_actions, "drone": self.scenario.num_drone_actions}
        return {
            name: Role(counts[name], Box(-jnp.inf, jnp.inf, seen[name].shape[1:]), Discrete(sizes[name]))
            for name in counts
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields of the scenario, `num_drones`, `dt` and so on."""
        return {field.name: getattr(self.scenario, field.name) for field in dataclasses.fields(self.scenario)}

    @property
    def baselines(self) -> dict[str, Callable[[], Actor]]:
        """The greedy dispatcher and random play."""
        from jaxvrp.envs.truck_drone.heuristics import GreedyActor

        return {"greedy": lambda: GreedyActor(self), **super().baselines}

    @property
    def renderer(self) -> Callable[[World, str | os.PathLike], None]:
        """Map, batteries and deliveries of an episode."""
        from jaxvrp.envs.truck_drone.render import render_episode

        return functools.partial(render_episode, self)

    @property
    def max_episode_steps(self) -> int:
        """The scenario's `max_steps`."""
        return self.scenario.max_steps

    def generate(self, key: jax.Array) -> Instance:
        """The scenario's `generate`."""
        return self.scenario.generate(key)

    def init_state(self, instance: Instance) -> World:
        """The scenario's `init_world`."""
        return self.scenario.init_world(instance)

    def transition(self, state: World, action: dict[str, jax.Array], num_invalid: jax.Array) -> World:
        """One step of the physics."""
        return physics.step(self.scenario, state, action["truck"][0], action["drone"], num_invalid)

    def observation(self, state: World) -> dict[str, jax.Array]:
        """The scenario's `observation`."""
        return self.scenario.observation(state)

    def global_observation(self, state: World) -> jax.Array:
        """The scenario's `global_observation`."""
        return self.scenario.global_observation(state)

    def action_mask(self, state: World) -> dict[str, jax.Array]:
        """The scenario's `action_mask`."""
        return self.scenario.action_mask(state)

    def reward(self, state: World) -> dict[str, jax.Array]:
        """The scenario's `reward`, the same for every agent."""
        shared = self.scenario.reward(state)
        return {"truck": shared[None], "drone": jnp.broadcast_to(shared, (self.scenario.num_drones,))}

    def is_terminal(self, state: World) -> jax.Array:
        """The scenario's `is_terminal`."""
        return self.scenario.is_terminal(state)

    def is_truncated(self, state: World) -> jax.Array:
        """The scenario's `is_truncated`."""
        return self.scenario.is_truncated(state)

    @property
    def truncates(self) -> bool:
        """Whether the scenario has an `is_truncated` of its own."""
        return type(self.scenario).is_truncated is not Scenario.is_truncated

    def metrics(self, state: World) -> dict[str, jax.Array]:
        """The scenario's `metrics`."""
        return self.scenario.metrics(state)


def make(scenario: str | type[Scenario] | Scenario = "truck_drone_basic", **parameters: Any) -> TruckDrone:
    """The factory behind `jaxvrp.make("truck_drone", ...)`.

    Args:
        scenario: a registered name, a dotted path `package.module:MyScenario`, a class, or an instance.
        parameters: sizes, physics and reward parameters: any field of the scenario.

    Raises:
        ValueError: an unknown scenario or parameter, or a value out of range.
        TypeError: a value of the wrong type, or something that is no scenario.
    """
    label = scenario if isinstance(scenario, str) else getattr(scenario, "__name__", type(scenario).__name__)
    kind: Any = registry.resolve(scenario, "scenario") if isinstance(scenario, str) else scenario
    if isinstance(kind, Scenario):
        own = {field.name: getattr(kind, field.name) for field in dataclasses.fields(kind)}
        parameters, kind = {**own, **parameters}, type(kind)
    if not (inspect.isclass(kind) and issubclass(kind, Scenario)):
        raise TypeError(f"scenario '{label}' is no jaxvrp.envs.truck_drone.Scenario; derive your class from it")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise TypeError(f"scenario '{label}' lacks: {missing}; write them, or derive it from TruckDroneBasic")
    return TruckDrone(scenario=fields.build(kind, parameters, f"parameter of scenario '{label}':"))


def _any_key() -> jax.Array:
    return jax.eval_shape(lambda: jax.random.key(0))

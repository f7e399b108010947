"""What `tsp_drone` and `truck_drone_tours` share as environments: roles, turns, masks, and what is seen."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.actions import lowest_true
from jaxvrp.entities import flat_box, flatten
from jaxvrp.environment import Environment
from jaxvrp.envs.truck_and_drone import observation, rules
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.spaces import Box, ByKind, ByRole, Discrete, EntityKind, Place, Pointer, Role

DRONE, TRUCK = "drone", "truck"


class TruckAndDrone(Environment, abc.ABC):
    """What `TspDrone` and `TruckDroneTours` share: roles, turns, masks and what is seen."""

    num_nodes: int = fields.size(20, help="n, the depot and customers")
    reward_kind: str = fields.choice(
        "dense", ("dense", "sparse"), keyword="reward", help="as the clock grows, or all of the reward on the last step"
    )
    observation_kind: str = fields.choice(
        "entities",
        ("entities", "flat"),
        keyword="observation",
        help="nodes as entities, or all in one vector; learners choose the kind that their network reads",
    )

    sees: ClassVar[Any]  # the module of what is seen: features, and the functions that make them

    @property
    @abc.abstractmethod
    def allow_revisits(self) -> bool:
        """Whether truck and drone may meet at nodes that are served already."""

    @property
    def _nodes(self) -> EntityKind:
        places = (Place("present", "x", "y"),)
        return EntityKind(observation.NODE, self.num_nodes, self.sees.STATIC, self.sees.DYNAMIC, places)

    @property
    def roles(self) -> dict[str, Role]:
        """The drone, then the truck; their actions point at nodes."""
        drone, truck = Discrete(self.num_nodes + FIRST_SERVE), Discrete(self.num_nodes)
        if not self.entity_kinds:
            box = flat_box(self.sees.CONTEXT, (self._nodes,))
            return {DRONE: Role(1, box, drone), TRUCK: Role(1, box, truck)}
        box = Box(-jnp.inf, jnp.inf, (len(self.sees.CONTEXT),))
        places = (("x", "y"), ("drone_x", "drone_y"))
        at_nodes = Pointer(observation.NODE, 1)
        return {
            DRONE: Role(1, box, drone, self.sees.CONTEXT, (Pointer(None, FIRST_SERVE), at_nodes), places),
            TRUCK: Role(1, box, truck, self.sees.CONTEXT, (at_nodes,), places),
        }

    @property
    def entity_kinds(self) -> tuple[EntityKind, ...]:
        """The nodes; with revisits one is there even when it is served, since the two may meet there."""
        return () if self.observation_kind == "flat" else (self._nodes,)

    def fallback(self, mask: ByRole) -> ByRole:
        """The lowest-index allowed action."""
        return {role: lowest_true(allowed) for role, allowed in mask.items()}

    def observation(self, state: State) -> ByRole:
        """`{"drone": f32[1, F], "truck": f32[1, F]}`, the same for both, see the class."""
        seen = self._context(state) if self.entity_kinds else self.global_observation(state)
        assert seen is not None
        return {DRONE: seen[None], TRUCK: seen[None]}

    def global_observation(self, state: State) -> jax.Array | None:
        """`f32[F]`, what both see; None with entities."""
        if self.entity_kinds:
            return None
        with_entities = self.replace(observation="entities")
        return flatten(self._context(state), with_entities.static_entities(state), with_entities.entities(state))

    def static_entities(self, state: State) -> ByKind:
        """`{"node": f32[K, n]}`, see the class; {} where all is one vector. Padding is 0."""
        if not self.entity_kinds:
            return {}
        planes = observation.stacked(self.sees.static_planes(state))
        return {observation.NODE: jnp.where(state.instance.exists, planes, 0.0)}

    def entities(self, state: State) -> ByKind:
        """`{"node": f32[K, n]}`, what changes; {} where all is one vector. Nodes that are left for good are 0."""
        if not self.entity_kinds:
            return {}
        present = rules.in_play(state, allow_revisits=self.allow_revisits)
        mask = self.action_mask(state)
        planes = observation.stacked(self.sees.dynamic_planes(state, mask[DRONE][0], mask[TRUCK][0], present))
        return {observation.NODE: jnp.where(present, planes, 0.0)}

    def _context(self, state: State) -> jax.Array:
        return observation.stacked(self.sees.context(state, self.action_mask(state)[DRONE][0]))

    def is_terminal(self, state: State) -> jax.Array:
        """The truck is at the depot and the drone on board, for the last time."""
        return state.done

    def paid(self, state: State, total: jax.Array) -> jax.Array:
        """`f32[]`, minus what the step that led to `state` cost; "sparse", minus the `total` on the last step."""
        return -state.growth if self.reward_kind == "dense" else jnp.where(state.done, -total, 0.0)

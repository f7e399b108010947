"""One environment played from Python: a jitted call for each reset and step, NumPy on both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.actions import typed_action
from jaxvrp.adapters.common import check_begun, check_render_mode, draw_frame
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, Instance, State, TimeStep
from jaxvrp.io.messages import shown
from jaxvrp.spaces import agent_names


class Member(NamedTuple):
    """One agent: its name, its role, and its row in the arrays of that role."""

    name: str
    role: str
    row: int


class Host:
    """An environment and its present state.

    Environments that differ only in numbers share one compiled program. A `TimeStep` travels as one vector: with an
    array for each of its two dozen leaves, handing them over takes longer than the step. Episodes know nothing of each
    other: `Environment.memory` is not carried here.

    Attributes:
        roles: of the environment.
        members: the agents in order.
        global_shape: of the global observation.
        env: the environment, seen flat.
        state: the present one; None before the first reset.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: another `render_mode`, or nothing draws the environment.
    """

    def __init__(self, env: Environment, render_mode: str | None = None):
        check_render_mode(env, render_mode)
        self.render_mode = render_mode
        env = seen_as(env, "flat")
        self.roles = env.roles
        self.members = members(env)
        self.env = jax.device_put(env)
        self.state: State = None
        self._layout = jax.eval_shape(lambda: env.reset(jax.random.key(0))[1])
        self.global_shape = self._layout.global_observation.shape

    def reset(self, random: np.random.Generator, instance: Instance | None = None) -> TimeStep:
        """Begin an episode on a fresh problem, drawn from `random`, or on a given one; either draws the same."""
        # Also where it is not needed: the problems that follow are then the same.
        self.state, packed = _reset(self.env, draw_seed(random), instance)
        return _unpack(packed, self._layout)

    def step(self, action: Mapping[str, np.ndarray]) -> TimeStep:
        """Play one step with actions `{role: [agents, ...]}`; after the end nothing changes and nothing is paid."""
        check_begun(self.state, "step")
        self.state, packed = _step(self.env, self.state, action)
        return _unpack(packed, self._layout)

    def render(self) -> np.ndarray | None:
        """`u8[height, width, 3]`, the present state; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        check_begun(self.state, "render")
        return draw_frame(self.env, self.state)

    def join(self, rows: Iterable[Any]) -> dict[str, np.ndarray]:
        """One action per agent, in the order of the agents, as `{role: [agents, ...]}`."""
        joined: dict[str, list[Any]] = {name: [] for name in self.roles}
        for member, action in zip(self.members, rows, strict=True):
            space = self.roles[member.role].action
            joined[member.role].append(typed_action(f"action of {member.name}", space, action, space.shape))
        return {name: np.stack(actions) for name, actions in joined.items()}

    def metrics(self, timestep: TimeStep) -> list[dict[str, Any]]:
        """For each agent, as Python numbers: the metrics of the episode, and its own entries of those by agent."""
        shared = {name: value.item() for name, value in timestep.metrics.items() if value.ndim == 0}
        single = {name: value for name, value in timestep.metrics.items() if value.ndim == 1}
        if not single:
            return [shared] * len(self.members)
        role_of = {name: self._role_of(len(value)) for name, value in single.items()}
        return [
            shared | {name: value[m.row].item() for name, value in single.items() if role_of[name] == m.role}
            for m in self.members
        ]

    def _role_of(self, count: int) -> str | None:
        """The role that has so many agents; None where none, or more than one, has."""
        found = [name for name, role in self.roles.items() if role.num_agents == count]
        return found[0] if len(found) == 1 else None


def members(env: Environment) -> list[Member]:
    """The agents in order: role by role."""
    return [Member(name, role, row) for role, names in agent_names(env.roles).items() for row, name in enumerate(names)]


def random_of(seed: Any) -> np.random.Generator:
    """The generator of a seed, as NumPy understands it; None draws one.

    Raises:
        ValueError, TypeError: it is no seed; one line.
    """
    try:
        return np.random.default_rng(seed)
    except (ValueError, TypeError) as error:
        raise type(error)(f"seed is {shown(seed)}; it must be a whole number, not below 0, or None") from None


def draw_seed(random: np.random.Generator) -> np.uint32:
    """The seed of the next problem; the same for one environment and for one of many, so that they play the same."""
    return random.integers(2**32, dtype=np.uint32)


@jax.jit
def _reset(env: Environment, seed: jax.Array, instance: Instance | None) -> tuple[State, jax.Array]:
    state, timestep = env.reset(jax.random.key(seed)) if instance is None else env.reset_to(instance)
    return state, _pack(timestep)


@jax.jit
def _step(env: Environment, state: State, action: dict[str, jax.Array]) -> tuple[State, jax.Array]:
    state, timestep = env.step(state, action)
    return state, _pack(timestep)


def _pack(timestep: TimeStep) -> jax.Array:
    """`f32[...]`: all leaves, which the contract has as `float32` or `bool`."""
    return jnp.concatenate([leaf.ravel().astype(jnp.float32) for leaf in jax.tree.leaves(timestep)])


def _unpack(packed: jax.Array, layout: TimeStep) -> TimeStep:
    """The arrays again, writable (those of JAX are not, which other libraries warn about)."""
    flat, leaves, start = np.array(packed), [], 0
    shapes, structure = jax.tree.flatten(layout)
    for leaf in shapes:
        end = start + math.prod(leaf.shape)
        leaves.append(flat[start:end].reshape(leaf.shape).astype(leaf.dtype, copy=False))
        start = end
    return jax.tree.unflatten(structure, leaves)

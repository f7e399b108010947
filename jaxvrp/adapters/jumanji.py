"""Jumanji's `Environment` over environments whose agents all act in one kind of space: the extra `jumanji`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.actions import typed_action
from jaxvrp.adapters.common import check_render_mode, draw_frame, fill, missing_extra, typed_key
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.spaces import Discrete, Space

try:
    import jumanji
except ModuleNotFoundError as error:
    raise missing_extra("jumanji", error) from None

from jumanji import specs, types


class State(struct.PyTreeNode):
    """A state of the environment, and the key from which Jumanji's wrappers begin the next episode."""

    env_state: Any
    key: jax.Array


class Observation(NamedTuple):
    """What agents with continuous actions see: `f32[agents, F]`, of one agent `f32[F]`."""

    agents_view: Any


class MaskedObservation(NamedTuple):
    """What agents with discrete actions see, and which are legal: also `bool[agents, A]`, of one agent `bool[A]`."""

    agents_view: Any
    action_mask: Any


class JumanjiEnv(jumanji.Environment):
    """A Jumanji environment of all agents, acting together; functions may be jitted and mapped, keys typed or raw.

    Several agents act in `MultiDiscreteArray` or a `BoundedArray` `[agents, ...]`, in the order of the roles; shorter
    observations end in zeros, shorter masks in False. One agent acts in `DiscreteArray` or a `BoundedArray`. The reward
    is the mean over the agents (`TimeStep.team_reward`); the discount is 0 where the task is over, and 1 where an
    episode is cut short. `extras` are the metrics of the episode.

    Args:
        env: an environment whose actions are all discrete, or all continuous in the same box.

    Attributes:
        num_agents, time_limit: how many agents, and steps of the longest episode.

    Raises:
        ValueError: there are several kinds of actions.
    """

    def __init__(self, env: Environment):
        self._env = env = seen_as(env, "flat")
        self._agents = [role for role in env.roles.values() for _ in range(role.num_agents)]
        self._counts = [role.action.num_actions for role in self._agents if isinstance(role.action, Discrete)]
        if len({Discrete if isinstance(role.action, Discrete) else role.action for role in self._agents}) > 1:
            text = f"Jumanji knows one kind of action, {type(env).__name__} has several"
            raise ValueError(f"{text}; use jaxvrp.adapters.jaxmarl.to_jaxmarl")
        self._acts: Space = Discrete(max(self._counts)) if self._counts else self._agents[0].action
        self.num_agents, self.time_limit = len(self._agents), env.max_episode_steps
        self._batch = () if self.num_agents == 1 else (self.num_agents,)
        super().__init__()

    def reset(self, key: jax.Array) -> tuple[State, types.TimeStep]:
        """A fresh problem."""
        reset_key, key = jax.random.split(key)
        state, timestep = self._env.reset(typed_key(reset_key))
        return State(state, key), self._timestep(timestep, types.StepType.FIRST)

    def step(self, state: State, action: Any) -> tuple[State, types.TimeStep]:
        """Play one step; after the end nothing changes and nothing is paid."""
        typed = jnp.asarray(typed_action("action", self._acts, action, (*self._batch, *self._acts.shape)))
        rows, start, joined = typed.reshape(self.num_agents, *self._acts.shape), 0, {}
        for name, role in self._env.roles.items():
            joined[name] = rows[start : start + role.num_agents]
            start += role.num_agents
        played, timestep = self._env.step(state.env_state, joined)
        step_type = jnp.where(timestep.done, types.StepType.LAST, types.StepType.MID)
        return state.replace(env_state=played), self._timestep(timestep, step_type)

    @cached_property
    def observation_spec(self) -> specs.Spec:
        """`agents_view`, and the `action_mask` of discrete actions."""
        boxes = [role.observation for role in self._agents]
        bounds = [jnp.array([box.bounds or [(box.low, box.high)] * box.shape[0]], jnp.float32) for box in boxes]
        low, high = (self._joined(box[..., side] for box in bounds) for side in (0, 1))
        view = specs.BoundedArray(low.shape, jnp.float32, low, high, "agents_view")
        if not self._counts:
            return specs.Spec(Observation, "ObservationSpec", agents_view=view)
        mask = specs.BoundedArray((*self._batch, max(self._counts)), bool, False, True, "action_mask")
        return specs.Spec(MaskedObservation, "ObservationSpec", agents_view=view, action_mask=mask)

    @cached_property
    def action_spec(self) -> specs.BoundedArray:
        """`DiscreteArray`, `MultiDiscreteArray`, or a `BoundedArray` of continuous actions."""
        if not isinstance(self._acts, Discrete):
            shape = (*self._batch, *self._acts.shape)
            return specs.BoundedArray(shape, jnp.float32, self._acts.low, self._acts.high, "action")
        if not self._batch:
            return specs.DiscreteArray(self._acts.num_actions, name="action")
        return specs.MultiDiscreteArray(jnp.array(self._counts, jnp.int32), name="action")

    def render(self, state: State) -> np.ndarray:
        """`u8[height, width, 3]`, a state as pixels.

        Raises:
            ValueError: nothing draws the environment.
        """
        check_render_mode(self._env, "rgb_array")
        return draw_frame(self._env, state.env_state)

    def _timestep(self, timestep: TimeStep, step_type: Any) -> types.TimeStep:
        """`step_type` is `i8[]`; Jumanji annotates the field with the class that has the constants."""
        view = self._joined(timestep.observation[name] for name in self._env.roles)
        masks = [timestep.action_mask[name] for name in self._env.roles if self._counts]
        return types.TimeStep(
            step_type=step_type,
            reward=timestep.team_reward,
            discount=1.0 - timestep.terminated,
            observation=MaskedObservation(view, self._joined(masks)) if masks else Observation(view),
            extras=dict(timestep.metrics),
        )

    def _joined(self, rows: Iterable[jax.Array]) -> jax.Array:
        """`[agents, size]` from rows `[some, ...]`, of one agent `[size]`; shorter rows end in zeros (or False)."""
        parts = list(rows)
        size = max(part.shape[-1] for part in parts)
        return jnp.concatenate([fill(part, size) for part in parts]).reshape(*self._batch, size)


to_jumanji = JumanjiEnv

"""`gymnasium.Env` over an environment with one role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.actions import typed_action
from jaxvrp.adapters.common import RENDER_METADATA, given_instance, missing_extra, render_metadata
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.spaces import Discrete

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise missing_extra("gymnasium", error) from None

from jaxvrp.adapters.gym_spaces import to_gym, with_mask
from jaxvrp.adapters.host import Host


class GymnasiumEnv(gymnasium.Env):
    """A `gymnasium.Env`: of the one agent of the one role, or of all agents of that role acting together.

    One agent acts in `Discrete` or `Box`, several in `MultiDiscrete` or a `Box` `[agents, ...]`, with observations
    `f32[agents, ...]` and the mean of their rewards (of those that are valid; a shared reward counts once). `info` has
    the `action_mask` (`i8`, roles with a discrete action; of several agents, `action_space.sample(tuple(mask))`),
    `valid` (`bool[agents]`, roles with void rows), and the metrics of the episode; `action_masks()` is the mask as
    maskable PPO asks for it.

    Args:
        env: an environment with one role.
        mask_in_observation: observations are `{"observation": ..., "action_mask": ...}`.
        render_mode: `"rgb_array"`, and `render()` is the present state as pixels; None draws nothing.

    Raises:
        ValueError: there are several roles, or nothing draws the environment.
    """

    metadata = RENDER_METADATA

    def __init__(self, env: Environment, *, mask_in_observation: bool = False, render_mode: str | None = None):
        env = seen_as(env, "flat")
        self._face, self._host = Face(env, mask_in_observation), Host(env, render_mode)
        self.metadata = render_metadata(env)
        self.render_mode = render_mode
        self.action_space, self.observation_space = self._face.action_space, self._face.observation_space
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A problem: observation and info.

        Args:
            seed: of the problems from this one on.
            options: `{"instance": problem}` plays that one, as `Environment.generate` makes it, instead of a fresh one.
        """
        instance = given_instance(self._host.env, options)
        super().reset(seed=seed)
        return self._seen(self._host.reset(self.np_random, instance))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one step: observation, reward, terminated, truncated, info."""
        timestep = self._host.step(self._face.action(action))
        observation, info = self._seen(timestep)
        reward = float(self._face.reward(timestep))
        return observation, reward, bool(timestep.terminated), bool(timestep.truncated), info

    def render(self) -> np.ndarray | None:
        """`u8[height, width, 3]`, the present state; None without a `render_mode`."""
        return self._host.render()

    def action_masks(self) -> np.ndarray:
        """`bool[actions]`, of several agents one after the other: of the last reset or step."""
        if "action_mask" not in self._info:
            raise RuntimeError("there is no action mask: the action is continuous, or reset() was not called yet")
        return self._info["action_mask"].astype(bool).ravel()

    def _seen(self, timestep: TimeStep) -> tuple[Any, dict[str, Any]]:
        info = self._face.info(timestep)
        self._info = {name: value if value.ndim else value.item() for name, value in info.items()}
        return self._face.observe(timestep), dict(self._info)


to_gymnasium = GymnasiumEnv


class Face:
    """The one role as Gymnasium sees it: spaces, observations, infos and rewards; `batch` is the arrays' leading axes.

    Raises:
        ValueError: there are several roles.
    """

    def __init__(self, env: Environment, mask_in_observation: bool, batch: tuple[int, ...] = ()):
        if len(env.roles) != 1:
            text = f"Gymnasium knows one kind of agent, {type(env).__name__} has the roles {list(env.roles)}"
            raise ValueError(f"{text}; use jaxvrp.adapters.pettingzoo.to_pettingzoo")
        ((self.name, self.role),) = env.roles.items()
        self.batch = batch
        self.alone = self.role.num_agents == 1
        self._agents = f"{self.name}_0" if self.alone else f"the {self.role.num_agents} agents of role '{self.name}'"
        count = None if self.alone else self.role.num_agents
        self.action_space = to_gym(self.role.action, count)
        self.observation_space = to_gym(self.role.observation, count)
        self._masked = mask_in_observation and isinstance(self.role.action, Discrete)
        if mask_in_observation and isinstance(self.role.action, Discrete):
            shape = (self.role.num_agents, self.role.action.num_actions)
            self.observation_space = with_mask(self.observation_space, shape[1:] if self.alone else shape)

    def action(self, action: Any) -> dict[str, np.ndarray]:
        """`{role: [*batch, agents, ...]}` from an element of the action space, or a batch of them."""
        space, wanted = self.role.action, (*self.batch, *(self.action_space.shape or ()))
        array = np.asarray(typed_action(f"action of {self._agents}", space, action, wanted, bool(self.batch)))
        return {self.name: array.reshape(*self.batch, self.role.num_agents, *space.shape)}

    def observe(self, timestep: TimeStep) -> Any:
        """Observations of the space, `[*batch, ...]`."""
        seen = self._of_agents(timestep.observation[self.name])
        return {"observation": seen, "action_mask": self._mask(timestep)} if self._masked else seen

    def info(self, timestep: TimeStep) -> dict[str, Any]:
        """`action_mask` `i8[*batch, ...]` (roles with a discrete action), `valid` `bool[*batch, agents]`, metrics."""
        info: dict[str, Any] = {}
        if self.name in timestep.action_mask:
            info["action_mask"] = self._mask(timestep)
        if self.name in timestep.valid:
            info["valid"] = timestep.valid[self.name]
        return {**info, **timestep.metrics}

    def reward(self, timestep: TimeStep) -> np.ndarray:
        """`f64[*batch]`, mean over the agents that are valid; in double precision, as Gymnasium has it."""
        reward = timestep.reward[self.name].astype(np.float64)
        valid: Mapping[str, Any] = timestep.valid
        counted = valid.get(self.name, np.ones_like(reward, bool))
        return np.where(counted, reward, 0.0).sum(axis=-1) / np.maximum(counted.sum(axis=-1), 1)

    def _mask(self, timestep: TimeStep) -> np.ndarray:
        return self._of_agents(timestep.action_mask[self.name]).astype(np.int8)

    def _of_agents(self, rows: Any) -> Any:
        return rows.squeeze(len(self.batch)) if self.alone else rows

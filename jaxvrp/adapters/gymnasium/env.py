"""`gymnasium.Env` over an environment with one role."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp.adapters.extras import missing_extra
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, TimeStep

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise missing_extra("gymnasium", error) from None

from jaxvrp.adapters.frames import FRAMES_PER_SECOND, RENDER_MODES, check_render_mode, draw_frame
from jaxvrp.adapters.gymnasium.face import Face
from jaxvrp.adapters.host import Host
from jaxvrp.adapters.problems import given_instance


def to_gymnasium(
    env: Environment, *, mask_in_observation: bool = False, render_mode: str | None = None
) -> GymnasiumEnv:
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
    return GymnasiumEnv(seen_as(env, "flat"), mask_in_observation, render_mode)


class GymnasiumEnv(gymnasium.Env):
    """See `to_gymnasium`."""

    metadata = {  # noqa: RUF012  # a class attribute, as of all environments of Gymnasium
        "render_modes": list(RENDER_MODES),
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(self, env: Environment, mask_in_observation: bool, render_mode: str | None):
        check_render_mode(env, render_mode)
        self.render_mode = render_mode
        self._face, self._host = Face(env, mask_in_observation), Host(env)
        self.action_space, self.observation_space = self._face.action_space, self._face.observation_space
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A problem: observation and info.

        Args:
            seed: of the problems from this one on.
            options: `{"instance": problem}` plays that one, as `Environment.generate` makes it, instead of a fresh one.

        Raises:
            ValueError, TypeError: another option, or no problem of this environment.
        """
        instance = given_instance(self._host.env, options)
        super().reset(seed=seed)
        return self._told(self._host.reset(self.np_random, instance))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one step: observation, reward, terminated, truncated, info.

        Raises:
            RuntimeError: there was no `reset`.
            ValueError, TypeError: an action of the wrong shape or dtype.
        """
        timestep = self._host.step(self._face.action(action))
        observation, info = self._told(timestep)
        reward = float(self._face.reward(timestep))
        return observation, reward, bool(timestep.terminated), bool(timestep.truncated), info

    def render(self) -> np.ndarray | None:
        """`u8[height, width, 3]`, the present state; None where no `render_mode` was given.

        Raises:
            RuntimeError: there was no `reset`.
        """
        if self.render_mode is None:
            return None
        if self._host.state is None:
            raise RuntimeError("render was called before the first reset; call reset() first")
        return draw_frame(self._host.env, self._host.state)

    def action_masks(self) -> np.ndarray:
        """`bool[actions]`, of several agents one after the other: of the last reset or step."""
        if "action_mask" not in self._info:
            raise RuntimeError("there is no action mask: the action is continuous, or reset() was not called yet")
        return self._info["action_mask"].astype(bool).ravel()

    def _told(self, timestep: TimeStep) -> tuple[Any, dict[str, Any]]:
        told = self._face.told(timestep)
        self._info = {name: value if value.ndim else value.item() for name, value in told.items()}
        return self._face.observe(timestep), dict(self._info)

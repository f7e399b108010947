"""Gymnasium's `Env` and `VectorEnv` over environments with one role: `pip install jaxvrp[gymnasium]`.

Example:

    import jaxvrp
    from jaxvrp.adapters.gymnasium import to_gymnasium, to_gymnasium_vector

    env = to_gymnasium(jaxvrp.make("darp", num_nodes=20))
    observation, info = env.reset(seed=0)
    action = env.action_space.sample(info["action_mask"])
    observation, reward, terminated, truncated, info = env.step(action)

    envs = to_gymnasium_vector(jaxvrp.make("darp", num_nodes=20), 1024)     # one compiled program for all
    observations, infos = envs.reset(seed=0)                                # f32[1024, ...]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.actions import typed_action
from jaxvrp.adapters.extras import missing_extra
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.spaces import Discrete
from jaxvrp.vectorize import VecEnv, VecState, VecTimeStep

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise missing_extra("gymnasium", error) from None

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from jaxvrp.adapters.gym_spaces import to_gym, with_mask
from jaxvrp.adapters.host import Host


def to_gymnasium(env: Environment, *, mask_in_observation: bool = False) -> GymnasiumEnv:
    """A `gymnasium.Env`: of the one agent of the one role, or of all agents of that role acting together.

    One agent acts in `Discrete` or `Box`, several in `MultiDiscrete` or a `Box` `[agents, ...]`, with observations
    `f32[agents, ...]` and the mean of their rewards (of those that are valid; a shared reward counts once). `info` has
    the `action_mask` (`i8`, roles with a discrete action; of several agents, `action_space.sample(tuple(mask))`),
    `valid` (`bool[agents]`, roles with void rows), and the metrics of the episode; `action_masks()` is the mask as
    maskable PPO asks for it.

    Args:
        env: an environment with one role.
        mask_in_observation: observations are `{"observation": ..., "action_mask": ...}`.

    Raises:
        ValueError: there are several roles.
    """
    return GymnasiumEnv(seen_as(env, "flat"), mask_in_observation)


def to_gymnasium_vector(env: Environment, num_envs: int) -> GymnasiumVectorEnv:
    """A `gymnasium.vector.VectorEnv` of `num_envs` copies of `to_gymnasium(env)`, stepped by one compiled program.

    An environment is reset in the step that ends its episode (`AutoresetMode.SAME_STEP`): the observation and
    `infos["action_mask"]`, `infos["valid"]` are those of the new episode, `infos["final_obs"]` and
    `infos["final_info"]` (metrics, `episode_return`, `episode_length`) those of the old.

    Args:
        env: an environment with one role.
        num_envs: E.

    Raises:
        ValueError: there are several roles, or no environments.
        TypeError: `num_envs` is no whole number.
    """
    return GymnasiumVectorEnv(seen_as(env, "flat"), num_envs)


class _Face:
    """One role as Gymnasium sees it.

    Attributes:
        action_space, observation_space: of one environment.
    """

    def __init__(self, env: Environment, batch: tuple[int, ...] = ()):
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

    def action(self, action: Any) -> dict[str, np.ndarray]:
        """`{role: [*batch, agents, ...]}` from an element of the action space, or a batch of them.

        Raises:
            ValueError, TypeError: as `typed_action`.
        """
        space, wanted = self.role.action, (*self.batch, *(self.action_space.shape or ()))
        array = np.asarray(typed_action(f"action of {self._agents}", space, action, wanted))
        return {self.name: array.reshape(*self.batch, self.role.num_agents, *space.shape)}

    def observe(self, rows: Mapping[str, Any]) -> Any:
        """Observations of the space, `[*batch, ...]`, from `{role: [*batch, agents, ...]}`."""
        return self._of_agents(rows[self.name])

    def told(self, timestep: TimeStep) -> dict[str, Any]:
        """`action_mask` `i8[*batch, ...]` (roles with a discrete action), `valid` `bool[*batch, agents]`."""
        info: dict[str, Any] = {}
        if self.name in timestep.action_mask:
            info["action_mask"] = self._of_agents(timestep.action_mask[self.name]).astype(np.int8)
        if self.name in timestep.valid:
            info["valid"] = timestep.valid[self.name]
        return info

    def reward(self, timestep: TimeStep, valid: Mapping[str, Any]) -> np.ndarray:
        """`f64[*batch]`, mean over the agents that are valid; in double precision, as Gymnasium has it."""
        reward = timestep.reward[self.name].astype(np.float64)
        counted = valid.get(self.name, np.ones_like(reward, bool))
        return np.where(counted, reward, 0.0).sum(axis=-1) / np.maximum(counted.sum(axis=-1), 1)

    def _of_agents(self, rows: Any) -> Any:
        return rows.squeeze(len(self.batch)) if self.alone else rows


class GymnasiumEnv(gymnasium.Env):
    """See `to_gymnasium`."""

    def __init__(self, env: Environment, mask_in_observation: bool):
        self.metadata = {"name": type(env).__name__, "render_modes": []}
        self._host, self._face = Host(env), _Face(env)
        self.action_space, self.observation_space = self._face.action_space, self._face.observation_space
        role = self._face.role
        self._masked = mask_in_observation and isinstance(role.action, Discrete)
        if mask_in_observation and isinstance(role.action, Discrete):
            shape = (role.num_agents, role.action.num_actions)
            self.observation_space = with_mask(self.observation_space, shape[1:] if self._face.alone else shape)
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A fresh problem: observation and info; `options` are not used."""
        super().reset(seed=seed)
        return self._told(self._host.reset(self.np_random))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one step: observation, reward, terminated, truncated, info.

        Raises:
            RuntimeError: there was no `reset`.
            ValueError, TypeError: an action of the wrong shape or dtype.
        """
        timestep = self._host.step(self._face.action(action))
        observation, info = self._told(timestep)
        reward = float(self._face.reward(timestep, timestep.valid))
        return observation, reward, bool(timestep.terminated), bool(timestep.truncated), info

    def action_masks(self) -> np.ndarray:
        """`bool[actions]`, of several agents one after the other: of the last reset or step."""
        if "action_mask" not in self._info:
            raise RuntimeError("there is no action mask: the action is continuous, or reset() was not called yet")
        return self._info["action_mask"].astype(bool).ravel()

    def _told(self, timestep: TimeStep) -> tuple[Any, dict[str, Any]]:
        metrics = {name: value if value.ndim else value.item() for name, value in timestep.metrics.items()}
        self._info = {**self._face.told(timestep), **metrics}
        seen = self._face.observe(timestep.observation)
        if self._masked:
            seen = {"observation": seen, "action_mask": self._info["action_mask"]}
        return seen, dict(self._info)


class GymnasiumVectorEnv(VectorEnv):
    """See `to_gymnasium_vector`."""

    def __init__(self, env: Environment, num_envs: int):
        self.metadata = {
            "name": type(env).__name__,
            "render_modes": [],
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self._vec = VecEnv(jax.device_put(env), num_envs, final_observations=True)
        self._face = _Face(env, (num_envs,))
        self.num_envs = num_envs
        self._state: VecState | None = None
        self._valid: Mapping[str, Any] = {}
        self.single_action_space = self._face.action_space
        self.single_observation_space = self._face.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Fresh problems everywhere, from one seed; there are no `options`.

        Raises:
            ValueError: a list of seeds, or options.
        """
        if seed is not None and not isinstance(seed, int | np.integer):
            raise ValueError(f"seed is {seed!r}; all environments are one program, and one number seeds it")
        if options:
            raise ValueError(f"reset got options {sorted(options)}; it has none, and always resets all environments")
        super().reset(seed=seed)
        self._state, timestep = _reset(self._vec, self.np_random.integers(2**32, dtype=np.uint32))
        return self._told(_to_numpy(timestep))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, Any, Any, dict[str, Any]]:
        """Play one step everywhere: observations, rewards `f64[E]`, terminations, truncations `bool[E]`, infos.

        Raises:
            RuntimeError: there was no `reset`.
            ValueError, TypeError: actions of the wrong shape or dtype.
        """
        if self._state is None:
            raise RuntimeError("step was called before the first reset; call reset() first")
        self._state, timestep = _step(self._vec, self._state, self._face.action(actions))
        timestep = _to_numpy(timestep)
        # After an auto-reset the timestep has the rows of the new episode, and the rewards of the old one.
        rewards = self._face.reward(timestep, self._valid)
        observation, infos = self._told(timestep)
        infos.update(self._final(timestep))
        return observation, rewards, timestep.terminated, timestep.truncated, infos

    def _told(self, timestep: VecTimeStep) -> tuple[Any, dict[str, Any]]:
        self._valid = timestep.valid
        infos = _marked(self._face.told(timestep), np.ones(self.num_envs, bool))
        return self._face.observe(timestep.observation), infos

    def _final(self, timestep: VecTimeStep) -> dict[str, Any]:
        """What is known of the episodes that ended, in the places of their environments; empty if none did."""
        done = timestep.terminated | timestep.truncated
        if not done.any():
            return {}
        seen, final = self._face.observe(timestep.final_observation), np.full(self.num_envs, None, object)
        for index in np.flatnonzero(done):
            final[index] = seen[index]
        return _marked({"final_obs": final, "final_info": _marked(timestep.metrics, done)}, done)


def _marked(values: Mapping[str, Any], present: np.ndarray | jax.Array) -> dict[str, Any]:
    """Each with the mask of the environments that it belongs to beside it, under `_` and its name."""
    return {**values, **{f"_{name}": present for name in values}}


def _to_numpy(timestep: VecTimeStep) -> VecTimeStep:
    """All leaves at once, writable (those of JAX are not, which other libraries warn about)."""
    return jax.tree.map(np.array, jax.device_get(timestep))


@jax.jit
def _reset(vec: VecEnv, seed: jax.Array) -> tuple[VecState, VecTimeStep]:
    return vec.reset(jax.random.key(seed))


@jax.jit
def _step(vec: VecEnv, state: VecState, action: dict[str, jax.Array]) -> tuple[VecState, VecTimeStep]:
    return vec.step(state, action)

"""One role as Gymnasium sees it: spaces, observations, infos and rewards, of one environment or of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.actions import typed_action
from jaxvrp.adapters.gym_spaces import to_gym, with_mask
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.spaces import Discrete


class Face:
    """Of an environment with one role.

    Attributes:
        action_space, observation_space: of one environment.
        name, role: of its agents.
        alone: whether there is one agent.

    Args:
        env: seen flat.
        mask_in_observation: observations are `{"observation": ..., "action_mask": ...}`, where actions are discrete.
        batch: leading axes of all arrays.

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
        """`{role: [*batch, agents, ...]}` from an element of the action space, or a batch of them.

        Raises:
            ValueError, TypeError: as `typed_action`.
        """
        space, wanted = self.role.action, (*self.batch, *(self.action_space.shape or ()))
        array = np.asarray(typed_action(f"action of {self._agents}", space, action, wanted))
        return {self.name: array.reshape(*self.batch, self.role.num_agents, *space.shape)}

    def observe(self, timestep: TimeStep) -> Any:
        """Observations of the space, `[*batch, ...]`."""
        seen = self._of_agents(timestep.observation[self.name])
        return {"observation": seen, "action_mask": self._mask(timestep)} if self._masked else seen

    def told(self, timestep: TimeStep) -> dict[str, Any]:
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

"""PettingZoo's `ParallelEnv` over any environment of the suite: `pip install jaxvrp[pettingzoo]`.

Example:

    import jaxvrp
    from jaxvrp.adapters.pettingzoo import to_pettingzoo

    env = to_pettingzoo(jaxvrp.make("truck_drone", num_drones=2), seed=0)
    observations, infos = env.reset()                       # {"truck_0": {"observation": ..., "action_mask": ...}, ...}
    while env.agents:
        actions = {name: env.action_space(name).sample(infos[name]["action_mask"]) for name in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.adapters.extras import missing_extra
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.io.messages import shown
from jaxvrp.spaces import Discrete

try:
    import pettingzoo
except ModuleNotFoundError as error:
    raise missing_extra("pettingzoo", error) from None

from gymnasium import spaces

from jaxvrp.adapters.gym_spaces import to_gym, with_mask
from jaxvrp.adapters.host import Host

Results = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]
"""Observations, rewards, terminations, truncations, infos, each by agent."""


def to_pettingzoo(env: Environment, *, seed: int | None = None, mask_in_observation: bool = True) -> PettingZooEnv:
    """A `pettingzoo.ParallelEnv` with the agents `truck_0`, `drone_0`, ..., each with its own spaces.

    Args:
        env: the environment.
        seed: of the episodes, until `reset(seed=...)` gives another; None draws one.
        mask_in_observation: agents with a discrete action see `{"observation": f32[...], "action_mask": i8[actions]}`,
            as PettingZoo's own environments do; else the observation alone.
    """
    return PettingZooEnv(env, seed, mask_in_observation)


class PettingZooEnv(pettingzoo.ParallelEnv):
    """See `to_pettingzoo`.

    `infos[agent]` has the `action_mask` (`i8[actions]`, agents with a discrete action) and the metrics of the episode,
    of those with an entry for each agent its own. Agents whose rows are void in an instance (padding) are not among its
    `agents`. All end together.

    Attributes:
        possible_agents: names in order; `agents`: those of the present episode, none after its end.
        state_space: of `state()`.
    """

    def __init__(self, env: Environment, seed: int | None, mask_in_observation: bool):
        self.metadata = {"name": type(env).__name__, "render_modes": [], "is_parallelizable": True}
        self.render_mode = None
        self._host = Host(env)
        self._members = {member.name: member for member in self._host.members}
        self._random = np.random.default_rng(seed)
        self._mask_in_observation = mask_in_observation
        self.possible_agents: list[str] = list(self._members)
        self.agents: list[str] = []
        roles = self._host.roles
        self.action_spaces = {m.name: to_gym(roles[m.role].action) for m in self._host.members}
        self.observation_spaces = {m.name: self._observation_space(m.role) for m in self._host.members}
        self.state_space = spaces.Box(-np.inf, np.inf, self._host.global_shape, np.float32)
        self._last: TimeStep | None = None

    def observation_space(self, agent: str) -> spaces.Space:
        """Of one agent, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Of one agent, always the same object."""
        return self.action_spaces[agent]

    def state(self) -> np.ndarray:
        """`f32[G]`, the global observation of the last reset or step.

        Raises:
            RuntimeError: there was no `reset`.
        """
        if self._last is None:
            raise RuntimeError("state was called before the first reset; call reset() first")
        return np.asarray(self._last.global_observation)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """A fresh problem: observations and infos; `options` are not used."""
        del options
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._last = last = self._host.reset(self._random)
        self.agents = [name for name in self.possible_agents if self._is_valid(last, name)]
        return self._told(last)

    def step(self, actions: Mapping[str, Any]) -> Results:
        """Play one step with an action from each of `agents`; with none of them, nothing happens.

        Raises:
            ValueError: an agent has no action, or there is no such agent in this episode; an action of the wrong shape.
            TypeError: an action of the wrong dtype; no mapping.
        """
        if not isinstance(actions, Mapping):
            raise TypeError(f"step got {shown(actions)}; it needs a dict with one action for each of {self.agents}")
        if set(actions) != set(self.agents):
            raise ValueError(f"step needs one action for each of {self.agents}; got actions for {list(actions)}")
        if not self.agents:
            return {}, {}, {}, {}, {}
        rows = [actions[name] if name in actions else self._idle(name) for name in self.possible_agents]
        self._last = last = self._host.step(self._host.join(rows))
        observations, infos = self._told(last)
        rewards = {name: float(self._row(last.reward, name)) for name in self.agents}
        terminations = dict.fromkeys(self.agents, bool(last.terminated))
        truncations = dict.fromkeys(self.agents, bool(last.truncated))
        if last.done:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def _observation_space(self, role: str) -> spaces.Space:
        action, box = self._host.roles[role].action, to_gym(self._host.roles[role].observation)
        if self._mask_in_observation and isinstance(action, Discrete):
            return with_mask(box, (action.num_actions,))
        return box

    def _told(self, last: TimeStep) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Observations and infos of the agents of this episode."""
        metrics = dict(zip(self.possible_agents, self._host.metrics(last), strict=True))
        masks = {role: {"action_mask": rows.astype(np.int8)} for role, rows in last.action_mask.items()}
        observations, infos = {}, {}
        for name in self.agents:
            role, row = self._members[name].role, self._members[name].row
            mask = {key: rows[row] for key, rows in masks.get(role, {}).items()}
            seen = last.observation[role][row]
            observations[name] = {"observation": seen, **mask} if mask and self._mask_in_observation else seen
            infos[name] = {**mask, **metrics[name]}
        return observations, infos

    def _idle(self, agent: str) -> np.ndarray:
        """What is passed on for an agent that is not there; the rules ignore it."""
        space = self._host.roles[self._members[agent].role].action
        return np.zeros(space.shape, space.dtype)

    def _row(self, arrays: Mapping[str, Any], agent: str) -> Any:
        return arrays[self._members[agent].role][self._members[agent].row]

    def _is_valid(self, last: TimeStep, agent: str) -> bool:
        return self._members[agent].role not in last.valid or bool(self._row(last.valid, agent))

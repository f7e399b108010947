"""PettingZoo's `ParallelEnv` over any environment of the suite: the extra `pettingzoo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.adapters.common import check_begun, given_instance, missing_extra, render_metadata
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.io.messages import shown

try:
    import pettingzoo
except ModuleNotFoundError as error:
    raise missing_extra("pettingzoo", error) from None

from gymnasium import spaces

from jaxvrp.adapters.gym_spaces import to_gym, with_mask
from jaxvrp.adapters.host import Host, random_of

Results = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]
"""Observations, rewards, terminations, truncations, infos, each by agent."""


class PettingZooEnv(pettingzoo.ParallelEnv):
    """A `pettingzoo.ParallelEnv` with the agents `truck_0`, `drone_0`, ..., each with its own spaces.

    `infos[agent]` has the metrics of the episode, of those with an entry for each agent its own, and `valid` where void
    agents are kept, else they are not among the `agents` of an episode. All end together.

    Args:
        env: the environment.
        seed: of the episodes, until `reset(seed=...)` gives another; None draws one.
        mask_in_observation: agents with a discrete action see `{"observation": f32[...], "action_mask": i8[actions]}`,
            as in PettingZoo's own environments; else the observation alone, and the mask is in `infos[agent]`. It is
            in one of the two only: clients that find it in both (TorchRL) fail.
        keep_void_agents: agents whose rows are void in an instance (padding) are among `agents` as well, with
            `infos[agent]["valid"]` False and the reward 0: for clients that need all agents from the first reset on.
        render_mode: `"rgb_array"`, and `render()` is the present state as pixels; None draws nothing.

    Attributes:
        possible_agents: names in order; `agents`: those of the present episode, none after its end.
        state_space: of `state()`.

    Raises:
        ValueError: nothing draws the environment, or the seed is negative.
        TypeError: the seed is no whole number.
    """

    def __init__(
        self,
        env: Environment,
        *,
        seed: int | None = None,
        mask_in_observation: bool = True,
        keep_void_agents: bool = False,
        render_mode: str | None = None,
    ):
        self._host = Host(env, render_mode)
        self.metadata = {**render_metadata(env), "name": type(env).__name__, "is_parallelizable": True}
        self.render_mode = render_mode
        self._keep_void_agents = keep_void_agents
        self._members = {member.name: member for member in self._host.members}
        self._random = random_of(seed)
        self._mask_in_observation = mask_in_observation
        self.possible_agents: list[str] = list(self._members)
        self.agents: list[str] = []
        roles = self._host.roles
        self.action_spaces = {m.name: to_gym(roles[m.role].action) for m in self._host.members}
        self.observation_spaces = {m.name: to_gym(roles[m.role].observation) for m in self._host.members}
        if mask_in_observation:
            for name, space in self.action_spaces.items():
                if isinstance(space, spaces.Discrete):
                    self.observation_spaces[name] = with_mask(self.observation_spaces[name], (int(space.n),))
        self.state_space = spaces.Box(-np.inf, np.inf, self._host.global_shape, np.float32)
        self._last: TimeStep | None = None

    def observation_space(self, agent: str) -> spaces.Space:
        """Of one agent, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Of one agent, always the same object."""
        return self.action_spaces[agent]

    def state(self) -> np.ndarray:
        """`f32[G]`, the global observation of the last reset or step."""
        check_begun(self._last, "state")
        assert self._last is not None
        return np.asarray(self._last.global_observation)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """A problem: observations and infos.

        Args:
            seed: of the problems from this one on.
            options: `{"instance": problem}` plays that one, as `Environment.generate` makes it, instead of a fresh one;
                others are not used.
        """
        # PettingZoo's own tests pass options that no environment knows.
        instance = given_instance(self._host.env, options, further=None)
        if seed is not None:
            self._random = random_of(seed)
        self._last = last = self._host.reset(self._random, instance)
        keep = self._keep_void_agents
        self.agents = [name for name in self.possible_agents if keep or self._is_valid(last, name)]
        return self._seen(last)

    def step(self, actions: Mapping[str, Any]) -> Results:
        """Play one step with an action from each of `agents`; with none of them, nothing happens."""
        if not isinstance(actions, Mapping):
            raise TypeError(f"step got {shown(actions)}; it needs a dict with one action for each of {self.agents}")
        if set(actions) != set(self.agents):
            raise ValueError(f"step needs one action for each of {self.agents}; got actions for {list(actions)}")
        if not self.agents:
            return {}, {}, {}, {}, {}
        # The rules ignore the actions of agents that are not there.
        idle = {name: np.zeros(space.shape or (), space.dtype) for name, space in self.action_spaces.items()}
        self._last = last = self._host.step(self._host.join({**idle, **actions}.values()))
        observations, infos = self._seen(last)
        paid = {name: float(self._row(last.reward, name)) for name in self.agents}
        rewards = {name: reward if self._is_valid(last, name) else 0.0 for name, reward in paid.items()}
        terminations = dict.fromkeys(self.agents, bool(last.terminated))
        truncations = dict.fromkeys(self.agents, bool(last.truncated))
        if last.done:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def render(self) -> np.ndarray | None:
        """`u8[height, width, 3]`, the present state; None without a `render_mode`."""
        return self._host.render()

    def close(self) -> None:
        """Nothing is held."""

    def _seen(self, last: TimeStep) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Observations and infos of the agents of this episode."""
        metrics = dict(zip(self.possible_agents, self._host.metrics(last), strict=True))
        masks = {role: {"action_mask": rows.astype(np.int8)} for role, rows in last.action_mask.items()}
        observations, infos = {}, {}
        for name in self.agents:
            role, row = self._members[name].role, self._members[name].row
            mask = {key: rows[row] for key, rows in masks.get(role, {}).items()}
            is_seen = bool(mask) and self._mask_in_observation
            seen = last.observation[role][row]
            observations[name] = {"observation": seen, **mask} if is_seen else seen
            infos[name] = metrics[name] if is_seen else {**mask, **metrics[name]}
            if self._keep_void_agents:
                infos[name] = {**infos[name], "valid": self._is_valid(last, name)}
        return observations, infos

    def _row(self, arrays: Mapping[str, Any], agent: str) -> Any:
        return arrays[self._members[agent].role][self._members[agent].row]

    def _is_valid(self, last: TimeStep, agent: str) -> bool:
        return self._members[agent].role not in last.valid or bool(self._row(last.valid, agent))


to_pettingzoo = PettingZooEnv

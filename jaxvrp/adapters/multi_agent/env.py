"""One environment behind the list API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.adapters.gym_spaces import length, pad, padded_actions, padded_spaces, spaces, to_gym
from jaxvrp.adapters.host import Host
from jaxvrp.adapters.multi_agent.actions import elements
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.registry import make

CLASSICAL_NAMES = {"scenario_name": "scenario", "episode_length": "max_steps"}
"""How codes of this kind call parameters of the environment."""

OWN_ARGUMENTS = ("seed", "pad_observations", "pad_actions", "concatenate_share_obs")
"""Those of `VRPEnv` itself."""

COUNTS = ("customers_served", "total_customers")
"""Metrics that are whole numbers in `info`."""


class VRPEnv:
    """Agents in a list, truck first: `truck_0`, `drone_0`, ...

    `info_n[i]` has `available_actions` (`f32[actions]` of 0 and 1, agents with a discrete action), `share_obs`
    (`f32[G]`), `policy_id` (0 truck, 1 drone), `time_step`, all metrics of the episode (`customers_served`,
    `total_customers`, ...), `bad_transition` (the episode was cut short: its value is to be bootstrapped), and `valid`
    (agents whose rows can be void), `individual_reward` (its own, of the last step).

    Args:
        args: a namespace, of which the parameters of the environment are read and whatever else it has is left alone
            (learners keep theirs in the same one), or a mapping, which must have nothing else. `scenario` (or
            `scenario_name`), `max_steps` (or `episode_length`), any field of the scenario, `seed`, and the three below.
        env: an environment of any kind to play instead of the one that `args` describes.
        pad_observations: append zeros, so that observations of all agents have one size.
        pad_actions: append actions that are never available, so that discrete actions of all agents are as many: what a
            policy that all share needs. Such an action is counted as forbidden.
        concatenate_share_obs: `share_obs` is the observations of all agents one after the other, padded, as learners
            without another global state make it (`n * obs_dim` numbers); else the global observation.

    Attributes:
        n: number of agents.
        agents: their names.
        action_space, observation_space, share_observation_space: lists with one entry per agent.
        infos: as `info_n` of the last step; those of the beginning after a reset.

    Raises:
        ValueError, TypeError: as `jaxvrp.make`.
    """

    def __init__(
        self,
        args: Any = None,
        *,
        env: Environment | None = None,
        pad_observations: bool = False,
        pad_actions: bool = False,
        concatenate_share_obs: bool = False,
    ):
        args = {} if args is None else args
        self._host = Host(_make(args) if env is None else env)
        members, roles = self._host.members, self._host.roles
        self._rows = [(member.role, member.row) for member in members]
        self._policy = [list(roles).index(member.role) for member in members]
        self.agents = [member.name for member in members]
        self.n = len(members)
        self.action_space: list[spaces.Space] = [to_gym(roles[member.role].action) for member in members]
        self.observation_space: list[spaces.Space] = [to_gym(roles[m.role].observation) for m in members]
        if pad_actions or _read(args, "pad_actions"):
            self.action_space = padded_actions(self.action_space)
        self._size = 0
        if pad_observations or _read(args, "pad_observations"):
            self.observation_space = padded_spaces(self.observation_space)
            self._size = length(self.observation_space[0])
        self._concatenates = bool(concatenate_share_obs or _read(args, "concatenate_share_obs"))
        self._longest = length(padded_spaces(self.observation_space)[0])
        shape = (self.n * self._longest,) if self._concatenates else self._host.global_shape
        share = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.share_observation_space = [share] * self.n
        self.infos: list[dict[str, Any]] = []
        self._time, self._done = 0, False
        self.seed(_read(args, "seed"))

    def seed(self, seed: int | None = None) -> None:
        """Of the problems from the next reset on; None draws one."""
        self._random = np.random.default_rng(seed)

    def reset(self) -> list[np.ndarray]:
        """A fresh problem: the observations."""
        self._time, self._done = 0, False
        return self._told(self._host.reset(self._random))

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[list[np.ndarray], list[list[float]], list[bool], list[dict[str, Any]]]:
        """Play one step: `obs_n`, `reward_n` as `[[r], ...]`, `done_n`, `info_n`.

        Args:
            actions: for each agent an index, a one-hot row, or the vector of a continuous action. An index that is
                forbidden or outside of the space is counted in the metric `invalid_actions`.

        Raises:
            RuntimeError: there was no `reset`.
            ValueError: too many or too few actions, or one that is none of these.
        """
        rows = elements(self.agents, self.action_space, actions)
        timestep = self._host.step(self._host.join(rows))
        self._time, self._done = self._time + (not self._done), bool(timestep.done)
        observations = self._told(timestep)
        rewards = [[float(timestep.reward[role][row])] for role, row in self._rows]
        return observations, rewards, [self._done] * self.n, self.infos

    def close(self) -> None:
        """Nothing is held."""

    def _told(self, timestep: TimeStep) -> list[np.ndarray]:
        """The observations; keeps the infos."""
        shared: dict[str, Any] = {
            "time_step": self._time,
            "share_obs": self._shared(timestep),
            "bad_transition": bool(timestep.truncated),
        }
        masks = {role: rows.astype(np.float32) for role, rows in timestep.action_mask.items()}
        told = zip(self._host.metrics(timestep), self._policy, strict=True)
        self.infos = [{**metrics, **shared, "policy_id": policy} for metrics, policy in told]
        for info, (role, row), space in zip(self.infos, self._rows, self.action_space, strict=True):
            info.update((name, int(info[name])) for name in COUNTS if name in info)
            info["individual_reward"] = float(timestep.reward[role][row])
            if role in masks:
                info["available_actions"] = pad([masks[role][row]], int(space.n))[0]  # type: ignore[attr-defined]
            if role in timestep.valid:
                info["valid"] = bool(timestep.valid[role][row])
        seen = self._seen(timestep)
        return [*pad(seen, self._size)] if self._size else seen

    def _seen(self, timestep: TimeStep) -> list[Any]:
        """Of each agent, not padded."""
        return [timestep.observation[role][row] for role, row in self._rows]

    def _shared(self, timestep: TimeStep) -> Any:
        """`f32[G]`, or all observations one after the other."""
        return pad(self._seen(timestep), self._longest).ravel() if self._concatenates else timestep.global_observation


def _read(args: Any, name: str) -> Any:
    """An entry or attribute, None if there is none."""
    return args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)


def _make(args: Any) -> Environment:
    if isinstance(args, Mapping):
        own = {CLASSICAL_NAMES.get(str(name), str(name)): args[name] for name in args if name not in OWN_ARGUMENTS}
        return make("truck_drone", **own)
    scenario = _read(args, "scenario") or _read(args, "scenario_name") or "truck_drone_basic"
    known = make("truck_drone", scenario=scenario).parameters
    classical = {new: _read(args, old) for old, new in CLASSICAL_NAMES.items() if new in known}
    given = classical | {name: value for name in known if (value := _read(args, name)) is not None}
    return make("truck_drone", scenario=scenario, **{name: value for name, value in given.items() if value is not None})

"""One environment behind the list API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.actions import are_integers, as_array
from jaxvrp.adapters.gym_spaces import longest, pad, spaces, to_gym
from jaxvrp.adapters.host import Host, random_of
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.io.messages import shown
from jaxvrp.registry import make

CLASSICAL_NAMES = {"scenario_name": "scenario", "episode_length": "max_steps"}
"""How codes of this kind call parameters of the environment."""

WRAPPER_KEYS = ("seed", "pad_observations", "pad_actions", "concatenate_share_obs")
"""Those of `VRPEnv` itself."""

COUNTS = ("customers_served", "total_customers")
"""Metrics that are whole numbers in `info`."""

NEAR_ONE_HOT = 1e-4
"""How far the numbers of a one-hot row may lie from 0 and 1: learners make such rows as differences of floats."""


class VRPEnv:
    """Agents in a list, truck first: `truck_0`, `drone_0`, ...

    `info_n[i]` has `available_actions` (`f32[actions]` of 0 and 1, agents with a discrete action), `share_obs`
    (`f32[G]`), `policy_id` (0 truck, 1 drone), `time_step` (of the simulation: a decision may take several), all
    metrics of the episode (`customers_served`, `total_customers`, ...), `bad_transition` (the episode was cut short:
    its value is to be bootstrapped), and `valid` (agents whose rows can be void), `individual_reward` (its own, of the
    last step).

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
        ValueError, TypeError: as `jaxvrp.make`; `args` is neither, or gives a parameter by both of its names.
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
        args = _options(args)
        self._host = Host(_make(args) if env is None else env)
        members, roles = self._host.members, self._host.roles
        self.agents, self.n = [member.name for member in members], len(members)
        self.action_space: list[spaces.Space] = [to_gym(roles[member.role].action) for member in members]
        self.observation_space: list[spaces.Space] = [to_gym(roles[m.role].observation) for m in members]
        if pad_actions or _read(args, "pad_actions"):
            number = max((int(each.n) for each in self.action_space if isinstance(each, spaces.Discrete)), default=0)
            widest: spaces.Space = spaces.Discrete(number)
            self.action_space = [widest if isinstance(each, spaces.Discrete) else each for each in self.action_space]
        self._longest = longest(self.observation_space)
        self._pads_observations = bool(pad_observations or _read(args, "pad_observations"))
        if self._pads_observations:
            self.observation_space = [spaces.Box(-np.inf, np.inf, (self._longest,), np.float32)] * self.n
        self._concatenates = bool(concatenate_share_obs or _read(args, "concatenate_share_obs"))
        shape = (self.n * self._longest,) if self._concatenates else self._host.global_shape
        self.share_observation_space = [spaces.Box(-np.inf, np.inf, shape, np.float32)] * self.n
        self.infos: list[dict[str, Any]] = []
        self._time = 0.0
        self.seed(_read(args, "seed"))

    def seed(self, seed: int | None = None) -> None:
        """Of the problems from the next reset on; None draws one."""
        self._random = random_of(seed)

    def reset(self) -> list[np.ndarray]:
        """A fresh problem: the observations."""
        self._time = 0.0
        return self._observed(self._host.reset(self._random))

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[list[np.ndarray], list[list[float]], list[bool], list[dict[str, Any]]]:
        """Play one step: `obs_n`, `reward_n` as `[[r], ...]`, `done_n`, `info_n`.

        Args:
            actions: for each agent an index, a one-hot row, or the vector of a continuous action. An index that is
                forbidden or outside of the space is counted in the metric `invalid_actions`.
        """
        rows = elements(self.agents, self.action_space, actions)
        timestep = self._host.step(self._host.join(rows))
        self._time += float(timestep.duration)
        observations, done = self._observed(timestep), bool(timestep.done)
        return observations, [[info["individual_reward"]] for info in self.infos], [done] * self.n, self.infos

    def close(self) -> None:
        """Nothing is held."""

    def _observed(self, timestep: TimeStep) -> list[np.ndarray]:
        """The observations; keeps the infos."""
        members, roles = self._host.members, list(self._host.roles)
        seen: list[Any] = [timestep.observation[role][row] for _, role, row in members]
        padded = pad(seen, self._longest)
        shared = {
            "time_step": int(self._time),
            "share_obs": padded.ravel() if self._concatenates else timestep.global_observation,
            "bad_transition": bool(timestep.truncated),
        }
        self.infos = []
        for (_, role, row), metrics, space in zip(
            members, self._host.metrics(timestep), self.action_space, strict=True
        ):
            info = {**metrics, **shared, "policy_id": roles.index(role)}
            info |= {name: int(info[name]) for name in COUNTS if name in info}
            info["individual_reward"] = float(timestep.reward[role][row])
            if role in timestep.action_mask:
                info["available_actions"] = pad([timestep.action_mask[role][row]], int(space.n))[0]  # type: ignore[attr-defined]
            if role in timestep.valid:
                info["valid"] = bool(timestep.valid[role][row])
            self.infos.append(info)
        return [*padded] if self._pads_observations else seen


def _read(args: Any, name: str) -> Any:
    """An entry or attribute, None if there is none."""
    return args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)


def _options(args: Any) -> Any:
    """`args` as a namespace or mapping; refuses what would be read as an empty one."""
    if isinstance(args, Environment | str | int | float | list):
        raise TypeError(
            f"args is {shown(args)}; it must be a namespace or a mapping, such as {{'scenario': 'truck_drone_basic'}}, "
            "and an environment is given as env=..."
        )
    for old, new in CLASSICAL_NAMES.items():
        if isinstance(args, Mapping) and old in args and new in args:
            raise ValueError(f"{old} and {new} are names of the same parameter; leave one of them out")
    return {} if args is None else args


def _make(args: Any) -> Environment:
    if isinstance(args, Mapping):
        named = {CLASSICAL_NAMES.get(str(name), str(name)): args[name] for name in args if name not in WRAPPER_KEYS}
        return make("truck_drone", **named)
    scenario = _read(args, "scenario") or _read(args, "scenario_name") or "truck_drone_basic"
    known = make("truck_drone", scenario=scenario).parameters
    given = {new: _read(args, old) for old, new in CLASSICAL_NAMES.items() if new in known}
    given |= {name: value for name in known if (value := _read(args, name)) is not None}
    return make("truck_drone", scenario=scenario, **{name: value for name, value in given.items() if value is not None})


def elements(agents: Sequence[str], action_spaces: Sequence[spaces.Space], actions: Any) -> list[np.ndarray]:
    """For each agent an element of its space, or an index outside of it, which the environment counts.

    Args:
        agents: names for messages.
        action_spaces: of the agents.
        actions: for each agent an index, a one-hot row, or the vector of a continuous action.

    Raises:
        ValueError: too many or too few actions, or one that is none of these.
    """
    if not hasattr(actions, "__len__") or len(actions) != len(agents):
        given = f"{len(actions)} actions" if hasattr(actions, "__len__") else shown(actions)
        raise ValueError(f"step got {given}; it needs {len(agents)}, one for each of {list(agents)}")
    return [_element(*each) for each in zip(agents, action_spaces, actions, strict=True)]


def _element(agent: str, space: spaces.Space, action: Any) -> np.ndarray:
    subject = f"action of {agent}"
    array = np.asarray(as_array(subject, action))
    if isinstance(space, spaces.Discrete):
        return _index(subject, int(space.n), action, array)
    assert space.shape is not None, f"{space} has no vectors"
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{subject} is {shown(action)}; it needs numbers of shape {space.shape}")
    if array.size != math.prod(space.shape):
        raise ValueError(f"{subject} has shape {array.shape}; it needs {space.shape}")
    with np.errstate(over="ignore"):  # beyond float32 is inf, which the environment counts
        return array.reshape(space.shape).astype(np.float32)


def _index(subject: str, number: int, action: Any, array: np.ndarray) -> np.ndarray:
    is_whole = array.size == 1 and array.dtype.kind == "f" and float(array.item()).is_integer()
    if is_whole or (array.size == 1 and are_integers(array)):
        return np.asarray(int(array.item()))
    if array.size == max(array.shape, default=0) == number and array.dtype.kind in "biuf":
        chosen = array.argmax()
        if np.allclose(array.ravel(), np.arange(number) == chosen, rtol=0.0, atol=NEAR_ONE_HOT):
            return np.asarray(chosen)
    raise ValueError(f"{subject} is {shown(action)}; it needs an index below {number}, or a one-hot row of {number}")

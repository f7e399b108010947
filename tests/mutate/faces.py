"""The ways to step an environment, each with its rule of what an action is, told from the Python value alone."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp import Environment, VecEnv
from jaxvrp.adapters.gymnasium import to_gymnasium, to_gymnasium_vector
from jaxvrp.adapters.multi_agent import VRPEnv
from jaxvrp.adapters.pettingzoo import to_pettingzoo
from jaxvrp.spaces import Discrete, Space, agent_names

REFUSED = "refused"

Judged = str | int
"""`REFUSED`, or how many of the actions are to be counted."""


def judge_array(value: Any, space: Space, shape: tuple[int, ...], mask: np.ndarray | None) -> Judged:
    """An array of actions `[*shape]`, a row of `mask` for each (all true: may do anything); by its Python values."""
    array = _array(value)
    if array is None:
        return REFUSED
    entries = array.ravel().tolist()
    if isinstance(space, Discrete):
        is_whole = array.dtype.kind in "iu" or (array.dtype == object and all(type(entry) is int for entry in entries))
        if not is_whole or not entries or array.shape != shape:
            return REFUSED
        rows = np.ones((len(entries), space.num_actions), bool) if mask is None else mask.reshape(len(entries), -1)
        return sum(
            not (0 <= entry < space.num_actions and row[entry]) for entry, row in zip(entries, rows, strict=True)
        )
    if array.dtype.kind != "f" or array.shape != shape:
        return REFUSED
    vectors = array.astype(np.float64).reshape(-1, int(np.prod(space.shape)))
    return int((~((vectors >= space.low) & (vectors <= space.high)).all(axis=1)).sum())


class Face(abc.ABC):
    """An environment, stepped in one way.

    Attributes:
        env: the environment.
        names: of what is passed one by one: the agents, or the roles.
    """

    names: list[str]

    def __init__(self, env: Environment):
        self.env = env

    @abc.abstractmethod
    def begin(self, seed: int) -> None:
        """A fresh episode."""

    @abc.abstractmethod
    def legal(self) -> dict[str, Any]:
        """A legal action for each of those that are there, by name."""

    @abc.abstractmethod
    def size(self, name: str) -> tuple[Space, tuple[int, ...]]:
        """The space of an agent's action, and the shape of what is passed for a name."""

    @abc.abstractmethod
    def judge(self, name: str, value: Any) -> Judged:
        """What is to become of `value`, passed for a name."""

    @abc.abstractmethod
    def play(self, values: Mapping[str, Any]) -> float:
        """Step, and say how many actions were counted."""

    def named(self, name: str) -> str:
        """What a refusal must hold, so that it is clear whose action it is about."""
        return name


class Roles(Face):
    """`env.step`, called plainly: arrays by role."""

    def __init__(self, env: Environment):
        super().__init__(env)
        self.names = list(env.roles)
        self._reset = jax.jit(env.reset)

    def begin(self, seed: int) -> None:
        self.state, self.timestep = self._reset(jax.random.key(seed))

    def legal(self) -> dict[str, Any]:
        return {name: _legal_rows(role.action, *self._rows(name)) for name, role in self.env.roles.items()}

    def _rows(self, name: str) -> tuple[tuple[int, ...], np.ndarray | None]:
        mask = self.timestep.action_mask.get(name)
        return (self.env.roles[name].num_agents,), None if mask is None else np.asarray(mask)

    def size(self, name: str) -> tuple[Space, tuple[int, ...]]:
        space = self.env.roles[name].action
        return space, (*self._rows(name)[0], *space.shape)

    def judge(self, name: str, value: Any) -> Judged:
        space, shape = self.size(name)
        judged = judge_array(value, space, shape, self._rows(name)[1])
        valid = self.timestep.valid.get(name)
        if judged == REFUSED or valid is None:
            return judged
        rows, mask = np.asarray(value).reshape(-1, *space.shape), self._rows(name)[1]
        each = [
            judge_array(row, space, space.shape, None if mask is None else mask.reshape(len(rows), -1)[number])
            for number, row in enumerate(rows)
        ]
        return sum(int(count) for count, there in zip(each, np.asarray(valid).ravel(), strict=True) if there)

    def play(self, values: Mapping[str, Any]) -> float:
        _, timestep = self.env.step(self.state, dict(values))
        return float(timestep.metrics["invalid_actions"])


class Compiled(Roles):
    """`jax.jit(env.step)`, with arrays of at most 32 bits: JAX casts wider ones before anybody sees them."""

    def __init__(self, env: Environment):
        super().__init__(env)
        self._step = jax.jit(lambda state, action: env.step(state, action)[1].metrics["invalid_actions"])

    def play(self, values: Mapping[str, Any]) -> float:
        return float(self._step(self.state, dict(values)))


class Batch(Roles):
    """`VecEnv.step`, called plainly."""

    def __init__(self, env: Environment, num_envs: int = 2):
        super().__init__(env)
        self._vec = VecEnv(env, num_envs)
        self._reset = jax.jit(self._vec.reset)

    def _rows(self, name: str) -> tuple[tuple[int, ...], np.ndarray | None]:
        agents, mask = super()._rows(name)
        return (self._vec.num_envs, *agents), mask

    def play(self, values: Mapping[str, Any]) -> float:
        _, timestep = self._vec.step(self.state, dict(values))
        return float(timestep.metrics["invalid_actions"].sum())


class Agents(Face):
    """An adapter: an action for each agent, by name."""

    def __init__(self, env: Environment):
        super().__init__(env)
        members = {
            name: (role, row) for role, names in agent_names(env.roles).items() for row, name in enumerate(names)
        }
        self.members, self.names = members, list(members)

    def size(self, name: str) -> tuple[Space, tuple[int, ...]]:
        space = self.env.roles[self.members[name][0]].action
        return space, space.shape

    def judge(self, name: str, value: Any) -> Judged:
        space, shape = self.size(name)
        return judge_array(value, space, shape, self.mask(name)) if self.is_there(name) else 0

    @abc.abstractmethod
    def mask(self, name: str) -> np.ndarray | None:
        """`bool[actions]` of an agent."""

    def is_there(self, name: str) -> bool:
        """Whether the agent's row is not void."""
        del name
        return True

    def legal(self) -> dict[str, Any]:
        return {name: _legal_rows(self.size(name)[0], (), self.mask(name)) for name in self.names}


class PettingZoo(Agents):
    """`to_pettingzoo`."""

    def begin(self, seed: int) -> None:
        self._face = to_pettingzoo(self.env, mask_in_observation=False)
        _, self._infos = self._face.reset(seed=seed)
        self.names = list(self._face.agents)

    def mask(self, name: str) -> np.ndarray | None:
        return self._infos[name].get("action_mask")

    def play(self, values: Mapping[str, Any]) -> float:
        return next(iter(self._face.step(dict(values))[4].values()))["invalid_actions"]


class JaxMarl(Agents):
    """`to_jaxmarl`."""

    def __init__(self, env: Environment):
        # JaxMARL takes seconds to import: the tests of this module do without.
        from jaxvrp.adapters.jaxmarl import to_jaxmarl

        super().__init__(env)
        self._face = to_jaxmarl(env)

    def begin(self, seed: int) -> None:
        _, self._state = self._face.reset(jax.random.key(seed))
        self._masks, self._valid = self._face.get_avail_actions(self._state), self.env.valid(self._state)

    def mask(self, name: str) -> np.ndarray | None:
        return np.asarray(self._masks[name]) if name in self._masks else None

    def is_there(self, name: str) -> bool:
        role, row = self.members[name]
        return role not in self._valid or bool(self._valid[role][row])

    def judge(self, name: str, value: Any) -> Judged:
        space, shape = self.size(name)
        array = _array(value)
        if array is None:
            return REFUSED
        # An index may come as `[1]`.
        fits = array.size == int(np.prod(shape))
        judged = judge_array(array.reshape(shape) if fits else array, space, shape, self.mask(name))
        return judged if judged == REFUSED or self.is_there(name) else 0

    def play(self, values: Mapping[str, Any]) -> float:
        _, _, _, _, infos = self._face.step(jax.random.key(0), self._state, dict(values))
        return float(infos["invalid_actions"][0])


class ListApi(Agents):
    """`VRPEnv`."""

    def __init__(self, env: Environment):
        super().__init__(env)
        self._face = VRPEnv(env=env)

    def begin(self, seed: int) -> None:
        self._face.seed(seed)
        self._face.reset()

    def _info(self, name: str) -> dict[str, Any]:
        return self._face.infos[self._face.agents.index(name)]

    def mask(self, name: str) -> np.ndarray | None:
        mask = self._info(name).get("available_actions")
        return None if mask is None else mask.astype(bool)

    def is_there(self, name: str) -> bool:
        return self._info(name).get("valid", True)

    def judge(self, name: str, value: Any) -> Judged:
        space, shape = self.size(name)
        array = _array(value)
        if array is None:
            return REFUSED
        if isinstance(space, Discrete):
            index = _index_in_words(array, space.num_actions)
            judged = REFUSED if index is None else judge_array(index, space, (), self.mask(name))
        else:
            fits = array.dtype.kind in "iuf" and array.size == int(np.prod(shape))
            judged = judge_array(array.astype(np.float64).reshape(shape), space, shape, None) if fits else REFUSED
        return judged if judged == REFUSED or self.is_there(name) else 0

    def play(self, values: Mapping[str, Any]) -> float:
        return self._face.step([values[name] for name in self.names])[3][0]["invalid_actions"]


def _array(value: Any) -> np.ndarray | None:
    """What NumPy makes of it; None if it makes no array of it."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        return None


def _index_in_words(array: np.ndarray, number: int) -> int | None:
    """The index that a whole number, alone or in brackets, or a row of zeros with one 1 stands for."""
    entries = array.ravel().tolist()
    if len(entries) == 1 and type(entries[0]) is int:
        return entries[0]
    if len(entries) == 1 and type(entries[0]) is float and entries[0] == entries[0] // 1:
        return int(entries[0])
    is_row = array.dtype.kind in "biuf" and max(array.shape, default=0) == len(entries) == number
    return entries.index(1) if is_row and sorted(entries) == [0] * (number - 1) + [1] else None


class Gymnasium(Face):
    """`to_gymnasium`: the one role, in one piece."""

    def __init__(self, env: Environment):
        super().__init__(env)
        ((self._role, role),) = env.roles.items()
        self._alone = role.num_agents == 1
        self.names = [self._role]
        self._face: Any = to_gymnasium(env)

    def begin(self, seed: int) -> None:
        _, self._info = self._face.reset(seed=seed)

    def size(self, name: str) -> tuple[Space, tuple[int, ...]]:
        role = self.env.roles[name]
        return role.action, (*(() if self._alone else (role.num_agents,)), *role.action.shape)

    def _mask(self) -> np.ndarray | None:
        return self._info.get("action_mask")

    def legal(self) -> dict[str, Any]:
        role = self.env.roles[self._role]
        return {self._role: _legal_rows(role.action, () if self._alone else (role.num_agents,), self._mask())}

    def judge(self, name: str, value: Any) -> Judged:
        space, shape = self.size(name)
        judged = judge_array(value, space, shape, self._mask())
        if judged == REFUSED or "valid" not in self._info:
            return judged
        rows = np.asarray(value).reshape(-1, *space.shape)
        there = zip(rows, np.ravel(self._info["valid"]), strict=True)
        return sum(int(judge_array(row, space, space.shape, None)) for row, valid in there if valid)

    def play(self, values: Mapping[str, Any]) -> float:
        return self._face.step(values[self._role])[4]["invalid_actions"]


class GymnasiumBatch(Gymnasium):
    """`to_gymnasium_vector`."""

    def __init__(self, env: Environment, num_envs: int = 2):
        super().__init__(env)
        self._face, self._num_envs = to_gymnasium_vector(env, num_envs), num_envs

    def size(self, name: str) -> tuple[Space, tuple[int, ...]]:
        space, shape = super().size(name)
        return space, (self._num_envs, *shape)

    def legal(self) -> dict[str, Any]:
        space, shape = self.size(self._role)
        return {self._role: _legal_rows(space, shape[: len(shape) - len(space.shape)], self._mask())}

    def play(self, values: Mapping[str, Any]) -> float:
        return float(self._face.step(values[self._role])[4]["invalid_actions"].sum())


def _legal_rows(space: Space, batch: tuple[int, ...], mask: np.ndarray | None) -> Any:
    """Legal actions `[*batch, ...]`: the first index that is allowed, or the middle of the box."""
    if isinstance(space, Discrete):
        allowed = np.ones((*batch, space.num_actions)) if mask is None else np.asarray(mask)
        return allowed.argmax(axis=-1).astype(np.int32)
    return np.full((*batch, *space.shape), (space.low + space.high) / 2, np.float32)

"""Actions that nobody should pass, on every face: refused by the agent's name, or played and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import jaxvrp
from jaxvrp.spaces import Box, Discrete, Space
from tests.mutate.faces import (
    REFUSED,
    Batch,
    Compiled,
    Face,
    Gymnasium,
    GymnasiumBatch,
    JaxMarl,
    ListApi,
    PettingZoo,
    Roles,
)
from tests.mutate.mutators import odd_value, pick
from tests.mutate.trial import Case, Finding, Subject, Tally
from tests.mutate.verdict import call
from tests.toy_environments import Errands, LineWalk

NARROW = ("i1", "u1", "i2", "u2", "i4", "u4", "?", "f2", "f4", "c8")
WIDE = (*NARROW, "i8", "u8", "f8", "O")

LARGE = (0, 1, 2, 3, 7, -1, -2, 99, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**32 + 1, -(2**32), 2**40, 2**63, 10**30)
"""Whole numbers where an index belongs; some wrap around into legal ones."""

REAL = (0.0, 0.5, 1.0, -1.0, 2.0, 1e30, 1e39, 1e300, np.nan, np.inf, -np.inf, 1e-45)


class Actions(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        truck = jaxvrp.make("truck_drone", num_drones=1, num_customers=2, num_route_nodes=3, max_steps=12)
        dial = jaxvrp.make("darp", num_nodes=4, num_agents=2)
        sizes: dict[str, Any] = {"num_boards": 1, "min_parts": 2, "max_parts": 2, "rays": 4}
        board = jaxvrp.make("pcb", max_steps=1, mode="simultaneous", **sizes)
        errands, line_walk = Errands(), LineWalk(remembers=False)
        self._faces: list[Face] = [
            *(kind(env) for env in (errands, line_walk) for kind in (Roles, Compiled, Batch)),
            *(kind(env) for env in (errands, line_walk, truck) for kind in (PettingZoo, JaxMarl, ListApi)),
            *(Gymnasium(env) for env in (line_walk, dial)),
            GymnasiumBatch(board),
        ]

    def attempt(self, case: Case) -> Tally:
        """One step with an odd action among legal ones."""
        random = case.random()
        face = pick(random, self._faces)
        face.begin(int(random.integers(2**31)))
        values = face.legal()
        name = pick(random, list(values))
        values[name] = _odd_action(face, name, values[name], random)
        expected = face.judge(name, values[name])
        tried = f"{type(face).__name__} of {type(face.env).__name__}, {name} = {values[name]!r:.500}, to be {expected}"
        try:
            outcome = call(face.play, values)
            _compare(outcome.refusal, outcome.value, expected, face.named(name))
        except Finding as finding:
            raise Finding(f"{type(face).__name__}: {finding.kind}", f"{tried}\n{finding.details}") from finding
        return Tally(steps=int(expected != REFUSED))


def _compare(refusal: str | None, counted: float | None, expected: str | int, name: str) -> None:
    if expected == REFUSED and refusal is None:
        raise Finding("an action that is none is played", f"counted: {counted}")
    if expected != REFUSED and refusal is not None:
        raise Finding("an action is refused that is to be played or counted", refusal)
    if refusal is not None and name not in refusal:
        raise Finding("a refusal does not say whose action it is about", refusal)
    if refusal is None and counted != expected:
        raise Finding("illegal actions are not counted once each", f"counted: {counted}")


def _odd_action(face: Face, name: str, legal: Any, random: np.random.Generator) -> Any:
    """Something odd to be passed for a name: any value, an array of any dtype, one-hot rows, rows of another shape."""
    space, shape = face.size(name)
    how = random.random()
    if how < 0.25 and not isinstance(face, Compiled):
        return odd_value(random)
    if how < 0.4 and isinstance(space, Discrete) and not isinstance(face, Compiled):
        return _row(space, random)
    if how < 0.5:
        return np.concatenate([np.atleast_1d(legal)] * 2)[: int(random.integers(0, 4))]
    return _array(space, shape, NARROW if isinstance(face, Compiled) else WIDE, random)


def _array(space: Space, shape: tuple[int, ...], dtypes: tuple[str, ...], random: np.random.Generator) -> Any:
    """An array of `shape` with extreme values, of any dtype; a plain number or list now and then."""
    extremes: Any = LARGE if isinstance(space, Discrete) else REAL
    count = int(np.prod(shape))
    values = [pick(random, extremes) for _ in range(count)]
    if random.random() < 0.2 and dtypes == WIDE:
        return values[0] if shape == () else np.reshape(np.array(values, object), shape).tolist()
    dtype = np.dtype(pick(random, dtypes))
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            values = [int(np.clip(np.nan_to_num(float(value)), info.min // 2, info.max // 2)) for value in values]
        return np.reshape(np.array(values, object).astype(dtype), shape)


def _row(space: Box | Discrete, random: np.random.Generator) -> Any:
    """A one-hot row, or what is nearly one: zeros, two ones, NaN, a two."""
    assert isinstance(space, Discrete)
    row = np.zeros(space.num_actions, pick(random, (np.float32, np.int64, bool)))
    row[int(random.integers(row.size))] = random.random() < 0.9
    how = random.random()
    if how < 0.2:
        row[int(random.integers(row.size))] = 1
    elif how < 0.5 and row.dtype == np.float32:
        row[int(random.integers(row.size))] = pick(random, (np.nan, np.inf, 0.5, -1.0, 2.0))
    return row.tolist() if random.random() < 0.3 else row

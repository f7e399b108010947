"""The environments that the throughput benchmark knows, each with its NumPy reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np

import jaxvrp
from benchmarks.measure import Size
from benchmarks.reference.darp import NumpyDarp
from benchmarks.reference.pcb import NumpyPCB
from benchmarks.reference.truck_drone import NumpyTruckDrone
from jaxvrp import Environment


class Reference(Protocol):
    """One environment in NumPy under masked random play; every observation is computed."""

    def step(self) -> tuple[float, bool]:
        """One random step and, at its end, a reset: reward, and whether the episode ended."""
        ...


@dataclasses.dataclass(frozen=True)
class Subject:
    """An environment to measure.

    Attributes:
        labels: what the numbers of a size are.
        sizes: measured by default.
        make: the environment of a size.
        reference: its NumPy reference.
        target: (size, batch, least ratio) that the project has set itself; None for none.
        reference_steps: steps of the reference between two looks at the clock.
    """

    labels: str
    sizes: tuple[Size, ...]
    make: Callable[[Size], Environment]
    reference: Callable[[Size], Reference]
    target: tuple[Size, int, int] | None = None
    reference_steps: int = 500


class RandomTruckDrone:
    """See `Reference`."""

    def __init__(self, size: Size):
        self.env, self._rng = NumpyTruckDrone(*size), np.random.default_rng(0)
        self.env.reset(self._rng)

    def step(self) -> tuple[float, bool]:
        """See `Reference`."""
        mask = self.env.action_mask()
        reward, done = self.env.step(choose(self._rng, mask["truck"])[0], choose(self._rng, mask["drone"]))
        if done:
            self.env.reset(self._rng)
        self.env.observation(), self.env.global_observation(), self.env.action_mask()
        return reward, done


class RandomDarp:
    """See `Reference`."""

    def __init__(self, size: Size):
        self.env, self._rng = NumpyDarp(*size), np.random.default_rng(0)
        self.env.reset(self._rng)

    def step(self) -> tuple[float, bool]:
        """See `Reference`; the global observation is the vehicle's."""
        reward, done = self.env.step(int(choose(self._rng, self.env.action_mask()[None])[0]))
        if done:
            self.env.reset(self._rng)
        self.env.observation(), self.env.action_mask()
        return reward, done


class RandomPcb:
    """See `Reference`; one of the boards of the JAX side, drawn anew for every episode."""

    def __init__(self, size: Size):
        env: Any = _pcb(size)
        self._rng = np.random.default_rng(0)
        self._boards, self._mode, self._rays = jax.device_get(env.boards), env.mode, env.rays
        self._agents = env.sizes.agents
        self._begin()

    def _begin(self) -> None:
        row = self._rng.integers(len(self._boards.exists))
        board = jax.tree.map(lambda leaf: leaf[row], self._boards)
        self.env = NumpyPCB(board, num_agents=self._agents, mode=self._mode, rays=self._rays)
        places = self._rng.uniform(0.05, 0.95, board.position.shape) * board.outline
        movable = board.movable
        self.env.reset(
            np.where(movable[:, None], places, board.position),
            np.where(movable, self._rng.integers(4, size=movable.size), board.orientation),
        )

    def step(self) -> tuple[float, bool]:
        """See `Reference`."""
        actions = self._rng.uniform(-1, 1, (self._agents, 3))
        reward = self.env.step(actions, self._rng.permutation(self._agents)).reward.sum()
        done = self.env.done
        if done:
            self._begin()
        self.env.observation()
        return float(reward), done


def choose(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """Uniform over the legal actions, `i64[agents]`; of several ways the fastest here."""
    return np.argmax(mask * rng.random(mask.shape), axis=1)


def _truck_drone(size: Size) -> Environment:
    drones, customers, nodes = size
    return jaxvrp.make("truck_drone", num_drones=drones, num_customers=customers, num_route_nodes=nodes)


def _darp(size: Size) -> Environment:
    nodes, vehicles = size
    return jaxvrp.make("darp", num_nodes=nodes, num_agents=vehicles)


def _pcb(size: Size) -> Environment:
    parts, rays, turns = size
    if turns not in (1, parts):
        raise ValueError(f"a step of {parts} parts has 1 turn (simultaneous) or {parts} (sequential), not {turns}")
    mode = "simultaneous" if turns == 1 else "sequential"
    return jaxvrp.make("pcb", min_parts=parts, max_parts=parts, rays=rays, mode=mode)


SUBJECTS = {
    "truck_drone": Subject(
        labels="drones,customers,nodes",
        sizes=((2, 3, 5), (4, 20, 10), (8, 50, 16)),
        make=_truck_drone,
        reference=RandomTruckDrone,
        target=((2, 3, 5), 4096, 250),
    ),
    "pcb": Subject(
        labels="parts,rays,turns",
        sizes=((8, 4, 8), (8, 4, 1), (8, 8, 8), (8, 8, 1), (16, 4, 16), (16, 4, 1)),
        make=_pcb,
        reference=RandomPcb,
        reference_steps=20,
    ),
    "darp": Subject(labels="nodes,vehicles", sizes=((20, 5), (50, 8), (100, 10)), make=_darp, reference=RandomDarp),
}

"""One episode as replays, plans and pictures read it: the placements of its steps, and its metrics; NumPy, unpadded."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.problem.board import Board, trim
from jaxvrp.envs.pcb.rules import State
from jaxvrp.episodes import count_states
from jaxvrp.spaces import agent_names


@dataclasses.dataclass(frozen=True, eq=False)
class Placement:
    """Where the parts of a board lie, and how good that is.

    Attributes:
        board: one board as NumPy arrays, without padding; its own positions do not matter.
        names: of the parts; empty for none.
        position: `[N, 2]`, centres in mm.
        orientation: `[N]`, quarter turns.
        hpwl: of the board in mm.
        overlap: `[N]`, overlap ratios.
    """

    board: Board
    names: tuple[str, ...]
    position: np.ndarray
    orientation: np.ndarray
    hpwl: float
    overlap: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """`bool[N]`, the parts that overlap others or stick out."""
        return self.overlap > LEGAL_OVERLAP

    @property
    def verdict(self) -> str:
        """Whether the placement is legal, in words."""
        if not self.wrong.any():
            return "legal"
        return f"not legal: {int(self.wrong.sum())} of {self.wrong.size} parts overlap or stick out"

    @functools.cached_property
    def boxes(self) -> np.ndarray:
        """`[N, 4]`: left, top, right, bottom of the parts in mm."""
        size = np.asarray(self.board.size, float)
        half = 0.5 * np.where(self.orientation[:, None] % 2 == 1, size[:, ::-1], size)
        return np.concatenate([self.position - half, self.position + half], axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class PlayedEpisode:
    """States 0..T up to the end of the episode, as NumPy arrays.

    Attributes:
        states: leaves `[T+1, ...]`.
        metrics: `{name: [T+1] or [T+1, A]}`, of `Pcb`.
        reward: `[T+1, A]`; 0 at the start.
        agent_names: of all agents.
    """

    states: State
    metrics: dict[str, np.ndarray]
    reward: np.ndarray
    agent_names: tuple[str, ...]

    @property
    def length(self) -> int:
        """T + 1."""
        return len(self.states.time)

    @property
    def agents(self) -> np.ndarray:
        """`[n]`, the agents that the board has."""
        return np.flatnonzero(self.states.instance.wiring.is_agent[0])

    @functools.cached_property
    def parts(self) -> np.ndarray:
        """`[N]`, the rows of the states that are parts and not padding."""
        return np.flatnonzero(self.states.instance.board.exists[0])

    @functools.cached_property
    def board(self) -> Board:
        """The board without padding."""
        return trim(jax.tree.map(lambda leaf: leaf[0], self.states.instance.board))

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parts of `board`: the numbers of their agents, "" for fixed parts."""
        agent = dict(zip(self.states.instance.wiring.component[0, self.agents], self.agents, strict=True))
        return tuple(str(agent.get(part, "")) for part in self.parts)

    def placement(self, index: int) -> Placement:
        """The placement of the state with this index."""
        now = jax.tree.map(lambda leaf: leaf[index], self.states.replace(instance=None))
        return self._placement(now.position, now.orientation, now.board_hpwl, now.overlap)

    @functools.cached_property
    def best(self) -> Placement | None:
        """The shortest legal placement; None if there was none."""
        best = jax.tree.map(lambda leaf: leaf[-1], self.states.best)
        if not np.isfinite(best.hpwl):
            return None
        return self._placement(best.position, best.orientation, best.hpwl, np.zeros(len(best.position)))

    def _placement(self, position: Any, orientation: Any, hpwl: Any, overlap: Any) -> Placement:
        rows = self.parts
        return Placement(self.board, self.names, position[rows], orientation[rows], float(hpwl), overlap[rows])

    @property
    def improvements(self) -> np.ndarray:
        """The indices of states with a shorter legal placement than any before."""
        best = self.states.best.hpwl
        return np.flatnonzero(best < np.concatenate([[np.inf], best[:-1]]))


def from_states(env: Pcb, states: State) -> PlayedEpisode:
    """Cut an episode at its end and measure it.

    Args:
        env: the environment that was played.
        states: leaves (NumPy or JAX) with leading axis `[T+1]`.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    clock = np.asarray(states.time)
    if clock.ndim != 1 or clock.size == 0:
        raise ValueError(f"states.time has shape {clock.shape}; it needs [T+1], the states of one episode")
    ended, metrics, reward = jax.device_get(_outcomes(env, states))
    length = count_states(clock, ended)
    # NumPy has no keys, and nothing here draws random numbers.
    states = states.replace(instance=states.instance.replace(key=states.time))
    states, metrics, reward = jax.tree.map(lambda leaf: np.asarray(leaf)[:length], (states, metrics, reward))
    return PlayedEpisode(states, metrics, reward, tuple(agent_names(env.roles)[ROLE]))


@jax.jit
def _outcomes(env: Pcb, states: State) -> tuple[jax.Array, dict[str, jax.Array], jax.Array]:
    """Whether each state ends the episode, its metrics, and the reward of the step before it."""

    def outcome(state: State) -> tuple[jax.Array, dict[str, jax.Array], jax.Array]:
        ended = env.is_terminal(state) | env.is_truncated(state)
        return ended, env.metrics(state), jnp.where(state.time > 0, env.reward(state)[ROLE], 0.0)

    return jax.vmap(outcome)(states)

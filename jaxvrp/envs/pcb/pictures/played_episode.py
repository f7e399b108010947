"""One episode as pictures need it: the placements of its steps, and its metrics over time."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.envs.pcb.problem.board import Board, trim
from jaxvrp.envs.pcb.rules import State
from jaxvrp.episodes import count_states
from jaxvrp.spaces import agent_names


@dataclasses.dataclass(frozen=True, eq=False)
class PlayedEpisode:
    """States 0..T up to the end, as NumPy arrays.

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
    def _exists(self) -> np.ndarray:
        return np.flatnonzero(self.states.instance.board.exists[0])

    @functools.cached_property
    def board(self) -> Board:
        """Without padding."""
        return trim(jax.tree.map(lambda leaf: leaf[0], self.states.instance.board))

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Of the parts of `board`: the numbers of their agents, nothing for those that are fixed."""
        names = [""] * self.states.position.shape[1]
        for agent in self.agents:
            names[self.states.instance.wiring.component[0, agent]] = str(agent)
        return tuple(names[part] for part in self._exists)

    def placement(self, index: int) -> DrawnPlacement:
        """Of the state with this index."""
        states = self.states
        return self._placement(
            states.position[index], states.orientation[index], float(states.board_hpwl[index]), states.overlap[index]
        )

    @functools.cached_property
    def best(self) -> DrawnPlacement | None:
        """The shortest legal placement; None if there was none."""
        best = jax.tree.map(lambda leaf: leaf[-1], self.states.best)
        if not np.isfinite(best.hpwl):
            return None
        return self._placement(best.position, best.orientation, float(best.hpwl), np.zeros(len(best.position)))

    def _placement(self, position: Any, orientation: Any, hpwl: float, overlap: Any) -> DrawnPlacement:
        kept = self._exists
        return DrawnPlacement(self.board, self.names, position[kept], orientation[kept], hpwl, overlap[kept])

    @property
    def improvements(self) -> np.ndarray:
        """The indices of states with a shorter legal placement than any before."""
        best = self.states.best.hpwl
        return np.flatnonzero(best < np.concatenate([[np.inf], best[:-1]]))


def from_states(env: Pcb, states: State) -> PlayedEpisode:
    """Cut an episode at its end and measure it.

    Args:
        env: that was played.
        states: leaves (NumPy or JAX) with leading axis `[T+1]`.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    clock = np.asarray(states.time)
    if clock.ndim != 1 or clock.size == 0:
        raise ValueError(f"states.time has shape {clock.shape}; it needs [T+1], the states of one episode")
    ended, metrics, reward = jax.device_get(_outcomes(env, states))
    length = count_states(clock, ended)
    # Keys are not for NumPy, and nothing here draws.
    states = states.replace(instance=states.instance.replace(key=states.time))
    states, metrics, reward = jax.tree.map(lambda leaf: np.asarray(leaf)[:length], (states, metrics, reward))
    return PlayedEpisode(states, metrics, reward, tuple(agent_names(env.roles)[ROLE]))


@jax.jit
def _outcomes(env: Pcb, states: State) -> tuple[jax.Array, dict[str, jax.Array], jax.Array]:
    """Whether each state is the end, its metrics, and the reward of the step that led to it."""

    def outcome(state: State) -> tuple[jax.Array, dict[str, jax.Array], jax.Array]:
        ended = env.is_terminal(state) | env.is_truncated(state)
        return ended, env.metrics(state), jnp.where(state.time > 0, env.reward(state)[ROLE], 0.0)

    return jax.vmap(outcome)(states)

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
    """Where the parts of a board lie, and how good that is."""

    board: Board  # one board as NumPy arrays, without padding; its own positions do not matter
    names: tuple[str, ...]  # of the parts; empty for none
    position: np.ndarray  # [N, 2], centres in mm
    orientation: np.ndarray  # [N], quarter turns
    hpwl: float  # of the board, in mm
    overlap: np.ndarray  # [N], overlap ratios of the parts

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
    """States 0..T up to the end of the episode, as NumPy arrays."""

    states: State  # leaves [T+1, ...]
    metrics: dict[str, np.ndarray]  # {name: [T+1] or [T+1, A]}, those of `Pcb`
    reward: np.ndarray  # [T+1, A]; 0 at the start
    agent_names: tuple[str, ...]  # of all agents, void ones too
    board: Board  # without padding
    parts: np.ndarray  # [N], the rows of the states that are parts and not padding
    agents: np.ndarray  # [n], the agents that the board has
    names: tuple[str, ...]  # of the parts: the numbers of their agents, "" for fixed parts

    @property
    def length(self) -> int:
        """T + 1."""
        return len(self.states.time)

    def placement(self, index: int) -> Placement:
        """The placement of the state with this index."""
        return self._placement(self.states, self.states.board_hpwl, self.states.overlap, index)

    @functools.cached_property
    def best(self) -> Placement | None:
        """The shortest legal placement; None if there was none."""
        best, no_overlap = self.states.best, np.zeros_like(self.states.overlap)
        return self._placement(best, best.hpwl, no_overlap, -1) if np.isfinite(best.hpwl[-1]) else None

    def _placement(self, found: Any, hpwl: Any, overlap: Any, index: int) -> Placement:
        position, orientation = found.position[index][self.parts], found.orientation[index][self.parts]
        return Placement(self.board, self.names, position, orientation, float(hpwl[index]), overlap[index][self.parts])

    @property
    def improvements(self) -> np.ndarray:
        """The indices of states with a shorter legal placement than any before."""
        best = self.states.best.hpwl
        return np.flatnonzero(best < np.concatenate([[np.inf], best[:-1]]))


def from_states(env: Pcb, states: State) -> PlayedEpisode:
    """Cut an episode of `env` at its end and measure it; `states`: leaves (NumPy or JAX) with leading axis `[T+1]`.

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
    instance = jax.tree.map(lambda leaf: leaf[0], states.instance)
    parts, agents = np.flatnonzero(instance.board.exists), np.flatnonzero(instance.wiring.is_agent)
    agent_of_part = dict(zip(instance.wiring.component[agents], agents, strict=True))
    return PlayedEpisode(
        states=states,
        metrics=metrics,
        reward=reward,
        agent_names=tuple(agent_names(env.roles)[ROLE]),
        board=trim(instance.board),
        parts=parts,
        agents=agents,
        names=tuple(str(agent_of_part.get(part, "")) for part in parts),
    )


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _outcomes(env: Pcb, state: State) -> tuple[jax.Array, dict[str, jax.Array], jax.Array]:
    """Whether a state ends the episode, its metrics, and the reward of the step before it."""
    ended = env.is_terminal(state) | env.is_truncated(state)
    return ended, env.metrics(state), jnp.where(state.time > 0, env.reward(state)[ROLE], 0.0)

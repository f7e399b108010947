"""One placement board in plain NumPy: the ground truth of the parity test and the baseline of the benchmark.

Written from the specification alone, in float64, independent of the JAX environment. Millimetres, y points down, angles
counter-clockwise on screen, orientations in quarter turns. N components, A agents: the movable components, in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.measuring.subject import Subject
from benchmarks.reference.pcb_placement import LEGAL, SECTORS, Placement
from jaxvrp.envs.pcb.problem.board import Board

OBSERVATION = 31
LEAST_GAIN = 0.05  # of the start value: the least denominator of a reward
FREE = 1e-6  # sum of the overlap shares of a part that touches nothing
LEAVING = 15.0  # penalty for each step that a part cuts off by leaving
KINDS = {"mode": ("sequential", "simultaneous"), "boundary": ("clamp", "terminate"), "rotation": ("absolute", "hold")}


class Turns(NamedTuple):
    """What each agent did and saw in one step; rows that are not `valid` are 0.

    Attributes:
        observation: `f64[A, 31]`, before its own move.
        next_observation: `f64[A, 31]`, right after its own move (sequential), or after all moves (simultaneous).
        reward: `f64[A]`.
        terminated: `bool[A]`.
        valid: `bool[A]`, the agent exists and has moved.
    """

    observation: np.ndarray
    next_observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    valid: np.ndarray


class NumpyPCB:
    """A board and its agents; `reset`, then `step` until `done`.

    Attributes:
        position, orientation: `f64[N, 2]` in mm and `i64[N]`, of all components.
        wirelength, hpwl: `f64[A]` in mm, W and H of each agent right after its own last move.
        start_wirelength, start_hpwl: `f64[A]`, the same at the start of the episode.
        target_wirelength, target_hpwl: `f64[A]`, frozen for the episode; inf for unknown.
        improved_wirelength, improved_hpwl: `f64[A]`, the targets with what the episode has found.
        board_hpwl, start_board_hpwl: in mm, now and at the start of the episode.
        overlap, legal: `f64[N]` and whether no part's is above 1e-5, at the end of the step.
        best_hpwl, best_position, best_orientation: of the best legal placement at the end of a step; inf without one.
        blocked, cost: `f64[A]`, sum of `ol` and weighted cost c right after that move; as if free before the first.
        invalid_actions: so many actions asked for in the episode were not finite, or outside the box.
        undone_moves: `i64[A]`, moves of the episode whose result was not finite.
        time, terminated, truncated: steps played, and how the episode has ended, if it has.
    """

    def __init__(
        self,
        board: Board,
        *,
        num_agents: int | None = None,
        mode: str = "sequential",
        boundary: str = "clamp",
        rotation: str = "absolute",
        max_steps: int = 200,
        step_fraction: float = 0.05,
        rays: int = 8,
        wire_weight: float = 4.0,
        overlap_weight: float = 2.0,
        hpwl_weight: float = 4.0,
        target_wirelength: np.ndarray | None = None,
        target_hpwl: np.ndarray | None = None,
    ) -> None:
        """One board, NumPy arrays without leading axes, which may hold padding; parameters as in the specification.

        `num_agents` are the rows of what is returned, at least the movable components; by default as many. Targets are
        `[A]` in mm, inf for unknown; by default the board's own.

        Raises:
            ValueError: an unknown mode, boundary or rotation.
        """
        for name, value in (("mode", mode), ("boundary", boundary), ("rotation", rotation)):
            if value not in KINDS[name]:
                raise ValueError(f"{name} is {value!r}; give {' or '.join(map(repr, KINDS[name]))}")
        self._sequential, self._clamps, self._turns = mode == "sequential", boundary == "clamp", rotation == "absolute"
        self.placement = Placement(board, rays=rays)
        # The same arrays: moves happen in place.
        self.position, self.orientation = self.placement.position, self.placement.orientation
        self.max_steps, self.step_length = max_steps, step_fraction * self.placement.outline.min()
        self.weights = np.array([wire_weight, overlap_weight, hpwl_weight], np.float64)
        self._agents = self.placement.agents
        self.num_agents = len(self._agents) if num_agents is None else num_agents
        self.improved_wirelength = self._targets(board.target_wirelength, target_wirelength)
        self.improved_hpwl = self._targets(board.target_hpwl, target_hpwl)

    def _targets(self, of_parts: np.ndarray, given: np.ndarray | None) -> np.ndarray:
        targets = np.array(of_parts, np.float64)[self._agents] if given is None else np.array(given, np.float64)
        return np.concatenate([targets, np.full(self.num_agents, np.inf)])[: self.num_agents]

    def reset(self, position: np.ndarray, orientation: np.ndarray) -> np.ndarray:
        """Begin an episode with centres `f[N, 2]` in mm and quarter turns `i[N]`; the observation, `f64[A, 31]`."""
        self.position[:], self.orientation[:] = position, orientation
        self._lengths = np.zeros((2, self.num_agents))
        self._measure()
        self.start_board_hpwl = self.board_hpwl
        self.start_wirelength, self.start_hpwl = self._lengths.copy()
        self.wirelength, self.hpwl = self._lengths.copy()
        # What the last episode has found counts from the next one on.
        self.target_wirelength, self.target_hpwl = self.improved_wirelength.copy(), self.improved_hpwl.copy()
        self.time, self.invalid_actions, self.best_hpwl = 0, 0, np.inf
        self.best_position, self.best_orientation = self.position.copy(), self.orientation.copy()
        self.undone_moves = np.zeros(self.num_agents, np.int64)
        self.blocked, self.cost = np.zeros(self.num_agents), np.zeros(self.num_agents)
        self.cost[: len(self._agents)] = self.weights[1] / self.weights.sum()
        self.terminated = self.truncated = False
        self._judge()
        return self.observation()

    def _measure(self) -> None:
        self.placement.measure()
        self._lengths[:, : len(self._agents)] = self.placement.wirelength, self.placement.hpwl
        self.board_hpwl = self.placement.board_hpwl

    def _judge(self) -> None:
        self.overlap = self.placement.overlap()
        self.legal = bool((self.overlap <= LEGAL).all())

    @property
    def done(self) -> bool:
        """Whether the episode is over; a further step changes nothing."""
        return self.terminated or self.truncated

    def step(self, actions: np.ndarray, order: np.ndarray | None = None) -> Turns:
        """Play one step: `actions`, `f[A, 3]` in [-1, 1], are length, direction and turn of each agent's move.

        `order`, `i[A]`, is that of the agents' moves (sequential); by default as they are numbered.
        """
        shape = (self.num_agents, OBSERVATION)
        flags = np.zeros((2, self.num_agents), bool)
        record = Turns(np.zeros(shape), np.zeros(shape), np.zeros(self.num_agents), *flags)
        if self.done:
            return record
        self.time += 1
        actions = np.asarray(actions, np.float64)
        asked = range(self.num_agents) if order is None else np.asarray(order).tolist()
        turns = [agent for agent in asked if agent < len(self._agents)]
        # Of all that were asked for, also by agents whom a leaving part keeps from moving; NaN is in no range.
        self.invalid_actions += int((~(np.abs(actions[turns]) <= 1).all(axis=1)).sum())
        if self._sequential:
            self._one_by_one(actions, turns, record)
        else:
            self._all_at_once(actions, turns, record)
        self.truncated = self.time >= self.max_steps and not self.terminated
        self._judge()
        self._improve()
        return record

    def _one_by_one(self, actions: np.ndarray, order: list[int], record: Turns) -> None:
        for agent in order:
            record.observation[agent] = self.placement.look(agent)
            self._move(agent, actions[agent])
            self._measure()
            self._conclude(agent, record)
            self.terminated = bool(record.terminated[agent])
            if self.terminated:
                record.terminated[record.valid] = True
                return

    def _all_at_once(self, actions: np.ndarray, order: list[int], record: Turns) -> None:
        record.observation[:] = self.observation()
        for agent in order:
            self._move(agent, actions[agent])
        self._measure()
        for agent in order:
            self._conclude(agent, record)
        self.terminated = bool(record.terminated.any())
        record.terminated[record.valid] = self.terminated

    def _move(self, agent: int, action: np.ndarray) -> None:
        """Move and turn one part; an action that is not finite does neither."""
        part = self._agents[agent]
        if not np.isfinite(action).all():
            return
        length, direction, turn = (np.clip(action, -1, 1) + 1) * (0.5, np.pi, 0.5)
        heading = np.array([np.cos(direction), -np.sin(direction)])
        with np.errstate(invalid="ignore"):
            there = self.position[part] + self.step_length * length * heading
        if self._clamps:
            there = np.clip(there, 0, self.placement.outline)
        if not np.isfinite(there).all():
            self.undone_moves[agent] += 1
            return
        self.position[part] = there
        if self._turns:
            self.orientation[part] = min(int(4 * turn), 3)

    def _conclude(self, agent: int, record: Turns) -> None:
        """Reward, ending and next observation of an agent, as the parts lie now."""
        row = record.next_observation[agent] = self.placement.look(agent)
        self.wirelength[agent], self.hpwl[agent] = self._lengths[:, agent]
        self.blocked[agent] = blocked = row[SECTORS : 2 * SECTORS].sum()
        gains = np.array([
            _gain(self.start_wirelength[agent], self.wirelength[agent], self.target_wirelength[agent]),
            1.0 if blocked <= FREE else max(0.0, 1.0 - blocked / SECTORS),
            _gain(self.start_hpwl[agent], self.hpwl[agent], self.target_hpwl[agent]),
        ])  # fmt: skip
        self.cost[agent] = cost = self.weights @ gains / self.weights.sum()
        left = not self._clamps and self.placement.has_left(agent)
        reward = np.tan(np.pi * cost / 2.1) - LEAVING * (self.max_steps - self.time) * left
        record.reward[agent], record.terminated[agent], record.valid[agent] = reward, left, True

    def _improve(self) -> None:
        """Targets and the best placement learn from the placement at the end of a step."""
        agents, (wirelength, hpwl) = slice(len(self._agents)), self._lengths[:, : len(self._agents)]
        legal_wirelength = np.where(self.overlap[self._agents] <= LEGAL, wirelength, np.inf)
        np.minimum(self.improved_wirelength[agents], legal_wirelength, out=self.improved_wirelength[agents])
        if not self.legal:
            return
        np.minimum(self.improved_hpwl[agents], hpwl, out=self.improved_hpwl[agents])
        if self.board_hpwl < self.best_hpwl:
            self.best_hpwl = self.board_hpwl
            self.best_position, self.best_orientation = self.position.copy(), self.orientation.copy()

    def observation(self) -> np.ndarray:
        """What every agent sees now, `f64[A, 31]`; rows of agents that do not exist are 0."""
        rows = np.zeros((self.num_agents, OBSERVATION))
        for agent in range(len(self._agents)):
            rows[agent] = self.placement.look(agent)
        return rows

    def metrics(self) -> dict[str, float | np.ndarray]:
        """Of the board, and of each agent (`f64[A]`) after its own last move; 0 for an unknown target."""
        metrics = {
            "hpwl": self.board_hpwl,
            "overlap": self.overlap[self.placement.exists].mean(),
            "legal": float(self.legal),
            "became_legal": float(np.isfinite(self.best_hpwl)),
            "best_hpwl": self.best_hpwl if np.isfinite(self.best_hpwl) else 0.0,
            "best_ratio": _share(self.best_hpwl, self.start_board_hpwl) if np.isfinite(self.best_hpwl) else 1.0,
            "invalid_actions": float(self.invalid_actions),
            "undone_moves": self.undone_moves.astype(np.float64),
            "ol": self.blocked / SECTORS,
            "weighted_cost": self.cost,
        }
        lengths = {
            "W": (self.wirelength, self.start_wirelength, self.target_wirelength),
            "HPWL": (self.hpwl, self.start_hpwl, self.target_hpwl),
        }
        for name, (now, start, target) in lengths.items():
            known = np.where(np.isfinite(target), target, 0.0)
            metrics |= {f"raw_{name}": now, f"{name}i": start, f"raw_{name}e": known}
            metrics |= {name: _share(now, start), f"{name}e": _share(known, start)}
        return metrics


def _gain(start: float, now: float, target: float) -> float:
    """How much of the way from the start value to its target is done, -1 to 1."""
    if start == 0:
        return 0.0
    way = start - target if np.isfinite(target) else start
    return float(np.clip((start - now) / max(way, LEAST_GAIN * start), -1, 1))


def _share(value: np.ndarray | float, whole: np.ndarray | float) -> np.ndarray:
    """A length as a share of another; as it is if that one is 0."""
    return value / np.where(whole > 0, whole, 1.0)


class RandomPcb:
    """The reference under random play, a `benchmarks.measuring.subject.Reference`: each episode draws a board."""

    def __init__(self, env: Any):
        """Boards, mode and rays of a `jaxvrp` environment."""
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
        """Sum of the rewards of a random step, and whether it ended the episode."""
        actions = self._rng.uniform(-1, 1, (self._agents, 3))
        reward = self.env.step(actions, self._rng.permutation(self._agents)).reward.sum()
        done = self.env.done
        if done:
            self._begin()
        self.env.observation()
        return float(reward), done


def _parameters(size: tuple[int, ...]) -> dict[str, Any]:
    parts, rays, num_turns = size
    if num_turns not in (1, parts):
        raise ValueError(f"a step of {parts} parts has 1 turn (simultaneous) or {parts} (sequential), not {num_turns}")
    mode = "simultaneous" if num_turns == 1 else "sequential"
    return {"min_parts": parts, "max_parts": parts, "rays": rays, "mode": mode}


SUBJECT = Subject(
    labels="parts,rays,turns",
    sizes=((8, 4, 8), (8, 4, 1), (8, 8, 8), (8, 8, 1), (16, 4, 16), (16, 4, 1)),
    parameters=_parameters,
    reference=RandomPcb,
    tiny=(4, 2, 1),
    reference_steps=20,
)

"""What became of moves in `pcb`, where no action is masked, and why parts do not lie legally; in NumPy, in mm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.replay.reasons import shown_amount

LEAST_LOSS = 1e-3
"""Shortest part of a move, in mm, whose loss is told."""


def move_outcome(
    action: Sequence[float | None],
    start: ArrayLike,
    end: ArrayLike,
    *,
    outline: ArrayLike,
    step_fraction: float,
    clamp: bool,
) -> str | None:
    """What became of a part's move, where it is not what was asked for; None where it is.

    Args:
        action: the three numbers that were asked for; None for one that is not finite.
        start, end: `[2]`, its centre before and after the step.
        outline: `[2]` of the board.
        step_fraction: longest step, as a share of the board's shorter side.
        clamp: whether centres are kept on the board; else a part stays only where it had no turn.
    """
    if None in action:
        return "no move: the action is not finite"
    asked = np.asarray(action, float)
    share, angle = 0.5 * (np.clip(asked[:2], -1, 1) + 1) * (1, 2 * np.pi)
    step = step_fraction * float(np.min(outline)) * share * np.array([np.cos(angle), -np.sin(angle)])
    goal = np.asarray(start, float) + step
    words = ["action clipped to its box"] if (np.abs(asked) > 1).any() else []
    lost = float(np.linalg.norm(goal - np.asarray(end, float)))
    if lost > LEAST_LOSS:
        edge = f"stopped at the board's edge, {shown_amount(lost)} mm short of where it was to go"
        words.append(edge if clamp else "no turn: a part had left the board")
    return "; ".join(words) or None


def shortfalls(placement: DrawnPlacement, agents: Mapping[int, str]) -> dict[str, Any]:
    """The movable parts that do not lie legally, as `jaxvrp.replay.episode_format` has them.

    Args:
        placement: the last one.
        agents: names of the agents by index of their parts.
    """
    entries = [
        {"name": name, "why": _faults(placement, part, agents)}
        for part, name in agents.items()
        if placement.overlap[part] > LEGAL_OVERLAP
    ]
    return {"title": "Not legal in the end", "entries": entries}


def _faults(placement: DrawnPlacement, part: int, agents: Mapping[int, str]) -> str:
    """What a part overlaps, and how far it is off the board; areas in mm²."""
    bodies, sides = _bodies(placement), np.asarray(placement.board.side)
    width, height = placement.board.outline
    shared = [_common(bodies[part], other) for other in bodies]
    words = [
        f"{shown_amount(area)} mm² on {agents.get(other, f'fixed part {other}')}"
        for other, area in enumerate(shared)
        if other != part and sides[other] == sides[part] and area > 0
    ]
    inside = _common(bodies[part], np.array([0.0, 0.0, width, height]))
    outside = shared[part] - inside
    if outside > LEGAL_OVERLAP * shared[part]:
        words.append(f"{shown_amount(outside)} mm² off the board")
    return ", ".join(words)


def _bodies(placement: DrawnPlacement) -> np.ndarray:
    """`f64[N, 4]`: left, top, right, bottom of each part."""
    size = np.asarray(placement.board.size, float)
    turned = np.where((np.asarray(placement.orientation) % 2 == 1)[:, None], size[:, ::-1], size)
    centre = np.asarray(placement.position, float)
    return np.concatenate([centre - turned / 2, centre + turned / 2], axis=1)


def _common(a: np.ndarray, b: np.ndarray) -> float:
    """The area that two rectangles have in common."""
    span = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    return float(np.prod(np.maximum(span, 0.0)))

"""What a placement is worth to an agent (spec: reward per agent, each step; after Vassallo & Bajada, 2024)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb.geometry import SECTORS
from jaxvrp.envs.pcb.rules import State

LEAVING = 15.0
SHARPNESS = 2.1
LEAST_GAP = 0.05
FREE = 1e-6
TINY = 1e-9


class Weights(NamedTuple):
    """Weights of the three terms of the reward: wirelength W, freedom from overlap, half perimeters H; `f32[]` each."""

    wire: jax.Array | float
    overlap: jax.Array | float
    hpwl: jax.Array | float


def improvement(start: jax.Array, now: jax.Array, target: jax.Array) -> jax.Array:
    """`f32[...]` in [-1, 1]: how far a length has come from `start` (0) to `target` (1).

    An unknown target is 0. One that is worse than the start, or hardly better, counts as 5 % better.
    """
    gap = jnp.maximum(start - jnp.where(jnp.isfinite(target), target, 0.0), LEAST_GAP * start)
    return jnp.where(start > 0, jnp.clip((start - now) / jnp.where(gap > 0, gap, 1.0), -1.0, 1.0), 0.0)


def freedom(blocked: jax.Array) -> jax.Array:
    """`f32[...]`: 1 without overlap, else 1 - the mean of the eight ol, of which `blocked` is the sum."""
    return jnp.where(blocked <= FREE, 1.0, jnp.maximum(1 - blocked / SECTORS, 0.0))


def weighted_cost(state: State, weights: Weights) -> jax.Array:
    """`f32[A]`: the weighted mean c of the three terms."""
    instance = state.instance
    wire = improvement(instance.start_wirelength, state.wirelength, instance.targets.wirelength)
    hpwl = improvement(instance.start_hpwl, state.hpwl, instance.targets.hpwl)
    total = weights.wire * wire + weights.overlap * freedom(state.blocked) + weights.hpwl * hpwl
    return total / sum(weights)


def rewards(state: State, weights: Weights, step: jax.Array, max_steps: int) -> jax.Array:
    """`f32[A]`: tan(pi c / 2.1) of the agents whose turn came in `step` (`i32[]`, from 1), less what leaving costs."""
    paid = jnp.tan(jnp.pi * weighted_cost(state, weights) / SHARPNESS)
    paid -= jnp.where(state.left, LEAVING * (max_steps - step).astype(jnp.float32), 0.0)
    took_turn = state.instance.wiring.is_agent & (state.moved_at == step) & (step > 0)
    return jnp.where(took_turn, paid, 0.0)


def metrics(state: State, weights: Weights) -> dict[str, jax.Array]:
    """`{name: f32[] or f32[A]}`, see `docs/pcb.md`; 0 for agents that the board has not."""
    instance, became_legal = state.instance, jnp.isfinite(state.best.hpwl)
    return {
        "hpwl": state.board_hpwl,
        "overlap": state.overlap.sum() / jnp.maximum(instance.board.exists.sum(), 1),
        "legal": state.legal.astype(jnp.float32),
        "became_legal": became_legal.astype(jnp.float32),
        "best_hpwl": jnp.where(became_legal, state.best.hpwl, 0.0),
        "best_ratio": jnp.where(became_legal, state.best.hpwl / jnp.maximum(instance.start_board_hpwl, TINY), 1.0),
        "invalid_actions": state.invalid_actions.astype(jnp.float32),
        "undone_moves": state.undone.astype(jnp.float32),
        "ol": state.blocked / SECTORS,
        "weighted_cost": jnp.where(instance.wiring.is_agent, weighted_cost(state, weights), 0.0),
        **_lengths("W", state.wirelength, instance.start_wirelength, instance.targets.wirelength),
        **_lengths("HPWL", state.hpwl, instance.start_hpwl, instance.targets.hpwl),
    }


def _lengths(name: str, now: jax.Array, start: jax.Array, target: jax.Array) -> dict[str, jax.Array]:
    """A length in mm and as a share of the start's: now, at the start, and the target (0 for unknown)."""
    known = jnp.where(jnp.isfinite(target), target, 0.0)
    scale = jnp.where(start > 0, start, 1.0)
    return {f"raw_{name}": now, f"{name}i": start, f"raw_{name}e": known, name: now / scale, f"{name}e": known / scale}

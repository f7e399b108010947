"""One agent's turn, or all of them at once: the move, and what is seen after it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.pcb import observation, rules
from jaxvrp.envs.pcb.problem.instance import Instance
from jaxvrp.envs.pcb.rules import State


class Transition(struct.PyTreeNode):
    """One agent's turn.

    Attributes:
        obs, next_obs: `f32[31]`, when its turn came and right after it.
        action: `f32[3]` as executed; NaN for no move.
        reward: `f32[]`.
        terminated: `bool[]`, the part has left the board.
        valid: `bool[]`, there is such an agent, and nobody had ended the episode before.
    """

    obs: jax.Array
    action: jax.Array
    next_obs: jax.Array
    reward: jax.Array
    terminated: jax.Array
    valid: jax.Array


class Physics(NamedTuple):
    """How parts move and look.

    Attributes:
        step_fraction: `f32[]`, the longest step, as a share of the board's shorter side.
        clamp: centres stay on the board; else parts can leave it.
        turn: the third number of an action is the new orientation.
        rays: of a sector.
    """

    step_fraction: jax.Array | float
    clamp: bool
    turn: bool
    rays: int


def to_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: (share of the longest step, direction in radians, turn) of actions in [-1, 1]."""
    return 0.5 * (action + 1) * jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32)


def from_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: the actions in [-1, 1] of (share in [0, 1], direction in [0, 2 pi], turn in [0, 1])."""
    return 2 * action / jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32) - 1


def look_around(
    instance: Instance, position: jax.Array, orientation: jax.Array, rays: int
) -> tuple[observation.Sight, jax.Array]:
    """What all agents measure (leading axis `[A]`), and their observations `f32[A, 31]`."""

    def one(agent: jax.Array) -> tuple[observation.Sight, jax.Array]:
        seen = observation.look(instance, position, orientation, agent, rays=rays)
        return seen, observation.observe(instance, position, orientation, agent, seen)

    return jax.vmap(one)(jnp.arange(instance.wiring.component.shape[0], dtype=jnp.int32))


def observe(state: State, agent: jax.Array, rays: int) -> jax.Array:
    """`f32[31]`, what one agent sees."""
    seen = observation.look(state.instance, state.position, state.orientation, agent, rays=rays)
    return observation.observe(state.instance, state.position, state.orientation, agent, seen)


def may_act(state: State, agent: jax.Array) -> jax.Array:
    """`bool[]`, there is such an agent, and no part has left the board."""
    return state.instance.wiring.is_agent[agent] & ~state.left.any()


def act(state: State, agent: jax.Array, action: jax.Array, physics: Physics) -> State:
    """One agent moves by `action` (`f32[3]` in [-1, 1], NaN for no move), if it may, and measures."""
    may = may_act(state, agent)
    position, orientation, undone = _pose_after(state, agent, jnp.where(may, action, jnp.nan), physics)
    moved = rules.put(state, agent, position, orientation)
    seen = observation.look(moved.instance, moved.position, moved.orientation, agent, rays=physics.rays)
    who = may & (jnp.arange(state.left.shape[0]) == agent)
    return rules.measured(moved, who, seen, undone, leaving=not physics.clamp)


def act_at_once(state: State, action: jax.Array, physics: Physics) -> State:
    """All agents move by `action` (`f32[A, 3]`, likewise), then all measure."""
    agents = jnp.arange(action.shape[0], dtype=jnp.int32)
    position, orientation, undone = jax.vmap(_pose_after, (None, 0, 0, None))(state, agents, action, physics)
    state = rules.put_all(state, position, orientation)
    seen, observation = look_around(state.instance, state.position, state.orientation, physics.rays)
    everybody = state.instance.wiring.is_agent
    state = rules.measured(state, everybody, seen, undone, leaving=not physics.clamp)
    return state.replace(observation=observation)


def _pose_after(
    state: State, agent: jax.Array, action: jax.Array, physics: Physics
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Centre `f32[2]`, quarter turns `i32[]`, and whether the move was undone, `bool[]`."""
    board, part = state.instance.board, state.instance.wiring.component[agent]
    here, quarters = state.position[part], state.orientation[part]
    idle = ~jnp.isfinite(action).all()
    share, angle, turn = to_unscaled(jnp.where(idle, 0.0, action))
    there = rules.stepped(here, board.outline, physics.step_fraction * share, angle, clamp=physics.clamp)
    turned = jnp.minimum(jnp.floor(4 * turn), 3).astype(jnp.int32) if physics.turn else quarters
    lost = ~idle & ~jnp.isfinite(there).all()
    stay = idle | lost
    return jnp.where(stay, here, there), jnp.where(stay, quarters, turned), lost

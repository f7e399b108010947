"""How agents move their parts: one when its turn comes, or all at once; and what they measure after it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.pcb import observation, rules
from jaxvrp.envs.pcb.measure import AgentMeasures, measure_agent
from jaxvrp.envs.pcb.problem.instance import Instance
from jaxvrp.envs.pcb.rules import State


class Turn(struct.PyTreeNode):
    """What one agent saw, did and got when its turn came.

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


class MoveRules(NamedTuple):
    """How parts move, and how finely agents measure.

    Attributes:
        step_fraction: `f32[]`, the longest step, as a share of the board's shorter side.
        clamp: centres stay on the board; else parts can leave it.
        rotate: the third number of an action is the new orientation.
        rays: of a sector.
    """

    step_fraction: jax.Array | float
    clamp: bool
    rotate: bool
    rays: int


def to_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: (share of the longest step, direction in radians, turn) of actions in [-1, 1]."""
    return 0.5 * (action + 1) * jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32)


def from_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: the actions in [-1, 1] of (share in [0, 1], direction in [0, 2 pi], turn in [0, 1])."""
    return 2 * action / jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32) - 1


def no_moves(num_agents: int) -> jax.Array:
    """`f32[A, 3]`, the actions of agents that stay: NaN."""
    return jnp.full((num_agents, 3), jnp.nan, jnp.float32)


def draw_order(state: State) -> jax.Array:
    """`i32[A]`, the agents in a random order, another one for every step of every instance."""
    agents = jnp.arange(state.left.shape[0], dtype=jnp.int32)
    draws = jax.random.uniform(jax.random.fold_in(state.instance.key, state.time), agents.shape, jnp.float32)
    earlier = (draws < draws[:, None]) | ((draws == draws[:, None]) & (agents < agents[:, None]))
    rank = earlier.sum(axis=1, dtype=jnp.int32)
    return jnp.where(rank == agents[:, None], agents, 0).sum(axis=1, dtype=jnp.int32)


def measure_agents(
    instance: Instance, position: jax.Array, orientation: jax.Array, rays: int
) -> tuple[AgentMeasures, jax.Array]:
    """What all agents measure (leading axis `[A]`), and their observations `f32[A, 31]`; arguments as there."""

    def measure_and_see(agent: jax.Array) -> tuple[AgentMeasures, jax.Array]:
        measures = measure_agent(instance, position, orientation, agent, rays=rays)
        return measures, observation.agent_vector(instance, position, orientation, agent, measures)

    return jax.vmap(measure_and_see)(jnp.arange(instance.wiring.component.shape[0], dtype=jnp.int32))


def observe(state: State, agent: jax.Array, rays: int) -> jax.Array:
    """`f32[31]`, what one agent (`i32[]`) sees."""
    pose = (state.instance, state.position, state.orientation, agent)
    return observation.agent_vector(*pose, measure_agent(*pose, rays=rays))


def may_act(state: State, agent: jax.Array) -> jax.Array:
    """`bool[]`, there is such an agent, and no part has left the board."""
    return state.instance.wiring.is_agent[agent] & ~state.left.any()


def act(state: State, agent: jax.Array, action: jax.Array, move_rules: MoveRules) -> State:
    """One agent moves by `action` (`f32[3]` in [-1, 1], NaN for no move), if it may, and measures."""
    may = may_act(state, agent)
    position, orientation, undone = _pose_after(state, agent, jnp.where(may, action, jnp.nan), move_rules)
    moved = rules.put_part(state, agent, position, orientation)
    measures = measure_agent(moved.instance, moved.position, moved.orientation, agent, rays=move_rules.rays)
    acted = may & (jnp.arange(state.left.shape[0]) == agent)
    return rules.record_turns(moved, acted, measures, undone, clamp=move_rules.clamp)


def act_at_once(state: State, action: jax.Array, move_rules: MoveRules) -> State:
    """All agents move by `action` (`f32[A, 3]`, likewise), then all measure."""
    agents = jnp.arange(action.shape[0], dtype=jnp.int32)
    position, orientation, undone = jax.vmap(_pose_after, (None, 0, 0, None))(state, agents, action, move_rules)
    state = rules.put_parts(state, position, orientation)
    measures, observations = measure_agents(state.instance, state.position, state.orientation, move_rules.rays)
    everybody = state.instance.wiring.is_agent
    state = rules.record_turns(state, everybody, measures, undone, clamp=move_rules.clamp)
    return state.replace(observation=observations)


def _pose_after(
    state: State, agent: jax.Array, action: jax.Array, move_rules: MoveRules
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Centre `f32[2]`, quarter turns `i32[]`, and whether the move was undone, `bool[]`."""
    board, part = state.instance.board, state.instance.wiring.component[agent]
    centre, quarters = state.position[part], state.orientation[part]
    idle = ~jnp.isfinite(action).all()
    share, angle, turn = to_unscaled(jnp.where(idle, 0.0, action))
    step = move_rules.step_fraction * share
    goal = rules.centre_after(centre, board.outline, step, angle, clamp=move_rules.clamp)
    turned = jnp.minimum(jnp.floor(4 * turn), 3).astype(jnp.int32) if move_rules.rotate else quarters
    undone = ~idle & ~jnp.isfinite(goal).all()
    stays = idle | undone
    return jnp.where(stays, centre, goal), jnp.where(stays, quarters, turned), undone

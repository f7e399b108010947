"""Environments with agents that move one after another, and steps that ask a function for the actions."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import Environment, State, TimeStep, arrive, executed_action, is_over
from jaxvrp.spaces import ByRole

Choose = Callable[[ByRole, ByRole], ByRole]
"""`(observation {role: f32[n, ...]}, agent {role: i32[n]}) -> action {role: [n, ...]}`, of `n` agents at their turn."""


class Turns(struct.PyTreeNode):
    """Observations, actions and rewards of all agents in one step.

    Attributes:
        observation: `{role: f32[agents, ...]}`, when its turn came.
        action: `{role: [agents, ...]}`, as executed.
        next_observation: `{role: f32[agents, ...]}`, right after its turn.
        reward: `{role: f32[agents]}`.
        terminated: `{role: bool[agents]}`, whether the episode is over, so that learners do not bootstrap.
        valid: `{role: bool[agents]}`, whether the agent had a turn.
    """

    observation: ByRole
    action: ByRole
    next_observation: ByRole
    reward: ByRole
    terminated: ByRole
    valid: ByRole


class TurnBasedEnvironment(Environment):
    """An environment in which agents move one after another, and each agent sees the moves before its turn."""

    @abc.abstractmethod
    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """The next state, as from `transition`, and the turns that led to it.

        `choose` is called once per turn (`n` = 1 in `Choose`), after the earlier moves. Passing the same actions to
        `step` must give the same state.
        """


def play(env: Environment, state: State, choose: Choose) -> tuple[State, TimeStep, Turns]:
    """Play one step with the actions that `choose` returns, for all agents at once or for one after the other."""
    moved, turns = take(env, state, choose)
    return *arrive(env, state, moved), turns


def take(env: Environment, state: State, choose: Choose) -> tuple[State, Turns]:
    """As `play`, but returns the state of `transition` without a timestep."""
    take_turns = env.take_turns if isinstance(env, TurnBasedEnvironment) else functools.partial(act_at_once, env)
    moved, turns = take_turns(state, choose)
    finished = is_over(env, state)
    turns = turns.replace(
        reward=jax.tree.map(lambda reward: jnp.where(finished, 0.0, reward), turns.reward),
        valid=jax.tree.map(lambda valid: valid & ~finished, turns.valid),
    )
    return moved, turns


def act_at_once(env: Environment, state: State, choose: Choose) -> tuple[State, Turns]:
    """The next state, and the turns, if all agents see the same state and choose at once."""
    agents = {name: jnp.arange(role.num_agents, dtype=jnp.int32) for name, role in env.roles.items()}
    observation = env.observation(state)
    executed, num_invalid = executed_action(env, choose(observation, agents), env.action_mask(state), env.valid(state))
    moved = env.transition(state, executed, num_invalid)
    all_agents = {name: jnp.ones(role.num_agents, bool) for name, role in env.roles.items()}
    return moved, Turns(
        observation=observation,
        action=executed,
        next_observation=env.observation(moved),
        reward=env.reward(moved),
        terminated=jax.tree.map(lambda ones: ones & env.is_terminal(moved), all_agents),
        valid=all_agents | env.valid(state),
    )

"""Environments whose agents move one after another, and playing any environment with actions that are asked for."""

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
"""`(observation {role: f32[n, ...]}, agent {role: i32[n]}) -> action {role: [n, ...]}`, of agents whose turn it is."""


class Turns(struct.PyTreeNode):
    """What every agent saw, did and got in one step that it played in turn.

    Attributes:
        observation: `{role: f32[agents, ...]}`, when its turn came.
        action: `{role: [agents, ...]}`, as executed.
        next_observation: `{role: f32[agents, ...]}`, right after its turn.
        reward: `{role: f32[agents]}`.
        terminated: `{role: bool[agents]}`, whether its episode is over, so that nothing is to be bootstrapped.
        valid: `{role: bool[agents]}`, whether it had a turn.
    """

    observation: ByRole
    action: ByRole
    next_observation: ByRole
    reward: ByRole
    terminated: ByRole
    valid: ByRole


class TurnBasedEnvironment(Environment):
    """An environment whose agents move one after another, each seeing the moves before it."""

    @abc.abstractmethod
    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """The next state, as from `transition`, and what the agents went through.

        `choose` is asked for one action at a time (`n` = 1 in `Choose`), after the moves before it. Choosing the same
        actions beforehand and passing them to `step` must give the same state.
        """


def play(env: Environment, state: State, choose: Choose) -> tuple[State, TimeStep, Turns]:
    """Play one step with actions that `choose` is asked for: of all agents at once, or of one after the other."""
    moved, turns = take(env, state, choose)
    return *arrive(env, state, moved), turns


def take(env: Environment, state: State, choose: Choose) -> tuple[State, Turns]:
    """As `play`, but the state is that of the transition alone, and nothing is observed after it."""
    take_turns = env.take_turns if isinstance(env, TurnBasedEnvironment) else functools.partial(act_at_once, env)
    moved, turns = take_turns(state, choose)
    finished = is_over(env, state)
    turns = turns.replace(
        reward=jax.tree.map(lambda reward: jnp.where(finished, 0.0, reward), turns.reward),
        valid=jax.tree.map(lambda valid: valid & ~finished, turns.valid),
    )
    return moved, turns


def act_at_once(env: Environment, state: State, choose: Choose) -> tuple[State, Turns]:
    """The next state, and what the agents went through, where all are asked at once and see the same state."""
    agents = {name: jnp.arange(role.num_agents, dtype=jnp.int32) for name, role in env.roles.items()}
    observation = env.observation(state)
    executed, num_invalid = executed_action(env, choose(observation, agents), env.action_mask(state), env.valid(state))
    moved = env.transition(state, executed, num_invalid)
    everybody = {name: jnp.ones(role.num_agents, bool) for name, role in env.roles.items()}
    return moved, Turns(
        observation=observation,
        action=executed,
        next_observation=env.observation(moved),
        reward=env.reward(moved),
        terminated=jax.tree.map(lambda ones: ones & env.is_terminal(moved), everybody),
        valid=everybody | env.valid(state),
    )

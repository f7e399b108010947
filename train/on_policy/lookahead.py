"""Looking ahead: what each choice of an agent comes to, if the most probable actions follow.

Every choice that is likely enough is tried from the states that the policy comes to, and the episode is played to its
end from there. So the policy learns from all choices at once what it learns from one in other methods, and without the
noise of what is sampled afterwards (policy iteration by rollouts, Tesauro & Galperin 1996; with a loss in all actions
as in AggreVaTeD, Sun et al. 2017). The other agents do what they did, so that the comparison is of this agent's choice
alone (the counterfactual of COMA, Foerster et al. 2018). Instead of the policy, a search may go on (AggreVaTe, Ross &
Bagnell 2014): its plans are good after every choice, so that they say more of the choice, and less of what happens to
follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import Environment, TimeStep, registry
from jaxvrp.actor import Actor
from jaxvrp.episodes import play_on
from jaxvrp.randomized import Randomized, unwrapped
from jaxvrp.spaces import ByRole
from train.networks import distributions

LANES = 256
"""Episodes that are played to their ends side by side: they fit into a core's cache."""

NEVER = -jnp.inf
"""What a choice comes to that was not tried."""

POLICY = "policy"
"""Who goes on if nobody else is named."""

GoOn = Callable[[Any, TimeStep, jax.Array], jax.Array]
"""`(states, timesteps, key)`, `[E, ...]` each: returns that are still to come, `f32[E]`."""


def by_policy(env: Environment, actor: Actor) -> GoOn:
    """An actor goes on, who is deterministic and remembers nothing."""

    def to_come(states: Any, timesteps: TimeStep, key: jax.Array) -> jax.Array:
        return play_on(env, actor, states, timesteps, key)["return"]

    return to_come


def by_completion(env: Environment, name: str) -> GoOn | None:
    """What the environment's toolbox has by this name goes on; None for the policy.

    Raises:
        ValueError: it has nothing of that name (one line with what it has), or nothing for this environment.
    """
    if name == POLICY:
        return None
    completions = registry.toolbox_of(env).completions
    if name not in completions:
        known = ", ".join(f"'{known}'" for known in (POLICY, *completions))
        raise ValueError(f"lookahead_by is '{name}', which is nothing that goes on here; there is {known}")
    completion = completions[name](unwrapped(env))

    def to_come(states: Any, timesteps: TimeStep, key: jax.Array) -> jax.Array:
        del timesteps
        if isinstance(env, Randomized):
            return completion(jax.vmap(env.of)(states), states.base, key)
        return completion(jax.vmap(lambda _: env)(states), states, key)

    return to_come


def worth_trying(logits: jax.Array, mask: jax.Array, least: float) -> jax.Array:
    """The legal choices that are at least so probable, `bool[..., actions]`; none where there is but one of them.

    Args:
        logits: `f32[..., actions]`.
        mask: `bool[..., actions]`, what is legal.
        least: probability.
    """
    likely = mask & (distributions.probabilities(logits, mask) >= least)
    return likely & (likely.sum(axis=-1, keepdims=True) > 1)


def outcomes(env: Environment, go_on: GoOn, states: Any, action: ByRole, tried: ByRole, key: jax.Array) -> ByRole:
    """What the team gets after each choice that is tried, from its own reward on, `{role: f32[N, agents, actions]}`.

    `NEVER` where none was tried. Pure; takes as long as there are choices to try, however large the arrays are.

    Args:
        env: the environment.
        go_on: what the rest comes to after the choice.
        states: where agents choose, `[N, ...]`.
        action: what all did there, `{role: i32[N, agents]}`.
        tried: `{role: bool[N, agents, actions]}`.
        key: typed key, for who goes on.
    """
    return {role: _outcomes_of(env, go_on, states, action, role, tried[role], key) for role in tried}


def _outcomes_of(
    env: Environment, go_on: GoOn, states: Any, action: ByRole, role: str, tried: jax.Array, key: jax.Array
) -> jax.Array:
    """As `outcomes`, of the choices of one role."""
    count, total = tried.sum(), tried.size
    # Those that are tried come first, in the order of the states: of about as many steps to the end side by side.
    order = jnp.argsort(~tried.ravel(), stable=True)
    order = jnp.pad(order, (0, -total % LANES), constant_values=total)

    def play(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        block, found = loop
        lane = jax.lax.dynamic_slice_in_dim(order, block * LANES, LANES)
        is_tried = block * LANES + jnp.arange(LANES) < count
        # Lanes to spare repeat the first one, which costs nothing beside the others.
        row, agent, choice = jnp.unravel_index(jnp.where(is_tried, lane, order[0]), tried.shape)
        state, joint = jax.tree.map(lambda leaf: leaf[row], (states, action))
        joint[role] = joint[role].at[jnp.arange(LANES), agent].set(choice.astype(jnp.int32))
        state, timestep = jax.vmap(env.step)(state, joint)
        rest = go_on(state, timestep, jax.random.fold_in(key, block))
        place = jnp.where(is_tried, lane, total)
        return block + 1, found.at[place].set(timestep.team_reward + rest, mode="drop")

    nothing = jnp.full(total, NEVER, jnp.float32)
    _, found = jax.lax.while_loop(lambda loop: loop[0] * LANES < count, play, (jnp.zeros((), jnp.int32), nothing))
    return found.reshape(tried.shape)


def compared(outcome: jax.Array) -> jax.Array:
    """Outcomes less the mean of those that were tried, `f32[..., actions]`; what was not tried is as bad as the worst.

    0 where nothing was tried.

    Args:
        outcome: `f32[..., actions]`, `NEVER` where a choice was not tried.
    """
    tried = outcome > NEVER
    known = jnp.where(tried, outcome, 0.0)
    mean = known.sum(axis=-1, keepdims=True) / jnp.maximum(tried.sum(axis=-1, keepdims=True), 1)
    worst = jnp.where(tried, outcome, jnp.inf).min(axis=-1, keepdims=True)
    advantage = jnp.where(tried, outcome, worst) - mean
    return jnp.where(tried.any(axis=-1, keepdims=True), advantage, 0.0)

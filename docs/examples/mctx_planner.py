"""Gumbel MuZero with an environment as its model, by `mctx`: no network, a baseline is the prior and the value.

    pip install -e '.[mctx]'
    python docs/examples/mctx_planner.py darp num_nodes=10 --simulations 128

Of teams, a simulation changes what one agent does, and the baseline decides for the others.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import yaml

import jaxvrp
from jaxvrp.actor import Actor
from jaxvrp.episodes import play_episodes
from jaxvrp.io.command_line import UserError, positive
from jaxvrp.registry import players_of
from jaxvrp.spaces import Discrete
from train import entry

LOGIT = 2.0
"""Of what the baseline would do; that of all other actions that are allowed is 0."""

VALUE_SCALE = 1.0
"""Of values against logits; by mctx's own 0.1, the noise often wins where values are exact."""


class MctxPlanner:
    """Searches at every decision of environments with discrete actions; an `Actor`."""

    def __init__(self, env: jaxvrp.Environment, simulations: int, baseline: Actor | None = None):
        self.env, self.simulations = env, simulations
        players = players_of(env)
        self.baseline = baseline or players.baselines[players.full_name("greedy")](env)

    def init(self, num_envs: int) -> tuple[()]:
        """Remembers nothing."""
        return ()

    def act(self, key: jax.Array, carry: Any, state: Any, timestep: jaxvrp.TimeStep) -> tuple[Any, Any]:
        """See `jaxvrp.actor.Actor.act`."""
        action, logits, value = self.judged(state, timestep)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=(state, action))
        transform = functools.partial(mctx.qtransform_completed_by_mix_value, value_scale=VALUE_SCALE)
        found = mctx.gumbel_muzero_policy(
            (), key, root, self.model, self.simulations, jnp.isinf(logits), qtransform=transform
        )
        return self.changed(action, found.action), carry

    def model(self, params: Any, key: jax.Array, chosen: jax.Array, embedding: Any) -> tuple[Any, Any]:
        """The environment one step later, as mctx asks for it: `chosen` is `i32[E]`."""
        state, timestep = jax.vmap(self.env.step)(embedding[0], self.changed(embedding[1], chosen))
        action, logits, value = self.judged(state, timestep)
        seen = mctx.RecurrentFnOutput(
            reward=timestep.team_reward, discount=1.0 - timestep.done, prior_logits=logits, value=value
        )
        return seen, (state, action)

    def judged(self, state: Any, timestep: jaxvrp.TimeStep) -> tuple[Any, jax.Array, jax.Array]:
        """The baseline's actions, prior logits `f32[E, A]` of all changes of them, and what it would gain, `f32[E]`."""
        action = self.baseline.act(jax.random.key(0), (), state, timestep)[0]
        allowed, same = [], []
        for name in self.env.roles:
            mask = timestep.action_mask[name]
            is_same = jax.nn.one_hot(action[name], mask.shape[-1], dtype=bool)
            # What changes nothing counts once, as an action of the first agent.
            allowed.append(mask & ~is_same if allowed else mask.at[:, 1:].set(mask[:, 1:] & ~is_same[:, 1:]))
            same.append(is_same)
        flat = [jnp.concatenate([x.reshape(len(x), -1) for x in each], axis=1) for each in (allowed, same)]
        return action, jnp.where(flat[0], LOGIT * flat[1], -jnp.inf), self.rest(state, timestep)

    def changed(self, action: Any, chosen: jax.Array) -> Any:
        """Actions where one agent does what was chosen; `chosen` counts the actions of all agents in a row."""
        start, actions = 0, {}
        for name, role in self.env.roles.items():
            index = chosen[:, None] - start - jnp.arange(role.num_agents) * role.action.num_actions
            actions[name] = jnp.where((index >= 0) & (index < role.action.num_actions), index, action[name])
            start += role.num_agents * role.action.num_actions
        return actions

    def rest(self, state: Any, timestep: jaxvrp.TimeStep) -> jax.Array:
        """What the baseline would gain from here to the end, `f32[E]`."""

        def play(loop: Any) -> Any:
            state, timestep, total = loop
            action = self.baseline.act(jax.random.key(0), (), state, timestep)[0]
            state, timestep = jax.vmap(self.env.step)(state, action)
            return state, timestep, total + timestep.team_reward

        start = (state, timestep, jnp.zeros(timestep.done.shape))
        return jax.lax.while_loop(lambda loop: ~loop[1].done.all(), play, start)[2]


def made(name: str, parameters: Sequence[str]) -> jaxvrp.Environment:
    """The environment with such parameters, each `KEY=VALUE`.

    Raises:
        UserError: there is none, or it has continuous actions or no baseline; one line.
    """
    pairs = [text.partition("=") for text in parameters]
    try:
        env = jaxvrp.make(name, **{key: yaml.safe_load(value) for key, _, value in pairs})
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise UserError(str(error)) from None
    if not all(isinstance(role.action, Discrete) for role in env.roles.values()) or not players_of(env).baselines:
        raise UserError(f"{name} has continuous actions, or no baseline to begin with; take another")
    return env


def main() -> None:
    """Play the same instances by the baseline and by the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("parameters", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--simulations", type=positive, default=128)
    parser.add_argument("--episodes", type=positive, default=32)
    args = parser.parse_args()
    env = made(args.env, args.parameters)
    instances = jax.vmap(env.generate)(jax.random.split(jax.random.key(0), args.episodes))
    search = MctxPlanner(env, args.simulations)
    for name, actor in {"greedy": search.baseline, "mctx": search}.items():
        play = jax.jit(functools.partial(play_episodes, env, actor))
        print(f"{name}: mean return {play(instances, jax.random.key(1))['return'].mean():.3f}")


if __name__ == "__main__":
    entry(main)

"""Learning from a teacher: which it is, and how much it counts (DAgger, Ross et al. 2011; then an annealed pull).

The agents play; the teacher says what it would do where they are. At first the policy learns from that alone, then from
the reward, with a pull towards the teacher that fades. A teacher that plans whole episodes plays them itself, and the
policy learns what it did (behaviour cloning).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor
from jaxvrp.io.messages import printable, shown
from jaxvrp.spaces import ByRole
from train.on_policy.config import PPOConfig


class Guidance(struct.PyTreeNode):
    """Weights of the terms of an actor's loss, each `f32[]`.

    Of what the reward teaches, and of the entropy within that; of the teacher's cross-entropy.
    """

    policy: jax.Array
    teacher: jax.Array
    entropy: jax.Array


def guidance_at(config: PPOConfig, update: jax.Array) -> Guidance:
    """The weights in an update, `i32[]`, counted from 0."""
    zero, full = jnp.zeros((), jnp.float32), jnp.ones((), jnp.float32)
    entropy = jnp.asarray(config.entropy_coef, jnp.float32)
    if config.entropy_coef_end is not None:
        progress = update.astype(jnp.float32) / max(config.num_updates - 1, 1)
        entropy += jnp.minimum(progress, 1.0) * (config.entropy_coef_end - entropy)
    if config.imitate is None:
        return Guidance(full, zero, entropy)
    if config.is_taught_throughout:
        # To the end, which is after `total_steps` where the last round of updates goes beyond.
        return Guidance(zero, full, entropy)
    # As floats: counts of steps may be greater than any `i32`.
    since = update.astype(jnp.float32) * float(config.steps_per_update) - float(config.imitate_steps)
    fading = config.imitate_coef * jnp.clip(1.0 - since / float(config.imitate_anneal_steps), 0.0, 1.0)
    return Guidance(jnp.where(since < 0, zero, full), jnp.where(since < 0, full, fading), entropy)


def make_teacher(config: PPOConfig, env: Environment) -> Actor | None:
    """The teacher that `config.imitate` names, a baseline or a planner of the environment; None for none.

    A teacher that remembers what happened does not know what to do where other players led, so it plays all episodes
    itself; a ValueError says where that does not fit the configuration.
    """
    if config.imitate is None:
        return None
    players = registry.players_of(env)
    named = {**players.baselines, **players.planners}
    name = players.full_name(config.imitate)
    if name not in named:
        known = ", ".join(f"'{player}'" for player in named) or "none"
        raise ValueError(
            f"imitate is '{printable(config.imitate, 200)}'; '{config.env['name']}' has these baselines: {known}"
        )
    teacher = named[name](env)
    if jax.tree.leaves(jax.eval_shape(lambda: teacher.init(1))):
        _check_playing_teacher(config)
    return teacher


def make_comparison(config: PPOConfig, env: Environment, teacher: Actor | None) -> Comparison | None:
    """What compares other actions with the teacher's; None where the policy learns these themselves.

    A ValueError names a role that there is not.
    """
    if teacher is None or config.compare_steps == 0:
        return None
    if unknown := [role for role in config.compare_roles if role not in env.roles]:
        known = ", ".join(f"'{role}'" for role in env.roles)
        raise ValueError(f"compare_roles has {shown(unknown[0])}; '{config.env['name']}' has the roles {known}")
    return Comparison(env, teacher, config.compare_roles or tuple(env.roles), config.compare_steps)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How much better another action is than the teacher's, if the teacher plays on (AggreVaTe, Ross & Bagnell 2014).

    Both are played from the same state, so the same future happens to both: the difference is what the action makes.
    Compared are actions of some `roles`, by the rewards of the next `steps` steps; the `teacher` remembers nothing.
    """

    env: Environment
    teacher: Actor
    roles: tuple[str, ...]
    steps: int

    def compare(self, key: jax.Array, state: Any, mask: ByRole, teacher_action: ByRole) -> tuple[ByRole, ByRole]:
        """Alternatives of the teacher's actions, and what they gain.

        Args:
            key: draws the alternatives.
            state: of a batch of environments, `[E, ...]`.
            mask: the legal actions there, `{role: bool[E, agents, actions]}`.
            teacher_action: the teacher's actions, `{role: i32[E, agents]}`, legal.

        Returns:
            `{role: i32[E, agents]}`, of each role another legal action of one agent, drawn evenly from all others;
            where there is none, the teacher's. `{role: f32[E, agents]}`, how much more that agent is paid.
        """
        keys = jax.random.split(key, len(self.roles))
        alternatives = {
            role: drawn_alternatives(key, mask[role], teacher_action[role])
            for role, key in zip(self.roles, keys, strict=True)
        }
        plays = [teacher_action, *({**teacher_action, role: alternative} for role, alternative in alternatives.items())]
        joined = jax.tree.map(lambda *actions: jnp.concatenate(actions), *plays)
        states = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(plays)), state)
        paid = jax.tree.map(lambda rewards: jnp.split(rewards, len(plays)), self._paid(states, joined))
        gains = {
            role: jnp.where(alternatives[role] == teacher_action[role], 0.0, paid[role][1 + place] - paid[role][0])
            for place, role in enumerate(self.roles)
        }
        return alternatives, gains

    def _paid(self, state: Any, action: ByRole) -> ByRole:
        """`{role: f32[E, agents]}`, what the agents are paid if they act so, and then as the teacher."""
        step = jax.vmap(self.env.step)

        def advance(carry: tuple[Any, ByRole], _: None) -> tuple[tuple[Any, ByRole], ByRole]:
            state, timestep = step(*carry)
            action, _ = self.teacher.act(jax.random.key(0), (), state, timestep)
            return (state, action), {role: timestep.reward[role] for role in self.roles}

        rewards = jax.lax.scan(advance, (state, action), length=self.steps)[1]
        return {role: reward.sum(axis=0) for role, reward in rewards.items()}


def drawn_alternatives(key: jax.Array, mask: jax.Array, taken: jax.Array) -> jax.Array:
    """`i32[E, A]`: one agent's action of `taken`, `i32[E, A]`, becomes another of the `mask`, `bool[E, A, actions]`.

    All pairs of an agent and another legal action are equally likely; without any, nothing changes.
    """
    num_agents, num_actions = mask.shape[1:]
    others = mask & (jnp.arange(num_actions, dtype=jnp.int32) != taken[..., None])
    order = jnp.where(others, jax.random.uniform(key, others.shape, jnp.float32), -1.0)
    agent, action = jnp.divmod(jnp.argmax(order.reshape(order.shape[0], -1), axis=-1).astype(jnp.int32), num_actions)
    is_drawn = (jnp.arange(num_agents, dtype=jnp.int32) == agent[:, None]) & others.any(axis=(1, 2))[:, None]
    return jnp.where(is_drawn, action[:, None], taken)


def _check_playing_teacher(config: PPOConfig) -> None:
    given = printable(config.imitate, 200)
    teacher = f"imitate is '{given}', which goes by what it remembers of an episode, so it plays them itself"
    if config.compare_steps:
        raise ValueError(f"{teacher}; leave out compare_steps, which plays on from other states")
    if config.rollout != "episodes":
        raise ValueError(f"{teacher}; set rollout to 'episodes'")
    if config.num_seeds > 1:
        raise ValueError(f"{teacher}, of one seed at a time; num_seeds is {config.num_seeds}, set it to 1")
    if config.imitate_coef or config.imitate_steps < config.total_steps:
        raise ValueError(
            f"{teacher}, to the end of the training; leave out imitate_coef, and set imitate_steps to "
            f"{config.total_steps} (total_steps): another run can go on from its policy with start_from"
        )

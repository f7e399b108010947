"""Learning from a teacher: which it is, and how much it counts (DAgger, Ross et al. 2011; then an annealed pull).

The agents play; the teacher says what it would do where they are. At first the policy learns from that alone, then from
the reward, with a pull towards the teacher that fades. A teacher that plans whole episodes plays them itself, and the
policy learns what it did (behaviour cloning).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor
from jaxvrp.io.messages import printable, shown
from train.on_policy.comparison import Comparison
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
    zero, one = jnp.zeros((), jnp.float32), jnp.ones((), jnp.float32)
    entropy = jnp.asarray(config.entropy_coef, jnp.float32)
    if config.entropy_coef_end is not None:
        progress = update.astype(jnp.float32) / max(config.num_updates - 1, 1)
        entropy += jnp.minimum(progress, 1.0) * (config.entropy_coef_end - entropy)
    if config.imitate is None:
        return Guidance(one, zero, entropy)
    if config.is_taught_throughout:
        # To the end, which is after `total_steps` where the last round of updates goes beyond.
        return Guidance(zero, one, entropy)
    since = update.astype(jnp.float32) * config.steps_per_update - config.imitate_steps
    fading = config.imitate_coef * jnp.clip(1.0 - since / config.imitate_anneal_steps, 0.0, 1.0)
    return Guidance(jnp.where(since < 0, zero, one), jnp.where(since < 0, one, fading), entropy)


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

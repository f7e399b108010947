"""Learning from a teacher: who it is, and how much it counts (DAgger, Ross et al. 2011; then an annealed pull).

The agents play; the teacher says what it would do where they are. At first the policy learns from that alone, then from
the reward, with a pull towards the teacher that fades.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor
from train.on_policy.config import PPOConfig


class Guidance(struct.PyTreeNode):
    """Weights of the terms of an actor's loss, each `f32[]`.

    Attributes:
        policy: of what the reward teaches, entropy included.
        teacher: of the teacher's cross-entropy.
        entropy: of the entropy, within what the reward teaches.
    """

    policy: jax.Array
    teacher: jax.Array
    entropy: jax.Array


def guidance_at(config: PPOConfig, update: jax.Array) -> Guidance:
    """The weights in an update, `i32[]`, counted from 0."""
    zero, one = jnp.zeros((), jnp.float32), jnp.ones((), jnp.float32)
    entropy = _entropy_coef(config, update)
    if config.baseline == "best":
        return Guidance(zero, one, entropy)
    if config.imitate is None:
        return Guidance(one, zero, entropy)
    since = update.astype(jnp.float32) * config.steps_per_update - config.imitate_steps
    fading = config.imitate_coef * jnp.clip(1.0 - since / config.imitate_anneal_steps, 0.0, 1.0)
    return Guidance(jnp.where(since < 0, zero, one), jnp.where(since < 0, one, fading), entropy)


def _entropy_coef(config: PPOConfig, update: jax.Array) -> jax.Array:
    """The weight of the entropy in an update, `f32[]`."""
    start = jnp.asarray(config.entropy_coef, jnp.float32)
    if config.entropy_coef_end is None:
        return start
    progress = update.astype(jnp.float32) / max(config.num_updates - 1, 1)
    return start + jnp.minimum(progress, 1.0) * (config.entropy_coef_end - start)


def make_teacher(config: PPOConfig, env: Environment) -> Actor | None:
    """Who teaches; None for nobody.

    Raises:
        ValueError: there is nobody of that name (one line with those that there are), or who is named remembers what
            happened: then what is asked at one state alone is not what would be done there.
    """
    if config.imitate is None:
        return None
    baselines = registry.toolbox_of(env).baselines
    if config.imitate not in baselines:
        known = ", ".join(f"'{name}'" for name in baselines) or "none"
        raise ValueError(f"imitate is '{config.imitate}'; '{config.env['name']}' has these baselines: {known}")
    teacher = baselines[config.imitate](env)
    if jax.tree.leaves(jax.eval_shape(lambda: teacher.init(1))):
        raise ValueError(
            f"imitate is '{config.imitate}', which goes by what it remembers of an episode; a teacher must not: take "
            "another baseline, or leave out imitate"
        )
    return teacher

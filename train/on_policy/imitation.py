"""Learning from a teacher: who it is, and how much it counts (DAgger, Ross et al. 2011; then an annealed pull).

The agents play; the teacher says what it would do where they are. At first the policy learns from that alone, then from
the reward, with a pull towards the teacher that fades. A teacher who plans whole episodes plays them itself, and the
policy learns what it did (behaviour cloning).
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

import jaxvrp
from jaxvrp import Environment, TimeStep, registry
from jaxvrp.actor import Actor, Carry
from jaxvrp.entities import PARAMETER
from jaxvrp.randomized import Randomized, unwrapped
from jaxvrp.spaces import ByRole
from train.networks.growth import readings
from train.on_policy.actor_critic import PolicyActor
from train.on_policy.config import PPOConfig
from train.running.command.prepare import changed_parameters
from train.running.folder.policies import shipped_policies
from train.running.folder.run_folder import RunFolder
from train.running.loop.evaluator import first_seed


@dataclasses.dataclass(frozen=True)
class OnlookingActor:
    """An actor who sees the states of another's environment as its own environment shows them.

    Attributes:
        env: its own; of the same states.
        actor: who chooses.
    """

    env: Environment
    actor: Actor

    def init(self, num_envs: int) -> Carry:
        """See `jaxvrp.actor.Actor`."""
        return self.actor.init(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`."""
        seen = timestep.replace(
            observation=jax.vmap(self.env.observation)(state), entities=jax.vmap(self.env.entities)(state)
        )
        return self.actor.act(key, carry, state, seen)


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
    if config.imitate is None:
        return Guidance(one, zero, entropy)
    if config.is_taught_throughout:
        # To the end, which is after `total_steps` where the last round of updates goes beyond.
        return Guidance(zero, one, entropy)
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

    Who remembers what happened does not know what to do where others led, so it plays all episodes itself.

    Raises:
        ValueError: there is nobody of that name (one line with those that there are), or who is named would play, and
            not all episodes.
        UserError: the run that is named cannot be played in this environment.
    """
    if config.imitate is None:
        return None
    toolbox = registry.toolbox_of(env)
    named = {**toolbox.baselines, **toolbox.planners}
    if toolbox.full_name(config.imitate) in named:
        teacher = named[toolbox.full_name(config.imitate)](env)
    elif pathlib.Path(config.imitate).is_dir() or config.imitate in shipped_policies():
        teacher = _policy_of(config.imitate, config.env, env)
    else:
        known = ", ".join(f"'{name}'" for name in named) or "none"
        raise ValueError(
            f"imitate is '{config.imitate}', which is no folder of a run, and no policy that is shipped; "
            f"'{config.env['name']}' has these baselines: {known}"
        )
    if jax.tree.leaves(jax.eval_shape(lambda: teacher.init(1))):
        _check_playing_teacher(config)
    return teacher


def _check_playing_teacher(config: PPOConfig) -> None:
    """Refuse a teacher who plays itself unless it is given whole episodes, all of them."""
    who = f"imitate is '{config.imitate}', which goes by what it remembers of an episode, so it plays them itself"
    if config.rollout != "episodes":
        raise ValueError(f"{who}; set rollout to 'episodes'")
    if config.num_seeds > 1:
        raise ValueError(f"{who}, of one seed at a time; num_seeds is {config.num_seeds}, set it to 1")
    if config.imitate_coef or config.imitate_steps < config.total_steps:
        raise ValueError(
            f"{who}, to the end of the training; leave out imitate_coef, and set imitate_steps to {config.total_steps} "
            "(total_steps): another run can go on from its policy with start_from"
        )


def _policy_of(name: str, parameters: dict[str, Any], env: Environment) -> Actor:
    """The most probable actions of a run's latest policy, in the environment of another configuration.

    Args:
        name: of the run's folder, or of a policy that is shipped.
        parameters: of that environment.
        env: itself; what it draws for each episode, the policy sees as well.
    """
    # Whether a policy sees vectors or entities is its own matter. What is drawn may have more room than was asked for.
    changes = {key: value for key, value in parameters.items() if key not in ("name", PARAMETER)}
    changes |= {size: getattr(unwrapped(env), size) for size in registry.toolbox_of(env).paddings}
    folder = RunFolder(name, changes)
    _check_readings(name, folder, changes)
    run = folder.load("latest")
    actor = run.learner.actor(first_seed(run.learner, run.params), deterministic=True)
    seen = unwrapped(run.learner.env)
    if isinstance(env, Randomized):
        assert isinstance(actor, PolicyActor)
        seen = dataclasses.replace(env, base=seen)
        actor = dataclasses.replace(actor, env=seen)
    return OnlookingActor(seen, actor)


def _check_readings(name: str, folder: RunFolder, changes: dict[str, Any]) -> None:
    """Refuse a policy that would be shown other features than it has learned to read."""
    trained, config = unwrapped(folder.writer.env), folder.recorded.config
    if readings(trained) == readings(folder.player.env):
        return
    differing = [
        f"env.{key} {trained.parameters[key]!r}"
        for key, value in changes.items()
        if readings(jaxvrp.make(**changed_parameters(trained, config.env, {key: value}))) != readings(trained)
    ]
    raise ValueError(
        f"imitate is '{name}', whose policy reads other features than are shown here; it was trained with "
        f"{' and '.join(differing)}: set it so, or take another teacher"
    )

"""Proximal policy optimisation for several roles, as pure functions.

Shapes: a rollout is `[K, L, E, ...]` (chunks, steps of a chunk, environments). For the update it becomes
`[L, E, K, ...]`; a minibatch takes some environments and merges the last two into a batch `[L, B, ...]` of sequences.
All reductions over the batch are sums divided by counts over the mesh axis `data`, so any number of devices gives the
same gradient. Losses are of one actor or of one critic; the trainer sums them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from jaxvrp.policies.actors import Actors, Params, Seen
from jaxvrp.policies.blocks import Blocks
from jaxvrp.policies.choice import log_prob_and_entropy
from jaxvrp.policies.networks.inputs import rows_of
from jaxvrp.spaces import ByKind, ByRole
from train.learning.sharding import DATA
from train.on_policy.config import PPOConfig
from train.on_policy.critics import Critics
from train.on_policy.imitation import Guidance
from train.on_policy.rollout import Decision, Recording, Transition
from train.on_policy.value_norm import ValueNorm

Metrics = dict[str, jax.Array]

HUBER_DELTA = 10.0
"""Error of a normalised value at which the loss becomes linear (Yu et al. 2022)."""

NORM_DECAY = 0.99
"""Memory of the statistics of the returns, per update."""

BLOCK = 128
"""Most rows of a minibatch whose gradient is taken at once where they can be taken apart: they fit into the cache."""


class Batch(Decision):
    """What a minibatch is taken from, `[L, E, K, ...]`; after taking, `[L, B, ...]`."""

    value: ByRole  # old values, `{role: f32[..., agents]}`, scaled by the present statistics; {} without a critic
    target: ByRole  # returns on the same scale; likewise
    advantage: ByRole  # normalised, `{role: f32[..., agents]}`
    decides: ByRole  # `{role: f32[..., agents]}`, 1 where there was a choice; forced decisions have no policy gradient
    # `{role: f32[..., agents]}`, 0 for void rows, and for steps after the end of an episode that is not reset
    valid: ByRole
    carry: Any  # recurrent states at the beginning of each sequence, `[E, K, ...]` (no time axis)
    static: ByKind  # as in `Recording`, whole

    @property
    def seen(self) -> Seen:
        """What the agents saw."""
        static = {} if self.row is None else rows_of(self.static, self.row)
        return Seen(self.observation, self.global_observation, static, self.entities, self.valid)


def gae(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    gamma: float | jax.Array,
    gae_lambda: float,
) -> jax.Array:
    """Generalised advantage estimation (Schulman et al. 2016), all arrays `[T, ...]`.

    `next_value` is that of the state that the step led to, before any auto-reset. Where `terminated`, nothing follows:
    no bootstrap; where `truncated`, the episode was cut: bootstrap, but no trace across. `gamma` may differ by step;
    `gae_lambda` is the trace decay of a step, however long it took.
    """
    chex.assert_equal_shape([reward, value, next_value, terminated, truncated])
    delta = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    decay = jnp.where(terminated | truncated, 0.0, gamma * gae_lambda)

    def back(trace: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        trace = xs[0] + xs[1] * trace
        return trace, trace

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


def masked_mean(x: jax.Array, weight: jax.Array, axis: tuple[int, ...] | None = None) -> jax.Array:
    """This device's share of the mean of `x` over `axis` and all devices, weighted; the sum over `data` is the mean."""
    return (x * weight).sum(axis) / jnp.maximum(jax.lax.psum(weight.sum(axis), DATA), 1.0)


def moments(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weighted mean and variance over all devices, each `f32[]`."""
    mean = jax.lax.psum(masked_mean(x, weight), DATA)
    return mean, jax.lax.psum(masked_mean((x - mean) ** 2, weight), DATA)


def prepare(
    config: PPOConfig, recording: Recording, norm: dict[str, ValueNorm]
) -> tuple[Batch, dict[str, ValueNorm], Metrics]:
    """From a rollout to a batch: advantages, targets, and new value statistics.

    `norm` holds the statistics that the values were scaled by, by role; returned are those that have taken in the
    batch's targets, and how well the values explained these, by role.
    """
    transitions = recording.transitions
    valid = _valid(config, transitions)
    choices = {role: transitions.action_mask[role].sum(axis=-1) for role in valid}
    decides = {role: jnp.where(choices[role] > 1, valid[role], 0.0) for role in valid}
    scaled: dict[str, ByRole] = {"value": {}, "target": {}}
    metrics: Metrics = {}
    if config.baseline == "critic":
        advantage, value = _advantages(config, recording, norm)
        target = {role: advantage[role] + value[role] for role in valid}
        if config.group_size > 1:
            advantage = {role: _less_group(advantage[role], valid[role], config.group_size) for role in valid}
        for role, weight in valid.items():
            metrics[f"{role}/explained_variance"] = _explained_variance(value[role], target[role], weight)
        if config.value_norm:
            norm = {role: _updated(norm[role], target[role], valid[role]) for role in valid}
        for name, returns in (("value", value), ("target", target)):
            scaled[name] = {role: norm[role].normalize(returns[role]) for role in valid}
    else:
        advantage = {role: _episode_advantage(reward, config.group_size) for role, reward in transitions.reward.items()}
    if config.normalize_advantage:
        advantage = {role: _normalized(advantage[role], decides[role]) for role in valid}
    steps = {field.name: getattr(transitions, field.name) for field in dataclasses.fields(Decision)}
    steps |= {**scaled, "advantage": advantage, "decides": decides, "valid": valid}
    steps = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), steps)
    carry = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), recording.carries)
    return Batch(**steps, carry=carry, static=recording.static), norm, metrics


def take(batch: Batch, envs: jax.Array) -> Batch:
    """The sequences `[L, e * K, ...]` of some environments, `i32[e]`, of a batch `[L, E, K, ...]`."""
    steps = jax.tree.map(lambda leaf: jnp.take(leaf, envs, axis=1, mode="clip"), batch.replace(carry=None, static=None))
    steps = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), steps)
    carry = jax.tree.map(lambda leaf: jnp.take(leaf, envs, axis=0, mode="clip"), batch.carry)
    carry = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), carry)
    return steps.replace(carry=carry, static=batch.static)


def blocks(batch: Batch, separate: frozenset[str], roles: Sequence[str]) -> tuple[Batch, jax.Array]:
    """The rows of a minibatch `[L, B, ...]` in blocks `[N, 1, R, ...]`, first those where an agent of `roles` decides.

    Losses of networks without memory can be summed over the blocks in which there is one, and those of critics are
    none: `decides` becomes a share of the minibatch's, so that what `masked_mean` says of the blocks sums to its means,
    of each agent for roles that are `separate`.

    Returns:
        The blocks, with the whole table `static` in none of them; and `bool[N]`, whether such an agent decides in a
        block, the same on all devices.
    """
    decides = {}
    for role, weight in batch.decides.items():
        total = jax.lax.psum(weight.sum((0, 1) if role in separate else None), DATA)
        decides[role] = weight / jnp.maximum(total, 1.0)
    needed = jnp.stack([decides[role].any(axis=-1) for role in roles]).any(axis=0).ravel()
    parts = Blocks.of(needed, BLOCK)

    def cut(leaf: jax.Array) -> jax.Array:
        return parts.cut(leaf.reshape(-1, *leaf.shape[2:]))[:, None]

    blocked = jax.tree.map(cut, batch.replace(decides=decides, carry=None, static=None))
    shares = jax.tree.map(lambda weight: jnp.where(parts.is_again[:, None, :, None], 0.0, weight), blocked.decides)
    needed_in_block = jax.lax.pmax(parts.cut(needed).any(axis=1).astype(jnp.int32), DATA) > 0
    return blocked.replace(decides=shares, carry=batch.carry), needed_in_block


def actor_loss(
    params: Params, batch: Batch, seen: Seen, role: str, *, config: PPOConfig, actors: Actors, guidance: Guidance
) -> tuple[jax.Array, Metrics]:
    """This device's share of the loss of one role's actor in a minibatch: policy, entropy and teacher terms.

    `params` are of this role's actor, and `seen` is what the agents saw in the batch `[L, B, ...]`, encoded. The loss
    is `f32[]`, a sum over agents with separate actors; the metrics `{role/name: ...}` (shares too) are `f32[]`, or
    `f32[agents]` if the actors are separate.
    """
    chex.assert_shape(batch.advantage[role], (*batch.reset.shape, actors.roles[role].num_agents))
    carry = batch.carry["actor"][role]
    logits, _ = actors.apply_role(role, params, seen, carry, batch.reset)
    terms = policy_terms(
        logits,
        action_mask=batch.action_mask[role],
        action=batch.action[role],
        log_prob=batch.log_prob[role],
        advantage=batch.advantage[role],
        clip_eps=config.clip_eps,
    )
    axis = (0, 1) if role in actors.separate else None
    if batch.teacher_action:
        teacher_action, mask = batch.teacher_action[role], batch.action_mask[role]
        log_prob = log_prob_and_entropy(logits, mask, teacher_action)[0]
        if role in batch.alternative:
            odds = log_prob_and_entropy(logits, mask, batch.alternative[role])[0] - log_prob
            error = 0.5 * (config.compare_temperature * odds - batch.alternative_gain[role]) ** 2
            # One decision of a step is compared, any of them: it stands for all.
            terms["teacher_loss"] = error * jnp.sum(batch.decides[role] > 0, axis=-1, keepdims=True)
        else:
            terms["teacher_loss"] = -log_prob
    means = {name: masked_mean(term, batch.decides[role], axis) for name, term in terms.items()}
    loss = guidance.policy * (means["policy_loss"] - guidance.entropy * means["entropy"]).sum()
    if batch.teacher_action:
        loss += guidance.teacher * means["teacher_loss"].sum()
    return loss, {f"{role}/{name}": mean for name, mean in means.items()}


def critic_loss(
    params: Params, batch: Batch, critic: str, *, config: PPOConfig, critics: Critics
) -> tuple[jax.Array, Metrics]:
    """This device's share of the loss of one critic in a minibatch: the errors of its values, for all its roles.

    `critic` is the name of its role, or `TEAM` for all roles. Returns `f32[]`, and metrics `{role/value_loss: f32[]}`
    (shares too).
    """
    inputs = critics.inputs(batch.seen)[critic]
    values, _ = critics.apply_critic(critic, params, inputs, batch.carry["critic"][critic], batch.reset)
    metrics = {}
    for role, value in values.items():
        error = value_error(value, batch.value[role], batch.target[role], config.clip_eps)
        metrics[f"{role}/value_loss"] = masked_mean(error, batch.valid[role])
    return sum(metrics.values(), jnp.zeros((), jnp.float32)), metrics


def policy_terms(
    logits: jax.Array,
    *,
    action_mask: jax.Array,
    action: jax.Array,
    log_prob: jax.Array,
    advantage: jax.Array,
    clip_eps: float,
) -> dict[str, jax.Array]:
    """The clipped surrogate (Schulman et al. 2017) and its diagnostics, each `f32[...]`, one entry per decision.

    Logits and mask are `[..., actions]`, `action` is `i32[...]`, and `log_prob` `f32[...]` of when it was taken.
    """
    chex.assert_equal_shape([action, log_prob, advantage])
    new_log_prob, entropy = log_prob_and_entropy(logits, action_mask, action)
    log_ratio = new_log_prob - log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - clip_eps, 1 + clip_eps)
    return {
        "policy_loss": -jnp.minimum(ratio * advantage, clipped * advantage),
        "entropy": entropy,
        "ratio": ratio,
        "approx_kl": ratio - 1 - log_ratio,  # the low-variance, never negative estimator of Schulman (2020)
        "clip_fraction": (jnp.abs(ratio - 1) > clip_eps).astype(jnp.float32),
    }


def value_error(value: jax.Array, old: jax.Array, target: jax.Array, clip_eps: float) -> jax.Array:
    """Huber error of the values, each `f32[...]`: the worse of theirs, and of where they may move to from the old."""
    chex.assert_equal_shape([value, old, target])
    near = old + jnp.clip(value - old, -clip_eps, clip_eps)
    errors = (optax.huber_loss(moved, target, delta=HUBER_DELTA) for moved in (value, near))
    return jnp.maximum(*errors)


def _advantages(
    config: PPOConfig, recording: Recording, norm: dict[str, ValueNorm]
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Advantages (GAE) and values by role, on the scale of rewards, each `f32[K, L, E, agents]`."""
    transitions, advantages, values = recording.transitions, {}, {}
    for role, reward in transitions.reward.items():
        chunked = reward.shape
        agents = (-1, *chunked[2:])
        values[role] = norm[role].denormalize(transitions.value[role])
        value = values[role].reshape(agents)
        next_value = jnp.concatenate([value[1:], norm[role].denormalize(recording.last_value[role])[None]])

        def by_agent(of_env: jax.Array, shape: tuple[int, ...] = value.shape) -> jax.Array:
            return jnp.broadcast_to(of_env.reshape(*shape[:2], 1), shape)

        terminated, truncated = by_agent(transitions.terminated), by_agent(transitions.truncated)
        if transitions.final_value:
            final_value = norm[role].denormalize(transitions.final_value[role]).reshape(agents)
            next_value = jnp.where(truncated, final_value, next_value)
        duration = transitions.duration
        gamma = config.gamma if duration is None else by_agent(config.gamma**duration)
        advantage = gae(
            reward.reshape(agents),
            value,
            next_value,
            terminated,
            truncated,
            gamma=gamma,
            gae_lambda=config.gae_lambda,
        )
        advantages[role] = advantage.reshape(chunked)
    return advantages, values


def _updated(norm: ValueNorm, target: jax.Array, valid: jax.Array) -> ValueNorm:
    mean, variance = moments(target, valid)
    return norm.update(mean, variance + mean**2, NORM_DECAY)


def _normalized(advantage: jax.Array, decides: jax.Array) -> jax.Array:
    mean, variance = moments(advantage, decides)
    return (advantage - mean) / (jnp.sqrt(variance) + 1e-8)


def _less_group(advantage: jax.Array, valid: jax.Array, group_size: int) -> jax.Array:
    """Advantages minus the mean of the others of the group at the same step, `f32[K, L, E, agents]`.

    Of rows that are `valid`; who is left alone keeps the advantage.
    """
    shape = (*advantage.shape[:2], -1, group_size, advantage.shape[-1])
    groups, weight = advantage.reshape(shape), valid.reshape(shape)
    weighted = groups * weight
    others, count = (x.sum(axis=3, keepdims=True) - x for x in (weighted, weight))
    return (groups - others / jnp.maximum(count, 1.0)).reshape(advantage.shape)


def _episode_advantage(reward: jax.Array, group_size: int) -> jax.Array:
    """Returns of episodes minus the mean return of the same instance (Kool et al. 2019), `f32[K, L, E, agents]`."""
    total = reward.sum(axis=(0, 1))
    groups = total.reshape(-1, group_size, total.shape[-1])
    advantage = (groups - groups.mean(axis=1, keepdims=True)).reshape(total.shape)
    return jnp.broadcast_to(advantage, reward.shape)


def _valid(config: PPOConfig, transitions: Transition) -> dict[str, jax.Array]:
    """By role, `f32[K, L, E, agents]`: 1 for rows that are no padding, of episodes that had not ended before."""
    running: jax.Array | float = 1.0
    if config.rollout == "episodes":
        done = transitions.terminated | transitions.truncated
        flat = done.reshape(-1, done.shape[-1])
        ended_before = jnp.concatenate([jnp.zeros_like(flat[:1]), flat[:-1]])
        running = 1.0 - ended_before.reshape(done.shape)[..., None].astype(jnp.float32)
    ones = jax.tree.map(jnp.ones_like, transitions.reward)
    rows = {role: transitions.valid.get(role, ones[role]).astype(jnp.float32) for role in ones}
    return {role: weight * running for role, weight in rows.items()}


def _explained_variance(value: jax.Array, target: jax.Array, valid: jax.Array) -> jax.Array:
    """Share of the targets' variance that the values account for, `f32[]`; 1 where they are the same."""
    return 1 - moments(target - value, valid)[1] / jnp.maximum(moments(target, valid)[1], 1e-8)

"""Rollouts of whole episodes, several of the same instance: what is recorded, and what they are compared with."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train.on_policy import ppo
from train.on_policy.imitation import Guidance

ENVS, GROUP, STEPS = 4, 2, 8
EPISODES = {"rollout": "episodes", "rollout_length": STEPS, "group_size": GROUP, "value_norm": False}
KINDS = {
    "gru with a critic": {"network": "gru", "cut": True},
    "gru of groups": {"network": "gru", "baseline": "group", "share_drone_policy": False},
    "attention of groups": {
        "network": "attention",
        "toy": "deliveries",
        "baseline": "group",
        "attention_encode": "instance",
    },
}
ROLES = ("truck", "drone")


def flat(leaf):
    """`[K, L, ...] -> [T, ...]`."""
    return leaf.reshape(STEPS, *leaf.shape[2:])


def by_env(leaf):
    """Of a batch: `[L, E, K, ...] -> [T, E, ...]`."""
    return np.moveaxis(leaf, 2, 0).reshape(STEPS, leaf.shape[1], *leaf.shape[3:])


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def made(request, learner):
    return learner(**EPISODES, **request.param)


@pytest.fixture(scope="module")
def lengths(made):
    """Of the episode of every environment, `[E]`: all end within the rollout."""
    transitions = jax.device_get(made.played.recording.transitions)
    done = flat(transitions.terminated | transitions.truncated)
    assert done[-1].all()
    return 1 + done.argmax(axis=0)


@pytest.mark.slow("gru with a critic", "attention of groups")
def test_everybody_plays_one_episode_from_its_start_and_groups_the_same(made, lengths):
    transitions = jax.device_get(made.played.recording.transitions)
    assert flat(transitions.reset)[0].all()
    assert set(lengths.tolist()) <= {3, 4, 5, 6}
    np.testing.assert_array_equal(lengths[::GROUP], lengths[1::GROUP])
    first = {role: flat(transitions.observation[role])[0] for role in ROLES}
    for env in range(ENVS):
        assert not flat(transitions.reset)[1 : lengths[env], env].any()
        for role in ROLES:
            np.testing.assert_array_equal(first[role][env], first[role][env - env % GROUP])
    differ = [(flat(leaf)[:, ::GROUP] != flat(leaf)[:, 1::GROUP]).any() for leaf in transitions.action.values()]
    assert any(differ), "the episodes of a group are not the same"
    if made.trainer.env.entity_kinds:
        static = made.played.recording.static
        assert {leaf.shape[0] for leaf in jax.tree.leaves(static)} == {ENVS // GROUP}
        np.testing.assert_array_equal(flat(transitions.row), np.tile(np.arange(ENVS) // GROUP, (STEPS, 1)))
        assert (static["customer"][0] != static["customer"][1]).any()
    else:
        assert (first["truck"][0] != first["truck"][GROUP]).any()


@pytest.mark.slow("attention of groups", "gru with a critic")
def test_statistics_count_each_episode_once(made, lengths):
    transitions = jax.device_get(made.played.recording.transitions)
    total = 0.0
    for env in range(ENVS):
        for step in range(STEPS):
            valid = flat(transitions.valid["drone"])[step, env]
            paid = [flat(transitions.reward["truck"])[step, env], flat(transitions.reward["drone"])[step, env][valid]]
            total += np.concatenate(paid).mean()
            assert step < lengths[env] or not np.concatenate(paid).any(), "what has ended pays nothing"
    statistics = made.played.recording.statistics
    assert statistics["episodes"] == ENVS
    assert statistics["episode_length"] == lengths.sum()
    np.testing.assert_allclose(statistics["episode_return"], total, rtol=1e-4)


@pytest.mark.slow("attention of groups", "gru with a critic")
def test_the_next_rollout_has_other_instances(made):
    before, after = (jax.tree.leaves(players.vec.env.errand) for players in (made.played.start, made.played.end))
    assert all(
        (np.asarray(a) != np.asarray(b)).all() for a, b in zip(before, after, strict=True) if a.dtype == np.float32
    )


@pytest.mark.slow
def test_what_episodes_leave_behind_is_kept(learner):
    """Over both rollouts, though each begins anew."""
    made = learner(**EPISODES, network="mlp", env={"name": "tests.toy_environments:CountedErrands"})
    assert made.played.start.vec.memory == STEPS and made.played.end.vec.memory == 2 * STEPS


@pytest.fixture(scope="module")
def prepared(made, on_mesh, fresh_norm):
    """`prepared(recording, **changes)`: its batch and the gradient of its loss."""

    def prepare(recording, **changes):
        config = dataclasses.replace(made.trainer.config, **changes)

        def body(recording, params):
            batch = ppo.prepare(config, recording, fresh_norm)[0]
            guidance = Guidance(jnp.float32(1), jnp.float32(0), jnp.float32(0.01))
            whole = ppo.take(batch, jnp.arange(ENVS))
            return batch, jax.grad(lambda params: made.trainer.loss(params, whole, guidance)[0])(params)

        return jax.device_get(on_mesh(body)(recording, made.played.params))

    return prepare


@pytest.mark.slow("attention of groups", "gru with a critic")
def test_what_follows_an_end_counts_nowhere(made, lengths, prepared):
    """Not in the weights; and not in the gradient, whatever is there."""
    batch, gradient = prepared(made.played.recording)
    transitions = made.played.recording.transitions
    over = np.arange(STEPS)[:, None] >= lengths
    assert over.any()
    for role in ROLES:
        mask = flat(np.asarray(transitions.action_mask[role]))
        valid = flat(np.asarray(transitions.valid[role])) if role in transitions.valid else np.ones(mask.shape[:-1])
        there = valid * ~over[..., None]
        np.testing.assert_array_equal(by_env(batch.valid[role]), there)
        np.testing.assert_array_equal(by_env(batch.decides[role]), there * (mask.sum(-1) > 1))

    def spoil(leaf):
        """Other numbers after the ends."""
        spoilt = over.reshape(*leaf.shape[:2], ENVS, *[1] * (leaf.ndim - 3))
        return jnp.where(spoilt, jnp.zeros_like(leaf) if leaf.dtype == jnp.int32 else 3.0 * leaf + 1.0, leaf)

    names = ("observation", "global_observation", "entities", "action", "log_prob", "value", "final_value")
    spoilt = transitions.replace(**{name: jax.tree.map(spoil, getattr(transitions, name)) for name in names})
    recording = made.played.recording
    last_value = jax.tree.map(lambda leaf: leaf + 7.0, recording.last_value)
    _, other = prepared(recording.replace(transitions=spoilt, last_value=last_value))
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient)) > 1e-3
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), gradient, other)


@pytest.mark.parametrize(
    "made", [pytest.param(kind, id=name) for name, kind in KINDS.items() if "baseline" in kind], indirect=True
)
@pytest.mark.slow("attention of groups")
def test_an_episode_is_compared_with_those_of_its_group(made, lengths, prepared):
    assert not made.trainer.critics.networks and not made.played.params["critic"]
    batch, _ = prepared(made.played.recording, normalize_advantage=False)
    transitions = jax.device_get(made.played.recording.transitions)
    for role in ROLES:
        reward, advantage = flat(transitions.reward[role]), by_env(batch.advantage[role])
        for env, agent in np.ndindex(ENVS, reward.shape[-1]):
            group = range(env - env % GROUP, env - env % GROUP + GROUP)
            totals = {other: reward[: lengths[other], other, agent].sum() for other in group}
            expected = totals[env] - sum(totals.values()) / GROUP
            np.testing.assert_allclose(advantage[: lengths[env], env, agent], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("roles", [ROLES, *((role,) for role in ROLES)], ids="-".join)
def test_the_gradient_is_summed_over_blocks_in_which_somebody_decides(roles, learner, on_mesh, fresh_norm, monkeypatch):
    monkeypatch.setattr(ppo, "BLOCK", 5)
    made = learner(**EPISODES, network="mlp", baseline="group", share_drone_policy=False)
    trainer, guidance = made.trainer, Guidance(jnp.float32(1), jnp.float32(0), jnp.float32(0.01))

    def body(played):
        batch = ppo.prepare(trainer.config, played.recording, fresh_norm)[0]
        whole = ppo.take(batch, jnp.arange(ENVS))
        blocks, somebody = ppo.blocks(whole, trainer.actors.separate, roles)
        at_once = jax.grad(trainer.loss, has_aux=True)(played.params, whole, guidance)
        return whole.decides, blocks.decides, somebody, at_once, trainer.gradients(played.params, whole, guidance)

    whole, blocks, somebody, at_once, summed = jax.device_get(on_mesh(body)(made.played))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), at_once, summed)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(summed[0])) > 1e-3
    deciding = sum((whole[role] > 0).any(axis=-1) for role in roles).astype(bool).sum()
    assert somebody.tolist() == [block * 5 < deciding for block in range(7)] and not somebody.all()
    for role in ROLES:
        assert blocks[role].shape == (7, 1, 5, whole[role].shape[-1])
        assert (blocks[role] > 0).sum() == whole[role].sum(), "each row once"

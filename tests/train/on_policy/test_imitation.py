"""Learning from a teacher: what it says, how much it counts, and that one can learn from it."""

import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.fields import build
from train.algorithms import make_train
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import Guidance, guidance_at

TAUGHT = {"network": "attention", "toy": "taught", "imitate": "nearest", "imitate_steps": 48, "value_norm": False}
STEPS = 12


def nearest(place, waiting, position, mask):
    """What the teacher of the toy does for one agent, or what the rules make of that."""
    away = {i: np.abs(place[i] - position).sum() for i in range(len(place)) if waiting[i]}
    wanted = 1 + min(away, key=away.get) if away else 0
    return wanted if mask[wanted] else 0


@pytest.mark.slow
def test_the_teacher_says_what_it_would_do_in_the_states_that_are_played(learner):
    made = learner(**TAUGHT, attention_encode="step")
    transitions = jax.device_get(made.played.recording.transitions)
    static = made.played.recording.static["customer"]
    agrees, refused = [], 0
    for step, env in np.ndindex(STEPS, 4):
        place = np.asarray(static[transitions.row[0, step, env]])[:2].T
        waiting = transitions.entities["customer"][0, step, env, 0] > 0
        for role, taught in transitions.teacher_action.items():
            mask = transitions.action_mask[role][0, step, env]
            for agent, said in enumerate(taught[0, step, env]):
                position = transitions.observation[role][0, step, env, agent, :2]
                assert said == nearest(place, waiting, position, mask[agent])
                refused += said != nearest(place, waiting, position, np.ones_like(mask[agent]))
                agrees.append(said == transitions.action[role][0, step, env, agent])
    assert refused > 0
    assert 0 < np.mean(agrees) < 1, "the agents play, not the teacher"
    assert not learner(network="mlp").played.recording.transitions.teacher_action


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {0: (1, 0), 9: (1, 0)}),
        ({"imitate": "x", "imitate_steps": 100}, {0: (0, 1), 1: (0, 1), 2: (1, 0), 3: (1, 0)}),
        ({"imitate": "x", "imitate_coef": 0.5, "imitate_anneal_steps": 200}, {0: (1, 0.5), 1: (1, 0.375), 5: (1, 0)}),
        (
            {"imitate": "x", "imitate_steps": 50, "imitate_coef": 2.0, "imitate_anneal_steps": 100},
            {0: (0, 1), 1: (1, 2), 2: (1, 1), 3: (1, 0), 4: (1, 0)},
        ),
        ({"imitate": "x", "imitate_steps": 500, "total_steps": 500}, {0: (0, 1), 9: (0, 1), 10: (0, 1)}),
        (
            dict.fromkeys(("imitate_steps", "imitate_anneal_steps"), 3 * 10**9)
            | {"imitate": "x", "imitate_coef": 0.5, "total_steps": 10**10},
            {0: (0, 1), 60_000_000: (1, 0.5), 90_000_000: (1, 0.25)},
        ),
    ],
)
def test_how_much_the_teacher_counts(changes, expected):
    """By update, of 50 steps each."""
    config = PPOConfig(num_envs=5, rollout_length=10, **changes)
    for update, weights in expected.items():
        got = guidance_at(config, jnp.int32(update))
        assert (float(got.policy), float(got.teacher)) == pytest.approx(weights)
        assert got.policy.dtype == got.teacher.dtype == jnp.float32


@pytest.mark.slow
def test_the_loss_of_an_actor_is_that_of_the_reward_and_that_of_the_teacher(learner, on_mesh, fresh_norm):
    made = learner(**TAUGHT, attention_encode="step")
    trainer, played = made.trainer, made.played

    def body(played):
        batch = ppo.take(ppo.prepare(trainer.config, played.recording, fresh_norm)[0], jnp.arange(4))
        seen = trainer.seen(played.params["actor"], batch)
        logits, _ = trainer.actors.apply(played.params["actor"], seen, batch.carry["actor"], batch.reset)
        kinds = {"config": trainer.config, "actors": trainer.actors}
        losses = [
            ppo.actor_loss(
                played.params["actor"]["drone"],
                batch,
                seen,
                "drone",
                guidance=Guidance(jnp.float32(policy), jnp.float32(teacher), jnp.float32(0.01)),
                **kinds,
            )
            for policy, teacher in ((1, 0), (0, 1), (0.5, 3))
        ]
        return batch, logits["drone"], losses

    batch, logits, losses = jax.device_get(on_mesh(body)(played))
    (reward, metrics), (teacher, _), (mixed, _) = losses
    masked = np.where(batch.action_mask["drone"], logits, -np.inf)
    log_odds = masked - np.log(np.exp(masked).sum(axis=-1, keepdims=True))
    said = np.take_along_axis(log_odds, batch.teacher_action["drone"][..., None], axis=-1)[..., 0]
    expected = -said[batch.decides["drone"] > 0].mean()
    np.testing.assert_allclose(teacher, expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["drone/teacher_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(reward, metrics["drone/policy_loss"] - 0.01 * metrics["drone/entropy"], rtol=1e-4)
    np.testing.assert_allclose(mixed, 0.5 * reward + 3 * teacher, rtol=1e-4)


EPISODES = {"rollout": "episodes", "group_size": 2}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"baseline": "group", "group_size": 2}, "baseline is 'group', which needs whole episodes; set rollout to "),
        (
            {"imitate": "greedy"},
            "imitate is 'greedy', but imitate_steps and imitate_coef are 0, so that no teacher counts; set one of ",
        ),
        (
            {"imitate_steps": 7},
            "imitate_steps is 7, but imitate names no teacher; set imitate to a baseline of the environment, or leave ",
        ),
        (
            {"imitate_steps": 7, "imitate_coef": 0.5},
            "imitate_steps is 7, but imitate names no teacher; .* or leave out imitate_steps and imitate_coef$",
        ),
        ({"imitate_coef": 0.5}, "imitate_coef is 0.5, but imitate names no teacher; .* or leave out imitate_coef$"),
    ],
)
def test_keys_that_do_not_fit_each_other_are_one_line(changes, says):
    with pytest.raises(ValueError, match=says) as refusal:
        build(PPOConfig, changes, "key")
    assert "\n" not in str(refusal.value)


def test_who_is_imitated_to_the_end_is_so_in_the_last_updates_beyond_total_steps(config):
    """Updates come in rounds of `log_interval`, so that the last ones may lie beyond `total_steps`."""
    pupil = config(imitate="nearest", toy="taught", imitate_steps=100, total_steps=100, imitate_coef=0.0)
    got = guidance_at(pupil, jnp.int32(50))
    assert 50 * pupil.steps_per_update > pupil.total_steps
    assert (float(got.policy), float(got.teacher)) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"toy": "taught", "network": "attention", "imitate": "farthest", "imitate_steps": 5},
            "imitate is 'farthest'; 'taught_of_the_tests' has these baselines: 'nearest', 'rounds'",
        ),
        (
            {"imitate": "greedy", "imitate_steps": 5},
            "imitate is 'greedy'; 'toy_of_the_tests' has these baselines: none",
        ),
        (
            {"rollout": "episodes", "rollout_length": 5},
            "rollout_length is 5, but rollout is 'episodes', and those of 'toy_of_the_tests' have up to 6 steps; set "
            "rollout_length to 6 or more",
        ),
        (
            {**EPISODES, "group_size": 3},
            "num_envs is 4, which group_size (3) does not divide; take num_envs 3 or group_size 2",
        ),
        (
            {**EPISODES, "num_envs": 8, "baseline": "group", "num_minibatches": 3},
            "num_envs is 8, which num_minibatches (3) does not divide; take num_envs 9 or num_minibatches 2",
        ),
    ],
)
def test_what_does_not_fit_the_environment_is_one_line(changes, says, config):
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        make_train(config(**changes))


PLANNED = {
    "toy": "taught",
    "network": "attention",
    "attention_encode": "step",
    "imitate": "rounds",
    "imitate_steps": 96,
    "rollout": "episodes",
    "value_norm": False,
}


@pytest.mark.slow
def test_a_teacher_who_remembers_plays_whole_episodes_itself(learner):
    """It begins anew with each rollout, and is recorded as played, with the policy's probabilities."""
    made = learner(**PLANNED)
    transitions = jax.device_get(made.played.recording.transitions)
    executed = 0
    for step, env in np.ndindex(STEPS, 4):
        for role, taught in transitions.teacher_action.items():
            mask, wanted = transitions.action_mask[role][0, step, env], 1 + step % 3
            np.testing.assert_array_equal(taught[0, step, env], np.where(mask[:, wanted], wanted, 0))
            executed += mask[:, wanted].sum()
    assert executed > 20
    chex.assert_trees_all_equal(transitions.action, transitions.teacher_action)
    assert all((log_prob <= 0).all() for log_prob in transitions.log_prob.values())
    assert (transitions.log_prob["truck"] < -0.5).any()


def test_a_teacher_alone_needs_no_critic_and_no_groups(learner, on_mesh, fresh_norm):
    """The loss is the teacher's cross-entropy; returns count nothing."""
    made = learner(**PLANNED, baseline="group", total_steps=96)
    trainer, guidance = made.trainer, guidance_at(made.trainer.config, jnp.int32(0))
    assert not trainer.critics.networks and not made.played.params["critic"]

    def body(played):
        batch = ppo.prepare(trainer.config, played.recording, fresh_norm)[0]
        whole = ppo.take(batch, jnp.arange(4))
        loud = whole.replace(advantage=jax.tree.map(lambda leaf: leaf + 1.0, whole.advantage))
        return whole.advantage, [trainer.loss(played.params, each, guidance) for each in (whole, loud)]

    advantage, ((loss, metrics), (same, _)) = jax.device_get(on_mesh(body)(made.played))
    assert not any(leaf.any() for leaf in jax.tree.leaves(advantage))
    assert loss == same == pytest.approx(metrics["truck/teacher_loss"] + metrics["drone/teacher_loss"], rel=1e-6)
    assert loss > 0


def test_a_baseline_of_groups_of_one_is_refused_where_rewards_teach(config):
    trainer = make_train(config(rollout="episodes", baseline="group"))
    with pytest.raises(ValueError, match=r"^baseline is 'group', which compares episodes; set group_size to 2"):
        trainer.train_chunk(trainer.init(jax.random.key(0)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rollout": "continuing"}, "so it plays them itself; set rollout to 'episodes'"),
        (
            {"imitate_steps": 95},
            "so it plays them itself, to the end of the training; leave out imitate_coef, and set imitate_steps to 96 "
            "(total_steps): another run can go on from its policy with start_from",
        ),
        (
            {"imitate_coef": 0.5},
            "so it plays them itself, to the end of the training; leave out imitate_coef, and set imitate_steps to 96 "
            "(total_steps): another run can go on from its policy with start_from",
        ),
        ({"num_seeds": 2}, "so it plays them itself, of one seed at a time; num_seeds is 2, set it to 1"),
    ],
)
def test_a_teacher_who_remembers_is_refused_where_it_cannot_play(changes, says, config):
    start = "imitate is 'rounds', which goes by what it remembers of an episode, "
    with pytest.raises(ValueError, match=f"^{re.escape(start + says)}$"):
        make_train(config(**{**PLANNED, **changes}))

"""Actions compared with the teacher's: which, what they gain, and what is learned of it."""

import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.fields import build
from tests.taught_environment import NearestActor
from train.algorithms import make_train
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import Comparison, Guidance, drawn_alternatives

NUM_ENVS = 60
TAUGHT = {"network": "attention", "attention_encode": "step", "toy": "taught"}
TAUGHT |= {"imitate": "nearest", "imitate_steps": 96}


@pytest.fixture(scope="module")
def compared():
    """A batch of days after one step, and four steps of looking ahead from there."""
    env = jaxvrp.make("taught_of_the_tests", cut=False)
    teacher = NearestActor(env)
    act = jax.jit(lambda state, timestep: teacher.act(None, (), state, timestep)[0])
    state, timestep = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), NUM_ENVS))
    state, timestep = jax.jit(jax.vmap(env.step))(state, act(state, timestep))
    taught = act(state, timestep)
    mask = timestep.action_mask
    taught = {
        role: jnp.where(jnp.take_along_axis(mask[role], action[..., None], axis=-1)[..., 0], action, 0)
        for role, action in taught.items()
    }
    comparison = Comparison(env, teacher, ("drone", "truck"), steps=4)
    rivals, gains = jax.jit(comparison.compare)(jax.random.key(1), state, mask, taught)
    return env, teacher, *jax.device_get((state, timestep, taught, rivals, gains))


def test_a_rival_is_another_legal_action_of_one_agent(compared):
    _, _, _, timestep, taught, rivals, _ = compared
    assert list(rivals) == ["drone", "truck"]
    for role, rival in rivals.items():
        differs = rival != taught[role]
        mask = timestep.action_mask[role]
        assert np.take_along_axis(mask, rival[..., None], axis=-1).all()
        others = mask.sum(axis=(1, 2)) - rival.shape[1]
        np.testing.assert_array_equal(differs.sum(axis=1), others > 0)
        assert rival.dtype == np.int32
    assert (rivals["drone"] != taught["drone"]).any(axis=0).all(), "every agent is compared in some day"


def test_rivals_are_drawn_evenly():
    mask = np.array([[True, True, False, True], [True, False, True, False], [True, False, False, False]])
    taken = jnp.tile(jnp.int32([0, 2, 0]), (6000, 1))
    drawn = jax.jit(drawn_alternatives)(jax.random.key(2), jnp.tile(mask, (6000, 1, 1)), taken)
    rivals, count = np.unique(np.asarray(drawn), axis=0, return_counts=True)
    np.testing.assert_array_equal(rivals, [[0, 0, 0], [1, 2, 0], [3, 2, 0]])
    assert (abs(count - 2000) < 200).all()


def test_gains_are_what_the_agent_is_paid_if_the_teacher_plays_on(compared):
    """Against a game that is played step by step, a day at a time."""
    env, teacher, states, _, taught, rivals, gains = compared
    step = jax.jit(env.step)

    def paid(day, action):
        state, total = jax.tree.map(lambda leaf: leaf[day], states), {"truck": 0.0, "drone": 0.0}
        for _ in range(4):
            state, timestep = step(state, action)
            total = {role: total[role] + np.asarray(timestep.reward[role]) for role in total}
            action = teacher.choose(state)
        return total

    decided = 0
    for day in range(0, NUM_ENVS, 4):
        said = {role: action[day] for role, action in taught.items()}
        for role, rival in rivals.items():
            differs = rival[day] != said[role]
            gain = paid(day, {**said, role: rival[day]})[role] - paid(day, said)[role]
            np.testing.assert_allclose(gains[role][day], np.where(differs, gain, 0.0), atol=1e-5)
            decided += differs.any() and gain[differs].item() != 0
    assert decided > 10


def test_the_loss_is_the_error_of_the_gain(learner, on_mesh, fresh_norm):
    """And roles that are not named learn the teacher's action."""
    temperature = 0.3
    made = learner(**TAUGHT, compare_steps=2, compare_roles=("drone",), compare_temperature=temperature)
    trainer, played = made.trainer, made.played

    def body(played):
        batch = ppo.take(ppo.prepare(trainer.config, played.recording, fresh_norm)[0], jnp.arange(4))
        logits, _ = trainer.actors.apply(
            played.params["actor"], trainer.seen(played.params["actor"], batch), batch.carry["actor"], batch.reset
        )
        guidance = Guidance(jnp.float32(0), jnp.float32(1), jnp.float32(0))
        return batch, logits, trainer.loss(played.params, batch, guidance)[1]

    batch, logits, metrics = jax.device_get(on_mesh(body)(played))
    assert set(batch.alternative) == {"drone"}

    def of(action, role):
        return np.take_along_axis(logits[role], action[..., None], axis=-1)[..., 0]

    odds = of(batch.alternative["drone"], "drone") - of(batch.teacher_action["drone"], "drone")
    error = 0.5 * (temperature * odds - batch.alternative_gain["drone"]) ** 2
    assert (error > 0).sum() > 10
    # The drone that is compared stands for all that decide with it.
    decides = batch.decides["drone"] > 0
    error *= decides.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(metrics["drone/teacher_loss"], error[decides].mean(), rtol=1e-4, atol=1e-7)
    legal = np.where(batch.action_mask["truck"], logits["truck"], -np.inf)
    said = of(batch.teacher_action["truck"], "truck") - np.log(np.exp(legal).sum(axis=-1))
    np.testing.assert_allclose(metrics["truck/teacher_loss"], -said[batch.decides["truck"] > 0].mean(), rtol=1e-4)


def test_nothing_is_compared_unless_it_is_asked_for(learner):
    made = learner(**TAUGHT)
    chex.assert_trees_all_equal(made.played.recording.transitions.alternative, {})


def test_the_policy_plays_its_likeliest_action(learner):
    made = learner(**TAUGHT, compare_steps=2, compare_roles=("drone",), compare_temperature=0.3)
    played = jax.device_get(made.played.recording.transitions)
    num_legal = played.action_mask["drone"].sum(axis=-1)
    assert (played.log_prob["drone"] >= -np.log(num_legal) - 1e-5).all()
    assert (num_legal > 2).any() and (played.action["drone"] != played.teacher_action["drone"]).any()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"toy": "taught", "compare_roles": ("driver",)},
            "compare_roles has 'driver'; 'taught_of_the_tests' has the roles 'truck', 'drone'",
        ),
        (
            {"imitate": "rounds", "rollout": "episodes"},
            "imitate is 'rounds', which goes by what it remembers of an episode, so it plays them itself; leave out "
            "compare_steps, which plays on from other states",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_line(changes, says, config):
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        make_train(config(**{**TAUGHT, "compare_steps": 3, **changes}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"compare_steps": 0, "compare_roles": ("drone",)},
            r"compare_roles is \['drone'\], but compare_steps is 0, so that nothing is compared; set compare_steps",
        ),
        (
            {},
            "compare_steps is 3, but imitate names no teacher; set imitate to a baseline of the environment, or",
        ),
        (
            {"imitate": "nearest", "imitate_steps": 5, "total_steps": 96},
            r"compare_steps is 3, which needs a teacher to the end of the training; set imitate_steps to 96 ",
        ),
    ],
)
def test_comparisons_that_cannot_be_made_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        build(PPOConfig, {"compare_steps": 3, **changes}, "key")

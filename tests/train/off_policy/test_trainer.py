"""The trainers of TD3 and SAC: phases, exact resume, seeds, devices; and that they learn."""

import itertools
import json
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.io.command_line import Interrupted
from train import evaluate, td3
from train.commands.launch import SHOWN
from train.learning.sharding import DATA, make_mesh, shard
from train.off_policy import q_learning
from train.run import loop
from train.run.checkpoint import Checkpoints
from train.run.evaluator import Evaluator, evaluation_function, to_host
from train.run.metrics import summarize
from train.run.resume import RecordedRun

LEARNED = {"critic_loss", "actor_loss", "q", "target_q", "actor_grad_norm", "critic_grad_norm"}
P = jax.sharding.PartitionSpec


def numbers(tree):
    def plain(leaf):
        return np.array(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return jax.tree.map(plain, tree)


def equal(tree, other):
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_phases(make):
    """16 steps are an update: of one nothing is kept, two are random; then it learns, once there is a minibatch."""
    learner = make("td3")
    state = learner.init(jax.random.key(0))
    learned, sizes, params, memories = [], [], [numbers(state.learned)], [numbers(state.vec.memory)]
    for _ in range(8):
        state, metrics = learner.train_chunk(state)
        learned.append(float(metrics["learn/updates"][0]))
        sizes.append(float(metrics["walker/replay_size"][0]))
        params.append(numbers(state.learned))
        memories.append(numbers(state.vec.memory))
    assert sizes[0] == 0 < sizes[1] < sizes[2]
    assert memories[1].max() < memories[0].max() == 9
    assert learned == [float(update >= 2 and size >= 80) for update, size in enumerate(sizes)]
    assert 0 < sum(learned) < 6
    changed = [not equal(*pair) for pair in itertools.pairwise(params)]
    assert changed == [bool(x) for x in learned]
    assert sizes[-1] == int(np.sum(state.replay["walker"].size))
    assert (np.asarray(metrics["walker/action_magnitude"]) > 0).all()


def test_means_are_over_the_updates_that_learned():
    metrics = {"learn/updates": np.array([0.0, 1.0, 1.0]), "learn/walker/q": np.array([0.0, 3.0, 5.0])}
    metrics |= {"episode/episodes": np.zeros(3), "walker/replay_size": np.array([1.0, 2.0, 6.0])}
    wanted = {"episode/count": 0.0, "walker/q": 4.0, "walker/replay_size": 3.0}
    assert summarize(metrics, 1) == wanted
    none = summarize({name: value[:1] for name, value in metrics.items()}, 1)
    assert none == {"episode/count": 0.0, "walker/q": None, "walker/replay_size": 1.0}


class StopsInTheFifth:
    """A learner that is told to stop in its fifth update."""

    def __init__(self, learner):
        self.learner = learner

    def __getattr__(self, name):
        return getattr(self.learner, name)

    def train_chunk(self, state):
        if int(state.update) == 4:
            signal.raise_signal(signal.SIGTERM)
        return self.learner.train_chunk(state)


@pytest.mark.slow
def test_resumed_to_the_last_bit(make, tmp_path, capfd):
    """Through the loop, as a command does it."""
    learner = make("sac")
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    straight.mkdir(), broken.mkdir()
    recorded = RecordedRun(learner.config, "sac")
    loop.run(learner, straight, recorded, resume=False, shown=SHOWN)
    with pytest.raises(Interrupted, match="interrupted at update 5 of 10"):
        loop.run(StopsInTheFifth(learner), broken, recorded, resume=False, shown=SHOWN)
    loop.run(learner, broken, recorded, resume=True, shown=SHOWN)
    for name in ("metrics.jsonl", "summary.json", "learning_curve.png"):
        assert (broken / name).read_bytes() == (straight / name).read_bytes(), name
    like, ends = learner.init(jax.random.key(1)), []
    for run in (straight, broken):
        ends.append(numbers(Checkpoints(run / "checkpoints", read_only=True).load(like)))
    whole, resumed = ends
    for (path, leaf), other in zip(jax.tree_util.tree_leaves_with_path(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(leaf, other, err_msg=jax.tree_util.keystr(path))
    assert whole.update == 10
    assert whole.replay["walker"].size.min() > 0 and np.abs(whole.replay["walker"].rows).max() > 0
    records = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    for name in LEARNED | {"temperature", "entropy"}:
        assert records[0][f"walker/{name}"] is None, name
        assert np.isfinite(records[-1][f"walker/{name}"]), name
    assert {"walker/replay_size", "walker/action_magnitude", "episode/return", "eval/return"} <= set(records[-1])
    assert records[0]["episode/return"] is None and records[1]["episode/return"] is not None
    assert "random" in capfd.readouterr().out


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
@pytest.mark.slow("sac")
def test_it_goes_on_from_a_checkpoint_to_the_last_bit(algorithm, make, tmp_path):
    learner = make(algorithm)

    def train(state, updates):
        for _ in range(updates):
            state, metrics = learner.train_chunk(state)
        return state, metrics

    straight, metrics = train(learner.init(jax.random.key(0)), 5)
    assert metrics["learn/updates"].sum() > 0
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(5, straight, None, RecordedRun(learner.config, algorithm).values)
    resumed = checkpoints.load(learner.init(jax.random.key(1)))
    (straight, metrics), (resumed, resumed_metrics) = train(straight, 3), train(resumed, 3)
    for name, values in metrics.items():
        np.testing.assert_array_equal(values, resumed_metrics[name], err_msg=name)
    for (path, leaf), other in zip(
        jax.tree_util.tree_leaves_with_path(numbers(straight)), jax.tree.leaves(numbers(resumed)), strict=True
    ):
        np.testing.assert_array_equal(leaf, other, err_msg=jax.tree_util.keystr(path))
    assert straight.update == 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder of the command line."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    words = "--env.name line_walk_of_the_tests --num_envs 4 --rollout_length 4 --hidden_sizes [8] --batch_size 80"
    words += " --gradient_steps 2 --buffer_size 400 --target_exploration_steps 16 --random_steps 32 --total_steps 96"
    words += " --num_devices 1 --log_interval 1 --eval_interval 6 --save_interval 6 --eval_episodes 4 --num_seeds 2"
    td3.main(f"{words} --run_dir {folder}".split())
    return folder


@pytest.mark.slow
def test_two_seeds_through_the_command_line_and_evaluation(run, capfd):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["update"] for record in records] == [1, 2, 3, 4, 5, 6]
    for name in ("walker/q", "walker/actor_loss", "eval/return", "walker/replay_size"):
        first, second = records[-1][name]
        assert first != second, name
    for name in LEARNED:
        assert records[0][f"walker/{name}"] is None, name
        assert np.isfinite(records[-1][f"walker/{name}"]).all(), name
    evaluate.main(["--run", str(run), "--sampled", "--temperature", "2"])
    output = capfd.readouterr().out
    assert "sampled at temperature 2 policy of update 6" in output and "±" in output
    evaluate.main(["--run", str(run)])
    assert f"{np.mean(records[-1]['eval/return']):.3f}" in capfd.readouterr().out


@pytest.mark.slow
def test_a_seed_is_what_it_is_alone(make, run):
    """The second seed of the run, after six updates, beside a training from its key."""
    alone = make("td3").init(jax.random.split(jax.random.key(0))[1])
    for _ in range(6):
        alone, metrics = make("td3").train_chunk(alone)
    assert metrics["learn/updates"].sum() > 0
    checkpoints = Checkpoints(run / "checkpoints", read_only=True)
    both = checkpoints.load(make("td3", num_seeds=2).init(jax.random.key(1)))
    second = jax.tree.map(lambda leaf: leaf[1], both)
    assert int(second.update) == 6
    for (path, leaf), expected in zip(
        jax.tree_util.tree_leaves_with_path(numbers(second)), jax.tree.leaves(numbers(alone)), strict=True
    ):
        np.testing.assert_allclose(leaf, expected, rtol=1e-4, atol=1e-4, err_msg=jax.tree_util.keystr(path))


@pytest.mark.slow
def test_devices_learn_one_set_of_parameters_from_their_own_replays(make):
    learner = make(
        "sac", env={"merges": True}, num_devices=2, batch_size=8, log_interval=6, eval_interval=6, save_interval=6
    )
    state, metrics = learner.train_chunk(learner.init(jax.random.key(0)))
    assert (np.asarray(state.vec.memory) < 9).all()
    np.testing.assert_array_equal(*(np.asarray(piece.data) for piece in state.vec.memory.addressable_shards))
    assert metrics["learn/updates"].sum() > 0
    for leaf in jax.tree.leaves(state.learned):
        copies = [np.asarray(piece.data) for piece in leaf.addressable_shards]
        assert len(copies) == 2
        np.testing.assert_array_equal(*copies)
    first, second = (np.asarray(piece.data) for piece in state.replay["walker"].rows.addressable_shards)
    assert first.shape == second.shape == (2 * 100, 11)
    assert not np.array_equal(first, second)
    assert metrics["walker/replay_size"][-1] == np.sum(state.replay["walker"].size)


@pytest.mark.slow
def test_two_devices_take_the_step_of_one(make):
    method = make("td3").methods["walker"]
    learned = method.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    shapes = {"observation": (8, 4), "action": (8, 1), "reward": (8,), "terminated": (8,), "next_observation": (8, 4)}
    batch = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    target = rng.normal(size=8).astype(np.float32)

    def step(batch, target):
        batch = q_learning_batch(batch)
        return q_learning.gradient_step(
            learned,
            "critic",
            lambda critic: q_learning.critic_loss(critic, batch, target, method.networks),
            method.optimizers["critic"],
        )

    ends = [jax.jit(shard(step, make_mesh(count), P(DATA), P()))(batch, target) for count in (1, 2)]
    for leaf, other in zip(*(jax.tree.leaves(jax.device_get(end)) for end in ends), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=1e-6)
    assert not equal(numbers(ends[0][0].params["critic"]), numbers(learned.params["critic"]))


def q_learning_batch(arrays):
    return q_learning.Decisions(**arrays)


LESSON = {
    "num_envs": 16,
    "hidden_sizes": (32, 32),
    "batch_size": 64,
    "gradient_steps": 32,
    "buffer_size": 20_000,
    "random_steps": 512,
    "log_interval": 50,
    "eval_interval": 50,
    "save_interval": 50,
    "total_steps": 64 * 150,
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "gamma": 0.9,
    "tau": 0.02,
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_training_comes_close_to_the_best_play(algorithm, make):
    """Whoever walks straight to the goal, at most STRIDE a step, is best; random play is ten times as far away."""
    faster = {"temperature_lr": 1e-2} if algorithm == "sac" else {}
    learner = make(algorithm, **LESSON, **faster)
    evaluator = Evaluator(learner.env, 128, seed=9)
    instances = jax.device_get(evaluator.instances())
    left = np.maximum(np.abs(instances.goal)[..., None] - 0.25 * np.arange(1, 9), 0).sum(axis=-1)
    real = np.arange(3) < instances.count[:, None]
    best = -np.mean((left * real).sum(axis=1) / real.sum(axis=1))
    state = learner.init(jax.random.key(0))
    for _ in range(3):
        state, _ = learner.train_chunk(state)
    after = to_host(evaluation_function(learner, evaluator)(learner.actor_params(state)))
    random = evaluator.baselines()["random"]
    assert -0.55 < best < -0.35 and random["return"] < -3
    assert best - 0.3 < after["return"] <= best + 1e-4
    assert after["invalid_actions"] == 0

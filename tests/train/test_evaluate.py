"""train.evaluate on a small run of dial-a-ride: the best of several tries, and other sizes than it was trained with."""

import functools

import jax
import numpy as np
import pytest

from jaxvrp.io.command_line import UserError
from tests.toy_environments import TINY
from train import evaluate
from train.algorithms import make_train
from train.on_policy.config import PPOConfig
from train.run.checkpoint import Checkpoints
from train.run.evaluator import (
    Evaluator,
    best_of_tries,
    evaluation_function,
    first_seed,
    recording_function,
    to_host,
)
from train.run.folder import RunFolder, write_configuration
from train.run.progress import Episodes
from train.run.resume import RecordedRun

SMALL = {"num_envs": 4, "rollout_length": 4, "num_minibatches": 1, "eval_episodes": 6, "num_devices": 1}
NETWORK = {"attention_size": 8, "attention_heads": 2, "hidden_sizes": (8,)}


def written(folder, network):
    """A run folder with an untrained policy in it."""
    env = {"name": "darp", "num_nodes": 6, "num_agents": 2}
    config = PPOConfig(env=env, network=network, **SMALL, **NETWORK)
    learner, recorded = make_train(config), RecordedRun(config, "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / "checkpoints").save(1, learner.init(jax.random.key(0)), 0.0, recorded.values)
    return folder


@pytest.fixture(scope="module")
def run(programs_once, tmp_path_factory):
    return written(tmp_path_factory.mktemp("attention"), "attention")


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_metric_by_agent_has_a_figure_for_each(num_seeds):
    learner = make_train(PPOConfig(**TINY, num_seeds=num_seeds))
    evaluator = Evaluator(learner.evaluation_env, 4, 3)
    params = learner.actor_params(learner.init(jax.random.key(0)))
    found = to_host(evaluation_function(learner, evaluator)(params))
    assert found.keys() == {"return", "length", "invalid_actions", "place_0", "place_1"}
    actor = learner.actor(first_seed(learner, params), deterministic=True)
    attempt = jax.jit(functools.partial(evaluator.attempt, actor))(evaluator.keys(1)[0])
    for agent, place in enumerate(attempt["place"].mean(axis=0)):
        assert np.shape(found[f"place_{agent}"]) == ((2,) if num_seeds > 1 else ())
        np.testing.assert_allclose(np.ravel(found[f"place_{agent}"])[0], place, rtol=1e-5)


@pytest.mark.parametrize(("words", "wanted"), [([], 1_000_003), (["--seed", "0"], 0)])
def test_instances_are_those_of_the_seed(words, wanted, run, monkeypatch):
    seeds = []

    def made(env, num_episodes, seed):
        seeds.append(seed)
        raise UserError("played by other tests")

    monkeypatch.setattr(evaluate, "Evaluator", made)
    with pytest.raises(UserError, match="other tests"):
        evaluate.main(["--run", str(run), *words])
    assert seeds == [wanted]


@pytest.mark.slow
def test_the_best_of_several_tries_is_never_worse(run):
    trained = RunFolder(run).load("latest")
    actor = trained.learner.actor(trained.params, deterministic=False)
    evaluator = Evaluator(trained.learner.env, 6, 3)
    once, best = (to_host(jax.jit(lambda k=k: evaluator.play(actor, k))()) for k in (1, 12))
    assert best["return"] > once["return"]
    assert best["total_distance"] <= -best["return"] + 1e-3, "figures are of the episode that was kept"
    np.testing.assert_allclose(-best["return"], best["total_distance"] + 100 * best["unvisited_nodes"], rtol=1e-5)


def test_what_is_drawn_of_several_tries_is_the_best_of_them(run):
    trained = RunFolder(run).load("latest")
    learner, evaluator = trained.learner, Evaluator(trained.learner.env, 2, 3)
    actor = learner.actor(trained.params, deterministic=False, temperature=3.0)
    attempt = jax.jit(functools.partial(evaluator.attempt, actor))
    returns = [attempt(key)["return"][0] for key in evaluator.keys(4)]
    with Episodes(8) as episodes:
        tries = best_of_tries(learner, trained.params, evaluator, 4, episodes, temperature=3.0)[1]
    assert int(tries[0]) == np.argmax(returns) and len(set(map(float, returns))) > 1
    record = recording_function(learner, evaluator, key=evaluator.keys(4)[int(tries[0])], temperature=3.0)
    drawn = record(trained.params).timesteps
    np.testing.assert_allclose(jax.vmap(lambda step: step.team_reward)(drawn)[1:].sum(), max(returns), rtol=1e-5)


@pytest.mark.slow
def test_one_checkpoint_serves_any_number_of_requests(run, capsys):
    words = ["--env.num_nodes", "10", "--env.num_agents=3", "--best_of", "2", "--temperature", "3"]
    evaluate.main(["--run", str(run), *words])
    printed, bar = capsys.readouterr()
    assert "6 fixed instances, whole episodes, sampled at temperature 3, best of 2, policy of update 1" in printed
    # Two tries, then a heuristic and random play: 6 episodes each.
    assert "24/24 episodes" in bar and ", random" in bar
    rows = [line.split("  ")[0] for line in printed.splitlines()[4:]]
    assert rows == ["policy", "nearest neighbour", "random"]
    assert RunFolder(run, {"num_nodes": 10}).load("latest").learner.env.num_nodes == 10


@pytest.mark.slow
def test_other_networks_are_tied_to_their_size(programs_once, tmp_path):
    folder = written(tmp_path, "mlp")
    assert RunFolder(folder, {"lookahead": True}).load("latest").update == 1
    with pytest.raises(UserError, match=r"\(mlp\) are tied to the sizes .* train with --network attention"):
        RunFolder(folder, {"num_nodes": 8}).load("latest")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--best_of", "0"], "argument --best_of: '0' is no whole number above 0"),
        (["--temperature", "0"], "argument --temperature: '0' is no number above 0"),
        (["--temperature", "3"], "--temperature is of samples, and none are drawn; add --sampled or --best_of, or"),
        (["--env.num_node", "8"], "'num_node'; did you mean 'num_nodes'"),
        (["--env.num_nodes", "7"], "num_nodes is 7; it must be even"),
        (["--env.num_nodes"], "--env.num_nodes has no value; give one"),
        (["--env.num_nodes", "8", "--env.num_nodes=8"], "--env.num_nodes is given twice; leave one of them out"),
        (["--env.num_nodes", "[1"], "--env.num_nodes is '[1', which is no value: line 1: "),
        (["--env.num_nodes", "9" * 5000], "which is no value: line 1: a whole number of 5000 digits"),
        (
            ["--episodes", "3", "--episodes", "4"],
            "--episodes is given twice; leave one of them out; see python -m train.e",
        ),
        (["--render", "config.png"], "--render is 'config.png', which would take the place of '"),
    ],
)
def test_a_mistake_is_one_line(words, says, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.png").symlink_to(run / "config.yaml")
    with pytest.raises(UserError) as error:
        evaluate.main(["--run", str(run), *words])
    assert says in str(error.value)

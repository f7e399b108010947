"""`start_from`: a run begins with the policy of another."""

import chex
import jax
import pytest

import tests.toy_environments  # noqa: F401
from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS
from train.running import launch
from train.running.run_folder import RunFolder

TINY = {
    "env": {"name": "toy_of_the_tests"},
    "num_envs": 4,
    "num_devices": 1,
    "rollout_length": 8,
    "num_minibatches": 2,
    "num_epochs": 1,
    "hidden_sizes": (8,),
    "total_steps": 32,
    "eval_episodes": 4,
}
WORDS = "--env.name toy_of_the_tests --num_envs 4 --num_devices 1 --rollout_length 8 --num_minibatches 2 --num_epochs 1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of one update."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    words = f"{WORDS} --hidden_sizes [8] --total_steps 32 --eval_episodes 4 --run_dir {folder}"
    launch.main("mappo", words.split())
    return folder


def learner(**changes):
    algorithm = ALGORITHMS["mappo"]
    return algorithm.make_train(algorithm.config_class(**{**TINY, **changes}))


def test_the_policy_of_the_other_run_is_the_first_of_this(trained):
    other = learner(start_from=str(trained), seed=5)
    fresh = other.init(jax.random.key(5))
    begun = launch.beginning(other, trust=False)(fresh)
    wanted = RunFolder(trained).load("latest").params
    chex.assert_trees_all_equal(other.actor_params(begun), wanted)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(other.actor_params(fresh), wanted)
    rest = [state.replace(params={**state.params, "actor": ()}) for state in (begun, fresh)]
    chex.assert_trees_all_equal(*jax.tree.map(jax.random.key_data, [state.key for state in rest]))
    chex.assert_trees_all_equal(*[state.params["critic"] for state in rest])
    assert launch.beginning(learner(), trust=False) is None


def test_what_cannot_be_begun_with_is_one_line(trained, tmp_path):
    with pytest.raises(UserError, match=r"^start_from .*first: its networks are not those of this run; take the same"):
        launch.beginning(learner(start_from=str(trained), hidden_sizes=(4,)), trust=False)
    with pytest.raises(UserError, match=r"nowhere is no run folder") as error:
        launch.beginning(learner(start_from=str(tmp_path / "nowhere")), trust=False)
    assert "\n" not in str(error.value)

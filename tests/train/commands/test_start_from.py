"""`start_from`: a run begins with the policy of another."""

import chex
import jax
import pytest

from jaxvrp.io.command_line import UserError
from tests.toy_environments import TINY
from train.algorithms import ALGORITHMS, make_train
from train.commands import launch
from train.run.checkpoint import Checkpoints
from train.run.folder import CHECKPOINTS, RunFolder, write_configuration
from train.run.resume import RecordedRun


def learner(**changes):
    algorithm = ALGORITHMS["mappo"]
    return make_train(algorithm.config_class(**{**TINY, **changes}))


def beginning(of):
    return launch.beginning(of, of.config.start_from, trust=False)


@pytest.fixture(scope="module")
def first():
    return learner()


def begin_in(folder, of):
    """The folder of a run that has saved the state that it began with: any policy will do."""
    folder.mkdir()
    recorded = RecordedRun(of.config, "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / CHECKPOINTS).save(1, of.init(jax.random.key(0)), 0.0, recorded.values)
    return folder


@pytest.fixture(scope="module")
def begun(first, tmp_path_factory):
    """`begin_in` of `first`."""
    return begin_in(tmp_path_factory.mktemp("runs") / "first", first)


def test_the_policy_of_the_other_run_is_the_first_of_this(begun):
    other = learner(start_from=str(begun), seed=5)
    fresh = other.init(jax.random.key(5))
    state = beginning(other)(fresh)
    wanted = RunFolder(begun).load("latest").params
    chex.assert_trees_all_equal(other.actor_params(state), wanted)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(other.actor_params(fresh), wanted)
    rest = [state.replace(params={**state.params, "actor": ()}) for state in (state, fresh)]
    chex.assert_trees_all_equal(*jax.tree.map(jax.random.key_data, [state.key for state in rest]))
    chex.assert_trees_all_equal(*[state.params["critic"] for state in rest])


@pytest.mark.slow
def test_it_lies_on_all_devices(begun):
    other = learner(start_from=str(begun), num_devices=2)
    fresh = other.init(jax.random.key(5))
    state = beginning(other)(fresh)
    assert [leaf.sharding for leaf in jax.tree.leaves(state)] == [leaf.sharding for leaf in jax.tree.leaves(fresh)]
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state.params)} == {2}


def test_what_cannot_be_begun_with_is_one_line(begun, tmp_path):
    with pytest.raises(UserError, match=r"^start_from .*first: its networks are not those of this run; take the same"):
        beginning(learner(start_from=str(begun), hidden_sizes=(4,)))
    with pytest.raises(UserError, match="its networks are not those of this run"):
        beginning(learner(start_from=str(begun), env={"name": "deliveries_of_the_tests"}, network="attention"))
    with pytest.raises(
        UserError, match=r"^start_from .*: its activation is 'relu', and that of this run 'tanh'; set it"
    ):
        beginning(learner(start_from=str(begun), activation="tanh"))
    with pytest.raises(UserError, match=r"^start_from .*first: it has num_seeds 1, and each seed goes on from its own"):
        beginning(learner(start_from=str(begun), num_seeds=2))
    with pytest.raises(UserError, match=r"nowhere is no run folder"):
        beginning(learner(start_from=str(tmp_path / "nowhere")))


def test_a_dotted_path_is_imported_where_it_is_that_of_this_run_too(tmp_path):
    dotted = {"name": "tests.toy_environments:Errands"}
    run = begin_in(tmp_path / "first", learner(env=dotted))
    beginning(learner(start_from=str(run), env=dotted))
    other = learner(start_from=str(run))
    with pytest.raises(UserError, match=r"env\.name is 'tests.toy_environments:Errands', which would .*add --trust$"):
        beginning(other)
    launch.beginning(other, run, trust=True)

"""`start_from`: a run begins with the policy of another."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tests.toy_environments  # noqa: F401
from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS
from train.networks.growth import grown
from train.on_policy.actor_critic import Seen
from train.running.command import launch
from train.running.folder.checkpoint import Checkpoints
from train.running.folder.resume import RecordedRun
from train.running.folder.run_folder import CHECKPOINTS, RunFolder, write_configuration

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


def learner(**changes):
    algorithm = ALGORITHMS["mappo"]
    return algorithm.make_train(algorithm.config_class(**{**TINY, **changes}))


def beginning(of):
    return launch.beginning(of, of.config.start_from, trust=False)


@pytest.fixture(scope="module")
def first():
    return learner()


@pytest.fixture(scope="module")
def begun(first, tmp_path_factory):
    """The folder of a run that has saved the state that it began with: any policy will do."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    folder.mkdir()
    recorded = RecordedRun(first.config, "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / CHECKPOINTS).save(1, first.init(jax.random.key(0)), 0.0, recorded.values)
    return folder


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
    with pytest.raises(UserError, match=r"nowhere is no run folder") as error:
        beginning(learner(start_from=str(tmp_path / "nowhere")))
    assert "\n" not in str(error.value)


def darp_learner(**changes):
    sizes = {"name": "darp", "num_nodes": 8, "num_agents": 2, "instances": "cordeau", "limits": True}
    network = {"network": "attention", "attention_size": 8, "attention_heads": 2}
    return learner(**{**network, "env": {**sizes, **changes}})


def probabilities(of, params, instances):
    """Of the first choices of some instances, `f32[E, actions]`."""

    def first(params, instances):
        states, timestep = jax.vmap(of.env.reset_to)(instances)
        seen = Seen(timestep.observation, None, jax.vmap(of.env.static_entities)(states), timestep.entities, {})
        seen = jax.tree.map(lambda leaf: leaf[None], seen)
        logits, _ = of.actors.apply(params, seen, of.actors.initial_carry(3), jnp.zeros((1, 3), bool))
        return jax.nn.softmax(jnp.where(timestep.action_mask["vehicle"], logits["vehicle"][0], -1e9))

    return jax.jit(first)(params, instances)


@pytest.mark.slow
def test_what_the_other_run_did_not_see_counts_for_nothing_at_first():
    before, after = darp_learner(), darp_learner(prospects=True)
    params, fresh = (
        {"vehicle": jax.jit(of.actors.init, static_argnums=1)(jax.random.key(seed), "vehicle")}
        for seed, of in enumerate((before, after))
    )
    larger = grown(params, fresh, before.env, after.env)
    chex.assert_trees_all_equal_shapes(larger, fresh)
    instances = jax.jit(jax.vmap(before.env.generate))(jax.random.split(jax.random.key(2), 3))
    expected, *found = (
        probabilities(of, trained, instances) for of, trained in ((before, params), (after, larger), (after, fresh))
    )
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    assert abs(found[1] - expected).max() > 1e-3
    # A policy does not forget what it sees.
    chex.assert_trees_all_equal(grown(larger, params, after.env, before.env), larger)

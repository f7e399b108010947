"""Entities as flat vectors, and environments seen either way."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.entities import flat_box, flatten, seen_as
from jaxvrp.spaces import Feature
from tests.toy_environments import Deliveries, Reach


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("darp", num_nodes=6, num_agents=2, penalty_unvisited=7.0)


def test_a_flat_vector_is_the_context_and_the_features_of_all_entities_one_by_one():
    static = {"stop": np.array([[1.0, 2.0, 3.0]]), "cart": np.zeros((0, 2))}
    dynamic = {"stop": np.array([[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), "cart": np.array([[10.0, 11.0]])}
    flat = flatten(np.array([-2.0, -1.0]), static, dynamic)
    np.testing.assert_array_equal(flat, [-2, -1, *range(1, 12)])
    kinds = Deliveries().entity_kinds
    customers, drones = ((len(kind.static) + len(kind.dynamic)) * kind.count for kind in kinds)
    context = (Feature("clock", "a share", 0.0, 1.0), Feature("x", "a place"))
    box = flat_box(context, kinds)
    assert box.shape == (2 + customers + drones,) == (len(box.bounds),)
    assert box.bounds[:2] == ((0.0, 1.0), (-np.inf, np.inf))


def test_an_environment_is_seen_either_way(env):
    flat = seen_as(env, "flat")
    assert env.entity_kinds and not flat.entity_kinds
    assert seen_as(env, "entities") is env and seen_as(flat, "flat") is flat
    assert flat.parameters == {**env.parameters, "observation": "flat"}
    assert seen_as(flat, "entities") == env
    state, timestep = jax.jit(env.reset)(jax.random.key(0))
    _, of_flat = jax.jit(flat.reset)(jax.random.key(0))
    vector = flatten(timestep.observation["vehicle"][0], env.static_entities(state), timestep.entities)
    np.testing.assert_allclose(of_flat.observation["vehicle"][0], vector, atol=1e-6)
    assert of_flat.entities == {} and timestep.global_observation is None
    assert flat.roles["vehicle"].observation == flat_box(env.roles["vehicle"].context, env.entity_kinds)


def test_a_randomised_environment_is_seen_as_its_base_is(env):
    drawn = jaxvrp.randomize(env, {"penalty_unvisited": [5.0, 9.0]})
    flat = seen_as(drawn, "flat")
    assert flat.entity_kinds == () and flat.base == seen_as(env, "flat") and flat.ranges == drawn.ranges
    assert flat.roles == seen_as(env, "flat").roles
    with pytest.raises(ValueError, match=r"^Reach cannot be seen as entities"):
        seen_as(jaxvrp.randomize(Reach(), {"speed": [0.1, 0.2]}), "entities")


def test_what_cannot_be_seen_so_is_refused():
    with pytest.raises(ValueError, match=r"^Reach cannot be seen as entities; it has no parameter `observation`$"):
        seen_as(Reach(), "entities")
    with pytest.raises(ValueError, match=r"^Deliveries cannot be seen as flat; it has no parameter `observation`$"):
        seen_as(Deliveries(), "flat")
    assert seen_as(Reach(), "flat") == Reach()

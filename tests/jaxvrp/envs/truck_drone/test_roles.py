"""Roles follow from sizes: they agree with the observations, which are traced here."""

import jax
import pytest

import jaxvrp


@pytest.mark.parametrize("observation", ["flat", "entities"])
@pytest.mark.parametrize("scenario", ["truck_drone_basic", "vrpd_tw", "truck_drone_same_day"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (3, 2, 4), (4, 20, 10)])
def test_sizes_of_observations_are_those_of_traced_ones(scenario, observation, sizes):
    names = ("num_drones", "num_customers", "num_route_nodes")
    env = jaxvrp.make("truck_drone", scenario=scenario, observation=observation, **dict(zip(names, sizes, strict=True)))
    traced = jax.eval_shape(lambda key: env.observation(env.init_state(env.generate(key))), jax.random.key(0))
    roles = {name: (role.num_agents, *role.observation.shape) for name, role in env.roles.items()}
    assert roles == {name: array.shape for name, array in traced.items()}

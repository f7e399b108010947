"""What the tests of the contract share: small environments, and a rollout of random legal actions."""

import jax
import pytest

import jaxvrp
from jaxvrp.actor import sample_masked
from tests.toy_environments import Reach


@pytest.fixture(scope="session")
def reach():
    return Reach()


@pytest.fixture(scope="session")
def env():
    return jaxvrp.make("truck_drone", num_drones=2, num_customers=2, num_route_nodes=3, max_steps=12)


@pytest.fixture(scope="session")
def reset(env):
    return jax.jit(env.reset)


@pytest.fixture(scope="session")
def step(env):
    return jax.jit(env.step)


@pytest.fixture(scope="session")
def rollout():
    """`rollout(env, key, num_steps)` of random legal actions: states and timesteps, leading axis `[num_steps]`."""

    def play(env, key, num_steps):
        def advance(carry, key):
            state, mask = carry
            draw = jax.random.uniform
            action = {name: sample_masked(draw(key, rows.shape[:1]), rows) for name, rows in mask.items()}
            state, timestep = env.step(state, action)
            return (state, timestep.action_mask), (state, timestep)

        reset_key, play_key = jax.random.split(key)
        state, timestep = env.reset(reset_key)
        return jax.lax.scan(advance, (state, timestep.action_mask), jax.random.split(play_key, num_steps))[1]

    return play

"""What the tests of the adapters share: a team of agents of one kind, and an environment played by hand."""

import jax
import numpy as np
import pytest

import jaxvrp
from tests.toy_environments import Team


@pytest.fixture(scope="session")
def team():
    return Team


@pytest.fixture(scope="session")
def darp():
    return jaxvrp.make("darp", num_nodes=4, num_agents=2)


@pytest.fixture(scope="session")
def by_hand():
    """`by_hand(env, random, actions)`: timesteps of `env.reset` and `env.step` on the next instance of `random`."""

    def play(env, random, actions):
        reset, step = jax.jit(env.reset), jax.jit(env.step)
        state, timestep = reset(jax.random.key(random.integers(2**32, dtype=np.uint32)))
        timesteps = [timestep]
        for action in actions:
            state, timestep = step(state, action)
            timesteps.append(timestep)
        return jax.device_get(timesteps)

    return play

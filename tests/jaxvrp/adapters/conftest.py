"""What the tests of the adapters share: a team of agents of one kind, and an environment played by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import jaxvrp
from jaxvrp import Environment, Role
from jaxvrp.spaces import Box, Discrete


@struct.dataclass
class Field:
    """`goal` `f32[agents]`, `present` `bool[agents]`, `place` `f32[agents]`, counts `i32[]`."""

    goal: jax.Array
    present: jax.Array
    place: jax.Array
    step: jax.Array
    invalid: jax.Array


class Team(Environment):
    """Agents of one role walk to a goal each: by `Discrete(3)` (left, stay, right) or `Box(-1, 1)`; some are void.

    Left is forbidden at the beginning. Agents that are there end the episode; after `max_steps` it is truncated.
    """

    num_agents: int = struct.field(pytree_node=False, default=3)
    discrete: bool = struct.field(pytree_node=False, default=True)
    max_steps: int = struct.field(pytree_node=False, default=6)

    @property
    def roles(self):
        action = Discrete(3) if self.discrete else Box(-1.0, 1.0, (1,))
        return {"walker": Role(self.num_agents, Box(-20.0, 20.0, (2,)), action)}

    @property
    def max_episode_steps(self):
        return self.max_steps

    @property
    def truncates(self):
        return True

    def generate(self, key):
        goal = jax.random.uniform(key, (self.num_agents,), jnp.float32, 1.5, 9.0)
        present = jnp.arange(self.num_agents) < 1 + (goal[0] * 1e4).astype(jnp.int32) % self.num_agents
        return goal, present

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        return Field(*instance, jnp.zeros(self.num_agents, jnp.float32), zero, zero)

    def transition(self, state, action, num_invalid):
        walk = action["walker"].reshape(self.num_agents).astype(jnp.float32) - (1.0 if self.discrete else 0.0)
        return state.replace(place=state.place + walk, step=state.step + 1, invalid=state.invalid + num_invalid)

    def observation(self, state):
        return {"walker": jnp.stack([state.place, state.goal - state.place], axis=1)}

    def global_observation(self, state):
        return jnp.concatenate([state.place, state.goal])

    def action_mask(self, state):
        left = jnp.broadcast_to(state.step > 0, (self.num_agents,))
        always = jnp.ones(self.num_agents, bool)
        return {"walker": jnp.stack([left, always, always], axis=1)} if self.discrete else {}

    def fallback(self, mask):
        stay = jnp.ones(self.num_agents, jnp.int32) if self.discrete else jnp.zeros((self.num_agents, 1), jnp.float32)
        return {"walker": stay}

    def reward(self, state):
        return {"walker": -jnp.abs(state.goal - state.place)}

    def is_terminal(self, state):
        return (jnp.abs(state.goal - state.place) < 1.0).any()

    def is_truncated(self, state):
        return state.step >= self.max_steps

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "gap": state.goal - state.place}

    def valid(self, state):
        return {"walker": state.present}


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

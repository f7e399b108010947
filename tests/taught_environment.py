"""A toy with a teacher, in a module of its own: a toolbox belongs to all environments of a module."""

import jax
import jax.numpy as jnp

import jaxvrp
from jaxvrp import Toolbox
from tests.toy_environments import Deliveries


class NearestActor:
    """Every agent goes to the customer that waits nearest to it, whether that is allowed or not, else it stays."""

    def __init__(self, env):
        self.num_customers = env.num_customers

    def init(self, num_envs):
        del num_envs
        return ()

    def act(self, key, carry, state, timestep):
        del key, timestep
        return jax.vmap(self.choose)(state), carry

    def choose(self, state):
        """Actions `{role: i32[agents]}` in one state."""
        away = jnp.abs(state.position[:, None] - state.errand.place).sum(axis=-1)
        nearest = jnp.argmin(jnp.where(state.waiting, away, jnp.inf), axis=1)
        chosen = jnp.where(state.waiting.any(), 1 + nearest, 0).astype(jnp.int32)
        return {"truck": chosen[:1], "drone": chosen[1:]}


class RoundsActor:
    """All visit the customers one after the other, again and again, by how often they have acted."""

    def __init__(self, env):
        self.num_customers = env.num_customers

    def init(self, num_envs):
        return jnp.zeros(num_envs, jnp.int32)

    def act(self, key, carry, state, timestep):
        del key, state, timestep
        chosen = (1 + carry % self.num_customers)[:, None]
        return {"truck": chosen, "drone": jnp.repeat(chosen, 2, axis=1)}, carry + 1


class TaughtDeliveries(Deliveries):
    """`Deliveries`, whose toolbox has a baseline, and a planner."""


TOOLBOX = Toolbox(baselines={"nearest": NearestActor}, planners={"rounds": RoundsActor})
jaxvrp.register("taught_of_the_tests", TaughtDeliveries, toolbox=TOOLBOX)

"""What the tests of the contract share: small environments, and a rollout of random legal actions."""

import jax
import jax.numpy as jnp
import pytest
from flax import struct

import jaxvrp
from jaxvrp import Environment, Role
from jaxvrp.actor import sample_masked
from jaxvrp.spaces import Box, Discrete


@struct.dataclass
class Course:
    """`target` `f32[2]`, `length` `i32[]` steps."""

    target: jax.Array
    length: jax.Array


@struct.dataclass
class Track:
    """`position` `f32[2, 2]`, `call` `f32[]`, counts `i32[]`, and a typed key: its dynamics are stochastic."""

    course: Course
    position: jax.Array
    call: jax.Array
    step: jax.Array
    invalid: jax.Array
    key: jax.Array


class Reach(Environment):
    """All that the contract allows, in little: a continuous and a discrete role, void rows, noise, both kinds of end.

    Two movers slide towards a target by `Box(-1, 1)`; a caller with `Discrete(3)` makes them faster. Instances last 2
    to 7 steps; after `max_steps` an episode is truncated.
    """

    speed: float = 0.1
    noise: float = 0.01
    max_steps: int = struct.field(pytree_node=False, default=5)

    @property
    def roles(self):
        return {
            "mover": Role(2, Box(-jnp.inf, jnp.inf, (4,)), Box(-1.0, 1.0, (2,))),
            "caller": Role(1, Box(0.0, 1.0, (1,)), Discrete(3)),
        }

    @property
    def max_episode_steps(self):
        return self.max_steps

    @property
    def truncates(self):
        return True

    def generate(self, key):
        target, length = jax.random.split(key)
        return Course(
            target=jax.random.uniform(target, (2,), jnp.float32, -1.0, 1.0),
            length=jax.random.randint(length, (), 2, 8, jnp.int32),
        )

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        call = jnp.zeros((), jnp.float32)
        return Track(instance, jnp.zeros((2, 2), jnp.float32), call, zero, zero, jax.random.key(0))

    def transition(self, state, action, num_invalid):
        key, noise_key = jax.random.split(state.key)
        call = action["caller"][0].astype(jnp.float32)
        noise = self.noise * jax.random.normal(noise_key, (2, 2), jnp.float32)
        position = state.position + self.speed * (1 + call) * action["mover"] + noise
        return Track(state.course, position, call, state.step + 1, state.invalid + num_invalid, key)

    def observation(self, state):
        target = jnp.broadcast_to(state.course.target, (2, 2))
        clock = state.step.astype(jnp.float32) / self.max_steps
        return {"mover": jnp.concatenate([state.position, target], axis=1), "caller": clock.reshape(1, 1)}

    def global_observation(self, state):
        return jnp.concatenate([state.position.ravel(), state.course.target])

    def action_mask(self, state):
        return {"caller": jnp.stack([jnp.array(True), state.step % 2 == 0, jnp.array(True)])[None]}

    def reward(self, state):
        gap = jnp.abs(state.position - state.course.target).sum(axis=1)
        return {"mover": -gap, "caller": -state.call[None]}

    def is_terminal(self, state):
        return state.step >= state.course.length

    def is_truncated(self, state):
        return state.step >= self.max_steps

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "place": state.position[:, 0]}

    def valid(self, state):
        return {"mover": jnp.stack([jnp.array(True), state.course.length % 2 == 0])}


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
        def one(carry, key):
            state, mask = carry
            draw = jax.random.uniform
            action = {name: sample_masked(draw(key, rows.shape[:1]), rows) for name, rows in mask.items()}
            state, timestep = env.step(state, action)
            return (state, timestep.action_mask), (state, timestep)

        reset_key, play_key = jax.random.split(key)
        state, timestep = env.reset(reset_key)
        return jax.lax.scan(one, (state, timestep.action_mask), jax.random.split(play_key, num_steps))[1]

    return play

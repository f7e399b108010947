"""What the tests of the learners share: a tiny environment, tiny trainers, what they play, and a way onto the mesh."""

import dataclasses
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jax.sharding import PartitionSpec as P

import jaxvrp
from jaxvrp import Environment, Role
from jaxvrp.spaces import Box, Discrete

with warnings.catch_warnings():
    # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import distrax  # noqa: F401

from train.on_policy.config import PPOConfig
from train.on_policy.trainer import make_train
from train.on_policy.value_norm import ValueNorm
from train.sharding import make_mesh, shard

UNBOUNDED = (-float("inf"), float("inf"))


@struct.dataclass
class Errand:
    """`length` `i32[]` steps, 3 to 6; `wind` `f32[]` in [-1, 1)."""

    length: jax.Array
    wind: jax.Array


@struct.dataclass
class Out:
    """`position` `f32[3]` of truck and drones; `step` and `invalid` `i32[]`."""

    errand: Errand
    position: jax.Array
    step: jax.Array
    invalid: jax.Array


class Toy(Environment):
    """Compiles at once, and yet no two agents or steps are alike: own rewards, moving masks, void rows, ragged ends.

    Attributes:
        cut: episodes of odd length are truncated.
    """

    cut: bool = struct.field(pytree_node=False, default=False)

    @property
    def roles(self):
        return {
            "truck": Role(1, Box(*UNBOUNDED, (3,)), Discrete(4)),
            "drone": Role(2, Box(*UNBOUNDED, (4,)), Discrete(3)),
        }

    @property
    def max_episode_steps(self):
        return 6

    @property
    def truncates(self):
        return self.cut

    def generate(self, key):
        length, wind = jax.random.split(key)
        return Errand(jax.random.randint(length, (), 3, 7, jnp.int32), jax.random.uniform(wind, (), minval=-1.0))

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        return Out(instance, jnp.array([0.0, 0.5, -0.5], jnp.float32), zero, zero)

    def transition(self, state, action, num_invalid):
        push = jnp.concatenate([action["truck"], action["drone"]]).astype(jnp.float32)
        position = 0.7 * state.position + push + state.errand.wind
        return Out(state.errand, position, state.step + 1, state.invalid + num_invalid)

    def observation(self, state):
        around = jnp.stack([state.errand.wind, state.step.astype(jnp.float32)])
        drones = state.position[1:]
        drone = jnp.concatenate([drones[:, None], drones[::-1, None], jnp.tile(around, (2, 1))], axis=1)
        return {"truck": jnp.concatenate([state.position[:1], around])[None], "drone": drone}

    def global_observation(self, state):
        return jnp.concatenate([state.position, jnp.stack([state.errand.wind, state.step.astype(jnp.float32)])])

    def action_mask(self, state):
        def rows(first, agents, actions):
            numbers = first + jnp.arange(agents)[:, None] + jnp.arange(actions) * (1 + state.errand.length)
            return ((numbers + state.step) % 3 == 1).at[:, 0].set(True)

        return {"truck": rows(0, 1, 4), "drone": rows(1, 2, 3)}

    def reward(self, state):
        return {"truck": -state.position[:1], "drone": state.position[1:] * jnp.array([0.5, 2.0])}

    def _over(self, state):
        return state.step >= state.errand.length

    def is_terminal(self, state):
        return self._over(state) & ~self.is_truncated(state)

    def is_truncated(self, state):
        return self._over(state) & self.cut & (state.errand.length % 2 == 1)

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "place": state.position[1:]}

    def valid(self, state):
        return {"drone": jnp.stack([jnp.array(True), state.errand.wind > -0.5])}


jaxvrp.register("toy_of_the_tests", Toy)


@struct.dataclass
class Experience:
    """One rollout, the second of a run, so that it begins in the middle of episodes.

    Attributes:
        params: of the networks; noise.
        start, end: players before and after.
        key: what `Rollout.play` was given.
        transitions, carries, episodes: what it returned.
        last_value: the bootstrap.
    """

    params: Any
    start: Any
    end: Any
    key: jax.Array
    transitions: Any
    carries: Any
    episodes: Any
    last_value: Any


@dataclasses.dataclass(frozen=True)
class Learner:
    """A trainer and its `Experience`."""

    trainer: Any
    played: Experience


@pytest.fixture(scope="module")
def quick_compilation():
    """From here on in the module, programs compile in half the time, and run slower."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def quick_jit():
    """`jax.jit` that compiles in half the time, to slower code."""
    return functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(scope="session")
def on_mesh(quick_jit):
    """`on_mesh(f)`: `f` jitted on a mesh of one device, where sums over devices may be taken."""
    mesh = make_mesh(1)
    return lambda function: quick_jit(shard(function, mesh, P(), P()))


@pytest.fixture(scope="session")
def config():
    """`config(**changes)`: a tiny configuration."""

    def build(cut=False, **changes):
        tiny = {"num_envs": 4, "num_devices": 1, "rollout_length": 12, "chunk_length": 4, "hidden_sizes": (8,)}
        tiny |= {"recurrent_size": 6, "num_epochs": 1, "num_minibatches": 2, "total_steps": 96, "eval_episodes": 4}
        tiny["env"] = {"name": "toy_of_the_tests", "cut": cut}
        return PPOConfig(**{**tiny, **changes})

    return build


@pytest.fixture(scope="session")
def learner(config, on_mesh):
    """`learner(**changes)`: a `Learner`, made once per configuration."""
    made = {}

    def make(**changes):
        name = repr(sorted(changes.items(), key=str))
        if name not in made:
            made[name] = _play(make_train(config(**changes)), on_mesh)
        return made[name]

    return make


@pytest.fixture(scope="session")
def fresh_norm():
    """Statistics that have seen nothing, for both roles."""
    return {"truck": ValueNorm.create(), "drone": ValueNorm.create()}


def _play(trainer, on_mesh):
    def body(params, key):
        def play(start, key):
            end, transitions, carries, episodes = trainer.rollout.play(params, start, key)
            return end, Experience(params, start, end, key, transitions, carries, episodes, {})

        reset_key, key = jax.random.split(key)
        end, both = jax.lax.scan(play, trainer.rollout.reset(reset_key), jax.random.split(key))
        second = jax.tree.map(lambda leaf: leaf[1], both)
        return second.replace(last_value=trainer.rollout.bootstrap(params, end))

    key = jax.random.key(7)
    return Learner(trainer, on_mesh(body)(_noise(jax.eval_shape(trainer.init, key).params), key))


def _noise(shapes):
    """Parameters of the given shapes: no policy is nearly uniform, no scale is 1 and no bias 0."""
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        center = 1.0 if path[-1].key == "scale" else 0.0
        return jnp.asarray(rng.normal(center, 0.4, leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)

"""All that an accelerator runs is lowered for one, without one: no call of the host, no 64-bit number, no sort."""

import re

import jax
import jax.numpy as jnp
import pytest

import jaxvrp
import tests.toy_environments  # noqa: F401 (registers them)
from benchmarks.measuring.subject import subject_of
from jaxvrp import VecEnv
from train import make_train
from train.algorithms import ALGORITHMS

PLATFORMS = ("cuda", "tpu")
KEY = jax.eval_shape(lambda: jax.random.key(0))
FORBIDDEN = {"callback": r"callback", "64-bit float": r"\bf64\b|xf64\b", "sort": r"\bstablehlo\.sort\b"}

TOY, SEEN, WALK = ({"name": f"{name}_of_the_tests"} for name in ("toy", "deliveries", "line_walk"))
"""Steps of what ships are lowered by themselves: learners need an environment of each kind, and the cheapest."""

SMALL = {"num_envs": 4, "rollout_length": 4, "num_devices": 1, "hidden_sizes": (8,), "total_steps": 160}
LEARNERS = {
    "mappo mlp": ("mappo", {"env": TOY, "network": "mlp"}),
    "mappo gru": ("mappo", {"env": TOY, "network": "gru", "chunk_length": 2}),
    "mappo attention": ("mappo", {"env": SEEN, "network": "attention"}),
    "ippo": ("ippo", {"env": TOY, "network": "mlp"}),
    "td3": ("td3", {"env": WALK, "batch_size": 8, "gradient_steps": 2, "buffer_size": 400, "random_steps": 32}),
    "sac": ("sac", {"env": WALK, "batch_size": 8, "gradient_steps": 2, "buffer_size": 400, "random_steps": 32}),
}


def found_in(function, *arguments, platforms=PLATFORMS):
    """How often each of `FORBIDDEN` stands in a jitted function, lowered for all `platforms`."""
    text = function.trace(*arguments).lower(lowering_platforms=platforms).as_text()
    return {name: count for name, pattern in FORBIDDEN.items() if (count := len(re.findall(pattern, text)))}


def test_what_is_forbidden_is_found():
    host = jax.ShapeDtypeStruct((), jnp.float32)

    def forbidden(x):
        return jnp.sort(jax.pure_callback(lambda x: x, host, x)[None])

    # On a TPU a callback is an error by itself.
    assert found_in(jax.jit(forbidden), jnp.ones(()), platforms=("cpu",)).keys() == {"callback", "sort"}
    with jax.enable_x64(True):
        assert found_in(jax.jit(lambda x: x + 1), jnp.ones((), jnp.float64)).keys() == {"64-bit float"}


@pytest.mark.parametrize("name", jaxvrp.registered())
def test_steps_and_resets_lower_for_accelerators(name):
    subject = subject_of(name)
    env = jaxvrp.make(name, **(subject.parameters(subject.tiny) if subject.tiny else {}))
    vec = VecEnv(env, 4)
    state, _ = jax.eval_shape(vec.reset, KEY)
    action = {
        role: jax.ShapeDtypeStruct((4, each.num_agents, *each.action.shape), each.action.dtype)
        for role, each in env.roles.items()
    }
    assert not found_in(jax.jit(vec.step), state, action)
    assert not found_in(jax.jit(vec.reset_to), jax.eval_shape(vec.generate, KEY), KEY)


@pytest.mark.slow("mappo gru", "ippo", "sac", "mappo mlp")
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_lowers_for_accelerators(name):
    """The only sort is that of `jax.random.permutation`, which shuffles the environments of an epoch."""
    algorithm, keys = LEARNERS[name]
    trainer = make_train(ALGORITHMS[algorithm].config_class(**SMALL | keys))
    found = found_in(trainer.train_chunk.func, trainer.config.numbers, jax.eval_shape(trainer.init, KEY))
    assert found == ({"sort": 1} if algorithm in ("mappo", "ippo") else {})

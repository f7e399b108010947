"""`to_gymnax`: gymnax's contract, as PureJaxRL plays it, and the environment played by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture(scope="module")
def to_gymnax():
    """The adapter; imported here, as gymnax is optional, and every process of the tests collects this file."""
    pytest.importorskip("gymnax", reason="the extra is not installed: pip install -e '.[gymnax]'")
    from jaxvrp.adapters.gymnax import to_gymnax

    return to_gymnax


@pytest.fixture(scope="module")
def alone(team):
    return team(num_agents=1, max_steps=4)


@pytest.fixture(scope="module")
def face(to_gymnax, alone):
    return to_gymnax(alone)


def test_it_is_an_environment_of_gymnax(face, alone, to_gymnax, team):
    from gymnax.environments import environment, spaces

    assert isinstance(face, environment.Environment)
    assert (face.name, face.num_actions) == ("Team", 3)
    assert face.default_params is alone
    action, seen = face.action_space(face.default_params), face.observation_space(face.default_params)
    assert (type(action), action.n) == (spaces.Discrete, 3)
    assert (type(seen), seen.shape, seen.low, seen.high) == (spaces.Box, (2,), -20.0, 20.0)
    sliding = to_gymnax(team(num_agents=1, discrete=False)).action_space()
    assert (type(sliding), sliding.shape, sliding.low) == (spaces.Box, (1,), -1.0)


def test_it_plays_what_the_environment_plays_and_begins_again(face, alone):
    params, key = face.default_params, jax.random.key(3)
    seen, state = face.reset(key, params)
    reset, step = jax.jit(alone.reset), jax.jit(alone.step)
    truth, expected = reset(key)
    random, ends = np.random.default_rng(0), 0
    for time in range(20):
        np.testing.assert_allclose(seen, expected.observation["walker"][0], atol=1e-6)
        np.testing.assert_array_equal(face.action_mask(state, params), expected.action_mask["walker"][0])
        action, own = random.integers(3), jax.random.key(100 + time)
        seen, state, reward, done, info = face.step(own, state, action, params)
        truth, expected = step(truth, {"walker": jnp.array([action], jnp.int32)})
        assert reward == pytest.approx(float(expected.reward["walker"][0]))
        assert (bool(info["terminated"]), bool(info["truncated"])) == (expected.terminated, expected.truncated)
        assert bool(done) == bool(expected.done)
        np.testing.assert_allclose(info["final_observation"], expected.observation["walker"][0], atol=1e-6)
        np.testing.assert_allclose(info["gap"], expected.metrics["gap"], atol=1e-6)
        if expected.done:
            ends += 1
            truth, expected = reset(jax.random.split(own)[1])
    assert ends >= 3


def test_truncation_can_be_told_apart_and_raw_keys_are_taken(to_gymnax, alone, face):
    separate = to_gymnax(alone, separate_truncation=True)
    seen, state = separate.reset(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(seen, face.reset(jax.random.key(0))[0])
    for _ in range(4):
        _, state, _, terminated, truncated, _ = separate.step(jax.random.PRNGKey(1), state, 1)
    assert (bool(terminated), bool(truncated)) == (False, True)


@pytest.mark.slow
def test_a_program_of_purejaxrls_form_runs_and_its_parameters_can_be_mapped(to_gymnax, darp):
    """Reset and step under `vmap` and `scan`, four speeds at once."""
    env = to_gymnax(darp)
    speeds = jnp.array([1.0, 10.0, 25.0, 100.0])
    params = jax.vmap(lambda speed: env.default_params.replace(vehicle_speed=speed))(speeds)
    key = jax.random.key(0)

    def rollout(params):
        def step(carry, key):
            state, _ = carry
            mask = env.action_mask(state, params)
            seen, state, reward, done, info = env.step(key, state, mask.astype(jnp.int32).argmax(), params)
            return (state, seen), (reward, done, info["invalid_actions"])

        seen, state = env.reset(key, params)
        return jax.lax.scan(step, (state, seen), jax.random.split(key, 10))[1]

    rewards, dones, invalid = jax.jit(jax.vmap(rollout))(params)
    assert rewards.shape == dones.shape == (4, 10)
    assert dones.any(axis=1).all()
    assert not invalid.any()


def test_mistakes_are_one_clear_line(to_gymnax, face, env, team):
    with pytest.raises(ValueError, match=r"gymnax knows one agent, TruckDroneBasic has 3; use .*to_jaxmarl"):
        to_gymnax(env)
    with pytest.raises(ValueError, match="Team has 3"):
        to_gymnax(team())
    _, state = face.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=r"action of walker_0 is 0\.5; it needs int32"):
        face.step(jax.random.key(0), state, 0.5)
    for index in (-1, 3, 2**32, 10**30):
        assert face.step(jax.random.key(0), state, index)[4]["invalid_actions"] == 1

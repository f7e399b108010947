"""`to_gymnax`: gymnax's contract, as PureJaxRL plays it, and the environment played by hand."""

import copy
import pickle

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
    assert face.default_params.env is alone
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
        action, key = random.integers(3), jax.random.key(100 + time)
        seen, state, reward, terminated, truncated, info = face.step(key, state, action, params)
        truth, expected = step(truth, {"walker": jnp.array([action], jnp.int32)})
        assert reward == pytest.approx(float(expected.reward["walker"][0]))
        assert (bool(terminated), bool(truncated)) == (expected.terminated, expected.truncated)
        assert (bool(info["terminated"]), bool(info["truncated"])) == (expected.terminated, expected.truncated)
        for observed in (face.get_obs(state), face.get_obs(state, params), face.observe(key, state, action, params)):
            np.testing.assert_array_equal(observed, seen)
        np.testing.assert_allclose(info["final_observation"], expected.observation["walker"][0], atol=1e-6)
        np.testing.assert_allclose(info["gap"], expected.metrics["gap"], atol=1e-6)
        if expected.done:
            ends += 1
            truth, expected = reset(jax.random.split(key)[1])
    assert ends >= 3


def test_truncation_may_be_told_as_an_end_and_raw_keys_are_taken(to_gymnax, alone, face):
    together = to_gymnax(alone, separate_truncation=False)
    seen, state = together.reset(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(seen, face.reset(jax.random.key(0))[0])
    for _ in range(4):
        _, state, _, done, info = together.step(jax.random.PRNGKey(1), state, 1)
    assert (bool(done), bool(info["terminated"]), bool(info["truncated"])) == (True, False, True)


def test_parameters_are_those_of_the_environment_and_say_how_long_an_episode_lasts(to_gymnax, darp):
    env = to_gymnax(darp)
    for params in (copy.deepcopy(env.default_params), pickle.loads(pickle.dumps(env.default_params))):
        assert params == env.default_params
        assert params.max_steps_in_episode == darp.max_episode_steps
        assert params.replace(vehicle_speed=50.0).vehicle_speed == 50.0 != params.vehicle_speed == darp.vehicle_speed
    with pytest.raises(ValueError, match=r"parameter of Darp: .*vehicle_sped"):
        env.default_params.replace(vehicle_sped=1.0)


def by_hand(alone, key, actions):
    """What `LogWrapper` counts: rewards paid since the last end, at each end, where actions are drawn beforehand."""
    reset, step = jax.jit(alone.reset), jax.jit(alone.step)
    state, _ = reset(key)
    returns, total = [], 0.0
    for step_key, action in actions:
        state, timestep = step(state, {"walker": jnp.array([action], jnp.int32)})
        total += float(timestep.reward["walker"][0])
        if timestep.done:
            returns.append(total)
            state, total = reset(jax.random.split(step_key)[1])[0], 0.0
    return returns


def test_the_wrappers_of_gymnax_take_it(face, alone):
    from gymnax import wrappers

    random, key = np.random.default_rng(0), jax.random.key(3)
    actions = [(jax.random.key(100 + time), int(random.integers(3))) for time in range(20)]
    truth = by_hand(alone, key, actions)
    logged = wrappers.LogWrapper(wrappers.FlattenObservationWrapper(wrappers.StickyActionWrapper(face)))
    legacy = wrappers.LegacyStepAPIWrapper(face)
    _, state = logged.reset(key, face.default_params)
    _, plain = legacy.reset(key, face.default_params)
    returns = []
    for step_key, action in actions:
        _, state, _, terminated, truncated, info = logged.step(step_key, state, action, face.default_params)
        _, plain, _, done, _ = legacy.step(step_key, plain, action)
        assert done == (terminated | truncated) == info["returned_episode"]
        if done:
            returns.append(float(info["returned_episode_returns"]))
    np.testing.assert_allclose(returns, truth, rtol=1e-6)
    dm = wrappers.GymnaxToDmEnvWrapper(face)
    begun = dm.reset(key)
    assert dm.step(actions[0][0], begun, actions[0][1]).discount == 1.0
    for played in (wrappers.GymnaxToGymWrapper(face), wrappers.GymnaxToVectorGymWrapper(face, 2)):
        seen, _ = played.reset(seed=0)
        assert played.observation_space.contains(np.asarray(seen))
        assert len(played.step(played.action_space.sample())) == 5


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
            seen, state, reward, ended, cut, info = env.step(key, state, mask.astype(jnp.int32).argmax(), params)
            return (state, seen), (reward, ended | cut, info["invalid_actions"])

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
        assert face.step(jax.random.key(0), state, index)[5]["invalid_actions"] == 1

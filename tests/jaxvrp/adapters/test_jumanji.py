"""`to_jumanji`: Jumanji's own checks and wrappers, and the environment played by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from tests.toy_environments import Errands, LineWalk


@pytest.fixture(scope="module")
def to_jumanji():
    """The adapter; imported here, as Jumanji is optional, and every process of the tests collects this file."""
    pytest.importorskip("jumanji", reason="the extra is not installed: pip install -e '.[jumanji]'")
    from jaxvrp.adapters.jumanji import to_jumanji

    return to_jumanji


CASES = {
    "team": lambda team: team(num_agents=3, max_steps=4),
    "alone": lambda team: team(num_agents=1, max_steps=4),
    "sliding team": lambda team: team(num_agents=3, max_steps=4, discrete=False),
    "sliding alone": lambda team: team(num_agents=1, max_steps=4, discrete=False),
    "two roles of different sizes": lambda team: Errands(),
    "another box": lambda team: LineWalk(remembers=False),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def played(request, team):
    return request.param(team)


def test_the_checks_of_jumanji_pass(to_jumanji, played):
    from jumanji.testing.env_not_smoke import check_env_does_not_smoke, check_env_specs_does_not_smoke

    face = to_jumanji(played)
    assert face.num_agents == sum(role.num_agents for role in played.roles.values())
    assert face.time_limit == played.max_episode_steps
    check_env_does_not_smoke(face)
    check_env_specs_does_not_smoke(face)


@pytest.mark.parametrize("case", ["alone", "two roles of different sizes"])
def test_its_wrappers_for_gymnasium_and_dm_env_take_it(to_jumanji, team, case):
    from jumanji.wrappers import JumanjiToDMEnvWrapper, JumanjiToGymWrapper

    face = to_jumanji(CASES[case](team))
    env, dm = JumanjiToGymWrapper(face), JumanjiToDMEnvWrapper(face)
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    dm.reset()
    timestep = dm.step(env.action_space.sample())
    assert env.observation_space.contains(jax.tree.map(np.asarray, timestep.observation._asdict()))


def rows_by_hand(env, arrays):
    """`[agents, size]` from `{role: [agents, ...]}`, zeros at the end."""
    rows = [np.asarray(row) for name in env.roles for row in arrays[name]]
    size = max(row.size for row in rows)
    return np.array([np.pad(row, (0, size - row.size)) for row in rows])


class ByHand:
    """The environment, played as Jumanji's wrapper is to play the first of its batch; `key` begins an episode."""

    def __init__(self, env, key):
        self.env, self._reset, self._step = env, jax.jit(env.reset), jax.jit(env.step)
        self.begin(key)

    def begin(self, key):
        self.state, self.last = self._reset(jax.random.wrap_key_data(jax.random.split(key)[0]))

    def step(self, action):
        rows, start, joined = action.reshape(sum(role.num_agents for role in self.env.roles.values()), -1), 0, {}
        for name, role in self.env.roles.items():
            joined[name] = rows[start : start + role.num_agents].reshape(role.num_agents, *role.action.shape)
            start += role.num_agents
        self.state, self.last = self._step(self.state, joined)

    def assert_seen(self, observation):
        views, masks = observation.agents_view[0], getattr(observation, "action_mask", None)
        expected = rows_by_hand(self.env, self.last.observation)
        np.testing.assert_allclose(views.reshape(expected.shape), expected, atol=1e-6)
        assert (masks is None) == (not self.last.action_mask)
        if masks is not None:
            expected = rows_by_hand(self.env, self.last.action_mask)
            np.testing.assert_array_equal(masks[0].reshape(expected.shape), expected)


def test_with_its_auto_reset_it_plays_what_the_environment_plays(to_jumanji, played):
    from jumanji.wrappers import VmapAutoResetWrapper

    face, random, kinds = to_jumanji(played), np.random.default_rng(0), set()
    wrapped, space = VmapAutoResetWrapper(face, next_obs_in_extras=True), face.action_spec
    keys = jax.random.split(jax.random.PRNGKey(3), 2)
    state, timestep = jax.jit(wrapped.reset)(keys)
    assert (timestep.step_type == 0).all() and (timestep.discount == 1).all() and (timestep.reward == 0).all()
    truth, step = ByHand(played, keys[0]), jax.jit(wrapped.step)
    truth.assert_seen(timestep.observation)
    for _ in range(20):
        above = np.asarray(space.maximum) + (1 if space.dtype == jnp.int32 else 0)
        action = random.uniform(space.minimum, above, (2, *space.shape)).astype(space.dtype)
        truth.step(action[0])
        again = jax.random.split(state.key[0])[0]
        state, timestep = step(state, action)
        truth.assert_seen(timestep.extras["next_obs"])
        last = truth.last
        kinds.add((bool(last.terminated), bool(last.truncated)))
        assert timestep.reward[0] == pytest.approx(float(last.team_reward), abs=1e-6)
        assert (timestep.step_type[0], timestep.discount[0]) == (2 if last.done else 1, 0 if last.terminated else 1)
        for name, metric in last.metrics.items():
            np.testing.assert_allclose(timestep.extras[name][0], metric, atol=1e-6)
        if last.done:
            truth.begin(again)
        truth.assert_seen(timestep.observation)
    assert len(kinds) > 1


def test_keys_may_be_typed_and_states_are_drawn(to_jumanji):
    face = to_jumanji(jaxvrp.make("darp", num_nodes=4, num_agents=1))
    state, timestep = jax.jit(face.reset)(jax.random.key(0))
    np.testing.assert_array_equal(
        timestep.observation.agents_view, face.reset(jax.random.PRNGKey(0))[1].observation.agents_view
    )
    frame = face.render(state)
    assert (frame.dtype, frame.ndim, frame.shape[2]) == (np.uint8, 3, 3)


def test_mistakes_are_one_clear_line(to_jumanji, reach, team):
    with pytest.raises(ValueError, match=r"knows one kind of action, Reach has several; use .*to_jaxmarl"):
        to_jumanji(reach)
    face = to_jumanji(team())
    state, _ = face.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=r"action is 0\.5; it needs int32 of shape \(3,\)"):
        face.step(state, 0.5)
    with pytest.raises(ValueError, match=r"action has shape \(2,\); it needs \(3,\), one entry for each agent"):
        face.step(state, np.zeros(2, int))
    with pytest.raises(ValueError, match="nothing draws a state of Team"):
        face.render(state)
    alone = to_jumanji(team(num_agents=1))
    state, _ = alone.reset(jax.random.key(0))
    for index in (-1, 3, 2**32, 10**30):
        assert alone.step(state, index)[1].extras["invalid_actions"] == 1

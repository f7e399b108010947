"""Environments with JaxMARL's interface, by a stand-in of it that runs everywhere, and those of JaxMARL itself."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.adapters.from_jaxmarl import _made, from_jaxmarl
from jaxvrp.spaces import Box, Discrete

NAME = "jaxvrp.adapters.from_jaxmarl:JaxMarl"


class Lamps:
    """Two switches and a watcher: a lamp may be switched on once; the watcher's number is paid, and so is each lamp."""

    agents = ("switch_0", "watcher_0", "switch_1")
    max_steps = 3

    def observation_space(self, agent):
        return SimpleNamespace(shape=(2, 2) if agent == "watcher_0" else (3,))

    def action_space(self, agent):
        return SimpleNamespace(n=2) if agent != "watcher_0" else SimpleNamespace(low=-1.0, high=1.0, shape=(1,))

    def reset(self, key):
        state = {"lit": jnp.zeros(2, bool), "step": 0, "dim": jax.random.uniform(key)}
        return self.seen(state), state

    def seen(self, state):
        lit = state["lit"].astype(jnp.float32)
        switches = {f"switch_{i}": jnp.array([lit[0], lit[1], i]) for i in range(2)}
        return switches | {"watcher_0": jnp.stack([lit, lit]), "world_state": jnp.append(lit, state["dim"])}

    def get_avail_actions(self, state):
        return {f"switch_{i}": jnp.stack([state["lit"][i], ~state["lit"][i]]) for i in range(2)}

    def step_env(self, key, state, actions):
        del key
        lit = state["lit"] | jnp.stack([actions["switch_0"] == 1, actions["switch_1"] == 1])
        after = {"lit": lit, "step": state["step"] + 1, "dim": state["dim"]}
        rewards = {f"switch_{i}": 1.0 * (lit[i] & ~state["lit"][i]) for i in range(2)}
        done = after["step"] >= self.max_steps
        dones = dict.fromkeys((*self.agents, "__all__"), done)
        return self.seen(after), after, {**rewards, "watcher_0": actions["watcher_0"][0]}, dones, {}


def test_a_stand_in_is_an_environment_with_a_role_for_each_pair_of_spaces():
    env = from_jaxmarl(Lamps())
    jaxvrp.check_env(env, quiet=True)
    roles = {name: (role.num_agents, role.observation.shape, role.action) for name, role in env.roles.items()}
    assert roles == {"switch": (2, (3,), Discrete(2)), "watcher": (1, (4,), Box(-1.0, 1.0, (1,)))}
    state, timestep = jax.jit(env.reset)(jax.random.key(0))
    np.testing.assert_array_equal(timestep.action_mask["switch"], [[False, True], [False, True]])
    assert timestep.global_observation.shape == (3,) and timestep.global_observation[2] == state.inner["dim"]
    step, watch = jax.jit(env.step), {"watcher": np.float32([[0.5]])}
    state, timestep = step(state, {"switch": np.int32([1, 0]), **watch})  # 0 is not available, so 1 is played
    assert timestep.metrics["invalid_actions"] == 1
    assert timestep.reward["switch"].tolist() == [1, 1] and timestep.reward["watcher"].tolist() == [0.5]
    np.testing.assert_array_equal(timestep.observation["watcher"], [[1, 1, 1, 1]])
    total = timestep.team_reward
    for _ in range(2):
        state, timestep = step(state, {"switch": np.int32([0, 0]), **watch})
        total += timestep.team_reward
    assert timestep.terminated and total == pytest.approx((2 + 3 * 0.5) / 3)
    again, after = step(state, {"switch": np.int32([0, 0]), **watch})
    assert after.reward["watcher"] == 0 and again.inner["step"] == 3


def test_actions_are_legal_and_agents_see_each_other_where_nothing_is_said_of_it():
    plain = Lamps()
    plain.get_avail_actions = lambda state: (_ for _ in ()).throw(NotImplementedError())
    plain.seen = lambda state: {name: seen for name, seen in Lamps.seen(plain, state).items() if name in plain.agents}
    timestep = jax.jit(from_jaxmarl(plain).reset)(jax.random.key(0))[1]
    assert timestep.action_mask["switch"].all() and timestep.global_observation.shape == (3 + 4 + 3,)


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("MPE_simple_spread_v3", {"agent": (3, 18, 5)}),
        ("MPE_simple_speaker_listener_v4", {"speaker": (1, 3, 3), "listener": (1, 11, 5)}),
    ],
)
def test_environments_of_jaxmarl(name, roles):
    """An episode is the one that is played there."""
    jaxmarl = pytest.importorskip("jaxmarl", reason="JaxMARL is not installed; pip install -e '.[jaxmarl]'")
    env, there = jaxvrp.make(NAME, id=name), jaxmarl.make(name)
    _made.cache_clear()
    start = jax.jit(env.generate)(jax.random.key(3))  # made while it is traced
    found = {n: (r.num_agents, r.observation.shape[0], r.action.num_actions) for n, r in env.roles.items()}
    assert found == roles
    state, timestep = jax.jit(env.reset_to)(start)
    inner, step, step_there = start.inner, jax.jit(env.step), jax.jit(there.step_env)
    rng = np.random.default_rng(0)
    for _ in range(env.max_episode_steps):
        assert not timestep.done
        actions = {
            n: rng.integers(0, r.action.num_actions, r.num_agents).astype(np.int32) for n, r in env.roles.items()
        }
        of_agents = {agent: actions[n][row] for n, names in env.agents_of.items() for row, agent in enumerate(names)}
        seen, inner, rewards, dones, _ = step_there(jax.random.key(0), inner, of_agents)
        state, timestep = step(state, actions)
        for n, names in env.agents_of.items():
            for row, agent in enumerate(names):
                np.testing.assert_allclose(timestep.observation[n][row], seen[agent], 1e-5, 1e-6)
                np.testing.assert_allclose(timestep.reward[n][row], rewards[agent], 1e-5, 1e-6)
        assert bool(timestep.done) == bool(dones["__all__"])
    assert timestep.done


def test_an_unknown_name_is_refused():
    pytest.importorskip("jaxmarl", reason="JaxMARL is not installed; pip install -e '.[jaxmarl]'")
    with pytest.raises(ValueError, match="did you mean 'MPE_simple_spread_v3'"):
        jax.eval_shape(jaxvrp.make(NAME, id="MPE_simple_spred_v3").reset, jax.random.key(0))


def test_numbers_of_an_action_with_bounds_of_their_own_are_refused():
    uneven = Lamps()
    box = SimpleNamespace(low=np.float32([-1.0, 0.0]), high=np.float32([1.0, 1.0]), shape=(2,))
    uneven.action_space = lambda agent: box if agent == "watcher_0" else SimpleNamespace(n=2)
    with pytest.raises(ValueError, match=r"^the numbers of an action of watcher_0 have .*, low is \[-1.0, 0.0\]; give"):
        _ = from_jaxmarl(uneven).roles


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"max_steps": None}, "Odd has no max_steps, the most steps of an episode; set it"),
        ({"reset": None}, "Odd has no reset, as environments of JaxMARL have"),
        ({"agents": [0, 1]}, "Odd calls an agent 0; names of agents must be texts"),
        ({"observation_space": lambda self, agent: {}}, r"Odd: the observation space of switch_0 is {}; give a Box"),
    ],
)
def test_what_lacks_a_part_is_refused(changes, says):
    kept = {name: part for name, part in vars(Lamps).items() if name not in changes}
    odd = type("Odd", (), {**kept, **{name: part for name, part in changes.items() if part is not None}})
    with pytest.raises(ValueError, match=f"^{says}$"):
        from_jaxmarl(odd())


def test_a_space_of_so_many_numbers_is_a_vector():
    counted = Lamps()
    counted.observation_space = lambda agent: SimpleNamespace(shape=4 if agent == "watcher_0" else 3)
    assert from_jaxmarl(counted).roles["watcher"].observation.shape == (4,)

"""`to_jaxmarl`: the contract of JaxMARL's `MultiAgentEnv`, its own wrappers, and the environment played by hand."""

import importlib.util
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.io.command_line import UserError

AGENTS = {"truck_0": ("truck", 0), "drone_0": ("drone", 0), "drone_1": ("drone", 1)}
NUM_ACTIONS = {"truck_0": 8, "drone_0": 4, "drone_1": 4}


@pytest.fixture(scope="module")
def to_jaxmarl():
    """The adapter; imported here, as JaxMARL takes seconds, and every process of the tests collects this file."""
    pytest.importorskip("jaxmarl", reason="the extra is not installed: pip install -e '.[jaxmarl]'")
    from jaxvrp.adapters.jaxmarl import to_jaxmarl

    return to_jaxmarl


@pytest.fixture(scope="module")
def padded(to_jaxmarl, env):
    return to_jaxmarl(env, pad=True)


@pytest.fixture(scope="module")
def face(to_jaxmarl, env):
    return to_jaxmarl(env)


def test_it_is_an_environment_of_jaxmarl(face, env):
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

    assert isinstance(face, MultiAgentEnv)
    assert (face.agents, face.num_agents, face.name) == (list(AGENTS), 3, "TruckDroneBasic")
    assert face.agent_classes == {"truck": ["truck_0"], "drone": ["drone_0", "drone_1"]}
    assert {name: face.action_space(name).n for name in face.agents} == NUM_ACTIONS
    for name, (role, _) in AGENTS.items():
        assert face.observation_space(name).shape == env.roles[role].observation.shape


def test_it_plays_what_the_environment_plays_and_begins_again_with_its_key(face, env, reset, step):
    key = jax.random.key(3)
    seen, state = face.reset(key)
    truth, expected = reset(key)
    random, ends = np.random.default_rng(0), 0
    for time in range(30):
        for name, (role, row) in AGENTS.items():
            np.testing.assert_allclose(seen[name], expected.observation[role][row], atol=1e-6)
            mask = face.get_avail_actions(state)[name]
            np.testing.assert_array_equal(mask, expected.action_mask[role][row])
        np.testing.assert_allclose(seen["world_state"], expected.global_observation, atol=1e-6)
        actions = {name: jnp.int32(random.integers(number)) for name, number in NUM_ACTIONS.items()}
        step_key = jax.random.key(100 + time)
        seen, state, rewards, dones, infos = face.step(step_key, state, actions)
        by_role = {"truck": actions["truck_0"][None], "drone": jnp.stack([actions["drone_0"], actions["drone_1"]])}
        truth, expected = step(truth, by_role)
        np.testing.assert_allclose([*rewards.values()], [expected.reward["truck"][0]] * 3, atol=1e-5)
        assert {name: bool(done) for name, done in dones.items()} == dict.fromkeys(
            [*AGENTS, "__all__"], bool(expected.done)
        )
        np.testing.assert_array_equal(infos["customers_served"], [expected.metrics["customers_served"]] * 3)
        if expected.done:
            ends += 1
            truth, expected = reset(jax.random.split(step_key)[1])
    assert ends >= 2


def test_raw_keys_are_taken_as_well(face):
    typed, raw = face.reset(jax.random.key(1))[0], face.reset(jax.random.PRNGKey(1))[0]
    assert jax.tree.all(jax.tree.map(jnp.array_equal, typed, raw))


def test_padded_spaces_are_the_same_for_all(padded, face):
    assert {padded.observation_space(name).shape for name in AGENTS} == {face.observation_space("truck_0").shape}
    assert {padded.action_space(name).n for name in AGENTS} == {8}
    seen, state = padded.reset(jax.random.key(0))
    plain = face.reset(jax.random.key(0))[0]
    for name in AGENTS:
        np.testing.assert_array_equal(seen[name][: plain[name].size], plain[name])
        assert not seen[name][plain[name].size :].any()
        assert not padded.get_avail_actions(state)[name][NUM_ACTIONS[name] :].any()


def test_continuous_and_void_agents(to_jaxmarl, reach):
    face = to_jaxmarl(reach)
    masks, out = set(), set()
    for seed in range(6):
        _, state = face.reset(jax.random.key(seed))
        masks |= set(face.get_avail_actions(state))
        actions = {"mover_0": jnp.ones(2), "mover_1": jnp.ones(2), "caller_0": jnp.zeros(1, jnp.int32)}
        _, _, rewards, dones, infos = face.step(jax.random.key(0), state, actions)
        out.add(tuple(name for name, done in dones.items() if done))
        assert infos["place"].shape == (3,)
        assert rewards["mover_0"] < 0
    assert masks == {"caller_0"}
    assert out == {(), ("mover_1",)}


@pytest.mark.slow
def test_the_log_of_jaxmarl_counts_whole_episodes(face):
    from jaxmarl.wrappers.baselines import LogWrapper

    logged = LogWrapper(face)

    def step(carry, key):
        state, total = carry
        mask = face.get_avail_actions(state.env_state)
        actions = {name: jax.random.categorical(key, jnp.where(row, 0.0, -jnp.inf)) for name, row in mask.items()}
        _, state, rewards, dones, info = logged.step(key, state, actions)
        total = total + rewards["drone_0"]
        record = (dones["__all__"], info["returned_episode_returns"][1], total)
        return (state, jnp.where(dones["__all__"], 0.0, total)), record

    _, state = logged.reset(jax.random.key(0))
    start = (state, jnp.zeros((), jnp.float32))
    _, (done, returned, total) = jax.lax.scan(step, start, jax.random.split(jax.random.key(1), 40))
    assert done.sum() >= 3
    np.testing.assert_allclose(returned[done], total[done], rtol=1e-5)


@pytest.mark.slow
def test_the_manager_of_its_q_learners_runs_it(face):
    from jaxmarl.wrappers.baselines import CTRolloutManager

    manager = CTRolloutManager(face, batch_size=3)
    seen, state = manager.batch_reset(jax.random.PRNGKey(0))
    size = max(face.observation_space(name).shape[0] for name in AGENTS) + len(AGENTS)
    assert {seen[name].shape for name in AGENTS} == {(3, size)}
    actions = {name: manager.batch_sample(jax.random.PRNGKey(1), name) for name in AGENTS}
    seen, state, rewards, dones, _ = manager.batch_step(jax.random.PRNGKey(2), state, actions)
    np.testing.assert_allclose(rewards["__all__"], 3 * rewards["truck_0"], rtol=1e-6)
    assert dones["__all__"].shape == (3,)


@pytest.mark.slow
def test_the_manager_asks_for_masks_if_the_name_says_smax(to_jaxmarl, env):
    """Its rules for SMAX: available actions, the world state and one reward; else it draws from all actions."""
    from jaxmarl.wrappers.baselines import CTRolloutManager, LogWrapper

    face = to_jaxmarl(env, pad=True, name="smax_truck_drone")
    size = jax.eval_shape(env.reset, jax.random.key(0))[1].global_observation.size
    assert (face.name, face.num_allies, face.state_size) == ("smax_truck_drone", 3, size)
    manager = CTRolloutManager(LogWrapper(face), batch_size=2)
    plain = CTRolloutManager(LogWrapper(to_jaxmarl(env, pad=True)), batch_size=2)
    seen, state = manager.batch_reset(jax.random.PRNGKey(0))
    masks = manager.get_valid_actions(state.env_state)
    drawn = plain.get_valid_actions(state.env_state)
    assert seen["__all__"].shape == (2, face.state_size)
    for row in range(2):
        expected = face.get_avail_actions(jax.tree.map(lambda leaf, row=row: leaf[row], state.env_state))
        for name in AGENTS:
            np.testing.assert_array_equal(masks[name][row], expected[name])
            assert drawn[name][row].all()
    legal = {name: jnp.argmax(mask, axis=-1) for name, mask in masks.items()}
    _, _, rewards, _, infos = manager.batch_step(jax.random.PRNGKey(2), state, legal)
    np.testing.assert_allclose(rewards["__all__"], rewards["truck_0"], rtol=1e-6)
    assert not infos["invalid_actions"].any()


ILLEGAL = {
    "beyond 32 bits": np.int64(2**32),
    "beyond 64 bits": 10**30,
    "below": -1,
    "of the padding": 7,
    "unsigned": np.uint8(200),
}


@pytest.mark.parametrize("index", ILLEGAL.values(), ids=ILLEGAL)
@pytest.mark.slow("beyond 32 bits")
def test_an_index_outside_of_the_space_is_counted_and_never_wraps_around(padded, index):
    _, state = padded.reset(jax.random.key(0))
    for play in (padded.step, padded.step_env):
        actions = {"truck_0": 0, "drone_0": index, "drone_1": [0]}
        assert play(jax.random.key(1), state, actions)[4]["invalid_actions"].tolist() == [1, 1, 1]


MALFORMED = {
    "nothing": (None, TypeError, r"is None; it needs int32 of shape \(\)"),
    "text": ("a", TypeError, "is 'a'; it needs int32"),
    "part": (0.5, TypeError, "is 0.5; it needs int32"),
    "float": (jnp.float32(1), TypeError, "has dtype float32; it needs int32"),
    "two": (jnp.zeros(2, jnp.int32), ValueError, r"has shape \(2,\); it needs \(\)"),
}


@pytest.mark.parametrize(("action", "error", "message"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_index_is_refused_with_the_name_of_the_agent(face, action, error, message):
    _, state = face.reset(jax.random.key(0))
    for play in (face.step, face.step_env):
        with pytest.raises(error, match=f"^action of drone_0 {message}"):
            play(jax.random.key(1), state, {"truck_0": 0, "drone_0": action, "drone_1": 0})


def test_a_dtype_that_is_no_index_is_refused_when_a_step_is_traced(face):
    _, state = jax.eval_shape(face.reset, jax.random.key(0))
    actions = {"truck_0": jnp.int32(0), "drone_0": jnp.float32(0), "drone_1": jnp.int32(0)}
    with pytest.raises(TypeError, match="action of drone_0 has dtype float32"):
        jax.eval_shape(lambda state, actions: face.step(jax.random.key(0), state, actions), state, actions)


@pytest.mark.parametrize("actions", [None, [0, 0, 0], {"truck_0": 0}])
def test_actions_that_are_missing_are_named(face, actions):
    _, state = face.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"one action for each of \['truck_0', 'drone_0', 'drone_1'\]; got "):
        face.step(jax.random.key(1), state, actions)


@pytest.fixture(scope="module")
def example(to_jaxmarl):
    """The example for its baselines; it imports wandb, which is optional."""
    pytest.importorskip("wandb", reason="the extra is not installed: pip install -e '.[wandb]'")
    path = pathlib.Path(__file__).parents[3] / "docs" / "examples" / "jaxmarl_baselines.py"
    spec = importlib.util.spec_from_file_location("jaxmarl_baselines", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "vdn_rnn SEED=1",
            "there is no baselines/QLearning/config/config.yaml here; run this in the folder of a clone",
        ),
        ("ippo_ff_mpe SEEDS=1", "SEEDS=1: it must be KEY=VALUE, with a key of baselines/IPPO/config/ippo_ff_mpe.yaml"),
        ("ippo_ff_mpe SEED", "SEED: it must be KEY=VALUE"),
        ("ippo_ff_mpe SEED=", "SEED=: it must be KEY=VALUE"),
    ],
)
def test_a_mistake_in_the_example_for_its_baselines_is_one_line(example, words, says, tmp_path, monkeypatch):
    config = tmp_path / "baselines" / "IPPO" / "config" / "ippo_ff_mpe.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("SEED: 30\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["jaxmarl_baselines.py", *words.split()])
    with pytest.raises(UserError, match=says):
        example.main()


def test_the_example_for_its_baselines_knows_its_scripts(example, monkeypatch, capsys):
    for words in ([], ["vdn"]):
        monkeypatch.setattr(sys, "argv", ["jaxmarl_baselines.py", *words])
        with pytest.raises(SystemExit):
            example.main()
        assert "script" in capsys.readouterr().err.splitlines()[-1]


def test_the_example_for_its_baselines_tells_return_and_forbidden_actions(face, example):
    from jaxmarl.wrappers.baselines import LogEnvState

    keys = jax.random.split(jax.random.key(0), (1, 2))
    _, begun = jax.vmap(jax.vmap(face.reset))(keys)
    forbidden = begun.replace(totals=begun.totals.replace(invalid_actions=jnp.array([[3, 0]], jnp.int32)))
    nothing = jnp.zeros((1, 2, 3))
    returns, lengths = jnp.array([[[1.0, 2.0, 3.0], [9.0, 9.0, 9.0]]]), jnp.array([[[4, 4, 4], [0, 0, 0]]])
    log = LogEnvState(forbidden, nothing, nothing, returns, lengths)
    summary = example.summary("ippo_ff_mpe", face, {"runner_state": (None, log, nothing)})
    assert summary == "return 2.00, forbidden actions 1.5 so far"
    tested = {"returned_episode_returns": jnp.array([-4.0]), "invalid_actions": jnp.array([0.0])}
    summary = example.summary("vdn_rnn", face, {"runner_state": (None, None, tested)})
    assert summary == "return -4.00, forbidden actions 0"

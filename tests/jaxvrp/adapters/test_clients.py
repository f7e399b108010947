"""Learners that others wrote, on the adapters, each where it is installed: `pip install -e '.[clients]'`."""

import gymnasium
import pytest

DARP = {"num_nodes": 4, "num_agents": 2}

# They warn about spaces without bounds, and about what will be renamed in their own dependencies.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("vectorized", [False, True])
def test_maskable_ppo_plays_no_forbidden_action(vectorized):
    contrib = pytest.importorskip("sb3_contrib", reason="not installed: pip install -e '.[clients]'")
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    import jaxvrp.adapters.gymnasium  # noqa: F401  # registers the ids

    forbidden = []

    class Count(BaseCallback):
        def _on_step(self):
            forbidden.extend(info["invalid_actions"] for info in self.locals["infos"])
            return True

    name = "jaxvrp/darp-v0"
    env = make_vec_env(name, 2, env_kwargs=DARP) if vectorized else gymnasium.make(name, **DARP)
    contrib.MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0).learn(64, callback=Count())
    assert len(forbidden) == 64
    assert max(forbidden) == 0


def test_torchrl_makes_an_environment_by_its_id():
    pytest.importorskip("torchrl", reason="not installed: pip install -e '.[clients]'")
    from torchrl.envs import GymEnv, check_env_specs

    check_env_specs(env := GymEnv("jaxvrp.adapters.gymnasium:jaxvrp/darp-v0", frame_skip=2, **DARP))
    assert 1 <= len(env.rollout(20)) <= 20


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_the_wrapper_of_torchrl_reads_the_masks(env, mask_in_observation):
    pytest.importorskip("torchrl", reason="not installed: pip install -e '.[clients]'")
    from torchrl.envs import PettingZooWrapper, check_env_specs

    from jaxvrp.adapters.pettingzoo import to_pettingzoo

    played = to_pettingzoo(env, seed=0, mask_in_observation=mask_in_observation)
    wrapped = PettingZooWrapper(played, use_mask=True, categorical_actions=True)
    check_env_specs(wrapped)
    rollout = wrapped.rollout(20)
    for role, agents in (("truck", 1), ("drone", 2)):
        assert rollout[role, "action_mask"].shape[1] == agents
        assert rollout["next", role, "info", "invalid_actions"].max() == 0


def test_the_wrapper_of_torchrl_reads_agents_that_are_void(reach):
    pytest.importorskip("torchrl", reason="not installed: pip install -e '.[clients]'")
    from torchrl.envs import PettingZooWrapper

    from jaxvrp.adapters.pettingzoo import to_pettingzoo

    valid = set()
    for seed in range(4):
        played = to_pettingzoo(reach, seed=seed, keep_void_agents=True)
        wrapped = PettingZooWrapper(played, use_mask=True, categorical_actions=True)
        valid |= set(wrapped.rollout(3)["mover", "info", "valid"][:, 1].flatten().tolist())
    assert len(valid) == 2


def test_rejax_trains_and_evaluates_for_whole_episodes(team):
    rejax = pytest.importorskip("rejax", reason="not installed: pip install -e '.[clients]'")
    import jax

    from jaxvrp.adapters.gymnax import to_gymnax

    env = to_gymnax(team(num_agents=1, max_steps=4), separate_truncation=False)
    sizes = {"total_timesteps": 64, "eval_freq": 32, "num_envs": 2, "num_steps": 8, "num_minibatches": 2}
    algorithm = rejax.PPO.create(env=env, num_epochs=1, agent_kwargs={"hidden_layer_sizes": (8,)}, **sizes)
    lengths, returns = jax.jit(algorithm.train)(jax.random.key(0))[1]
    assert lengths.shape == returns.shape == (3, 128)
    assert 1 <= lengths.min() < lengths.max() == 4

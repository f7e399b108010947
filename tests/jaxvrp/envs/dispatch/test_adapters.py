"""Other suites play both scenarios: Gymnasium the one with one role, PettingZoo the one with two."""

import numpy as np
import pytest

from tests.jaxvrp.envs.dispatch.small_days import ENVS


def test_gymnasium_plays_the_scenario_with_one_role():
    pytest.importorskip("gymnasium", reason="not installed: pip install -e '.[gymnasium]'")
    from jaxvrp.adapters.gymnasium import to_gymnasium

    env = to_gymnasium(ENVS["same_day"], render_mode="rgb_array")
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation) and env.render().shape == (700, 640, 3)
    rng, total, ended = np.random.default_rng(0), 0.0, False
    for _ in range(ENVS["same_day"].max_requests):
        _, reward, ended, _, info = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        total += reward
        if ended:
            break
    assert ended and total != 0.0 and info["broken_promises"] == 0


def test_pettingzoo_plays_the_scenario_with_two_roles():
    pytest.importorskip("pettingzoo", reason="not installed: pip install -e '.[pettingzoo]'")
    from pettingzoo.test import parallel_api_test

    from jaxvrp.adapters.pettingzoo import to_pettingzoo

    played = to_pettingzoo(ENVS["ride_pooling"], seed=0)
    parallel_api_test(played, num_cycles=12)
    assert played.possible_agents[0].startswith("dispatcher") and len(played.possible_agents) == 4

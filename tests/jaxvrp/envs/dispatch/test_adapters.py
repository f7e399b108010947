"""Other suites play both scenarios: Gymnasium the one with one role, PettingZoo the one with two."""

import numpy as np
import pytest

from tests.jaxvrp.envs.dispatch.small_days import ENVS, REQUESTS, STOPS


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


def test_parcels_have_an_id():
    gymnasium = pytest.importorskip("gymnasium", reason="not installed: pip install -e '.[gymnasium]'")
    import jaxvrp.adapters.gymnasium  # noqa: F401  (registers)

    sizes = {"num_vehicles": 2, "num_drones": 1, "max_requests": REQUESTS, "max_stops": STOPS, "travel_price": 0.02}
    env = gymnasium.make("jaxvrp/dispatch_same_day-v0", **sizes)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation) and info["action_mask"].shape == (4,)


def test_pettingzoo_plays_the_scenario_with_two_roles():
    pytest.importorskip("pettingzoo", reason="not installed: pip install -e '.[pettingzoo]'")
    from pettingzoo.test import parallel_api_test

    from jaxvrp.adapters.pettingzoo import to_pettingzoo

    played = to_pettingzoo(ENVS["ride_pooling"], seed=0)
    parallel_api_test(played, num_cycles=12)
    assert played.possible_agents[0].startswith("dispatcher") and len(played.possible_agents) == 4

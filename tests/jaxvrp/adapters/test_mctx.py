"""The example of the docs that plans by mctx: it beats its own baseline, and changes what one agent of a team does."""

import functools
import importlib.util
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.episodes import play_episodes
from jaxvrp.io.command_line import UserError

EXAMPLE = pathlib.Path(__file__).parents[3] / "docs" / "examples" / "mctx_planner.py"


@pytest.fixture(scope="module")
def planner():
    """The class of the example; imported here, as mctx is optional."""
    pytest.importorskip("mctx", reason="the extra is not installed: pip install -e '.[mctx]'")
    spec = importlib.util.spec_from_file_location("mctx_planner", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MctxPlanner


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("dapr", "unknown environment 'dapr'; did you mean 'darp'"),
        ("darp num_nodes", "num_nodes is None; it must be a whole number"),
        ("darp num_nodes=5", "num_nodes is 5; it must be even"),
        ("pcb", "pcb has continuous actions, or no baseline to begin with; take another"),
        ("flying_sidekicks", "flying_sidekicks has continuous actions, or no baseline to begin with; take another"),
    ],
)
def test_a_mistake_is_one_line(planner, words, says, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mctx_planner.py", *words.split()])
    with pytest.raises(UserError, match=says):
        sys.modules[planner.__module__].main()


@pytest.mark.slow
def test_128_simulations_beat_the_nearest_neighbour(planner):
    env = jaxvrp.make("darp", num_nodes=10)
    search = planner(env, simulations=128)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 16))
    lengths = {}
    for name, actor in {"greedy": search.baseline, "mctx": search}.items():
        played = jax.jit(functools.partial(play_episodes, env, actor))(instances, jax.random.key(1))
        np.testing.assert_array_equal(played["served_share"], 1.0)
        lengths[name] = played["total_distance"].mean()
    assert lengths["mctx"] < 0.95 * lengths["greedy"]


def test_of_a_team_one_agent_does_something_else(planner):
    """Every allowed action of every agent, and what the baseline does once."""
    env = jaxvrp.make("truck_drone", num_drones=2, num_customers=3, max_steps=20)
    search = planner(env, simulations=1)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 1))
    state, timestep = jax.jit(jax.vmap(env.reset_to))(instances)
    action, logits, value = jax.jit(search.judged)(state, timestep)
    played = jax.jit(functools.partial(play_episodes, env, search.baseline))(instances, jax.random.key(0))
    np.testing.assert_allclose(value, played["return"], rtol=1e-5)
    wanted = {tuple(np.concatenate([action[name][0] for name in env.roles]))}
    for name, mask in timestep.action_mask.items():
        for agent, choice in np.argwhere(mask[0]):
            changed = {role: np.array(each[0]) for role, each in action.items()}
            changed[name][agent] = choice
            wanted.add(tuple(np.concatenate([changed[role] for role in env.roles])))
    allowed = np.flatnonzero(np.isfinite(logits[0]))
    change = jax.jit(search.changed)
    made = [change(action, jnp.array([index])) for index in allowed]
    found = [tuple(np.concatenate([each[name][0] for name in env.roles])) for each in made]
    assert len(found) == len(wanted) and set(found) == wanted

"""With `JAX_ENABLE_X64=1` all runs as it does without: every leaf has a type of its own."""

import ast
import functools
import os
import pathlib
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.dispatch.baselines import hindsight, search
from jaxvrp.envs.dispatch.moment import file as moment
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.envs.pcb.baselines import annealing
from jaxvrp.policies.actors import build_actors
from jaxvrp.registry import players_of
from train.on_policy.config import PPOConfig

SIZES = "--total_steps 16 --num_envs 2 --rollout_length 4 --num_minibatches 1 --eval_episodes 2 --hidden_sizes [4]"


@pytest.mark.slow
def test_a_training_with_64_bits(tmp_path):
    """Decisions by events: their loop refuses a reward that is wider than at its beginning."""
    env = "--env.name truck_drone --env.decide events --env.num_drones 1 --env.num_customers 2 --env.max_steps 8"
    words = [*env.split(), *SIZES.split(), "--logger", "[]", "--pictures", "false", "--run_dir", str(tmp_path / "run")]
    result = subprocess.run(
        [sys.executable, "-m", "train.mappo", *words],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "summary.json").is_file()


FLEET = {"max_requests": 3, "num_vehicles": 1, "max_stops": 4, "travel_noise": 0.2, "replan_rounds": 1}
PLAYED = {
    "darp": {"num_nodes": 4, "num_agents": 2, "limits": True, "lookahead": True, "prospects": True},
    "rides": {"env": "dispatch", "scenario": "ride_pooling", **FLEET},
    "parcels": {"env": "dispatch", "scenario": "same_day", "num_drones": 1, **FLEET},
    "pcb": {"max_steps": 4},
    "truck_drone": {"num_drones": 1, "num_customers": 2, "max_steps": 8, "decide": "events"},
    "vrpd_tw": {"num_drones": 1, "num_customers": 2, "max_steps": 8},
    "truck_drone_same_day": {"env": "truck_drone", "scenario": "truck_drone_same_day", "num_customers": 2},
    "tsp_drone": {"num_nodes": 5},
    "truck_drone_tours": {},
    "flying_sidekicks": {"num_nodes": 5},
}


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.slow("darp", "rides", "vrpd_tw", "truck_drone_same_day", "tsp_drone", "flying_sidekicks")
def test_every_player_and_planner_with_64_bits(name):
    """Traced, not run: where types differ, tracing stops."""
    with jax.enable_x64(True):
        sizes = dict(PLAYED[name])
        env = jaxvrp.make(sizes.pop("env", name), **sizes)
        players = players_of(env)
        for make in (RandomActor, *players.baselines.values(), *players.planners.values()):
            played = jax.eval_shape(functools.partial(two_steps, env, make(env)), jax.random.key(0))
            assert {leaf.dtype.name for leaf in jax.tree.leaves(played[1].reward)} == {"float32"}
            assert not [jax.tree_util.keystr(path) for path, leaf in leaves_of(played) if leaf.dtype.itemsize == 8]


def leaves_of(tree):
    """All arrays and where they stand, but for keys."""
    return [
        (path, leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]


def two_steps(env, actor, key):
    """The last states and timesteps of two environments that an actor plays."""

    def step(carry, key):
        state, timestep, memory = carry
        action, memory = actor.act(key, memory, state, timestep)
        return (*jax.vmap(env.step)(state, action), memory), None

    begun = jax.vmap(env.reset)(jax.random.split(key, 2))
    return jax.lax.scan(step, (*begun, actor.init(2)), jax.random.split(key, 2))[0][:2]


def moment_of_day(depot):
    """Two vehicles with a request each that they have not begun."""
    content = {"format": "jaxvrp-dispatch-day-1", "horizon": 100, **({"depot": [0, 0]} if depot else {})}
    start, pickup = ({}, {}) if depot else ({"start": [0, 0]}, {"pickup": [1, 0]})
    stops = ("drop-off",) if depot else ("pickup", "drop-off")
    content["vehicles"] = [{"id": name, "speed": 30, "capacity": 1, "is_drone": name == "b"} | start for name in "ab"]
    content["requests"] = [{"id": name, "arrival": 0, "dropoff": [1, 1]} | pickup for name in "ab"]
    vehicles = [
        {"id": name, "free": 0, "stops": [{"what": kind, "request": name} for kind in stops]}
        | ({} if depot else {"place": [0, 0]})
        for name in "ab"
    ]
    return moment.parse_moment({"format": moment.FORMAT, "now": 0, "day": content, "vehicles": vehicles})


@pytest.mark.parametrize("depot", [False, True])
def test_the_search_of_moments_and_hindsight_with_64_bits(depot):
    with jax.enable_x64(True):
        now = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], moment_of_day(depot))
        days = jax.tree.map(lambda leaf: leaf[None], as_float32(now.day.instance))
        begun = jax.eval_shape(search.begin, now.prepared, now.plans)
        progress = jax.ShapeDtypeStruct((2,), np.float32)
        assert jax.eval_shape(search.advance, begun, jax.random.key(0), progress).best.travel.dtype == np.float32
        found = jax.eval_shape(
            lambda key: hindsight.with_hindsight(days, key, rounds=2, max_stops=4), jax.random.key(0)
        )
        assert found.value.dtype == np.float32


def test_a_board_is_annealed_with_64_bits():
    with jax.enable_x64(True):
        env = jaxvrp.make("pcb")
        board = jax.jit(env.generate)(jax.random.key(0)).board
        how = {"widths": annealing.net_widths(board), "num_moves": 8, "num_restarts": 2}
        found = jax.eval_shape(lambda key: annealing.anneal(board, key, **how), jax.random.key(0))
        assert found.hpwl.dtype == np.float32


PLACE = {"randint": 4, "uniform": 2, "normal": 2, "exponential": 2}
"""Where draws of `jax.random` have the type of their numbers, among their arguments."""


def test_every_draw_has_a_type_of_its_own():
    """Else it is of 64 bits with the flag, and a loop that carries it on stops."""
    draws = [
        (path, call)
        for path in pathlib.Path("jaxvrp").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).removeprefix("jax.random.") in PLACE
    ]
    typeless = [
        f"{path}:{call.lineno}"
        for path, call in draws
        if len(call.args) <= PLACE[ast.unparse(call.func).removeprefix("jax.random.")]
        and not any(isinstance(arg, ast.Starred) for arg in call.args)
        and not any(word.arg == "dtype" for word in call.keywords)
    ]
    assert len(draws) > 50 and not typeless, typeless


@pytest.mark.parametrize("name", ["darp", "flying_sidekicks", "tsp_drone", "truck_drone_tours"])
def test_an_instance_is_the_same_with_64_bits(name):
    """Where chances are drawn, which `jax.random` does with as many bits as the probability has."""
    chances = {
        "darp": {"instances": "cordeau"},
        "tsp_drone": {"layout": "doublecenter"},
        "truck_drone_tours": {"window_share": 0.5},
    }

    def instances():
        env = jaxvrp.make(name, **chances.get(name, {}))
        return jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(1), 4))

    expected = instances()
    with jax.enable_x64(True):
        chex.assert_trees_all_equal(instances(), expected)


@pytest.mark.parametrize("kind", ["mlp", "gru", "attention"])
def test_parameters_of_networks_are_of_32_bits(kind):
    with jax.enable_x64(True):
        env = jaxvrp.make("truck_drone", observation="entities" if kind == "attention" else "flat")
        actors = build_actors(PPOConfig(network=kind), env)
        params = jax.eval_shape(lambda key: [actors.init(key, name) for name in actors.names], jax.random.key(0))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}


@pytest.mark.slow
def test_a_map_is_solved_with_64_bits():
    words = ["-m", "train.solve", "docs/maps/market_town.json", "--seconds", "0.1"]
    result = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr

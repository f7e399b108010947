"""Played episodes of each kind: states, actions and timesteps of the environments, and a board by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import registry
from jaxvrp.actor import RandomActor
from jaxvrp.envs import darp, dispatch, truck_drone, tsp_drone
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.dispatch.problem.instance import as_float32 as dispatch_as_computed
from jaxvrp.envs.pcb import make_board
from jaxvrp.envs.pcb.problem.board import as_float32 as as_computed
from jaxvrp.envs.truck_and_drone.instance import as_float32 as tsp_drone_as_computed
from jaxvrp.episodes import from_states
from jaxvrp.io.schema import POINT, list_of, object_with
from jaxvrp.show import export_episode
from jaxvrp.show.common import as_json, common_entries


def play(env, actor, instance, key):
    """States `[T + 1]`, actions `[T]` and timesteps `[T + 1]` of one episode, in NumPy arrays but for keys."""

    def advance(carry, key):
        state, timestep, memory = carry
        action, memory = actor.act(key, memory, state, timestep)
        after = jax.vmap(env.step)(state, action)
        return (*after, memory), (after, action)

    @jax.jit
    def run(instance, key):
        first = jax.vmap(env.reset_to)(jax.tree.map(lambda leaf: leaf[None], instance))
        _, (after, actions) = jax.lax.scan(
            advance, (*first, actor.init(1)), jax.random.split(key, env.max_episode_steps)
        )
        states, timesteps = jax.tree.map(lambda start, rest: jnp.concatenate([start, rest[:, 0]]), first, after)
        return states, jax.tree.map(lambda leaf: leaf[:, 0], actions), timesteps

    return jax.tree.map(_to_host, run(instance, key))


def _to_host(leaf):
    return leaf if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


@pytest.fixture(scope="session")
def deliveries():
    """Random play of `truck_drone`, so that anything may happen: environment, states, actions, timesteps."""
    env = truck_drone.make(num_drones=2, num_customers=3, num_route_nodes=4, max_steps=40, delivery_threshold=0.3)
    instance = jax.jit(env.generate)(jax.random.key(1))
    return env, *play(env, RandomActor(env), instance, jax.random.key(1))


@pytest.fixture(scope="session")
def rides():
    """The nearest neighbour in `darp`, with padding: environment, states, actions, timesteps."""
    env = darp.make(num_nodes=10, num_agents=3)
    instance = darp.make_instance(
        [[5, 5], [1, 2], [8, 9], [2, 8], [9, 1], [4, 3], [6, 7], [3, 5], [0, 9]],
        [0, 1, -1, 2, -2, 1, -1, 2, -2],
        [90, 30, 60, 20, 60, 40, 70, 60, np.inf],
        capacity=[3, 2],
    )
    return env, *play(
        env, registry.players_of(env).baselines["nearest neighbour"](env), as_float32(instance), jax.random.key(3)
    )


@pytest.fixture(scope="session")
def answers():
    """Acceptance in `dispatch`, with relocation and a vehicle of padding: environment, states, actions, timesteps."""
    env = dispatch.make(num_vehicles=3, max_requests=14, zones=2, max_stops=6)
    rng = np.random.default_rng(1)
    arrival, (pickup, dropoff) = np.sort(rng.uniform(0, 40, 12)), rng.uniform(0, 6, (2, 12, 2))
    deadline = arrival + 2.0 * np.hypot(*(pickup - dropoff).T) + 12
    instance = dispatch.make_instance(
        arrival,
        dropoff,
        deadline,
        pickup=pickup,
        pickup_deadline=arrival + 9,
        load=rng.integers(1, 4, 12),
        start=[[1.0, 1.0], [5.0, 4.0]],
        capacity=[2, 3],
        speed=30.0,
        horizon=60.0,
        area=[[0, 0], [6, 6]],
    )
    instance = dispatch_as_computed(dispatch.pad(instance, 14, 3))
    return env, *play(env, registry.players_of(env).baselines["cover"](env), instance, jax.random.key(3))


@pytest.fixture(scope="session")
def sorties():
    """The nearest neighbour in `tsp_drone`, with padding and a limit that it cannot always keep without coming back."""
    env = tsp_drone.make(num_nodes=7)
    instance = tsp_drone.make_instance([[0, 0], [2, 1], [6, 2], [3, 7], [8, 8], [1, 9]], max_flight=16, launch_time=0.5)
    return env, *play(
        env,
        registry.players_of(env).baselines["nearest neighbour"](env),
        tsp_drone_as_computed(tsp_drone.pad(instance, 7)),
        jax.random.key(3),
    )


@pytest.fixture(scope="session")
def placements():
    """Random play of `pcb`, on the smaller of two boards: environment, states, actions, timesteps."""
    large = make_board([20, 14], [[3, 2], [2, 2], [1, 2]], [0, 1, 2], [[1, 0], [0, 1], [0, 0]], [0, 0, 0], [0])
    small = make_board(
        [12, 8],
        [[4, 2], [2, 1]],
        [0, 0, 1, 1],
        [[1, 0], [-1, 0], [0.5, 0], [0, 0]],
        [0, 1, 0, -1],
        [0, 1],
        fixed=[True, False],
    )
    env = jaxvrp.make("pcb", boards=[large, small], rays=4, max_steps=6)
    key = jax.random.key(5)
    instance = jax.jit(env.place)(as_computed(small), np.float32([[6, 4], [2, 2]]), np.int32([1, 0]), key)
    return env, *play(env, RandomActor(env), instance, key)


@pytest.fixture(scope="session")
def board():
    """Two parts on a board, by hand: in the first state they overlap, in the second one has moved away and turned."""
    poses = [([[3, 3], [4, 3]], [0, 0], 0.5), ([[3, 3], [8, 3]], [0, 1], 0.0), ([[3, 3], [8, 3]], [0, 1], 0.0)]
    pins = [(0, [-1, 0], 0), (0, [1, 0], 0), (1, [1, 0.5], 0), (1, [0, 0], 1), (1, [0, 1], None)]
    return {
        "format": "jaxvrp-episode",
        "version": 2,
        "kind": "pcb",
        "title": "By hand </script><b>&amp;",
        "config": {"step_fraction": 0.05},
        "agents": [{"name": "part_0", "role": "part", "component": 1}],
        "actions": {"part": None},
        "summary": {"return": 1.5, "length": 2},
        "outline": [10.0, 6.0],
        "components": [{"name": name, "size": [2.0, 2.0], "fixed": name == "U1", "side": 0} for name in ("U1", "R1")],
        "pins": [{"component": part, "offset": offset, "net": net} for part, offset, net in pins],
        "nets": [{"rail": 0}, {"rail": 1}],
        "steps": [
            {
                "step": step,
                "reward": {"part": [0.75 * min(step, 1) if step < 2 else 0.75]},
                "mask": {},
                "action": None if step == 2 else {"part": [[0.1, 0.2, -1.0]]},
                "positions": positions,
                "orientations": orientations,
                "hpwl": 4.0 + step,
                "overlap": [overlap, overlap],
            }
            for step, (positions, orientations, overlap) in enumerate(poses)
        ],
    }


@pytest.fixture(scope="session")
def episodes(deliveries, rides, answers, sorties, board):
    """An episode of each kind, by kind."""
    played = {"truck_drone": deliveries, "darp": rides, "dispatch": answers, "tsp_drone": sorties}
    return {**{kind: export_episode(from_states(*episode[:3])) for kind, episode in played.items()}, "pcb": board}


VIEW = """VIEWS.reach = (seek) => ({
  aspect: 1,
  label: "A goal",
  layout: (svg) => draw("circle", { class: "goal", r: 5 }, svg),
  draw: () => {},
  cards: agents.map((agent) => ({ title: agent.name, colour: "red", agent, tell: () => ({ status: "moving" }) })),
  charts: [rewardChart(seek)],
  ticks: [],
  summary: [["return", shown(episode.summary.return)]],
});
"""


def export_reach(episode, problem):
    return common_entries(
        episode,
        kind="reach",
        title="Reach",
        action_names={"mover": None, "caller": ["WAIT", "CALL", "SHOUT"]},
        step_entries=[{"places": as_json(places)} for places in episode.states.position],
    )


@pytest.fixture(scope="session")
def reaching(reach):
    """Random play of an environment that does not ship: environment, states, actions, timesteps."""
    instance = reach.generate(jax.random.key(0)).replace(length=jnp.int32(3))
    return reach, *play(reach, RandomActor(reach), instance, jax.random.key(1))


@pytest.fixture
def own_kind(reaching, registered_apart, tmp_path):
    """`reaching`, while it is registered with a toolbox that has nothing but a replay."""
    (tmp_path / "view").mkdir()
    (tmp_path / "view" / "reach.js").write_text(VIEW)
    (tmp_path / "view" / "reach.css").write_text(".goal { fill: rgb(1, 2, 3); }")
    check = object_with(steps=list_of(object_with(places=list_of(POINT, 2))))
    kind = jaxvrp.View(export_reach, lambda episode: check(episode, ""), tmp_path / "view" / "reach.js")
    jaxvrp.register("reach", type(reaching[0]), toolbox=jaxvrp.Toolbox(view=kind))
    return reaching

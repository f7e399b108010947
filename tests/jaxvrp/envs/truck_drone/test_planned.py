"""`vrpd_tw` paid by what a plan comes to: the order of what counts, and plans without what gains nothing."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone import parse_map
from jaxvrp.envs.truck_drone.baselines import plan_search
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.course import course_of
from jaxvrp.envs.truck_drone.planned import PlannedVrpdTw, cost, planned
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD
from jaxvrp.episodes import follow, record_episode
from jaxvrp.players import least
from train.solve import solve

SIZES = {"num_drones": 2, "num_customers": 4, "num_route_nodes": 2, "max_steps": 50}


@pytest.fixture(scope="module")
def env():
    return planned(jaxvrp.make("vrpd_tw", **SIZES))


def test_others_are_paid_as_they_say(env):
    basic = jaxvrp.make("truck_drone", **SIZES)
    assert planned(basic) is basic and planned(env) is env
    assert isinstance(env, PlannedVrpdTw) and env.num_customers == 4


def drawn_end(env, state, rng):
    """A state made one as at the end of an episode, and what it comes to, the most important first."""
    customers = env.num_customers
    served, late = rng.random(customers) < 0.8, rng.random(customers) < 0.3
    status = rng.choice([ONBOARD, ONBOARD, FLYING, CRASHED], 2).astype(np.int32)
    end, driven, flown = int(rng.integers(1, env.max_steps)), *rng.uniform(0, 40, 2).astype(np.float32)
    arrival = np.where(served, np.asarray(state.instance.window_end) + np.where(late, 1, -1), -1)
    state = state.replace(
        customers=state.customers.replace(served=jnp.asarray(served), arrival_step=jnp.int32(arrival)),
        drones=state.drones.replace(status=jnp.asarray(status)),
        totals=state.totals.replace(truck_distance=jnp.float32(driven + 1), drone_distance=jnp.float32(flown)),
        step=jnp.int32(env.max_steps),
        end=jnp.int32(end),
        way=jnp.float32(driven + flown),
    )
    undone, is_flying = int((~served).sum() + (status != ONBOARD).sum()), (status == FLYING).any()
    reached = (env.max_steps, float(driven + 1 + flown)) if is_flying else (end, float(driven + flown))
    return state, (undone, int((served & late).sum()), *reached)


@pytest.mark.parametrize("size", [{}, {"num_customers": 20, "max_steps": 1440}])
def test_what_counts_more_comes_first(size):
    """Whatever the size: at 1440 steps and 20 customers one number of 32 bits has no digits for a way."""
    env = planned(jaxvrp.make("vrpd_tw", **{**SIZES, **size}))
    rng, priced = np.random.default_rng(0), jax.jit(lambda state: (env.price(state), cost(env, state, 0.0)))
    start, _ = jax.jit(env.reset)(jax.random.key(0))
    drawn = [drawn_end(env, start, rng) for _ in range(200)]
    found = [jax.device_get(priced(state)) for state, _ in drawn]
    for (price, parts), (_, expected) in zip(found, drawn, strict=True):
        np.testing.assert_allclose(price, expected, rtol=1e-6)
        whole = expected[0] * (env.num_customers + 1) * (env.max_steps + 1) + expected[1] * (env.max_steps + 1)
        np.testing.assert_allclose(parts[:2], [whole, expected[2]])
        np.testing.assert_allclose(parts[2], expected[3] / (expected[3] + 10), rtol=1e-6)
    order = sorted(range(200), key=lambda i: drawn[i][1])
    assert order == sorted(range(200), key=lambda i: tuple(found[i][1]))
    assert order == sorted(range(200), key=lambda i: found[i][1].sum(dtype=np.float64))
    assert order[0] == least(jnp.stack([parts for _, parts in found], axis=1))


def test_a_plan_is_tidied():
    """A flight for nothing, and a drive there and back, before the one customer is served."""
    env = planned(jaxvrp.make("vrpd_tw", **{**SIZES, "num_drones": 1, "num_customers": 1}))
    instance = Instance(
        truck_position=jnp.zeros(2),
        node_position=jnp.array([[0.0, 0.0], [0.0, -0.5]]),
        customer_position=jnp.array([[0.3, 0.0]]),
        demand=jnp.zeros(1),
        window_start=jnp.full(1, 9, jnp.int32),
        window_end=jnp.full(1, 50, jnp.int32),
        known_from=jnp.zeros(1, jnp.int32),
    )
    actions = np.zeros((50, 2), np.int32)
    actions[0, 0], actions[1, 1] = 3, 1  # release, return
    actions[2:4, 0], actions[4:6, 0] = 2, 1  # there and back
    actions[7, 0], actions[8:10, 1], actions[10:14, 1] = 3, 2, 1  # release, deliver, return
    wasteful = follow(env, instance, plan_search.by_role(actions))
    found, episode = plan_search.tidied(wasteful)
    before, after = (env.price(jax.tree.map(lambda leaf: leaf[-1], each.states)) for each in (wasteful, episode))
    assert (np.asarray(episode.actions["truck"]) == 3).sum() == 1
    assert (before[:2], after[:2]) == ((0, 0), (0, 0))
    assert after.end <= before.end and (before.way, after.way) == pytest.approx((0.9, 0.5), abs=1e-3)
    assert found == pytest.approx(-float(episode.timesteps.reward["truck"].sum()), abs=1e-5)


FAR = {
    "format": "jaxvrp-truck-drone-1",
    "units": {"length": "km", "time": "min"},
    "scale": {"time": 1},
    "horizon": 200,
    "truck": {"id": "van", "position": [0, 0], "speed": 1},
    "customers": [
        {"id": f"near {i}", "position": [4 * i - 10, 3], "demand": 0.5, "window": [30 * i, 200]} for i in range(6)
    ]
    + [{"id": f"far {i}", "position": [70 + 2 * i, 0], "demand": 0.5} for i in range(14)],
    "nodes": [{"position": [0, 0]}, *({"position": [4 * i - 10, 3]} for i in range(6))],
    "drones": [{"id": "red", "speed": 2, "range": 15}],
}
"""The far customers are out of reach, so that an episode lasts for the whole horizon."""


def test_the_cost_in_words_is_that_of_the_plan(tmp_path):
    """End and way are of what is done, though the episode lasts until 200."""
    file = tmp_path / "far.json"
    file.write_text(json.dumps(FAR))
    solution = solve(file, method="greedy")
    summary, kilometres = solution.plan["summary"], solution.problem.problem.amount("length")
    assert summary["end"] == 151 and solution.episode.states.step[-1] == 200
    way = kilometres(sum(summary["distance"].values()))
    assert solution.words == f"14 undone, end 151 min, {way} driven and flown"
    assert solution.cost == pytest.approx(14 * 21 * 201 + 151.5, abs=0.5)
    assert dict(story_of(solution.episode, solution.problem.problem).summary)["end"] == "151 min"


def test_decisions_that_hold_for_several_steps_are_priced_alike():
    """The world keeps when something was last done as the course of the episode has it."""
    fleet_map = parse_map(FAR)
    env = planned(fleet_map.environment(jaxvrp.make("vrpd_tw", decide="events")))
    instance = jax.tree.map(jnp.asarray, fleet_map.instance())
    episode = jax.jit(lambda key: record_episode(env, GreedyActor(env), instance, key))(jax.random.key(0))
    price = env.price(jax.tree.map(lambda leaf: leaf[-1], episode.states))
    done = course_of(episode).until_the_last_work().world
    totals = done.totals.truck_distance[-1] + done.totals.drone_distance[-1]
    assert (price.end, price.way) == (done.step[-1], totals) and price.end < 200
    paid = 14 * 21 * 201 + price.end
    assert -episode.timesteps.reward["truck"].sum() == pytest.approx(float(paid), abs=1.0)

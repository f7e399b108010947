"""`vrpd_tw` paid by what a plan comes to: the order of what counts, and plans without what gains nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone.baselines import plan_search
from jaxvrp.envs.truck_drone.planned import PlannedVrpdTw, planned, price_of
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD
from jaxvrp.episodes import follow

SIZES = {"num_drones": 2, "num_customers": 4, "num_route_nodes": 2, "max_steps": 50}


@pytest.fixture(scope="module")
def env():
    return planned(jaxvrp.make("vrpd_tw", **SIZES))


def test_others_are_paid_as_they_say(env):
    basic = jaxvrp.make("truck_drone", **SIZES)
    assert planned(basic) is basic and planned(env) is env
    assert isinstance(env, PlannedVrpdTw) and env.num_customers == 4


def drawn_end(env, rng):
    """A state as at the end of an episode, and what it comes to, the most important first."""
    state, _ = env.reset(jax.random.key(0))
    served, late = rng.random(4) < 0.8, rng.random(4) < 0.3
    status = rng.choice([ONBOARD, ONBOARD, FLYING, CRASHED], 2).astype(np.int32)
    end, driven, flown = int(rng.integers(1, 51)), *rng.uniform(0, 40, 2).astype(np.float32)
    arrival = np.where(served, np.asarray(state.instance.window_end) + np.where(late, 1, -1), -1)
    state = state.replace(
        customers=state.customers.replace(served=jnp.asarray(served), arrival_step=jnp.int32(arrival)),
        drones=state.drones.replace(status=jnp.asarray(status)),
        totals=state.totals.replace(truck_distance=jnp.float32(driven), drone_distance=jnp.float32(flown)),
        step=jnp.int32(end),
    )
    undone = int((~served).sum() + (status != ONBOARD).sum())
    return state, (undone, int((served & late).sum()), end, float(driven) + float(flown))


def test_what_counts_more_comes_first(env):
    rng, price = np.random.default_rng(0), jax.jit(env.price)
    found = [(float(price(state)), parts) for state, parts in (drawn_end(env, rng) for _ in range(200))]
    assert [parts for _, parts in sorted(found)] == sorted(parts for _, parts in found)
    for number, parts in found:
        np.testing.assert_allclose(price_of(env, number)[:3], parts[:3])
        if not parts[0]:
            np.testing.assert_allclose(price_of(env, number).way, parts[3], rtol=0.02)


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
    cost, episode = plan_search.tidied(wasteful)
    before, after = (
        price_of(env, float(env.price(jax.tree.map(lambda leaf: leaf[-1], each.states))))
        for each in (wasteful, episode)
    )
    assert (np.asarray(episode.actions["truck"]) == 3).sum() == 1
    assert (before[:2], after[:2]) == ((0, 0), (0, 0))
    assert after.end <= before.end and (before.way, after.way) == pytest.approx((0.9, 0.5), abs=1e-3)
    assert cost == pytest.approx(-float(episode.timesteps.reward["truck"].sum()), abs=1e-5)

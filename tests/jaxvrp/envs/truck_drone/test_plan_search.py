"""The search for plans: what it found is what `step` pays, no worse than the dispatcher, as good as trying all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone import Instance
from jaxvrp.envs.truck_drone.baselines import held_choices, plan_search
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.episodes import play_episodes
from jaxvrp.search.stop import Rounds

CHAINS, TRIES, STEPS = 4, 2, 30
STOP = Rounds(6 * plan_search.ROUNDS)

LOT = 256
"""Worlds that are followed at once where all plans are tried."""


def make(scenario, **parameters):
    sizes = {"num_drones": 2, "num_customers": 4, "num_route_nodes": 3, "max_steps": STEPS}
    return jaxvrp.make("truck_drone", scenario=scenario, **{**sizes, "battery_rate": 1.0, **parameters})


ENVIRONMENTS = {
    "truck_drone_basic": make("truck_drone_basic"),
    "vrpd_tw": make("vrpd_tw", dynamic_share=0.5, battery_rate=0.4),
    "events": make("truck_drone_basic", decide="events", max_repeat=5),
}


FORMS = ["truck_drone_basic", *(pytest.param(name, marks=pytest.mark.slow) for name in ("vrpd_tw", "events"))]


@pytest.fixture(scope="module", params=FORMS)
def found(request):
    """Environment, instance, and all that a search yields."""
    env = ENVIRONMENTS[request.param]
    instance = jax.jit(env.generate)(jax.random.key(3))
    how = {"chains": CHAINS, "tries": TRIES}
    return env, instance, list(plan_search.search_episode(env, instance, jax.random.key(0), STOP, **how))


@jax.jit
def steps_of(env, instance, actions):
    """What `step` pays for actions, and how many of them it forbids."""

    def play(state, action):
        state, timestep = env.step(state, action)
        return state, (timestep.team_reward, timestep.metrics["invalid_actions"])

    paid, invalid = jax.lax.scan(play, env.init_state(instance), actions)[1]
    return paid.sum(), invalid[-1]


@pytest.mark.slow
def test_step_pays_what_was_found_and_forbids_nothing(found):
    env, instance, all_found = found
    for each in (all_found[0], all_found[-1]):
        paid, invalid = steps_of(env, instance, each.actions)
        np.testing.assert_allclose(each.cost, -paid, atol=1e-4)
        assert invalid == 0


@pytest.mark.slow
def test_plans_only_get_better_than_the_dispatchers_until_time_is_up(found):
    """Chains start with the episode of the dispatcher, which is played here as every actor is."""
    env, instance, all_found = found
    single = jax.tree.map(lambda leaf: leaf[None], instance)
    greedy = jax.jit(lambda: play_episodes(env, GreedyActor(env), single, jax.random.key(0)))()["return"][0]
    costs = [each.cost for each in all_found]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] <= -greedy + 1e-4 and costs[-1] < -greedy - 1.0
    assert (np.diff([each.seconds for each in all_found]) > 0).all() and len(all_found) >= 6


@pytest.mark.slow
def test_the_same_key_finds_the_same(found):
    env, instance, all_found = found
    how = {"chains": CHAINS, "tries": TRIES}
    again = next(plan_search.search_episode(env, instance, jax.random.key(0), STOP, **how))
    assert again.cost == all_found[0].cost


def test_what_is_played_from_a_moment_on_is_what_is_played_from_the_beginning():
    env = ENVIRONMENTS["truck_drone_basic"]
    instance, key = jax.jit(env.generate)(jax.random.key(5)), jax.random.key(6)
    free = jnp.full((STEPS, CHAINS, 3), held_choices.FREE, jnp.int32)
    before = jax.jit(held_choices.play_held)(env, instance, free)
    start = jnp.int32(9)
    assert before.length.min() > start
    held = free.at[start:].set(jax.random.randint(key, (STEPS - 9, CHAINS, 3), -1, 6))
    later = jax.jit(held_choices.replay_from)(env, instance, before.replace(held=held), start)
    whole = jax.jit(held_choices.play_held)(env, instance, held)
    assert (later.cost != before.cost).any()
    np.testing.assert_allclose(later.cost, whole.cost, atol=1e-4)
    np.testing.assert_array_equal(later.actions, whole.actions)
    np.testing.assert_array_equal(later.length, whole.length)
    beyond = jax.jit(held_choices.replay_from)(env, instance, later, later.length.max())
    jax.tree.map(np.testing.assert_array_equal, beyond.cost, later.cost)
    np.testing.assert_array_equal(beyond.actions, later.actions)


@pytest.mark.slow
def test_a_change_leaves_alone_what_was_before():
    env = ENVIRONMENTS["truck_drone_basic"]
    held = jax.random.randint(jax.random.key(0), (STEPS, 3), -1, 6)
    keys = jax.random.split(jax.random.key(1), 200)
    change = functools.partial(plan_search.changed, env, start=jnp.int32(11))
    served = jnp.array([False, True, False, True])
    plans = jax.jit(jax.vmap(change, (0, None, None, None)))(keys, held, held, served)
    np.testing.assert_array_equal(plans[:, :11], jnp.broadcast_to(held[:11], plans[:, :11].shape))
    differs = plans[:, 11:] != held[11:]
    assert differs.any(axis=(1, 2)).mean() > 0.7
    assert (differs.any(axis=1).sum(axis=1) > 1).any(), "several agents at once"


def test_detours_that_serve_nothing_are_taken_out():
    """The truck drives off and back while the only drone flies from and to it, and the plan pays no more for that."""
    env = make("truck_drone_basic", num_drones=1, num_customers=1, num_route_nodes=2)
    instance = Instance(
        truck_position=jnp.zeros(2),
        node_position=jnp.array([[0.0, 0.0], [0.0, -0.5]]),
        customer_position=jnp.array([[0.6, 0.0]]),
        demand=jnp.zeros(1),
        window_start=jnp.zeros(1, jnp.int32),
        window_end=jnp.full(1, STEPS, jnp.int32),
    )
    actions = np.zeros((STEPS, 2), np.int32)
    actions[:4, 0] = [2, 2, 1, 1]  # there and back
    actions[4, 0], actions[5:8, 1] = 3, 2  # release, deliver
    wasteful, _ = steps_of(env, instance, plan_search.by_role(actions))
    straight = plan_search.straightened(env, instance, actions)
    cost, _, metrics = plan_search.measured(env, instance, np.stack([actions, straight]))
    driven, lengths = metrics["truck_distance"], metrics["time_step"]
    assert cost[0] == pytest.approx(-float(wasteful)) and cost[1] <= cost[0]
    assert driven[0] == pytest.approx(0.4) and driven[1] == 0 and lengths[1] <= lengths[0]
    assert plan_search.straightened(env, instance, straight) is None


def test_a_flight_for_nothing_is_left_out():
    env = make("vrpd_tw", num_drones=1, num_customers=1, num_route_nodes=1)
    instance = Instance(
        truck_position=jnp.zeros(2),
        node_position=jnp.zeros((1, 2)),
        customer_position=jnp.array([[0.3, 0.0]]),
        demand=jnp.zeros(1),
        window_start=jnp.zeros(1, jnp.int32),
        window_end=jnp.full(1, STEPS, jnp.int32),
    )
    actions = np.zeros((STEPS, 2), np.int32)
    actions[0, 0], actions[1, 1] = 2, 1  # release, return
    actions[3, 0], actions[4:6, 1], actions[6:9, 1] = 2, 2, 1  # release, deliver, return
    straight = plan_search.straightened(env, instance, actions)
    assert (straight[:, 0] == 2).sum() == 1
    cost, *_ = plan_search.measured(env, instance, np.stack([actions, straight]))
    assert cost[1] < cost[0] < 0


@pytest.mark.slow
def test_on_a_tiny_instance_it_finds_the_best_of_all_plans():
    """One drone, two customers, six steps: all joint actions at every step, tried in turn."""
    steps = 6
    env = jaxvrp.make(
        "truck_drone", num_drones=1, num_customers=2, num_route_nodes=1, max_steps=steps, max_battery=0.45
    )
    instance = Instance(
        truck_position=jnp.zeros(2),
        node_position=jnp.array([[0.3, 0.0]]),
        customer_position=jnp.array([[0.45, 0.0], [0.0, 0.22]]),
        demand=jnp.full(2, 0.5),
        window_start=jnp.zeros(2, jnp.int32),
        window_end=jnp.array([4, 5], jnp.int32),
    )
    best = best_of_all(env, instance, steps)
    *_, last = plan_search.search_episode(env, instance, jax.random.key(0), 1.0, chains=CHAINS, tries=TRIES)
    np.testing.assert_allclose(-last.cost, best, atol=1e-4)


def best_of_all(env, instance, steps):
    """The best return of all sequences of joint actions, step by step; equal worlds are kept once."""
    truck, drone = jnp.meshgrid(jnp.arange(4), jnp.arange(4))
    joint = {"truck": truck.reshape(-1, 1), "drone": drone.reshape(-1, 1)}

    def follow(world, action):
        world, timestep = env.step(world, action)
        return world, timestep.team_reward, timestep.metrics["invalid_actions"] == 0

    # In lots of one size: one program for all steps.
    every = jax.jit(jax.vmap(jax.vmap(follow, (None, 0)), (0, None)))
    worlds = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.init_state(instance))
    returns = np.zeros(1, np.float32)
    for _ in range(steps):
        index = np.arange(-(-len(returns) // LOT) * LOT) % len(returns)
        lots = [every(jax.tree.map(lambda leaf, lot=lot: leaf[lot], worlds), joint) for lot in index.reshape(-1, LOT)]
        worlds, paid, is_legal = jax.tree.map(lambda *leaves: np.concatenate(leaves), *jax.device_get(lots))
        total, kept = (returns[index][:, None] + paid).ravel(), is_legal.ravel()
        worlds = jax.tree.map(lambda leaf, kept=kept: leaf.reshape(-1, *leaf.shape[2:])[kept], worlds)
        numbers = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(worlds.replace(instance=()))]
        rows = np.concatenate([total[kept][:, None], *numbers], axis=1).astype(np.float32)
        first = np.unique(rows, axis=0, return_index=True)[1]
        worlds, returns = jax.tree.map(lambda leaf, first=first: leaf[first], worlds), total[kept][first]
    return returns.max()

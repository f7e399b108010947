"""What must hold of `darp` whatever is played: sums, bounds, padding, batches; and published optima under the mask."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.darp import make_instance, pad, routes_to_actions, solution_report, stack
from jaxvrp.envs.darp.problem.instance import as_float32

ROUNDING = 1e-6
"""Relative: compiled for one instance or for many, XLA may fuse a product and a sum, which rounds once less."""


@functools.partial(jax.jit, static_argnums=(0, 3))
def rollout(env, instances, key, share_random=0.0):
    """Masked random play, a share of it any integer: actions `[E, T]`, rewards `[E, T]`, last state and timestep."""
    actor = RandomActor(env)
    first = jax.vmap(env.reset_to)(instances)

    def body(now, key):
        keys = jax.random.split(key, 3)
        action = actor.act(keys[0], (), *now)[0]["vehicle"]
        anything = jax.random.randint(keys[1], action.shape, -3, env.num_nodes + 4)
        action = jnp.where(jax.random.bernoulli(keys[2], share_random, action.shape), anything, action)
        then = jax.vmap(env.step)(now[0], {"vehicle": action})
        return then, (action[:, 0], then[1].reward["vehicle"][:, 0])

    last, (actions, rewards) = jax.lax.scan(body, first, jax.random.split(key, env.max_episode_steps))
    return actions.T, rewards.T, last


@functools.partial(jax.jit, static_argnums=0)
def replay(env, instance, actions):
    """Rewards and masks of one instance, alone."""
    state, timestep = env.reset_to(instance)

    def body(now, action):
        state, timestep = env.step(now[0], {"vehicle": action[None]})
        return (state, timestep), (timestep.reward["vehicle"][0], now[1].action_mask["vehicle"][0, action])

    (state, timestep), (rewards, legal) = jax.lax.scan(body, (state, timestep), actions)
    return rewards, legal, state, timestep.metrics


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("darp", num_nodes=8, num_agents=3, vehicle_capacity=4, orphan_factor=2.0)


@pytest.fixture(scope="module")
def played(env):
    instances = jax.vmap(env.generate)(jax.random.split(jax.random.key(1), 64))
    return instances, *rollout(env, instances, jax.random.key(2), 0.2)


def test_it_keeps_the_contract():
    jaxvrp.check_env(jaxvrp.make("darp", num_nodes=4, num_agents=2))


def test_everything_ends_within_n_plus_v_steps(played, env):
    _, _, rewards, (state, timestep) = played
    assert timestep.terminated.all() and not timestep.truncated.any()
    assert state.step.max() <= env.num_nodes + env.num_agents
    np.testing.assert_allclose(rewards.sum(axis=1), -(state.total_distance + 100 * penalty(timestep.metrics)), 1e-5)


def penalty(metrics):
    return metrics["unvisited_nodes"] + metrics["stranded"]  # orphan_factor 2


def test_dense_rewards_sum_to_the_sparse_one(played, env):
    instances, actions, rewards, _ = played
    dense = env.replace(reward_kind="dense")
    spread = jax.vmap(lambda instance, plan: replay(dense, instance, plan)[0])(instances, actions)
    np.testing.assert_allclose(spread.sum(axis=1), rewards.sum(axis=1), 1e-5)
    assert (np.count_nonzero(spread, axis=1) > 4).all()
    assert (np.count_nonzero(rewards, axis=1) == 1).all()


def test_an_instance_costs_the_same_alone_padded_and_in_any_batch(played, env):
    instances, actions, rewards, (state, _) = played
    larger = jaxvrp.make("darp", num_nodes=14, num_agents=5, vehicle_capacity=4, orphan_factor=2.0)
    for i in range(6):
        instance = jax.tree.map(lambda leaf, i=i: leaf[i], instances)
        alone, _, last, _ = replay(env, instance, actions[i])
        np.testing.assert_allclose(alone.sum(), rewards[i].sum(), ROUNDING)
        wide, _, wide_last, metrics = replay(larger, instance, actions[i])
        np.testing.assert_allclose(wide.sum(), rewards[i].sum(), ROUNDING)
        np.testing.assert_allclose(wide_last.total_distance, last.total_distance, ROUNDING)
        np.testing.assert_allclose(wide_last.total_distance, state.total_distance[i], ROUNDING)
        assert float(metrics["unvisited_nodes"]) == np.count_nonzero(~np.asarray(state.visited[i, 1:]))


def test_nested_vmap_changes_nothing(played, env):
    instances, actions, rewards, _ = played
    square = jax.tree.map(lambda leaf: leaf.reshape(4, 16, *leaf.shape[1:]), (instances, actions))
    nested = jax.vmap(jax.vmap(lambda instance, plan: replay(env, instance, plan)[0]))(*square)
    np.testing.assert_allclose(nested.sum(axis=-1).ravel(), rewards.sum(axis=1), ROUNDING)


def test_instances_of_different_size_share_a_batch(env):
    small = as_float32(jaxvrp.make("darp", num_nodes=4, num_agents=1).generate(jax.random.key(5)))
    large = env.generate(jax.random.key(6))
    batch = stack([jax.device_get(small), jax.device_get(large)])
    _, _, (state, timestep) = rollout(env, batch, jax.random.key(0))
    assert state.step[0] <= 5 and timestep.done.all()
    assert timestep.metrics["requests_served"][0] <= 2
    assert not state.visited[0, 5:].all() or state.instance.demand[0, 5:].max() == 0
    with pytest.raises(ValueError, match="8 nodes and 3 vehicles does not fit into num_nodes 4, num_agents 3"):
        jaxvrp.make("darp", num_nodes=4, num_agents=3).reset_to(large)


@pytest.mark.parametrize("limits", [False, True])
def test_rollouts_without_emergency_pass_the_report(limits):
    env = jaxvrp.make("darp", num_nodes=8, num_agents=3, limits=limits, max_ride_time=6.0, max_route_duration=30.0)
    instances = jax.vmap(env.generate)(jax.random.split(jax.random.key(8), 64))
    actions, _, (state, timestep) = rollout(env, instances, jax.random.key(9))
    clean = np.flatnonzero(np.asarray(timestep.metrics["stranded"]) == 0)
    assert len(clean) > 16
    instances = (
        instances
        if limits
        else instances.replace(max_ride_time=jnp.full(64, jnp.inf), max_route_duration=jnp.full(64, jnp.inf))
    )
    for i in clean:
        # The environment grants 1e-3 on each limit.
        report = solution_report(jax.tree.map(lambda leaf, i=i: leaf[i], instances), actions[i], tolerance=1e-3)
        broken = {name for name, found in report.violations.items() if found.count}
        assert broken <= {"unserved"}, report.summary()
        np.testing.assert_allclose(report.cost, state.total_distance[i], 1e-5)


def test_published_optima_are_played_under_the_mask(published):
    """At their cost, with ride times and route durations enforced; those up to 24 requests, to be quick."""
    env = jaxvrp.make("darp", num_nodes=48, num_agents=4, limits=True)
    small = [solution for solution in published if solution.instance.num_nodes <= env.num_nodes]
    assert len(small) >= 6
    for solution in small:
        actions = routes_to_actions(solution.routes, env.num_agents)
        plan = np.pad(actions, (0, env.max_episode_steps - len(actions)))
        _, _, state, metrics = replay(env, as_float32(pad(solution.instance, 48, 4)), plan)
        assert metrics["invalid_actions"] == 0, solution.path.stem
        assert metrics["unvisited_nodes"] == 0
        np.testing.assert_allclose(state.total_distance, solution.cost, 1e-5)


def test_a_fleet_of_different_vehicles_is_driven_in_order():
    env = jaxvrp.make("darp", num_nodes=4, num_agents=2, vehicle_capacity=(1, 3))
    instance = make_instance(
        [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2]], [0, 3, -3, 1, -1], [99] * 5, capacity=[1, 3], vehicle_speed=1.0
    )
    state, timestep = env.reset_to(instance)
    assert timestep.action_mask["vehicle"][0].tolist() == [False, False, False, True, False]
    for node in (3, 4, 0):
        state, timestep = env.step(state, {"vehicle": jnp.array([node])})
    assert (int(state.current_agent), timestep.action_mask["vehicle"][0].tolist()) == (1, [False, True] + [False] * 3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_nodes": 7}, "num_nodes is 7; it must be even"),
        ({"num_nodes": 0}, "num_nodes is 0; it must be >= 2"),
        ({"num_agents": 0}, "num_agents is 0; it must be >= 1"),
        ({"min_demand": 4}, "min_demand is 4, above max_demand 3; give them in order"),
        ({"min_demand": -1}, "min_demand is -1; it must be >= 1"),
        ({"vehicle_capacity": [3, 4]}, "vehicle_capacity lists 2 vehicles, num_agents is 5; give one for each"),
        ({"vehicle_capacity": [3, 4, 0, 1, 1]}, "vehicle_capacity is 0; it must be >= 1"),
        ({"reward": "spars"}, "reward is 'spars'; it must be one of: sparse, dense"),
        ({"max_ride_time": 0.0}, "max_ride_time is 0.0; it must be > 0"),
        ({"capacity": 3}, "unknown parameter of 'darp': 'capacity'; did you mean 'vehicle_capacity'"),
    ],
)
def test_a_bad_parameter_is_one_line(given, says):
    with pytest.raises(ValueError) as error:
        jaxvrp.make("darp", **given)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_capacity_below_every_demand_is_legal_but_says_so():
    with pytest.warns(UserWarning, match="below every demand"):
        env = jaxvrp.make("darp", num_nodes=4, num_agents=2, vehicle_capacity=1, min_demand=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, _, (_, timestep) = rollout(
            env, jax.vmap(env.generate)(jax.random.split(jax.random.key(0), 3)), jax.random.key(1)
        )
    assert timestep.done.all() and (timestep.metrics["unvisited_nodes"] == 4).all()

"""What must hold of `darp` whatever is played: sums, bounds, padding, batches; and published optima under the mask."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.darp import Darp, make_instance, routes_to_actions, solution_report, stack
from jaxvrp.envs.darp.problem.instance import as_float32

ROUNDING = 1e-6
"""Relative: compiled for one instance or for many, XLA may fuse a product and a sum, which rounds once less."""


@jax.jit
def generated(env, key):
    """64 instances; environments of the same static fields share the program, here and below."""
    return jax.vmap(env.generate)(jax.random.split(key, 64))


@jax.jit
def rollout(env, instances, key, share_random):
    """Masked random play, a share of it any integer: actions `[E, T]`, rewards `[E, T]`, last state and timestep."""
    actor = RandomActor(env)

    def body(play, key):
        state, timestep = play
        actor_key, integer_key, share_key = jax.random.split(key, 3)
        action = actor.act(actor_key, (), state, timestep)[0]["vehicle"]
        anything = jax.random.randint(integer_key, action.shape, -3, env.num_nodes + 4)
        action = jnp.where(jax.random.bernoulli(share_key, share_random, action.shape), anything, action)
        state, timestep = jax.vmap(env.step)(state, {"vehicle": action})
        return (state, timestep), (action[:, 0], timestep.reward["vehicle"][:, 0])

    start = jax.vmap(env.reset_to)(instances)
    last, (actions, rewards) = jax.lax.scan(body, start, jax.random.split(key, env.max_episode_steps))
    return actions.T, rewards.T, last


@jax.jit
def replay(env, instance, actions):
    """Rewards `[T]`, the last state and its metrics, of one instance, alone."""

    def body(state, action):
        state, timestep = env.step(state, {"vehicle": action[None]})
        return state, timestep.reward["vehicle"][0]

    state, rewards = jax.lax.scan(body, env.init_state(instance), actions)
    return rewards, state, env.metrics(state)


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("darp", num_nodes=8, num_agents=3, vehicle_capacity=4, orphan_factor=2.0)


@pytest.fixture(scope="module")
def played(env):
    instances = generated(env, jax.random.key(1))
    return instances, *rollout(env, instances, jax.random.key(2), 0.2)


@pytest.mark.slow
def test_everything_ends_within_n_plus_v_steps(played, env):
    _, _, rewards, (state, timestep) = played
    assert timestep.terminated.all() and not timestep.truncated.any()
    assert state.step.max() <= env.num_nodes + env.num_agents
    np.testing.assert_allclose(rewards.sum(axis=1), -(state.total_distance + 100 * penalty(timestep.metrics)), 1e-5)


def list_of(instances):
    """A batch in NumPy, one by one."""
    instances = jax.device_get(instances)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], instances) for i in range(len(instances.demand))]


def penalty(metrics):
    return metrics["unvisited_nodes"] + metrics["stranded"]  # orphan_factor 2


def test_dense_rewards_sum_to_the_sparse_one(played, env):
    instances, actions, rewards, _ = played
    dense = env.replace(reward="dense")
    spread = jax.vmap(replay, (None, 0, 0))(dense, instances, actions)[0]
    np.testing.assert_allclose(spread.sum(axis=1), rewards.sum(axis=1), 1e-5)
    assert (np.count_nonzero(spread, axis=1) > 4).all()
    assert (np.count_nonzero(rewards, axis=1) == 1).all()


def test_an_instance_costs_the_same_alone_padded_and_in_any_batch(played, env):
    instances, actions, rewards, (state, _) = played
    larger = jaxvrp.make("darp", num_nodes=14, num_agents=5, vehicle_capacity=4, orphan_factor=2.0)
    for i in range(6):
        instance = jax.tree.map(lambda leaf, i=i: leaf[i], instances)
        alone, last, _ = replay(env, instance, actions[i])
        np.testing.assert_allclose(alone.sum(), rewards[i].sum(), ROUNDING)
        wide, wide_last, metrics = replay(larger, instance, actions[i])
        np.testing.assert_allclose(wide.sum(), rewards[i].sum(), ROUNDING)
        np.testing.assert_allclose(wide_last.total_distance, last.total_distance, ROUNDING)
        np.testing.assert_allclose(wide_last.total_distance, state.total_distance[i], ROUNDING)
        assert float(metrics["unvisited_nodes"]) == np.count_nonzero(~np.asarray(state.visited[i, 1:]))


@pytest.mark.slow
def test_nested_vmap_changes_nothing(played, env):
    instances, actions, rewards, _ = played
    square = jax.tree.map(lambda leaf: leaf.reshape(4, 16, *leaf.shape[1:]), (instances, actions))
    nested = jax.vmap(jax.vmap(replay, (None, 0, 0)), (None, 0, 0))(env, *square)[0]
    np.testing.assert_allclose(nested.sum(axis=-1).ravel(), rewards.sum(axis=1), ROUNDING)


def test_instances_of_different_size_share_a_batch(env):
    small = list_of(generated(jaxvrp.make("darp", num_nodes=4, num_agents=1), jax.random.key(5)))[:32]
    large = list_of(generated(env, jax.random.key(6)))[:32]
    _, _, (state, timestep) = rollout(env, stack([*small, *large]), jax.random.key(0), 0.0)
    assert (state.step[:32] <= 5).all() and timestep.done.all()
    assert (timestep.metrics["requests_served"][:32] <= 2).all() and timestep.metrics["requests_served"].max() > 2
    assert (state.instance.demand[:32, 5:] == 0).all() and state.visited[:32, 5:].all()
    with pytest.raises(ValueError, match="8 nodes and 3 vehicles does not fit into num_nodes 4, num_agents 3"):
        jaxvrp.make("darp", num_nodes=4, num_agents=3).reset_to(large[0])


@pytest.mark.slow("True")
@pytest.mark.parametrize("limits", [False, True])
def test_rollouts_without_emergency_pass_the_report(limits):
    bounds = {"max_ride_time": 6.0, "max_route_duration": 30.0}
    env = jaxvrp.make("darp", num_nodes=8, num_agents=3, vehicle_capacity=4, limits=limits, **bounds)
    instances = generated(env, jax.random.key(8))
    actions, _, (state, timestep) = rollout(env, instances, jax.random.key(9), 0.0)
    clean = np.flatnonzero(np.asarray(timestep.metrics["stranded"]) == 0)
    assert len(clean) > 16
    if not limits:
        instances = instances.replace(**dict.fromkeys(bounds, np.full(64, np.inf)))
    instances, actions = list_of(instances), np.asarray(actions)
    for i in clean:
        # The environment grants 1e-3 on each limit.
        report = solution_report(instances[i], actions[i], tolerance=1e-3)
        broken = {name for name, found in report.violations.items() if found.count}
        assert broken <= {"unserved"}, report.summary()
        np.testing.assert_allclose(report.cost, state.total_distance[i], 1e-5)


@pytest.mark.slow("False")
@pytest.mark.parametrize("lookahead", [False, True])
def test_published_optima_are_played_under_the_mask(published, lookahead):
    """At their cost, with ride times and route durations enforced."""
    num_nodes = max(solution.instance.num_nodes for solution in published)
    num_agents = max(solution.instance.num_agents for solution in published)
    env = jaxvrp.make("darp", num_nodes=num_nodes, num_agents=num_agents, limits=True, lookahead=lookahead)
    plans = np.zeros((len(published), env.max_episode_steps), np.int32)
    for plan, solution in zip(plans, published, strict=True):
        actions = routes_to_actions(solution.routes, solution.instance.num_agents)
        plan[: len(actions)] = actions
    instances = as_float32(stack([solution.instance for solution in published]))
    _, state, metrics = jax.vmap(replay, (None, 0, 0))(env, instances, plans)
    names = np.array([solution.path.stem for solution in published])
    assert not names[np.asarray(metrics["invalid_actions"]) > 0].tolist()
    assert not names[np.asarray(metrics["unvisited_nodes"]) > 0].tolist()
    np.testing.assert_allclose(state.total_distance, [solution.cost for solution in published], 1e-5)


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("closes", [50.0, 1e7, 1e9, np.inf])
def test_a_depot_that_closes_late_opens_no_window(closes, limits):
    """A drive of 3 to windows that end at 3, a bit sooner, and 0.01 sooner: the second is float32's error."""
    env = jaxvrp.make("darp", num_nodes=6, num_agents=1, limits=limits, tighten=False)
    instance = make_instance(
        [[0, 0], [3, 0], [4, 0], [0, 3], [0, 4], [-3, 0], [-4, 0]],
        [0, *[1, -1] * 3],
        [closes, 3, closes, 3 - 1e-6, closes, 3 - 0.01, closes],
        capacity=[1],
        max_ride_time=30,
    )
    assert env.action_mask(env.init_state(instance))["vehicle"][0].tolist() == [False, True, False, True] + [False] * 3


def test_a_fleet_of_different_vehicles_is_driven_in_order():
    env = jaxvrp.make("darp", num_nodes=4, num_agents=2, vehicle_capacity=(1, 3))
    instance = make_instance(
        [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2]], [0, 3, -3, 1, -1], [99] * 5, capacity=[1, 3], vehicle_speed=1.0
    )

    @jax.jit
    def masks(nodes):
        def drive(state, node):
            state, timestep = env.step(state, {"vehicle": node[None]})
            return state, timestep.action_mask["vehicle"][0]

        start, timestep = env.reset_to(instance)
        state, later = jax.lax.scan(drive, start, nodes)
        return state.current_agent, timestep.action_mask["vehicle"][0], later

    agent, first, later = masks(jnp.array([3, 4, 0]))
    assert first.tolist() == [False, False, False, True, False]
    assert int(agent) == 1 and later[-1].tolist() == [False, True, False, False, False]


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


def test_a_capacity_below_every_demand_is_legal_but_says_so(env):
    with pytest.warns(UserWarning, match="below every demand"):
        narrow = jaxvrp.make("darp", num_nodes=8, num_agents=3, vehicle_capacity=1, min_demand=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, _, (_, timestep) = rollout(env, generated(narrow, jax.random.key(0)), jax.random.key(1), 0.0)
    assert timestep.done.all() and (timestep.metrics["unvisited_nodes"] == 8).all()


def test_every_parameter_has_a_sentence():
    sentences = [field.metadata["help"] for field in dataclasses.fields(Darp)]
    assert all(sentences) and len(set(sentences)) == len(sentences)
    env = jaxvrp.make("darp", num_nodes=4, num_agents=2, reward="dense")
    assert env.parameters["reward"] == "dense" and set(env.parameters) >= {"num_nodes", "orphan_factor"}
    with pytest.raises(ValueError, match="reward is 'spars'; it must be one of: sparse, dense"):
        env.replace(reward="spars")

"""The greedy dispatcher: plans worked out by hand, and whole episodes on batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_drone import Instance
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor, greedy_action
from jaxvrp.envs.truck_drone.world import FLYING

# One node: RELEASE_d is 2 + d, RECOVER_d is 2 + D + d. A drone flies 0.2 a step, the truck drives 0.1.
STAY, MOVE_0, RELEASE_0 = 0, 1, 2
HOVER, RETURN, DELIVER_0, DELIVER_1 = 0, 1, 2, 3


def make(num_drones=1, num_customers=1, num_route_nodes=1, **parameters):
    return jaxvrp.make(
        "truck_drone",
        num_drones=num_drones,
        num_customers=num_customers,
        num_route_nodes=num_route_nodes,
        **parameters,
    )


def instance(customers, nodes=((0.6, 0.0),)):
    """The truck at the origin; windows that never close."""
    count = len(customers)
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=jnp.array(nodes, jnp.float32),
        customer_position=jnp.array(customers, jnp.float32),
        demand=jnp.full(count, 0.75, jnp.float32),
        window_start=jnp.zeros(count, jnp.int32),
        window_end=jnp.full(count, 200, jnp.int32),
    )


def fly(world, positions, batteries):
    """The same world with all drones in the air at `positions`, empty-handed."""
    count = len(batteries)
    drones = world.drones.replace(
        position=jnp.array(positions, jnp.float32),
        battery=jnp.array(batteries, jnp.float32),
        status=jnp.full(count, FLYING, jnp.int32),
    )
    return world.replace(drones=drones)


def without_observations(timestep):
    """What is not asked for is not compiled: half of the time."""
    return timestep.replace(observation={}, global_observation=())


@jax.jit
def decide_and_step(env, world):
    action = greedy_action(env, world)
    world, timestep = env.step(world, action)
    return action, world, without_observations(timestep)


def play(env, world):
    """`(truck, drones)` for each step until the episode ends, and its last timestep."""
    plan = []
    while True:
        action, world, timestep = decide_and_step(env, world)
        plan.append((int(action["truck"][0]), *action["drone"].tolist()))
        if timestep.done:
            return plan, timestep


def decide(env, world):
    action, _, _ = decide_and_step(env, world)
    return int(action["truck"][0]), action["drone"].tolist()


@functools.partial(jax.jit, static_argnames=("actor_type", "num_envs"))
def rollout(env, generate_key, play_key, actor_type, num_envs):
    """Whole episodes: states `[T, E]` that were acted in, actions `[T, E, agents]`, returns `[E]`, last timestep."""
    actor = actor_type(env)
    instances = jax.vmap(env.generate)(jax.random.split(generate_key, num_envs))
    state, timestep = jax.vmap(env.reset_to)(instances)

    def advance(carry, key):
        state, timestep, memory = carry
        action, memory = actor.act(key, memory, state, timestep)
        next_state, timestep = jax.vmap(env.step)(state, action)
        rewards = timestep.reward["truck"][:, 0]
        return (next_state, without_observations(timestep), memory), (state, action, rewards)

    keys = jax.random.split(play_key, env.max_episode_steps)
    first = (state, without_observations(timestep), actor.init(num_envs))
    last, (states, actions, rewards) = jax.lax.scan(advance, first, keys)
    return states, actions, rewards.sum(axis=0), last[1]


def test_the_truck_releases_and_stays_when_the_customer_is_in_range():
    """0.5 away: released, then flights of 0.2, 0.2 and 0.1; no need to drive."""
    env = make()
    plan, timestep = play(env, env.init_state(instance([(0.5, 0.0)])))
    assert plan == [(RELEASE_0, HOVER), (STAY, DELIVER_0), (STAY, DELIVER_0), (STAY, DELIVER_0)]
    assert timestep.metrics["success"] == 1
    np.testing.assert_allclose(timestep.metrics["battery_used"], 0.001 + 0.5 * 0.5, rtol=1e-5)


def test_the_truck_drives_until_the_customer_is_in_range():
    """Battery 1 a unit: a trip over d needs d + 1.2 (d + 0.2) + 0.001 <= 1, so d <= 0.345: reached at x = 0.5."""
    env = make(battery_rate=1.0)
    plan, timestep = play(env, env.init_state(instance([(0.8, 0.0)])))
    assert plan == [(MOVE_0, HOVER)] * 5 + [(RELEASE_0, HOVER)] + [(STAY, DELIVER_0)] * 2
    assert timestep.metrics["success"] == 1


def test_each_customer_gets_its_own_drone():
    """Drone 1 is released first, since it is the one matched with the farther customer (0 and 0 are closest).

    In the air it is alone to choose, and takes the nearer customer; the other one is left to drone 0.
    """
    env = make(num_drones=2, num_customers=2)
    plan, timestep = play(env, env.init_state(instance([(-0.3, 0.0), (0.4, 0.0)])))
    assert plan == [
        (RELEASE_0 + 1, HOVER, HOVER),
        (RELEASE_0, HOVER, DELIVER_0),
        (STAY, DELIVER_1, DELIVER_0),
        (STAY, DELIVER_1, RETURN),
    ]
    assert timestep.metrics["success"] == 1


def test_the_nearer_drone_gets_the_only_customer_and_the_other_returns():
    env = make(num_drones=2)
    world = fly(env.init_state(instance([(0.5, 0.0)])), [(0.2, 0.0), (0.3, 0.0)], [1.0, 1.0])
    assert decide(env, world) == (STAY, [RETURN, DELIVER_0])


@pytest.mark.parametrize(("battery", "action"), [(1.0, DELIVER_0), (0.2, RETURN)])
def test_a_package_keeps_its_customer_claimed(battery, action):
    """Drone 1 is nearer to customer 0, but drone 0 has its package, even when it has to give up and return."""
    env = make(num_drones=2, num_customers=2)
    world = fly(env.init_state(instance([(0.5, 0.0), (0.0, 0.7)])), [(0.1, 0.0), (0.4, 0.0)], [battery, 1.0])
    world = world.replace(drones=world.drones.replace(carrying=jnp.array([0, -1], jnp.int32)))
    assert decide(env, world)[1] == [action, DELIVER_1]


@pytest.mark.parametrize(("battery", "action"), [(0.47, DELIVER_0), (0.46, RETURN)])
def test_a_flight_begins_only_if_the_guard_would_not_end_it(battery, action):
    """From (0.4, 0) to (0.5, 0): 0.5 * 0.1 for the flight, 1.2 * 0.5 * (0.5 + 0.2) kept for the way home: 0.47."""
    env = make()
    world = fly(env.init_state(instance([(0.5, 0.0)])), [(0.4, 0.0)], [battery + 0.001])
    assert decide(env, world)[1] == [action]


@pytest.mark.parametrize(("battery", "action"), [(0.73, DELIVER_0), (0.71, RETURN)])
def test_a_drone_returns_by_itself_where_the_guard_would_force_it(battery, action):
    """At (1, 0) the guard fires below 1.2 * 0.5 * (1 + 0.2) = 0.72, though 0.67 would do for the customer."""
    env = make()
    world = fly(env.init_state(instance([(0.5, 0.0)])), [(1.0, 0.0)], [battery])
    assert decide(env, world)[1] == [action]


def test_the_truck_waits_for_a_drone_that_could_not_follow():
    """Drone 0 returns with just what it needs; driving to the far customer's node would leave it behind."""
    env = make(num_drones=1, num_customers=1)
    world = fly(env.init_state(instance([(0.9, 0.0)])), [(-0.5, 0.0)], [0.43])
    assert decide(env, world) == (STAY, [RETURN])
    assert decide(env, fly(world, [(-0.5, 0.0)], [0.7])) == (MOVE_0, [RETURN])


def test_the_truck_recovers_a_drone_with_nothing_to_do():
    env = make(num_drones=1, num_customers=1)
    world = fly(env.init_state(instance([(-0.9, 0.0)])), [(0.1, 0.0)], [0.5])
    assert decide(env, world) == (RELEASE_0 + 1, [RETURN])


def test_unreachable_customers_do_not_hold_the_truck():
    """Nobody can serve the corner at this battery rate; the nearer corner must not keep it from the customer."""
    env = make(num_drones=1, num_customers=2, num_route_nodes=2, battery_rate=1.0)
    nodes = [(-0.3, 0.0), (0.6, 0.0)]
    world = env.init_state(instance([(-0.6, 0.6), (0.9, 0.0)], nodes))
    assert decide(env, world) == (MOVE_0 + 1, [HOVER])


CASES = [
    ((1, 1, 1), {}),
    ((2, 3, 5), {"forced_return_factor": 0.0, "hover_cost": 0.1}),
    ((4, 20, 10), {}),
    ((4, 20, 10), {"recovery_threshold": 0.0}),
    ((4, 20, 10), {"battery_rate": 0.01}),
    ((4, 20, 10), {"battery_rate": 1.0, "truck_speed": 3.0}),
]


@pytest.mark.slow("size1-parameters1", "size2-parameters2")
@pytest.mark.parametrize(("size", "parameters"), CASES)
def test_legal_safe_and_never_two_drones_for_one_customer(size, parameters):
    env = make(*size, **parameters)
    states, actions, _, last = rollout(env, jax.random.key(1), jax.random.key(1), GreedyActor, 64)
    for name in ("invalid_actions", "crashed_drones", "forced_returns"):
        assert not last.metrics[name].any(), name
    assert actions["truck"].dtype == actions["drone"].dtype == jnp.int32
    delivers = np.asarray(actions["drone"])[..., None] == DELIVER_0 + np.arange(size[1])
    assert delivers.sum(axis=2).max() == 1
    # A package in the air is a claim, also where its carrier has to return.
    carried = np.asarray(states.drones.carrying)[..., None] == np.arange(size[1])
    assert (carried | delivers).sum(axis=2).max() == 1


@pytest.mark.slow
def test_the_same_instances_give_the_same_episodes_whatever_the_key():
    env = make(2, 3, 5)
    states, first, _, _ = rollout(env, jax.random.key(0), jax.random.key(1), GreedyActor, 64)
    _, second, _, _ = rollout(env, jax.random.key(0), jax.random.key(2), GreedyActor, 64)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    # The batch is nothing but the function on each of its worlds.
    alone = jax.jit(greedy_action)(env, jax.tree.map(lambda leaf: leaf[5, 3], states))
    jax.tree.map(lambda single, batch: np.testing.assert_array_equal(single, batch[5, 3]), alone, first)


@pytest.mark.slow
def test_beats_random_play_by_far():
    """On 512 instances: completion 1.00 against 0.72, return 79.9 against 27.4, 10 steps against 144."""
    env = make(2, 3, 5)
    _, _, greedy, last = rollout(env, jax.random.key(0), jax.random.key(1), GreedyActor, 64)
    _, _, random, random_last = rollout(env, jax.random.key(0), jax.random.key(1), RandomActor, 64)
    assert last.done.all()
    assert last.metrics["completion_rate"].mean() > 0.98
    assert last.metrics["completion_rate"].mean() > random_last.metrics["completion_rate"].mean() + 0.15
    assert greedy.mean() > random.mean() + 30
    assert last.metrics["time_step"].mean() < 20 < random_last.metrics["time_step"].mean() - 60


def test_serves_nearly_everybody_at_the_middle_size():
    env = make(4, 20, 10)
    _, _, total, last = rollout(env, jax.random.key(0), jax.random.key(1), GreedyActor, 64)
    assert last.metrics["completion_rate"].mean() > 0.98
    assert last.metrics["time_step"].mean() < 60
    assert total.mean() > 240

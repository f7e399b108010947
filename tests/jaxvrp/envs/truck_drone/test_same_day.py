"""`truck_drone_same_day`: orders that are lost, worked out by hand and in random episodes.

Every step is compared with a reference in `test_parity`. A drone flies 0.2 a step, the truck drives 0.1.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import check_env
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_drone import Instance
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import RollingHorizonActor
from jaxvrp.envs.truck_drone.problem.naming import naming_of
from jaxvrp.envs.truck_drone.shown import reasons as truck_reasons
from jaxvrp.envs.truck_drone.world import FLYING, ONBOARD
from jaxvrp.episodes import from_states, play_episodes, record_episode
from jaxvrp.show import export_episode

# Two nodes and two drones: RELEASE_d is 3 + d.
STAY, RELEASE_0 = 0, 3
HOVER, RETURN, DELIVER_0, DELIVER_1 = 0, 1, 2, 3
SIZES = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 2, "max_steps": 60}
SMALL = {"num_drones": 2, "num_customers": 8, "num_route_nodes": 3, "max_steps": 160}


def make(**parameters):
    return jaxvrp.make("truck_drone", scenario="truck_drone_same_day", **{**SIZES, **parameters})


def instance(end):
    """The truck at the origin; the customers are at (0.5, 0) and (0, -0.4), and call before step 0 and in step 2."""
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=jnp.array([[0.6, 0.0], [-0.35, 0.0]], jnp.float32),
        customer_position=jnp.array([[0.5, 0.0], [0.0, -0.4]], jnp.float32),
        demand=jnp.array([0.8, 0.5], jnp.float32),
        window_start=jnp.array([0, 2], jnp.int32),
        window_end=jnp.array(end, jnp.int32),
        known_from=jnp.array([0, 2], jnp.int32),
    )


@functools.partial(jax.jit, static_argnames="length")
def play_choices(env, problem, truck, drone, length):
    first = env.reset_to(problem)

    def advance(carry, action):
        after = env.step(carry[0], action)
        return after, after

    after = jax.lax.scan(advance, first, {"truck": truck[:length, None], "drone": drone[:length]})[1]
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, after)


def play(env, problem, choices):
    """States and timesteps `[len(choices) + 1]` of `(truck, drone 0, drone 1)`."""
    choices = jnp.array(choices, jnp.int32)
    return jax.device_get(play_choices(env, problem, choices[:, 0], choices[:, 1:], len(choices)))


def test_an_order_can_be_delivered_until_its_window_closes():
    """There in step 4: served if that is the last step of the window, lost if the step before is."""
    choices = [(RELEASE_0, 0, 0), *[(STAY, DELIVER_0, 0)] * 3, (STAY, RETURN, 0)]
    states, timesteps = play(make(), instance((4, 30)), choices)
    assert states.customers.arrival_step[-1].tolist() == [4, -1]
    np.testing.assert_allclose(timesteps.reward["truck"][4, 0], 10 - 0.1 * 0.1 * 0.58 * 1.4, atol=1e-5)
    states, timesteps = play(make(), instance((3, 30)), choices)
    assert states.customers.arrival_step[-1].tolist() == [-1, -1]
    assert states.totals.invalid_actions.tolist() == [0, 0, 0, 0, 1, 1]
    assert states.drones.carrying[3:, 0].tolist() == [0, 0, 0], "the package is flown home"
    assert timesteps.action_mask["drone"][3, 0].tolist() == [True, True, False, False]
    assert timesteps.metrics["customers_served"][-1] == 0


def test_a_lost_order_looks_served():
    _, timesteps = play(make(), instance((3, 30)), [(STAY, 0, 0)] * 4)
    seen = timesteps.observation["truck"][:, 0, 5 + 8 * 2 - 1 :].reshape(5, -1)[:, :10].reshape(5, 2, 5)
    assert seen[:, 0, 2].tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_allclose(seen[:, 0, 3], np.array([3, 2, 1, 0, 0]) / 60, atol=1e-6)
    assert seen[:, 1, 2].tolist() == [1, 1, 0, 0, 0], "called in step 2"


def test_the_day_ends_when_all_orders_are_served_or_lost_and_all_drones_are_home():
    choices = [(RELEASE_0, 0, 0), *[(STAY, DELIVER_0, 0)] * 3, *[(STAY, RETURN, 0)] * 4]
    states, timesteps = play(make(), instance((4, 5)), choices)
    home = int((states.drones.status[:, 0] == ONBOARD)[1:].argmax()) + 1
    assert timesteps.terminated.tolist() == [step >= home for step in range(len(choices) + 1)]
    assert timesteps.metrics["success"][-1] == 0


def test_where_decisions_hold_a_lost_package_is_an_event():
    env = make(decide="events", max_repeat=20)
    states, timesteps = play(env, instance((3, 60)), [(RELEASE_0, 0, 0), (STAY, DELIVER_0, 0), (STAY, DELIVER_0, 0)])
    assert states.step.tolist() == [0, 1, 2, 3], "released, the second call, lost"
    assert timesteps.action_mask["drone"][3, 0].tolist() == [True, True, False, False]
    assert states.drones.status[-1, 0] == FLYING


def test_it_conforms():
    small = {"num_drones": 1, "num_route_nodes": 1, "max_steps": 40, "battery_rate": 0.3}
    check_env(make(**small, decide="events", observation="entities"), batch=3)


@pytest.fixture(scope="module")
def days():
    """Random days: environment, states and actions `[E, T + 1, ...]`."""
    wide = {"delivery_threshold": 0.25, "recovery_threshold": 0.4, "truck_speed": 0.2}
    env = make(**SMALL, **wide, battery_rate=0.2)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 8))
    keys = jax.random.split(jax.random.key(1), 8)
    run = jax.jit(jax.vmap(lambda instance, key: record_episode(env, RandomActor(env), instance, key)))
    episodes = jax.device_get(run(instances, keys))
    return env, episodes.states, episodes.actions


def test_nobody_is_served_before_the_call_or_after_the_window(days):
    _, states, _ = days
    problem, arrival = jax.tree.map(lambda leaf: leaf[:, -1], (states.instance, states.customers.arrival_step))
    served = arrival >= 0
    assert served.sum() > 5 and (~served).sum() > 5
    assert (arrival > problem.known_from)[served].all() and (arrival <= problem.window_end)[served].all()
    np.testing.assert_array_equal(problem.known_from, problem.window_start)


def test_a_replay_gives_the_reason(days):
    env, states, actions = days
    problem = jax.tree.map(lambda leaf: leaf[0, 0], states.instance)
    reasons = truck_reasons.reasons_of(env, naming_of(problem, env.num_drones, None))
    causes, masks = jax.device_get(
        jax.jit(jax.vmap(jax.vmap(lambda world: (reasons.explain(world), env.action_mask(world)))))(states)
    )
    for role, mask in masks.items():
        np.testing.assert_array_equal(causes[role].kind == 0, mask)
    lost = causes["drone"].kind[..., 2:] == truck_reasons.Why.LOST
    ends = np.broadcast_to(states.instance.window_end[:, :, None], lost.shape)
    assert lost.any() and (causes["drone"].amount[..., 2:] == ends)[lost].all()
    episode = export_episode(
        from_states(env, *(jax.tree.map(lambda leaf: leaf[0], tree) for tree in (states, actions)))
    )
    assert "lost: the window closed at step" in str([step.get("why") for step in episode["steps"]])


def test_the_dispatcher_declines_and_loses_no_drone():
    """It is legal, and far better than random play; it serves fewer orders than there are."""
    env = make(num_drones=3, num_customers=20, num_route_nodes=6, max_steps=200)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(2), 16))
    greedy, random = (
        jax.jit(functools.partial(play_episodes, env, actor(env)))(instances, jax.random.key(0))
        for actor in (GreedyActor, RandomActor)
    )
    assert not greedy["invalid_actions"].any() and not greedy["crashed_drones"].any()
    assert 0.3 < greedy["completion_rate"].mean() < 0.9
    assert greedy["customers_served"].mean() > 3 * random["customers_served"].mean()


@pytest.mark.slow
def test_the_planner_sees_no_order_before_the_call():
    env = make(**SMALL)
    actor = RollingHorizonActor(env, continuations=6, futures=2)
    state = jax.vmap(lambda key: env.init_state(env.generate(key)))(jax.random.split(jax.random.key(3), 6))
    state = state.replace(step=jnp.full(6, 8, jnp.int32))
    unknown = state.instance.known_from > 8

    @jax.jit
    def act(state):
        timestep = jax.vmap(jaxvrp.environment.unpaid_timestep, (None, 0))(env, state)
        return actor.act(jax.random.key(0), actor.init(6), state, timestep)

    other = state.instance.replace(
        customer_position=jnp.where(unknown[..., None], 0.1, state.instance.customer_position),
        window_end=state.instance.window_end + unknown,
    )
    assert unknown.any()
    jax.tree.map(np.testing.assert_array_equal, act(state), act(state.replace(instance=other)))

"""Entities of truck_drone say what the flat vectors say, which have their own parity test, and what follows from it."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.entities import seen_as
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING

SIZES = {"num_drones": 3, "num_customers": 4, "num_route_nodes": 6, "max_steps": 60}
EPISODES, STEPS = 16, 60


@pytest.fixture(scope="module", params=[0.5, 1.0, 0.0])
def played(request):
    """States, flat timesteps, entities, contexts `[T, E, ...]` of random episodes; and the environment."""
    env = seen_as(jaxvrp.make("truck_drone", **SIZES, battery_rate=request.param), "entities")
    flat = seen_as(env, "flat")
    actor = RandomActor(flat)

    @jax.jit
    def play(key):
        start_key, play_key = jax.random.split(key)
        states, _ = jax.vmap(flat.reset)(jax.random.split(start_key, EPISODES))
        first = jax.vmap(flat.reset_to)(states.instance)

        def step(carry, key):
            action, _ = actor.act(key, (), carry[0], carry[1])
            after = jax.vmap(flat.step)(carry[0], action)
            seen = jax.vmap(env.static_entities)(carry[0]), jax.vmap(env.entities)(carry[0])
            return after, (carry, seen, jax.vmap(env.observation)(carry[0]))

        return jax.lax.scan(step, first, jax.random.split(play_key, STEPS))[1]

    (states, timesteps), (static, dynamic), context = jax.device_get(play(jax.random.key(3)))
    return env, states, timesteps, static, dynamic, context


def planes_of(env, static, dynamic, kind):
    """`name -> [T, E, count]`."""
    names = {each.name: each for each in env.entity_kinds}[kind].features
    both = np.concatenate([static[kind], dynamic[kind]], axis=-2)
    return {each.name: both[:, :, index] for index, each in enumerate(names)}


@pytest.mark.slow("1.0", "0.0")
def test_customers_are_those_of_the_flat_vectors(played):
    env, states, timesteps, static, dynamic, _ = played
    shown = planes_of(env, static, dynamic, "customer")
    rows = timesteps.global_observation[..., 4 + 7 * 3 : -1].reshape(STEPS, EPISODES, 4, 5)
    waiting = rows[..., 2] == 0
    np.testing.assert_array_equal(shown["present"] > 0, waiting)
    np.testing.assert_array_equal(shown["x"], rows[..., 0])
    np.testing.assert_array_equal(shown["y"], rows[..., 1])
    np.testing.assert_array_equal(shown["demand"], rows[..., 4])
    np.testing.assert_array_equal(shown["window"], np.where(waiting, rows[..., 3], 0))
    np.testing.assert_allclose(shown["deadline"], states.instance.window_end / env.max_steps, rtol=1e-6)
    carried = (states.drones.carrying[..., None] == np.arange(4)).any(axis=2)
    np.testing.assert_array_equal(shown["carried"] > 0, carried & waiting)
    assert carried.any() and waiting.any() and not waiting.all()


@pytest.mark.slow("0.0", "1.0")
def test_drones_and_nodes_are_those_of_the_flat_vectors(played):
    env, states, timesteps, static, dynamic, _ = played
    shown = planes_of(env, static, dynamic, "drone")
    rows = timesteps.global_observation[..., 4 : 4 + 7 * 3].reshape(STEPS, EPISODES, 3, 7)
    flies = states.drones.status != CRASHED
    np.testing.assert_array_equal(shown["present"] > 0, flies)
    for name, column in {"x": 0, "y": 1, "battery": 4, "carrying": 5}.items():
        np.testing.assert_array_equal(shown[name], rows[..., column] * flies, err_msg=name)
    np.testing.assert_array_equal(shown["onboard"] > 0, states.drones.status == ONBOARD)
    np.testing.assert_array_equal(shown["returning"] > 0, states.drones.status == RETURNING)
    rate = float(env.battery_rate)
    flown = np.minimum(states.drones.battery / rate, 4.0) if rate else np.full_like(states.drones.battery, 4.0)
    np.testing.assert_allclose(shown["range"], flown * flies, rtol=1e-6)
    nodes = planes_of(env, static, dynamic, "node")
    np.testing.assert_array_equal(np.stack([nodes["x"], nodes["y"]], axis=-1), states.instance.node_position)
    assert (nodes["present"] == 1).all()


@pytest.mark.slow("0.0", "1.0")
def test_contexts_are_those_of_the_flat_vectors(played):
    env, states, timesteps, _, _, context = played
    truck, drone = (env.roles[name].context for name in ("truck", "drone"))
    flat = timesteps.observation["drone"]
    clock = timesteps.global_observation[..., -1]
    of_truck = np.concatenate([timesteps.observation["truck"][..., 0, :2], clock[..., None]], axis=-1)
    np.testing.assert_array_equal(context["truck"][:, :, 0], of_truck)
    assert [each.name for each in truck] == ["x", "y", "clock"]
    shown = {each.name: context["drone"][..., index] for index, each in enumerate(drone)}
    for name, column in {"x": 0, "y": 1, "battery": 4, "carrying": 5, "onboard": 8}.items():
        np.testing.assert_array_equal(shown[name], flat[..., column], err_msg=name)
    np.testing.assert_allclose(shown["truck_x"] - shown["x"], flat[..., 9], atol=1e-6)
    np.testing.assert_allclose(shown["truck_y"] - shown["y"], flat[..., 10], atol=1e-6)
    np.testing.assert_array_equal(shown["clock"], np.broadcast_to(clock[..., None], shown["clock"].shape))
    np.testing.assert_array_equal(shown["crashed"] > 0, states.drones.status == CRASHED)
    np.testing.assert_array_equal(shown["returning"] > 0, states.drones.status == RETURNING)


@pytest.mark.slow("0.0", "1.0")
def test_the_margin_is_where_the_battery_guard_begins(played):
    """Below 0 an airborne drone goes home in this step, whatever it chooses; above it nobody makes it."""
    env, states, _, _, _, context = played
    names = [each.name for each in env.roles["drone"].context]
    margin = context["drone"][..., names.index("margin")][:-1]
    airborne = (states.drones.status[:-1] != ONBOARD) & (states.drones.status[:-1] != CRASHED)
    running = (states.step[1:] > states.step[:-1])[..., None]
    below, above = margin < -1e-5, margin > 1e-5
    forced, flies_on = states.drones.forced_return[1:] & running, states.drones.status[1:] == FLYING
    assert not (forced & above).any()
    assert not (flies_on & airborne & running & below).any()
    assert (flies_on & airborne & above).any()
    assert forced.any() == (float(env.battery_rate) > 0)


@pytest.mark.slow("0.0", "1.0")
def test_what_the_masks_point_at(played):
    """A DELIVER is allowed at most where a customer is present, a RELEASE where a drone is on board."""
    env, _, timesteps, static, dynamic, _ = played
    customers = planes_of(env, static, dynamic, "customer")["present"] > 0
    drones = planes_of(env, static, dynamic, "drone")
    deliver = timesteps.action_mask["drone"][..., 2:]
    assert not (deliver & ~customers[:, :, None]).any()
    release = timesteps.action_mask["truck"][:, :, 0, 1 + 6 : 1 + 6 + 3]
    np.testing.assert_array_equal(release, drones["onboard"] > 0)
    assert env.roles["drone"].pointers[-1] == ("customer", 1)
    assert [pointer.kind for pointer in env.roles["truck"].pointers] == [None, "node", "drone", "drone"]

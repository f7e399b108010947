"""The JAX environment against the plain NumPy reference, which was written from the specification alone.

Every step is checked from a common state, so that one flipped comparison cannot hide behind another. Each environment
of a batch has a battery rate of its own. One action in five is drawn from all integers around the action space.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.truck_drone import NumpyTruckDrone
from benchmarks.reference.truck_drone_same_day import NumpySameDay
from benchmarks.reference.vrpd_tw import NumpyVrpdTw
from jaxvrp.actor import sample_masked

REFERENCES = {"truck_drone": NumpyTruckDrone, "vrpd_tw": NumpyVrpdTw, "truck_drone_same_day": NumpySameDay}

ODD = {"truck_speed": 0.7, "drone_speed": 1.3, "dt": 0.17, "max_steps": 90, "late_penalty": 0.7}
# So that much happens by chance: thresholds are wide, and the truck does not leave its drones behind.
WIDE = {"delivery_threshold": 0.23, "recovery_threshold": 0.31}

# (environment or scenario, drones, customers, nodes, other parameters, environments, least number of steps, 150 000 in
# all with `--thorough`). Without a guard (factor 0) drones crash in flight. One of many comes to where a truck of speed
# 1 was: that is as far as it boards from, to the last bit, so that truck is slower.
SIZES = {
    "alone": ("truck_drone", 1, 1, 1, {}, 240, 16_000),
    "default": ("truck_drone", 2, 3, 5, {}, 240, 25_000),
    "unguarded": ("truck_drone", 2, 3, 5, {"forced_return_factor": 0.0, "hover_cost": 0.013}, 240, 20_000),
    "odd": ("truck_drone", 3, 2, 4, ODD, 330, 15_000),
    "large": ("truck_drone", 4, 20, 10, {"truck_speed": 0.97, "recharge_rate": 0.021, "max_battery": 0.9}, 160, 24_000),
    "default windows": ("vrpd_tw", 2, 3, 5, {}, 160, 13_000),
    "windows": ("vrpd_tw", 2, 3, 5, {**WIDE, "dynamic_share": 0.5, "truck_speed": 0.53}, 240, 20_000),
    "odd windows": (
        "vrpd_tw",
        3,
        2,
        4,
        {**WIDE, **ODD, "forced_return_factor": 0.3, "payload_factor": 2.0},
        240,
        10_000,
    ),
    "same day": ("truck_drone_same_day", 3, 6, 4, {**WIDE, "truck_speed": 0.31, "incomplete_penalty": 3.0}, 160, 8_000),
}
STEPS = 200
TOTALS = {"battery_used", "truck_distance", "drone_distance"}


def rates(count: int) -> np.ndarray:
    """Battery rates from 0.01 to 1, irregular so that no drone lands exactly on an empty battery."""
    return np.geomspace(0.01, 1.0, count).astype(np.float32)


def flat_state(world: Any) -> dict[str, Any]:
    """A world under the reference's names."""
    drones, customers = world.drones, world.customers
    kept = {} if world.truck.target_node is None else {"target_node": world.truck.target_node}
    return kept | {
        "truck_position": world.truck.position,
        "truck_velocity": world.truck.velocity,
        "drone_position": drones.position,
        "drone_velocity": drones.velocity,
        "battery": drones.battery,
        "status": drones.status,
        "carrying": drones.carrying,
        "target_position": drones.target,
        "has_target": drones.has_target,
        "battery_used": drones.battery_used,
        "flown": drones.flown,
        "forced_return": drones.forced_return,
        "served": customers.served,
        "just_served": customers.just_served,
        "arrival_step": customers.arrival_step,
        "served_by": customers.served_by,
        "step": world.step,
    }


def draws(env: jaxvrp.Environment, count: int) -> dict[str, tuple[np.ndarray, ...]]:
    """By role, `[STEPS, count, agents]` each: numbers in [0, 1) that choose a legal action; any integers from -2 to two
    beyond the space; and whether such an integer replaces the legal action, as it does in one case of five."""
    generator = np.random.default_rng(count)
    drawn = {}
    for name, role in env.roles.items():
        shape = (STEPS, count, role.num_agents)
        anything = generator.integers(-2, role.action.num_actions + 2, shape, dtype=np.int32)
        drawn[name] = (generator.random(shape, np.float32), anything, generator.random(shape) < 0.2)
    return drawn


@jax.jit
def play(env: jaxvrp.Environment, key: jax.Array, rate: jax.Array, drawn: dict[str, Any]) -> tuple[Any, ...]:
    """Random steps of one environment per rate: instances, and states, actions, timesteps `[STEPS, E, ...]`."""
    axes = dataclasses.replace(jax.tree.map(lambda _: None, env), battery_rate=0)
    swept = env.replace(battery_rate=rate)
    instances = jax.vmap(env.generate)(jax.random.split(key, rate.shape[0]))
    first = jax.vmap(lambda e, i: e.reset_to(i), in_axes=(axes, 0))(swept, instances)

    def advance(carry: Any, drawn: dict[str, Any]) -> Any:
        state, timestep = carry
        action = {}
        for name, (uniform, anything, is_replaced) in drawn.items():
            legal = sample_masked(uniform, timestep.action_mask[name])
            action[name] = jnp.where(is_replaced, anything, legal)
        after = jax.vmap(lambda e, s, a: e.step(s, a), in_axes=(axes, 0, 0))(swept, state, action)
        return after, (flat_state(state), action, flat_state(after[0]), after[1])

    return instances, first[1], jax.lax.scan(advance, first, drawn)[1]


def replay(reference: NumpyTruckDrone, before: dict, action: dict, live: int) -> dict[str, list[Any]]:
    """The reference's answer to every live step of one environment, each from the given state."""
    out: dict[str, list[Any]] = {}
    for t in range(live):
        reference.load_state({name: value[t] for name, value in before.items()})
        reward, terminated = reference.step(int(action["truck"][t, 0]), action["drone"][t])
        mask, seen = reference.action_mask(), reference.observation()
        answer = {
            **{f"state.{name}": np.array(value) for name, value in reference.state().items()},
            **{f"metrics.{name}": value for name, value in reference.metrics().items()},
            **{f"mask.{role}": mask[role] for role in mask},
            **{f"observation.{role}": seen[role] for role in seen},
            "global_observation": reference.global_observation(),
            "reward": reward,
            "terminated": terminated,
        }
        for name, value in answer.items():
            out.setdefault(name, []).append(value)
    return out


def answers(after: dict[str, Any], timestep: Any) -> dict[str, Any]:
    """The same from the JAX side, `[STEPS, E, ...]`."""
    return {
        **{f"state.{name}": value for name, value in after.items()},
        **{f"metrics.{name}": value for name, value in timestep.metrics.items()},
        **{f"mask.{role}": value for role, value in timestep.action_mask.items()},
        **{f"observation.{role}": value for role, value in timestep.observation.items()},
        "global_observation": timestep.global_observation,
        "reward": timestep.reward["truck"][..., 0],
        "terminated": timestep.terminated,
    }


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, list[Any]], where: str) -> None:
    assert set(found) == set(wanted), where
    for name, values in wanted.items():
        expected, got = np.stack(values), found[name]
        assert got.shape == expected.shape, f"{where} {name}: {got.shape} != {expected.shape}"
        if expected.dtype == bool or np.issubdtype(expected.dtype, np.integer):
            np.testing.assert_array_equal(got, expected, err_msg=f"{where} {name}")
            continue
        # One step of float32 arithmetic on numbers below 100; the totals are sums over an episode.
        tolerance = 2e-4 if name.removeprefix("metrics.") in TOTALS else 1e-5
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=tolerance, err_msg=f"{where} {name}")


@pytest.mark.parametrize(
    ("name", "drones", "customers", "nodes", "others", "count", "least"), SIZES.values(), ids=SIZES
)
@pytest.mark.slow("unguarded", "odd", "large", "windows", "odd windows", "alone")
def test_every_step_equals_the_reference(name, drones, customers, nodes, others, count, least, share):
    count, least = share(count), share(least)
    sizes = {"num_drones": drones, "num_customers": customers, "num_route_nodes": nodes}
    where = {} if name in jaxvrp.registered() else {"scenario": name}
    env = jaxvrp.make("truck_drone" if where else name, **where, **sizes, **others)
    rate = rates(count)
    instances, first, (before, action, after, timestep) = jax.device_get(
        play(env, jax.random.key(count), rate, draws(env, count))
    )
    found, done, compared = answers(after, timestep), np.asarray(timestep.done), 0
    for e in range(count):
        live = int(np.argmax(done[:, e])) + 1
        assert done[live - 1, e], "every episode ends within max_steps"
        reference = REFERENCES[name](**sizes, **others, battery_rate=float(rate[e]))
        reference.reset_to({field: value[e] for field, value in vars(instances).items() if value is not None})
        for role, seen in reference.observation().items():
            np.testing.assert_allclose(first.observation[role][e], seen, atol=1e-6)
        episode = {field: value[:, e] for field, value in before.items()}
        wanted = replay(reference, episode, {role: value[:, e] for role, value in action.items()}, live)
        assert_same({field: value[:live, e] for field, value in found.items()}, wanted, f"env {e} of {sizes}")
        compared += live
    assert compared >= least, f"only {compared} steps were compared"

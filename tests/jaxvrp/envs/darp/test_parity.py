"""The JAX environment against the plain NumPy reference, which was written from the specification alone.

JAX plays, the reference replays; after every step all of state, mask, observation, reward and metrics must agree. One
action in five is drawn from all integers around the action space.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.darp import NumpyDarp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.darp import Instance, make_instance, stack
from jaxvrp.geography.streets import closed
from tests.jaxvrp.envs.darp.small_instances import drawn_demand_and_windows

PLAIN, STREETS = {"round_travel_time": False}, {"travel": "matrix"}
# (nodes, vehicles, parameters, rich instances, episodes); more than 50 000 steps in all with `--thorough`.
CASES = {
    "default": (20, 5, {}, False, 1150),
    "one request": (2, 1, {"reward": "dense"}, False, 300),
    "crowded": (8, 2, {"vehicle_capacity": 3, "max_pickup_deadline": 12, "orphan_factor": 2.0}, False, 620),
    "large, lookahead": (40, 4, {"lookahead": True, "vehicle_speed": 12.0}, False, 320),
    "rich": (12, 4, {**PLAIN, "reward": "dense", "penalty_unvisited": 7.5}, True, 500),
    "rich, lookahead": (16, 3, {**PLAIN, "lookahead": True}, True, 400),
    "rich, limits": (12, 3, {**PLAIN, "limits": True, "tighten": False}, True, 300),
    "streets, lookahead": (12, 3, {**PLAIN, **STREETS, "lookahead": True, "reward": "dense"}, True, 150),
    "streets, limits, lookahead": (12, 3, {**PLAIN, **STREETS, "limits": True, "lookahead": True}, True, 100),
    "rich, limits, lookahead": (20, 3, {**PLAIN, "limits": True, "lookahead": True, "orphan_factor": 2.0}, True, 250),
}
LEAST_STEPS = dict(zip(CASES, (25_000, 600, 5_000, 10_000, 5_000, 4_000, 2_500, 1_000, 600, 2_600), strict=True))
EXACT = ("current_node", "current_agent", "current_load", "visited", "picked_up_by_current", "vehicle_finished", "done")
CLOSE = ("current_time", "total_distance")


def rich_instance(rng: np.random.Generator, num_nodes: int, num_agents: int, streets: bool = False) -> Instance:
    """Two-sided windows, service times, mixed fleet, ride and duration limits; often smaller than the sizes.

    Streets are asymmetric; half of them have lengths of their own.
    """
    nodes = num_nodes - 2 * int(rng.integers(0, num_nodes // 4 + 1))
    agents = num_agents - int(rng.integers(0, 2))
    locs = rng.uniform(-10, 10, (nodes + 1, 2))
    demand, early, late = drawn_demand_and_windows(rng, nodes)
    ways: dict[str, Any] = {}
    if streets:
        straight = np.linalg.norm(locs[:, None] - locs[None], axis=-1)
        time, length, _ = closed(*(straight * rng.uniform(1.0, 1.8, straight.shape) for _ in range(2)))
        ways = {"travel_time": time} | ({"travel_distance": length} if rng.random() < 0.5 else {})
    return make_instance(
        locs,
        demand,
        late,
        **ways,
        capacity=rng.integers(3, 7, agents),
        earliest=early,
        service_time=np.concatenate([[0.0], rng.uniform(0, 4, nodes)]),
        vehicle_speed=rng.uniform(0.8, 1.5),
        max_ride_time=rng.uniform(12, 40),
        max_route_duration=rng.uniform(60, 240),
        round_travel_time=bool(rng.random() < 0.3),
    )


@functools.partial(jax.jit, static_argnums=0)
def play(env: jaxvrp.Environment, instances: Instance, key: jax.Array) -> tuple[Any, ...]:
    """States and timesteps `[T + 1, E, ...]`, and the actions `[T, E]` between them."""
    first = jax.vmap(env.reset_to)(instances)
    actor = RandomActor(env)

    def body(play: Any, key: jax.Array) -> Any:
        legal_key, odd_key, which_key = jax.random.split(key, 3)
        legal = actor.act(legal_key, (), *play)[0]["vehicle"]
        anything = jax.random.randint(odd_key, legal.shape, -2, env.num_nodes + 3)
        action = jnp.where(jax.random.bernoulli(which_key, 0.2, legal.shape), anything, legal)
        play = jax.vmap(env.step)(play[0], {"vehicle": action})
        return play, (play, action[:, 0])

    keys = jax.random.split(key, env.max_episode_steps + 2)
    _, (played, actions) = jax.lax.scan(body, first, keys)
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, played), actions


def replay(reference: NumpyDarp, instance: Instance, actions: np.ndarray) -> list[dict[str, Any]]:
    """What the reference shows after each step of an episode, the start first; up to the end of the episode."""
    reference.reset_to(instance)
    shown, reward = [], 0.0
    for action in [*actions.tolist(), None]:
        shown.append(snapshot(reference, reward))
        if reference.done:
            return shown
        reward, _ = reference.step(action)
    raise AssertionError("an episode must end within N + V steps")


def snapshot(reference: NumpyDarp, reward: float) -> dict[str, Any]:
    """Copies, under the names of `observed`; mask and observation of a finished instance are not compared."""
    done, picked = reference.done, reference.picked_up_by_current
    return {
        **{name: np.copy(getattr(reference, name)) for name in (*EXACT, *CLOSE)},
        "pickup_time": np.where(picked, reference.pickup_time, 0),
        "mask": np.zeros_like(picked) if done else reference.action_mask(),
        "observation": reference.observation() * (not done),
        "entities": reference.entities() * (not done),
        "reward": np.float32(reward),
        **{f"metrics/{name}": value for name, value in reference.metrics().items()},
    }


def observed(states: Any, timesteps: Any) -> dict[str, np.ndarray]:
    """The same of the environment, `[T + 1, E, ...]`."""
    running = ~states.done[..., None]
    shown = {name: getattr(states, name) for name in (*EXACT, *CLOSE)}
    shown["pickup_time"] = np.where(states.picked_up_by_current, states.pickup_time, 0)
    shown["mask"] = timesteps.action_mask["vehicle"][:, :, 0] & running
    shown["observation"] = np.where(running, timesteps.observation["vehicle"][:, :, 0], 0)
    shown["entities"] = np.where(running[..., None], timesteps.entities["request"], 0)
    shown["reward"] = timesteps.reward["vehicle"][:, :, 0]
    shown |= {f"metrics/{name}": value for name, value in timesteps.metrics.items()}
    return shown


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow(*[name for name in CASES if name != "default"])
def test_every_step_agrees_with_the_reference(name: str, share: Callable[[int], int]) -> None:
    num_nodes, num_agents, parameters, rich, episodes = CASES[name]
    episodes, least_steps = share(episodes), share(LEAST_STEPS[name])
    env = jaxvrp.make("darp", num_nodes=num_nodes, num_agents=num_agents, **parameters)
    streets = parameters.get("travel") == "matrix"
    rules = {name: value for name, value in parameters.items() if name != "travel"}
    reference = NumpyDarp(num_nodes, num_agents, **rules)
    rng = np.random.default_rng(len(name))
    instances = [
        rich_instance(rng, num_nodes, num_agents, streets) if rich else reference.generate(rng) for _ in range(episodes)
    ]
    (states, timesteps), actions = jax.device_get(play(env, stack(instances), jax.random.key(len(name))))
    static = jax.vmap(env.static_entities)(jax.tree.map(lambda leaf: leaf[0], states))["request"]
    for instance, planes in zip(instances, static, strict=True):
        reference.reset_to(instance)
        np.testing.assert_allclose(planes, reference.static_entities(), 1e-5, 1e-6)
    expected = [replay(reference, instance, actions[:, i]) for i, instance in enumerate(instances)]
    for field, values in observed(states, timesteps).items():
        got, wanted = np.array(values), np.zeros_like(values)
        for i, shown in enumerate(expected):
            wanted[: len(shown), i] = [step[field] for step in shown]
            got[len(shown) :, i] = 0
        exact = got.dtype.kind in "bi"
        np.testing.assert_allclose(got, wanted, 0 if exact else 1e-5, 0 if exact else 1e-4, err_msg=field)
    assert timesteps.done[-1].all()
    assert sum(len(shown) - 1 for shown in expected) >= least_steps

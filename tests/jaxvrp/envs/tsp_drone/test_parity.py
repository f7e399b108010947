"""The JAX environment against the plain NumPy reference, which was written from the specification alone.

JAX plays, the reference replays; after every step all of state, masks, observation, entities, reward and metrics must
agree. The reference knows whether a meeting is possible by trying everything that the truck could do. One action in
ten is drawn from all integers around the action space.
"""

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.tsp_drone import NumpyTspDrone
from jaxvrp.envs.tsp_drone import make_instance, stack
from tests.jaxvrp.envs.tsp_drone.odd_play import play

# (nodes, environment's parameters, kind of instances, episodes)
CASES = {
    "default": (12, {}, "plain", 60),
    "one node": (1, {}, "plain", 1),
    "one customer": (2, {"reward": "sparse"}, "rich", 40),
    "short flights": (7, {}, "rich", 240),
    "short flights, no revisits": (7, {"allow_revisits": False, "reward": "sparse"}, "rich", 240),
    "matrices": (6, {}, "matrices", 120),
    "sorties": (7, {}, "sorties", 120),
    "sorties, no revisits": (7, {"allow_revisits": False}, "sorties", 240),
}
STATE = {
    "truck_node": "truck",
    "served": "served",
    "is_away": "away",
    "launch_node": "launch",
    "drone_customer": "customer",
    "must_meet": "must_meet",
    "done": "done",
    "truck_elapsed": "elapsed",
    "drone_elapsed": "airborne",
    "clock": "clock",
}


def drawn_instance(rng, num_nodes, kind):
    """Ranges at which many sorties are impossible, customers who may not be flown to; often smaller than the size."""
    if kind == "plain":
        return make_instance(rng.uniform(0, 100, (num_nodes, 2)))
    count = num_nodes - int(rng.integers(0, 2)) * (num_nodes > 2)
    times = {}
    if kind == "matrices":
        truck, drone = rng.uniform(5, 50, (2, count, count)) * (1 - np.eye(count))
        times = {"truck_time": truck, "drone_time": drone}
    if kind == "sorties":
        times = {"depot_launch_time": rng.uniform(0, 3), "max_sortie": rng.choice([rng.uniform(8, 40), np.inf])}
    return make_instance(
        rng.uniform(-10, 10, (count, 2)),
        truck_pace=rng.uniform(0.5, 2),
        drone_pace=rng.uniform(0.2, 2),
        max_flight=rng.choice([rng.uniform(4, 25), np.inf]) * (3 if times else 1),
        no_fly=rng.random(count) < 0.2,
        launch_time=rng.uniform(0, 3),
        recovery_time=rng.uniform(0, 3),
        **times,
    )


def replay(reference, instance, drone, truck):
    """What the reference shows at the start and after each step of an episode, up to its end."""
    reference.reset_to(instance)
    shown = [snapshot(reference, 0.0)]
    for actions in zip(drone.tolist(), truck.tolist(), strict=True):
        if reference.done:
            return shown
        reward, _ = reference.step(*actions)
        shown.append(snapshot(reference, reward))
    raise AssertionError("an episode must end within 3 n - 1 steps")


def snapshot(reference, reward):
    """Copies, under the names of `observed`."""
    return {
        **{name: np.copy(getattr(reference, attribute)) for name, attribute in STATE.items()},
        **{f"mask/{role}": mask for role, mask in reference.masks().items()},
        "observation": reference.observation(),
        "entities": reference.entities(),
        "reward": np.float32(reward),
        **{f"metrics/{name}": np.float32(value) for name, value in reference.metrics().items()},
    }


def observed(states, timesteps):
    """The same of the environment, `[T + 1, E, ...]`."""
    for seen in (timesteps.observation, timesteps.reward):
        np.testing.assert_array_equal(seen["drone"], seen["truck"])
    return {
        **{name: getattr(states, name) for name in STATE},
        **{f"mask/{role}": mask[:, :, 0] for role, mask in timesteps.action_mask.items()},
        "observation": timesteps.observation["drone"][:, :, 0],
        "entities": timesteps.entities["node"],
        "reward": timesteps.reward["drone"][:, :, 0],
        **{f"metrics/{name}": value for name, value in timesteps.metrics.items()},
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow("one customer", "one node", "matrices", "short flights", "short flights, no revisits", "sorties")
def test_every_step_agrees_with_the_reference(name, share):
    num_nodes, parameters, kind, episodes = CASES[name]
    env = jaxvrp.make("tsp_drone", num_nodes=num_nodes, **parameters)
    reference = NumpyTspDrone(num_nodes, **parameters)
    rng = np.random.default_rng(len(name))
    instances = [drawn_instance(rng, num_nodes, kind) for _ in range(share(episodes))]
    (states, timesteps), actions = jax.device_get(
        play(env, stack(instances), jax.random.key(len(name)), env.max_episode_steps + 2)
    )
    static = jax.vmap(env.static_entities)(jax.tree.map(lambda leaf: leaf[0], states))["node"]
    expected = []
    for row, instance in enumerate(instances):
        expected.append(replay(reference, instance, actions["drone"][:, row], actions["truck"][:, row]))
        np.testing.assert_allclose(static[row], reference.static_entities(), 1e-5, 1e-5)
    for field, values in observed(states, timesteps).items():
        got, wanted = np.array(values), np.zeros_like(values)
        for row, shown in enumerate(expected):
            wanted[: len(shown), row] = [step[field] for step in shown]
            got[len(shown) :, row] = 0
        exact = got.dtype.kind in "bi"
        np.testing.assert_allclose(got, wanted, 0 if exact else 1e-5, 0 if exact else 1e-3, err_msg=field)
    assert timesteps.done[-1].all()
    longest = max(map(len, expected)) - 1
    assert longest <= env.max_episode_steps
    if kind == "rich" and num_nodes > 2:
        chooses = states.is_drones_turn & ~states.is_away & ~states.done
        refused = ~timesteps.action_mask["drone"][..., 0, 2:] & ~states.served
        assert refused[chooses].mean() > 0.1  # else the limits would not be tested

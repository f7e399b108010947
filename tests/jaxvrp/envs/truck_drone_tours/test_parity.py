"""Tandems with time windows in JAX against the plain NumPy reference, which was written from the specification alone.

JAX plays, the reference replays; after every step state, masks, reward and metrics must agree. The reference knows
whether a tour can be completed by trying everything that truck and drone could do, so that equal masks are exact ones.
"""

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.truck_drone_tours import NumpyTruckDroneTours, least_cost
from jaxvrp.envs.truck_drone_tours import make_instance, read_kuo, stack
from tests.jaxvrp.envs.tsp_drone.odd_play import play

# (nodes, environment's parameters, episodes)
CASES = {
    "as many tandems as customers": (6, {}, 300),
    "two tandems": (6, {"num_tandems": 2, "unserved_price": 3.0, "reward": "sparse"}, 150),
    "one customer": (2, {}, 20),
    "one node": (1, {}, 1),
}


def drawn_instance(rng, num_nodes):
    """Tight in everything, so that much is impossible; often smaller than the size, and with customers out of reach."""
    count = num_nodes - int(rng.integers(0, 2)) * (num_nodes > 2)
    locs = rng.uniform(-3, 3, (count, 2))
    truck_pace, service, horizon = rng.uniform(1, 2), rng.uniform(0, 10), rng.uniform(40, 120)
    way = truck_pace * np.linalg.norm(locs - locs[0], axis=1)
    first = rng.uniform(0, 0.7) * horizon * rng.random(count)
    opens = np.where(rng.random(count) < 0.7, first, 0.0)
    latest = horizon - way - service
    closes = np.minimum(np.maximum(opens, way) + rng.uniform(0, 40, count), latest)
    opens, closes = np.minimum(opens, closes), np.where(rng.random(count) < 0.5, horizon, closes)
    opens[0], closes[0] = 0.0, horizon
    is_customer = np.arange(count) > 0
    instance = make_instance(
        locs,
        truck_pace=truck_pace,
        drone_pace=rng.uniform(0.5, 2),
        no_fly=is_customer & (rng.random(count) < 0.2),
        launch_time=rng.uniform(0, 3),
        recovery_time=rng.uniform(0, 3),
        demand=is_customer * rng.uniform(0, 5, count),
        opens=opens,
        closes=closes,
        service=is_customer * service,
        truck_capacity=rng.choice([8.0, np.inf]),
        drone_capacity=4.5,
        endurance=rng.choice([rng.uniform(8, 25), np.inf]),
        truck_price=1.0,
        drone_price=0.1,
    )
    out_of_reach = is_customer & (rng.random(count) < 0.1)
    return instance.replace(closes=np.where(out_of_reach, 0.0, instance.closes), opens=instance.opens * ~out_of_reach)


def snapshot(world, reward):
    """What the reference shows, under the names of `observed`."""
    tour = world.tour
    flight = tour.flight
    return {
        "truck_node": tour.truck,
        "served": np.isin(np.arange(world.num_nodes), list(tour.unserved), invert=True),
        "is_away": flight is not None,
        "launch_node": flight.launch if flight else 0,
        "drone_customer": flight.customer if flight else 0,
        "time": tour.time,
        "drone_leaves": flight.leave if flight else tour.time,
        "load": tour.load,
        "done": world.done,
        "reward": reward,
        **{f"mask/{role}": mask for role, mask in world.masks().items() if not world.done},
        **{f"metrics/{name}": value for name, value in world.metrics().items()},
    }


def observed(states, timesteps):
    """The same of the environment, `[T + 1, E, ...]`."""
    time = states.clock + states.truck_elapsed
    names = ("truck_node", "served", "is_away", "launch_node", "drone_customer", "done")
    return {
        **{name: getattr(states, name) for name in names},
        "time": time,
        "drone_leaves": np.where(states.is_away, states.clock + states.drone_elapsed, time),
        "load": states.tours.load,
        "reward": timesteps.reward["drone"][:, :, 0],
        **{f"mask/{role}": mask[:, :, 0] for role, mask in timesteps.action_mask.items()},
        **{f"metrics/{name}": value for name, value in timesteps.metrics.items()},
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow("one customer", "one node", "two tandems")
def test_every_step_agrees_with_the_reference(name, share):
    num_nodes, parameters, episodes = CASES[name]
    env = jaxvrp.make("truck_drone_tours", num_nodes=num_nodes, **parameters)
    world = NumpyTruckDroneTours(num_nodes, **parameters)
    rng = np.random.default_rng(len(name))
    instances = [drawn_instance(rng, num_nodes) for _ in range(share(episodes))]
    (states, timesteps), actions = jax.device_get(
        play(env, stack(instances), jax.random.key(len(name)), env.max_episode_steps)
    )
    shown = observed(states, timesteps)
    refused = unserved = 0
    for row, instance in enumerate(instances):
        world.reset_to(instance)
        step, reward = 0, 0.0
        while True:
            for field, wanted in snapshot(world, reward).items():
                got = shown[field][step, row]
                exact = got.dtype.kind in "bi"
                message = f"{field}, episode {row}, step {step}"
                np.testing.assert_allclose(got, wanted, 0 if exact else 1e-5, 0 if exact else 1e-3, err_msg=message)
            refused += np.sum(~shown["mask/truck"][step, row] & ~shown["served"][step, row])
            if world.done:
                break
            reward, _ = world.step(*(int(actions[role][step, row]) for role in ("drone", "truck")))
            step += 1
        unserved += len(world.tour.unserved)
        assert step <= env.max_episode_steps
    assert timesteps.done[-1].all()
    if num_nodes > 2:
        assert refused > 100 and unserved > 0, "else the limits would not be tested"


@pytest.mark.parametrize("number", [1, 3, 5, 7, 9, 11, 13, 15])
def test_the_best_play_has_the_published_optimum(number, published_folder):
    """Of the instances with five customers; published with two digits, 9 cut and not rounded."""
    folder = published_folder("vrptwd_kuo") / "vrptwd_kuo"
    published = dict(line.split(",")[::5][:2] for line in (folder / "published_results.csv").read_text().splitlines())
    cost = least_cost(read_kuo(folder / f"instance-{number}.csv"))
    assert abs(cost - float(published[str(number)])) < 0.0055

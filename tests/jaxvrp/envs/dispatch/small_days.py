"""Small random days of both scenarios, and programs that play them."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from jaxvrp.envs.dispatch import make_instance, stack
from jaxvrp.envs.dispatch.problem.instance import pad
from jaxvrp.geography.streets import closed

REQUESTS, FLEET, STOPS, ZONES = 10, 3, 8, 2
SIZES = {"max_requests": REQUESTS, "max_stops": STOPS, "travel_price": 0.02}
ENVS = {
    "ride_pooling": jaxvrp.make("dispatch", scenario="ride_pooling", num_vehicles=FLEET, zones=ZONES, **SIZES),
    "same_day": jaxvrp.make("dispatch", scenario="same_day", num_vehicles=2, num_drones=1, **SIZES),
}

COUNT = 48
"""Days of a test. With the same number of days, and with or without seeds of noise, tests share a program of `play`."""

NOISY = {"travel_noise": 0.6, "reserve": 0.5, "late_price": 0.03}
"""Parameters with which travel times are not known."""


def ride_day(rng, requests=None, vehicles=FLEET):
    """Loads, windows that open late, requests at one instant, a mixed fleet, and deadlines from loose to tight."""
    count = REQUESTS if requests is None else requests
    arrival = np.sort(rng.uniform(0, 2 * count, count))
    if count > 3:
        arrival[2] = arrival[1]
    pickup, dropoff = rng.uniform(0, 6, (2, count, 2))
    wait, delay = rng.uniform(5, 35, (2, count))
    opens = np.where(rng.random(count) < 0.3, arrival + rng.uniform(0, 8, count), 0.0)
    late = np.where(rng.random(count) < 0.2, arrival + rng.uniform(5, 20, count), 0.0)
    direct = 2.5 * np.hypot(*(pickup - dropoff).T)
    return make_instance(
        arrival,
        dropoff,
        np.maximum(late, opens) + wait + direct + delay + arrival * (opens + late == 0),
        pickup=pickup,
        pickup_deadline=np.maximum(arrival, opens) + wait,
        pickup_earliest=opens,
        dropoff_earliest=late,
        load=rng.integers(1, 3, count),
        value=rng.uniform(0.5, 2, count),
        start=rng.uniform(0, 6, (vehicles, 2)),
        capacity=rng.integers(2, 5, vehicles),
        speed=rng.uniform(20, 40, vehicles),
        detour=rng.uniform(1, 1.4, vehicles),
        stop_time=rng.uniform(0, 4, vehicles),
        horizon=60.0,
        area=[[0, 0], [6, 6]],
    )


def parcel_day(rng, requests=None, vehicles=FLEET):
    """Vehicles and drones, deadlines from loose to tight, trips of limited length; parcels that come after their order,
    deliveries that open late.
    """
    count = REQUESTS if requests is None else requests
    arrival = np.sort(rng.uniform(0, 5 * count, count))
    if count > 3:
        arrival[2] = arrival[1]
    opens = np.where(rng.random(count) < 0.2, arrival + rng.uniform(0, 20, count), 0.0)
    later = np.random.default_rng(rng.bit_generator.state["state"]["state"] % 2**32).uniform(-60, 20, count)
    comes = np.where(later > 0, arrival + later, 0.0)
    is_drone = (np.arange(vehicles) > 0) & ((np.arange(vehicles) == vehicles - 1) | (rng.random(vehicles) < 0.3))
    return make_instance(
        arrival,
        rng.normal(0, 3, (count, 2)),
        np.maximum(arrival, opens) + rng.uniform(10, 70, count) + 0.5 * np.maximum(comes - arrival, 0.0),
        pickup_earliest=comes,
        dropoff_earliest=opens,
        load=rng.integers(1, 3, count),
        value=rng.uniform(0.5, 2, count),
        depot=[0.0, 0.0],
        capacity=np.where(is_drone, rng.integers(1, 3, vehicles), rng.integers(2, 7, vehicles)),
        speed=rng.uniform(25, 45, vehicles),
        detour=np.where(is_drone, 1.0, 1.5),
        stop_time=rng.uniform(0, 3, vehicles),
        turnaround=np.where(is_drone, 10.0, rng.uniform(0, 3, vehicles)),
        max_trip=np.where(rng.random(vehicles) < 0.5, np.inf, rng.uniform(25, 60, vehicles)),
        is_drone=is_drone,
        horizon=5 * REQUESTS + 20.0,
        area=[[-9, -9], [9, 9]],
    )


def street_day(rng, requests=None, vehicles=FLEET):
    """As `parcel_day`, with streets that take up to four times as long in one direction as in the other."""
    day = parcel_day(rng, requests, vehicles)
    count = day.max_requests + 1
    time = closed(rng.uniform(4, 16, (count, count)) * (1 - np.eye(count)))[0]
    return day.replace(travel_time=time)


def ride_along_streets(rng, requests=None, vehicles=FLEET):
    """As `ride_day`, with streets that take up to four times as long in one direction as in the other."""
    day = ride_day(rng, requests, vehicles)
    count = day.num_places
    return day.replace(travel_time=closed(rng.uniform(2, 8, (count, count)) * (1 - np.eye(count)))[0])


DAYS = {"ride_pooling": ride_day, "same_day": parcel_day}

PLAYED = {
    **{name: (env, DAYS[name]) for name, env in ENVS.items()},
    "streets": (ENVS["same_day"].replace(travel="matrix"), street_day),
    "rides along streets": (ENVS["ride_pooling"].replace(travel="matrix"), ride_along_streets),
}
"""Environments and who draws their days, by name."""


def padded(days):
    """A batch of days, all of the sizes of `ENVS`."""
    return stack([pad(day, REQUESTS, FLEET) for day in days])


def each(batch):
    """The days of a batch, one by one, as NumPy arrays."""
    batch = jax.device_get(batch)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(len(batch.load))]


@jax.jit
def play(env, instances, key, odd):
    """States and timesteps `[T + 1, E, ...]`, and actions `{role: [T, E, agents]}`.

    Rows take turns: random among the legal actions, and the last vehicle that can; a share `odd` of all is any integer.
    """
    first = jax.vmap(env.reset_to)(instances)

    def advance(playing, key):
        state, timestep = playing
        action = {}
        for (name, mask), role_key in zip(timestep.action_mask.items(), jax.random.split(key, 2), strict=False):
            choice_key, odd_key, which_key = jax.random.split(role_key, 3)
            uniform = jax.random.uniform(choice_key, mask.shape[:-1])
            at_random = jaxvrp.actor.sample_masked(uniform, mask)
            last = mask.shape[-1] - 1 - jnp.argmax(mask[..., ::-1], axis=-1).astype(jnp.int32)
            chosen = jnp.where(jnp.arange(len(mask))[:, None] % 2 == 0, at_random, last)
            anything = jax.random.randint(odd_key, chosen.shape, -2, mask.shape[-1] + 2)
            action[name] = jnp.where(jax.random.bernoulli(which_key, odd, chosen.shape), anything, chosen)
        playing = jax.vmap(env.step)(state, action)
        return playing, (playing, action)

    _, (played, actions) = jax.lax.scan(advance, first, jax.random.split(key, REQUESTS + 1))
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, played), actions


@jax.jit
def replay(env, instances, actions):
    """States and timesteps `[T + 1, E, ...]` under given actions `{role: [T, E, agents]}`."""
    first = jax.vmap(env.reset_to)(instances)

    def advance(playing, action):
        playing = jax.vmap(env.step)(playing[0], action)
        return playing, playing

    _, played = jax.lax.scan(advance, first, actions)
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, played)

"""The JAX environment against the plain NumPy reference, which was written from the specification alone.

JAX plays, the reference replays; after every step plans, masks, all that is seen, reward and metrics must agree.
"""

import jax
import numpy as np
import pytest

from benchmarks.reference.dispatch import NumpyDispatch, NumpyNoisyDispatch
from tests.jaxvrp.envs.dispatch.small_days import (
    COUNT,
    FLEET,
    NOISY,
    PLAYED,
    STOPS,
    ZONES,
    each,
    padded,
    play,
)

COMPARED = 24
"""Of the days that are played."""


def shown(reference, reward):
    """What the reference shows of the state that it is in."""
    seen = {f"mask/{name}": mask for name, mask in reference.masks().items()}
    seen |= {f"observation/{name}": numbers for name, numbers in reference.context().items()}
    seen |= {f"entities/{name}": planes for name, planes in reference.entities().items()}
    seen |= {f"metrics/{name}": value for name, value in reference.metrics().items()}
    stops = np.full((FLEET, STOPS), -1)
    start = np.full((FLEET, STOPS), np.inf)
    for v, vehicle in enumerate(reference.vehicles):
        served, _ = reference._drive(v, vehicle.stops)
        for k, entry in enumerate(served):
            stops[v, k], start[v, k] = entry.stop.request, entry.start
    return seen | {"reward": reward, "now": reference.now, "stops": stops, "start": start}


def observed(states, timesteps):
    """The same of the environment, `[T + 1, E, ...]`."""
    seen = {f"mask/{name}": mask for name, mask in timesteps.action_mask.items()}
    seen |= {f"observation/{name}": numbers for name, numbers in timesteps.observation.items()}
    seen |= {f"entities/{name}": planes for name, planes in timesteps.entities.items()}
    seen |= {f"metrics/{name}": value for name, value in timesteps.metrics.items()}
    exists = np.isfinite(states.plans.start)
    stops = np.where(exists, states.plans.stops[:, :, 5].astype(int), -1)
    reward = timesteps.reward["dispatcher"][..., 0]
    return seen | {"reward": reward, "now": states.now, "stops": stops, "start": states.plans.start}


def made(env, day, states, i):
    """The reference of a day; with noise, with the factors of its legs."""
    sizes, factors = (day, STOPS, ZONES if env.scenario == "ride_pooling" else 0), states.prepared.factors
    if factors is None:
        return NumpyDispatch(*sizes, travel_price=0.02)
    return NumpyNoisyDispatch(
        *sizes,
        factors=factors.of_mean[0, i],
        planned=float(factors.planned[0, i]),
        travel_price=0.02,
        late_price=env.late_price,
    )


@pytest.mark.slow("streets-exact", "rides along streets-exact", "ride_pooling-noise")
@pytest.mark.parametrize("noise", [{}, NOISY], ids=["exact", "noise"])
@pytest.mark.parametrize("name", PLAYED)
def test_every_step_agrees_with_the_reference(name, noise):
    (env, day_of), rng = PLAYED[name], np.random.default_rng(3)
    env = env.replace(**noise)
    days = [
        day_of(rng, requests=int(rng.integers(0, 11)) if i % 6 == 5 else None, vehicles=2 if i % 5 == 4 else 3)
        for i in range(COUNT)
    ]
    batch = padded([day.replace(travel_seed=np.int32(i)) for i, day in enumerate(days)] if noise else days)
    (states, timesteps), actions = jax.device_get(play(env, batch, jax.random.key(1), 0.1))
    seen, steps, accepted = observed(states, timesteps), 0, 0
    static = jax.device_get(jax.vmap(env.static_entities)(jax.tree.map(lambda leaf: leaf[0], states)))
    for i, day in enumerate(each(batch)[:COMPARED]):
        reference = made(env, day, states, i)
        for kind, planes in reference.static_entities().items():
            np.testing.assert_allclose(static[kind][i], planes, 1e-4, 1e-5, err_msg=kind)
        reward, step = 0.0, 0
        while True:
            for part, wanted in shown(reference, reward).items():
                if reference.done and part.startswith(("entities", "observation", "mask/vehicle")):
                    continue
                got, closeness = seen[part][step, i], 1e-4 if part.startswith(("entities", "observation")) else 1e-3
                np.testing.assert_allclose(got, wanted, 1e-5, closeness, err_msg=f"{part}, day {i}, step {step}")
            if reference.done:
                break
            reward = reference.step(
                int(actions["dispatcher"][step, i, 0]), actions["vehicle"][step, i] if "vehicle" in actions else None
            )
            step += 1
        steps, accepted = steps + step, accepted + reference.served
        assert timesteps.done[step, i] and not timesteps.done[:step, i].any()
        assert (timesteps.reward["dispatcher"][step + 1 :, i] == 0).all()
        np.testing.assert_allclose(timesteps.metrics["served"][-1, i], reference.served)
    assert steps > 8 * COMPARED and accepted > steps / 4
    if noise:
        assert 0.02 < timesteps.metrics["late_share"][-1].mean() < 0.6
    assert (timesteps.metrics["broken_promises"] == 0).all()

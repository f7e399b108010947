"""`dispatch` as an environment: the contract, generated days, mistakes in data, files."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxvrp
from jaxvrp.envs.dispatch import load, make_instance, save
from jaxvrp.envs.dispatch.problem.instance import check
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, NOISY, PLAYED, each, padded, play

SMALL = {
    "ride_pooling": {"num_vehicles": 2, "max_requests": 5, "expected_requests": 4.0, "horizon": 15.0, "zones": 2},
    "same_day": {"num_vehicles": 1, "num_drones": 1, "max_requests": 5, "expected_requests": 4.0},
}


@pytest.mark.slow("flat-ride_pooling", "entities-same_day", "flat-same_day")
@pytest.mark.parametrize("scenario", ENVS)
@pytest.mark.parametrize("observation", ["entities", "flat"])
def test_the_contract_is_kept(scenario, observation):
    rounds = 2 if observation == "flat" else 0
    jaxvrp.check_env(
        jaxvrp.make(
            "dispatch",
            scenario=scenario,
            observation=observation,
            max_stops=4,
            travel_price=0.01,
            replan_rounds=rounds,
            **SMALL[scenario],
        )
    )


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), odd=st.sampled_from([0.0, 0.3, 1.0]), scenario=st.sampled_from(sorted(ENVS)))
def test_no_promise_is_ever_broken(seed, odd, scenario):
    rng = np.random.default_rng(seed)
    batch = padded([DAYS[scenario](rng) for _ in range(COUNT)])
    (states, timesteps), _ = jax.device_get(play(ENVS[scenario], batch, jax.random.key(seed), odd))
    assert timesteps.done[-1].all() and (timesteps.metrics["broken_promises"] == 0).all()
    plans = states.plans
    late = np.where(np.isfinite(plans.start), plans.start - plans.stops[:, :, 3], 0.0)
    assert late.max() < 5e-3
    capacity = states.prepared.capacity
    assert ((plans.aboard >= 0) & (plans.aboard <= capacity)).all()


def test_what_begins_now_is_not_seen_in_the_past():
    """At any minute, however it is rounded."""
    arrival = np.linspace(1, 400, 512, dtype=np.float32)
    deadline, fleet = 500.0, {"capacity": [4, 1], "is_drone": [False, True], "stop_time": 3.0, "speed": 30.0}
    day = make_instance([0.0], [[1.0, 2.0]], [deadline], depot=[0.0, 0.0], horizon=deadline, **fleet)
    days = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (len(arrival), *leaf.shape)), day)
    env = jaxvrp.make("dispatch", scenario="same_day", num_vehicles=1, num_drones=1, max_requests=1, max_stops=2)
    states, _ = jax.jit(jax.vmap(env.reset_to))(days.replace(arrival=arrival[:, None]))
    (vehicles,) = env.entity_kinds
    least = np.array([feature.low for feature in vehicles.dynamic])[:, None]
    assert (jax.jit(jax.vmap(env.entities))(states)[vehicles.name] >= least).all()


def generated(scenario, count, **parameters):
    env = jaxvrp.make("dispatch", scenario=scenario, **parameters)
    return env, jax.device_get(jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), count)))


def test_generated_mornings_look_as_they_say():
    env, days = generated("ride_pooling", 64)
    for day in each(days)[:8]:
        check(day)
    exists = days.load > 0
    counts = exists.sum(axis=1)
    assert abs(counts.mean() - env.expected_requests) < 3 * 20 / 8 and abs(counts.std() - 20) < 6
    arrival = days.arrival[exists]
    assert arrival.min() >= 0 and arrival.max() <= env.horizon
    share, _ = np.histogram(arrival / env.horizon, [0, 0.15, 0.33, 0.47, 0.8, 1])
    rate = share / np.array([0.15, 0.18, 0.14, 0.33, 0.2])
    assert rate[2] > 1.5 * rate[0] and rate[2] > 1.5 * rate[4]
    direct = 2.0 * np.linalg.norm(days.pickup - days.dropoff, axis=-1)
    np.testing.assert_allclose((days.pickup_deadline - days.arrival)[exists], env.max_wait, atol=1e-3)
    np.testing.assert_allclose((days.dropoff_deadline - days.arrival - direct)[exists], env.max_delay, atol=1e-3)
    middle = np.linalg.norm(days.dropoff[exists] - 5.0, axis=-1) < 2.0
    assert 0.45 < middle.mean() < 0.7 and (np.linalg.norm(days.pickup[exists] - 5.0, axis=-1) < 2.0).mean() < 0.25


def test_generated_days_of_parcels_look_as_they_say():
    env, days = generated("same_day", 64)
    for day in each(days)[:8]:
        check(day)
    exists = days.load > 0
    assert abs(exists.sum(axis=1).mean() - env.expected_requests) < 3 * 18.7 / 8
    assert days.arrival[exists].max() <= env.last_order < env.horizon
    np.testing.assert_allclose(days.dropoff[exists].std(axis=0), env.customer_spread, rtol=0.03)
    given = (days.dropoff_deadline - days.arrival)[exists]
    is_express = np.abs(given - env.express_deadline) < 1e-3
    assert abs(is_express.mean() - env.express_share) < 0.02
    np.testing.assert_allclose(given[~is_express], env.delivery_deadline, atol=1e-3)
    np.testing.assert_array_equal(days.is_drone[0], np.arange(13) >= 3)
    np.testing.assert_array_equal(days.detour[0], np.where(days.is_drone[0], 1.0, 1.5))


def test_values_have_a_mean_of_one_and_the_spread_that_is_asked_for():
    _, days = generated("same_day", 64, value_spread=0.7)
    value = days.value[days.load > 0]
    assert abs(value.mean() - 1) < 0.02 and abs(np.log(value).std() - 0.7) < 0.02
    assert (generated("same_day", 2, value_spread=0.0)[1].value.max(axis=1) == 1).all()


@pytest.mark.parametrize("noise", [{}, NOISY], ids=["exact", "noise"])
@pytest.mark.parametrize("scenario", ENVS)
def test_a_step_lowers_for_accelerators_without_sorts_and_callbacks(scenario, noise):
    env = ENVS[scenario].replace(replan_rounds=2, **noise)
    state = jax.eval_shape(lambda key: env.reset(key)[0], jax.random.key(0))
    action = {name: jax.ShapeDtypeStruct((role.num_agents,), role.action.dtype) for name, role in env.roles.items()}
    text = jax.jit(env.step).trace(state, action).lower(lowering_platforms=("cuda", "tpu")).as_text()
    assert not [word for word in ("callback", "f64", "stablehlo.sort") if word in text]


def test_days_are_kept_in_files_exactly(tmp_path):
    """Also what a day need not have."""
    for _, draw in PLAYED.values():
        days = [draw(np.random.default_rng(i)) for i in range(3)]
        more = {"travel_seed": np.int32(7)}
        if days[0].depot is not None:
            more |= {"loading_time": days[0].stop_time + 1.0, "home_by": days[0].stop_time + 90.0}
        for batch in (padded(days), padded([day.replace(**more) for day in days])):
            save(tmp_path / "days.npz", batch)
            jax.tree.map(np.testing.assert_array_equal, load(tmp_path / "days.npz"), batch)


FINE = {
    "arrival": [0.0, 1.0, 1.0],
    "dropoff": [[1, 0], [0, 1], [1, 1]],
    "dropoff_deadline": [30, 30, 30],
    "capacity": [2],
    "speed": 30.0,
    "horizon": 60.0,
    "depot": [0, 0],
}
RIDES = {"depot": None, "pickup": [[0, 0]] * 3, "start": [[0, 0]]}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"arrival": [0, 5, 2]}, "request 2 arrives at 2, before request 1 at 5; sort by arrival"),
        ({"arrival": [0, 1, -1]}, "arrival of request 2 is not 0 or more"),
        ({"capacity": []}, "a day has no vehicle; give at least one"),
        ({"capacity": [0]}, "a day has no vehicle; give at least one"),
        ({"load": [1, 0, 1]}, "request 1 has load 0; give at least 1"),
        ({"load": [1, 1.5, 1]}, "load has a fraction"),
        (
            {"pickup_deadline": [30] * 3, "dropoff_deadline": [30, float("nan"), 30]},
            "dropoff_deadline of request 1 is no number",
        ),
        ({"pickup_deadline": [5, 5, -1]}, "pickup_deadline of request 2 lies before its earliest time"),
        ({"dropoff": [[1, 0], [0, np.inf], [1, 1]]}, "dropoff of request 1 is not finite"),
        ({"speed": 0.0}, "speed of vehicle 0 is not above 0"),
        ({"horizon": -1.0}, "horizon is -1.0; it must be a number above 0"),
        ({"pickup": [[0, 0], [0, 0], [1, 0]]}, "pickup of request 2 is not the depot"),
        ({"sped": 3}, "a day has no field 'sped'"),
        ({"travel_seed": -1}, "travel_seed is -1; give 0 or more"),
        ({"loading_time": -1.0}, "loading_time of vehicle 0 is not 0 or more"),
        ({"home_by": np.inf}, "home_by of vehicle 0 is not 0 or more"),
        ({"pickup_deadline": [20, 30, 30]}, "pickup_deadline of request 0 can't be kept: parcels"),
        ({**RIDES, "home_by": 9.0}, "home_by is of trips from a depot"),
        ({**RIDES, "turnaround": 5}, "turnaround of vehicle 0 is of trips from a depot, and there"),
        ({**RIDES, "max_trip": 50}, "max_trip of vehicle 0 is of trips from a depot, and there is"),
    ],
)
def test_a_mistake_in_a_day_is_one_line(changed, says):
    make_instance(**FINE)
    with pytest.raises(ValueError) as error:
        make_instance(**{**FINE, **changed})
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_request_that_no_vehicle_can_hold_is_legal_but_says_so():
    with pytest.warns(UserWarning, match="1 of 3 requests exceed every vehicle's capacity"):
        make_instance(**{**FINE, "load": [1, 5, 1]})


def test_an_empty_day_is_a_day():
    day = make_instance(**{**FINE, "arrival": [], "dropoff": np.zeros((0, 2)), "dropoff_deadline": []})
    state, timestep = jax.jit(ENVS["same_day"].reset_to)(day)
    assert timestep.done and float(timestep.metrics["requests"]) == 0
    _, after = jax.jit(ENVS["same_day"].step)(state, {"dispatcher": np.zeros(1, np.int32)})
    assert after.done and float(after.reward["dispatcher"][0]) == 0

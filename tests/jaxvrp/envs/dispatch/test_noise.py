"""Travel times that are drawn: what may be known when, what is paid, and that plans which are late stay plans."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import leg_factors, solution_report
from jaxvrp.envs.dispatch.driven_day import driven_day, stops_of
from jaxvrp.envs.dispatch.problem.instance import as_float32, pad
from jaxvrp.envs.dispatch.routes.noise import factors
from jaxvrp.envs.dispatch.routes.noisy_drive import drive
from jaxvrp.envs.dispatch.routes.plans import begins_by
from jaxvrp.envs.dispatch.routes.replan import replan
from jaxvrp.envs.dispatch.shown.story import story_of
from jaxvrp.episodes import from_states, whole
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, FLEET, NOISY, REQUESTS, each, padded, play, replay

NOISY_ENVS = {scenario: env.replace(**NOISY) for scenario, env in ENVS.items()}


def days_of(scenario, seed, count=COUNT):
    rng = np.random.default_rng(seed)
    return padded([DAYS[scenario](rng).replace(travel_seed=np.int32(i)) for i in range(count)])


@pytest.fixture(scope="module", params=ENVS)
def played(request):
    """An environment, days `[E]`, states and timesteps `[T + 1, E]`, actions `[T, E]`."""
    env, batch = NOISY_ENVS[request.param], days_of(request.param, 7)
    (states, timesteps), actions = jax.device_get(play(env, batch, jax.random.key(4), 0.0))
    return env, batch, states, timesteps, actions


# --- factors ------------------------------------------------------------------------------------------------------


def test_factors_have_a_mean_of_one_and_follow_from_the_seed_alone():
    rng = np.random.default_rng(0)
    day = as_float32(pad(DAYS["same_day"](rng), 1000, FLEET).replace(travel_seed=np.int32(5)))
    drawn = factors(day, 0.3, 0.9)
    of_mean = np.asarray(drawn.of_mean)
    assert of_mean.shape == (FLEET, 2000)
    assert abs(of_mean.mean() - 1) < 0.02 and abs(np.log(of_mean).std() - 0.3) < 0.02
    assert abs((of_mean <= float(drawn.planned)).mean() - 0.9) < 0.02, "the planned time is the quantile"
    smaller = as_float32(DAYS["same_day"](rng, vehicles=2).replace(travel_seed=np.int32(5)))
    np.testing.assert_array_equal(factors(smaller, 0.3, 0.9).actual, drawn.actual[:2, :20])
    other = factors(day.replace(travel_seed=jnp.int32(6)), 0.3, 0.9)
    assert not np.isclose(other.actual, drawn.actual).any()


def test_generated_days_differ_in_their_noise_and_not_in_their_requests():
    exact = jaxvrp.make("dispatch", max_requests=20, expected_requests=15.0)
    key, other = jax.random.key(0), jax.random.key(1)
    day, noisy = exact.generate(key), exact.replace(travel_noise=0.3).generate(key)
    assert day.travel_seed is None and noisy.travel_seed != exact.replace(travel_noise=0.3).generate(other).travel_seed
    jax.tree.map(np.testing.assert_array_equal, day, noisy.replace(travel_seed=None))


@pytest.mark.slow("ride_pooling")
@pytest.mark.parametrize("scenario", ENVS)
def test_almost_no_noise_is_no_noise(scenario):
    """The course of a day with noise against the one without, which is another program."""
    env, batch = ENVS[scenario], days_of(scenario, 3)
    (states, timesteps), actions = jax.device_get(play(env, batch.replace(travel_seed=None), jax.random.key(2), 0.0))
    other_states, other = jax.device_get(replay(env.replace(travel_noise=1e-6), batch, actions))
    np.testing.assert_array_equal(timesteps.action_mask["dispatcher"], other.action_mask["dispatcher"])
    np.testing.assert_allclose(states.plans.start, other_states.plans.start, 1e-4, 1e-2)
    for name, values in timesteps.metrics.items():
        np.testing.assert_allclose(values[-1], other.metrics[name][-1], 1e-4, 1e-2, err_msg=name)
    assert (other.metrics["late_share"][-1] == 0).all()
    total = [found.reward["dispatcher"][..., 0].sum(axis=0) for found in (timesteps, other)]
    np.testing.assert_allclose(*total, 1e-4, 1e-3)


# --- what may be known --------------------------------------------------------------------------------------------


@jax.jit
@jax.vmap
def legs_ended(state):
    """`i32[V]`, how many legs of each vehicle have ended."""
    driven = drive(state.prepared, state.plans, state.now)
    begun = driven.present & begins_by(state.prepared, driven.departs, driven.start, state.now)
    there = jnp.where(begun & (driven.arrival <= state.now), driven.leg + 1, 0)
    home = jnp.where(begun & driven.ends_trip & (driven.home <= state.now), driven.leg + 2, 0)
    return jnp.maximum(state.plans.under_way.leg, jnp.maximum(there, home).max(axis=-1))


@jax.jit
def driven_with(env, batch, actual, actions):
    """States and timesteps `[T, E]` of days whose legs take so much longer."""

    def advance(state, action):
        state, timestep = jax.vmap(env.step)(state, action)
        return state, (state, timestep)

    state = jax.vmap(env.init_state)(batch)
    factors = state.prepared.factors.replace(actual=actual)
    state = state.replace(prepared=state.prepared.replace(factors=factors))
    return jax.lax.scan(advance, state, actions)[1]


@pytest.mark.slow("same_day-2", "same_day-5", "same_day-8")
@pytest.mark.parametrize("known", [2, 5, 8])
def test_a_leg_that_has_not_ended_changes_nothing_before(played, known):
    """Legs that have not ended at the arrival of a request take longer: until then all is the same, bit for bit."""
    env, batch, states, _, actions = played
    ended = np.asarray(legs_ended(jax.tree.map(lambda leaf: leaf[known], states)))
    drawn = states.prepared.factors.actual[0]
    is_open = np.arange(drawn.shape[-1]) >= ended[:, :, None]
    longer = 1 + np.random.default_rng(known).uniform(0, 1, drawn.shape).astype(np.float32)
    changed = np.where(is_open, drawn * longer, drawn)

    def until(states, timesteps):
        return jax.tree.map(lambda leaf: leaf[:known], (states.replace(prepared=()), timesteps))

    old, new = (jax.device_get(driven_with(env, batch, jnp.asarray(actual), actions)) for actual in (drawn, changed))
    jax.tree.map(np.testing.assert_array_equal, until(*old), until(*new))
    assert (old[1].metrics["late_minutes"][-1] != new[1].metrics["late_minutes"][-1]).any()


# --- what is paid, and what may be late ---------------------------------------------------------------------------


def test_rewards_sum_to_value_less_travel_and_lateness(played):
    env, _, _, timesteps, _ = played
    last = {name: values[-1] for name, values in timesteps.metrics.items()}
    total = timesteps.reward["dispatcher"][..., 0].sum(axis=0)
    paid = env.travel_price * last["travel"] + env.late_price * last["late_minutes"]
    np.testing.assert_allclose(total, last["value_served"] - paid, 1e-4, 1e-4)
    assert (last["late_minutes"] > 0).mean() > 0.1 and ((last["late_share"] > 0) == (last["late_minutes"] > 0)).all()


def test_what_is_late_is_made_no_later_and_what_is_new_is_planned_in_time(played):
    env, _, states, timesteps, _ = played
    plans, offers = states.plans, states.offers
    present, deadline = np.isfinite(plans.start), plans.stops[:, :, 3]
    bound = np.maximum(deadline, plans.start)[present]
    assert (offers.moved[present] - bound).max() < 2e-3
    was_late = (present & (plans.start > deadline + 1e-2)).any(axis=-1)
    if env.num_zones_each_way:
        assert (offers.feasible & was_late).sum() > 3, "a vehicle that is late can still take requests"
    instance, step = states.prepared.instance, np.minimum(states.step, REQUESTS - 1)
    due = np.take_along_axis(instance.dropoff_deadline, step[..., None], axis=-1)
    assert np.where(offers.feasible, offers.dropoff_start - due, 0.0).max() < 2e-3
    assert (timesteps.metrics["broken_promises"] == 0).all() and timesteps.done[-1].all()


def test_a_late_stop_does_not_block_what_comes_after_it():
    """All legs take three times the mean, and all requests are given to the only vehicle."""
    day = jaxvrp.envs.dispatch.make_instance(
        [0.0, 0.0, 8.0],
        [[2.0, 0.0], [4.0, 0.0], [5.0, 0.0]],
        [6.0, 9.0, 60.0],
        pickup=[[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]],
        start=[[0.0, 0.0]],
        capacity=[4],
        speed=30.0,
        horizon=60.0,
    )
    batch = padded([day.replace(travel_seed=np.int32(0))] * COUNT)
    slow = jnp.full((COUNT, FLEET, 2 * REQUESTS), 3.0)
    take = {"dispatcher": np.ones((REQUESTS + 1, COUNT, 1), np.int32)}
    take["vehicle"] = np.zeros((REQUESTS + 1, COUNT, FLEET), np.int32)
    states, timesteps = jax.device_get(driven_with(NOISY_ENVS["ride_pooling"], batch, slow, take))
    start, deadline = states.plans.start[1, 0, 0], states.plans.stops[1, 0, 3, 0]
    is_late = np.isfinite(start) & (start > deadline)
    assert is_late.any() and timesteps.action_mask["dispatcher"][1, 0, 0].tolist() == [True, True, False, False]
    np.testing.assert_array_equal(states.offers.moved[1, 0, 0][is_late], start[is_late])


@pytest.mark.parametrize("scenario", ENVS)
def test_a_larger_reserve_makes_fewer_late_and_nothing_without_noise(scenario):
    batch = days_of(scenario, 1)
    late = []
    for reserve in (0.5, 0.95):
        (_, timesteps), _ = play(NOISY_ENVS[scenario].replace(reserve=reserve), batch, jax.random.key(0), 0.0)
        late.append(float(timesteps.metrics["late_share"][-1].mean()))
    assert late[1] < 0.5 * late[0]
    batch = batch.replace(travel_seed=None)
    exact = [play(ENVS[scenario].replace(reserve=reserve), batch, jax.random.key(0), 0.0)[0] for reserve in (0.5, 0.95)]
    jax.tree.map(np.testing.assert_array_equal, *exact)


@pytest.mark.parametrize("scenario", ENVS)
def test_replanning_makes_nothing_late_that_was_in_time(scenario):
    env = NOISY_ENVS[scenario]
    states = play(env, days_of(scenario, 9), jax.random.key(6), 0.0)[0][0]
    states = jax.tree.map(lambda leaf: leaf[2:10].reshape(-1, *leaf.shape[2:]), states)
    plans, growth = jax.jit(jax.vmap(lambda state: replan(state.prepared, state.plans, state.step, 12)))(states)

    def starts(plans):
        """By state and stop, when it is planned and its deadline."""
        found = {}
        for i, v, k in np.argwhere(np.isfinite(plans.start)):
            stop = plans.stops[i, :, v, k]
            found[i, int(stop[5]), bool(stop[4] > 0)] = float(plans.start[i, v, k]), float(stop[3])
        return found

    before, after = starts(jax.device_get(states.plans)), starts(jax.device_get(plans))
    assert before.keys() == after.keys() and float(growth.sum(axis=-1).max()) <= 1e-3
    assert all(after[key][0] <= max(start, deadline) + 5e-3 for key, (start, deadline) in before.items())
    assert before != after and any(start > deadline + 0.1 for start, deadline in before.values())


# --- days as they were driven, and files --------------------------------------------------------------------------


def test_a_driven_day_is_sound_and_as_late_as_the_metrics_say(played):
    env, batch, states, timesteps, _ = played
    last = {name: values[-1] for name, values in timesteps.metrics.items()}
    for i, day in enumerate(each(batch)):
        stops = stops_of(env, jax.tree.map(lambda leaf, i=i: leaf[:, i], states))
        report = solution_report(day, stops, factors=leg_factors(env, day))
        assert report.feasible, report.summary()
        served = max(report.served.sum(), 1)
        assert report.served.sum() == last["served"][i]
        np.testing.assert_allclose(report.late.sum() / served, last["late_share"][i], atol=1e-6)
        if env.scenario == "same_day":
            np.testing.assert_allclose(report.travel.sum(), last["travel"][i], 1e-4, 1e-3)
        if last["late_share"][i] > 0:
            assert not solution_report(day, stops).feasible and f"{report.late.sum()} late" in report.summary()
    assert leg_factors(ENVS[env.scenario], each(batch)[0]) is None


@pytest.mark.slow("same_day")
def test_a_story_tells_how_many_were_late(played):
    env, _, states, timesteps, _ = played
    number = int(np.argmax(timesteps.metrics["late_share"][-1]))
    episode = whole(from_states(env, jax.tree.map(lambda leaf: leaf[:, number], states)))
    day, story = driven_day(env, episode.states), story_of(episode)
    assert day.report.late.any() and story.verdict == f"{day.report.late.sum()} requests late"
    late = [place for place in story.places if place.standings and place.standings[-1].name == "late"]
    assert len(late) == len(day.report.late_stops) and not story.is_feasible
    for stop in day.stops:
        place = (day.instance.pickup if stop.is_pickup else day.instance.dropoff)[stop.request]
        times = [time for time, _ in day.tracks[stop.vehicle].points]
        there = [
            np.interp(stop.start, times, [at[axis] for _, at in day.tracks[stop.vehicle].points]) for axis in (0, 1)
        ]
        np.testing.assert_allclose(there, place, atol=1e-3)


def test_a_day_without_a_seed_has_one_beside_others():
    mixed = padded([DAYS["same_day"](np.random.default_rng(0)), each(days_of("same_day", 2, 1))[0]])
    assert mixed.travel_seed.tolist() == [0, 0]


@pytest.mark.slow("ride_pooling")
@pytest.mark.parametrize("scenario", ENVS)
def test_the_contract_is_kept_with_noise(scenario):
    sizes = {"num_vehicles": 2, "max_requests": 5, "expected_requests": 4.0, "max_stops": 4}
    form = {"replan_rounds": 1} if scenario == "ride_pooling" else {"observation": "flat"}
    jaxvrp.check_env(jaxvrp.make("dispatch", scenario=scenario, **form, **sizes, **NOISY))

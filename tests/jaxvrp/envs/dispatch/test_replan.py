"""Re-planning: everybody accepted stays accepted and in time, and the plans never get longer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.dispatch.baselines import search
from jaxvrp.envs.dispatch.routes.insertion import insert, offers
from jaxvrp.envs.dispatch.routes.replan import replan
from jaxvrp.envs.dispatch.routes.schedule import planned_travel, rescheduled
from tests.jaxvrp.envs.dispatch.brute_force import least_travel
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, NOISY, PLAYED, each, padded, play


@pytest.fixture(scope="module", params=[*ENVS, "rides along streets"])
def states(request):
    """States `[N]` of days that were driven at random, those with plans."""
    (env, day_of), rng = PLAYED[request.param], np.random.default_rng(9)
    batch = padded([day_of(rng) for _ in range(COUNT)])
    played = play(env, batch, jax.random.key(6), 0.0)[0][0]
    flat = jax.tree.map(lambda leaf: leaf[2:10].reshape(-1, *leaf.shape[2:]), played)
    return jax.tree.map(lambda leaf: leaf[np.asarray(flat.plans.num_stops.sum(axis=-1) >= 3)], flat)


@functools.partial(jax.jit, static_argnums=1)
@functools.partial(jax.vmap, in_axes=(0, None))
def replanned(state, rounds):
    plans, growth = replan(state.prepared, state.plans, state.step, rounds)
    return plans, growth, planned_travel(state.prepared, state.plans), planned_travel(state.prepared, plans)


travel_of = jax.jit(jax.vmap(planned_travel))


@pytest.fixture(scope="module")
def few(states):
    """What few rounds of the environment make of the states: as `replanned`."""
    return jax.device_get(replanned(states, 12))


@pytest.fixture(scope="module")
def searched(states):
    """The numbers of some states, first of twelve with few open stops, then of a third; they; and what is found."""
    open_stops = np.flatnonzero(states.plans.num_stops.sum(axis=-1) <= 6)[:FEW]
    assert len(open_stops) == FEW
    numbers = np.concatenate([open_stops, np.arange(0, len(states.step), 3)])
    chosen = jax.tree.map(lambda leaf: leaf[numbers], states)
    found = search.replanned(chosen.prepared, chosen.plans, jax.random.key(0), rounds=150)
    return numbers, chosen, jax.device_get(found)


FEW = 12
"""States whose least travel is known by brute force."""


def stops_of(plans):
    """Per state, the requests that are planned and whether they are picked up or dropped off."""
    numbers = np.asarray(plans.stops[:, [5, 4]]) * np.asarray(plans.present)[:, None]
    return [sorted(map(tuple, rows.reshape(2, -1).T.tolist())) for rows in numbers]


def due_of(plans):
    """When each stop begins, and its deadline, by state, request, and whether it is a pickup."""
    stops, start = np.asarray(plans.stops), np.asarray(plans.start)
    return {
        (state, stops[state, 5, v, k], stops[state, 4, v, k] > 0): (start[state, v, k], stops[state, 3, v, k])
        for state, v, k in zip(*np.nonzero(np.isfinite(start)), strict=True)
    }


def test_nobody_is_dropped_no_plan_is_late_and_travel_shrinks(states, few):
    plans, growth, before, after = few
    assert stops_of(plans) == stops_of(states.plans)
    np.testing.assert_allclose(growth.sum(axis=-1), (after - before).sum(axis=-1), atol=1e-3)
    assert (growth.sum(axis=-1) <= 1e-3).all() and (growth.sum(axis=-1) < -0.1).mean() > 0.1
    late = np.where(plans.present, plans.start - plans.stops[:, 3], 0.0)
    assert late.max() < 5e-3
    again = jax.device_get(replanned(states, 12))[0]
    jax.tree.map(np.testing.assert_array_equal, again, plans)


@pytest.mark.slow("ride_pooling")
def test_search_drops_nobody_keeps_promises_and_beats_what_the_environment_does(few, searched):
    """At most of the travel that few rounds of the environment leave, and never more than before."""
    numbers, states, found = searched
    assert stops_of(found.plans) == stops_of(states.plans)
    late = np.where(found.plans.present, found.plans.start - found.plans.stops[:, 3], 0.0)
    assert late.max() < 5e-3
    before, after = (travel[numbers].sum(axis=-1) for travel in few[2:])
    travel = np.asarray(travel_of(states.prepared, found.plans)).sum(axis=-1)
    np.testing.assert_allclose(found.travel.sum(axis=-1), travel, 1e-5)
    assert (travel <= before + 1e-3).all() and travel[FEW:].mean() < after[FEW:].mean() - 0.1
    for name in ("place", "free", "aboard"):
        np.testing.assert_array_equal(getattr(found.plans, name), getattr(states.plans, name))


@pytest.mark.slow("ride_pooling")
def test_search_finds_the_least_travel_of_all_plans(few, searched):
    """Where few stops are open; brute force also says that no plan breaks a promise: less than all cannot be."""
    numbers, states, found = searched
    plans = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), states.plans)
    days = each(states.prepared.instance)[:FEW]
    least = [least_travel(day, jax.tree.map(lambda leaf, i=i: leaf[i], plans)) for i, day in enumerate(days)]
    before = few[2][numbers[:FEW]].sum(axis=-1)
    assert (before > np.array(least) + 0.1).sum() >= 3
    np.testing.assert_allclose(found.travel[:FEW].sum(axis=-1), least, atol=5e-3)


@pytest.mark.slow("same_day")
@pytest.mark.parametrize("scenario", ENVS)
def test_search_makes_nobody_late_nor_later(scenario):
    """With noise a stop may be late in the plan already."""
    rng = np.random.default_rng(3)
    env = ENVS[scenario].replace(**NOISY)
    batch = padded([DAYS[scenario](rng).replace(travel_seed=np.int32(k)) for k in range(COUNT)])
    played = play(env, batch, jax.random.key(6), 0.0)[0][0]
    flat = jax.tree.map(lambda leaf: leaf[2:10].reshape(-1, *leaf.shape[2:]), jax.device_get(played))
    is_late = (np.isfinite(flat.plans.start) & (flat.plans.start > flat.plans.stops[:, 3] + 0.1)).any(axis=(1, 2))
    chosen = is_late | (np.arange(len(is_late)) % 4 == 0)
    flat = jax.tree.map(lambda leaf: leaf[chosen], flat)
    again = search.replanned(flat.prepared, flat.plans, jax.random.key(3), rounds=50)
    allowed, found = due_of(flat.plans), due_of(again.plans)
    assert found.keys() == allowed.keys()
    late = [key for key, (start, due) in allowed.items() if start > due + 0.1]
    assert len(late) > 10
    for key, (start, due) in found.items():
        assert start <= max(due, allowed[key][0]) + 5e-3


@pytest.mark.parametrize("states", ["same_day"], indirect=True)
def test_search_of_parcels_keeps_trips_short_enough_and_what_vehicles_hold(searched):
    """Recomputed in NumPy, stop by stop."""
    _, states, found = searched
    fleet = jax.device_get(states.prepared.fleet)
    for day in range(len(found.travel)):
        for vehicle in range(found.travel.shape[1]):
            stops = found.plans.stops[day, :, vehicle][:, found.plans.present[day, vehicle]]
            pace = states.prepared.pace[day, vehicle]
            capacity, is_drone, turnaround, stop_time, most = (
                getattr(fleet, name)[day, vehicle]
                for name in ("capacity", "is_drone", "turnaround", "stop_time", "max_trip")
            )
            trips = [stops[:, [k]] for k in range(stops.shape[1])] if is_drone else [stops] * (stops.shape[1] > 0)
            clock, travel = found.plans.free[day, vehicle], 0.0
            for trip in trips:
                assert -trip[4].sum() <= capacity
                places = np.vstack([fleet.depot[day], trip[:2].T, fleet.depot[day]])
                left = clock = clock + stop_time
                for k, way in enumerate(pace * np.linalg.norm(np.diff(places, axis=0), axis=1)):
                    clock, travel = clock + way, travel + way
                    if k < trip.shape[1]:
                        clock = max(clock, trip[2, k])
                        assert clock <= trip[3, k] + 5e-3
                        clock += stop_time
                assert clock <= fleet.horizon[day] + 5e-3 and clock - left <= most + 5e-3
                clock += turnaround
            np.testing.assert_allclose(found.travel[day, vehicle], travel, 1e-4, 1e-3)


def test_rescheduling_a_plan_changes_nothing(states):
    again = jax.jit(jax.vmap(lambda state: rescheduled(state.prepared, state.plans).start))(states)
    np.testing.assert_allclose(again, states.plans.start, 1e-5, 1e-3)


def test_what_was_taken_out_could_be_put_back(states):
    """The travel that insertions add is what the plans are longer by."""

    @jax.jit
    @jax.vmap
    def grown(state):
        found = offers(state.prepared, state.plans, state.request)
        plans = insert(state.prepared, state.plans, found, state.request, found.feasible)
        grown = planned_travel(state.prepared, plans) - planned_travel(state.prepared, state.plans)
        return grown, jnp.where(found.feasible, found.added, 0.0), rescheduled(state.prepared, plans).start, plans.start

    travel, added, least, start = jax.device_get(grown(states))
    np.testing.assert_allclose(travel, added, 1e-4, 1e-3)
    np.testing.assert_allclose(least, start, 1e-5, 1e-3)

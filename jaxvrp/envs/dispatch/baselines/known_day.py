"""A day that is known in advance is planned before it begins: the search in hindsight, for a given time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.dispatch.baselines import hindsight
from jaxvrp.envs.dispatch.baselines.hindsight import TRAVEL_PRICE, Served
from jaxvrp.envs.dispatch.baselines.search import Search, advance, begin, search_moment
from jaxvrp.envs.dispatch.driven_day import PlannedDay
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.problem.instance import Instance, as_float32
from jaxvrp.envs.dispatch.problem.solution import Stop
from jaxvrp.envs.dispatch.routes.insertion import insert, offers
from jaxvrp.envs.dispatch.routes.plans import REQUEST, Plans, Prepared, depot_of, leaves, minutes_of_all, places_of
from jaxvrp.envs.dispatch.routes.plans import begin as begin_plans
from jaxvrp.episodes import Episode, follow
from jaxvrp.players import Searched
from jaxvrp.search.annealing import geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.side_by_side import advanced, num_threads
from jaxvrp.search.stop import Stop as StopCriterion

HEAT = 0.1, 0.0003
"""Temperatures of the first and the last round, in mean values of a request, of which a minute of travel costs
`TRAVEL_PRICE`: first half an hour, last some seconds."""

ROUNDS = 64
"""Rounds of one call."""

MOST_STOPS = 256
"""Of a vehicle in the whole day."""

Parts = list[tuple[Served, Served]]
"""Chains: where each is, and the best that it has been at."""


def search(env: Dispatch, problem: Any, key: jax.Array, stop: StopCriterion | float) -> Iterator[Searched]:
    """Plan a day that is known, or a moment of a day."""
    play = search_day if isinstance(problem, Instance) else search_moment
    return play(env, problem, key, stop)


def search_day(env: Dispatch, instance: Instance, key: jax.Array, stop: StopCriterion | float) -> Iterator[Searched]:
    """Plan a day whose requests are all known; see `jaxvrp.players.Search`.

    Most value counts first, then least travel; what does not fit is left out. The cost is minus the value, and
    `TRAVEL_PRICE` mean values for each minute of travel. The search in hindsight knows no windows that open later than
    a parcel is there; where there are such, a vehicle makes one trip, and a drone its flights.
    """
    opens = np.maximum(instance.pickup_earliest, instance.arrival)
    has_windows = instance.depot is not None and bool((np.asarray(instance.dropoff_earliest) > opens).any())
    search = _search_trips if has_windows else _search_whole_day
    yield from search(env, instance, key, stop)


def _search_trips(env: Dispatch, instance: Instance, key: jax.Array, stop: StopCriterion | float) -> Iterator[Searched]:
    """All requests that fit are inserted, the most valuable first; then parcels move for less travel."""
    prepared = hindsight.known(as_float32(instance))
    plans = jax.jit(functools.partial(_inserted, max_stops=min(instance.max_requests, MOST_STOPS)))(prepared)
    single = jax.tree.map(lambda leaf: leaf[None], (prepared, plans))
    worth = float(np.mean(instance.value))

    def play(part: Search, key: jax.Array, progress: np.ndarray) -> Search:
        return advance(part, key, jnp.asarray(progress, jnp.float32))

    for spent, found in anytime(play, begin(*single), key, stop, rounds=ROUNDS):
        best = jax.tree.map(lambda leaf: leaf[0], found.best)
        stops = tuple(_planned_stops(prepared, best.plans))
        value = sum(float(instance.value[each.request]) for each in stops)
        cost = TRAVEL_PRICE * worth * float(best.total) - value
        yield Searched(spent.seconds, cost, {}, functools.partial(_planned, env, instance, stops))


def _inserted(prepared: Prepared, *, max_stops: int) -> Plans:
    """Plans before the day begins: every request where it adds least travel, if it fits.

    The most valuable comes first, of those that are alike the earliest due.
    """
    order = jnp.lexsort((prepared.instance.dropoff_deadline, -prepared.instance.value))

    def put(number: jax.Array, plans: Plans) -> Plans:
        request = prepared.request(order[number])
        found = offers(prepared, plans, request)
        added = jnp.where(found.feasible, found.added, jnp.inf)
        chosen = (jnp.arange(added.shape[0]) == jnp.argmin(added)) & found.feasible
        return insert(prepared, plans, found, request, chosen)

    return jax.lax.fori_loop(0, order.shape[0], put, begin_plans(prepared, max_stops))


def _planned_stops(prepared: Prepared, plans: Plans) -> Iterator[Stop]:
    """The stops of plans before the day begins, of vehicles with a depot; they leave no sooner than the first opens."""
    fleet = prepared.fleet
    loads, loading = leaves(prepared, plans), fleet.minutes_to_load[:, None]
    way = minutes_of_all(prepared, depot_of(prepared, 2), places_of(prepared, plans.stops))
    latest = np.asarray(jnp.maximum(loads, plans.start - way - loading))
    number, start, is_drone = (np.asarray(a) for a in (plans.stops[REQUEST], plans.start, fleet.is_drone))
    for v, k in np.argwhere(np.isfinite(start)).tolist():
        trip, first = (k + 1, k) if is_drone[v] else (1, 0)
        yield Stop(v, int(number[v, k]), False, float(start[v, k]), trip, float(latest[v, first]))


def _search_whole_day(
    env: Dispatch, instance: Instance, key: jax.Array, stop: StopCriterion | float
) -> Iterator[Searched]:
    """The search in hindsight, a chain for each core."""
    prepared = hindsight.known(as_float32(instance))
    # With a depot, insertion needs a place behind the last stop of a vehicle that serves all.
    stops = instance.max_requests + 1 if instance.depot is not None else 2 * instance.max_requests
    first_of = jax.jit(functools.partial(hindsight.first_plan, prepared, min(stops, MOST_STOPS)))
    parts: Parts = [(first, first) for first in map(first_of, jax.random.split(key, num_threads()))]
    program = jax.jit(hindsight.annealed)
    with ThreadPoolExecutor(len(parts)) as pool:

        def play(parts: Parts, key: jax.Array, progress: np.ndarray) -> Parts:
            heats = geometric(*HEAT, jnp.asarray(progress, jnp.float32))

            def go_on(part: tuple[Served, Served], key: jax.Array) -> tuple[Served, Served]:
                return program(prepared, part, jax.random.split(key, ROUNDS), heats)

            return advanced(pool, go_on, parts, key)

        for spent, found in anytime(play, parts, key, stop, rounds=ROUNDS):
            cost, best = min(((_cost(prepared, best), best) for _, best in found), key=lambda each: each[0])
            episode = functools.partial(_planned_whole_day, env, instance, prepared, best)
            yield Searched(spent.seconds, cost, {}, episode)


def _cost(prepared: Prepared, best: Served) -> float:
    instance = prepared.instance
    worth = float(instance.value.sum()) / max(int(prepared.num_requests), 1)
    return TRAVEL_PRICE * worth * float(best.routes.travel.sum()) - float(best.value)


def _planned_whole_day(env: Dispatch, instance: Instance, prepared: Prepared, best: Served) -> Episode:
    return _planned(env, instance, tuple(stops_of(prepared, best)))


def _planned(env: Dispatch, instance: Instance, stops: tuple[Stop, ...]) -> Episode:
    """The plan as an episode, whose actions are not known."""
    nothing = {DISPATCHER: np.zeros((instance.max_requests, 1), np.int32)}
    if env.num_zones_each_way:
        nothing[DRIVER] = np.zeros((instance.max_requests, env.fleet_size), np.int32)
    asked = follow(env, instance, nothing)
    return asked.replace(states=PlannedDay(asked.states, stops))


def stops_of(prepared: Prepared, found: Served) -> Iterator[Stop]:
    """The stops of all vehicles, those of each in their order."""
    has_depot = prepared.fleet.depot is not None
    number, mark = np.asarray(found.routes.row.number), np.asarray(found.routes.row.mark)
    planes = {name: np.asarray(plane) for name, plane in found.routes.planes.items()}
    start, stop_time = planes["start"], np.asarray(prepared.fleet.stop_time)
    trips = np.cumsum(mark, axis=1)
    for v, count in enumerate((number >= 0).sum(axis=1).tolist()):
        departs = 0.0
        for k in range(count):
            if not has_depot:
                departs = float(start[v, k - 1] + stop_time[v]) if k else 0.0
            elif mark[v, k]:
                departs = float(planes["loads_at"][v, k] + planes["shift"][v, k])
            is_pickup, trip = bool(mark[v, k]) and not has_depot, int(trips[v, k]) if has_depot else 0
            yield Stop(v, int(number[v, k]), is_pickup, float(start[v, k]), trip, departs)

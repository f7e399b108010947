"""What is known of a day in advance is planned before it begins: the search in hindsight, for a given time.

What arrives later is answered as it arrives, where it adds least to what is not begun.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import TimeStep
from jaxvrp.envs.dispatch.baselines import hindsight
from jaxvrp.envs.dispatch.baselines.hindsight import TRAVEL_PRICE, Served
from jaxvrp.envs.dispatch.baselines.search import search_moment
from jaxvrp.envs.dispatch.driven_day import PlannedDay
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.problem.instance import Instance, arrives_later, as_float32, requests_known
from jaxvrp.envs.dispatch.problem.solution import Stop
from jaxvrp.envs.dispatch.routes.plans import Prepared
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

LEAST_SLOTS, UNEVEN = 32, 3
"""Stops that a vehicle can have in any case, and as a multiple of its share of all stops."""

_FIRST_PLAN = jax.jit(hindsight.first_plan, static_argnums=1)
_ANNEALED = jax.jit(hindsight.annealed)
_ANSWERED = jax.jit(hindsight.answered)

Parts = list[tuple[Served, Served]]
"""Chains: where each is, and the best that it has been at."""


def search(env: Dispatch, problem: Any, key: jax.Array, stop: StopCriterion | float) -> Iterator[Searched]:
    """Plan a day that is known, or a moment of a day."""
    play = search_day if isinstance(problem, Instance) else search_moment
    return play(env, problem, key, stop)


def search_day(env: Dispatch, instance: Instance, key: jax.Array, stop: StopCriterion | float) -> Iterator[Searched]:
    """Plan a day; with requests that arrive later it has a depot. See `jaxvrp.players.Search`.

    The search in hindsight for those that are known, a chain for each core. Most value counts first, then least
    travel; what does not fit is left out. The cost, of all requests, is minus the value, and `TRAVEL_PRICE` mean values
    for each minute of travel.

    Raises:
        ValueError: requests arrive later, and there is no depot; one line.
    """
    day, later = as_float32(instance), np.flatnonzero(arrives_later(instance)).astype(np.int32)
    if later.size and instance.depot is None:
        raise ValueError(
            f"{later.size} of {sum(requests_known(instance))} requests arrive after the day begins; without a depot, "
            "only a day that is known is planned: set their arrival to 0, or play a baseline"
        )
    whole = prepared = hindsight.known(day)
    if later.size:
        nothing = {name: getattr(day, name).at[later].set(0) for name in ("load", "value")}
        prepared = hindsight.known(day.replace(**nothing))
    firsts = (_FIRST_PLAN(prepared, _most_stops(instance), each) for each in jax.random.split(key, num_threads()))
    parts: Parts = [(first, first) for first in firsts]

    def completed(best: Served) -> Served:
        return _ANSWERED(whole, best, later) if later.size else best

    completed(parts[0][0])  # compiled before the clock starts
    with ThreadPoolExecutor(len(parts)) as pool:

        def play(parts: Parts, key: jax.Array, progress: np.ndarray) -> Parts:
            heats = geometric(*HEAT, jnp.asarray(progress, jnp.float32))

            def go_on(part: tuple[Served, Served], key: jax.Array) -> tuple[Served, Served]:
                return _ANNEALED(prepared, part, jax.random.split(key, ROUNDS), heats)

            return advanced(pool, go_on, parts, key)

        for spent, found in anytime(play, parts, key, stop, rounds=ROUNDS):
            best = completed(min((best for _, best in found), key=lambda each: _cost(prepared, each)))
            episode = functools.partial(_planned, env, instance, whole, best)
            yield Searched(spent.seconds, _cost(whole, best), {}, episode, _figures(whole, best))


def _most_stops(instance: Instance) -> int:
    """Of a vehicle: each round costs as much as a route of so many."""
    stops = instance.max_requests * (1 if instance.depot is not None else 2)
    vans = max(int(np.count_nonzero(~np.asarray(instance.is_drone))), 1)
    return min(stops, max(LEAST_SLOTS, UNEVEN * -(-stops // vans)), MOST_STOPS)


def _cost(prepared: Prepared, best: Served) -> float:
    instance = prepared.instance
    worth = float(instance.value.sum()) / max(int(prepared.num_requests), 1)
    return TRAVEL_PRICE * worth * float(best.routes.travel.sum()) - float(best.value)


def _figures(prepared: Prepared, best: Served) -> dict[str, float]:
    """Of `Dispatch.metrics`."""
    travel, is_served = np.asarray(best.routes.travel), np.asarray(best.is_served)
    return {
        "served": float(is_served.sum()),
        "value_served": float(best.value),
        "travel": float(travel.sum()),
        "drone_travel": float(travel[np.asarray(prepared.fleet.is_drone)].sum()),
    }


def _planned(env: Dispatch, instance: Instance, prepared: Prepared, best: Served) -> Episode:
    """The plan as an episode, whose actions are not known."""
    nothing = {DISPATCHER: np.zeros((instance.max_requests, 1), np.int32)}
    if env.num_zones_each_way:
        nothing[DRIVER] = np.zeros((instance.max_requests, env.fleet_size), np.int32)
    asked, stops = follow(env, instance, nothing), tuple(stops_of(prepared, best))
    return asked.replace(
        states=PlannedDay(asked.states, stops), timesteps=_paid(env, asked.timesteps, prepared, best, stops)
    )


def _paid(env: Dispatch, asked: TimeStep, prepared: Prepared, best: Served, stops: tuple[Stop, ...]) -> TimeStep:
    """The timesteps `[L]` of a day on which all is rejected, with the reward of the plan at the end, and its metrics.

    Waits and delays are left out: they count from when a request was made.
    """
    figures, count = _figures(prepared, best), float(prepared.num_requests)
    served = figures["served"]
    is_drone = np.asarray(prepared.fleet.is_drone)
    by_drone = sum(1 for stop in stops if is_drone[stop.vehicle] and not stop.is_pickup)
    metrics = {
        "requests": count,
        **figures,
        "served_share": served / max(count, 1.0),
        "rejected": count - served,
        "drone_share": by_drone / max(served, 1.0),
        "broken_promises": 0.0,
        "invalid_actions": 0.0,
    }
    worth = figures["value_served"] - float(env.travel_price) * figures["travel"]
    is_end = np.arange(len(asked.done)) == np.argmax(asked.done)
    return asked.replace(
        reward={role: np.where(is_end[:, None], worth, np.zeros_like(paid)) for role, paid in asked.reward.items()},
        metrics={name: np.full(len(is_end), value, np.float32) for name, value in metrics.items()},
    )


def stops_of(prepared: Prepared, found: Served) -> Iterator[Stop]:
    """The stops of all vehicles, those of each in their order."""
    has_depot, stop_time = prepared.fleet.depot is not None, np.asarray(prepared.fleet.stop_time)
    number, mark = np.asarray(found.routes.row.number), np.asarray(found.routes.row.mark)
    planes = {name: np.asarray(plane) for name, plane in found.routes.planes.items()}
    start, trips = planes["start"], np.cumsum(mark, axis=1) * has_depot
    if has_depot:
        departs = np.maximum.accumulate(np.where(mark, planes["loads_at"] + planes["shift"], 0.0), axis=1)
    else:
        departs = np.pad(start[:, :-1] + stop_time[:, None], ((0, 0), (1, 0)))
    for v, k in np.argwhere(number >= 0).tolist():
        is_pickup = bool(mark[v, k]) and not has_depot
        yield Stop(v, int(number[v, k]), is_pickup, float(start[v, k]), int(trips[v, k]), float(departs[v, k]))

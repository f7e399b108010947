"""What could have been served if all requests had been known from the beginning: prize-collecting ruin and recreate.

A round takes requests out of the routes of a whole day, near one in place and time or in its vehicle (Shaw 1998;
Christiaens and Vanden Berghe 2020), and inserts them and some that are not served, one by one, each where it adds
least. Rounds are kept by simulated annealing of the value served, less a little for travel. What a vehicle may do is
what it may do in the environment, but that it knows what comes, see `whole_day`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import select
from jaxvrp.envs.dispatch.baselines import whole_day
from jaxvrp.envs.dispatch.baselines.whole_day import Routes, Row
from jaxvrp.envs.dispatch.problem.instance import Instance
from jaxvrp.envs.dispatch.routes.plans import Prepared, distance, prepare
from jaxvrp.envs.dispatch.routes.replan import kept_first
from jaxvrp.envs.dispatch.routes.schedule import index_of
from jaxvrp.search.annealing import geometric

OUT, IN = 10, 16
"""The most requests that a round takes out, and that it tries to insert."""

HEAT = (0.5, 0.01)
"""Temperatures of the first and the last round, in mean values of a request; they fall by a factor."""

TRAVEL_PRICE = 0.003
"""Mean values of a request that a minute of travel costs; days are generated, in minutes."""


class Served(struct.PyTreeNode):
    """Routes of a whole day, `is_served` (`bool[R]`), and their value (`f32[]`)."""

    routes: Routes
    is_served: jax.Array
    value: jax.Array


@functools.partial(jax.jit, static_argnames=("rounds", "max_stops"))
def with_hindsight(instances: Instance, key: jax.Array, *, rounds: int, max_stops: int) -> Served:
    """The routes `[B]` with the most value that are found for days `[B]`, all requests known from the beginning.

    Args:
        instances: days `[B]`.
        key: typed key.
        rounds: of ruin and recreate.
        max_stops: L, the most stops of a vehicle in the whole day.
    """

    def search(instance: Instance, key: jax.Array) -> Served:
        first_key, key = jax.random.split(key)
        prepared = known(instance)
        first = first_plan(prepared, max_stops, first_key)
        heats = geometric(*HEAT, jnp.arange(rounds, dtype=jnp.float32) / rounds)
        return annealed(prepared, (first, first), jax.random.split(key, rounds), heats)[1]

    return jax.vmap(search)(instances, jax.random.split(key, instances.load.shape[0]))


def known(instance: Instance) -> Prepared:
    """A day whose parcels are loaded no sooner than they are there, and whose passengers get in no sooner."""
    opens = jnp.maximum(instance.pickup_earliest, jnp.where(instance.load > 0, instance.arrival, 0.0))
    return prepare(instance.replace(pickup_earliest=opens))


def annealed(
    prepared: Prepared, plans: tuple[Served, Served], keys: jax.Array, heats: jax.Array
) -> tuple[Served, Served]:
    """The plans of a day, where the search is and its best, after a round for each key and heat (`f32[rounds]`)."""
    instance = prepared.instance
    worth = jnp.sum(jnp.where(instance.load > 0, instance.value, 0.0)) / jnp.maximum(prepared.num_requests, 1)

    def profit(day: Served) -> jax.Array:
        return day.value / worth - TRAVEL_PRICE * jnp.sum(day.routes.travel)

    def advance(carry: tuple[Served, Served], key_and_heat: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        (now, best), (key, heat) = carry, key_and_heat
        change_key, accept_key = jax.random.split(key)
        changed = _round(prepared, now, change_key)
        patience = -heat * jnp.log(jax.random.uniform(accept_key, (), jnp.float32, minval=1e-9))
        now = select(profit(changed) > profit(now) - patience, changed, now)
        return (now, select(profit(now) > profit(best), now, best)), None

    return jax.lax.scan(advance, plans, (keys, heats))[0]


def first_plan(prepared: Prepared, max_stops: int, key: jax.Array) -> Served:
    """Requests inserted from the most valuable on."""
    instance = prepared.instance
    shape = (instance.num_vehicles, max_stops + 1)  # the last one is free: insertion looks behind the last stop
    empty = timed_routes(prepared, Row(jnp.full(shape, -1, jnp.int32), jnp.zeros(shape, bool)))
    count = instance.load.shape[0]
    order = jnp.argsort(-instance.value + 1e-3 * jax.random.uniform(key, (count,), jnp.float32))
    luck = jnp.ones(instance.num_vehicles, jnp.float32)
    day = Served(empty, jnp.zeros(count, bool), jnp.zeros((), jnp.float32))
    return jax.lax.fori_loop(0, count, lambda k, day: _inserted(prepared, day, order[k], luck), day)


def timed_routes(prepared: Prepared, rows: Row) -> Routes:
    """The routes of all vehicles, every stop as early as it can be."""
    vehicles = index_of(rows.number.shape[0])
    return jax.vmap(lambda vehicle, row: whole_day.timed(prepared, vehicle, row))(vehicles, rows)


def _inserted(prepared: Prepared, day: Served, number: jax.Array, luck: jax.Array) -> Served:
    """The day with this request where it adds least, if it is not served and fits anywhere."""
    request = prepared.request(number)
    request = request.replace(exists=request.exists & ~day.is_served[number])
    place = whole_day.best_place(prepared, day.routes, request, luck)
    route = whole_day.timed(prepared, place.vehicle, place.row)
    stays = (index_of(luck.shape[0]) != place.vehicle) | ~place.exists
    return Served(
        routes=select(stays, day.routes, route),
        is_served=day.is_served | ((index_of(day.is_served.shape[0]) == number) & place.exists),
        value=day.value + jnp.where(place.exists, request.value, 0.0),
    )


def answered(prepared: Prepared, day: Served, later: jax.Array) -> Served:
    """A day with a depot after requests that arrive later, `i32[K]` by arrival, each where it adds least, if it fits.

    Trips that have begun to load when it arrives stay as they are.
    """
    luck = jnp.ones(prepared.capacity.shape, jnp.float32)

    def answer(k: jax.Array, day: Served) -> Served:
        planes, row = day.routes.planes, day.routes.row
        loads = jnp.where(row.mark, planes["loads_at"] + planes["shift"], -jnp.inf)
        is_begun = (jax.lax.cummax(loads, axis=1) < prepared.request(later[k]).arrival) & (row.number >= 0)
        fixed = {name: jnp.where(is_begun, -jnp.inf, planes[name]) for name in ("spare", "spare_of_trip")}
        return _inserted(prepared, day.replace(routes=day.routes.replace(planes={**planes, **fixed})), later[k], luck)

    return jax.lax.fori_loop(0, later.shape[0], answer, day)


def _round(prepared: Prepared, day: Served, key: jax.Array) -> Served:
    """Some requests leave; then they, and some that are not served, return where they fit."""
    instance, size = prepared.instance, day.is_served.shape[0]
    seed_key, dice_key, uniform_key, luck_key = jax.random.split(key, 4)
    dice = jax.random.uniform(dice_key, (6,), jnp.float32)
    uniform = jax.random.uniform(uniform_key, (3, size), jnp.float32, minval=1e-6)
    exists, number = instance.load > 0, day.routes.row.number
    weight = jnp.where(exists, jnp.where(day.is_served, 0.5, 1.0), 0.0)
    chance = jnp.cumsum(weight)
    seed = jnp.sum(chance <= jax.random.uniform(seed_key, (), jnp.float32) * chance[-1], dtype=jnp.int32)
    seed = jnp.minimum(seed, size - 1)

    when, by = _served_when(prepared, day)
    apart = distance(instance.dropoff.T, instance.dropoff[seed][:, None]) * prepared.pace[0]
    if instance.depot is None:
        apart = 0.5 * (apart + distance(instance.pickup.T, instance.pickup[seed][:, None]) * prepared.pace[0])
    late = jnp.abs(when - when[seed])
    related = (apart * dice[0] + late * (1.0 - 0.7 * dice[0])) * (0.3 + uniform[0])
    is_string = dice[1] < 0.4
    elsewhere = jnp.where(is_string & (by[seed] >= 0) & (by != by[seed]), 1e4, 0.0)
    score = jnp.where(day.is_served, related + elsewhere, jnp.inf)
    most_out, most_in = min(OUT, size), min(IN, size)
    least, chosen = jax.lax.top_k(-score, most_out)
    leaves = (index_of(most_out) < 1.0 + jnp.floor(dice[2] * most_out)) & (least > -jnp.inf)
    is_out = jnp.zeros(size, bool).at[jnp.where(leaves, chosen, size)].set(True, mode="drop")
    day = _without(prepared, day, is_out)

    # Those near the seed, of those that are worth more rather than less.
    value = instance.value ** dice[3]
    wish = jnp.where(is_out, related * 1e-6, related / value)
    wish = jnp.where(exists & ~day.is_served, jnp.where(index_of(size) == seed, 0.0, wish), jnp.inf)
    candidates = jax.lax.top_k(-wish, most_in)[1]
    effort = 1.0 + 0.1 * dice[4] * distance(instance.dropoff.T, instance.pickup.T) * prepared.pace[0]
    turn = jnp.log(effort / instance.value) - 0.5 * jnp.log(-jnp.log(uniform[1])) * dice[5]
    is_wish = wish[candidates] < jnp.inf
    order = candidates[jax.lax.top_k(jnp.where(is_wish, -turn[candidates], -jnp.inf), most_in)[1]]
    luck = jnp.exp(0.5 * jax.random.normal(luck_key, (number.shape[0],), jnp.float32))
    count = jnp.sum(is_wish, dtype=jnp.int32)
    return jax.lax.fori_loop(0, count, lambda k, day: _inserted(prepared, day, order[k], luck), day)


def _served_when(prepared: Prepared, day: Served) -> tuple[jax.Array, jax.Array]:
    """When requests are served (`f32[R]`), those that are not when they can be at first, and by which vehicle or -1."""
    instance, number = prepared.instance, day.routes.row.number
    opens = jnp.maximum(instance.pickup_earliest, instance.dropoff_earliest)
    vehicle = jnp.broadcast_to(index_of(number.shape[0])[:, None], number.shape)
    slot = jnp.where(number >= 0, number, day.is_served.size)
    when = jnp.where(instance.load > 0, opens, 0.0).at[slot].set(day.routes.planes["start"], mode="drop")
    return when, jnp.full(day.is_served.size, -1, jnp.int32).at[slot].set(vehicle, mode="drop")


def _without(prepared: Prepared, day: Served, is_out: jax.Array) -> Served:
    """The day without some requests, `bool[R]`."""
    row = day.routes.row
    leaves = (row.number >= 0) & is_out[jnp.maximum(row.number, 0)]
    kept = (row.number >= 0) & ~leaves
    mark = row.mark
    if prepared.fleet.depot is not None:
        # The first of the stops that are left of a trip.
        trip = jnp.cumsum(mark, axis=-1, dtype=jnp.int32)
        before = jnp.where(kept, trip, 0)
        before = jax.lax.cummax(jnp.concatenate([jnp.zeros_like(before[:, :1]), before[:, :-1]], axis=1), axis=1)
        mark = kept & (trip > before)
    source, there = kept_first(kept)
    number, mark = (jnp.take_along_axis(leaf, source, axis=-1) for leaf in (row.number, mark))
    is_served = day.is_served & ~is_out
    value = jnp.sum(jnp.where(is_served, prepared.instance.value, 0.0))
    return Served(timed_routes(prepared, Row(jnp.where(there, number, -1), mark & there)), is_served, value)

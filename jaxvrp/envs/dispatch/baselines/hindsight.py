"""What could have been served if all requests had been known from the beginning: prize-collecting ruin and recreate.

Where vehicles start anywhere (`ride_pooling`) the whole day is one plan of each vehicle in which a pickup opens when
its request arrives. Rounds take requests out and insert them and some that are not served again, in the order of
chance, each where it adds least travel; a round counts if it serves more value, or as much with less travel. With a
depot (`same_day`) the search is over decisions: it changes some, and plays the day by the rules of the environment, so
that what it finds can be played.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch import plans as plans_module
from jaxvrp.envs.dispatch import rules
from jaxvrp.envs.dispatch.baselines.greedy import choose_by
from jaxvrp.envs.dispatch.env import DISPATCHER, Dispatch, decide
from jaxvrp.envs.dispatch.insertion import insert, offers
from jaxvrp.envs.dispatch.plans import Plans, Prepared, prepare
from jaxvrp.envs.dispatch.problem.instance import Instance
from jaxvrp.envs.dispatch.replan import without
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.envs.dispatch.schedule import index_of, planned_travel, rescheduled


class WholeDay(struct.PyTreeNode):
    """Plans of a whole day, `is_served` (`bool[R]`), and their value and minutes of travel (`f32[]`)."""

    plans: Plans
    is_served: jax.Array
    value: jax.Array
    travel: jax.Array


@functools.partial(jax.jit, static_argnames=("rounds", "max_stops"))
def serve_rides(instances: Instance, key: jax.Array, *, rounds: int, max_stops: int) -> WholeDay:
    """The best plans `[B]` found for days without a depot, all of whose requests are known from the beginning.

    Args:
        instances: days `[B]`.
        key: typed key.
        rounds: of ruin and recreate.
        max_stops: the most stops of a vehicle in the whole day; more than twice the requests per vehicle.
    """

    def search(instance: Instance, key: jax.Array) -> WholeDay:
        opens = jnp.maximum(instance.pickup_earliest, jnp.where(instance.load > 0, instance.arrival, 0.0))
        prepared = prepare(instance.replace(pickup_earliest=opens))
        day = _first_come(prepared, max_stops)

        def advance(day: WholeDay, key: jax.Array) -> tuple[WholeDay, None]:
            changed = _round(prepared, day, key)
            better = (changed.value > day.value) | ((changed.value == day.value) & (changed.travel <= day.travel))
            return jax.tree.map(lambda new, old: jnp.where(better, new, old), changed, day), None

        return jax.lax.scan(advance, day, jax.random.split(key, rounds))[0]

    return jax.vmap(search)(instances, jax.random.split(key, instances.load.shape[0]))


def _first_come(prepared: Prepared, max_stops: int) -> WholeDay:
    """Requests inserted in the order of their arrival."""
    count = prepared.table.shape[0]
    empty = plans_module.begin(prepared, max_stops)
    zero = jnp.zeros((), jnp.float32)
    day = WholeDay(empty, jnp.zeros(count, bool), zero, zero)
    return jax.lax.fori_loop(0, count, lambda number, day: _inserted(prepared, day, number), day)


def _inserted(prepared: Prepared, day: WholeDay, number: jax.Array) -> WholeDay:
    """The day with this request where it adds least travel, if it is not served and fits anywhere."""
    request = prepared.request(number)
    request = request.replace(exists=request.exists & ~day.is_served[number])
    found = offers(prepared, day.plans, request)
    added = jnp.where(found.feasible, found.added, jnp.inf)
    chosen = found.feasible & (index_of(added.shape[0]) == jax.lax.argmin(added, 0, jnp.int32))
    taken = chosen.any()
    return WholeDay(
        plans=insert(prepared, day.plans, found, request, chosen),
        is_served=day.is_served | ((jnp.arange(day.is_served.shape[0]) == number) & taken),
        value=day.value + jnp.where(taken, request.value, 0.0),
        travel=day.travel + jnp.where(taken, jnp.min(added), 0.0),
    )


OUT, IN = 6, 12
"""Requests that a round takes out, and that it tries to insert."""


def _round(prepared: Prepared, day: WholeDay, key: jax.Array) -> WholeDay:
    """Requests near one in place and time leave; then they, and some that are not served, return where they fit."""
    instance = prepared.instance
    centre_key, near_key, out_key, turn_key = jax.random.split(key, 4)
    exists, size = instance.load > 0, instance.load.shape[0]
    most_out, most_in = min(OUT, size), min(IN, size)
    weight = jnp.where(exists, jnp.where(day.is_served, 0.3, 1.0), 0.0)
    centre = jnp.argmax(
        jax.random.uniform(centre_key, exists.shape) ** (1.0 / jnp.maximum(weight, 1e-6)) * (weight > 0)
    )
    gap = jnp.linalg.norm(instance.pickup - instance.pickup[centre], axis=1) * prepared.pace[0]
    gap += jnp.abs(jnp.where(exists, instance.arrival, 0.0) - instance.arrival[centre])
    gap *= 0.3 + jax.random.uniform(near_key, exists.shape)
    nearest = jax.lax.top_k(jnp.where(day.is_served & exists, -gap, -jnp.inf), most_out)[1]
    count = jax.random.randint(out_key, (), 1, most_out + 1)
    plans, is_served = day.plans, day.is_served
    for number in range(most_out):
        leaves = (number < count) & is_served[nearest[number]]
        plans = without(prepared, plans, nearest[number], leaves)
        is_served = is_served & ~((index_of(size) == nearest[number]) & leaves)
    plans = rescheduled(prepared, plans)
    value = jnp.sum(jnp.where(is_served, instance.value, 0.0))
    ruined = WholeDay(plans, is_served, value, jnp.sum(planned_travel(prepared, plans)))
    turn = jax.random.uniform(turn_key, exists.shape) * (1.0 + gap / 30.0)
    turn = jnp.where(exists & ~is_served, jnp.where(index_of(size) == centre, 0.0, turn), jnp.inf)
    order = jax.lax.top_k(-turn, most_in)[1]
    return jax.lax.fori_loop(0, most_in, lambda k, day: _inserted(prepared, day, order[k]), ruined)


class Decisions(struct.PyTreeNode):
    """Decisions on a day and the value that they come to (`f32[]`).

    `wish`, `i32[R]`, is which vehicle is preferred for each request, 0 for none, V + 1 for any; `choice`, `i32[R]`, the
    dispatcher's actions that come of it.
    """

    wish: jax.Array
    choice: jax.Array
    value: jax.Array


RULES = (0.0, 12.0, math.inf), (0.0, 0.4, 0.6, 0.8), (0.0, 0.03, 0.06, 0.12)
"""Districts, floors and rates of the `ThresholdActor`s that the search begins with."""


@functools.partial(jax.jit, static_argnames=("rounds",))
def decide_with_hindsight(env: Dispatch, instances: Instance, key: jax.Array, *, rounds: int) -> Decisions:
    """The best decisions `[B]` found for days `[B]` with a depot; played by the rules, they come to this value.

    It begins with the best of the rules of `RULES`, and then changes a few decisions in each round.

    Args:
        env: of the days; it may re-plan.
        instances: days `[B]`.
        key: typed key.
        rounds: changes that are tried on each day.
    """

    def search(instance: Instance, key: jax.Array) -> Decisions:
        start = env.init_state(instance)
        grid = [axis.ravel() for axis in jnp.meshgrid(*map(jnp.asarray, RULES))]
        count = instance.load.shape[0]
        tried = jax.vmap(lambda *rule: _driven(env, start, lambda state, _: choose_by(state, *rule), count))(*grid)
        best = jnp.argmax(tried.value)
        kept = jax.tree.map(lambda leaf: leaf[best], tried)

        def advance(kept: Decisions, key: jax.Array) -> tuple[Decisions, None]:
            changed = _played(env, start, _changed(start, kept.wish, key))
            better = changed.value >= kept.value
            return jax.tree.map(lambda new, old: jnp.where(better, new, old), changed, kept), None

        return jax.lax.scan(advance, kept, jax.random.split(key, rounds))[0]

    return jax.vmap(search)(instances, jax.random.split(key, instances.load.shape[0]))


def _changed(state: State, wish: jax.Array, key: jax.Array) -> jax.Array:
    """Wishes of which a few are others: on average one of the accepted and one of the rejected."""
    which_key, kind_key = jax.random.split(key)
    instance, accepted = state.prepared.instance, wish > 0
    uniform = jax.random.uniform(which_key, (3, *wish.shape))
    count = jnp.maximum(jnp.where(accepted, accepted.sum(), (~accepted & (instance.load > 0)).sum()), 1)
    flips = uniform[0] < 1.0 / count
    vehicle = 1 + jnp.floor(uniform[1] * (1 + instance.capacity.shape[0])).astype(jnp.int32)
    moves = uniform[2] < jax.random.uniform(kind_key) * 4.0 / jnp.maximum(accepted.sum(), 1)
    return jnp.where(flips, jnp.where(accepted, 0, vehicle), jnp.where(moves & accepted, vehicle, wish))


def _played(env: Dispatch, start: State, wish: jax.Array) -> Decisions:
    """The decisions that come of wishes, `i32[R]`, and their value.

    A request that is to be accepted goes to the wished vehicle, else to the one of its kind that it adds least travel
    to, else to any.
    """

    def choose(state: State, number: jax.Array) -> jax.Array:
        found, is_drone = state.offers, state.prepared.instance.is_drone
        wished = jnp.arange(is_drone.shape[0], dtype=jnp.int32) == wish[number] - 1
        is_other = (is_drone != jnp.any(wished & is_drone)) & wished.any()
        rank = found.added - jnp.where(wished, 1e3, 0.0) + jnp.where(is_other, 1e4, 0.0)
        best = 1 + jax.lax.argmin(jnp.where(found.feasible, rank, jnp.inf), 0, jnp.int32)
        return jnp.where(found.feasible.any() & (wish[number] > 0), best, 0)

    played = _driven(env, start, choose, wish.shape[0])
    return played.replace(wish=jnp.where(played.choice > 0, wish, 0))


def _driven(env: Dispatch, start: State, choose: Callable[[State, jax.Array], jax.Array], count: int) -> Decisions:
    """The decisions `choose(state, number)` on all requests, each as its own wish, and their value."""

    def advance(state: State, number: jax.Array) -> tuple[State, jax.Array]:
        choice = choose(state, number)
        plans, growth = decide(env, state, {DISPATCHER: choice[None]})
        moved = rules.proceed(state, plans, choice, growth, jnp.zeros((), jnp.int32))
        moved = moved.replace(prepared=state.prepared)
        return jax.tree.map(
            lambda new, old: new if new is old else jnp.where(state.done, old, new), moved, state
        ), choice

    last, choice = jax.lax.scan(advance, start, jnp.arange(count, dtype=jnp.int32))
    return Decisions(choice, choice, last.totals.value)

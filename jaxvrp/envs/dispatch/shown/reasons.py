"""Why a vehicle cannot take a request, and why it cannot be sent to a zone; by the rules of the masks.

A limit is the reason if the request would fit without it, the first in the order of `Why`: its own deadlines come last,
since without them it would nearly always fit at the end of a plan.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.routes.insertion import offers
from jaxvrp.envs.dispatch.routes.plans import DEADLINE, REQUEST, Plans, Prepared, Request
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.io.messages import number
from jaxvrp.show.reasons import ALLOWED, Cause, Kind, Reasons, first_cause


class Why(Kind):
    """What forbids an action; amounts are minutes, or units of load."""

    ALLOWED = ""
    DAY_OVER = "no request is left"
    MISSING = "no such vehicle"
    TOO_LARGE = "load {load} above its capacity"
    PLAN_FULL = "plan full: {amount} stops"
    CAPACITY = "no room then"
    TRIP = "trip too long"
    HORIZON = "home after the horizon"
    PROMISE = "{other} would be {amount} min late"
    DEADLINE = "{amount} min late"
    SEVERAL = "several limits at once"
    HAS_PLAN = "stops to serve: {amount}"
    BUSY = "busy for {amount} min"


def reasons_of(
    env: Dispatch, name_of: Callable[[int], str] = "request {}".format, words_of_load: Callable[[float], str] = number
) -> Reasons:
    """The reasons of an environment; `name_of` is of requests, by their numbers, `words_of_load` of units of load."""

    def fill(amount: float, other: int) -> dict[str, str]:
        return {"amount": number(amount), "load": words_of_load(amount), "other": name_of(other)}

    return Reasons(Why, lambda state: explain(env, state), fill)


def explain(env: Dispatch, state: State) -> dict[str, Cause]:
    """`{"dispatcher": Cause [1, V + 1], "vehicle": Cause [V, Z + 1]}`, the latter with zones."""
    kind, amount, other = _of_vehicles(state)
    causes = {DISPATCHER: Cause(*(jnp.concatenate([jnp.zeros(1, of.dtype), of])[None] for of in (kind, amount, other)))}
    if env.num_zones_each_way:
        causes[DRIVER] = _of_drivers(state, env.num_zones_each_way**2)
    return causes


def _of_vehicles(state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Kind, amount and other, all `[V]`, of what keeps each vehicle from the request at hand."""
    prepared, plans, request = state.prepared, state.plans, state.request
    shape, capacity = prepared.capacity.shape, prepared.capacity
    without_deadlines, late = _without_own_deadlines(prepared, plans, request)
    instance = prepared.fleet
    roomy = offers(prepared.replace(capacity=jnp.full_like(capacity, jnp.inf)), plans, request).feasible
    long_trip = prepared.replace(fleet=instance.replace(max_trip=jnp.full_like(instance.max_trip, jnp.inf)))
    long_day = prepared.replace(fleet=instance.replace(home_by=jnp.full_like(instance.max_trip, jnp.inf)))
    unbound, broken, other = _without_promises(prepared, plans, request)
    stops_of_request = 2 if instance.depot is None else 1
    kind, amount = first_cause(
        [
            (state.offers.feasible, ALLOWED, 0.0),
            (~request.exists, Why.DAY_OVER, 0.0),
            (capacity == 0, Why.MISSING, 0.0),
            (request.load > capacity, Why.TOO_LARGE, request.load - capacity),
            (plans.num_stops + stops_of_request > plans.start.shape[-1], Why.PLAN_FULL, plans.num_stops),
            (roomy, Why.CAPACITY, 0.0),
            (offers(long_trip, plans, request).feasible, Why.TRIP, 0.0),
            (offers(long_day, plans, request).feasible, Why.HORIZON, 0.0),
            (unbound, Why.PROMISE, broken),
            (without_deadlines, Why.DEADLINE, late),
            (jnp.ones(shape, bool), Why.SEVERAL, 0.0),
        ],
        shape,
    )
    return kind, amount, other


def _without_own_deadlines(prepared: Prepared, plans: Plans, request: Request) -> tuple[jax.Array, jax.Array]:
    """Whether the request would fit without its deadlines, and how late it would be then, both `[V]`."""
    endless = jnp.full_like(request.dropoff_deadline, jnp.inf)
    found = offers(prepared, plans, request.replace(pickup_deadline=endless, dropoff_deadline=endless))
    late = found.dropoff_start - request.dropoff_deadline
    if prepared.fleet.depot is None:
        late = jnp.maximum(late, found.pickup_start - request.pickup_deadline)
    return found.feasible, late


def _without_promises(prepared: Prepared, plans: Plans, request: Request) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether the request would fit if the plan had no deadlines, and how late it would be for which request."""
    deadline = plans.stops[DEADLINE]
    found = offers(prepared, plans.replace(stops=plans.stops.at[DEADLINE].set(jnp.inf)), request)
    late = jnp.where(found.moved > plans.start, found.moved - deadline, -jnp.inf)  # with noise, some are late already
    number = jnp.take_along_axis(plans.stops[REQUEST], jnp.argmax(late, axis=-1)[:, None], axis=-1)[:, 0]
    return found.feasible, jnp.max(late, axis=-1), number.astype(jnp.int32)


def _of_drivers(state: State, zones: int) -> Cause:
    """`[V, Z + 1]`; to go on is always allowed."""
    plans = state.plans
    kind, amount = first_cause(
        [
            (state.prepared.capacity == 0, Why.MISSING, 0.0),
            (plans.num_stops > 0, Why.HAS_PLAN, plans.num_stops),
            (plans.free > state.now, Why.BUSY, plans.free - state.now),
        ],
        plans.free.shape,
    )
    is_zone = jnp.arange(zones + 1) > 0
    kind, amount = jnp.where(is_zone, kind[:, None], ALLOWED), jnp.where(is_zone, amount[:, None], 0.0)
    return Cause(kind, amount, jnp.zeros_like(kind))

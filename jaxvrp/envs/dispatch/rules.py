"""The course of a day: a decision at each arrival, then the clock goes on to the next one."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.routes import noisy_drive
from jaxvrp.envs.dispatch.routes import plans as plans_module
from jaxvrp.envs.dispatch.routes.insertion import Offers, insert, offers
from jaxvrp.envs.dispatch.routes.noise import Lateness
from jaxvrp.envs.dispatch.routes.plans import Begun, Plans, Prepared, Request, Span, distance, ends_of
from jaxvrp.notebook import NotebookStill
from jaxvrp.rows import columns_at


class Totals(struct.PyTreeNode):
    """Sums over the day so far, all `f32[]`."""

    served: jax.Array  # requests that were accepted
    value: jax.Array  # of these
    by_drone: jax.Array  # as of `Begun`
    travel: jax.Array  # minutes driven or planned by all
    drone_travel: jax.Array  # and by drones
    wait: jax.Array  # as of `Begun`
    delay: jax.Array
    broken: jax.Array
    invalid_actions: jax.Array


class State(NotebookStill, struct.PyTreeNode):
    """A day at the arrival of a request, before it is decided on.

    `waiting` has places as of `located`; it is None unless vehicles drive to zones along streets.
    """

    prepared: Prepared  # the day
    plans: Plans  # of the vehicles
    offers: Offers  # what they would do with the request at hand
    step: jax.Array  # `i32[]`, the number of the request at hand; once the day is over, that of all requests
    now: jax.Array  # `f32[]`, the clock, in minutes
    demand: jax.Array | None  # `f32[Z]`, pickups that have become known in each zone; None without zones
    totals: Totals  # sums over the day so far
    choice: jax.Array  # `i32[]`, the dispatcher's last action; 0 before the first
    gained: jax.Array  # `f32[]`, value that the last step added
    driven: jax.Array  # `f32[]`, minutes of travel that it added
    done: jax.Array  # `bool[]`, all requests are decided on and all plans are driven out
    late: Lateness | None = None  # what came late so far; None without noise
    waiting: jax.Array | None = None  # `f32[4, Z]`, the known place nearest to each zone's middle, and its distance

    @property
    def request(self) -> Request:
        """The request at hand; one that does not exist once the day is over."""
        return _request(self.prepared, self.step)

    @property
    def num_zones_each_way(self) -> int:
        """Zones on a side of the grid, static; 0 without."""
        return 0 if self.demand is None else math.isqrt(self.demand.shape[-1])


def zone_middles(area: jax.Array, zones: int) -> jax.Array:
    """`f32[2, zones * zones]`, the middles of the zones of a grid over the `area`, `f32[2, 2]`, row by row."""
    # Of NumPy: XLA moves what is computed here out of loops, for each caller by itself, and then shares nothing of it.
    share = (np.arange(zones, dtype=np.float32) + np.float32(0.5)) / np.float32(zones)
    middle = np.stack([np.tile(share, zones), np.repeat(share, zones)])
    return area[0][:, None] + middle * (area[1] - area[0])[:, None]


def zone_of(area: jax.Array, zones: int, place: jax.Array) -> jax.Array:
    """`i32[...]`, the zone that a place (`f32[2, ...]`) is in; the nearest one outside of the area."""
    corner, side = area[0], area[1] - area[0]
    cell = jnp.stack([(place[axis] - corner[axis]) / side[axis] for axis in range(2)]) * zones
    cell = jnp.clip(jnp.floor(cell), 0, zones - 1).astype(jnp.int32)
    return cell[0] + zones * cell[1]


def begin(prepared: Prepared, *, max_stops: int, zones: int) -> State:
    """The day at its first arrival; over, if there is none."""
    zero = jnp.zeros((), jnp.float32)
    plans, nothing_left = plans_module.begin(prepared, max_stops), prepared.num_requests == 0
    request = _request(prepared, jnp.zeros((), jnp.int32))
    now = jnp.where(nothing_left, 0.0, request.arrival)
    plans, begun = _advance(prepared, plans, Span(jnp.full((), -jnp.inf, jnp.float32), now, now))
    return State(
        prepared=prepared,
        plans=plans,
        offers=offers(prepared, plans, request),
        step=jnp.zeros((), jnp.int32),
        now=now,
        demand=_demand(prepared, jnp.zeros(zones * zones, jnp.float32) if zones else None, request),
        totals=Totals(*[zero] * 9),
        choice=jnp.zeros((), jnp.int32),
        gained=zero,
        driven=zero,
        done=nothing_left,
        late=begun.late,
        waiting=_first_known(prepared, plans, zones, request),
    )


def idle(state: State) -> jax.Array:
    """`bool[V]`: vehicles without a plan, and with nothing that they have begun."""
    return without_stops(state) & (state.plans.free <= state.now)


def without_stops(state: State) -> jax.Array:
    """`bool[V]`: vehicles without a plan whose time of being free is known, also those on the way to a zone."""
    none = (state.plans.num_stops == 0) & (state.prepared.capacity > 0)
    return none if state.plans.under_way is None else none & (state.plans.under_way.count == 0)


def cheapest(state: State, allowed: jax.Array) -> jax.Array:
    """`i32[]`, the action that gives the request to the allowed vehicle (`bool[V]`) with the least added travel."""
    added = jnp.where(allowed, state.offers.added, jnp.inf)
    return jnp.where(allowed.any(), 1 + jax.lax.argmin(added, 0, jnp.int32), 0)


def assign(state: State, choice: jax.Array) -> tuple[Plans, jax.Array]:
    """The plans after the request is given to vehicle `choice - 1`, or to none (0), and what that adds (`f32[V]`)."""
    chosen = jnp.arange(state.prepared.capacity.shape[0], dtype=jnp.int32) == choice - 1
    plans = insert(state.prepared, state.plans, state.offers, state.request, chosen)
    return plans, jnp.where(chosen, state.offers.added, 0.0)


def send(state: State, plans: Plans, zone: jax.Array) -> Plans:
    """The plans after each vehicle without one goes to zone `zone - 1` (`i32[V]`), or goes on (0).

    It goes to the middle, or along streets, which lead to places only, to the known place nearest to that.
    """
    places = zone_middles(state.prepared.fleet.area, state.num_zones_each_way)
    if state.waiting is not None:
        places = state.waiting[:3]
    is_zone = jnp.arange(places.shape[1], dtype=jnp.int32) == zone[:, None] - 1
    place = jnp.sum(jnp.where(is_zone, places[:, None, :], 0.0), axis=-1)
    sent = (zone > 0) & idle(state) & (plans.num_stops == 0)
    return plans.replace(goal=jnp.where(sent, place, plans.goal))


def proceed(state: State, plans: Plans, choice: jax.Array, growth: jax.Array, num_invalid: jax.Array) -> State:
    """The state at the next arrival, or at the end of the day, after the dispatcher's choice (`i32[]`).

    `growth`, `f32[V]`, are minutes by which planned travel has grown; with noise, travel counts when it is driven. For
    `num_invalid`, `i32[]`, see `Environment.transition`.
    """
    prepared, following = state.prepared, state.step + 1
    is_last = following >= prepared.num_requests
    request = _request(prepared, following)
    now = jnp.where(is_last, state.now, request.arrival)
    turns = None if state.waiting is None else state.waiting[:3]
    plans, begun = _advance(prepared, plans, Span(state.now, jnp.where(is_last, jnp.inf, now), now, turns))
    gained = jnp.where(choice > 0, state.request.value, 0.0)
    travel = growth + begun.travel if begun.late is None else begun.travel
    added = Totals(
        served=choice > 0,
        value=gained,
        by_drone=begun.by_drone,
        travel=jnp.sum(travel),
        drone_travel=jnp.sum(jnp.where(prepared.fleet.is_drone, travel, 0.0)),
        wait=begun.wait,
        delay=begun.delay,
        broken=begun.broken,
        invalid_actions=num_invalid.astype(jnp.float32),
    )
    return state.replace(
        plans=plans,
        offers=offers(prepared, plans, request),
        step=following,
        now=now,
        demand=_demand(prepared, state.demand, request),
        totals=jax.tree.map(jnp.add, state.totals, added),
        choice=choice,
        gained=gained,
        driven=jnp.sum(travel),
        done=is_last,
        late=_added(state.late, begun.late),
        waiting=_also_known(prepared, state.waiting, request),
    )


def _advance(prepared: Prepared, plans: Plans, span: Span) -> tuple[Plans, Begun]:
    advance = plans_module.advance if prepared.factors is None else noisy_drive.advance
    return advance(prepared, plans, span)


def _added(total: Lateness | None, new: Lateness | None) -> Lateness | None:
    if total is None or new is None:
        return None
    return Lateness(
        minutes=total.minutes + new.minutes,
        latest=new.latest,
        requests=total.requests | new.requests,
        trips=total.trips + new.trips,
    )


def _request(prepared: Prepared, index: jax.Array) -> Request:
    request = prepared.request(jnp.minimum(index, prepared.table.shape[0] - 1))
    return request.replace(exists=request.exists & (index < prepared.num_requests))


def _demand(prepared: Prepared, demand: jax.Array | None, request: Request) -> jax.Array | None:
    """The pickups by zone, with those of one request more."""
    if demand is None:
        return None
    zone = zone_of(prepared.fleet.area, math.isqrt(demand.shape[0]), request.pickup)
    is_there = (jnp.arange(demand.shape[0], dtype=jnp.int32) == zone) & request.exists
    return demand + is_there.astype(jnp.float32)


def _first_known(prepared: Prepared, plans: Plans, zones: int, request: Request) -> jax.Array | None:
    """`State.waiting` at the first arrival: vehicles' starts are known."""
    if zones == 0 or prepared.fleet.travel_time is None:
        return None
    middles = zone_middles(prepared.fleet.area, zones)
    away = jnp.where(prepared.capacity > 0, distance(plans.place[:2, None], middles[..., None]), jnp.inf)
    nearest = jax.lax.argmin(away, 1, jnp.int32)
    known = jnp.concatenate([columns_at(plans.place, nearest), jnp.min(away, axis=1)[None]])
    return _also_known(prepared, known, request)


def _also_known(prepared: Prepared, known: jax.Array | None, request: Request) -> jax.Array | None:
    """`State.waiting` with the places of one request more."""
    if known is None:
        return None
    middles = zone_middles(prepared.fleet.area, math.isqrt(known.shape[1]))
    for place in ends_of(prepared, request):
        away = distance(place[:2, None], middles)
        new = jnp.concatenate([jnp.broadcast_to(place[:, None], (3, away.shape[0])), away[None]])
        known = jnp.where((away < known[3]) & request.exists, new, known)
    return known

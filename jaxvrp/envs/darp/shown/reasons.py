"""Why nodes are masked in `darp`, by the rules of its mask: the first in this order that forbids a node."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import rules, schedule
from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.problem.instance import all_ways
from jaxvrp.envs.darp.rules import State
from jaxvrp.envs.darp.schedule import Outlook
from jaxvrp.show.reasons import ALLOWED, Candidates, Cause, Kind, Reasons, first_cause


class Why(Kind):
    """What forbids a node; amounts are passengers, or times."""

    ALLOWED = ""
    MISSING = "no such request"
    VISITED = "visited already"
    WAITS_AT_PICKUP = "its passenger waits at the pickup"
    WITH_ANOTHER = "its passenger rides with another vehicle"
    NO_ROOM = "no room: {amount} too many on board"
    WINDOW_CLOSED = "window closed {amount} ago"
    WINDOW_CLOSES = "window closes {amount} before it can be there"
    TOO_LATE_FOR_A_PLAN = "window still open, but {amount} too late for any plan within all limits"
    DEPOT_CLOSES = "home {amount} after the depot closes"
    NO_MOMENT = "no moment is left within window and limits: {amount} too late"
    RIDE_TOO_LONG = "ride {amount} too long"
    TOUR_TOO_LONG = "tour {amount} too long"
    STRANDS = "request {other} could not be brought in time any more: {amount} too late"
    IS_THERE = "is there already"
    ON_BOARD = "passengers on board: {amount}"


def reasons_of(env: Darp) -> Reasons:
    """The reasons of an environment, by its switches."""
    return Reasons(Why, lambda state: {ROLE: explain(state, lookahead=env.lookahead)})


def explain(state: State, *, lookahead: bool) -> Cause:
    """Leaves `[1, N+1]` of one state; times in the unit of the instance, beyond what is allowed (without slack)."""
    visits, slack = rules.outlook(state), state.figures.slack
    kind, amount = first_cause([*_by_passengers(state), *_by_times(state, visits)], visits.arrival.shape)
    other, is_depot = jnp.zeros_like(kind), jnp.arange(kind.shape[0]) == 0
    if lookahead:
        late = _lateness(state, visits)
        most, other = late.max(axis=1), (late.argmax(axis=1) + 1).astype(jnp.int32)
        customers = (kind == ALLOWED) & ~is_depot
        prudent = customers & (most <= 0)
        lifted = ~prudent.any() & (state.current_load > 0)
        strands = customers & ~prudent & ~lifted
        kind, amount = jnp.where(strands, Why.STRANDS, kind), jnp.where(strands, most + slack, amount)
    any_allowed = ((kind == ALLOWED) & ~is_depot).any()
    at_depot = state.current_node == 0
    depot = jnp.where(
        any_allowed & at_depot, Why.IS_THERE, jnp.where(any_allowed & (state.current_load > 0), Why.ON_BOARD, ALLOWED)
    )
    kind = jnp.where(is_depot, depot, kind).astype(jnp.int32)
    amount = jnp.where(is_depot, state.current_load, amount).astype(jnp.float32)
    return Cause(kind[None], amount[None], other[None])


def _by_passengers(state: State) -> Candidates:
    instance, nodes = state.instance, jnp.arange(state.visited.shape[0])
    is_pickup, nothing = nodes % 2 == 1, jnp.zeros(nodes.shape, jnp.float32)
    pickup_visited = jnp.roll(state.visited, 1)
    with_another = pickup_visited & ~jnp.roll(state.picked_up_by_current, 1)
    excess = state.current_load + instance.demand - instance.capacity[state.current_agent]
    return [
        ((instance.demand == 0) & (nodes > 0), Why.MISSING, nothing),
        (state.visited, Why.VISITED, nothing),
        (~is_pickup & ~pickup_visited, Why.WAITS_AT_PICKUP, nothing),
        (~is_pickup & with_another, Why.WITH_ANOTHER, nothing),
        (is_pickup & (excess > 0), Why.NO_ROOM, excess),
    ]


def _by_times(state: State, visits: Outlook) -> Candidates:
    """Windows that can be reached, the way home, and the limits as `schedule.keeps_limits` judges them."""
    instance, published, slack = state.binding, state.instance.deadline, state.figures.slack
    deadline, late = instance.deadline, state.current_time - published
    candidates = [
        (late > slack, Why.WINDOW_CLOSED, late),
        (visits.arrival > published + slack, Why.WINDOW_CLOSES, visits.arrival - published),
        (visits.arrival > deadline + slack, Why.TOO_LATE_FOR_A_PLAN, visits.arrival - deadline),
        (visits.home > deadline[0] + slack, Why.DEPOT_CLOSES, visits.home - deadline[0]),
    ]
    if state.schedule is None:
        return candidates
    stop = schedule.next_stop(state.schedule, instance, ..., visits.travel, slack)
    driven = stop.elapsed + instance.service_time + visits.back
    duration = jnp.maximum(driven, visits.home - state.schedule.max_delay[0])
    return [
        *candidates,
        (visits.start > deadline + slack, Why.NO_MOMENT, visits.start - deadline),
        (stop.elapsed > stop.ride_end, Why.RIDE_TOO_LONG, stop.elapsed - stop.ride_end + slack),
        (visits.start > stop.latest, Why.RIDE_TOO_LONG, visits.start - stop.latest + slack),
        (duration > instance.max_route_duration + slack, Why.TOUR_TOO_LONG, duration - instance.max_route_duration),
    ]


def _lateness(state: State, visits: Outlook) -> jax.Array:
    """`f32[N+1, N/2]`: how much too late each passenger on board after each node would be delivered, going straight.

    By the window or the ride time, whichever is missed by more, beyond the slack; -inf for requests not on board.
    """
    (instance, tour), slack = rules.tour_so_far(state), state.figures.slack
    nodes, drop_off = jnp.arange(instance.num_nodes + 1), jnp.arange(2, instance.num_nodes + 1, 2)
    stop = schedule.next_stop(tour, instance, ..., visits.travel, slack)
    elapsed = (stop.elapsed + instance.service_time)[:, None]
    way = all_ways(instance).time[:, drop_off]
    boards = nodes[:, None] == drop_off - 1
    ride_end = jnp.where(boards, elapsed + instance.max_ride_time + slack, tour.ride_end[drop_off])
    latest = jnp.minimum(instance.deadline[drop_off] + slack, tour.ride_end[drop_off] + tour.max_delay[drop_off])
    latest = jnp.where(boards, instance.deadline[drop_off] + slack, latest)
    latest = jnp.minimum(latest, ride_end + stop.max_delay[:, None])
    start = jnp.maximum(visits.leave[:, None] + way, instance.earliest[drop_off])
    late = jnp.maximum(elapsed + way - ride_end, start - latest)
    rides = boards | (rules.on_board(state)[drop_off] & (nodes[:, None] != drop_off))
    return jnp.where(rides, late, -jnp.inf)

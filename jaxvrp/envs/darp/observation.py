"""What the active vehicle sees: a context and the requests, scaled to be alike for instances of any size and unit."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import prospect, rules
from jaxvrp.envs.darp.rules import State
from jaxvrp.spaces import EntityKind, Feature, Place

REQUEST = "request"

CONTEXT = (
    Feature("clock", "clock / H", 0.0),
    Feature("load", "load / own capacity", 0.0, 1.0),
    Feature("capacity", "own capacity / C", 0.0, 1.0),
    Feature("at_depot", "1 at the depot", 0.0, 1.0),
    Feature("vehicles_to_come", "vehicles to come / vehicles", 0.0, 1.0),
    Feature("capacity_to_come", "their mean capacity / C", 0.0, 1.0),
    Feature("to_pick_up", "requests not picked up / requests", 0.0, 1.0),
    Feature("passengers", "requests on board / requests", 0.0, 1.0),
    Feature("x", "own x, from the depot / S"),
    Feature("y", "own y, from the depot / S"),
    Feature("pace", "S / (speed H)", 0.0),
    Feature("ride_limit", "ride time limit / H, at most 1", 0.0, 1.0),
    Feature("duration_limit", "duration limit / H, at most 1", 0.0, 1.0),
    Feature("depot_allowed", "1 if the mask allows the depot", 0.0, 1.0),
    Feature("depot_distance", "distance to the depot / S", 0.0),
    Feature("depot_slack", "depot's deadline minus arrival there / H", -1.0, 1.0),
)

STATIC = (
    Feature("pickup_x", "pickup's x, from the depot / S"),
    Feature("pickup_y", "pickup's y, from the depot / S"),
    Feature("dropoff_x", "drop-off's x, from the depot / S"),
    Feature("dropoff_y", "drop-off's y, from the depot / S"),
    Feature("demand", "demand / C", 0.0),
    Feature("pickup_earliest", "pickup's earliest / H", -1.0, 1.0),
    Feature("dropoff_earliest", "drop-off's earliest / H", -1.0, 1.0),
    Feature("pickup_deadline", "pickup's deadline / H, at most 1", -1.0, 1.0),
    Feature("dropoff_deadline", "drop-off's deadline / H, at most 1", -1.0, 1.0),
    Feature("pickup_service", "pickup's service time / H", -1.0, 1.0),
    Feature("dropoff_service", "drop-off's service time / H", -1.0, 1.0),
)

DYNAMIC = (
    Feature("present", "1 until the drop-off is visited", 0.0, 1.0),
    Feature("waiting", "1 until the pickup is visited; the pickup's numbers below are 0 from then on", 0.0, 1.0),
    Feature("on_board", "1 if the passenger is on board", 0.0, 1.0),
    Feature("pickup_allowed", "1 if the mask allows the pickup", 0.0, 1.0),
    Feature("dropoff_allowed", "1 if the mask allows the drop-off", 0.0, 1.0),
    Feature("pickup_distance", "distance from the vehicle to the pickup / S", 0.0),
    Feature("dropoff_distance", "distance from the vehicle to the drop-off / S", 0.0),
    Feature("pickup_start", "time until service would start at the pickup / H", -1.0, 1.0),
    Feature("dropoff_start", "time until service would start at the drop-off / H", -1.0, 1.0),
    Feature("pickup_slack", "pickup's deadline minus arrival / H", -1.0, 1.0),
    Feature("dropoff_slack", "drop-off's deadline minus arrival / H", -1.0, 1.0),
    Feature("pickup_home", "depot's deadline minus the time home, right after the pickup / H", -1.0, 1.0),
    Feature("dropoff_home", "depot's deadline minus the time home, right after the drop-off / H", -1.0, 1.0),
    Feature("ride", "what is left of the ride time / H, for passengers on board; else 1", -1.0, 1.0),
)

LARGEST_EXCESS = 2.0  # a plan that is so many extents longer than the best one is as bad as any that is longer still
NEARNESS = (10.0, 40.0)  # how steeply the nearness of a plan to the best one falls with its excess, per extent


def _prospects(stop: str) -> tuple[Feature, ...]:
    after = f"length of the plan after the {stop} by rule"
    best = f"length of the best plan after the {stop} by any rule, less that of the best of all / S"
    return (
        *(
            Feature(f"{stop}_excess_{i}", f"{after} {i}, less that of these rules' best / S", 0.0, LARGEST_EXCESS)
            for i in range(len(prospect.RULES))
        ),
        Feature(f"{stop}_excess", best, 0.0, LARGEST_EXCESS),
        *(
            Feature(f"{stop}_nearness_{i}", f"exp(-{steepness:g} times that), 0 if it is not allowed", 0.0, 1.0)
            for i, steepness in enumerate(NEARNESS)
        ),
    )


PROSPECTS = _prospects("pickup") + _prospects("dropoff")

PROSPECTS_CONTEXT = _prospects("depot")


def requests(count: int, prospects: bool) -> EntityKind:
    """The kind of `count` requests, each a pickup and a drop-off; with `PROSPECTS` if asked for."""
    places = (Place("waiting", "pickup_x", "pickup_y"), Place("present", "dropoff_x", "dropoff_y"))
    dynamic = DYNAMIC + (PROSPECTS if prospects else ())
    return EntityKind(REQUEST, count, STATIC, dynamic, places)


def context_features(prospects: bool) -> tuple[Feature, ...]:
    """What `context` tells."""
    return CONTEXT + (PROSPECTS_CONTEXT if prospects else ())


def context(state: State, allowed: jax.Array, *, prospects: bool) -> jax.Array:
    """`f32[16]`, or with prospects `f32[27]`, see `context_features`; `allowed` is the mask, `bool[N+1]`."""
    instance, figures, visits = state.binding, state.figures, rules.outlook(state)
    per_extent, per_time = 1.0 / figures.extent, 1.0 / figures.horizon
    capacity = instance.capacity.astype(jnp.float32)
    is_current = jnp.arange(capacity.shape[0]) == state.current_agent
    current_capacity = jnp.sum(jnp.where(is_current, capacity, 0.0))
    waiting = ~state.vehicle_finished & ~is_current
    num_waiting = waiting.sum(dtype=jnp.float32)
    mean_waiting = jnp.sum(capacity * waiting) / jnp.maximum(num_waiting, 1.0)
    place = (state.place - instance.locs[0]) * per_extent
    numbers = [
        state.current_time * per_time,
        state.current_load / jnp.maximum(current_capacity, 1.0),
        current_capacity / figures.capacity,
        (state.current_node == 0).astype(jnp.float32),
        num_waiting / figures.num_vehicles,
        mean_waiting / figures.capacity,
        jnp.sum(~state.visited[1::2], dtype=jnp.float32) / figures.num_requests,
        jnp.sum(rules.on_board(state), dtype=jnp.float32) / figures.num_requests,
        place[0],
        place[1],
        _pace(state),
        jnp.minimum(instance.max_ride_time * per_time, 1.0),
        jnp.minimum(instance.max_route_duration * per_time, 1.0),
        allowed[0].astype(jnp.float32),
        visits.distance[0] * (per_extent if figures.street_span is None else 1.0 / figures.span),
        _share(state, instance.deadline[0] - visits.arrival[0]),
    ]
    seen = jnp.stack(numbers)
    return jnp.concatenate([seen, _prospects_of_nodes(state, allowed)[:, 0]]) if prospects else seen


def _pace(state: State) -> jax.Array:
    figures = state.figures
    if figures.street_pace is None:
        return figures.extent / (state.binding.vehicle_speed * figures.horizon)
    return figures.street_pace / figures.horizon


def _share(state: State, time: jax.Array) -> jax.Array:
    """A time as a share of the horizon, within [-1, 1]."""
    return jnp.clip(time * (1.0 / state.figures.horizon), -1.0, 1.0)


def static_planes(state: State) -> jax.Array:
    """`f32[11, N/2]`, the numbers of `STATIC` of each request; padding is 0."""
    instance, figures = state.binding, state.figures
    place = (instance.locs - instance.locs[0]) * (1.0 / figures.extent)
    earliest, service = _share(state, instance.earliest), _share(state, instance.service_time)
    deadline = _share(state, jnp.minimum(instance.deadline, figures.horizon))
    places = [place[first::2, axis] for first in (1, 2) for axis in (0, 1)]
    times = [values[first::2] for values in (earliest, deadline, service) for first in (1, 2)]
    planes = [*places, instance.demand[1::2] / figures.capacity, *times]
    return jnp.where(instance.demand[1::2] != 0, jnp.stack(planes), 0.0)


def dynamic_planes(state: State, allowed: jax.Array, *, prospects: bool) -> jax.Array:
    """`f32[14, N/2]`, or with prospects `f32[36, N/2]`: what changes of each request; `allowed` as for `context`."""
    instance, visits = state.binding, rules.outlook(state)
    present, waiting = ~state.visited[2::2], ~state.visited[1::2]
    aboard = rules.on_board(state)[2::2]
    distance = visits.distance * (1.0 / state.figures.span)
    start = _share(state, visits.start - state.current_time)
    slack = _share(state, instance.deadline - visits.arrival)
    home = _share(state, instance.deadline[0] - visits.home)
    ride = _share(state, instance.max_ride_time - (visits.start[2::2] - state.pickup_time[1::2]))
    status = [present, waiting, present & aboard]
    ends = [
        jnp.where(is_seen, values[first::2], 0.0)
        for values in (allowed, distance, start, slack, home)
        for first, is_seen in ((1, waiting), (2, present))
    ]
    left = jnp.where(present, jnp.where(aboard, ride, 1.0), 0.0)
    seen = jnp.stack([plane.astype(jnp.float32) for plane in (*status, *ends, left)])
    if not prospects:
        return seen
    numbers = _prospects_of_nodes(state, allowed)
    return jnp.concatenate([seen, numbers[:, 1::2], numbers[:, 2::2]])


# Jitted, so that a program that asks several times traces it once.
@functools.partial(jax.jit, inline=True)
def _prospects_of_nodes(state: State, allowed: jax.Array) -> jax.Array:
    """What is in prospect after each node, `f32[11, N+1]`, 0 for what `allowed`, `bool[N+1]`, forbids."""
    by_rule = jnp.minimum(prospect.excess(state, allowed), LARGEST_EXCESS)
    least = by_rule.min(axis=0)
    near = jnp.stack([jnp.where(allowed, jnp.exp(-steepness * least), 0.0) for steepness in NEARNESS])
    return jnp.concatenate([by_rule, least[None], near])

"""The rules of dial-a-ride: state, one step, and what is allowed. No word of observations or rewards."""

from __future__ import annotations

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import lowest_true
from jaxvrp.envs.darp import schedule
from jaxvrp.envs.darp.problem.figures import Figures
from jaxvrp.envs.darp.problem.instance import Instance, Way, distance, straight, street_lengths, ways_from
from jaxvrp.envs.darp.schedule import Outlook, Schedule
from jaxvrp.notebook import NotebookStill
from jaxvrp.rows import rows_at


class State(NotebookStill, struct.PyTreeNode):
    """Where a plan stands; the vehicles drive one after the other."""

    instance: Instance  # the problem, padded to the environment's sizes
    figures: Figures  # what follows from it; the windows that count among it, see `binding`
    current_node: Annotated[jax.Array, fields.Whole(0, "visited")]  # `i32[]`, where the current vehicle is
    place: jax.Array  # `f32[2]`, of that node
    current_agent: Annotated[jax.Array, fields.Whole(0, "vehicle_finished")]  # `i32[]`, the current vehicle
    current_time: jax.Array  # `f32[]`, when it can leave there, having served as early as possible
    current_load: jax.Array  # `i32[]`, passengers on board
    visited: jax.Array  # `bool[N+1]`, padding included; never the depot
    picked_up_by_current: jax.Array  # `bool[N+1]`, pickups done by the current vehicle
    pickup_time: jax.Array  # `f32[N+1]`, end of the pickup's service
    schedule: Schedule | None  # of the current vehicle; None unless limits are enforced
    vehicle_finished: jax.Array  # `bool[V]`, padding included
    vehicles_used: jax.Array  # `i32[]`, vehicles that have left the depot
    total_distance: jax.Array  # `f32[]`
    step_distance: jax.Array  # `f32[]`, of the last step
    step: jax.Array  # `i32[]`
    invalid_actions: jax.Array  # `i32[]`, actions so far that were executed as something else
    done: jax.Array  # `bool[]`

    @property
    def binding(self) -> Instance:
        """The instance with the windows that count, tightened or not."""
        return self.figures.bound(self.instance)


def begin(instance: Instance, figures: Figures, *, limits: bool) -> State:
    """The first vehicle at the depot; padded requests are born visited, padded vehicles finished."""
    binding = figures.bound(instance)
    node = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    unused = instance.capacity <= 0
    zero, no_distance = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    visited = (instance.demand == 0) & (node > 0)
    return State(
        instance=instance,
        figures=figures,
        current_node=zero,
        place=instance.locs[0],
        current_agent=lowest_true(~unused),
        current_time=binding.earliest[0],
        current_load=zero,
        visited=visited,
        picked_up_by_current=jnp.zeros_like(visited),
        pickup_time=jnp.zeros_like(instance.earliest),
        schedule=schedule.begin(binding, figures.slack) if limits else None,
        vehicle_finished=unused,
        vehicles_used=zero,
        total_distance=no_distance,
        step_distance=no_distance,
        step=zero,
        invalid_actions=zero,
        done=visited[1:].all() | unused.all(),
    )


def drive(state: State, node: jax.Array, num_invalid: jax.Array) -> State:
    """The current vehicle goes to `node` (`i32[]`, allowed) and serves it as early as possible.

    At the depot the next vehicle takes over. With the last customer the vehicle also drives home.
    """
    instance = state.binding
    nodes = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    is_node, goes_home = nodes == node, node == 0
    place = rows_at(instance.locs, node)
    length, travel = _way_there(state, node, place)
    arrival = state.current_time + travel
    time = jnp.maximum(arrival, rows_at(instance.earliest, node)) + rows_at(instance.service_time, node)
    visited = state.visited | (is_node & (nodes > 0))
    vehicles = jnp.arange(instance.num_agents, dtype=jnp.int32)
    finished = state.vehicle_finished | (goes_home & (vehicles == state.current_agent))
    next_vehicle = lowest_true(~finished)
    served_all = visited[1:].all()
    length += jnp.where(served_all, _length_home(instance, node, place), 0.0)
    picked_up = is_node & (nodes % 2 == 1)
    tour = state.schedule
    if tour is not None:
        slack = state.figures.slack
        appended = schedule.append(tour, instance, node, travel, slack)
        tour = jax.tree.map(functools.partial(jnp.where, goes_home), schedule.begin(instance, slack), appended)
    return state.replace(
        current_node=node,
        place=place,
        current_agent=jnp.where(goes_home & ~finished.all(), next_vehicle, state.current_agent),
        current_time=jnp.where(goes_home, instance.earliest[0], time),
        current_load=jnp.where(goes_home, 0, state.current_load + rows_at(instance.demand, node)),
        visited=visited,
        picked_up_by_current=~goes_home & (state.picked_up_by_current | picked_up),
        pickup_time=jnp.where(picked_up, time, state.pickup_time),
        schedule=tour,
        vehicle_finished=finished,
        vehicles_used=state.vehicles_used + (~goes_home & (state.current_node == 0)),
        total_distance=state.total_distance + length,
        step_distance=length,
        step=state.step + 1,
        invalid_actions=state.invalid_actions + num_invalid,
        done=served_all | finished.all(),
    )


def _way_there(state: State, node: jax.Array, place: jax.Array) -> Way:
    """From where the vehicle is to a node (`i32[]`), which is at `place`."""
    instance = state.binding
    if instance.travel_time is None:
        return straight(instance, distance(state.place, place))
    return Way(*(rows_at(ways, node) for ways in ways_from(instance, state.current_node, state.place)))


def _length_home(instance: Instance, node: jax.Array, place: jax.Array) -> jax.Array:
    if instance.travel_time is None:
        return distance(place, instance.locs[0])
    return rows_at(street_lengths(instance)[:, 0], node)


def outlook(state: State) -> Outlook:
    """What would happen next to the current vehicle, for each node that it could go to."""
    instance = state.binding
    leg, travel = ways_from(instance, state.current_node, state.place)
    arrival = state.current_time + travel
    start = jnp.maximum(arrival, instance.earliest)
    leave = start + instance.service_time
    back = state.figures.way_home
    return Outlook(leg, travel, arrival, start, leave, back, leave + back)


def on_board(state: State) -> jax.Array:
    """`bool[N+1]`, drop-offs of the passengers on board."""
    pickup_done = jnp.roll(state.picked_up_by_current, 1, axis=-1)
    return pickup_done & ~state.visited & (jnp.arange(state.visited.shape[0]) > 0)


# Jitted, so that a program that asks several times traces it once.
@functools.partial(jax.jit, static_argnames="lookahead", inline=True)
def allowed(state: State, *, lookahead: bool) -> jax.Array:
    """The mask over nodes, `bool[N+1]`; never all false. With a schedule, ride times and route duration hold too.

    `lookahead` also requires that each passenger on board can still be delivered in time, going straight.
    """
    instance, visits, slack = state.binding, outlook(state), state.figures.slack
    nodes, aboard = jnp.arange(state.visited.shape[0]), on_board(state)
    fits = state.current_load + instance.demand <= rows_at(instance.capacity, state.current_agent)
    customers = jnp.where(nodes % 2 == 1, ~state.visited & fits, aboard)
    customers &= (visits.arrival <= instance.deadline + slack) & (visits.home <= instance.deadline[0] + slack)
    if state.schedule is not None:
        customers &= schedule.keeps_limits(state.schedule, instance, visits, slack)
    if lookahead:
        judged, tour = tour_so_far(state)
        prudent = customers & schedule.keeps_everybody(tour, judged, visits, aboard[2::2], slack)
        # Two passengers, each deliverable but not both: one is better than none.
        lifted = ~prudent.any() & (state.current_load > 0)
        customers = jnp.where(lifted, customers, prudent)
    depot = ((state.current_load == 0) & (state.current_node != 0)) | ~customers.any()
    return customers | (depot & (nodes == 0))


def tour_so_far(state: State) -> tuple[Instance, Schedule]:
    """The instance and the schedule by which `lookahead` judges; without limits, no ride takes too long."""
    if state.schedule is not None:
        return state.binding, state.schedule
    instance = state.binding.replace(max_ride_time=jnp.inf)
    return instance, schedule.begin(instance, state.figures.slack)


def stranded(state: State) -> jax.Array:
    """Drop-offs that cannot be visited any more, since the vehicle with their passengers has gone home: `i32[]`."""
    left_behind = state.visited & ~state.picked_up_by_current & ~jnp.roll(state.visited, -1)
    return jnp.sum(left_behind[1::2], dtype=jnp.int32)

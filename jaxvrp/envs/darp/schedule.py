"""Whether a tour keeps windows, ride times and its duration if departure and service may be late; exact, O(1) a stop.

Let `elapsed` be what a vehicle has driven and served before a stop, as if it had left at 0 and never waited, and its
`delay` the start of service there minus `elapsed`. A schedule is a sequence of delays that never falls, within bounds:

- window: a delay lies between `earliest - elapsed` and `deadline - elapsed`;
- ride: the delay at the drop-off is at most that at the pickup and what the ride time leaves for waiting;
- duration: the delay at the return is at most that at the departure and what the duration leaves for waiting.

The greater of two schedules at each stop is a schedule too, so a tour has a greatest delay `U` at each stop. Its last
stop can have the delay of a vehicle that serves as early as possible and ignores ride times, but no lesser one; and
for every x from there on, `min(U, x)` is a schedule, since a ride is bounded by its pickup's `min(U, x)` as well.

So a stop that is reached with the delay x, as early as possible, can be added iff x meets its deadline and, for a
drop-off, the way since the pickup is within the ride time and x at most the pickup's `U` and what is left of that. The
way home is one more stop, bounded by the departure's `U`. With a stop added, each `U` before it falls to the stop's
own, if that is less, and nothing else changes. Later questions are about the departure and the pickups of passengers on
board only, so only their `U` is kept.
"""

from __future__ import annotations

from types import EllipsisType

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.problem.instance import Instance, times_to, times_to_next
from jaxvrp.rows import rows_at


class Outlook(struct.PyTreeNode):
    """What would happen if the current vehicle went to each node now, serving as early as possible; `f32[N+1]`."""

    distance: jax.Array  # from the current node
    travel: jax.Array  # how long that takes
    arrival: jax.Array  # clock there
    start: jax.Array  # of the service
    leave: jax.Array  # clock when the service ends
    back: jax.Array  # how long the direct way home takes
    home: jax.Array  # clock at the depot, going there right after the service


class Schedule(struct.PyTreeNode):
    """The bounds of all schedules of the current vehicle's tour so far, with slack."""

    elapsed: jax.Array  # `f32[]`, driving and service until the last stop's service ends
    ride_end: jax.Array  # `f32[N+1]`, at drop-offs of passengers on board `elapsed` when the ride time is used up; inf
    max_delay: jax.Array  # `f32[N+1]`, there the greatest delay of the pickup; at 0 that of the departure


def begin(instance: Instance, slack: jax.Array) -> Schedule:
    """A vehicle at the depot; `slack` is granted on every upper bound."""
    return Schedule(
        elapsed=jnp.zeros((), jnp.float32),
        ride_end=jnp.full_like(instance.deadline, jnp.inf),
        max_delay=jnp.broadcast_to(instance.deadline[0] + slack, instance.deadline.shape),
    )


class Stop(struct.PyTreeNode):
    """The bounds of service at a node that comes next; `f32[]`, or `f32[N+1]` for each node."""

    elapsed: jax.Array  # driving and service before
    ride_end: jax.Array  # `elapsed` when the ride time of the passenger who gets out is used up; inf at other stops
    latest: jax.Array  # start, by the deadline and that ride time

    @property
    def max_delay(self) -> jax.Array:
        """The greatest delay here."""
        return self.latest - self.elapsed

    def admits(self, start: jax.Array) -> jax.Array:
        """`bool`, whether it can be added; `start` of the service, as early as possible."""
        return (self.elapsed <= self.ride_end) & (start <= self.latest)


def next_stop(
    schedule: Schedule, instance: Instance, node: jax.Array | EllipsisType, travel: jax.Array, slack: jax.Array
) -> Stop:
    """`node` (`i32[]`, or `...` for each) after `travel` (as many) from the last stop."""
    bounds = schedule.ride_end, instance.deadline, schedule.max_delay
    ride_end, deadline, max_delay = bounds if node is ... else (rows_at(bound, node) for bound in bounds)
    latest = jnp.minimum(deadline + slack, ride_end + max_delay)
    return Stop(schedule.elapsed + travel, ride_end, latest)


def append(schedule: Schedule, instance: Instance, node: jax.Array, travel: jax.Array, slack: jax.Array) -> Schedule:
    """The schedule with one more stop, served: a `node` (`i32[]`) that can be added, after `travel` (`f32[]`)."""
    nodes = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    stop = next_stop(schedule, instance, node, travel, slack)
    elapsed = stop.elapsed + rows_at(instance.service_time, node)
    ride_end = jnp.where(nodes == node, jnp.inf, schedule.ride_end)
    boards = (node % 2 == 1) & (nodes == node + 1)
    return Schedule(
        elapsed=elapsed,
        ride_end=jnp.where(boards, elapsed + instance.max_ride_time + slack, ride_end),
        max_delay=jnp.where(boards, stop.max_delay, jnp.minimum(schedule.max_delay, stop.max_delay)),
    )


def keeps_limits(schedule: Schedule, instance: Instance, visits: Outlook, slack: jax.Array) -> jax.Array:
    """`bool[N+1]`: with the node and the direct way home, the tour keeps all limits but the depot's deadline."""
    stop = next_stop(schedule, instance, ..., visits.travel, slack)
    driven = stop.elapsed + instance.service_time + visits.back
    # The stop bounds the departure too, but never by more than `driven`: its earliest delay is within its greatest.
    duration = jnp.maximum(driven, visits.home - schedule.max_delay[0])
    return stop.admits(visits.start) & (duration <= instance.max_route_duration + slack)


def keeps_everybody(
    schedule: Schedule, instance: Instance, visits: Outlook, on_board: jax.Array, slack: jax.Array
) -> jax.Array:
    """`bool[N+1]`: after a node that can be added, each passenger can be delivered in time, going straight there.

    `on_board`, `bool[N/2]`, are the requests on board. The route duration ends at the depot, so it does not count.
    """
    nodes, requests = (jnp.arange(count, dtype=jnp.int32) for count in (instance.num_nodes + 1, on_board.shape[0]))
    stop = next_stop(schedule, instance, ..., visits.travel, slack)
    elapsed = stop.elapsed + instance.service_time

    def reaches(way: jax.Array, earliest: jax.Array, latest: jax.Array, ride_end: jax.Array) -> jax.Array:
        latest = jnp.minimum(latest, ride_end + stop.max_delay)
        return Stop(elapsed + way, ride_end, latest).admits(jnp.maximum(visits.leave + way, earliest))

    def after(request: jax.Array | int) -> jax.Array:
        return jnp.min(jnp.where(on_board & (requests > request), requests, requests.shape[0]))

    def check_passenger(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        request, kept = loop
        node = 2 * request + 2
        rows = instance.earliest, stop.latest, stop.ride_end
        brought = reaches(times_to(instance, node), *(rows_at(leaf, node) for leaf in rows))
        return after(request), kept & (brought | (nodes == node))

    earliest, deadline = (jnp.roll(leaf, -1, axis=0) for leaf in (instance.earliest, instance.deadline))
    who_boards = reaches(times_to_next(instance), earliest, deadline + slack, elapsed + instance.max_ride_time + slack)
    # Passenger by passenger: those on board are few, and all requests at once would be too much for large instances.
    start = (after(-1), who_boards | (nodes % 2 == 0))
    return jax.lax.while_loop(lambda loop: loop[0] < requests.shape[0], check_passenger, start)[1]

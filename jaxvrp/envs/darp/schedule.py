"""Whether a sequence of nodes has a schedule within windows, ride times and route duration; exact, in JAX.

The times of service are the variables of a system of difference constraints: lower bounds, travel and service between
neighbours, a ride time that ties a pickup to its drop-off, a duration that ties the departure to the return. Its least
solution is found by raising lower bounds until nothing moves (Bellman-Ford): forward along the sequence, then back
from each drop-off to its pickup. The sequence is feasible iff that ends, and within the deadlines. The forward-slack
procedure of Cordeau & Laporte (2003) decides the same question; `solution.py` uses it, so that one checks the other.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.problem.instance import Instance, distance, travel_time

_Sweep = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
"""Lower bounds, the times before and now, and how many sweeps there were."""


class Sequence(struct.PyTreeNode):
    """Nodes in order, depot first; `[P]` positions, those behind the end are void.

    Attributes:
        earliest, deadline: `f32[P]`, bounds of the start of service.
        service: `f32[P]`, how long it takes.
        gap: `f32[P]`, from the start of the service before to the earliest start here.
        mate: `i32[P]`, at a pickup the position of its drop-off; 0 if there is none.
    """

    earliest: jax.Array
    deadline: jax.Array
    service: jax.Array
    gap: jax.Array
    mate: jax.Array


def feasible_next(instance: Instance, route: jax.Array, length: jax.Array, slack: float) -> jax.Array:
    """`bool[N+1]`: whether the sequence so far, a node, and the direct leg home have a schedule.

    Args:
        instance: one problem.
        route: `i32[N+1]`, nodes visited so far by this vehicle, 0 beyond.
        length: `i32[]`, how many these are.
        slack: added to every upper bound.
    """
    nodes = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    base = Route(instance, route, length)
    duration = instance.max_route_duration
    return jax.vmap(lambda node: has_schedule(instance, base.extended(node, nodes[0]), duration, slack))(nodes)


def feasible_then(
    instance: Instance, route: jax.Array, length: jax.Array, next_node: jax.Array, slack: float
) -> jax.Array:
    """`bool[N+1]`: the same for the sequence so far, a node, and `next_node[node]` (`i32[N+1]`), without the leg home.

    The route duration ends at the depot, so it does not count.
    """
    nodes = jnp.arange(instance.num_nodes + 1, dtype=jnp.int32)
    base = Route(instance, route, length)
    return jax.vmap(lambda node, last: has_schedule(instance, base.extended(node, last), jnp.inf, slack))(
        nodes, next_node
    )


class Route:
    """The sequence so far, to be extended by two nodes; what does not depend on these is computed once."""

    def __init__(self, instance: Instance, route: jax.Array, length: jax.Array):
        self.instance, self.length = instance, length
        zero = jnp.zeros(1, jnp.int32)
        self.nodes = jnp.concatenate([zero, route, zero, zero])
        self.positions = jnp.arange(self.nodes.shape[0], dtype=jnp.int32)
        locs = instance.locs[self.nodes]
        self.earliest, self.deadline = instance.earliest[self.nodes], instance.deadline[self.nodes]
        self.service = instance.service_time[self.nodes]
        self.travel = self._travel(locs, jnp.roll(locs, 1, axis=0))
        self.last = route[length - 1] * (length > 0)
        driven = (self.positions > 0) & (self.positions <= length)
        follows = (self.nodes[:, None] + 1 == self.nodes) & driven & (self.nodes % 2 == 1)[:, None]
        self.mate = jnp.sum(jnp.where(follows, self.positions, 0), axis=1, dtype=jnp.int32)

    def _travel(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return travel_time(self.instance, distance(a, b))

    def extended(self, node: jax.Array, last: jax.Array) -> Sequence:
        """With `node` and then `last` (both `i32[]`) at its end."""
        instance, first, second = self.instance, self.length + 1, self.length + 2
        locs = instance.locs
        to_node, to_last = self._travel(locs[self.last], locs[node]), self._travel(locs[node], locs[last])

        is_first, is_second = self.positions == first, self.positions == second

        def put(base: jax.Array, at_first: jax.Array, at_second: jax.Array, void: float) -> jax.Array:
            return jnp.select([self.positions < first, is_first, is_second], [base, at_first, at_second], void)

        service = put(self.service, instance.service_time[node], instance.service_time[last], 0.0)
        travel = put(self.travel, to_node, to_last, 0.0)
        pickup = (self.nodes % 2 == 1) & (self.positions < first)
        mate = jnp.where(pickup & (self.nodes + 1 == node), first, self.mate)
        mate = jnp.where(pickup & (self.nodes + 1 == last), second, mate)
        mate = jnp.where(is_first & (node % 2 == 1) & (node + 1 == last), second, mate)
        return Sequence(
            earliest=put(self.earliest, instance.earliest[node], instance.earliest[last], -jnp.inf),
            deadline=put(self.deadline, instance.deadline[node], instance.deadline[last], jnp.inf),
            service=service,
            gap=travel + jnp.roll(service, 1).at[0].set(0.0),
            mate=mate,
        )


def has_schedule(instance: Instance, sequence: Sequence, duration: jax.Array | float, slack: float) -> jax.Array:
    """Whether a sequence has a schedule, `bool[]`; see the module's docstring.

    Args:
        instance: of the ride time limit.
        sequence: nodes in order.
        duration: the most from the first time to the last, `f32[]`.
        slack: added to every upper bound.
    """
    positions = jnp.arange(sequence.gap.shape[0], dtype=jnp.int32)

    def earliest_times(lower: jax.Array) -> jax.Array:
        def advance(before: jax.Array, position: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            bound, gap = position
            time = jnp.maximum(before + gap, bound)
            return time, time

        return jax.lax.scan(advance, lower[0], (lower, sequence.gap))[1]

    def raise_bounds(lower: jax.Array, time: jax.Array) -> jax.Array:
        ride = time[sequence.mate] - instance.max_ride_time - slack - sequence.service
        lower = jnp.where(sequence.mate > 0, jnp.maximum(lower, ride), lower)
        # Void positions repeat the time of the last.
        departure = time[-1] - duration - slack
        return jnp.where(positions == 0, jnp.maximum(lower, departure), lower)

    def in_time(time: jax.Array) -> jax.Array:
        return (time <= sequence.deadline + slack).all()

    def go_on(loop: _Sweep) -> jax.Array:
        lower, before, time, sweeps = loop
        del lower
        return in_time(time) & (time != before).any() & (sweeps < positions.shape[0])

    def sweep(loop: _Sweep) -> _Sweep:
        lower, _, time, sweeps = loop
        lower = raise_bounds(lower, time)
        return lower, time, earliest_times(lower), sweeps + 1

    first = earliest_times(sequence.earliest)
    lower = raise_bounds(sequence.earliest, first)
    start = (lower, first, earliest_times(lower), jnp.zeros((), jnp.int32))
    _, before, time, _ = jax.lax.while_loop(go_on, sweep, start)
    return in_time(time) & (time == before).all()

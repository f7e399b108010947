"""The rules of a truck and its drone: one turn, and what is allowed. No word of observations or rewards."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone import rules
from jaxvrp.envs.truck_and_drone import state as shared
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import drone_distance, drone_time, launch_time, node_indices, truck_time
from jaxvrp.envs.truck_and_drone.rules import SLACK, Turns
from jaxvrp.rows import rows_at


class State(shared.State):
    """Where an episode stands."""


def launch(state: State, customer: jax.Array) -> State:
    """The drone leaves the truck for a customer."""
    launched = rules.launch(state, customer)
    instance = state.instance
    if instance.max_sortie is None:
        return launched
    there = launched.drone_elapsed + drone_time(instance, customer, node_indices(instance))
    return launched.replace(in_range=launched.in_range & (there <= latest(instance, state.truck_node, 2.0 * SLACK)))


TURNS = Turns(stay=lambda state: state, launch=launch, meet=rules.meet, drive=rules.drive)


def begin(instance: Instance) -> State:
    """Both at the depot, the drone on board, and it has the first turn."""
    return State(**rules.at_depot(instance))


def advance(state: State, drone: jax.Array, truck: jax.Array, num_invalid: jax.Array) -> State:
    """The state after the turn of one of them; `drone` and `truck` (`i32[]`) are allowed, and one of them is idle."""
    return rules.advance(TURNS, state, drone, truck, num_invalid)


def drone_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The drone's mask, `bool[n + 2]`: 0 ride along, or fly on; 1 meet the truck; 2 + i serve i."""
    ours, instance = state.is_drones_turn, state.instance
    goes_on = ~state.must_meet & meets_later(state, allow_revisits=allow_revisits)
    # A drone that may not fly on is within range: the masks before this one have seen to it.
    meets = state.is_away & (rows_at(state.in_range, state.truck_node) | ~goes_on)
    stays = jnp.where(state.is_away, goes_on, True)
    flight = drone_distance(instance, state.truck_node, node_indices(instance)) + way_back(
        state, allow_revisits=allow_revisits
    )
    returns = (flight <= instance.max_flight * (1.0 + SLACK)) & jnp.isfinite(flight)
    if instance.max_sortie is not None:
        returns &= in_time(state, allow_revisits=allow_revisits)
    serves = ours & ~state.is_away & ~state.served & ~instance.no_fly & returns
    return jnp.concatenate([jnp.stack([~ours | stays, ours & meets]), serves])


def nodes_ahead(state: State) -> jax.Array:
    """`bool[n]`: nodes that the truck, without revisits, is yet to come to."""
    return ~state.served | (node_indices(state.instance) == 0)


def meets_later(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[]`, whether the truck can still come to a later node to meet the drone that is away."""
    if state.instance.max_sortie is not None:
        meets = functools.partial(_meets, state, allow_revisits=allow_revisits, slack=2.0 * SLACK)
        return meets(state.truck_node, state.truck_elapsed, ~state.served, state.in_range)
    # Without revisits, the truck may be past all nodes within range.
    return allow_revisits | (state.in_range & nodes_ahead(state)).any()


def latest(instance: Instance, start: jax.Array, slack: float) -> jax.Array:
    """`f32[]`, when both must be at the node of the meeting, on the clock of `truck_elapsed`, after a launch there."""
    return launch_time(instance, start) + (instance.max_sortie - instance.recovery_time) * (1.0 + slack)


def in_time(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: customers after whom a sortie from here can end within `max_flight` and `max_sortie`."""
    instance, start, nodes = state.instance, state.truck_node, node_indices(state.instance)
    begin = launch_time(instance, start)

    def served(customer: jax.Array) -> jax.Array:
        flight = drone_distance(instance, start, customer) + drone_distance(instance, customer, nodes)
        there = begin + drone_time(instance, start, customer) + drone_time(instance, customer, nodes)
        in_range = (flight <= instance.max_flight * (1.0 + SLACK)) & (there <= latest(instance, start, SLACK))
        in_range &= instance.exists & (nodes != customer)
        unserved = ~state.served & (nodes != customer)
        launched = state.replace(launch_node=start)
        return _meets(launched, start, begin, unserved, in_range, allow_revisits=allow_revisits, slack=SLACK)

    return jax.vmap(served)(nodes)


def _meets(
    state: State,
    node: jax.Array,
    elapsed: jax.Array,
    unserved: jax.Array,
    in_range: jax.Array,
    *,
    allow_revisits: bool,
    slack: float,
) -> jax.Array:
    """`bool[]`, whether the truck, at a node after so much time, comes in time to a node where the drone can be.

    It drives straight there. Without revisits, to the depot also over the one customer that is left: whether it comes
    over several in time, is not asked.
    """
    instance, nodes = state.instance, node_indices(state.instance)
    due = latest(instance, state.launch_node, slack)
    is_there = in_range & (elapsed + truck_time(instance, node, nodes) <= due)
    if allow_revisits:
        return is_there.any()
    left = unserved.sum(dtype=jnp.int32)
    over_last = elapsed + truck_time(instance, node, nodes) + truck_time(instance, nodes, 0) <= due
    comes_home = jnp.where(left == 0, is_there[0], in_range[0] & (left == 1) & (unserved & over_last).any())
    return (is_there & unserved).any() | comes_home


def way_back(state: State, *, allow_revisits: bool) -> jax.Array:
    """`f32[n]`: the least drone distance from each customer to a node to meet at; inf if there is none."""
    if allow_revisits:  # any other node is still to be served, or served: the truck can come to it
        return state.figures.nearest
    instance, nodes = state.instance, node_indices(state.instance)
    is_other = nodes_ahead(state) & (nodes[:, None] != nodes)
    return jnp.where(is_other, drone_distance(instance, nodes[:, None], nodes), jnp.inf).min(axis=1)


def truck_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The truck's mask over nodes, `bool[n]`."""
    is_depot = node_indices(state.instance) == 0
    unserved = ~state.served
    goes_home = is_depot & state.served.all()
    # Whoever goes home with the drone away meets it there.
    to_meet = state.in_range if allow_revisits else goes_home
    others = jnp.where(state.is_away, state.served & to_meet, goes_home)
    allowed = unserved | others
    if state.instance.max_sortie is not None:
        allowed = jnp.where(state.is_away, _kept(allowed, keeps_time(state, allow_revisits=allow_revisits)), allowed)
    return jnp.where(state.is_drones_turn, is_depot, allowed)


def _kept(allowed: jax.Array, keeps: jax.Array) -> jax.Array:
    """`bool[n]`: those allowed that keep the time; all of them where rounding leaves none."""
    return allowed & (keeps | ~(allowed & keeps).any())


def keeps_time(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: nodes where the truck can meet the drone that is away within `max_sortie`, or after which it can."""
    instance, nodes = state.instance, node_indices(state.instance)
    arrival = state.truck_elapsed + truck_time(instance, state.truck_node, nodes)
    meets = functools.partial(_meets, state, allow_revisits=allow_revisits, slack=2.0 * SLACK)
    unserved = ~state.served & (nodes[:, None] != nodes)
    later = jax.vmap(lambda node, time, left: meets(node, time, left, state.in_range))(nodes, arrival, unserved)
    is_due = arrival <= latest(instance, state.launch_node, 2.0 * SLACK)
    return is_due & (state.in_range | ~state.served & later)

"""The rules of truck and drone: one turn, and what is allowed. No word of observations or rewards.

What only tandems with time windows have is in `tandems`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.environment import select
from jaxvrp.envs.truck_and_drone import tandems
from jaxvrp.envs.truck_and_drone.instance import (
    Figures,
    Instance,
    drone_distance,
    drone_time,
    node_indices,
    truck_distance,
    truck_time,
)
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET
from jaxvrp.envs.truck_and_drone.state import State, Totals
from jaxvrp.rows import rows_at

SLACK = 1e-5
"""Share of `max_flight` by which flights may exceed it: sums of `float32` are rounded."""


def begin(instance: Instance, figures: Figures, *, num_tandems: int = 0) -> State:
    """Both at the depot, the drone on board, and it has the first turn; `num_tandems` counts with time windows."""
    none, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    served = ~instance.exists | (node_indices(instance) == 0)
    is_over, tours = served.all(), None
    if instance.has_windows:
        tours = tandems.begin(instance, num_tandems)
        is_over |= ~tandems.can_leave(instance, figures, served)
    return State(
        instance=instance,
        figures=figures,
        truck_node=none,
        served=served,
        clock=instance.opens[0] if instance.has_windows else nothing,
        growth=nothing,
        totals=Totals(none, none, none, nothing, nothing, nothing, nothing, none),
        step=none,
        done=is_over,
        tours=tours,
        **_on_board(instance),
    )


def _on_board(instance: Instance) -> dict[str, jax.Array]:
    """What a state says of the drone when it is on board, and has the turn."""
    none, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    return {
        "is_drones_turn": jnp.ones((), bool),
        "is_away": jnp.zeros((), bool),
        "launch_node": none,
        "drone_customer": none,
        "truck_elapsed": nothing,
        "drone_elapsed": nothing,
        "flight": nothing,
        "in_range": jnp.zeros_like(instance.exists),
        "must_meet": jnp.zeros((), bool),
    }


def advance(state: State, drone: jax.Array, truck: jax.Array, num_invalid: jax.Array) -> State:
    """The state after the turn of one of them; `drone` and `truck` (`i32[]`) are allowed, and one of them is idle."""
    customer = jnp.maximum(drone - FIRST_SERVE, 0)
    stayed = state.replace(growth=jnp.zeros_like(state.growth), is_drones_turn=jnp.zeros_like(state.is_drones_turn))
    idle = stayed if state.tours is None else tandems.serve_by_truck(stayed, state.is_away)
    after_drone = select(drone >= FIRST_SERVE, _launch(stayed, customer), select(drone == MEET, _meet(stayed), idle))
    moved = select(state.is_drones_turn, after_drone, _drive(state, truck))
    totals = moved.totals.replace(invalid_actions=state.totals.invalid_actions + num_invalid)
    home = moved.served.all() & (moved.truck_node == 0) & ~moved.is_away
    moved = moved.replace(totals=totals, step=state.step + 1, done=home)
    return moved if state.tours is None else tandems.end_tour(state, moved)


def _launch(state: State, customer: jax.Array) -> State:
    """The drone leaves the truck for a customer."""
    instance, totals = state.instance, state.totals
    flight = drone_distance(instance, state.truck_node, customer)
    back = drone_distance(instance, customer, node_indices(instance))
    # Twice the slack of the mask: what it was sure of holds here, however the sum is rounded.
    limit = instance.max_flight * (1.0 + 2.0 * SLACK)
    launched = state.replace(
        served=state.served | (node_indices(instance) == customer),
        is_away=jnp.ones_like(state.is_away),
        launch_node=state.truck_node,
        drone_customer=customer,
        truck_elapsed=instance.launch_time,
        drone_elapsed=instance.launch_time + drone_time(instance, state.truck_node, customer),
        flight=flight,
        in_range=(flight + back <= limit) & instance.exists & (node_indices(instance) != customer),
        totals=totals.replace(served_by_drone=totals.served_by_drone + 1),
    )
    return launched if state.tours is None else tandems.hold_launch(launched)


def _meet(state: State) -> State:
    """The drone comes back to the truck, and the first to arrive waits; then the drone has another turn."""
    instance, totals = state.instance, state.totals
    arrival = drone_arrival(state, state.truck_node)
    growth = jnp.maximum(state.truck_elapsed, arrival) + instance.recovery_time
    flight = state.flight + drone_distance(instance, state.drone_customer, state.truck_node)
    met = state.replace(
        clock=state.clock + growth,
        growth=growth,
        totals=totals.replace(
            sorties=totals.sorties + 1,
            drone_flight=totals.drone_flight + flight,
            waiting_truck=totals.waiting_truck + jnp.maximum(arrival - state.truck_elapsed, 0.0),
            waiting_drone=totals.waiting_drone + jnp.maximum(state.truck_elapsed - arrival, 0.0),
        ),
        **_on_board(instance),
    )
    if state.tours is None:
        return met
    return tandems.serve_by_truck(tandems.pay(met, flight * instance.drone_price), is_due=True)


def _drive(state: State, node: jax.Array) -> State:
    """The truck goes to `node`; then it is the drone's turn."""
    instance, totals = state.instance, state.totals
    time = truck_time(instance, state.truck_node, node)
    was_served = rows_at(state.served, node)
    goes_home = (node == 0) & state.served.all()
    growth = jnp.where(state.is_away, 0.0, time)
    driven = truck_distance(instance, state.truck_node, node)
    moved = state.replace(
        is_drones_turn=jnp.ones_like(state.is_drones_turn),
        truck_node=node,
        served=state.served | (node_indices(instance) == node),
        truck_elapsed=jnp.where(state.is_away, state.truck_elapsed + time, 0.0),
        must_meet=state.is_away & was_served,
        clock=state.clock + growth,
        growth=growth,
        totals=totals.replace(
            revisits=totals.revisits + (was_served & ~goes_home),
            truck_distance=totals.truck_distance + driven,
        ),
    )
    return moved if state.tours is None else tandems.arrive(moved, driven * instance.truck_price)


def drone_arrival(state: State, node: jax.Array) -> jax.Array:
    """When the drone that is away can be at nodes `node`, on the clock of `drone_elapsed`: of the shape of `node`."""
    return state.drone_elapsed + drone_time(state.instance, state.drone_customer, node)


def drone_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The drone's mask, `bool[n + 2]`: 0 ride along, or fly on; 1 meet the truck; 2 + i serve i."""
    if state.tours is not None:
        return tandems.drone_allowed(state)
    ours, instance = state.is_drones_turn, state.instance
    # Without revisits, the truck may be past all nodes within range.
    goes_on = ~state.must_meet & (allow_revisits | (state.in_range & nodes_ahead(state)).any())
    # A drone that may not fly on is within range: the masks before this one have seen to it.
    meets = state.is_away & (rows_at(state.in_range, state.truck_node) | ~goes_on)
    stays = jnp.where(state.is_away, goes_on, True)
    flight = drone_distance(instance, state.truck_node, node_indices(instance)) + way_back(
        state, allow_revisits=allow_revisits
    )
    returns = (flight <= instance.max_flight * (1.0 + SLACK)) & jnp.isfinite(flight)
    serves = ours & ~state.is_away & ~state.served & ~instance.no_fly & returns
    return jnp.concatenate([jnp.stack([~ours | stays, ours & meets]), serves])


def nodes_ahead(state: State) -> jax.Array:
    """`bool[n]`: nodes that the truck, without revisits, is yet to come to."""
    return ~state.served | (node_indices(state.instance) == 0)


def way_back(state: State, *, allow_revisits: bool) -> jax.Array:
    """`f32[n]`: the least drone distance from each customer to a node to meet at; inf if there is none."""
    if allow_revisits:  # any other node is still to be served, or served: the truck can come to it
        return state.figures.nearest
    instance, nodes = state.instance, node_indices(state.instance)
    is_other = nodes_ahead(state) & (nodes[:, None] != nodes)
    return jnp.where(is_other, drone_distance(instance, nodes[:, None], nodes), jnp.inf).min(axis=1)


def in_play(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: nodes where truck or drone is or may still come; without revisits a served node is left for good."""
    nodes = node_indices(state.instance)
    is_there = (nodes == state.truck_node) | (state.is_away & (nodes == state.drone_customer))
    return state.instance.exists & (~state.served | (nodes == 0) | is_there | allow_revisits)


def truck_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The truck's mask over nodes, `bool[n]`."""
    if state.tours is not None:
        return tandems.truck_allowed(state)
    is_depot = node_indices(state.instance) == 0
    unserved = ~state.served
    goes_home = is_depot & state.served.all()
    # Whoever goes home with the drone away meets it there.
    to_meet = state.in_range if allow_revisits else goes_home
    others = jnp.where(state.is_away, state.served & to_meet, goes_home)
    return jnp.where(state.is_drones_turn, is_depot, unserved | others)

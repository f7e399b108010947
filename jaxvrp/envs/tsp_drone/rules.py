"""The rules of truck and drone: state, one turn, and what is allowed. No word of observations or rewards."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import select
from jaxvrp.envs.tsp_drone.problem.instance import (
    Figures,
    Instance,
    drone_distance,
    drone_time,
    truck_distance,
    truck_time,
)
from jaxvrp.envs.tsp_drone.problem.operations import FIRST_SERVE, MEET
from jaxvrp.notebook import NotebookStill

SLACK = 1e-5
"""Share of `max_flight` by which flights may exceed it: sums of `float32` are rounded."""


class Totals(struct.PyTreeNode):
    """What has happened in an episode so far."""

    served_by_drone: jax.Array  # `i32[]`, customers, counted at the launch
    sorties: jax.Array  # `i32[]`, meetings
    revisits: jax.Array  # `i32[]`, turns of the truck to a served node, its own included; not the last way home
    drone_flight: jax.Array  # `f32[]`, of sorties that are over
    truck_distance: jax.Array  # `f32[]`
    waiting_truck: jax.Array  # `f32[]`, time that the truck waited for the drone
    waiting_drone: jax.Array  # `f32[]`, time that the drone waited for the truck
    invalid_actions: jax.Array  # `i32[]`, actions that were executed as something else


class State(NotebookStill, struct.PyTreeNode):
    """Where an episode stands."""

    instance: Instance  # the problem, padded to the environment's size
    figures: Figures  # what follows from it
    is_drones_turn: jax.Array  # `bool[]`; else it is the truck's
    truck_node: jax.Array  # `i32[]`, where the truck is
    served: jax.Array  # `bool[n]`, served already, or on the drone's way; the depot and padding from the start
    is_away: jax.Array  # `bool[]`, whether the drone is. If not, the next seven are 0 or false
    launch_node: jax.Array  # `i32[]`, where it left the truck
    drone_customer: jax.Array  # `i32[]`, the customer that it serves
    truck_elapsed: jax.Array  # `f32[]`, the truck's time since the last meeting before the launch
    drone_elapsed: jax.Array  # `f32[]`, the drone's, until it leaves its customer
    flight: jax.Array  # `f32[]`, drone distance of the first leg
    in_range: jax.Array  # `bool[n]`, nodes at which it can meet the truck within `max_flight`
    must_meet: jax.Array  # `bool[]`, whether the truck's last turn led to a node that was served already
    clock: jax.Array  # `f32[]`, at the last moment at which they were together
    growth: jax.Array  # `f32[]`, of the clock, in the last step
    totals: Totals  # of the episode
    step: jax.Array  # `i32[]`
    done: jax.Array  # `bool[]`


def begin(instance: Instance, figures: Figures) -> State:
    """Both at the depot, the drone on board, and it has the first turn."""
    none, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    served = ~instance.exists | (_nodes(instance) == 0)
    return State(
        instance=instance,
        figures=figures,
        truck_node=none,
        served=served,
        clock=nothing,
        growth=nothing,
        totals=Totals(none, none, none, nothing, nothing, nothing, nothing, none),
        step=none,
        done=served.all(),
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
    after_drone = select(drone >= FIRST_SERVE, _launch(stayed, customer), select(drone == MEET, _meet(stayed), stayed))
    moved = select(state.is_drones_turn, after_drone, _drive(state, truck))
    totals = moved.totals.replace(invalid_actions=state.totals.invalid_actions + num_invalid)
    home = moved.served.all() & (moved.truck_node == 0) & ~moved.is_away
    return moved.replace(totals=totals, step=state.step + 1, done=home)


def _launch(state: State, customer: jax.Array) -> State:
    """The drone leaves the truck for a customer."""
    instance, totals = state.instance, state.totals
    flight = drone_distance(instance, state.truck_node, customer)
    back = drone_distance(instance, customer, _nodes(instance))
    # Twice the slack of the mask: what it was sure of holds here, however the sum is rounded.
    limit = instance.max_flight * (1.0 + 2.0 * SLACK)
    return state.replace(
        served=state.served | (_nodes(instance) == customer),
        is_away=jnp.ones_like(state.is_away),
        launch_node=state.truck_node,
        drone_customer=customer,
        truck_elapsed=instance.launch_time,
        drone_elapsed=instance.launch_time + drone_time(instance, state.truck_node, customer),
        flight=flight,
        in_range=(flight + back <= limit) & instance.exists & (_nodes(instance) != customer),
        totals=totals.replace(served_by_drone=totals.served_by_drone + 1),
    )


def _meet(state: State) -> State:
    """The drone comes back to the truck, and the first to arrive waits; then the drone has another turn."""
    instance, totals = state.instance, state.totals
    arrival = drone_arrival(state, state.truck_node)
    growth = jnp.maximum(state.truck_elapsed, arrival) + instance.recovery_time
    flight = state.flight + drone_distance(instance, state.drone_customer, state.truck_node)
    return state.replace(
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


def _drive(state: State, node: jax.Array) -> State:
    """The truck goes to `node`; then it is the drone's turn."""
    instance, totals = state.instance, state.totals
    time = truck_time(instance, state.truck_node, node)
    was_served = state.served[node]
    goes_home = (node == 0) & state.served.all()
    growth = jnp.where(state.is_away, 0.0, time)
    return state.replace(
        is_drones_turn=jnp.ones_like(state.is_drones_turn),
        truck_node=node,
        served=state.served | (_nodes(instance) == node),
        truck_elapsed=jnp.where(state.is_away, state.truck_elapsed + time, 0.0),
        must_meet=state.is_away & was_served,
        clock=state.clock + growth,
        growth=growth,
        totals=totals.replace(
            revisits=totals.revisits + (was_served & ~goes_home),
            truck_distance=totals.truck_distance + truck_distance(instance, state.truck_node, node),
        ),
    )


def drone_arrival(state: State, node: jax.Array) -> jax.Array:
    """When the drone that is away can be at nodes `node`, on the clock of `drone_elapsed`: of the shape of `node`."""
    return state.drone_elapsed + drone_time(state.instance, state.drone_customer, node)


def drone_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The drone's mask, `bool[n + 2]`: 0 ride along, or fly on; 1 meet the truck; 2 + i serve i."""
    ours, instance = state.is_drones_turn, state.instance
    # Without revisits, the truck may be past all nodes within range.
    goes_on = ~state.must_meet & (allow_revisits | (state.in_range & nodes_ahead(state)).any())
    # A drone that may not fly on is within range: the masks before this one have seen to it.
    meets = state.is_away & (state.in_range[state.truck_node] | ~goes_on)
    stays = jnp.where(state.is_away, goes_on, True)
    flight = drone_distance(instance, state.truck_node, _nodes(instance)) + way_back(
        state, allow_revisits=allow_revisits
    )
    returns = (flight <= instance.max_flight * (1.0 + SLACK)) & jnp.isfinite(flight)
    serves = ours & ~state.is_away & ~state.served & ~instance.no_fly & returns
    return jnp.concatenate([jnp.stack([~ours | stays, ours & meets]), serves])


def nodes_ahead(state: State) -> jax.Array:
    """`bool[n]`: nodes that the truck, without revisits, is yet to come to."""
    return ~state.served | (_nodes(state.instance) == 0)


def way_back(state: State, *, allow_revisits: bool) -> jax.Array:
    """`f32[n]`: the least drone distance from each customer to a node to meet at; inf if there is none."""
    if allow_revisits:  # any other node is still to be served, or served: the truck can come to it
        return state.figures.nearest
    instance, nodes = state.instance, _nodes(state.instance)
    is_other = nodes_ahead(state) & (nodes[:, None] != nodes)
    return jnp.where(is_other, drone_distance(instance, nodes[:, None], nodes), jnp.inf).min(axis=1)


def in_play(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: nodes where truck or drone is or may still come; without revisits a served node is left for good."""
    nodes = _nodes(state.instance)
    is_there = (nodes == state.truck_node) | (state.is_away & (nodes == state.drone_customer))
    return state.instance.exists & (~state.served | (nodes == 0) | is_there | allow_revisits)


def truck_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The truck's mask over nodes, `bool[n]`."""
    is_depot = _nodes(state.instance) == 0
    unserved = ~state.served
    goes_home = is_depot & state.served.all()
    # Whoever goes home with the drone away meets it there.
    to_meet = state.in_range if allow_revisits else goes_home
    others = jnp.where(state.is_away, state.served & to_meet, goes_home)
    return jnp.where(state.is_drones_turn, is_depot, unserved | others)


def _nodes(instance: Instance) -> jax.Array:
    """`i32[n]`, their indices."""
    return jnp.arange(instance.num_nodes, dtype=jnp.int32)

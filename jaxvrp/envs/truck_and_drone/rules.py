"""Where truck and drone stand, and what a turn of one of them does, in every problem of them.

No word of observations or rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.environment import select
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import (
    Figures,
    drone_distance,
    drone_time,
    figures_of,
    launch_time,
    node_indices,
    truck_distance,
    truck_time,
)
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET
from jaxvrp.notebook import NotebookStill
from jaxvrp.rows import rows_at

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
    truck_node: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, where the truck is
    served: jax.Array  # `bool[n]`, served already, or on the drone's way; the depot and padding from the start
    is_away: jax.Array  # `bool[]`, whether the drone is. If not, the next seven are 0 or false
    launch_node: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, where it left the truck
    drone_customer: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, the customer that it serves
    truck_elapsed: jax.Array  # `f32[]`, the truck's time since the last meeting before the launch
    drone_elapsed: jax.Array  # `f32[]`, the drone's, until it leaves its customer
    flight: jax.Array  # `f32[]`, drone distance of the first leg
    in_range: jax.Array  # `bool[n]`, nodes at which it can meet the truck within `max_flight`, or its endurance
    must_meet: jax.Array  # `bool[]`, whether the truck's last turn led to a node that was served already
    clock: jax.Array  # `f32[]`, at the last moment at which they were together; with tandems, of the tour under way
    growth: jax.Array  # `f32[]`, of the clock, in the last step; with tandems, of the cost
    totals: Totals  # of the episode
    step: jax.Array  # `i32[]`
    done: jax.Array  # `bool[]`

    @property
    def sortie_unit(self) -> jax.Array:
        """`f32[]`, by which times of sorties are seen."""
        return self.figures.horizon


Kind = TypeVar("Kind", bound=State)


class Turns(NamedTuple):
    """What becomes of a state in each kind of turn."""

    stay: Callable[[Any], Any]  # the drone rides along, or flies on
    launch: Callable[[Any, jax.Array], Any]  # to a customer, `i32[]`
    meet: Callable[[Any], Any]
    drive: Callable[[Any, jax.Array], Any]  # the truck to a node, `i32[]`


def at_depot(instance: Instance) -> dict[str, Any]:
    """The fields of a state with both at the depot, the drone on board, and it has the first turn."""
    none, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    served = ~instance.exists | (node_indices(instance) == 0)
    return {
        "instance": instance,
        "figures": figures_of(instance),
        "truck_node": none,
        "served": served,
        "clock": jnp.asarray(instance.departure),
        "growth": nothing,
        "totals": Totals(none, none, none, nothing, nothing, nothing, nothing, none),
        "step": none,
        "done": served.all(),
        **on_board(instance),
    }


def on_board(instance: Instance) -> dict[str, jax.Array]:
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


def advance(turns: Turns, state: Kind, drone: jax.Array, truck: jax.Array, num_invalid: jax.Array) -> Kind:
    """The state after the turn of one of them; `drone` and `truck` (`i32[]`) are allowed, and one of them is idle."""
    customer = jnp.maximum(drone - FIRST_SERVE, 0)
    stayed = state.replace(growth=jnp.zeros_like(state.growth), is_drones_turn=jnp.zeros_like(state.is_drones_turn))
    not_away = select(drone == MEET, turns.meet(stayed), turns.stay(stayed))
    after_drone = select(drone >= FIRST_SERVE, turns.launch(stayed, customer), not_away)
    moved = select(state.is_drones_turn, after_drone, turns.drive(state, truck))
    totals = moved.totals.replace(invalid_actions=state.totals.invalid_actions + num_invalid)
    home = moved.served.all() & (moved.truck_node == 0) & ~moved.is_away
    return moved.replace(totals=totals, step=state.step + 1, done=home)


def launch(state: Kind, customer: jax.Array) -> Kind:
    """The drone leaves the truck for a customer."""
    instance, totals = state.instance, state.totals
    flight = drone_distance(instance, state.truck_node, customer)
    back = drone_distance(instance, customer, node_indices(instance))
    # Twice the slack of the mask: what it was sure of holds here, however the sum is rounded.
    limit = instance.max_flight * (1.0 + 2.0 * SLACK)
    begin = launch_time(instance, state.truck_node)
    in_range = (flight + back <= limit) & instance.exists & (node_indices(instance) != customer)
    return state.replace(
        served=state.served | (node_indices(instance) == customer),
        is_away=jnp.ones_like(state.is_away),
        launch_node=state.truck_node,
        drone_customer=customer,
        truck_elapsed=begin,
        drone_elapsed=begin + drone_time(instance, state.truck_node, customer),
        flight=flight,
        in_range=in_range,
        totals=totals.replace(served_by_drone=totals.served_by_drone + 1),
    )


def flown(state: State) -> jax.Array:
    """`f32[]`, the drone distance of both legs, if the drone that is away meets the truck where it is."""
    return state.flight + drone_distance(state.instance, state.drone_customer, state.truck_node)


def meet(state: Kind) -> Kind:
    """The drone comes back to the truck, and the first to arrive waits; then the drone has another turn."""
    instance, totals = state.instance, state.totals
    arrival = drone_arrival(state, state.truck_node)
    growth = jnp.maximum(state.truck_elapsed, arrival) + instance.recovery_time
    return state.replace(
        clock=state.clock + growth,
        growth=growth,
        totals=totals.replace(
            sorties=totals.sorties + 1,
            drone_flight=totals.drone_flight + flown(state),
            waiting_truck=totals.waiting_truck + jnp.maximum(arrival - state.truck_elapsed, 0.0),
            waiting_drone=totals.waiting_drone + jnp.maximum(state.truck_elapsed - arrival, 0.0),
        ),
        **on_board(instance),
    )


def drive(state: Kind, node: jax.Array) -> Kind:
    """The truck goes to `node`; then it is the drone's turn."""
    instance, totals = state.instance, state.totals
    time = truck_time(instance, state.truck_node, node)
    was_served = rows_at(state.served, node)
    goes_home = (node == 0) & state.served.all()
    growth = jnp.where(state.is_away, 0.0, time)
    return state.replace(
        is_drones_turn=jnp.ones_like(state.is_drones_turn),
        truck_node=node,
        served=state.served | (node_indices(instance) == node),
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


def in_play(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[n]`: nodes where truck or drone is or may still come; without revisits a served node is left for good."""
    nodes = node_indices(state.instance)
    is_there = (nodes == state.truck_node) | (state.is_away & (nodes == state.drone_customer))
    return state.instance.exists & (~state.served | (nodes == 0) | is_there | allow_revisits)

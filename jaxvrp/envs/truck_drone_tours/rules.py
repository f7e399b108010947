"""The rules of tandems with time windows: one turn, their masks, which are exact, and the end of a tour.

Tandems drive one after the other, everything as early as possible. By the triangle inequality the straight way to a
meeting, or home, is the earliest and carries the least; so if that one is too late, all others are. An action is
allowed if and only if the tour can be completed after it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.truck_and_drone import rules
from jaxvrp.envs.truck_and_drone.legs import Figures, drone_time, node_indices, truck_distance, truck_time
from jaxvrp.envs.truck_and_drone.rules import Turns
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.io.arrays import unit_of
from jaxvrp.rows import rows_at

SLACK = 2e-6
"""Share by which times may exceed a limit: sums of `float32` are rounded."""

LOAD_SLACK = 1e-5
"""Share of the truck's capacity, likewise."""


class Sortie(NamedTuple):
    """A drone that is away, or would be; leading axes make it many."""

    customer: jax.Array  # `i32[]`
    leave: jax.Array  # `f32[]`, when it leaves its customer
    used: jax.Array  # `f32[]`, time of its endurance by then


class Tours(struct.PyTreeNode):
    """Where the tours of tandems stand; those drive one after the other."""

    tandems_left: jax.Array  # `i32[]`, that have not come home, the one under way included
    load: jax.Array  # `f32[]`, what the tandem under way has served, truck and drone together
    cost: jax.Array  # `f32[]`, money paid so far
    waiting: jax.Array  # `f32[]`, time that trucks and drones waited for windows to open


class State(rules.State, kw_only=True):
    """Where an episode stands."""

    instance: Instance
    tours: Tours

    @property
    def sortie_unit(self) -> jax.Array:
        """`f32[]`, the horizon, from the depot's opening on: sorties wait for windows."""
        return unit_of(self.instance.closes[0] - self.instance.opens[0])


def tandems(number: int, figures: Figures) -> jax.Array:
    """`i32[]`, so many, or for 0 as many as customers, without padding."""
    return jnp.asarray(number or figures.num_customers, jnp.int32)


def begin(instance: Instance, num_tandems: int) -> State:
    """The first tandem at the depot, its drone on board; as many may leave as `tandems` says."""
    nothing, standing = jnp.zeros_like(instance.endurance), rules.at_depot(instance)
    tours = Tours(tandems(num_tandems, standing["figures"]), nothing, nothing, nothing)
    state = State(**standing, tours=tours)
    return state.replace(done=state.done | ~can_leave(instance, state.figures, state.served))


def advance(before: State, drone: jax.Array, truck: jax.Array, num_invalid: jax.Array) -> State:
    """The state after the turn of one of them; `drone` and `truck` (`i32[]`) are allowed, and one of them is idle.

    A tour that is over is closed, and the next tandem stands at the depot.
    """
    state = rules.advance(TURNS, before, drone, truck, num_invalid)
    is_over = ((before.truck_node != 0) | before.is_away) & (state.truck_node == 0) & ~state.is_away
    tours = state.tours
    left = tours.tandems_left - is_over
    stuck = state.served.all() | (left == 0) | ~can_leave(state.instance, state.figures, state.served)
    return state.replace(
        clock=jnp.where(is_over, state.instance.opens[0], state.clock),
        tours=tours.replace(tandems_left=left, load=jnp.where(is_over, 0.0, tours.load)),
        done=is_over & stuck,
    )


def stay(state: State) -> State:
    """The drone rides along or flies on; the truck, with the drone away, serves now."""
    return serve_by_truck(state, state.is_away)


def launch(state: State, customer: jax.Array) -> State:
    """The drone leaves the truck for a customer: both leave once that can be served on arrival."""
    state = rules.launch(state, customer)
    instance, tours = state.instance, state.tours
    wait = jnp.maximum(rows_at(instance.opens, customer) - (state.clock + state.drone_elapsed), 0.0)
    used = _sortie_of(state).used + drone_time(instance, customer, node_indices(instance))
    in_range = (used <= _granted(instance.endurance)) & (~state.served | (node_indices(instance) == 0))
    return state.replace(
        truck_elapsed=state.truck_elapsed + wait,
        drone_elapsed=state.drone_elapsed + wait + rows_at(instance.service, customer),
        in_range=in_range,
        tours=tours.replace(load=tours.load + instance.demand[customer], waiting=tours.waiting + wait),
    )


def meet(state: State) -> State:
    """The drone comes back to the truck, which pays for its flight and serves."""
    return serve_by_truck(pay(rules.meet(state), rules.flown(state) * state.instance.drone_price), is_due=True)


def drive(state: State, node: jax.Array) -> State:
    """The truck goes to `node` and pays; it serves if the drone is on board, else the drone decides before."""
    driven = truck_distance(state.instance, state.truck_node, node)
    state = rules.drive(state, node)
    paid, load = driven * state.instance.truck_price, state.tours.load + rows_at(state.instance.demand, node)
    return serve_by_truck(pay(state.replace(tours=state.tours.replace(load=load)), paid), ~state.is_away)


TURNS = Turns(stay, launch, meet, drive)


def serve_by_truck(state: State, is_due: bool | jax.Array) -> State:
    """The truck serves the node where it is, once the window is open, if that `is_due`."""
    instance, node, tours = state.instance, state.truck_node, state.tours
    wait = jnp.where(is_due, jnp.maximum(rows_at(instance.opens, node) - _now(state), 0.0), 0.0)
    stop = wait + jnp.where(is_due, rows_at(instance.service, node), 0.0)
    return state.replace(
        clock=state.clock + jnp.where(state.is_away, 0.0, stop),
        truck_elapsed=state.truck_elapsed + jnp.where(state.is_away, stop, 0.0),
        tours=tours.replace(waiting=tours.waiting + wait),
    )


def pay(state: State, paid: jax.Array) -> State:
    """Money, `f32[]`, for a way of the truck, or for both of the drone's, is added to the cost."""
    return state.replace(growth=paid, tours=state.tours.replace(cost=state.tours.cost + paid))


def can_leave(instance: Instance, figures: Figures, served: jax.Array) -> jax.Array:
    """`bool[]`, whether a truck alone could serve one of the customers that are left."""
    arrival = _arrivals(instance, jnp.zeros((), jnp.int32), instance.opens[0], jnp.zeros(()), ~served)
    return (_late_on_board(instance, figures, arrival) <= 0.0).any()


# Jitted, so that a program that asks several times traces it once.
@jax.jit
def drone_allowed(state: State) -> jax.Array:
    """The drone's mask, `bool[n + 2]`: 0 ride along, or fly on; 1 meet the truck; 2 + i serve i."""
    drones_turn, (at_once, later) = state.is_drones_turn, late_in_the_air(state)
    instance = state.instance
    # The mask before this one has seen to it that one of the two is in time, to rounding.
    granted = jnp.maximum(0.0, jnp.minimum(later, at_once))
    goes_on, meets = ~state.is_away | (later <= granted), state.is_away & (at_once <= granted)
    serves = drones_turn & ~state.is_away & ~instance.no_fly & (late_by_launch(state) <= 0.0)
    return jnp.concatenate([jnp.stack([~drones_turn | goes_on, drones_turn & meets]), serves])


def late_in_the_air(state: State) -> tuple[jax.Array, jax.Array]:
    """`f32[]`, how late the tandem is at best if the drone that is away meets the truck where it is, and if later."""
    instance, here, sortie = state.instance, state.truck_node, _sortie_of(state)
    at_once = _late_by_meeting(state, sortie, here[None], _now(state)[None])[0]
    leave, late = _served(instance, here, _now(state))
    after = _arrivals(instance, here, leave, state.tours.load, ~state.served)
    later = jnp.maximum(late, _late_by_meeting(state, sortie, node_indices(instance), after).min())
    return at_once, jnp.where(here == 0, jnp.inf, later)


def late_by_launch(state: State) -> jax.Array:
    """`f32[n]`, how late truck or drone is at best if the drone sets out for each customer now; inf for others."""
    instance, here, nodes = state.instance, state.truck_node, node_indices(state.instance)
    flight = drone_time(instance, here, nodes)
    launch = jnp.maximum(state.clock + instance.launch_time, instance.opens - flight)
    sortie = Sortie(nodes, launch + flight + instance.service, flight + instance.service)
    is_left = ~state.served & (nodes != nodes[:, None])
    arrival = _arrivals(instance, here, launch, state.tours.load + instance.demand, is_left)
    straight = _late_by_meeting(state, sortie, nodes, arrival)
    # A truck that is launched from the depot comes back to it by way of a customer.
    leave, late = _served(instance, nodes, arrival)
    depot = jnp.zeros((), jnp.int32)
    around = jnp.maximum(late, _late_by_meeting(state, sortie, depot, leave + state.figures.truck_home))
    meeting = jnp.minimum(straight, around).min(axis=1)
    return jnp.where(state.served, jnp.inf, jnp.maximum(launch + flight - _granted(_closes(instance)), meeting))


# Jitted, so that a program that asks several times traces it once.
@jax.jit
def truck_allowed(state: State) -> jax.Array:
    """The truck's mask over nodes, `bool[n]`."""
    late = late_by_way(state)
    # The mask before this one has seen to it that one of them is in time, to rounding.
    allowed = (late <= jnp.maximum(0.0, late.min())) & jnp.isfinite(late)
    return jnp.where(state.is_drones_turn, node_indices(state.instance) == 0, allowed)


def late_by_way(state: State) -> jax.Array:
    """`f32[n]`, how late the tandem is at best if the truck goes to each node now; inf where it may not go."""
    arrival = _arrivals(state.instance, state.truck_node, _now(state), state.tours.load, ~state.served)
    on_board = _late_on_board(state.instance, state.figures, arrival)
    return jnp.where(state.is_away, _late_with_drone_away(state, arrival), on_board)


def _late_with_drone_away(state: State, arrival: jax.Array) -> jax.Array:
    """`f32[n]`, how late the tandem is at best if the truck comes to each node at `arrival`, to meet there or later."""
    instance, nodes, sortie = state.instance, node_indices(state.instance), _sortie_of(state)
    leave, late = _served(instance, nodes, arrival)
    after = _arrivals(instance, nodes, leave, state.tours.load + instance.demand, ~state.served)
    later = jnp.maximum(late, _late_by_meeting(state, sortie, nodes, after).min(axis=1))
    return jnp.minimum(_late_by_meeting(state, sortie, nodes, arrival), jnp.where(nodes == 0, jnp.inf, later))


def _late_on_board(instance: Instance, figures: Figures, arrival: jax.Array) -> jax.Array:
    """`f32[n]`, how late a truck that comes to each node at `arrival`, the drone on board, is there or at home."""
    leave, late = _served(instance, node_indices(instance), arrival)
    return jnp.maximum(late, leave + figures.truck_home - _granted(instance.closes[0]))


def _late_by_meeting(state: State, sortie: Sortie, node: jax.Array, arrival: jax.Array) -> jax.Array:
    """How late the tandem is if the truck comes to `node` at `arrival` and meets the drone, `f32[..., nodes]`.

    There or at home; or by how much the drone exceeds its endurance, if that is more.
    """
    instance = state.instance
    back = drone_time(instance, sortie.customer[..., None], node)
    ready = jnp.maximum(arrival, sortie.leave[..., None] + back) + instance.recovery_time
    leave, late = _served(instance, node, ready)
    home = leave + rows_at(state.figures.truck_home, node)
    late = jnp.maximum(late, home - _granted(instance.closes[0]))
    return jnp.maximum(late, sortie.used[..., None] + back - _granted(instance.endurance))


def _arrivals(instance: Instance, start: jax.Array, leave: jax.Array, load: jax.Array, is_left: jax.Array) -> jax.Array:
    """When a truck that leaves `start` is at each node if that is next, `f32[..., n]`.

    Inf where it may not go: to customers that are not left or do not fit, and to the depot before it has served.
    """
    nodes, start = node_indices(instance), start[..., None]
    fits = load[..., None] + instance.demand <= instance.truck_capacity * (1.0 + LOAD_SLACK)
    may_go = jnp.where(nodes == 0, start != 0, is_left & (nodes != start)) & fits
    return jnp.where(may_go, leave[..., None] + truck_time(instance, start, nodes), jnp.inf)


def _served(instance: Instance, node: jax.Array, ready: jax.Array) -> tuple[jax.Array, jax.Array]:
    """When a truck that could begin to serve `node` at `ready` has done so, and how late it began."""
    begin = jnp.maximum(ready, rows_at(instance.opens, node))
    return begin + rows_at(instance.service, node), begin - _granted(rows_at(_closes(instance), node))


def _closes(instance: Instance) -> jax.Array:
    """`f32[n]`, finite: no service begins after the horizon."""
    return jnp.minimum(instance.closes, instance.closes[0])


def _sortie_of(state: State) -> Sortie:
    """The sortie of the drone that is away."""
    customer = state.drone_customer
    used = drone_time(state.instance, state.launch_node, customer) + rows_at(state.instance.service, customer)
    return Sortie(customer, state.clock + state.drone_elapsed, used)


def _now(state: State) -> jax.Array:
    """`f32[]`, the truck's time; with the drone away, at the drone's turn, when it came to its node."""
    return state.clock + state.truck_elapsed


def _granted(limit: jax.Array) -> jax.Array:
    """A limit of time, which may lie before 0, and what may be added to it."""
    return limit * jnp.where(limit < 0.0, 1.0 - SLACK, 1.0 + SLACK)

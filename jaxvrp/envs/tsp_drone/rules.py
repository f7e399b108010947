"""The rules of a truck and its drone: one turn, and what is allowed. No word of observations or rewards."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone import rules
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import drone_distance, node_indices
from jaxvrp.envs.truck_and_drone.rules import SLACK, Turns
from jaxvrp.envs.tsp_drone import sorties
from jaxvrp.rows import rows_at


class State(rules.State):
    """Where an episode stands."""


TURNS = Turns(stay=lambda state: state, launch=sorties.launch, meet=rules.meet, drive=rules.drive)


def begin(instance: Instance) -> State:
    """Both at the depot, the drone on board, and it has the first turn."""
    return State(**rules.at_depot(instance))


def advance(state: State, drone: jax.Array, truck: jax.Array, num_invalid: jax.Array) -> State:
    """The state after the turn of one of them; `drone` and `truck` (`i32[]`) are allowed, and one of them is idle."""
    return rules.advance(TURNS, state, drone, truck, num_invalid)


def drone_allowed(state: State, *, allow_revisits: bool) -> jax.Array:
    """The drone's mask, `bool[n + 2]`: 0 ride along, or fly on; 1 meet the truck; 2 + i serve i."""
    drones_turn, instance = state.is_drones_turn, state.instance
    goes_on = ~state.must_meet & meets_later(state, allow_revisits=allow_revisits)
    # A drone that may not fly on is within range: the masks before this one have seen to it.
    meets = state.is_away & (rows_at(state.in_range, state.truck_node) | ~goes_on)
    stays = jnp.where(state.is_away, goes_on, True)
    flight = drone_distance(instance, state.truck_node, node_indices(instance)) + way_back(
        state, allow_revisits=allow_revisits
    )
    returns = (flight <= instance.max_flight * (1.0 + SLACK)) & jnp.isfinite(flight)
    if instance.max_sortie is not None:
        returns &= sorties.in_time(state, allow_revisits=allow_revisits)
    serves = drones_turn & ~state.is_away & ~state.served & ~instance.no_fly & returns
    return jnp.concatenate([jnp.stack([~drones_turn | stays, drones_turn & meets]), serves])


def nodes_ahead(state: State) -> jax.Array:
    """`bool[n]`: nodes that the truck, without revisits, is yet to come to."""
    return ~state.served | (node_indices(state.instance) == 0)


def meets_later(state: State, *, allow_revisits: bool) -> jax.Array:
    """`bool[]`, whether the truck can still come to a later node to meet the drone that is away."""
    if state.instance.max_sortie is not None:
        return sorties.meets_later(state, allow_revisits=allow_revisits)
    # Without revisits, the truck may be past all nodes within range.
    return allow_revisits | (state.in_range & nodes_ahead(state)).any()


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
        keeps = ~state.is_away | sorties.keeps_time(state, allow_revisits=allow_revisits)
        # Where rounding leaves none, all of them.
        allowed &= keeps | ~(allowed & keeps).any()
    return jnp.where(state.is_drones_turn, is_depot, allowed)

"""Why actions of the truck and its drone are masked in `tsp_drone`, by the rules of their masks."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.legs import drone_distance
from jaxvrp.envs.truck_and_drone.shown.reasons import Why, causes
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.rules import SLACK, State, meets_later, way_back
from jaxvrp.envs.tsp_drone.sorties import in_time, keeps_time
from jaxvrp.show.reasons import Candidates, Cause, Reasons, first_cause


def reasons_of(env: TspDrone) -> Reasons:
    """Of an environment with its switches."""
    return Reasons(Why, lambda state: explain(state, allow_revisits=env.allow_revisits))


def explain(state: State, *, allow_revisits: bool) -> dict[str, Cause]:
    """`{"drone": Cause [1, n + 2], "truck": Cause [1, n]}`; flights beyond `max_flight`, in its unit."""
    instance, shape = state.instance, state.served.shape
    nodes = jnp.arange(shape[0], dtype=jnp.int32)
    # How far a meeting at each node is beyond the range of the drone that is away.
    excess = state.flight + drone_distance(instance, state.drone_customer, nodes) - instance.max_flight
    decides_in_the_air = state.is_drones_turn & state.is_away
    # Of the two limits of a meeting, `max_flight` and `max_sortie`, the one that is exceeded.
    misses, too_far = ~state.in_range[state.truck_node], excess[state.truck_node] > 0.0
    is_last = ~meets_later(state, allow_revisits=allow_revisits)
    stay = first_cause(
        [(decides_in_the_air & state.must_meet, Why.MUST_MEET, 0.0), (decides_in_the_air & is_last, Why.NO_LATER, 0.0)],
        (1,),
    )
    meet = first_cause(
        [
            (~state.is_drones_turn, Why.OTHERS_TURN, 0.0),
            (~state.is_away, Why.ON_BOARD, 0.0),
            (misses & too_far, Why.MEETS_TOO_FAR, excess[state.truck_node]),
            (misses, Why.TOO_LATE_TO_MEET, 0.0),
        ],
        (1,),
    )
    serve = first_cause(_of_customers(state, nodes, allow_revisits), shape)
    drone = tuple(jnp.concatenate(parts) for parts in zip(stay, meet, serve, strict=True))
    truck = first_cause(_of_nodes(state, nodes, excess, allow_revisits), shape)
    return causes(drone, truck)


def _of_customers(state: State, nodes: jax.Array, allow_revisits: bool) -> Candidates:
    """Of the drone's actions to fly to customers."""
    instance, back = state.instance, way_back(state, allow_revisits=allow_revisits)
    flight = drone_distance(instance, state.truck_node, nodes) + back
    if instance.max_sortie is None:
        late = jnp.zeros_like(state.served)
    else:
        late = ~in_time(state, allow_revisits=allow_revisits)
    return [
        (~state.is_drones_turn, Why.OTHERS_TURN, 0.0),
        (state.is_away, Why.AWAY, 0.0),
        (nodes == 0, Why.IS_DEPOT, 0.0),
        (~instance.exists, Why.MISSING, 0.0),
        (state.served, Why.SERVED, 0.0),
        (instance.no_fly, Why.NO_FLY, 0.0),
        (~jnp.isfinite(back), Why.NO_MEETING, 0.0),
        (flight > instance.max_flight * (1.0 + SLACK), Why.FLIGHT_TOO_LONG, flight - instance.max_flight),
        (late, Why.TOO_LATE, 0.0),
    ]


def _of_nodes(state: State, nodes: jax.Array, excess: jax.Array, allow_revisits: bool) -> Candidates:
    """Of the truck's actions."""
    left = jnp.sum(~state.served)
    visited = state.served & ~((nodes == 0) & (left == 0))
    meets = state.is_away & allow_revisits
    misses = meets & state.served & ~state.in_range
    if state.instance.max_sortie is None:
        late = jnp.zeros_like(state.served)
    else:
        late = state.is_away & ~keeps_time(state, allow_revisits=allow_revisits)
    return [
        (state.is_drones_turn & (nodes != 0), Why.OTHERS_TURN, 0.0),
        (state.is_drones_turn, Why.ALLOWED, 0.0),
        (~state.instance.exists, Why.MISSING, 0.0),
        (state.is_away & (nodes == state.drone_customer), Why.DRONES, 0.0),
        (misses & (excess > 0.0), Why.TOO_FAR_TO_MEET, excess),
        (misses, Why.TOO_LATE_TO_MEET, 0.0),
        (~meets & visited & (nodes == 0), Why.CUSTOMERS_LEFT, left),
        (~meets & visited, Why.SERVED, 0.0),
        (late, Why.TOO_LATE, 0.0),
    ]

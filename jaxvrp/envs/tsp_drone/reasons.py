"""Why actions of the truck and its drone are masked in `tsp_drone`, by the rules of their masks."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.tsp_drone.env import DRONE, TRUCK, TspDrone
from jaxvrp.envs.tsp_drone.problem.instance import drone_distance
from jaxvrp.envs.tsp_drone.rules import SLACK, State
from jaxvrp.replay.reasons import ALLOWED, Candidates, Cause, Reasons, first_cause

WORDS = (
    "",
    "the other one's turn",
    "no such customer",
    "the depot is no customer",
    "served already",
    "not for the drone",
    "the drone is away",
    "the drone is on board",
    "flight {amount} too long, to the nearest node to meet at",
    "no node would be left to meet at",
    "a meeting here is {amount} beyond the drone's range",
    "the truck waits here to meet the drone",
    "the truck comes to no later node within the drone's range",
    "customers are left: {amount}",
    "the drone is on its way there",
    "a meeting there is {amount} beyond the drone's range",
)
(
    _,
    OTHERS_TURN,
    MISSING,
    IS_DEPOT,
    SERVED,
    NO_FLY,
    AWAY,
    ON_BOARD,
    FLIGHT_TOO_LONG,
    NO_MEETING,
    MEETS_TOO_FAR,
    MUST_MEET,
    NO_LATER,
    CUSTOMERS_LEFT,
    DRONES,
    TOO_FAR_TO_MEET,
) = range(len(WORDS))


def reasons_of(env: TspDrone) -> Reasons:
    """Of an environment with its switches."""
    return Reasons(WORDS, lambda state: explain(state, allow_revisits=env.allow_revisits))


def explain(state: State, *, allow_revisits: bool) -> dict[str, Cause]:
    """`{"drone": Cause [1, n + 2], "truck": Cause [1, n]}`; flights beyond `max_flight`, in its unit."""
    own = [_stays(state, allow_revisits), _meets(state)]
    serves = first_cause(_of_customers(state, allow_revisits), state.served.shape)
    drone = jax.tree.map(lambda *parts: jnp.concatenate([jnp.ravel(part) for part in parts]), *own, serves)
    return {DRONE: _cause(*drone), TRUCK: _cause(*first_cause(_of_nodes(state, allow_revisits), state.served.shape))}


def _cause(kind: jax.Array, amount: jax.Array) -> Cause:
    return Cause(kind[None].astype(jnp.int32), amount[None].astype(jnp.float32), jnp.zeros_like(kind)[None])


def _stays(state: State, allow_revisits: bool) -> tuple[jax.Array, jax.Array]:
    """Of the drone's action 0: to ride along, or to fly on."""
    ours_away = state.is_drones_turn & state.is_away
    ahead = ~state.served | (_nodes(state) == 0)
    never = jnp.zeros((), bool) if allow_revisits else ~(state.in_range & ahead).any()
    return first_cause([(ours_away & state.must_meet, MUST_MEET, 0.0), (ours_away & never, NO_LATER, 0.0)], ())


def _meets(state: State) -> tuple[jax.Array, jax.Array]:
    """Of the drone's action 1, to meet the truck where it is."""
    out_of_range = ~state.in_range[state.truck_node]
    return first_cause(
        [
            (~state.is_drones_turn, OTHERS_TURN, 0.0),
            (~state.is_away, ON_BOARD, 0.0),
            (out_of_range, MEETS_TOO_FAR, _excess(state)[state.truck_node]),
        ],
        (),
    )


def _of_customers(state: State, allow_revisits: bool) -> Candidates:
    """Of the drone's actions to fly to customers."""
    instance, nodes = state.instance, _nodes(state)
    ahead = (~state.served | (nodes == 0)) & (nodes[:, None] != nodes)
    back = state.figures.nearest
    if not allow_revisits:
        back = jnp.where(ahead, drone_distance(instance, nodes[:, None], nodes), jnp.inf).min(axis=1)
    flight = drone_distance(instance, state.truck_node, nodes) + back
    return [
        (~state.is_drones_turn, OTHERS_TURN, 0.0),
        (state.is_away, AWAY, 0.0),
        (nodes == 0, IS_DEPOT, 0.0),
        (~instance.exists, MISSING, 0.0),
        (state.served, SERVED, 0.0),
        (instance.no_fly, NO_FLY, 0.0),
        (~jnp.isfinite(back), NO_MEETING, 0.0),
        (flight > instance.max_flight * (1.0 + SLACK), FLIGHT_TOO_LONG, flight - instance.max_flight),
    ]


def _of_nodes(state: State, allow_revisits: bool) -> Candidates:
    """Of the truck's actions."""
    nodes, left = _nodes(state), jnp.sum(~state.served)
    visited = state.served & ~((nodes == 0) & (left == 0))
    meets = state.is_away & allow_revisits
    return [
        (state.is_drones_turn & (nodes != 0), OTHERS_TURN, 0.0),
        (state.is_drones_turn, ALLOWED, 0.0),
        (~state.instance.exists, MISSING, 0.0),
        (state.is_away & (nodes == state.drone_customer), DRONES, 0.0),
        (meets & state.served & ~state.in_range, TOO_FAR_TO_MEET, _excess(state)),
        (~meets & visited & (nodes == 0), CUSTOMERS_LEFT, left),
        (~meets & visited, SERVED, 0.0),
    ]


def _excess(state: State) -> jax.Array:
    """`f32[n]`: how far a meeting at each node is beyond the range of the drone that is away."""
    back = drone_distance(state.instance, state.drone_customer, _nodes(state))
    return state.flight + back - state.instance.max_flight


def _nodes(state: State) -> jax.Array:
    """`i32[n]`, their indices."""
    return jnp.arange(state.served.shape[0], dtype=jnp.int32)

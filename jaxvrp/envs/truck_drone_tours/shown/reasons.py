"""Why actions of tandems are masked in `truck_drone_tours`: the first of the limits that is exceeded."""

from __future__ import annotations

import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.shown.reasons import Why, causes
from jaxvrp.envs.truck_drone_tours import rules
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.show.reasons import Cause, Reasons, first_cause


def explain(state: State) -> dict[str, Cause]:
    """`{"drone": Cause [1, n + 2], "truck": Cause [1, n]}`, of what the masks forbid."""
    instance, nodes, here = state.instance, jnp.arange(state.served.shape[0], dtype=jnp.int32), state.truck_node
    drones_turn, allowed = state.is_drones_turn, rules.drone_allowed(state)
    always = jnp.ones((), bool)
    at_once, later = rules.late_in_the_air(state)
    excess = state.tours.load + instance.demand - instance.truck_capacity
    too_full = excess > rules.LOAD_SLACK * instance.truck_capacity
    stay = first_cause([(here == 0, Why.TO_MEET_HERE, 0.0), (always, Why.NOT_IN_TIME, later)], (1,))
    meet = first_cause(
        [(~drones_turn, Why.OTHERS_TURN, 0.0), (~state.is_away, Why.ON_BOARD, 0.0), (always, Why.NOT_IN_TIME, at_once)],
        (1,),
    )
    late = rules.late_by_launch(state)
    serve = first_cause(
        [
            (~drones_turn, Why.OTHERS_TURN, 0.0),
            (state.is_away, Why.AWAY, 0.0),
            (nodes == 0, Why.IS_DEPOT, 0.0),
            (~instance.exists, Why.MISSING, 0.0),
            (state.served, Why.SERVED, 0.0),
            (instance.no_fly, Why.NO_FLY, 0.0),
            (too_full, Why.TOO_FULL, excess),
            (jnp.isinf(late), Why.NO_MEETING, 0.0),
            (always, Why.NOT_IN_TIME, late),
        ],
        nodes.shape,
    )
    way = rules.late_by_way(state)
    drive = first_cause(
        [
            (drones_turn, Why.OTHERS_TURN, 0.0),
            ((nodes == 0) & (here == 0), Why.NONE_SERVED, 0.0),
            (state.is_away & (nodes == state.drone_customer), Why.DRONES, 0.0),
            (~instance.exists, Why.MISSING, 0.0),
            ((nodes != 0) & state.served, Why.SERVED, 0.0),
            (too_full, Why.TOO_FULL, excess),
            (jnp.isinf(way), Why.NO_MEETING, 0.0),
            (always, Why.NOT_IN_TIME, way),
        ],
        nodes.shape,
    )
    drone = tuple(jnp.concatenate(parts) for parts in zip(stay, meet, serve, strict=True))
    forbidden = ~allowed, ~rules.truck_allowed(state)
    return causes(
        *(
            tuple(jnp.where(is_forbidden, part, 0) for part in parts)
            for is_forbidden, parts in zip(forbidden, (drone, drive), strict=True)
        )
    )


REASONS = Reasons(Why, explain)

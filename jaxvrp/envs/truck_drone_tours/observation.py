"""What tandems see beside what truck and drone see: windows, loads, and the horizon T.

Times of day count from the depot's opening, T to its closing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone import observation as shared
from jaxvrp.envs.truck_and_drone.legs import node_indices, truck_time
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.io.arrays import unit_of
from jaxvrp.spaces import Feature

WAITS = ("truck_elapsed", "drone_elapsed", "wait_here", "wait")
"""Features that hold waiting for windows, so that their unit is T, not H."""


def _in_horizons(features: tuple[Feature, ...]) -> tuple[Feature, ...]:
    return tuple(
        feature._replace(meaning=feature.meaning.replace("/ H", "/ T")) if feature.name in WAITS else feature
        for feature in features
    )


CONTEXT = (
    *_in_horizons(shared.CONTEXT),
    Feature("clock", "truck's time in this tour / T"),
    Feature("load", "what the tandem has served in this tour / its capacity"),
    Feature("tandems_left", "tandems that are not home / customers"),
    Feature("endurance", "longest sortie / T, at most 1"),
)

STATIC = (
    *shared.STATIC,
    Feature("opens", "service begins no earlier / T"),
    Feature("closes", "service begins no later / T, at most 1"),
    Feature("service", "time of service / T"),
    Feature("demand", "load / capacity"),
)

DYNAMIC = (
    *_in_horizons(shared.DYNAMIC),
    Feature("to_close", "how long before it closes the truck would come next, below 0 too late / T"),
)


def context(state: State, drone_mask: jax.Array) -> list[jax.Array]:
    """The numbers of `CONTEXT`; `drone_mask` is `bool[n + 2]`."""
    instance, per_horizon = state.instance, 1.0 / state.sortie_unit
    return [
        *shared.context(state, drone_mask),
        (state.clock - instance.opens[0] + state.truck_elapsed) * per_horizon,
        state.tours.load / unit_of(instance.truck_capacity),
        state.tours.tandems_left / state.figures.num_customers,
        jnp.minimum(instance.endurance * per_horizon, 1.0),
    ]


def static_planes(state: State) -> list[jax.Array]:
    """The numbers of `STATIC` of each node, `[n]` each."""
    instance, horizon = state.instance, state.sortie_unit
    return [
        *shared.static_planes(state),
        (instance.opens - instance.opens[0]) / horizon,
        jnp.minimum((instance.closes - instance.opens[0]) / horizon, 1.0),
        instance.service / horizon,
        instance.demand / unit_of(instance.truck_capacity),
    ]


def dynamic_planes(state: State, drone_mask: jax.Array, truck_mask: jax.Array, present: jax.Array) -> list[jax.Array]:
    """The numbers of `DYNAMIC` of each node, `[n]` each; masks `bool[n + 2]` and `bool[n]`."""
    instance = state.instance
    truck_leg = truck_time(instance, state.truck_node, node_indices(instance))
    arrival = state.clock + state.truck_elapsed + truck_leg
    return [
        *shared.dynamic_planes(state, drone_mask, truck_mask, present),
        (jnp.minimum(instance.closes, instance.closes[0]) - arrival) / state.sortie_unit,
    ]

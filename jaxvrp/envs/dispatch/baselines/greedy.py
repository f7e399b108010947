"""Baselines that look at the request at hand alone: accept, threshold, cover."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry, Memoryless
from jaxvrp.environment import TimeStep
from jaxvrp.envs.dispatch import cover
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.routes.plans import depot_of, located, minutes
from jaxvrp.envs.dispatch.rules import State, cheapest
from jaxvrp.spaces import ByRole


class AcceptActor(Memoryless):
    """Gives the request to the vehicle that it adds least travel to; rejects it if there is none.

    With `replan_rounds` in the environment this is the player that re-plans.
    """

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        action = {DISPATCHER: jax.vmap(self.choose)(state)[:, None]}
        if DRIVER in timestep.action_mask:
            keys = jax.random.split(key, timestep.terminated.shape[0])
            action[DRIVER] = jax.vmap(self.send)(keys, state)
        return action, carry

    def choose(self, state: State) -> jax.Array:
        """`i32[]`, the dispatcher's action in one state."""
        return cheapest(state, state.offers.feasible)

    def send(self, key: jax.Array, state: State) -> jax.Array:
        """`i32[V]`, the drivers' actions in one state; here all wait."""
        del key
        return jnp.zeros(state.plans.free.shape[0], jnp.int32)


class ThresholdActor(AcceptActor):
    """Keeps the fleet for what it serves best, by three numbers that are tuned on other days.

    Rejects what is worth less than `floor`, or less than `rate` for each minute of added travel; gives the rest to the
    vehicle that it adds least travel to. With a depot, requests from where the drive of the first vehicle takes longer
    than `district` minutes go to drones if possible, nearer ones to vehicles, and each to the other kind if not (Ulmer
    & Thomas 2018).
    """

    def __init__(
        self, env: Dispatch, district: float | None = None, floor: float | None = None, rate: float | None = None
    ):
        """By default `TUNED`; `python -m benchmarks.quality --env dispatch --tune` looks for better ones."""
        tuned = TUNED[env.scenario]
        given = (district, floor, rate)
        self.district, self.floor, self.rate = (t if g is None else g for g, t in zip(given, tuned, strict=True))

    def choose(self, state: State) -> jax.Array:
        """`i32[]`, see the class."""
        found, instance, value = state.offers, state.prepared.instance, state.request.value
        allowed = found.feasible & (value >= self.floor) & (value >= self.rate * found.added)
        if instance.depot is None:
            return cheapest(state, allowed)
        far = self._drive(state) > self.district
        first = cheapest(state, allowed & (instance.is_drone == far))
        return jnp.where(first > 0, first, cheapest(state, allowed))

    def _drive(self, state: State) -> jax.Array:
        """`f32[]`, minutes of the first vehicle from the depot to the request."""
        prepared, request = state.prepared, state.request
        there = located(prepared, request.dropoff, 1.0 + request.index)
        return minutes(prepared, depot_of(prepared, 0), there, prepared.pace[0], prepared.fleet.is_drone[0])


TUNED = {"same_day": (12.0, 0.4, 0.06), "chen_ulmer_thomas": (12.0, 0.0, 0.0), "ride_pooling": (0.0, 0.0, 0.0)}
"""`district` (minutes), `floor` (value) and `rate` (value a minute): the best of small grids on 64 other days. In
`ride_pooling` rejecting what adds much travel gains nothing, so the rule is `accept`."""


class CoverActor(AcceptActor):
    """Accepts what fits; the idle vehicle that is needed least goes where vehicles are needed most.

    A zone needs vehicles by its share of the pickups so far, less by what vehicles cover that could be there soon. One
    vehicle moves at each request, if that gains enough.
    """

    def send(self, key: jax.Array, state: State) -> jax.Array:
        """`i32[V]`, see the class."""
        del key
        return jnp.where(cover.is_spare(state), cover.target(state), 0)

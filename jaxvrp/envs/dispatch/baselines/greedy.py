"""Baselines that look at the request at hand alone: accept, threshold, relocate, cover."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.dispatch import cover
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.plans import distance
from jaxvrp.envs.dispatch.rules import State, cheapest, idle, zone_of
from jaxvrp.spaces import ByRole

Number = float | jax.Array


class AcceptActor:
    """Gives the request to the vehicle that it adds least travel to; rejects it if there is none.

    With `replan_rounds` in the environment this is the player that re-plans.
    """

    def init(self, num_envs: int) -> Carry:
        """Nothing to carry from one decision to the next."""
        del num_envs
        return ()

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
        return choose_by(state, self.district, self.floor, self.rate)


TUNED = {"same_day": (12.0, 0.4, 0.06), "ride_pooling": (0.0, 0.0, 0.0)}
"""`district` (minutes), `floor` (value) and `rate` (value a minute): the best of small grids on 64 other days. In
`ride_pooling` rejecting what adds much travel gains nothing, so the rule is `accept`."""


class RelocateActor(AcceptActor):
    """Accepts what fits; idle vehicles go where demand has been, in proportion.

    A zone's share of the idle vehicles is its share of the pickups so far. Those beyond it leave the zone, each for a
    zone that lacks vehicles, by chance in proportion to what it lacks.
    """

    def send(self, key: jax.Array, state: State) -> jax.Array:
        """`i32[V]`, see the class."""
        assert state.demand is not None
        zones, free = state.num_zones_each_way, idle(state)
        where = zone_of(state.prepared.fleet.area, zones, state.plans.goal)
        is_there = (where == jnp.arange(zones * zones, dtype=jnp.int32)[:, None]) & free
        here = jnp.sum(is_there, axis=-1, dtype=jnp.float32)
        share = state.demand / jnp.maximum(jnp.sum(state.demand), 1.0) * jnp.sum(here)
        rank = jnp.cumsum(is_there, axis=-1, dtype=jnp.float32)
        is_surplus = (is_there & (rank > jnp.ceil(share)[:, None])).any(axis=0)
        lack = jnp.cumsum(jnp.maximum(share - here, 0.0))
        uniform = jax.random.uniform(key, (free.shape[0], 1), jnp.float32) * lack[-1]
        target = jnp.minimum(jnp.sum(lack <= uniform, axis=-1, dtype=jnp.int32), zones * zones - 1)
        return jnp.where(is_surplus & (lack[-1] > 0), 1 + target, 0)


class CoverActor(AcceptActor):
    """Accepts what fits; the idle vehicle that is needed least goes where vehicles are needed most.

    A zone needs vehicles by its share of the pickups so far, less by what vehicles cover that could be there soon. One
    vehicle moves at each request, if that gains enough.
    """

    def send(self, key: jax.Array, state: State) -> jax.Array:
        """`i32[V]`, see the class."""
        del key
        return cover.sent(state)


def choose_by(state: State, district: Number, floor: Number, rate: Number) -> jax.Array:
    """`i32[]`, the dispatcher's action by the rule of `ThresholdActor`."""
    found, instance, value = state.offers, state.prepared.instance, state.request.value
    allowed = found.feasible & (value >= floor) & (value >= rate * found.added)
    if instance.depot is None:
        return cheapest(state, allowed)
    far = distance(state.request.dropoff, instance.depot) * state.prepared.pace[0] > district
    first = cheapest(state, allowed & (instance.is_drone == far))
    return jnp.where(first > 0, first, cheapest(state, allowed))

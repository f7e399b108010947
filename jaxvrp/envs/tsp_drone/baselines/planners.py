"""Tours as the agents play them, and an actor that plans an episode as a tour when it begins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET, STAY_WITH_TRUCK
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.tsp_drone.baselines.partition import Times, ends_of, partition
from jaxvrp.envs.tsp_drone.baselines.tours import Planned
from jaxvrp.envs.tsp_drone.env import TspDrone


@functools.partial(jax.jit, static_argnames="window")
def plan_actions(times: Times, tours: jax.Array, *, window: int | None = None) -> dict[str, jax.Array]:
    """Tours `i32[P, I]` as the agents play them, `{"drone": i32[I, 2 P - 2], "truck": i32[I, 2 P - 2]}`.

    By their best partition (`window` as for `plan_tours`). The actions are 0 where it is the other agent's turn, and
    beyond the end.
    """
    window = times.num_nodes if window is None else min(window, times.num_nodes)
    cuts = partition(times, tours, jnp.arange(tours.shape[1], dtype=jnp.int32), window)
    drone, truck = jax.vmap(_actions, in_axes=(1, 1, 1, 0))(tours, cuts.start, cuts.drone, ends_of(tours))
    return {"drone": drone, "truck": truck}


def _actions(tour: jax.Array, start: jax.Array, drone: jax.Array, home: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The actions of drone and truck, `i32[2 P - 2]` each, along one tour, `i32[P]`, cut as in `Partition`."""
    position = jnp.arange(len(tour), dtype=jnp.int32)

    def walk(operation: Any, here: jax.Array) -> tuple[Any, Any]:
        """From the end of the tour, so that the operation around a position is known."""
        ending_here = start[here], here, drone[here]
        operation = jax.tree.map(lambda new, old: jnp.where(here == operation[0], new, old), ending_here, operation)
        return operation, operation

    _, (begin, end, served) = jax.lax.scan(walk, (home, home, home * 0), position, reverse=True)
    counts = (position > 0) & (position <= home)
    is_sortie = served > 0
    by_truck = counts & (position != served)
    first = begin + 1 + (served == begin + 1)
    launches = by_truck & is_sortie & (position == first)
    # A turn of the drone and one of the truck for a node, and the launch before the first of a sortie.
    turns = jnp.cumsum(2 * by_truck + launches, dtype=jnp.int32) - 2
    none = jnp.zeros(2 * (len(tour) - 1), jnp.int32)
    nowhere = len(none)
    after = jnp.where(position == end, MEET, STAY_WITH_TRUCK)
    truck_turn = jnp.where(is_sortie, turns, turns + 1)
    actions = none.at[jnp.where(by_truck & is_sortie, turns + 1, nowhere)].set(after, mode="drop")
    actions = actions.at[jnp.where(launches, turns - 1, nowhere)].set(FIRST_SERVE + tour[served], mode="drop")
    return actions, none.at[jnp.where(by_truck, truck_turn, nowhere)].set(tour, mode="drop")


class TourActor:
    """Plans each episode as a tour when it begins, and plays that plan, turn by turn.

    Plans are played as they are: where rounding makes a flight too long for the mask, the environment's fallback takes
    over.
    """

    def __init__(
        self,
        env: TspDrone,
        plan: Callable[[Instance, jax.Array], Planned],
        *,
        window: int | None = None,
    ):
        """A player of the plans that `plan` makes of instances `[I]` and a key; `window` as for `plan_actions`."""
        self.env, self.plan = env, plan
        self.actions_of = functools.partial(plan_actions, window=window)

    def init(self, num_envs: int) -> Carry:
        """Plans, `i32[E, T]` of each role, and whether they are made, `bool[E]`."""
        none = jnp.zeros((num_envs, self.env.max_episode_steps), jnp.int32)
        return {"drone": none, "truck": none}, jnp.zeros(num_envs, bool)

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del timestep
        plans, is_made = carry
        due = ~is_made | (state.step == 0)

        def make() -> dict[str, jax.Array]:
            planned = self.plan(state.instance, key)
            fresh = self.actions_of(planned.times, planned.tours)
            width = fresh["truck"].shape[1]
            return {
                role: plan.at[:, :width].set(jnp.where(due[:, None], fresh[role], plan[:, :width]))
                for role, plan in plans.items()
            }

        plans = jax.lax.cond(due.any(), make, lambda: plans)
        turn = state.step[:, None]
        actions = {role: jnp.take_along_axis(plan, turn, axis=1, mode="clip") for role, plan in plans.items()}
        return actions, (plans, jnp.ones_like(is_made))

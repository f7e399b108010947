"""An actor that anneals the tours of many episodes at once when they begin, and plays them turn by turn."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_and_drone.chains import advance, begin
from jaxvrp.envs.truck_and_drone.legs import distance, node_indices, truck_time
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET, STAY_WITH_TRUCK
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.truck_drone_tours.baselines.annealing import METHOD, SPARE, make_tables
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.search.annealing import geometric

CHAINS, STEPS = 8, 2400
"""Chains for each episode, and steps of annealing, in one cycle: with 15 customers, plans cost 3 to 4 % more than those
of the search in 2 s."""

FEW = METHOD._replace(tries=4)
"""Many episodes fill the machine, so that a chain prices few changes at a time, and takes more steps."""

NODES_OF_TOUR = 4
"""There is room for a tour for so many nodes, and `SPARE` more."""

AT_ONCE = 256
"""Episodes that are annealed at a time: what is computed of them fits into the cache."""

FAR = 1e30
"""Longer than any way."""

_Trucks = tuple[jax.Array, jax.Array, jax.Array]
"""For each truck the last node, when it leaves that, and its load."""


class _Plans(NamedTuple):
    """Sequences as `tours_annealing` has them, and where the episodes are on them."""

    codes: jax.Array  # `i32[E, P]`
    stop: jax.Array  # `i32[E]`, position of the truck
    span: jax.Array  # `i32[E]`, stops until the drone that is away returns


class AnnealedToursActor:
    """Anneals the tours of each episode when it begins, and plays them.

    Where customers do not fit into the tours that there is room for, and where rounding makes a plan too late for the
    masks, the environment's fallback takes over.
    """

    def __init__(self, env: TruckDroneTours, *, steps: int = STEPS):
        """A planner of episodes of `env`, each with this many `steps` of annealing."""
        self.num_tours = SPARE + env.num_nodes // NODES_OF_TOUR
        self.length = env.num_nodes + self.num_tours
        self.plan = functools.partial(annealed, num_tours=self.num_tours, steps=steps)

    def init(self, num_envs: int) -> Carry:
        """Plans, and whether they are made, `bool[E]`."""
        none = jnp.zeros(num_envs, jnp.int32)
        return _Plans(jnp.zeros((num_envs, self.length), jnp.int32), none, none), jnp.zeros(num_envs, bool)

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del timestep
        plans, is_made = carry
        due = ~is_made | (state.step == 0)

        def make() -> jax.Array:
            problems = state.instance, jax.random.split(key, len(due))
            fresh = jax.lax.map(lambda problem: self.plan(*problem), problems, batch_size=AT_ONCE)
            return jnp.where(due[:, None], fresh, plans.codes)

        codes = jax.lax.cond(due.any(), make, lambda: plans.codes)
        current = _Plans(codes, jnp.where(due, 0, plans.stop), jnp.where(due, 0, plans.span))
        actions, plans = jax.vmap(_next_turn)(current, state)
        return {role: chosen[:, None] for role, chosen in actions.items()}, (plans, jnp.ones_like(is_made))


def annealed(instance: Instance, key: jax.Array, *, num_tours: int, steps: int) -> jax.Array:
    """The best sequence `i32[n + num_tours]` after so many steps; see `tours_annealing`.

    The order of its tours is `_ordered`. Where customers do not fit into so many tours, it may miss windows.
    """
    tables = make_tables(instance)
    chains = begin(FEW, tables, jnp.repeat(_first_codes(instance, num_tours)[:, None], CHAINS, axis=1))
    ways = instance.truck_price * distance(instance, 0, node_indices(instance)).sum()
    unit = 0.5 * ways / jnp.maximum(instance.exists[1:].sum(), 1)
    progress = jnp.linspace(0.0, 1.0, steps, dtype=jnp.float32)
    heats, fines = (geometric(*ends, progress, unit) for ends in (FEW.temperature, FEW.fine))
    chains = advance(FEW, tables, chains, key, heats, fines)
    return _ordered(instance, chains.best[:, jax.lax.argmin(chains.least, 0, jnp.int32)])


def _ordered(instance: Instance, codes: jax.Array) -> jax.Array:
    """The sequence with the tour first that goes farthest from the depot, then likewise; empty tours are last.

    The order of tours makes no difference to the cost; one order of all that are as good is easier to imitate.
    """
    node = codes % instance.num_nodes
    tour = jnp.cumsum(node == 0)
    reach = jax.ops.segment_max(distance(instance, 0, node), tour, num_segments=len(codes) + 1)
    rank = jnp.argsort(jnp.argsort(-reach))
    return codes[jnp.argsort(rank[tour], stable=True)]


def _first_codes(instance: Instance, num_tours: int) -> jax.Array:
    """Trucks alone, `i32[n + num_tours]`: customers by the end of their windows, each to the nearest truck."""
    closes = jnp.where(instance.exists, instance.closes, jnp.inf)
    customers = 1 + jnp.argsort(closes[1:]).astype(jnp.int32)

    def serve(trucks: _Trucks, node: jax.Array) -> tuple[_Trucks, jax.Array]:
        last, leave, load = trucks
        begin = jnp.maximum(leave + truck_time(instance, last, node), instance.opens[node])
        leaves, loads = begin + instance.service[node], load + instance.demand[node]
        fits = (begin <= instance.closes[node]) & (loads <= instance.truck_capacity)
        fits &= leaves + truck_time(instance, node, 0) <= instance.closes[0]
        # Trucks that are on their way come before those at the depot.
        way = jnp.where(last == 0, FAR, distance(instance, last, node))
        tour = jax.lax.argmin(jnp.where(fits, way, jnp.inf), 0, jnp.int32)
        return (last.at[tour].set(node), leave.at[tour].set(leaves[tour]), load.at[tour].set(loads[tour])), tour

    none, nothing = jnp.zeros(num_tours, jnp.int32), jnp.zeros(num_tours, jnp.float32)
    _, tour = jax.lax.scan(serve, (none, nothing + instance.opens[0], nothing), customers)
    tour = jnp.where(instance.exists[customers], tour, num_tours)
    order = jnp.argsort(tour, stable=True)
    place = 1 + jnp.arange(len(order), dtype=jnp.int32) + tour[order]
    served = jnp.where(tour[order] < num_tours, customers[order], 0)
    return jnp.zeros(instance.num_nodes + num_tours, jnp.int32).at[place].set(served)


def _next_turn(plans: _Plans, state: State) -> tuple[dict[str, jax.Array], _Plans]:
    """What drone and truck of an episode do now, `i32[]` each."""
    codes, stop, span = plans
    count = state.instance.num_nodes
    following = codes.at[stop + 1].get(mode="fill", fill_value=0)
    node, flight = following % count, following // count
    launches = flight > 0
    on_board = jnp.where(launches, FIRST_SERVE + node, STAY_WITH_TRUCK)
    meets = launches | (span <= 0) | (codes[stop] == 0)
    drone = jnp.where(state.is_away, jnp.where(meets, MEET, STAY_WITH_TRUCK), on_board)
    # The truck goes to the next code that is its own.
    goal = jnp.minimum(stop + 1 + launches, len(codes) - 1)
    drones_turn = state.is_drones_turn
    actions = {"drone": jnp.where(drones_turn, drone, 0), "truck": jnp.where(drones_turn, 0, codes[goal] % count)}
    left = jnp.where(drones_turn, jnp.where(~state.is_away & launches, flight, span), span - 1)
    return actions, _Plans(codes, jnp.where(drones_turn, stop, goal), left)

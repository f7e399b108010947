"""Ruin and recreate: take some requests out of a plan, put them back well, thousands of plans at once. Pure JAX.

A round removes requests that have something to do with each other (`ruin`), inserts them one by one, in random order,
where they add the least distance and some noise (`recreate`), and keeps the new plan by simulated annealing. Plans are
feasible at every round; a request without a place waits, at the price of two unvisited nodes.

A plan is one sequence, in a lane of its own (`lanes`). Inserting shifts it, removing compresses it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp.baselines.lanes import Lanes, between, length_of, make_lanes, where
from jaxvrp.envs.darp.baselines.recreate import Plans, recreated
from jaxvrp.envs.darp.baselines.ruin import chosen, most_removed, without
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.problem.figures import tightened
from jaxvrp.envs.darp.problem.instance import Instance, as_float32
from jaxvrp.envs.darp.rules import State
from jaxvrp.search.annealing import geometric

HEAT = (1.5, 0.05)
"""Temperatures of the first and the last round, in mean legs of the first plan; between them they fall by a factor."""

NOISE = 0.3  # most that is added to an insertion, twice, in mean legs


class Search(struct.PyTreeNode):
    """A search that goes on: `B` chains of plans, as many for each of some instances."""

    lanes: Lanes  # the problems, as rounds read them
    mean_leg: jax.Array  # `f32[B]`, of the first plans
    plans: Plans  # where the chains are
    best: Plans  # the best that each has been at


@functools.partial(jax.jit, static_argnames=("rounds", "limits"))
def ruin_and_recreate(
    instances: Instance, key: jax.Array, *, rounds: int, limits: bool = False, penalty: float | jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Search for a plan of each instance, in so many rounds, which cool down from first to last.

    Args:
        instances: a batch `[B]`, padded or not; the same one several times is searched several times.
        key: typed key.
        rounds: how often some requests are removed and put back.
        limits: also keep ride times and route durations; service may then begin later than it could.
        penalty: of an unvisited node, in units of distance; None: one that no plan's length undercuts.

    Returns:
        As `best_plans`.
    """
    first_key, rounds_key = jax.random.split(key)
    search = begin(instances, first_key, limits=limits, penalty=penalty)
    return best_plans(advance(search, rounds_key, heats(jnp.arange(rounds, dtype=jnp.float32) / rounds)))


@functools.partial(jax.jit, static_argnames=("tries", "limits"))
def begin(
    instances: Instance,
    key: jax.Array,
    *,
    tries: int = 1,
    limits: bool = False,
    penalty: float | jax.Array | None = None,
) -> Search:
    """A search of each instance, by so many chains, that has made its first plans; see `ruin_and_recreate`.

    Where limits are enforced, windows are cut to what any plan can keep, so that fewer places are tried.
    """

    instances = jax.vmap(as_float32)(instances)
    lanes = make_lanes(jax.vmap(tightened)(instances) if limits else instances, tries, penalty, limits=limits)
    # All requests are inserted in random order, without noise.
    empty = jnp.zeros((len(lanes.instance.demand) + len(lanes.instance.capacity), lanes.exists.shape[1]), jnp.int32)
    turn = jax.random.uniform(key, lanes.exists.shape, jnp.float32)
    plans = recreated(lanes, empty, lanes.exists, turn, jnp.zeros((2 * len(empty), empty.shape[1]), jnp.float32))
    legs = 2.0 * lanes.exists.sum(axis=0) + 1.0
    return Search(lanes, length_of(lanes, plans.sequence) / legs, plans, plans)


def heats(progress: jax.Array) -> jax.Array:
    """Temperatures, in mean legs of the first plan, of rounds at so much of a search, `f32[rounds]` in [0, 1]."""
    return geometric(*HEAT, progress)


@jax.jit
def advance(search: Search, key: jax.Array, heats: jax.Array) -> Search:
    """The search after rounds at these temperatures, `f32[rounds]`."""
    lanes, mean_leg = search.lanes, search.mean_leg

    def step(carry: tuple[Plans, Plans], heat_and_key: tuple[jax.Array, jax.Array]) -> tuple[tuple[Plans, Plans], None]:
        (plans, best), (heat, key) = carry, heat_and_key
        change_key, accept_key = jax.random.split(key)
        count_key, change_key = jax.random.split(change_key)
        requests, stops = len(plans.waiting), len(plans.sequence)
        count = jax.random.randint(count_key, (), 1, most_removed(requests) + 1, jnp.int32)
        uniform = jax.random.uniform(change_key, (3 + 2 * requests + stops, len(mean_leg)), jnp.float32)
        dice, ruin, turn, table = jnp.split(uniform, [3, 3 + requests, 3 + 2 * requests])
        removed = chosen(lanes, plans.sequence, count, ruin, dice)
        sequence = without(plans.sequence, removed)
        noise = NOISE * mean_leg * jnp.concatenate([table, table])
        changed = recreated(lanes, sequence, plans.waiting | removed, turn, noise)
        patience = -heat * mean_leg * jnp.log(jax.random.uniform(accept_key, mean_leg.shape, jnp.float32, minval=1e-9))
        plans = where(changed.cost < plans.cost + patience, changed, plans)
        return (plans, where(changed.cost < best.cost, changed, best)), None

    keys = jax.random.split(key, len(heats))
    (plans, best), _ = jax.lax.scan(step, (search.plans, search.best), (heats, keys))
    return search.replace(plans=plans, best=best)


@jax.jit
def best_plans(search: Search) -> tuple[jax.Array, jax.Array]:
    """The best plans of a search, as actions, `i32[B, N+V]`, and what they cost, `f32[B]`.

    Actions are each vehicle's nodes, and a 0 after each. Of vehicles of the same capacity, the one whose first stop is
    nearest to the depot comes first, and those without work last.
    """
    lanes, sequence = search.lanes, search.best.sequence
    way = between(lanes, jnp.zeros_like(sequence), sequence)
    actions = jax.vmap(functools.partial(_actions, len(lanes.instance.demand) - 1), in_axes=-1)
    return actions(sequence, way, lanes.instance.capacity), search.best.cost


@functools.partial(jax.jit, static_argnames="tries")
def restart(parts: list[Search], tries: int) -> list[Search]:
    """The searches, with chains that go on from the best plans of all of them; each searches the same instances.

    Of an instance's chains, `tries` in each search, the best quarter is taken. They follow each other.
    """

    def by_instance(search: Search) -> Plans:
        return jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-1], -1, tries), search.best)

    together = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=-1), *map(by_instance, parts))
    chains = together.cost.shape[-1]
    quarter = jnp.argsort(together.cost, axis=-1)[:, : max(1, chains // 4)]
    source = jnp.take(quarter, jnp.arange(chains, dtype=jnp.int32) % quarter.shape[1], axis=1)

    def taken(leaf: jax.Array, number: int) -> jax.Array:
        chosen = source[:, number * tries : (number + 1) * tries]
        index = jnp.broadcast_to(chosen, (*leaf.shape[:-1], tries))
        return jnp.take_along_axis(leaf, index, axis=-1).reshape(*leaf.shape[:-2], -1)

    return [
        search.replace(plans=jax.tree.map(functools.partial(taken, number=number), together))
        for number, search in enumerate(parts)
    ]


def _actions(nodes: int, sequence: jax.Array, way: jax.Array, capacity: jax.Array) -> jax.Array:
    """One plan, `i32[T]`, as an agent plays it, `i32[N+V]`; `way`, `f32[T]`, from the depot to each stop."""
    vehicles = len(capacity)
    depots = jnp.nonzero(sequence == 0, size=vehicles + 1)[0].astype(jnp.int32)
    lengths = jnp.diff(depots) - 1
    first = depots[:-1] + 1
    # Whose tour each vehicle drives: of its capacity, the nearest first stop first, and empty tours last.
    way = jnp.where(lengths > 0, way[jnp.minimum(first, len(way) - 1)], jnp.inf)
    vehicle = jnp.arange(vehicles, dtype=jnp.int32)
    is_before = (way < way[:, None]) | ((way == way[:, None]) & (vehicle < vehicle[:, None]))
    alike = capacity == capacity[:, None]
    rank = (alike & is_before).sum(axis=1)
    turn = (alike & (vehicle < vehicle[:, None])).sum(axis=1)
    order = jnp.argmax(alike & (rank == turn[:, None]), axis=1).astype(jnp.int32)
    first, lengths = first[order], lengths[order]
    # The tours one after the other, with a 0 after each.
    position = jnp.arange(nodes, dtype=jnp.int32)
    begin = jnp.cumsum(lengths + 1, dtype=jnp.int32) - lengths - 1
    source = jnp.minimum(first[:, None] + position, len(sequence) - 1)
    target = jnp.where(position < lengths[:, None], begin[:, None] + position, nodes + vehicles)
    return jnp.zeros(nodes + vehicles, jnp.int32).at[target].set(sequence[source], mode="drop")


class SearchActor:
    """Plans each episode by `ruin_and_recreate` when it begins, and drives that plan.

    Where the plan is not allowed (rounded, a detour can take less time than the way that `lookahead` asks about), the
    next of its nodes that is allowed comes first.
    """

    def __init__(self, env: Darp, rounds: int = 300):
        """A planner of episodes of `env`, each with this many `rounds` of search."""
        self.env, self.rounds = env, rounds

    def init(self, num_envs: int) -> Carry:
        """Plans, `i32[E, N+V]`, and whether they are made, `bool[E]`."""
        return jnp.zeros((num_envs, self.env.max_episode_steps), jnp.int32), jnp.zeros(num_envs, bool)

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        plan, is_made = carry
        due = ~is_made | (state.step == 0)

        def plan_anew() -> jax.Array:
            how = {"rounds": self.rounds, "limits": self.env.limits}
            penalty = jnp.asarray(self.env.penalty_unvisited, jnp.float32)
            return jnp.where(due[:, None], ruin_and_recreate(state.binding, key, penalty=penalty, **how)[0], plan)

        plan = jax.lax.cond(due.any(), plan_anew, lambda: plan)
        allowed = timestep.action_mask["vehicle"][:, 0]
        turn = jnp.where(allowed, jax.vmap(_turns)(plan, state.current_agent, state.visited), jnp.inf)
        return {"vehicle": jnp.argmin(turn, axis=1).astype(jnp.int32)[:, None]}, (plan, jnp.ones_like(is_made))


def _turns(plan: jax.Array, current_agent: jax.Array, visited: jax.Array) -> jax.Array:
    """When a plan, `i32[N+V]`, comes to each node, `f32[N+1]`, the depot being the end of the present tour."""
    position = jnp.arange(len(plan), dtype=jnp.int32)
    never = jnp.full(visited.shape, 2.0 * len(plan), jnp.float32)
    turn = never.at[plan].set(position.astype(jnp.float32), mode="drop")
    is_end = (plan == 0) & (jnp.cumsum(plan == 0) == current_agent + 1)
    return turn.at[0].set(jnp.where(is_end.any(), jnp.argmax(is_end), 2 * len(plan)).astype(jnp.float32))

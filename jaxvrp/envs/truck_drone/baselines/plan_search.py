"""A search for whole plans of truck and drones by the clock: annealing over what agents hold, in many chains at once.

A plan says for some agents and steps what they do (`held_choices`); the dispatcher decides everything else, so that the
empty plan is its episode, and what follows a change adapts to it. A round draws a moment, changes every chain's plan
from there on in several ways, plays the episodes anew from that moment, and takes the best of a chain's tries by
simulated annealing. In the end detours of the truck and flights are taken out that serve nothing (`straightened`), as
they are from any other plan (`tidied`).

The search knows the whole instance, including customers that become known later and cannot be served before. There its
plan bounds what a policy can reach, and is not a policy itself.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.truck_drone.baselines.held_choices import FREE, Played, play_held, replay_from, towards
from jaxvrp.envs.truck_drone.course import step_by_step
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.planned import cost
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import DELIVER, HOVER, STAY, World
from jaxvrp.episodes import Episode, follow
from jaxvrp.players import Searched, least
from jaxvrp.search.annealing import Cycle, geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.stop import Stop

CHAINS, TRIES = 8, 2
"""Chains, and changed plans of each that are played in a round; wider costs as much for each episode."""

ROUNDS = 8
"""Rounds that one call of the compiled program plays."""

HEAT = (4.0, 0.2)
"""Temperatures of the first and the last round, in units of the reward; between them they fall by a factor."""

STRAIGHTENING = 0.1
"""The last share of the time, in which detours are taken out."""

CYCLES = tuple(Cycle(*ends, *ends) for ends in itertools.pairwise((0.0, 0.3, 0.6, 0.85, 1.0 - STRAIGHTENING)))
"""One annealing; at the beginning of each part of it all chains go on from the best plan of all."""

LONGEST = 40.0
"""Most decisions that a choice is held for; durations are drawn uniformly by their logarithm."""

SPREAD = 20
"""Later choices of a change begin at most so many decisions after its first."""

WRITES = (1.0, 0.5, 0.25)
"""How probable a first, second and third choice is in a change."""

CLEAR, SHIFT, FREEZE = 0.1, 0.1, 0.2
"""How probable it is that a change frees all agents for a while, shifts what an agent holds in time, or, before choices
are written, holds for a while what all agents did."""

TRUCK, FREED = 0.35, 0.15
"""How probable it is that a choice is the truck's, and that it is the dispatcher's again."""

FEWEST_ROUNDS = 4
"""Rounds in which detours are taken out even when the time is over, as long as one helps."""

MOST_ROUNDS = 16
"""Most rounds in which detours are taken out of a plan that another method found."""

LANES = 32
"""Plans that are tried at once there."""

SHORTER = 1e-3
"""Map units, or steps: a plan that is shorter by less is as good."""

FARTHEST_LEG = 4
"""Successive drives that are replaced together, at most."""


class Chains(struct.PyTreeNode):
    """The present plans of all chains `B`, and the best plan of each chain."""

    played: Played  # the episodes of the present plans
    held: jax.Array  # `i32[T, B, 1+D]`, what the best plans hold
    actions: jax.Array  # `i32[T, B, 1+D]`, what is played by them
    best: jax.Array  # `f32[K, B]`, what they cost


@functools.partial(jax.jit, static_argnames="tries")
def advance(env: TruckDrone, instance: Instance, chains: Chains, key: jax.Array, heat: jax.Array, tries: int) -> Chains:
    """Rounds of the search; `heat` `f32[rounds]` are their temperatures."""

    def play_round(chains: Chains, drawn: tuple[jax.Array, jax.Array]) -> tuple[Chains, None]:
        return search_round(env, instance, chains, *drawn, tries), None

    return jax.lax.scan(play_round, chains, (jax.random.split(key, heat.shape[0]), heat))[0]


def search_round(
    env: TruckDrone, instance: Instance, chains: Chains, key: jax.Array, heat: jax.Array, tries: int
) -> Chains:
    """Change all plans from one moment on, play them from there, and accept what is better, or luckily is not."""
    moment_key, change_key, accept_key = jax.random.split(key, 3)
    old, count = chains.played, chains.best.shape[1]
    start = jax.random.randint(moment_key, (), 0, old.length.max(), jnp.int32)
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, tries, axis=_lanes(leaf)), old)
    served = repeated.worlds.customers.served[start]
    keys = jax.random.split(change_key, served.shape[0])
    change = functools.partial(changed, env, start=start)
    held = jax.vmap(change, (0, 1, 1, 0), 1)(keys, repeated.held, repeated.actions, served)
    new = replay_from(env, instance, repeated.replace(held=held), start)
    best_try = least(new.cost.reshape(-1, count, tries)) + tries * jnp.arange(count, dtype=jnp.int32)
    new = jax.tree.map(lambda leaf: leaf[(slice(None),) * _lanes(leaf) + (best_try,)], new)

    def where(flag: jax.Array, kept: jax.Array, other: jax.Array) -> jax.Array:
        """By lane: `flag` is `bool[B]`."""
        axis = _lanes(kept)
        return jnp.where(flag.reshape((1,) * axis + (-1,) + (1,) * (kept.ndim - axis - 1)), kept, other)

    # Differences of parts: a sum of parts would round the last of them.
    accepted = (new.cost - old.cost).sum(axis=0) <= heat * jax.random.exponential(accept_key, (count,), jnp.float32)
    better = (new.cost - chains.best).sum(axis=0) < 0
    return Chains(
        jax.tree.map(functools.partial(where, accepted), new, old),
        where(better, new.held, chains.held),
        where(better, new.actions, chains.actions),
        where(better, new.cost, chains.best),
    )


def _lanes(leaf: jax.Array) -> int:
    """The axis of the lanes in a leaf of `Played`: after time or parts, or the first of arrays without."""
    return min(leaf.ndim - 1, 1)


def changed(
    env: TruckDrone, key: jax.Array, held: jax.Array, actions: jax.Array, served: jax.Array, *, start: jax.Array
) -> jax.Array:
    """A plan `i32[T, 1+D]` that differs from `held` from decision `start` (`i32[]`) on.

    `actions` (`i32[T, 1+D]`) are what was played; drones are sent to customers that are not `served` (`bool[C]`) then.
    """
    kind_key, shift_key, clear_key, freeze_key, *write_keys = jax.random.split(key, 4 + len(WRITES))
    kind = jax.random.uniform(kind_key, (2 + len(WRITES),), jnp.float32)
    step = jnp.arange(held.shape[0], dtype=jnp.int32)[:, None]
    cleared = jnp.where(_during(clear_key, step, start), FREE, held)
    shifted = _shifted(shift_key, held, step, start)
    written = jnp.where((kind[1] < FREEZE) & _during(freeze_key, step, start), actions, held)
    for index, (write_key, probable) in enumerate(zip(write_keys, WRITES, strict=True)):
        when = start if index == 0 else start + jax.random.randint(write_key, (), 0, SPREAD, jnp.int32)
        choice = _written(env, write_key, written, served, step, when)
        written = jnp.where(kind[2 + index] < probable, choice, written)
    return jnp.where(kind[0] < CLEAR, cleared, jnp.where(kind[0] < CLEAR + SHIFT, shifted, written))


def _during(key: jax.Array, step: jax.Array, start: jax.Array) -> jax.Array:
    """`bool[T, 1]`: from `start` on, for as long as is drawn."""
    duration = jnp.exp(jax.random.uniform(key, (), jnp.float32) * jnp.log(LONGEST)).astype(jnp.int32)
    return (step >= start) & (step < start + duration)


def _shifted(key: jax.Array, held: jax.Array, step: jax.Array, start: jax.Array) -> jax.Array:
    """What one agent holds, from `start` on, a few decisions later or earlier."""
    by = jnp.array([-4, -2, -1, 1, 2, 4], jnp.int32)[jax.random.randint(key, (), 0, 6, jnp.int32)]
    agent = jax.random.randint(jax.random.fold_in(key, 1), (), 0, held.shape[1], jnp.int32)
    source = jnp.clip(step[:, 0] - by, start, held.shape[0] - 1)
    moves = (step >= start) & (jnp.arange(held.shape[1]) == agent)
    return jnp.where(moves, held[source], held)


def _written(
    env: TruckDrone, key: jax.Array, held: jax.Array, served: jax.Array, step: jax.Array, start: jax.Array
) -> jax.Array:
    """`held` with a choice of one agent for a while: the truck's, a drone's, or the dispatcher's again."""
    agent_key, free_key, choice_key, time_key = jax.random.split(key, 4)
    drives, agent = jax.random.uniform(agent_key, (2,), jnp.float32)
    # The truck: a destination, a node to drive to whatever happens, or any action.
    kind, node, action = jax.random.uniform(choice_key, (3,), jnp.float32)
    node, action = (node * env.num_route_nodes).astype(jnp.int32), (action * towards(env, 0)).astype(jnp.int32)
    of_truck = jnp.where(kind < 0.5, towards(env, node), jnp.where(kind < 0.8, 1 + node, action))
    # A drone: mostly a customer that is not yet served, else HOVER or RETURN.
    kind, action = jax.random.uniform(choice_key, (2,), jnp.float32)
    order = jax.random.uniform(jax.random.fold_in(choice_key, 1), served.shape, jnp.float32)
    customer = jax.lax.argmax(jnp.where(served, -1.0, order), 0, jnp.int32)
    of_drone = jnp.where(kind < 0.8, DELIVER + customer, (action * DELIVER).astype(jnp.int32))

    agent = jnp.where(drives < TRUCK, 0, 1 + (agent * env.num_drones).astype(jnp.int32))
    choice = jnp.where(drives < TRUCK, of_truck, of_drone)
    choice = jnp.where(jax.random.uniform(free_key, (), jnp.float32) < FREED, FREE, choice)
    writes = _during(time_key, step, start) & (jnp.arange(held.shape[1]) == agent)
    return jnp.where(writes, choice, held)


@jax.jit
def measured(
    env: TruckDrone, instance: Instance, actions: jax.Array
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    """Cost `f32[B, K]` of episodes with these actions (`i32[B, T, 1+D]`), see `planned.cost`, their size and metrics.

    The size, `f32[B]`: distance of the truck and steps. A plan with a forbidden action costs infinitely much.
    """

    def play(state: World, action: jax.Array) -> tuple[World, jax.Array]:
        state, timestep = env.step(state, by_role(action))
        return state, timestep.team_reward

    def episode(actions: jax.Array) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        last, rewards = jax.lax.scan(play, env.init_state(instance), actions)
        found = jnp.where(last.totals.invalid_actions > 0, jnp.inf, cost(env, last, rewards.sum()))
        return found, last.totals.truck_distance + last.step, env.metrics(last)

    return jax.vmap(episode)(actions)


def by_role(actions: Any) -> dict[str, Any]:
    """`{"truck": i32[..., 1], "drone": i32[..., D]}` of `i32[..., 1+D]`."""
    return {"truck": actions[..., :1], "drone": actions[..., 1:]}


def search_episode(
    env: TruckDrone,
    instance: Instance,
    key: jax.Array,
    stop: Stop | float,
    *,
    chains: int = CHAINS,
    tries: int = TRIES,
) -> Iterator[Searched]:
    """Plan an episode of one instance; see `jaxvrp.toolbox.Search`.

    Args:
        env, instance: what is played.
        key: typed key.
        stop: when; a number: after so many seconds. Programs are compiled before.
        chains: of the search; every chain begins with the dispatcher's episode.
        tries: changed plans of each chain that are played in a round.
    """
    instance = jax.tree.map(jnp.asarray, instance)
    played = play_held(env, instance, jnp.full((env.max_episode_steps, chains, 1 + env.num_drones), FREE, jnp.int32))
    first = Chains(played, played.held, played.actions, played.cost)
    best = jax.device_get(first.actions[:, 0])
    # Compiled before the clock starts.
    found = _found(env, instance, best)
    _measured(env, instance, [best])

    def play(current: Chains, key: jax.Array, progress: np.ndarray) -> Chains:
        return advance(env, instance, current, key, jnp.float32(geometric(*HEAT, progress)), tries)

    def renew(current: Chains, key: jax.Array) -> Chains:
        del key
        held = current.held[:, least(current.best)]
        return current.replace(played=play_held(env, instance, jnp.broadcast_to(held[:, None], current.held.shape)))

    for spent, current in anytime(play, first, key, stop, rounds=ROUNDS, cycles=CYCLES, renew=renew):
        best = jax.device_get(current.actions[:, least(current.best)])
        found = _found(env, instance, best)
        yield found._replace(seconds=spent.seconds)
    for rounds in itertools.count(1):
        straighter = straightened(env, instance, best)
        if straighter is None or (new := _found(env, instance, straighter)).cost > found.cost:
            return
        spent.add(ROUNDS)
        found, best = new, straighter
        yield found._replace(seconds=spent.seconds)
        if spent.share >= 1 and rounds >= FEWEST_ROUNDS:
            return


def straightened(
    env: TruckDrone, instance: Instance, actions: np.ndarray, *, anywhere: bool = True
) -> np.ndarray | None:
    """A plan `i32[T, 1+D]` of more return, or of as much with less driving, time or flights; None if none is found.

    In a change the truck waits, or drives to another node, for some of its successive drives, or a drone stays on board
    that would be released. Changes that help are made together where that helps more. Unless it may drive `anywhere`,
    the truck drives no further than before: to where it came from, or where it goes next.
    """
    plans = [actions, *_detours_replaced(env, actions, anywhere), *_flights_left_out(env, actions)]
    returns, size = _measured(env, instance, plans)
    worth = np.round(returns, 4)
    better = np.flatnonzero((worth > worth[0]) | ((returns >= returns[0]) & (size < size[0] - SHORTER)))
    if not better.size:
        return None
    better = better[np.lexsort((size[better], -worth[better]))]
    joined = [plans[better[0]]]
    for index in better[1:LANES]:
        joined.append(np.where(plans[index] != actions, plans[index], joined[-1]))
    returns, size = _measured(env, instance, joined)
    return joined[int(np.lexsort((size, -np.round(returns, 4)))[0])]


def tidied(episode: Episode) -> tuple[float, Episode]:
    """An episode without the detours and flights that gain nothing, decided step by step, and its cost.

    The cost is infinite where its actions, step by step, are not legal by the masks of a scenario of one's own.
    """
    episode = step_by_step(episode)
    env, instance = episode.env, jax.tree.map(jnp.asarray, episode.instance)
    actions = _as_executed(episode)
    found = _found(env, instance, actions).cost
    for _ in range(MOST_ROUNDS if np.isfinite(found) else 0):
        straighter = straightened(env, instance, actions, anywhere=False)
        if straighter is None or (new := _found(env, instance, straighter).cost) > found:
            break
        found, actions = new, straighter
    return found, follow(env, instance, by_role(actions))


def _as_executed(episode: Episode) -> np.ndarray:
    """The actions of an episode step by step as legal ones, `i32[T, 1+D]`, for all steps that an episode can have.

    A decision that has happened is not repeated: the truck drives on, and a drone hovers.
    """
    env, masks = episode.env, episode.timesteps.action_mask
    truck, drone = (np.asarray(episode.actions[name]) for name in ("truck", "drone"))
    legal = [
        np.take_along_axis(masks[name][:-1], each[..., None], -1)[..., 0]
        for name, each in (("truck", truck), ("drone", drone))
    ]
    truck = np.where(legal[0][:, 0], truck[:, 0], _in_force(env, truck[:, 0]))
    found = np.concatenate([truck[:, None], np.where(legal[1], drone, HOVER)], axis=1)
    actions = np.zeros((env.max_episode_steps, found.shape[1]), np.int32)
    actions[: len(found)] = found
    return actions


def _found(env: TruckDrone, instance: Instance, actions: np.ndarray) -> Searched:
    """A plan, `i32[T, 1+D]`, that was found in no time."""
    parts, _, metrics = jax.device_get(jax.tree.map(lambda leaf: leaf[0], measured(env, instance, actions[None])))
    return Searched(0.0, float(parts.sum(dtype=np.float64)), by_role(actions), figures=metrics)


def _measured(env: TruckDrone, instance: Instance, plans: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return of each plan, by `Environment.step`, and its size: distance of the truck, steps and flights."""
    rows = []
    for first in range(0, len(plans), LANES):
        lot = plans[first : first + LANES]
        lot += [lot[0]] * (LANES - len(lot))
        rows.append(jax.device_get(measured(env, instance, np.stack(lot))[:2]))
    parts, size = (np.concatenate(lots)[: len(plans)] for lots in zip(*rows, strict=True))
    first = 1 + env.num_route_nodes
    flights = [np.sum((plan[:, 0] >= first) & (plan[:, 0] < first + env.num_drones)) for plan in plans]
    return -parts.sum(axis=1, dtype=np.float64), size + np.array(flights)


def _flights_left_out(env: TruckDrone, actions: np.ndarray) -> list[np.ndarray]:
    """Plans in which a drone stays on board for one of its flights, and the truck drives on instead of releasing it."""
    truck, release = actions[:, 0], 1 + env.num_route_nodes
    plans = []
    for drone in range(env.num_drones):
        starts = np.flatnonzero(truck == release + drone).tolist()
        for start, stop in itertools.pairwise([*starts, len(truck)]):
            plan = actions.copy()
            plan[start:stop, 1 + drone] = HOVER
            ends = np.isin(truck[start:stop], (release + drone, release + env.num_drones + drone))
            plan[start:stop, 0] = np.where(ends, _in_force(env, truck)[start:stop], truck[start:stop])
            plans.append(plan)
    return plans


def _in_force(env: TruckDrone, truck: np.ndarray) -> np.ndarray:
    """`i32[T]`: the last STAY or MOVE of the truck, whose actions are `i32[T]`; STAY before the first."""
    drives_or_stays = truck <= env.num_route_nodes
    last = np.maximum.accumulate(np.where(drives_or_stays, np.arange(len(truck)), -1))
    return np.where(last >= 0, truck[np.maximum(last, 0)], STAY)


def _detours_replaced(env: TruckDrone, actions: np.ndarray, anywhere: bool) -> list[np.ndarray]:
    """Plans in which the truck waits, or drives to one node, in up to `FARTHEST_LEG` successive drives.

    To any node, or only to that of the drive before, or after these.
    """
    truck, num_nodes = actions[:, 0], env.num_route_nodes
    drives = (truck >= 1) & (truck <= num_nodes)
    begins = np.flatnonzero(np.diff(np.where(drives, truck, 0), prepend=0)).tolist()
    legs = [(start, stop) for start, stop in itertools.pairwise([*begins, len(truck)]) if drives[start]]
    plans = []
    for leg, (start, _) in enumerate(legs):
        for last, (_, stop) in enumerate(legs[leg : leg + FARTHEST_LEG], leg):
            near = {truck[legs[each][0]] for each in (leg - 1, last + 1) if 0 <= each < len(legs)}
            for choice in range(num_nodes + 1) if anywhere else sorted({STAY, *near}):
                plan = actions.copy()
                plan[start:stop, 0] = np.where(drives[start:stop], choice, truck[start:stop])
                plans.append(plan)
    return plans

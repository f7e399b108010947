"""One played episode as NumPy arrays, for plans, pictures and replays: its end, its deliveries, its flights."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import is_over
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import Freight
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import FLYING, ONBOARD, RETURNING, Decision, World
from jaxvrp.episodes import count_states

NOBODY = -1
"""The server of a customer that was not served in these states."""

WAITING = 4
"""The activity of a drone that waits for a window, beside the statuses of the world."""


@dataclasses.dataclass(frozen=True)
class Episode:
    """The states of one episode up to its end, `L` of them, and what follows from them.

    Attributes:
        world: the states after every step, NumPy leaves with leading axis `[L]`.
        decided: `i64[L - 1]`, the number of the decision by which each step was taken.
        server: `i64[C]`, the drone that served each customer, `NOBODY` for none.
        served_at: `i64[C]`, the index of the state in which it had just been served, -1 for never.
        steps_late: `i64[C]`, steps after the end of the window; 0 if on time or not served.
        opens: `i64[C]`, the first step at which a customer can be served: the window's, 0 if no drone waits for it.
        known_from: `i64[C]`, the step from which agents knew of the customer.
    """

    world: World
    decided: np.ndarray
    server: np.ndarray
    served_at: np.ndarray
    steps_late: np.ndarray
    opens: np.ndarray
    known_from: np.ndarray

    @property
    def length(self) -> int:
        """L, the number of states, the first and the last included."""
        return len(self.world.step)

    @property
    def num_drones(self) -> int:
        """D."""
        return self.world.drones.status.shape[1]

    @property
    def num_customers(self) -> int:
        """C."""
        return len(self.server)

    @property
    def instance(self) -> Instance:
        """The problem, without the time axis."""
        return jax.tree.map(lambda leaf: leaf[0], self.world.instance)

    @property
    def activity(self) -> np.ndarray:
        """`i64[L, D]`: what each drone was doing, its status or `WAITING`."""
        return np.where(self.world.drones.is_waiting, WAITING, self.world.drones.status)

    @property
    def steps_waited(self) -> np.ndarray:
        """`i64[C]`: steps for which the drone that served waited for the window; 0 if not served."""
        waits, is_waiting = np.zeros(self.num_customers, np.int64), self.world.drones.is_waiting
        for customer in np.flatnonzero(self.served_at > 0):
            # A wait ends in the step that serves.
            before = is_waiting[: self.served_at[customer], self.server[customer]]
            waits[customer] = np.argmin(np.append(before[::-1], False))
        return waits

    def flown(self, stride: float) -> np.ndarray:
        """`f64[D]`: map units that each drone flew; `stride` is the most in a step.

        A drone that boards has lost its velocity, so that what boarding drones flew in a step is the rest of the total.
        """
        drones, total = self.world.drones, np.asarray(self.world.totals.drone_distance, np.float64)
        steps = np.linalg.norm(np.asarray(drones.position[1:] - drones.position[:-1], np.float64), axis=2)
        was_onboard, is_onboard = drones.status[:-1] == ONBOARD, drones.status[1:] == ONBOARD
        boards = is_onboard & ~was_onboard
        seen = np.where(was_onboard & is_onboard | boards, 0.0, steps)
        to_truck = np.linalg.norm(drones.position[:-1] - self.world.truck.position[:-1, None], axis=2)
        shares = np.where(boards, np.minimum(to_truck, stride), 0.0)
        rest = np.maximum(np.diff(total) - seen.sum(axis=1), 0.0)
        weight = rest / np.maximum(shares.sum(axis=1), 1e-9)
        return (seen + shares * np.minimum(weight, 1.0)[:, None]).sum(axis=0)

    def until_the_last_work(self) -> Episode:
        """The same without what follows the last delivery, launch, boarding and crash, unless a drone is in the air."""
        status, served = self.world.drones.status, self.world.customers.just_served
        worked = np.append(False, (status[1:] != status[:-1]).any(axis=1)) | served.any(axis=1)
        if np.isin(status[-1], (FLYING, RETURNING)).any():
            return self
        length = int(np.flatnonzero(worked)[-1]) + 1 if worked.any() else 1
        world = jax.tree.map(lambda leaf: leaf[:length], self.world)
        return dataclasses.replace(self, world=world, decided=self.decided[: length - 1])

    def activities(self, drone: int) -> list[tuple[int, int, int]]:
        """`(begin, end, activity)` in steps, one after the other: what the drone was doing when."""
        return self._stretches(self.activity[:, drone])

    def parcels(self, drone: int) -> list[tuple[int, int, int]]:
        """`(begin, end, customer)` in steps: whose package the drone carried when."""
        carried = self._stretches(self.world.drones.carrying[:, drone])
        return [(begin, end, customer) for begin, end, customer in carried if customer >= 0]

    def _stretches(self, values: np.ndarray | jax.Array) -> list[tuple[int, int, int]]:
        """`(begin, end, value)` in steps of each stretch of equal entries of `[L]`."""
        step = self.world.step
        # A state describes the step that led to it.
        return [(int(step[max(start - 1, 0)]), int(step[stop - 1]), value) for start, stop, value in runs(values)]


def from_states(env: TruckDrone, states: World) -> Episode:
    """Cut an episode at its end, fill in the steps of decisions that held for several, and find the drones that served.

    Args:
        env: the environment that was played.
        states: leaves (NumPy or JAX) with leading axis `[T+1]`, one for each decision.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    world = jax.tree.map(np.asarray, states)
    if world.step.ndim != 1 or world.step.size == 0:
        raise ValueError(f"states.step has shape {world.step.shape}; it needs [T+1], the states of one episode")
    decided = np.arange(len(world.step) - 1)
    if isinstance(world.decision, Decision):
        world, decided = _filled_in(env, world)
    length = count_states(world.step, jax.vmap(lambda state: is_over(env, state))(world))
    world, decided = jax.tree.map(lambda leaf: leaf[:length], world), decided[: length - 1]
    world = _existing(world)
    just_served = world.customers.just_served
    served_at = np.where(just_served.any(axis=0), just_served.argmax(axis=0), -1)
    servers = [_server(world, customer, at, float(env.delivery_threshold)) for customer, at in enumerate(served_at)]
    late = np.where(served_at >= 0, world.step[served_at] - world.instance.window_end[0], 0)
    start, known_from = np.asarray(world.instance.window_start[0], np.int64), world.instance.known_from
    return Episode(
        world,
        decided,
        np.array(servers, np.int64),
        served_at,
        steps_late=np.maximum(late, 0),
        opens=start if isinstance(env, Freight) and env.wait_for_window else np.zeros_like(start),
        known_from=np.zeros_like(start) if known_from is None else np.asarray(known_from[0], np.int64),
    )


def _existing(world: World) -> World:
    """The same without the customers that do not exist; they come last."""
    if world.instance.exists is None:
        return world
    instance, count = world.instance, int(world.instance.exists[0].sum())

    def first(leaf: np.ndarray) -> np.ndarray:
        return leaf[:, :count]

    of_customers = ("customer_position", "demand", "window_start", "window_end", "known_from")
    numbers = {name: leaf for name in of_customers if (leaf := getattr(instance, name)) is not None}
    return world.replace(
        instance=instance.replace(exists=None, **{name: first(leaf) for name, leaf in numbers.items()}),
        customers=jax.tree.map(first, world.customers),
    )


def _filled_in(env: TruckDrone, states: World) -> tuple[World, np.ndarray]:
    """The states after every step, `[S + 1]`, and the decision by which each step was taken, `i64[S]`.

    Each decision is played again from the state that it was made in; the state that it led to is the recorded one.
    """
    more = env.max_repeat - 1
    states, decision = states.replace(decision=()), states.decision
    first, before, after = (
        jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(1), slice(-1), slice(1, None))
    )
    # Forbidden actions are counted in the first step of a decision.
    totals = before.totals.replace(invalid_actions=after.totals.invalid_actions)
    held = _hold(by_steps(env), before.replace(totals=totals), jax.tree.map(lambda leaf: leaf[1:], decision), more)
    steps = np.diff(states.step)[:, None]
    shown = np.concatenate([np.arange(more) < steps - 1, np.ones_like(steps, bool)], axis=1)

    def in_order(start: np.ndarray, held: jax.Array, end: np.ndarray) -> np.ndarray:
        return np.concatenate([start, np.concatenate([held, end[:, None]], axis=1)[shown]])

    return jax.tree.map(in_order, first, held, after), np.nonzero(shown)[0]


@functools.partial(jax.jit, static_argnames="more")
def _hold(env: TruckDrone, worlds: World, decisions: Decision, more: int) -> World:
    """The worlds after each of `more` steps, `[T, more]`, if the decisions `[T]` are held; `env` decides by steps."""

    def hold(world: World, decision: Decision) -> World:
        def advance(world: World, _: None) -> tuple[World, World]:
            action = {"truck": decision.truck[None], "drone": decision.drone}
            world = env.transition(world, action, jnp.zeros((), jnp.int32))
            return world, world

        return jax.lax.scan(advance, world, length=more)[1]

    return jax.vmap(hold)(worlds, decisions)


def by_steps(env: TruckDrone) -> TruckDrone:
    """The same world, where every step has a decision of its own."""
    return env.replace(decide="steps") if env.decide == "events" else env


def _server(world: World, customer: int, index: int, threshold: float) -> int:
    """The drone whose DELIVER served `customer` in the step that led to the state `index`; -1: never served."""
    if index < 0:
        return NOBODY
    drones = jax.tree.map(lambda leaf: leaf[index], world.drones)
    carried = world.drones.carrying[max(index - 1, 0)]
    gap = np.linalg.norm(drones.position - world.instance.customer_position[index, customer], axis=1)
    # A drone that serves ends the step in flight without package or target; one that came second keeps its target.
    fits = (drones.status == FLYING) & (drones.carrying < 0) & ~drones.has_target & np.isin(carried, (customer, -1))
    hovers = (drones.velocity == 0).all(axis=1) & (drones.battery_used > 0)
    # Foreign physics may break these rules: then nearness alone decides. Ties go to the lower index.
    order = np.lexsort((np.arange(len(gap)), gap, carried != customer, hovers, ~(fits & (gap < threshold))))
    return int(order[0])


def runs(values: np.ndarray | jax.Array) -> list[tuple[int, int, int]]:
    """`(start, stop, value)` of each stretch of equal entries of `[L]`; `stop` is the start of the next stretch."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    bounds = itertools.pairwise([*starts.tolist(), len(values)])
    return [(start, stop, int(values[start])) for start, stop in bounds]


def flight_path(episode: Episode, drone: int) -> np.ndarray:
    """`f32[L, 2]`: where the drone flew, with the places of take-off and boarding; NaN while it rode along."""
    rode = np.pad(episode.world.drones.status[:, drone] == ONBOARD, 1, mode="edge")
    hidden = rode[:-2] & rode[1:-1] & rode[2:]
    return np.where(hidden[:, None], np.nan, episode.world.drones.position[:, drone])

"""The course of a played episode, step by step, as NumPy arrays: what plans and stories are made from."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import episodes
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import ARRIVED
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import FLYING, RETURNING, Decision, World
from jaxvrp.episodes import Episode

NOBODY = -1
"""The server of a customer that no drone has served."""

WAITING = 4
"""The activity of a drone that waits for a window, beside the statuses of the world."""


@dataclasses.dataclass(frozen=True)
class Course:
    """The states of one episode up to its end, `L` of them, and what they say of customers."""

    env: TruckDrone  # which decides at every step
    world: World  # the states, NumPy leaves with leading axis `[L]`
    served_at: np.ndarray  # `i64[C]`, the index of the first state in which each is served, -1 for never
    server: np.ndarray  # `i64[C]`, the drone that served each, `NOBODY` for none
    steps_late: np.ndarray  # `i64[C]`, steps after the end of the window; 0 if on time or not served
    opens: np.ndarray  # `i64[C]`, the first step at which each can be served: the window's, 0 if no drone waits for it
    known_from: np.ndarray  # `i64[C]`, the step from which agents knew of each

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
        found, waits = np.where(self.world.drones.is_waiting, WAITING, self.world.drones.status), self.steps_waited
        for customer in np.flatnonzero(waits):
            last = self.served_at[customer] + 1
            found[last - waits[customer] : last, self.server[customer]] = WAITING
        return found

    @functools.cached_property
    def steps_waited(self) -> np.ndarray:
        """`i64[C]`: steps from the drone's arrival, before the window, to the delivery; 0 if it waited for no window.

        A drone that is launched at the customer arrives when it is launched.
        """
        waits, drones = np.zeros(self.num_customers, np.int64), self.world.drones
        for customer in np.flatnonzero(self.server != NOBODY):
            server, served_at = self.server[customer], self.served_at[customer]
            place = drones.position[: served_at + 1, server]
            elsewhere = np.linalg.norm(place - place[-1], axis=1) > ARRIVED
            # It arrived after the last state in which it was elsewhere, and left the truck in the last one on board.
            arrived = int(np.append(np.flatnonzero(elsewhere) + 1, 0).max())
            launched = int(np.flatnonzero(drones.is_onboard[:served_at, server]).max(initial=0))
            begin = max(arrived, launched)
            waits[customer] = served_at - begin if self.world.step[begin] < self.opens[customer] else 0
        return waits

    def until_the_last_work(self) -> Course:
        """The same without what follows the last delivery, launch, boarding and crash.

        All of it if a drone is in the air, or if the episode is not over.
        """
        status, served = self.world.drones.status, self.world.customers.served
        is_over = self.env.is_terminal(jax.tree.map(lambda leaf: leaf[-1], self.world))
        if not is_over or np.isin(status[-1], (FLYING, RETURNING)).any():
            return self
        worked = (status[1:] != status[:-1]).any(axis=1) | (served[1:] != served[:-1]).any(axis=1)
        length = int(np.flatnonzero(worked)[-1]) + 2 if worked.any() else 1
        return dataclasses.replace(self, world=jax.tree.map(lambda leaf: leaf[:length], self.world))

    def stretches(self, values: np.ndarray | jax.Array) -> list[tuple[int, int, int]]:
        """`(begin, end, value)` in steps of each stretch of equal entries of `[L]`."""
        step, found = self.world.step, runs(values)
        # A state describes the step that led to it, and the first one no step.
        if len(found) > 1 and found[0][1] == 1:
            found = found[1:]
        return [(int(step[max(start - 1, 0)]), int(step[stop - 1]), value) for start, stop, value in found]


def course_of(episode: Episode) -> Course:
    """The course of an episode.

    Raises:
        ValueError: its states have no leading time axis, or more than one.
    """
    episode = step_by_step(episode)
    env, world = episode.env, episode.states
    served, instance = world.customers.served, jax.tree.map(lambda leaf: leaf[0], world.instance)
    served_at = np.where(served[-1] & ~served[0], served.argmax(axis=0), -1)
    late = np.where(served_at >= 0, world.step[served_at] - instance.window_end, 0)
    start, known_from = np.asarray(instance.window_start, np.int64), instance.known_from
    return Course(
        env,
        world,
        served_at,
        np.where(served_at >= 0, world.customers.served_by[-1], NOBODY),
        steps_late=np.maximum(late, 0),
        opens=start if env.wait_for_window else np.zeros_like(start),
        known_from=np.zeros_like(start) if known_from is None else np.asarray(known_from, np.int64),
    )


def runs(values: np.ndarray | jax.Array) -> list[tuple[int, int, int]]:
    """`(start, stop, value)` of each stretch of equal entries of `[L]`; `stop` is the start of the next stretch."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    bounds = itertools.pairwise([*starts.tolist(), len(values)])
    return [(start, stop, int(values[start])) for start, stop in bounds]


# --- single steps ---------------------------------------------------------------------------------------------------


def step_by_step(episode: Episode) -> Episode:
    """The episode up to its end, a state for each step, without customers that only fill up the size.

    Where decisions hold for several steps, each is played again from the state that it was made in, and its actions
    stand at each of its steps; the states that decisions led to are the recorded ones.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    episode = episodes.whole(episode)
    if isinstance(episode.states.decision, Decision):
        env = episode.env.replace(decide="steps")
        states, decided = _filled_in(env, episode.states)
        actions = jax.tree.map(lambda leaf: np.asarray(leaf)[decided], episode.actions)
        episode = episodes.whole(episodes.from_states(env, states, actions, episode.instance))
    return _existing(episode)


def _existing(episode: Episode) -> Episode:
    """The same without the customers that do not exist; they come last."""
    exists = episode.states.instance.exists
    if exists is None:
        return episode
    count, states, masks = int(exists[0].sum()), episode.states, episode.timesteps.action_mask
    of_customers = ("customer_position", "demand", "window_start", "window_end", "known_from")
    numbers = {name: leaf for name in of_customers if (leaf := getattr(states.instance, name)) is not None}
    instance = states.instance.replace(exists=None, **{name: leaf[:, :count] for name, leaf in numbers.items()})
    customers = jax.tree.map(lambda leaf: leaf[:, :count], states.customers)
    others = masks["drone"].shape[-1] - exists.shape[-1]
    return episode.replace(
        env=episode.env.replace(num_customers=count),
        instance=jax.tree.map(lambda leaf: leaf[0], instance),
        states=states.replace(instance=instance, customers=customers),
        timesteps=episode.timesteps.replace(action_mask={**masks, "drone": masks["drone"][..., : others + count]}),
    )


def _filled_in(env: TruckDrone, states: World) -> tuple[World, np.ndarray]:
    """The states after every step, `[S + 1]`, and the decision by which each step was taken, `i64[S]`."""
    more = env.max_repeat - 1
    states, decision = states.replace(decision=()), states.decision
    first, before, after = (
        jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(1), slice(-1), slice(1, None))
    )
    # Forbidden actions are counted in the first step of a decision.
    totals = before.totals.replace(invalid_actions=after.totals.invalid_actions)
    held = _hold(env, before.replace(totals=totals), jax.tree.map(lambda leaf: leaf[1:], decision), more)
    steps = np.diff(states.step)[:, None]
    is_between = np.concatenate([np.arange(more) < steps - 1, np.ones_like(steps, bool)], axis=1)

    def in_order(start: np.ndarray, held: jax.Array, end: np.ndarray) -> np.ndarray:
        return np.concatenate([start, np.concatenate([held, end[:, None]], axis=1)[is_between]])

    return jax.tree.map(in_order, first, held, after), np.nonzero(is_between)[0]


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

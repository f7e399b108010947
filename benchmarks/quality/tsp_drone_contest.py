"""Players of truck and drone on the same instances: whole plans, each checked by `solution_report`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Seconds, timed
from benchmarks.quality.baselines import SEED
from jaxvrp import TimeStep
from jaxvrp.actor import Actor
from jaxvrp.envs.tsp_drone import Instance, TspDrone, actions_to_operations, solution_report
from jaxvrp.envs.tsp_drone.baselines.partition import Times, make_times, partition_cost
from jaxvrp.envs.tsp_drone.baselines.planners import plan_actions
from jaxvrp.envs.tsp_drone.baselines.tours import plan_tours
from jaxvrp.envs.tsp_drone.problem.instance import as_float32
from jaxvrp.episodes import record_episodes
from jaxvrp.spaces import ByRole

HEAD = ("player", "instances", "makespan", "gap", "feasible", "s/instance", "CPU s/instance")

METHODS = {"truck tour": "truck", "TSP-ep": "ep", "TSP-ep-all": "ep_all"}
"""What `plan_tours` calls the planners."""

Turn = Callable[[], None]
"""Lets somebody play."""

SYMMETRIES = 8
"""Ways to turn and mirror a map without changing a distance."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a player did on the n instances.

    Attributes:
        makespan: `f64[n]`.
        feasible: `bool[n]`, nothing is violated.
        seconds: per instance, without compilation.
    """

    makespan: np.ndarray
    feasible: np.ndarray
    seconds: Seconds


class Best(NamedTuple):
    """The best of some tries on each of E instances.

    Attributes:
        actions: `{role: i32[E, T]}` of the best episode.
        makespan: `f32[E]`, of that.
        tour: `i32[n + 1, E]`, of all orders of service, the one with the best partition.
        cost: `f32[E]`, of that.
    """

    actions: ByRole
    makespan: jax.Array
    tour: jax.Array
    cost: jax.Array


def turned(locs: jax.Array, symmetry: jax.Array) -> jax.Array:
    """Places `f32[..., 2]` on a map that is mirrored and turned in one of `SYMMETRIES` ways, `i32[]`."""
    mirrored = jnp.where(symmetry % 2 == 1, locs * jnp.array([-1.0, 1.0], jnp.float32), locs)
    mirrored = jnp.where(symmetry // 2 % 2 == 1, -mirrored, mirrored)
    return jnp.where(symmetry // 4 % 2 == 1, mirrored[..., ::-1], mirrored)


def play(env: TspDrone, actor: Actor, instances: Instance, key: jax.Array) -> tuple[ByRole, jax.Array, jax.Array]:
    """Whole episodes: actions `{role: i32[E, T]}`, makespans `f32[E]`, and the orders of service, `i32[n + 1, E]`."""

    def kept(action: ByRole, state: Any, timestep: TimeStep) -> tuple[ByRole, jax.Array]:
        del timestep
        return {role: chosen[:, 0] for role, chosen in action.items()}, state.served

    last, (actions, served) = record_episodes(env, actor, instances, key, kept)
    nodes = served.shape[-1]
    # How long a node was unserved; the depot and padding never were.
    waited = jnp.sum(~served, axis=0, dtype=jnp.int32)
    is_customer = instances.exists & (jnp.arange(nodes) > 0)
    order = jnp.argsort(jnp.where(is_customer, waited, served.shape[0] + 1), axis=1)[:, : nodes - 1]
    order = jnp.where(jnp.take_along_axis(is_customer, order, axis=1), order, 0).astype(jnp.int32)
    return jax.tree.map(jnp.transpose, actions), last.clock, jnp.pad(order, [(0, 0), (1, 1)]).T


def play_best(env: TspDrone, actor: Actor, instances: Instance, key: jax.Array, tries: int) -> Best:
    """The best of several tries on each instance, every try on the map in another position."""
    times = make_times(instances)
    of = jnp.arange(times.customers.shape[0], dtype=jnp.int32)

    def attempt(best: Best, try_: tuple[jax.Array, jax.Array]) -> tuple[Best, None]:
        number, key = try_
        moved = instances.replace(locs=turned(instances.locs, number % SYMMETRIES))
        actions, makespan, tour = play(env, actor, moved, key)
        found = Best(actions, makespan, tour, partition_cost(times, tour, of, times.num_nodes))
        return better_of(best, found), None

    steps, count = env.max_episode_steps, len(of)
    nothing = Best(
        actions={role: jnp.zeros((count, steps), jnp.int32) for role in env.roles},
        makespan=jnp.full(count, jnp.inf),
        tour=jnp.zeros((times.num_nodes + 1, count), jnp.int32),
        cost=jnp.full(count, jnp.inf),
    )
    numbered = jnp.arange(tries, dtype=jnp.int32), jax.random.split(key, tries)
    return jax.lax.scan(attempt, nothing, numbered)[0]


def better_of(best: Best, found: Best) -> Best:
    """The better episode, and the better tour, of each instance."""
    sooner, cheaper = found.makespan < best.makespan, found.cost < best.cost
    return Best(
        actions=jax.tree.map(lambda a, b: jnp.where(sooner[:, None], a, b), found.actions, best.actions),
        makespan=jnp.minimum(found.makespan, best.makespan),
        tour=jnp.where(cheaper, found.tour, best.tour),
        cost=jnp.minimum(found.cost, best.cost),
    )


class Contest:
    """Players on the same instances.

    Attributes:
        env: what is played.
        instances: a batch `[E]`, NumPy.
        reference: `f64[E]`, known makespans; None for none.
        results: by player.
    """

    def __init__(self, env: TspDrone, instances: Instance, reference: np.ndarray | None = None):
        self.env, self.instances, self.reference = env, jax.device_get(instances), reference
        self.computed = as_float32(instances)
        self.results: dict[str, Result] = {}

    def plan(self, name: str, window: int | None = None) -> None:
        """Let a planner (a key of `METHODS`) plan, with operations of at most `window` positions (None: any)."""
        method = METHODS[name]

        def planned() -> ByRole:
            found = plan_tours(self.computed, jax.random.key(SEED), method=method, window=window)
            return plan_actions(found.times, found.tours, with_drone=method != "truck", window=window)

        self._add(name, *timed(planned))

    def act(self, name: str, actor: Actor, tries: int = 1, partitioned: str | None = None) -> None:
        """Let an actor play: its best of several tries counts; as `partitioned`, the best partition of their orders."""
        best, seconds = timed(lambda: play_best(self.env, actor, self.computed, jax.random.key(SEED), tries))
        self._add(name, best.actions, seconds)
        if partitioned is not None:
            times: Times = make_times(self.computed)
            self._add(partitioned, plan_actions(times, jnp.asarray(best.tour), with_drone=True), seconds)

    def _add(self, name: str, actions: ByRole, seconds: Seconds) -> None:
        actions = jax.device_get(actions)
        count = len(self.instances.exists)
        reports = [
            solution_report(
                jax.tree.map(lambda leaf: leaf[row], self.instances),  # noqa: B023
                actions_to_operations({role: chosen[row] for role, chosen in actions.items()}),
            )
            for row in range(count)
        ]
        self.results[name] = Result(
            makespan=np.array([report.cost for report in reports]),
            feasible=np.array([report.feasible for report in reports]),
            seconds=seconds.per(count),
        )

    def gap(self, name: str) -> float:
        """How much longer a player takes than the reference, in the mean; nan without one."""
        if self.reference is None:
            return float("nan")
        return float(self.results[name].makespan.sum() / self.reference.sum() - 1)

    def rows(self) -> list[list[str]]:
        """A row for each player, under `HEAD`."""
        return [self._row(name, result) for name, result in self.results.items()]

    def _row(self, name: str, result: Result) -> list[str]:
        gap = self.gap(name)
        return [
            name,
            str(len(result.makespan)),
            f"{result.makespan.mean():.2f}",
            "-" if np.isnan(gap) else f"{100 * gap:+.2f} %",
            f"{100 * result.feasible.mean():.1f} %",
            f"{result.seconds.wall:.2g}",
            f"{result.seconds.cpu:.2g}",
        ]

"""Players of placement from the same starts on one board, each judged by its best placement without overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from benchmarks.measure import timed
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.envs.pcb import Board
from jaxvrp.envs.pcb.baselines.annealing import anneal, net_widths
from jaxvrp.envs.pcb.measure import measure, random_legal
from jaxvrp.envs.pcb.problem.board import as_float32
from train.running.evaluator import first_seed
from train.running.run_folder import Trained

HEAD = ("player", "legal", "mean HPWL", "least HPWL", "gap", "s/start")
SEED = 1_000_003
TRIAL_MOVES = 4_096


@dataclasses.dataclass(frozen=True)
class Result:
    """What a player reached.

    Attributes:
        hpwl: `f64[starts]`, of the best legal placement in mm; inf where there was none.
        seconds: wall time of all starts together, once compiled.
    """

    hpwl: np.ndarray
    seconds: float

    @property
    def reached(self) -> np.ndarray:
        """HPWL of the starts that became legal."""
        return self.hpwl[np.isfinite(self.hpwl)]

    @property
    def least(self) -> float:
        """The shortest of all; inf if there is none."""
        return float(self.hpwl.min())

    def row(self, name: str, best_known: float) -> list[str]:
        """Under `HEAD`."""
        mean, some = (self.reached.mean(), True) if self.reached.size else (0.0, False)
        return [
            name,
            f"{self.reached.size}/{self.hpwl.size}",
            f"{mean:.2f}" if some else "-",
            f"{self.least:.2f}" if some else "-",
            f"{100 * (mean / best_known - 1):+.1f} %" if some else "-",
            f"{self.seconds / self.hpwl.size:.3f}",
        ]


class Places:
    """One board and its starts.

    Attributes:
        board: as in its file; what is fixed stays there.
        starts: how many; the same for everybody.
        env: `steps` long, sequential.
    """

    def __init__(self, board: Board, *, starts: int, steps: int):
        self.board, self.starts = as_float32(board), starts
        self.env = jaxvrp.make("pcb", boards=board, augment=False, max_steps=steps, eval_max_steps=steps)

    @property
    def _keys(self) -> jax.Array:
        return jax.random.split(jax.random.key(SEED), self.starts)

    def play_randomly(self) -> Result:
        """Uniform actions."""
        return self._play(self.env, RandomActor(self.env))

    def play(self, run: Trained, *, temperature: float | None = None) -> Result:
        """The policy of a run, in its mode, rotation and number of rays; sampled at a temperature, if given."""
        theirs = run.learner.env
        settings = {name: getattr(theirs, name) for name in ("mode", "boundary", "rotation", "shuffle", "rays")}
        env = self.env.replace(**settings, step_fraction=theirs.step_fraction)
        params = first_seed(run.learner, run.params)
        actor = run.learner.actor(params, deterministic=temperature is None, temperature=temperature or 1.0)
        return self._play(env, dataclasses.replace(actor, env=env))

    def place_randomly(self) -> Result:
        """One random placement without overlap for each start."""

        def one(key: jax.Array) -> jax.Array:
            position, orientation, legal = random_legal(self.board, key)
            return jnp.where(legal, measure(self.board, position, orientation)[0], jnp.inf)

        return _timed(lambda: jax.lax.map(one, self._keys))

    def anneal(self, moves: int) -> Result:
        """Annealing, as many restarts as there are starts."""
        widths = net_widths(self.board)
        key = jax.random.key(SEED)
        return _timed(lambda: anneal(self.board, key, widths=widths, num_moves=moves, num_restarts=self.starts).hpwl)

    def anneal_for(self, seconds: float) -> Result:
        """Annealing in about this time."""
        pace = self.anneal(TRIAL_MOVES).seconds / TRIAL_MOVES
        return self.anneal(max(1, int(seconds / pace)))

    def _play(self, env: Any, actor: Actor) -> Result:
        def advance(now: Any, key: jax.Array) -> Any:
            state, timestep, carry = now
            action, carry = actor.act(key, carry, state, timestep)
            state, timestep = jax.vmap(env.step)(state, action)
            return (state, timestep, carry), None

        def episode() -> jax.Array:
            first = jax.vmap(env.reset)(self._keys)
            keys = jax.random.split(jax.random.key(SEED), env.max_steps)
            (state, _, _), _ = jax.lax.scan(advance, (*first, actor.init(self.starts)), keys)
            return state.best.hpwl

        return _timed(episode)


def _timed(function: Callable[[], jax.Array]) -> Result:
    hpwl, seconds = timed(function)
    return Result(np.asarray(hpwl, np.float64), seconds)

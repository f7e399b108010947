"""Players of placement from the same starts on one board, each judged by its best placement without overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from benchmarks.measure import Seconds, timed
from benchmarks.quality.baselines import SEED
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.envs.pcb import Board
from jaxvrp.envs.pcb.baselines import anneal, net_widths, random_legal
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.episodes import record_episodes
from train.running.folder.run_folder import Trained
from train.running.loop.evaluator import first_seed

HEAD = ("player", "legal", "mean HPWL", "least HPWL", "gap", "s/start")
TRIAL_MOVES = 4_096
"""Of the annealing that tells how fast it is."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a player reached.

    Attributes:
        hpwl: `f64[starts]`, of the best legal placement in mm; inf where there was none.
        seconds: wall time of all starts together, once compiled.
    """

    hpwl: np.ndarray
    seconds: Seconds

    @property
    def reached(self) -> np.ndarray:
        """HPWL of the starts that became legal."""
        return self.hpwl[np.isfinite(self.hpwl)]

    @property
    def least(self) -> float:
        """The shortest of all; inf if there is none."""
        return float(self.hpwl.min())

    def row(self, name: str, best_known: float) -> list[str]:
        """The row of the player `name`, under `HEAD`; the gap is to `best_known`, in mm."""
        lengths = ["-", "-", "-"]
        if self.reached.size:
            mean = self.reached.mean()
            lengths = [f"{mean:.2f}", f"{self.least:.2f}", f"{100 * (mean / best_known - 1):+.1f} %"]
        seconds = f"{self.seconds.wall / self.hpwl.size:.3f}"
        return [name, f"{self.reached.size}/{self.hpwl.size}", *lengths, seconds]


class Places:
    """One board and its starts.

    Attributes:
        board: as in its file; what is fixed stays there.
        starts: how many; the same for everybody.
        env: `steps` long, sequential.
    """

    def __init__(self, board: Board, *, starts: int, steps: int):
        self.board, self.starts = as_float32(board), starts
        self.env = jaxvrp.make("pcb", boards=board, augment=False, max_steps=steps)

    @property
    def _keys(self) -> jax.Array:
        return jax.random.split(jax.random.key(SEED), self.starts)

    def play_randomly(self) -> Result:
        """Play uniform actions from every start."""
        return self._play(self.env, RandomActor(self.env))

    def play(self, run: Trained, *, temperature: float | None = None) -> Result:
        """Play a run's policy, in its mode, rotation and number of rays; sampled at a temperature, if given."""
        trained_in: Any = run.learner.env
        settings = {name: getattr(trained_in, name) for name in ("mode", "boundary", "rotation", "shuffle", "rays")}
        env = self.env.replace(**settings, step_fraction=trained_in.step_fraction)
        params = first_seed(run.learner, run.params)
        actor: Any = run.learner.actor(params, deterministic=temperature is None, temperature=temperature or 1.0)
        return self._play(env, dataclasses.replace(actor, env=env))

    def place_randomly(self) -> Result:
        """Draw one random placement without overlap for each start."""

        def legal_hpwl(key: jax.Array) -> jax.Array:
            position, orientation, legal = random_legal(self.board, key)
            return jnp.where(legal, measure_board(self.board, position, orientation).hpwl, jnp.inf)

        return _timed(lambda: jax.lax.map(legal_hpwl, self._keys))

    def anneal(self, moves: int) -> Result:
        """Anneal with as many restarts as there are starts."""
        widths = net_widths(self.board)
        key = jax.random.key(SEED)
        return _timed(lambda: anneal(self.board, key, widths=widths, num_moves=moves, num_restarts=self.starts).hpwl)

    def anneal_for(self, seconds: float) -> Result:
        """Anneal for about this time."""
        pace = self.anneal(TRIAL_MOVES).seconds.wall / TRIAL_MOVES
        return self.anneal(max(1, int(seconds / pace)))

    def _play(self, env: Any, actor: Actor) -> Result:
        def best_hpwl() -> jax.Array:
            instances = jax.vmap(env.generate)(self._keys)
            states, _ = record_episodes(env, actor, instances, jax.random.key(SEED), lambda *step: ())
            return states.best.hpwl

        return _timed(best_hpwl)


def _timed(function: Callable[[], jax.Array]) -> Result:
    hpwl, seconds = timed(function)
    return Result(np.asarray(hpwl, np.float64), seconds)

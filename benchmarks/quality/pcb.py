"""Placement: annealing, random play and learned policies, from the same starts on the same boards.

Each player is judged by the best placement without overlap that it reaches from each start.

python -m benchmarks.quality --env pcb                                   # three generated boards
python -m benchmarks.quality --env pcb --td3 DIR --sac DIR --published   # the boards of RL_PCB, from JAXVRP_DATA
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds, timed
from benchmarks.published.data import VARIABLE, data_folder
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Standings
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.envs.pcb import Board, Pcb
from jaxvrp.envs.pcb.baselines import anneal, net_widths, random_legal
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb
from jaxvrp.episodes import record_episodes
from jaxvrp.io.command_line import UserError, above_zero, positive
from train import Trained

PUBLISHED = ("adc0", "adc2", "afe")
FAMILY = "pcb/rl_pcb"
FULL_MOVES = 400_000
TRIAL_MOVES = 4_096
"""Of the annealing that tells how fast it is."""

HEAD = ("player", "legal", "mean HPWL", "least HPWL", "gap", "s/start")
NOTES = """legal: starts from which a placement without overlap was reached; mean and least HPWL of the best such one of
each, in mm; gap: of that mean to {reference}; s/start: wall time, all starts together, compilation apart. An annealing
"in the same time" has as long as the slowest policy, from as many restarts."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a player reached.

    Attributes:
        hpwl: `f64[starts]`, of the best legal placement in mm; inf where there was none.
        seconds: of all starts together, once compiled.
    """

    hpwl: np.ndarray
    seconds: Seconds

    @classmethod
    def of(cls, function: Callable[[], jax.Array]) -> Result:
        """What a pure function finds."""
        hpwl, seconds = timed(function)
        return cls(np.asarray(hpwl, np.float64), seconds)

    def row(self, name: str, best_known: float) -> list[str]:
        """The row of the player `name`, under `HEAD`; the gap is to `best_known`, in mm."""
        reached, lengths = self.hpwl[np.isfinite(self.hpwl)], ["-", "-", "-"]
        if reached.size:
            mean = reached.mean()
            lengths = [f"{mean:.2f}", f"{reached.min():.2f}", f"{100 * (mean / best_known - 1):+.1f} %"]
        return [name, f"{reached.size}/{self.hpwl.size}", *lengths, f"{self.seconds.wall / self.hpwl.size:.3f}"]


class Places:
    """One board and its starts.

    Attributes:
        board: as in its file; what is fixed stays there.
        starts: how many; the same for all players.
        env: `steps` long, sequential.
    """

    def __init__(self, board: Board, *, starts: int, steps: int):
        self.board, self.starts = as_float32(board), starts
        self.env = jaxvrp.make("pcb", boards=board, augment=False, max_steps=steps)
        self.keys = jax.random.split(jax.random.key(SEED), starts)

    def play_randomly(self) -> Result:
        """Play uniform actions from every start."""
        return self._play(self.env, RandomActor(self.env))

    def play(self, run: Trained, *, temperature: float | None = None) -> Result:
        """Play a run's policy, in its mode, rotation and number of rays; sampled at a temperature, if given."""
        trained_in: Any = run.learner.env
        settings = {name: getattr(trained_in, name) for name in ("mode", "boundary", "rotation", "shuffle", "rays")}
        env = self.env.replace(**settings, step_fraction=trained_in.step_fraction)
        actor: Any = contest.actor_of(run, temperature)
        return self._play(env, dataclasses.replace(actor, env=env))

    def place_randomly(self) -> Result:
        """Draw one random placement without overlap for each start."""

        def legal_hpwl(key: jax.Array) -> jax.Array:
            position, orientation, legal = random_legal(self.board, key)
            return jnp.where(legal, measure_board(self.board, position, orientation).hpwl, jnp.inf)

        return Result.of(lambda: jax.lax.map(legal_hpwl, self.keys))

    def anneal(self, moves: int) -> Result:
        """Anneal with as many restarts as there are starts."""
        widths, key = net_widths(self.board), jax.random.key(SEED)
        return Result.of(lambda: anneal(self.board, key, widths=widths, num_moves=moves, num_restarts=self.starts).hpwl)

    def anneal_for(self, seconds: float) -> Result:
        """Anneal for about this time."""
        pace = self.anneal(TRIAL_MOVES).seconds.wall / TRIAL_MOVES
        return self.anneal(max(1, int(seconds / pace)))

    def _play(self, env: Any, actor: Actor) -> Result:
        def best_hpwl() -> jax.Array:
            instances = jax.vmap(env.generate)(self.keys)
            states, _ = record_episodes(env, actor, instances, jax.random.key(SEED), lambda *step: ())
            return states.best.hpwl

        return Result.of(best_hpwl)


def generated(count: int, seed: int) -> Iterator[tuple[str, Board, float | None]]:
    """Boards of the generator that no default training meets: name, board, best known HPWL."""
    env: Any = jaxvrp.make("pcb", num_boards=count, board_seed=seed, max_parts=8)
    for index in range(count):
        yield f"generated {index}", jax.tree.map(lambda leaf, row=index: np.asarray(leaf[row]), env.boards), None


def published() -> Iterator[tuple[str, Board, float | None]]:
    """The three evaluation boards of RL_PCB, with the best HPWL known to us.

    Raises:
        UserError: they are not there.
    """
    path, best = published_file("--published")
    for index, (name, netlist) in enumerate(zip(PUBLISHED, read_pcb(path).boards, strict=True)):
        yield name, netlist.board, best.get(index)


def published_file(option: str) -> tuple[pathlib.Path, dict[int, float]]:
    """The file of the boards `PUBLISHED`, and the best HPWL known to us of each, in mm, by row.

    Raises:
        UserError: it is not there, where `option` needs it.
    """
    folder = data_folder() / FAMILY
    path = folder / "base" / "evaluation.pcb"
    if not path.is_file():
        raise UserError(f"{option}: there is no {path}; set {VARIABLE} to the folder that holds {FAMILY}")
    return path, best_known(folder / "best_known_zero_overlap.csv")


def best_known(path: pathlib.Path) -> dict[int, float]:
    """HPWL in mm by index of the evaluation board; empty if there is no such file."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "eval" in row["split"]]
    key = next((name for name in rows[0] if "hpwl" in name.lower()), None) if rows else None
    return {int(row["index"]): float(row[key]) for row in rows} if key else {}


def compete(places: Places, runs: Mapping[str, Trained], temperature: float, quick: bool) -> dict[str, Result]:
    """What all players reach on one board, by name; `quick` leaves out the long annealing."""
    turns: dict[str, Callable[[], Result]] = {
        "random play": places.play_randomly,
        "random legal placement": places.place_randomly,
    }
    for name, run in runs.items():
        turns[name] = functools.partial(places.play, run)
        sampled = f"{name}, sampled at temperature {temperature:g}"
        turns[sampled] = functools.partial(places.play, run, temperature=temperature)
    results = contest.take_turns(turns)
    slowest = max(result.seconds.wall for name, result in results.items() if "legal" not in name)
    annealings = {"annealing in the same time": lambda: places.anneal_for(slowest)}
    if not quick:
        annealings[f"annealing, {FULL_MOVES} moves"] = lambda: places.anneal(FULL_MOVES)
    return results | contest.take_turns(annealings)


def tables(args: argparse.Namespace) -> Iterator[Standings]:
    """A table for each board."""
    folders = {"TD3": args.td3, "SAC": args.sac}
    runs = {name: contest.load(folder, Pcb, "pcb", args) for name, folder in folders.items() if folder}
    reference = "the best known" if args.published else "the best of all players"
    for name, board, known in published() if args.published else generated(args.boards, args.seed):
        results = compete(Places(board, starts=args.starts, steps=args.steps), runs, args.temperature, args.quick)
        best = known or min(float(result.hpwl.min()) for result in results.values())
        title = f"{name}: {args.starts} starts, {args.steps} steps, best known {best:.2f} mm"
        rows = [list(HEAD), *(result.row(player, best) for player, result in results.items())]
        yield Standings(title, rows, reference)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = contest.parser("pcb", "Placement: annealing, random play and policies, side by side.")
    parser.add_argument("--td3", help="run folder of train.td3 on pcb: plays its policy")
    parser.add_argument("--sac", help="run folder of train.sac on pcb: plays its policy")
    parser.add_argument("--temperature", type=above_zero, default=1.0, help="of sampled actions (default: 1)")
    parser.add_argument("--published", action="store_true", help="the evaluation boards of RL_PCB, from JAXVRP_DATA")
    parser.add_argument("--boards", type=positive, default=3, help="instead: generated boards (default: 3)")
    parser.add_argument("--seed", type=positive, default=1000, help="of these (default: 1000)")
    parser.add_argument("--starts", type=positive, default=16, help="of every player, the same (default: 16)")
    parser.add_argument("--steps", type=positive, default=600, help="of an episode (default: 600)")
    parser.add_argument("--quick", action="store_true", help=f"without the annealing of {FULL_MOVES} moves")
    args = parser.parse_args(argv)
    measure.check_result_file(args.out, [args.td3, args.sac])
    contest.show(args, argv, tables(args), NOTES)

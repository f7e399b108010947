"""The command that draws a plan: `python -m jaxvrp.envs.tsp_drone.pictures INSTANCE --plan PLAN --out PICTURE`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from jaxvrp.envs.truck_and_drone.greedy import NearestNeighbourActor
from jaxvrp.envs.truck_and_drone.plan import operations_of
from jaxvrp.envs.tsp_drone.env import make
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.envs.tsp_drone.problem.agatz import read_operations
from jaxvrp.envs.tsp_drone.shown.story import story_of_plan
from jaxvrp.episodes import record_episode
from jaxvrp.io.command_line import Parser, check_picture_path, index, refuse_overwriting, run_command
from jaxvrp.io.problems.problem_files import only_problem
from jaxvrp.show import write_picture
from jaxvrp.show.drawing.files import ANIMATION, STILLS


def main(argv: Sequence[str] | None = None) -> int:
    """Draw a plan from files; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _draw(argv), (ValueError,))


def _draw(argv: Sequence[str] | None) -> None:
    parser = Parser("jaxvrp.envs.tsp_drone.pictures", "Draw a plan of truck and drone to a picture.")
    parser.add_argument(
        "instance",
        type=Path,
        help="an Agatz .txt, a .txt of lines, a nodes.csv of Murray and Chu, or an .npz of jaxvrp.envs.tsp_drone.save",
    )
    parser.add_argument("--index", type=index, help="which instance of several, from 0")
    parser.add_argument("--plan", type=Path, help="a solution in Agatz's format; without it: nearest neighbour")
    parser.add_argument("--out", type=Path, required=True, help="the picture: .png, .svg, .pdf, or .gif (animation)")
    options = parser.parse_args(argv)
    check_picture_path(options.out, (*STILLS, ANIMATION))
    refuse_overwriting(options.out, "--out", filter(None, [options.instance, options.plan]))
    instance = only_problem(PROBLEMS.read(options.instance), options.index, options.instance)
    if options.plan is None:
        play = jax.jit(functools.partial(record_episode, make(num_nodes=instance.num_nodes), NearestNeighbourActor()))
        operations = operations_of(play(instance, jax.random.key(0)).states)
    else:
        operations = read_operations(options.plan)
    write_picture(story_of_plan(instance, operations), options.out)


if __name__ == "__main__":
    sys.exit(main())

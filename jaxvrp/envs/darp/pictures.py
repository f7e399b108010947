"""The command that draws a plan: `python -m jaxvrp.envs.darp.pictures INSTANCE --plan PLAN --out PICTURE`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_instances
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.problem.solution import routes_to_actions
from jaxvrp.envs.darp.shown.story import story_of_plan
from jaxvrp.io.command_line import Parser, check_picture_path, index, refuse_overwriting, run_command
from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.problem_files import only_problem
from jaxvrp.show import write_picture
from jaxvrp.show.drawing.files import ANIMATION, STILLS


def main(argv: Sequence[str] | None = None) -> int:
    """Draw a plan from files; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _draw(argv), (ValueError,))


def _draw(argv: Sequence[str] | None) -> None:
    parser = Parser("jaxvrp.envs.darp.pictures", "Draw a dial-a-ride plan to a picture.")
    parser.add_argument("instance", type=Path, help="a Cordeau .txt, or an .npz of jaxvrp.envs.darp.save")
    parser.add_argument("--index", type=index, help="which instance of a batch, from 0")
    parser.add_argument(
        "--plan",
        type=Path,
        required=True,
        help='JSON, {"routes": [[1, 9], ...]}: pickups 1..n, drop-offs n+1..2n, as train.solve writes it',
    )
    parser.add_argument("--out", type=Path, required=True, help="the picture: .png, .svg, .pdf, or .gif (animation)")
    options = parser.parse_args(argv)
    check_picture_path(options.out, (*STILLS, ANIMATION))
    refuse_overwriting(options.out, "--out", [options.instance, options.plan])
    instance = only_problem(read_instances(options.instance), options.index, options.instance)
    actions = _read_plan(options.plan, instance)
    write_picture(story_of_plan(instance, actions), options.out)


def _read_plan(path: Path, instance: Instance) -> np.ndarray:
    """The actions of a plan file."""
    content = read_json(path, "write a plan as --help shows")
    routes = content.get("routes") if isinstance(content, dict) else None
    if not isinstance(routes, list) or not all(isinstance(route, list) for route in routes):
        raise ValueError(f'{path} needs {{"routes": [[1, 2], ...]}}, a list of nodes for each vehicle')
    requests = int((instance.demand > 0).sum())
    last = 2 * requests
    for node in itertools.chain.from_iterable(routes):
        if type(node) is not int or not 1 <= node <= last:
            raise ValueError(
                f"{path} has {shown(node)} in a route; give whole numbers from 1 to {last}, without the depot"
            )
    interleaved = [from_cordeau_index(route, requests).tolist() for route in routes]
    try:
        return routes_to_actions(interleaved, instance.num_agents)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())

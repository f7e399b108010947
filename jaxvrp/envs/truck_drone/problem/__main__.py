"""The command for maps: it writes one to begin with, from a generated problem, and checks one of your own.

python -m jaxvrp.envs.truck_drone.problem --out my_town.json [--scenario vrpd_tw] [--num_customers 20] [--seed 3]
python -m jaxvrp.envs.truck_drone.problem --check my_town.json [--scenario vrpd_tw]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.problem.fleet_map import map_of
from jaxvrp.envs.truck_drone.problem.inspection import inspect
from jaxvrp.envs.truck_drone.problem.map_file import read_map, write_map
from jaxvrp.io.command_line import Parser, UserError, index, positive, run_command
from jaxvrp.io.messages import escaped, warn

SIZES = ("num_drones", "num_customers", "num_route_nodes", "max_steps")
"""Options of the generated problem, by the name of the parameter."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check a map; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _run(_parse(argv)), (ValueError, TypeError))


def _run(options: argparse.Namespace) -> None:
    sizes = {name: value for name in SIZES if (value := getattr(options, name)) is not None}
    env = make(options.scenario, **sizes)
    if options.check:
        figures, warnings = summary(options.check, env)
        print(escaped(figures))
        for warning in warnings:
            warn(warning)
        return
    problem = env.generate(jax.random.key(options.seed))
    write_map(options.out, map_of(env, problem, f"{options.scenario}, seed {options.seed}"))
    # A scenario of the user's own has no policy that is shipped.
    solve, evaluate = f"solve {options.out} --env {options.scenario}", f"evaluate --run {options.scenario}"
    command = solve if ":" in options.scenario else f"{evaluate} --instance {options.out}"
    print(f"wrote {options.out}; python -m train.{command}")


def summary(path: Path, env: TruckDrone) -> tuple[str, tuple[str, ...]]:
    """A map in its own units and in those of the simulator, in a few lines; and warnings.

    Raises:
        ValueError: it is none, or not one of that scenario; one line.
        OSError: it cannot be read.
    """
    fleet_map = read_map(path)
    try:
        played = fleet_map.environment(env)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    scale, (x, y) = fleet_map.whole_scale, fleet_map.whole_scale.center
    drones, customers, nodes = (len(part) for part in (fleet_map.drones, fleet_map.customers, fleet_map.nodes))
    truck, drone = (float(speed * played.dt) for speed in (played.truck_speed, played.drone_speed))
    reach = 1 / float(played.battery_rate) if played.battery_rate else float("inf")
    figures, warnings = inspect(fleet_map, played)
    lines = [
        f"{path}: {drones} drones, {customers} customers, {nodes} nodes, {played.max_steps} steps",
        *figures,
        f"a map unit is {scale.length:g}, around ({x:g}, {y:g}); a step is {scale.time:g}; a demand of 1 is "
        f"{scale.demand:g}",
        f"in a step the truck drives {truck:.3g} map units, a drone flies {drone:.3g} (by default 0.1 and 0.2); a "
        f"charge lasts for {reach:.3g}",
    ]
    return "\n".join(lines), warnings


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("jaxvrp.envs.truck_drone.problem", "Write a map of truck and drones to begin with, or check one.")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a generated problem as a map, .json")
    parser.add_argument("--check", type=Path, metavar="FILE", help="read a map, and say what it is to the simulator")
    parser.add_argument("--scenario", default="vrpd_tw", help="whose problem, and physics (default: vrpd_tw)")
    parser.add_argument("--seed", type=index, default=0, help="of the generated problem (default: 0)")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=positive, metavar="N", help="of the generated problem")
    options = parser.parse_args(argv)
    if (options.out is None) == (options.check is None):
        raise UserError("give --out FILE to write a map, or --check FILE to read one")
    if options.out and not options.out.parent.is_dir():
        raise UserError(f"--out {options.out}: there is no folder {options.out.parent}; make it first")
    return options


if __name__ == "__main__":
    sys.exit(main())

"""How good plans are: baselines, and what was learned, on fixed instances.

python -m benchmarks.quality                                          # truck_drone at three sizes
python -m benchmarks.quality --battery_rate 1.0 --episodes 512
python -m benchmarks.quality --env darp --run DIR --solvers pyvrp     # see darp.py
python -m benchmarks.quality --env pcb --td3 DIR --sac DIR            # see pcb.py
python -m benchmarks.quality --env my_package.my_module:make          # any other: its baselines, see baselines.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import measure
from benchmarks.quality import baselines
from train.config import RunConfig
from train.running.command import command_line


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `--env` says whose (the learners' default), one with a file here has options of its own."""
    argv = sys.argv[1:] if argv is None else list(argv)
    env = command_line.value_of(argv, "env") or RunConfig().env["name"]
    (measure.module_of("benchmarks.quality", env) or baselines).main(argv)


if __name__ == "__main__":
    command_line.entry(main)

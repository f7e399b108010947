"""The command line of an algorithm."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS
from train.running import command_line, loop
from train.running.run_folder import configuration, run_folder
from train.sharding import initialize


def main(algorithm: str, argv: Sequence[str] | None = None) -> None:
    """The command line of an algorithm; `python -m train.<algorithm> --help` lists every key."""
    description = f"Train with {algorithm.upper()}, end to end on the device, and see what was learned."
    launch = command_line.parse(
        ALGORITHMS[algorithm].config_class,
        sys.argv[1:] if argv is None else argv,
        prog=f"train.{algorithm}",
        description=description,
    )
    if launch.coordinator:
        initialize(launch.coordinator, launch.num_processes, launch.process_id)
    config = configuration(launch, algorithm)
    try:
        trainer = ALGORITHMS[algorithm].make_train(config)
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    loop.run(trainer, run_folder(launch, config, algorithm), resume=launch.resume is not None)

"""The command of the trial: `python -m tests.mutate --minutes 10 --seed 0`; exit status 1 if anything was found."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing.connection
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jaxvrp.io.command_line import INTERRUPTED, Parser, UserError, above_zero, index, positive, run_command
from tests.mutate.lane import SUBJECTS, Lane, Order, scratch_folder
from tests.mutate.report import Log

FOUND = 1
"""Exit status if anything was found."""


def main(argv: Sequence[str] | None = None) -> int:
    """Try cases until the time is up, or one case again; prints a table and where reproducers lie."""
    status = 0

    def command() -> None:
        nonlocal status
        status = _try_all(_parse(argv))

    # Processes that are killed leave semaphores of the system behind, which the tracker of all processes gives back.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")

    return run_command(command) or status


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("tests.mutate", "Damage everything that can be damaged, and see whether anything slips through.")
    parser.add_argument("--minutes", type=above_zero, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=index, default=0, help="what cases are drawn from (default: 0)")
    parser.add_argument("--subjects", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS), help="only these")
    parser.add_argument("--jobs", type=positive, default=min(2, os.cpu_count() or 1), help="subjects tried together")
    parser.add_argument("--case", help="SUBJECT:SEED:NUMBER: try this one case again")
    parser.add_argument("--out", type=Path, default=Path("runs/mutate"), help="folder for what is found")
    options = parser.parse_args(argv)
    options.orders = _orders(options)
    return options


def _orders(options: argparse.Namespace) -> list[Order]:
    """What each subject is to do."""
    if options.case is not None:
        words = options.case.rsplit(":", 2)
        if len(words) != 3 or words[0] not in SUBJECTS or not all(word.isdecimal() for word in words[1:]):
            raise UserError(f"--case is '{options.case}'; it must be SUBJECT:SEED:NUMBER, of {', '.join(SUBJECTS)}")
        name, options.seed, number = words[0], int(words[1]), int(words[2])
        options.minutes = 0.0
        return [Order(name, SUBJECTS[name], options.seed, Path(name), 0.0, number, number)]
    entries = {name: entry for name, entry in SUBJECTS.items() if name in options.subjects}
    second = 60.0 * options.minutes * options.jobs / sum(entry.share for entry in entries.values())
    return [Order(name, entry, options.seed, Path(name), second * entry.share) for name, entry in entries.items()]


def _try_all(options: argparse.Namespace) -> int:
    names = [order.subject for order in options.orders]
    log = Log(names, options.seed, options.minutes, options.out)
    with scratch_folder() as scratch:
        waiting = [dataclasses.replace(order, folder=Path(scratch) / order.folder) for order in options.orders]
        try:
            _run(waiting, options.jobs, log)
        except KeyboardInterrupt:
            print(log.table())
            return INTERRUPTED
    print(log.table())
    return FOUND if log.num_findings else 0


def _run(waiting: list[Order], jobs: int, log: Log) -> None:
    lanes: list[Lane] = []
    try:
        while waiting or lanes:
            while waiting and len(lanes) < jobs:
                lanes.append(Lane(waiting.pop(0)))
            multiprocessing.connection.wait([lane.pipe for lane in lanes], timeout=1.0)
            for lane in lanes:
                for report in lane.poll():
                    log.add(lane.order.subject, report, lane.order.folder / str(report.number))
                log.rows[lane.order.subject].seconds = time.monotonic() - lane.began
            lanes = [lane for lane in lanes if not lane.is_over]
            log.progress([lane.order.subject for lane in lanes])
    finally:
        for lane in lanes:
            lane.stop()


if __name__ == "__main__":
    sys.exit(main())

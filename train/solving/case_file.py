"""Orders in a table and a fleet file: the problem that they are, in the environment that can play it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jaxvrp
from jaxvrp import registry
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import few, printable, warn
from jaxvrp.orders.fields import ignored_words
from jaxvrp.orders.fleet_file import read_fleet
from jaxvrp.orders.orders import case_of
from jaxvrp.orders.table import read_orders

TABLES = (".csv", ".tsv", ".geojson")
"""Endings of files of customers."""

FLEET_HELP = "depot, day, vans and drones of the customers in a table or GeoJSON, .yaml"
"""Of the option `--fleet` of every command that reads such files."""


def fleet_is_missing(path: str | os.PathLike) -> str | None:
    """The line that refuses a table of customers without a fleet; None if a file is none.

    Customers have names, or degrees: x and y alone are columns of other problems, too.
    """
    if Path(path).suffix.lower() not in TABLES:
        return None
    try:
        found = read_orders(path)
    except (OSError, ValueError):
        return None
    if not found.is_degrees and all(order.name == order.where for order in found.orders):
        return None
    return f"{path} is a table of customers; give the fleet, too: --fleet fleet.yaml"


def refuse_beside_fleet(args: argparse.Namespace, given: Mapping[str, Any]) -> None:
    """Refuse options of a command, or keys of an environment, that do not go with its `--fleet`."""
    said = [name for name in ("run", "env", "index") if getattr(args, name, None) is not None]
    said += [f"env.{name}" for name in given]
    if args.fleet and said:
        raise UserError(f"--fleet: the fleet says what plays; leave --{said[0]} out")


def read_case(path: str | os.PathLike, fleet_path: str | os.PathLike) -> tuple[str, Any]:
    """The environment that plays the orders of a file, by name, and the problem that they are; says which, and why.

    Raises:
        UserError: a file is none, or they do not fit together; one line.
    """
    try:
        orders, fleet = read_orders(path), read_fleet(fleet_path)
        case = case_of(orders, fleet)
        name, why = fleet.choice
        problems = registry.problems_of(jaxvrp.make(name))
        assert problems
        problem, notes = problems.of_case(case)
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}; give another file") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    times = (time for order in orders.orders for time in (order.earliest, order.latest, order.known))
    if any(isinstance(time, float) for time in times):
        notes = [*notes, f"numbers that say times are minutes since {fleet.clock.shown(0)}, when the fleet starts"]
    if case.cut:
        day = f"{fleet.clock.shown(0)} to {fleet.clock.shown(fleet.horizon)}"
        notes = [*notes, f"windows reach beyond the day, {day}, and only what lies in it counts: {few(case.cut)}"]
    print(printable(f"{len(case.stops)} customers, played in {name}, as {why}"))
    for note in (*notes, ignored_words(orders.ignored)):
        if note:
            warn(f"{path}: {note}")
    return name, problem

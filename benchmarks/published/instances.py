"""Published instances by name: their files, and their best known costs."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.quality import pcb, tsp_drone
from benchmarks.quality.darp import best_known, find
from jaxvrp.io.command_line import UserError


class Published(NamedTuple):
    """A published instance.

    Attributes:
        name: in tables.
        path: its file.
        row: which problem of the file; None if there is but one.
        best_known: cost; None if there is none.
        group: the set that it is of; None if it was named alone.
    """

    name: str
    path: pathlib.Path
    row: int | None
    best_known: float | None
    group: str | None = None


def dial_a_ride(name: str, option: str) -> list[Published]:
    """An instance of `darp`, by name or path.

    Raises:
        UserError: there is none, or its table of costs is damaged; one line.
    """
    del option  # which `find` knows
    path = find(name)
    try:
        return [Published(path.stem, path, None, best_known(path))]
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from None


def board(name: str, option: str) -> list[Published]:
    """One of the evaluation boards of RL_PCB.

    Raises:
        UserError: there is no such board, or their file is not there.
    """
    if name not in pcb.PUBLISHED:
        raise UserError(f"{option}: no board '{name}'; known: {', '.join(pcb.PUBLISHED)}")
    (path, best), row = pcb.published_file(option), pcb.PUBLISHED.index(name)
    return [Published(name, path, row, best.get(row))]


def members(find: Callable[[str, str], list[tsp_drone.Published]], name: str, option: str) -> list[Published]:
    """The instances of a set that `find` finds by its name, the value of an option.

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    return [Published(*each, group=name) for each in find(name, option)]


def sidekicks(name: str, option: str) -> list[Published]:
    """Likewise, of `flying_sidekicks`: published makespans are of drones with a battery, not with a fixed endurance."""
    found = members(tsp_drone.sidekicks, name, option)
    return [each._replace(best_known=None) for each in found] if name.endswith("_fixed") else found


PUBLISHED: dict[str, Callable[[str, str], list[Published]]] = {
    "darp": dial_a_ride,
    "pcb": board,
    "tsp_drone": functools.partial(members, lambda name, option: tsp_drone.published(name, option)[0]),
    "truck_drone_tours": functools.partial(members, tsp_drone.tours),
    "flying_sidekicks": sidekicks,
}
"""By environment, what finds instances by a name, the value of an option."""

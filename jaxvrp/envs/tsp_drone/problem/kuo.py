"""The files of Kuo et al. (2022): tandems with time windows.

A first line `x,y,demand,open,close,servicetime`, then one with these numbers for each node, the depot first: miles, kg
and minutes. The window of the depot is the horizon.
"""

from __future__ import annotations

import os

from jaxvrp.envs.tsp_drone.problem.instance import Instance, make_instance
from jaxvrp.io.text_lines import read_lines

COLUMNS = ("x", "y", "demand", "open", "close", "servicetime")

TRUCK_PRICE = 1.61 * 1.13 * 0.07
"""Euro for a mile: kilometres, euro for a litre, litres for a kilometre."""


def read_kuo(
    path: str | os.PathLike,
    *,
    truck_speed: float = 35.0,
    drone_speed: float = 50.0,
    truck_capacity: float = 1400.0,
    drone_capacity: float = 5.0,
    endurance: float = 30.0,
    launch_time: float = 1.0,
    recovery_time: float = 1.0,
    truck_price: float = TRUCK_PRICE,
    drone_price: float = 0.1 * TRUCK_PRICE,
) -> Instance:
    """Read an instance, as NumPy arrays; the other arguments, which the paper fixes, in miles, minutes, kg and euro.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    head, *lines = read_lines(path, "an instance of Kuo et al.", f"a line {','.join(COLUMNS)!r}")
    wanted = f"the line {','.join(COLUMNS)!r}, found {head.text[:40]!r}"
    head.expect(tuple(word.lower() for word in head.separated()) == COLUMNS, wanted)
    head.expect(bool(lines), "a line for each node below this one", "restore what is missing")
    rows = [[line.real(name, word) for name, word in line.fields(COLUMNS).items()] for line in lines]
    x, y, demand, opens, closes, service = zip(*rows, strict=True)
    try:
        return make_instance(
            list(zip(x, y, strict=True)),
            truck_pace=60.0 / truck_speed,
            drone_pace=60.0 / drone_speed,
            launch_time=launch_time,
            recovery_time=recovery_time,
            demand=demand,
            opens=opens,
            closes=closes,
            service=service,
            truck_capacity=truck_capacity,
            drone_capacity=drone_capacity,
            endurance=endurance,
            truck_price=truck_price,
            drone_price=drone_price,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None

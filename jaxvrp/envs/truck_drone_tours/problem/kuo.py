"""The files of Kuo et al. (2022): tandems with time windows.

A first line `x,y,demand,open,close,servicetime`, then one with these numbers for each node, the depot first: miles, kg
and minutes, unless other units are given. The window of the depot is the horizon.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jaxvrp.envs.truck_drone_tours.problem.instance import Instance, make_instance
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.problem_files import with_given
from jaxvrp.io.text_lines import read_lines
from jaxvrp.io.units import LENGTHS, TIMES

COLUMNS = ("x", "y", "demand", "open", "close", "servicetime")

UNITS = {"units.length": ("mi", LENGTHS), "units.time": ("min", TIMES)}
"""The paper's, and those that may be given."""

TRUCK_PRICE = 1.61 * 1.13 * 0.07
"""Euro for a mile: kilometres, euro for a litre, litres for a kilometre."""


def assumed_by_kuo(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the paper fixes, or what is given instead, in the units of the file; speeds are in units of length an hour.

    Raises:
        ValueError: a unit that is not known, or no number; one line.
    """
    units = {name: given.get(name, default) for name, (default, _) in UNITS.items()}
    for name, (_, known) in UNITS.items():
        if units[name] not in known:
            raise ValueError(f"{name} is {shown(units[name])}; it must be one of: {', '.join(known)}")
    mile, minute = LENGTHS["mi"] / LENGTHS[units["units.length"]], TIMES["min"] / TIMES[units["units.time"]]
    paper = {
        "truck_speed": 35.0 * mile,
        "drone_speed": 50.0 * mile,
        "truck_capacity": 1400.0,
        "drone_capacity": 5.0,
        "endurance": 30.0 * minute,
        "launch_time": 1.0 * minute,
        "recovery_time": 1.0 * minute,
        "truck_price": TRUCK_PRICE / mile,
        "drone_price": 0.1 * TRUCK_PRICE / mile,
    }
    return units | with_given(paper, {name: value for name, value in given.items() if name not in UNITS})


def read_kuo(path: str | os.PathLike, **given: Any) -> Instance:
    """Read an instance, as NumPy arrays; what is `given` takes the place of what is `assumed_by_kuo`.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    fixed = assumed_by_kuo(given)
    hour = TIMES["h"] / TIMES[fixed.pop("units.time")]
    del fixed["units.length"]
    paces = {f"{kind}_pace": hour / fixed.pop(f"{kind}_speed") for kind in ("truck", "drone")}
    head, *lines = read_lines(path, "an instance of Kuo et al.", f"a line {','.join(COLUMNS)!r}")
    wanted = f"the line {','.join(COLUMNS)!r}, found {head.text[:40]!r}"
    head.expect(tuple(word.lower() for word in head.separated()) == COLUMNS, wanted)
    head.expect(bool(lines), "a line for each node below this one", "restore what is missing")
    rows = [[line.real(name, word) for name, word in line.fields(COLUMNS).items()] for line in lines]
    x, y, demand, opens, closes, service = zip(*rows, strict=True)
    try:
        return make_instance(
            list(zip(x, y, strict=True)),
            demand=demand,
            opens=opens,
            closes=closes,
            service=service,
            **paces,
            **fixed,
        )
    except ValueError as error:
        hint = ", or give --env.units.length or another of what is assumed" if str(error).endswith("widen it") else ""
        raise ValueError(f"{path}: {error}{hint}") from None

"""Sound things to damage: problems, boards and their files, all small and drawn from a NumPy generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxvrp.envs import darp, pcb


def instance(random: np.random.Generator, *, uniform: bool = True) -> darp.Instance:
    """A dial-a-ride problem of 2 to 4 requests; `uniform`: as Cordeau's format can hold it."""
    requests, vehicles = int(random.integers(2, 5)), int(random.integers(1, 4))
    demand = np.zeros(2 * requests + 1)
    demand[1::2] = random.integers(1, 4, requests)
    demand[2::2] = -demand[1::2]
    earliest = np.round(random.uniform(0, 50, demand.size), 2)
    capacity = np.full(vehicles, 3) if uniform else random.integers(3, 7, vehicles)
    return darp.make_instance(
        np.round(random.uniform(-10, 10, (demand.size, 2)), 3),
        demand,
        earliest + np.round(random.uniform(100, 900, demand.size), 2),
        capacity=capacity,
        earliest=np.append(0.0, earliest[1:]),
        service_time=np.append(0.0, np.full(demand.size - 1, 5.0)),
        max_ride_time=90.0,
        max_route_duration=480.0,
    )


def board(random: np.random.Generator) -> pcb.Board:
    """A circuit in the middle, fixed, and 2 to 4 parts with two pins each, on a ground net and signal nets."""
    parts = int(random.integers(2, 5))
    component = np.append(0, np.repeat(np.arange(parts + 1), 2))
    net = np.concatenate([[0, 1, 2], np.stack([np.zeros(parts), 1 + np.arange(parts) % 2], axis=1).ravel()])
    offset = np.round(random.uniform(-0.4, 0.4, (component.size, 2)), 3)
    return pcb.make_board(
        [20.0, 15.0],
        np.concatenate([[[6.0, 4.0]], np.round(random.uniform(0.8, 2.0, (parts, 2)), 2)]),
        component,
        offset,
        net,
        [1, 0, 0],
        position=np.round(random.uniform(3, 12, (parts + 1, 2)), 3),
        orientation=np.append(0, random.integers(0, 4, parts)),
        fixed=np.arange(parts + 1) == 0,
        target_wirelength=np.append(np.inf, np.full(parts, 1.5)),
    )


def write_bookshelf(folder: Path, random: np.random.Generator) -> Path:
    """Write a board as `.nodes`, `.pl`, `.nets` and `canvas.csv`; returns the `.nodes` file."""
    parts = int(random.integers(2, 6))
    sizes, places = random.integers(5, 40, (parts, 2)), np.round(random.uniform(0, 150, (parts, 2)), 1)
    nodes = [f"P{row} {width} {height}" for row, (width, height) in enumerate(sizes)]
    lines = [f"P{row} {x} {y} : {'N' if row % 2 else 'FN'}" for row, (x, y) in enumerate(places)]
    pins = [f"\tP{row} I : {row}.5 -{row}" for row in range(parts)]
    head = "UCLA {} 1.0\n# made for the trial\n\n"
    content = {
        "hand.nodes": [head.format("nodes") + f"NumNodes : {parts}", "NumTerminals : 0", *nodes],
        "hand.pl": [head.format("pl"), *lines],
        "hand.nets": [
            head.format("nets") + "NumNets : 2",
            f"NumPins : {parts + 1}",
            f"NetDegree : {parts} N0",
            *pins,
            "NetDegree : 1 N1",
            pins[0],
        ],
        "canvas.csv": ["board,canvas_width,canvas_height,row_height", "other,1,2,1", "hand,200,150,1"],
    }
    for name, rows in content.items():
        (folder / name).write_text("\n".join(rows) + "\n")
    return folder / "hand.nodes"

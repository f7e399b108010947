"""What can be named on the command line, in columns. It is read from the sources: to import them would import JAX."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence

from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import nearest

ROOT = pathlib.Path(__file__).parents[1]
"""The folder that holds all our packages: a checkout, or `site-packages`."""

WIDEST = 120
"""Columns; sentences are broken at the terminal's width, or here."""

Row = tuple[str, ...]
"""A name, short facts, and a sentence at the end."""

SCENARIO = re.compile(r'^class (\w+)(?:(?!^class ).)*?^    scenario: ClassVar\[str\] = "(\w+)"', re.M | re.S)
"""A class that names its scenario, in a source."""

ACTIONS = {"Discrete": "discrete actions", "Box": "continuous actions"}


def text_of(module: str) -> str:
    """The source of a module."""
    path = ROOT.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


def sentence(module: str, name: str = "", definition: str = "") -> str:
    """The first line of the docstring of a module, or a definition in it, without the `name` that it may begin with."""
    text = text_of(module)
    if definition:
        text = re.split(rf"^(?:class|def) {definition}\b", text, flags=re.M)[1]
    line = text.split('"""')[1].splitlines()[0].rpartition(f"`{name}`: ")[2].replace("`", "")
    return line[0].upper() + line[1:]


def programs(folder: str) -> dict[str, str]:
    """Modules by name of the programs in a folder: files with a function `main`, and folders with a `__main__.py`."""
    found = {path.stem: path for path in (ROOT / folder).glob("*.py")}
    found |= {path.parent.name: path for path in (ROOT / folder).glob("*/__main__.py")}
    modules = {name: ".".join(path.relative_to(ROOT).with_suffix("").parts) for name, path in sorted(found.items())}
    return {name: module for name, module in modules.items() if re.search("^(def main|main =)", text_of(module), re.M)}


def registered(kind: str) -> list[Row]:
    """The names of a kind, `environment` or `scenario`."""
    table = text_of("jaxvrp.registry").partition(f'"{kind}": {{')[2].partition("\n    },\n")[0]
    found = re.findall(r'"(\w+)": (?:_shipped\("(\w+)"|Entry\("([\w.]+):(\w+))', table)
    return [
        (name, sentence(module or f"jaxvrp.envs.{folder}", name, definition))
        for name, folder, module, definition in found
    ]


def scenarios() -> list[Row]:
    """The scenarios, with their environments: registered ones, and classes that name their scenario."""
    found = [("truck_drone", *row) for row in registered("scenario")]
    for path in (ROOT / "jaxvrp" / "envs").glob("*/scenarios.py"):
        folder, module = path.parent.name, f"jaxvrp.envs.{path.parent.name}.scenarios"
        named = SCENARIO.findall(text_of(module))
        found += [(folder, name, sentence(module, name, definition)) for definition, name in named]
    return sorted(found)


def algorithms() -> list[Row]:
    """The algorithms, with the kinds of their actions."""
    table = re.findall(r'^    "(\w+)": Algorithm\(\w+, (\w+)\)', text_of("train.algorithms"), re.M)
    return [(name, ACTIONS[space], sentence(f"train.{name}")) for name, space in table]


def networks() -> list[Row]:
    """The kinds of networks."""
    names = re.findall(r'^    "(\w+)": NetworkKind\(', text_of("jaxvrp.policies.networks"), re.M)
    return [(name, sentence(f"jaxvrp.policies.networks.{name}")) for name in names]


def configurations() -> list[Row]:
    """The shipped configurations, with the first sentence of the comment at the head of each file."""
    rows: list[Row] = []
    for path in sorted((ROOT / "train" / "configs").glob("*.yaml")):
        head = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
        text, end, _ = " ".join(line.lstrip("# ") for line in head).partition(". ")
        rows.append((path.stem, text + end.strip()))
    return rows


def policies() -> list[Row]:
    """The shipped policies, with the sizes of their folders."""
    rows: list[Row] = []
    for card in sorted((ROOT / "jaxvrp" / "policies" / "shipped").glob("*/policy.json")):
        size = sum(path.stat().st_size for path in card.parent.iterdir())
        rows.append((card.parent.name, f"{size / 1000:.0f} kB", json.loads(card.read_text(encoding="utf-8"))["about"]))
    return rows


SECTIONS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "environments": (
        "jaxvrp play NAME; jaxvrp train ALGORITHM --env.name NAME",
        lambda: registered("environment"),
    ),
    "scenarios": ("jaxvrp play ENVIRONMENT --env.scenario NAME", scenarios),
    "algorithms": ("jaxvrp train NAME", algorithms),
    "networks": ("jaxvrp train mappo --network NAME", networks),
    "configurations": ("jaxvrp train ALGORITHM --config NAME", configurations),
    "policies": ("jaxvrp evaluate --run NAME; jaxvrp replay --run NAME", policies),
}
"""By title: the use of the names, and a function that makes the rows."""


def width() -> int:
    """Of a page, in columns."""
    return min(shutil.get_terminal_size().columns, WIDEST)


def aligned(rows: Sequence[Row], width: int) -> list[str]:
    """Lines with the first columns as wide as their widest cell, and the sentence broken beside them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for *cells, text in rows:
        head = "  " + "".join(f"{cell:<{cell_width}}  " for cell, cell_width in zip(cells, widths, strict=True))
        first, *rest = textwrap.wrap(text, max(width - len(head), 20)) or [""]
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    return lines


def checked(name: str, known: Iterable[str], subject: str, program: str) -> str:
    """The typed name if it is known; else a mistake that suggests one, and the `program` whose `--help` lists them."""
    if name not in known:
        raise UserError(f"unknown {subject} '{name}'; {nearest(name, list(known))}; see {program} --help")
    return name

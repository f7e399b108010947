"""`jaxvrp list`: what there is by name, with a sentence each."""

from __future__ import annotations

import json
import pathlib
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence

from jaxvrp_command import names
from jaxvrp_command.packages import ROOT
from jaxvrp_command.quick import QuickParser, choose

Row = tuple[str, ...]
"""A name, short facts, and a sentence at the end."""

WIDEST = 120
"""Columns; sentences are broken at the terminal's width, or here."""


def configuration_rows() -> list[Row]:
    """Configurations that are shipped; the sentence is the first of the comment that a file begins with."""
    return [(path.stem, _first_sentence(path)) for path in sorted((ROOT / "train" / "configs").glob("*.yaml"))]


def policy_rows() -> list[Row]:
    """Policies that are shipped, with the size of their folders."""
    rows: list[Row] = []
    for card in sorted((ROOT / "train" / "policies").glob("*/policy.json")):
        size = sum(path.stat().st_size for path in card.parent.iterdir())
        about = json.loads(card.read_text(encoding="utf-8"))["about"]
        rows.append((card.parent.name, f"{size / 1000:.0f} kB", about))
    return rows


def _sentences(table: Mapping[str, str]) -> Callable[[], list[Row]]:
    return lambda: list(table.items())


SECTIONS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "environments": (
        "jaxvrp play NAME; jaxvrp train ALGORITHM --env.name NAME",
        _sentences(names.ENVIRONMENTS),
    ),
    "scenarios": ("jaxvrp play ENVIRONMENT --env.scenario NAME", _sentences(names.SCENARIOS)),
    "algorithms": ("jaxvrp train NAME", lambda: [(name, *row) for name, row in names.ALGORITHMS.items()]),
    "networks": ("jaxvrp train mappo --network NAME", _sentences(names.NETWORKS)),
    "configurations": ("jaxvrp train ALGORITHM --config NAME", configuration_rows),
    "policies": ("jaxvrp evaluate --run NAME; jaxvrp replay --run NAME", policy_rows),
}
"""By title: how the names are used, and what makes the rows."""


def page(titles: Sequence[str], width: int) -> str:
    """The sections of these titles, their columns aligned, in lines of at most so many characters."""
    blocks = []
    for title in titles:
        use, rows = SECTIONS[title]
        blocks.append("\n".join([f"{title}  ({use})", *aligned(rows(), width)]))
    return "\n\n".join(blocks)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = QuickParser("jaxvrp list", "What there is by name: environments, algorithms, networks, policies, ...")
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"some of {', '.join(SECTIONS)} (default: all)")
    asked = parser.parse_args(argv).what
    titles = [choose(title, SECTIONS, "list", parser.prog) for title in asked]
    print(page(titles or list(SECTIONS), min(shutil.get_terminal_size().columns, WIDEST)))


def _first_sentence(path: pathlib.Path) -> str:
    """Of the comment at the head of a file."""
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        words += line.lstrip("# ").split()
    text, end, _ = " ".join(words).partition(". ")
    return text + end.strip()


def aligned(rows: Sequence[Row], width: int) -> list[str]:
    """Lines with the first columns as wide as their widest cell, and the sentence broken beside them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for *cells, text in rows:
        head = "  " + "".join(f"{cell:<{cell_width}}  " for cell, cell_width in zip(cells, widths, strict=True))
        room = max(width - len(head), 20)
        first, *rest = textwrap.wrap(text, room) or [""]
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    return lines

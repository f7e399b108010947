"""Answers that need no JAX: `jaxvrp list`, `jaxvrp version`, and mistakes in one line."""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from jaxvrp_command import names
from jaxvrp_command.packages import ROOT, alone, package_version

Row = tuple[str, ...]
"""A name, short facts, and a sentence at the end."""

WIDEST = 120
"""Columns; sentences are broken at the terminal's width, or here."""


def refuse(message: str) -> NoReturn:
    """End with a user's mistake: one line on stderr, and exit status 2."""
    print(f"error: {alone('jaxvrp.io.messages').printable(message)}", file=sys.stderr)
    raise SystemExit(2)


def choose(name: str, known: Iterable[str], what: str, program: str) -> str:
    """The typed name if it is known; else a mistake that suggests one, and the `program` whose `--help` lists them."""
    known = list(known)
    if name in known:
        return name
    nearest = alone("jaxvrp.io.messages").nearest
    refuse(f"unknown {what} '{name}'; {nearest(name, known)}; see {program} --help")


class QuickParser(argparse.ArgumentParser):
    """As `jaxvrp.io.command_line.Parser`: no abbreviations, and a mistake is one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line, with where the options are listed."""
        refuse(f"{message}; see {self.prog} --help")


def configuration_rows() -> list[Row]:
    """The shipped configurations, each with the first sentence of the comment at the head of its file."""
    rows: list[Row] = []
    for path in sorted((ROOT / "train" / "configs").glob("*.yaml")):
        words: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                break
            words += line.lstrip("# ").split()
        text, end, _ = " ".join(words).partition(". ")
        rows.append((path.stem, text + end.strip()))
    return rows


def policy_rows() -> list[Row]:
    """The shipped policies, with the sizes of their folders."""
    rows: list[Row] = []
    for card in sorted((ROOT / "jaxvrp" / "policies" / "shipped").glob("*/policy.json")):
        size = sum(path.stat().st_size for path in card.parent.iterdir())
        about = json.loads(card.read_text(encoding="utf-8"))["about"]
        rows.append((card.parent.name, f"{size / 1000:.0f} kB", about))
    return rows


SECTIONS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "environments": ("jaxvrp play NAME; jaxvrp train ALGORITHM --env.name NAME", lambda: [*names.ENVIRONMENTS.items()]),
    "scenarios": ("jaxvrp play ENVIRONMENT --env.scenario NAME", lambda: [*names.SCENARIOS.items()]),
    "algorithms": ("jaxvrp train NAME", lambda: [(name, *row) for name, row in names.ALGORITHMS.items()]),
    "networks": ("jaxvrp train mappo --network NAME", lambda: [*names.NETWORKS.items()]),
    "configurations": ("jaxvrp train ALGORITHM --config NAME", configuration_rows),
    "policies": ("jaxvrp evaluate --run NAME; jaxvrp replay --run NAME", policy_rows),
}
"""By title: the use of the names, and a function that makes the rows."""


def page(titles: Sequence[str], width: int) -> str:
    """The sections of these titles, their columns aligned, in lines of at most so many characters."""
    blocks = []
    for title in titles:
        use, rows = SECTIONS[title]
        blocks.append("\n".join([f"{title}  ({use})", *aligned(rows(), width)]))
    return "\n\n".join(blocks)


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


def list_names(argv: Sequence[str]) -> None:
    """The command line of `jaxvrp list`."""
    about = "What there is by name: environments, algorithms, networks, policies, ..."
    parser = QuickParser(prog="jaxvrp list", description=about, allow_abbrev=False)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"some of {', '.join(SECTIONS)} (default: all)")
    titles = [choose(title, SECTIONS, "list", parser.prog) for title in parser.parse_args(argv).what]
    print(page(titles or list(SECTIONS), min(shutil.get_terminal_size().columns, WIDEST)))


def show_versions(argv: Sequence[str]) -> None:
    """The command line of `jaxvrp version`: the versions at once, and the devices when JAX has found them."""
    about = "Versions of jaxvrp, Python, jax and jaxlib, and the devices."
    QuickParser(prog="jaxvrp version", description=about, allow_abbrev=False).parse_args(argv)
    versions = {"jaxvrp": f"{package_version()}  ({ROOT})", "python": platform.python_version()}
    for name in ("jax", "jaxlib"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    for name, value in versions.items():
        print(f"{name:<8}{value}", flush=True)
    print(f"{'devices':<8}{devices()}")


def devices() -> str:
    """The devices that JAX finds: `1 x cpu`; or why it finds none."""
    try:
        import jax

        kinds = collections.Counter(f"{each.device_kind} ({each.platform})" for each in jax.devices())
    except (ImportError, RuntimeError) as error:
        return f"none: {' '.join(str(error).split())}"
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())

"""Answers that need no JAX: `jaxvrp list`, `jaxvrp version`, and mistakes in one line."""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import NoReturn

from jaxvrp_command.names import SECTIONS, Row
from jaxvrp_command.packages import ROOT, alone, package_version

WIDEST = 120
"""Columns; sentences are broken at the terminal's width, or here."""


def refuse(message: str) -> NoReturn:
    """End with a user's mistake: one line on stderr, and exit status 2."""
    print(f"error: {alone('jaxvrp.io.messages').printable(message)}", file=sys.stderr)
    raise SystemExit(2)


def choose(name: str, known: Iterable[str], what: str, program: str) -> str:
    """The typed name if it is known; else a mistake that suggests one, and the `program` whose `--help` lists them."""
    if name not in known:
        nearest = alone("jaxvrp.io.messages").nearest
        refuse(f"unknown {what} '{name}'; {nearest(name, list(known))}; see {program} --help")
    return name


class QuickParser(argparse.ArgumentParser):
    """As `jaxvrp.io.command_line.Parser`: no abbreviations, and a mistake is one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line, with where the options are listed."""
        refuse(f"{message}; see {self.prog} --help")


def page(titles: Sequence[str], width: int) -> str:
    """The sections of these titles, their columns aligned, in lines of at most so many characters."""
    sections = {title: SECTIONS[title] for title in titles}
    blocks = [[f"{title}  ({use})", *aligned(rows(), width)] for title, (use, rows) in sections.items()]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def aligned(rows: Sequence[Row], width: int) -> list[str]:
    """Lines with the first columns as wide as their widest cell, and the sentence broken beside them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for *cells, text in rows:
        head = "  " + "".join(f"{cell:<{cell_width}}  " for cell, cell_width in zip(cells, widths, strict=True))
        first, *rest = textwrap.wrap(text, max(width - len(head), 20)) or [""]
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    return lines


def list_names(argv: Sequence[str], about: str) -> None:
    """The command line of `jaxvrp list`."""
    parser = QuickParser(prog="jaxvrp list", description=about, allow_abbrev=False)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"some of {', '.join(SECTIONS)} (default: all)")
    titles = [choose(title, SECTIONS, "list", parser.prog) for title in parser.parse_args(argv).what]
    print(page(titles or list(SECTIONS), min(shutil.get_terminal_size().columns, WIDEST)))


def show_versions(argv: Sequence[str], about: str) -> None:
    """The command line of `jaxvrp version`: the versions at once, and the devices when JAX has found them."""
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

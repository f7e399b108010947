"""Answers that need no JAX: mistakes in one line, and options of the commands that are answered here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import NoReturn


def refuse(message: str) -> NoReturn:
    """End with a user's mistake: one line on stderr, and exit status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def choose(name: str, names: Iterable[str], what: str, program: str) -> str:
    """A name that is one of `names`; else a mistake that says which was probably meant.

    Args:
        name: as it was typed.
        names: that are known.
        what: they are, in the message.
        program: whose `--help` lists them.
    """
    names = list(names)
    if name in names:
        return name
    from jaxvrp.io.messages import nearest  # takes a second or more, and only who has mistyped waits

    refuse(f"unknown {what} '{name}'; {nearest(name, names)}; see {program} --help")


class QuickParser(argparse.ArgumentParser):
    """As `jaxvrp.io.command_line.Parser`: no abbreviations, and a mistake is one line."""

    def __init__(self, prog: str, description: str):
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line, with where the options are listed."""
        refuse(f"{message}; see {self.prog} --help")

"""Command lines whose mistakes are one line on stderr: parsers, types of arguments, and how a command ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of the signal."""


class UserError(Exception):
    """A mistake of the user's, as one line that names it and the remedy."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


class Interrupted(Exception):
    """The user stopped the command; the message says, as one line, what is safe and how to go on."""


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations; what it cannot read is a `UserError`."""

    def __init__(self, prog: str, description: str):
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UserError: the message, and where the options are listed.
        """
        raise UserError(f"{message}; see python -m {self.prog} --help")


def run_command(command: Callable[[], object], mistakes: tuple[type[Exception], ...] = ()) -> int:
    """Run a command and say in one line on stderr how it failed.

    Args:
        command: does all the work.
        mistakes: exceptions besides `UserError` and `OSError` that are the user's mistakes, told by their message.

    Returns:
        The exit status: 0, 2 after a mistake, `INTERRUPTED` after Ctrl-C.
    """
    try:
        command()
    except OSError as error:
        return _refused(f"cannot read or write '{error.filename}': {error.strerror}; give another path")
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print("interrupted; what was saved before is kept", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if not isinstance(error, (UserError, *mistakes)):
            raise
        return _refused(str(error))
    return 0


def _refused(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def positive(text: str) -> int:
    """A whole number above 0, as an argument type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def index(text: str) -> int:
    """A whole number from 0, as an argument type."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0")
    return int(text)


def above_zero(text: str, what: str = "number") -> float:
    """A finite number above 0, as an argument type; `what` names it in the message."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no {what} above 0")
    return value


def check_picture_path(path: Path, endings: Sequence[str]) -> None:
    """Find out early whether a picture (`--out`) can be written.

    Raises:
        UserError: another ending, or no such folder.
    """
    if path.suffix.lower() not in endings:
        raise UserError(f"--out is '{path}'; it must end in {', '.join(endings[:-1])} or {endings[-1]}")
    if not path.parent.is_dir():
        raise UserError(f"--out is '{path}', but there is no folder '{path.parent}'; make it first")

"""Command lines whose mistakes are one line on stderr: parsers, types of arguments, and how a command ends."""

from __future__ import annotations

import _thread
import argparse
import contextlib
import errno
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

from jaxvrp.io import streams
from jaxvrp.io.limits import LARGEST, LEAST
from jaxvrp.io.messages import out_of_memory, printable, shown
from jaxvrp.io.whole_files import try_to_write

LARGEST_INDEX = 2**32 - 1
"""Seeds have 32 bits."""

MOST_DIGITS = 100
"""Of a whole number; Python reads no more than 4 300 of them."""

AGAIN = 0.05
"""Seconds."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, or a request to terminate: 128 and the number of the first of these signals."""


PROGRAM_NAMES: ContextVar[Mapping[str, str]] = ContextVar("program_names", default={})  # noqa: B039 (never changed)
"""By module, the typed words that started a program, where these were not `python -m` and the module."""


def program_name(module: str) -> str:
    """The words that start a program that is a module: `python -m train.mappo`, or `jaxvrp train mappo`."""
    return PROGRAM_NAMES.get().get(module, f"python -m {module}")


class UserError(Exception):
    """A mistake of the user, as one line that names it and the remedy."""

    def __init__(self, message: str):
        super().__init__(printable(message))


class Interrupted(Exception):
    """The user stopped the command; the message says in one line what is saved and how to go on."""


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations that takes every option once; mistakes are a `UserError`."""

    def __init__(self, module: str, description: str):
        """A parser of the program that is `module`."""
        super().__init__(prog=program_name(module), description=description, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of `argparse`, whose `parse_args` calls it and would silently take the last of two values of an option.

        Raises:
            UserError: an option is given twice, whatever its name each time.
        """
        words = list(sys.argv[1:] if args is None else args)
        given: list[argparse.Action] = []
        for word in words:
            name = word.partition("=")[0]
            action = self._option_string_actions.get(name) or self._option_string_actions.get(word[:2])  # `-oFILE`
            if action in given:
                self.error(f"{'/'.join(action.option_strings)} is given twice; leave one of them out")
            given += [action] if action else []
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UserError: the message, and where the options are listed.
        """
        raise UserError(f"{message}; see {self.prog} --help")


def refuse_overwriting(out: Path, option: str, sources: Iterable[Path]) -> None:
    """Refuse to overwrite a file that the command reads: one of `sources`, also by a link, or in a folder among them.

    `option` is the one whose value is `out`.

    Raises:
        UserError: it is one of them.
    """
    for source in sources:
        within = source.is_dir() and out.exists() and source.resolve() in out.resolve().parents
        is_hard_link = out.exists() and source.exists() and out.samefile(source)
        if within or is_hard_link or out.resolve() == source.resolve():
            raise UserError(f"{option} is '{out}', which would take the place of '{source}'; choose another {option}")


def refuse_unwritable(out: Path, option: str) -> None:
    """Find out early whether a file, the value of an option, can be written.

    Raises:
        UserError: it is a folder, or there is no such folder, no room or no permission.
    """
    if out.is_dir():
        raise UserError(f"{option} {out}: this is a folder; give a file")
    if not out.parent.is_dir():
        raise UserError(f"{option} {out}: there is no folder {out.parent}; make it first")
    try:
        try_to_write(out)
    except OSError as error:
        raise UserError(f"{option} {out}: cannot write there: {error.strerror}; give another path") from None


def run_command(command: Callable[[], object], mistakes: tuple[type[Exception], ...] = ()) -> int:
    """Run a command and say in one line on stderr how it failed.

    Args:
        command: does all the work.
        mistakes: exceptions besides `UserError` and `OSError` that are mistakes of the user; their message is printed.

    Returns:
        The exit status: 0, 2 after a mistake, `INTERRUPTED` after Ctrl-C, and what `streams.finish` makes of it.
    """
    streams.protect()
    return streams.finish(_status_of(command, mistakes))


def _status_of(command: Callable[[], object], mistakes: tuple[type[Exception], ...]) -> int:
    try:
        with _interruptions_kept():
            command()
        return 0
    except SystemExit as end:  # of `argparse`, after help
        return int(end.code or 0)
    except Interrupted as stop:
        print(printable(stop), file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print("interrupted; what was saved before is kept, and the same command begins anew", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        message = _system_said(error)
    except Exception as error:
        known = str(error) if isinstance(error, (UserError, *mistakes)) else out_of_memory(error)
        if known is None:
            raise
        message = known
    print(f"error: {printable(message)}", file=sys.stderr)
    return 2


def _system_said(error: OSError) -> str:
    if error.filename is None and error.errno == errno.ENOENT:
        return "the working directory was removed; change to another one"  # nothing else lacks a name
    name = "a file" if error.filename is None else f"'{error.filename}'"
    return f"cannot read or write {name}: {error.strerror}; give another path"


@contextlib.contextmanager
def going_on(how: str) -> Iterator[None]:
    """Work that Ctrl-C ends in an `Interrupted`, which says what is kept and `how` to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {how}") from None


@contextlib.contextmanager
def _interruptions_kept() -> Iterator[None]:
    """A request to terminate acts like Ctrl-C; one that Python drops in garbage collection comes again a moment later.

    Commands that save what they have begun, such as trainings, have handlers of their own meanwhile.
    """
    previous = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            threading.Timer(AGAIN, _interrupt).start()
        else:
            previous(dropped)

    sys.unraisablehook = hook
    is_main = threading.current_thread() is threading.main_thread()  # only there, handlers can be set
    terminate = signal.signal(signal.SIGTERM, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        sys.unraisablehook = previous
        if is_main:
            signal.signal(signal.SIGTERM, terminate or signal.SIG_DFL)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Imports that Ctrl-C ends when they are done: in its middle, that of an extension crashes or blames itself."""
    requested: list[int] = []
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: requested.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if requested:
        raise KeyboardInterrupt


def _interrupt() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # ends what it waits for, too
    else:
        _thread.interrupt_main()


def positive(text: str) -> int:
    """A whole number above 0, as an argument type."""
    return _whole(text, 1, "above 0")


def index(text: str) -> int:
    """A whole number from 0, as an argument type."""
    return _whole(text, 0, "from 0")


def _whole(text: str, least: int, lower: str) -> int:
    """`lower` is the bound `least` in words."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or not least <= int(text) <= LARGEST_INDEX:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no whole number {lower}, up to {LARGEST_INDEX}")
    return int(text)


def above_zero(text: str, subject: str = "number") -> float:
    """A number above 0 that `float32` holds well, as an argument type; `subject` names it in the message."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not LEAST <= value <= LARGEST:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no {subject} above 0, from {LEAST:g} to {LARGEST:g}")
    return value


def check_picture_path(path: Path, endings: Sequence[str]) -> None:
    """Find out early whether a picture, the value of `--out`, can be written.

    Raises:
        UserError: another ending, or see `refuse_unwritable`.
    """
    if path.suffix.lower() not in endings:
        raise UserError(f"--out is '{path}'; it must end in {', '.join(endings[:-1])} or {endings[-1]}")
    refuse_unwritable(path, "--out")

"""Whether something was refused as it should be: the right exception, one line, raised on purpose."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jaxvrp.io.command_line import UserError, run_command
from jaxvrp.testing import ConformanceError
from tests.mutate.trial import OURS, Finding

LONGEST = 1_000
"""Characters of a message; what is longer buries what it says."""

REFUSALS = (UserError, ValueError, TypeError, OSError)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of a call: its value, or the line that it was refused with."""

    value: Any = None
    refusal: str | None = None


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Call something that may refuse what it is given; warnings about numbers count as errors.

    Raises:
        Finding: it failed in any other way.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return Outcome(function(*args, **kwargs))
    except Finding:
        raise
    except REFUSALS as error:
        if not isinstance(error, OSError):
            _check_raised_on_purpose(error)
        check_line(str(error))
        return Outcome(refusal=str(error))
    except Exception as error:
        raise Finding.of(error) from error


def _check_raised_on_purpose(error: Exception) -> None:
    """An error from inside of a library is of the right type by accident."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames[-1].filename.startswith(OURS):
        raise Finding.of(error, "not refused, but failed in a library") from error


def check_line(message: str) -> None:
    """Raise a Finding unless a message is one line of a decent length."""
    if "\n" in message.strip() or not message.strip():
        raise Finding("a message is not one line", message[:LONGEST])
    if len(message) > LONGEST:
        raise Finding(f"a message is longer than {LONGEST} characters", message[:LONGEST])


@dataclasses.dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def refusal(self) -> str | None:
        """The line that says why, if it was refused."""
        return self.stderr.splitlines()[-1] if self.status == 2 else None


def command(main: Callable[[Sequence[str]], object], argv: Sequence[str]) -> Ended:
    """Run a command line in this process, as its own entry does; `main` returns a status, or nothing.

    Raises:
        Finding: it left a traceback, ended with a status that means nothing, or refused in other than one line.
    """
    out, err, status = io.StringIO(), io.StringIO(), 0

    def run() -> None:
        nonlocal status
        status = main(argv) or 0

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            refused = run_command(run, (ConformanceError,))
        except Finding:
            raise
        except Exception as error:
            raise Finding.of(error) from error
    ended = Ended(refused or status, out.getvalue(), err.getvalue())
    _check_ended(ended)
    return ended


def _check_ended(ended: Ended) -> None:
    details = f"status {ended.status}\n{ended.stdout[-LONGEST:]}\n{ended.stderr[-LONGEST:]}"
    if "Traceback" in ended.stderr:
        raise Finding("a traceback on stderr", details)
    if ended.status not in (0, 2, 130):
        raise Finding(f"exit status {ended.status}", details)
    if ended.status == 2:
        errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
        if len(errors) != 1 or not ended.stderr.splitlines()[-1].startswith("error: "):
            raise Finding("refused in other than one line", details)
        if "cannot read or write a file: " in errors[0]:
            raise Finding("refused without the name of the file", details)
        check_line(errors[0])

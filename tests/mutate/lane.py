"""A subject in a process of its own: a hang, a crash or a death there is a finding, and the next case goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally


@dataclasses.dataclass(frozen=True)
class Entry:
    """A subject that can be tried.

    Attributes:
        path: dotted, of its class.
        share: of the time, relative to the others.
        patience: seconds after which a case hangs.
    """

    path: str
    share: float
    patience: float


SUBJECTS = {
    "kills": Entry("tests.mutate.subjects.kills:Kills", 3.0, 900.0),
    "run_folders": Entry("tests.mutate.subjects.run_folders:RunFolders", 1.5, 300.0),
    "configurations": Entry("tests.mutate.subjects.configurations:Configurations", 1.0, 300.0),
    "parameters": Entry("tests.mutate.subjects.parameters:Parameters", 1.0, 120.0),
    "actions": Entry("tests.mutate.subjects.actions:Actions", 1.0, 180.0),
    "problem_files": Entry("tests.mutate.subjects.problem_files:ProblemFiles", 1.0, 60.0),
    "results": Entry("tests.mutate.subjects.results:Results", 1.0, 60.0),
    "episode_files": Entry("tests.mutate.subjects.episode_files:EpisodeFiles", 0.7, 60.0),
}
"""By name; the longest first, so that all end together."""

PREPARATION = 600.0
"""Seconds that a subject may take before its first case."""

MEMORY_SHARE = 0.75
"""Of the machine's memory, that one process may ask for: what asks for more must be refused before."""

PRELOADED = ("tests.mutate.preload",)

ROOT = Path(__file__).parents[2]
"""Where this package is found."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Of one case that was tried, or of the preparation (`number` -1).

    Attributes:
        number: of the case.
        tally: what was done.
        finding: kind and details of what was found; None for nothing.
    """

    number: int
    tally: Tally = NOTHING
    finding: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True)
class Order:
    """What a lane is to do.

    Attributes:
        subject: its name, by which cases are drawn.
        entry: where it is.
        seed: of the cases.
        folder: for scratch files and the folders of cases.
        seconds: after which no new case begins.
        first: number of the first case.
        last: number of the last; None for no end.
    """

    subject: str
    entry: Entry
    seed: int
    folder: Path
    seconds: float
    first: int = 0
    last: int | None = None


def _load(entry: Entry) -> type[Subject]:
    module, _, attribute = entry.path.partition(":")
    return getattr(importlib.import_module(module), attribute)


class OutOfPatience(BaseException):
    """A case takes too long; no `except Exception` swallows it."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise OutOfPatience

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def try_case(subject: Subject, case: Case, patience: float) -> Report:
    """Try a case in its own folder, which is left only if something is found."""
    case.folder.mkdir(parents=True)
    os.chdir(case.folder)
    tally, found = NOTHING, None
    try:
        with _limited(patience):
            tally = subject.attempt(case)
    except OutOfPatience as error:
        hung = Finding.of(error)
        found = Finding(f"no end after {patience:g} s: {hung.kind}", hung.details)
    except Finding as finding:
        found = finding
    except Exception as error:
        found = Finding.of(error)
    os.chdir(subject.scratch)
    if found is None:
        shutil.rmtree(case.folder, ignore_errors=True)
    return Report(case.number, tally, None if found is None else (found.kind, found.details))


def _serve(pipe: Connection, order: Order) -> None:
    """What runs in the process: reports of the preparation, and of one case after the other."""
    began = time.monotonic()
    _settle(order)
    kind = _load(order.entry)
    scratch = order.folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    os.chdir(scratch)
    subject = kind(scratch)
    pipe.send(Report(-1))
    number = order.first
    while order.last is None or number <= order.last:
        if number > order.first and time.monotonic() - began > order.seconds:
            break
        pipe.send(number)
        case = Case(order.subject, order.seed, number, order.folder / str(number))
        pipe.send(try_case(subject, case, order.entry.patience))
        number += 1
    pipe.send(None)


def _settle(order: Order) -> None:
    """Nothing of this process is seen, Ctrl-C is the parent's, memory is limited, programs are compiled quickly."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order.folder.mkdir(parents=True, exist_ok=True)
    log = os.open(order.folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    # A server that this process starts looks for what it preloads in its working folder, and goes on without.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    allowed = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import jax

    warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
    jax.config.update("jax_disable_most_optimizations", True)


class Lane:
    """The parent's end of a subject's process.

    Attributes:
        order: what it is to do.
        began: when, by the monotonic clock.
        is_over: whether it has ended.
    """

    def __init__(self, order: Order):
        self.order, self.began, self.is_over = order, time.monotonic(), False
        self._start(order.first)

    def _start(self, first: int) -> None:
        # Forked from a server that has imported everything and begun nothing: starting takes no time.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        remaining = self.order.seconds - (time.monotonic() - self.began)
        order = dataclasses.replace(self.order, first=first, seconds=remaining)
        self.pipe, child_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(child_end, order), name=self.order.subject)
        self._process.start()
        child_end.close()
        self._number, self._since = -1, time.monotonic()

    def poll(self) -> Iterator[Report]:
        """What was reported since the last call; a process that died or hangs is replaced."""
        try:
            while not self.is_over and self.pipe.poll():
                yield from self._received(self.pipe.recv())
        except (EOFError, OSError):
            yield from self._died("died")
        limit = PREPARATION if self._number < 0 else 2 * self.order.entry.patience + 10.0
        if not self.is_over and time.monotonic() - self._since > limit:
            yield from self._died(f"hangs in native code: no end after {limit:g} s")

    def _received(self, message: Report | int | None) -> Iterator[Report]:
        if message is None:
            self.is_over = True
            self.stop()
        elif isinstance(message, int):
            self._number, self._since = message, time.monotonic()
        elif message.number >= 0:
            yield message

    def _died(self, how: str) -> Iterator[Report]:
        number = self._number
        self.stop()
        log = (self.order.folder / "log.txt").read_text(errors="replace")[-4000:]
        when = "in the preparation" if number < 0 else "in a case"
        yield Report(max(number, self.order.first), finding=(f"{how} {when} ({self._exit})", log))
        spent = time.monotonic() - self.began > self.order.seconds
        if number < 0 or spent or number == self.order.last:
            self.is_over = True
        else:
            self._start(number + 1)

    def stop(self) -> None:
        """End the process."""
        self._process.join(5.0 if self.is_over else 0.5)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._exit = f"exit code {self._process.exitcode}"
        self._process.close()
        self.pipe.close()


def scratch_folder() -> tempfile.TemporaryDirectory:
    """For the folders of all lanes; gone with everything in it when it is closed."""
    return tempfile.TemporaryDirectory(prefix="mutate_", ignore_cleanup_errors=True)

"""Several processes of one run notice when one of them is gone, and stop, instead of waiting for it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterator

import jax

from train.running.folder.checkpoint import Checkpoints
from train.running.folder.run_folder import CHECKPOINTS

BEAT = 2.0
"""Seconds between two signs of life."""

SILENCE = 30.0
"""Seconds without a sign of life after which a process counts as gone; JAX aborts after 100."""

SIGN, ENDED = ".alive_", "ended"
"""The names of signs of life begin so; the sign of a process that has ended well."""


@contextlib.contextmanager
def together(folder: pathlib.Path) -> Iterator[None]:
    """Give signs of life in a run folder that all processes share, and stop this process when another gives none.

    A process that is gone leaves all others waiting inside a collective operation, which Python cannot interrupt; so a
    thread says in one line what is kept, and ends the process with status 2. A single process is not watched.
    """
    if jax.process_count() == 1:
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder, stop), daemon=True)
    thread.start()
    try:
        yield
        stop.set()
        thread.join()
        with contextlib.suppress(OSError):
            _sign(folder, jax.process_index()).write_text(ENDED)
    finally:
        stop.set()


def _sign(folder: pathlib.Path, process: int) -> pathlib.Path:
    return folder / f"{SIGN}{process}"


def _read(folder: pathlib.Path, process: int) -> str:
    try:
        return _sign(folder, process).read_text()
    except OSError:
        return ""


def _watch(folder: pathlib.Path, stop: threading.Event) -> None:
    mine = jax.process_index()
    peers = [process for process in range(jax.process_count()) if process != mine]
    # Signs of an earlier run may be there: a process is watched from its first new one.
    first = {process: _read(folder, process) for process in peers}
    seen: dict[int, tuple[str, float]] = {}
    while not stop.wait(BEAT):
        with contextlib.suppress(OSError):
            _sign(folder, mine).write_text(f"{os.getpid()} {time.time_ns()}")
        now = time.monotonic()
        for process in peers:
            sign = _read(folder, process)
            if sign not in (first[process], seen.get(process, ("",))[0]):
                seen[process] = sign, now
            if process in seen and seen[process][0] != ENDED and now - seen[process][1] > SILENCE:
                _leave(folder, process)


def _leave(folder: pathlib.Path, gone: int) -> None:
    update = Checkpoints(folder / CHECKPOINTS, read_only=True).latest
    kept = "there is no checkpoint yet; start anew" if update is None else f"the checkpoint of update {update} is kept"
    remedy = "" if update is None else f"; start all processes again with --resume {folder}"
    print(f"\nerror: process {gone} of {jax.process_count()} is gone; {kept}{remedy}", file=sys.stderr, flush=True)
    os._exit(2)

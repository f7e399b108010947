"""One training process per run folder: a lock that ends with its process, and a note of the process."""

from __future__ import annotations

import contextlib
import datetime
import errno
import importlib.util
import json
import os
import pathlib
import socket
import sys
from collections.abc import Iterator

from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import warn
from jaxvrp.io.whole_files import naming

HAS_LOCKS = importlib.util.find_spec("fcntl") is not None
"""Windows has none of this kind."""

if HAS_LOCKS:
    import fcntl

LOCK = ".lock"

FREE, ACCESS = (errno.ENOSPC, errno.EDQUOT), (errno.EACCES, errno.EPERM, errno.EROFS)
REMEDIES = dict.fromkeys(FREE, "free some space") | dict.fromkeys(ACCESS, "give yourself access to it")
REMEDIES[errno.EIO] = "look at that disk, or take another one"
"""What to do about an error of the system, by its number."""

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system without locks answers."""


def cannot(verb: str, error: OSError, path: pathlib.Path) -> str:
    """`cannot write FILE: No space left on device; free some space`; FILE is `path` if the error names none."""
    remedy = REMEDIES.get(error.errno or 0, "mend that")
    return f"cannot {verb} {error.filename or path}: {error.strerror or error}; {remedy}"


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Hold the lock of a run folder, so that no second process trains in it.

    The lock of a process that is gone (killed, say) is taken over, which is said on stderr. Where the system has no
    locks, nothing is locked.
    """
    if not HAS_LOCKS:
        yield
        return
    path = folder / LOCK
    with contextlib.ExitStack() as held:
        try:
            with naming(path):
                if (file := _acquired(path)) is not None:
                    held.callback(_release, path, file)
                    _take_note(path, file)
        except OSError as error:
            raise UserError(cannot("write", error, path)) from None
        yield


def _acquired(path: pathlib.Path) -> int | None:
    """The open file of a lock that this process holds from now on; None, after a warning, where there are no locks."""
    while True:
        with contextlib.ExitStack() as opened:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            opened.callback(os.close, file)
            if not _lock(file, path.parent):
                return None
            if _is_at(path, file):  # else the process that had it has just ended, and removed it
                opened.pop_all()
                return file


def _lock(file: int, folder: pathlib.Path) -> bool:
    """Lock an open file, unless its file system has no locks; a warning says so."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _noted(file) or "another process"
        raise UserError(
            f"{folder} is in use by {holder}; wait for its end, stop it, or take another run folder"
        ) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn(f"cannot lock {folder}: {error.strerror}; train in it once at a time")
        return False
    return True


def _release(path: pathlib.Path, file: int) -> None:
    with contextlib.suppress(OSError):
        if _is_at(path, file):  # its folder may have been removed, or renamed, and another one made
            path.unlink()
    os.close(file)


def _is_at(path: pathlib.Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _take_note(path: pathlib.Path, file: int) -> None:
    """Note this process in the lock that it holds, and say whose it was."""
    if os.fstat(file).st_size:
        print(f"took over {path} of {_noted(file) or 'an unknown process'}, which is gone", file=sys.stderr)
    since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    note = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(note).encode(), 0)


def _noted(file: int) -> str | None:
    """The process that an open lock names; None if it names none, or the note is damaged."""
    try:
        note = json.loads(os.pread(file, 1000, 0))
        holder = f"process {note['pid']} on {note['host']}, since {note['since']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return holder if holder.isprintable() else None

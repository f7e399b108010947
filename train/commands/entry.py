"""How every command line begins and ends: compiled programs are kept, and a user's mistake is one line."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from jaxvrp.io.command_line import INTERRUPTED, UserError, importing, run_command
from jaxvrp.io.messages import warn

MOST_BYTES = 2 * 10**9
"""Of compiled programs in a user's home directory."""

WHOLE_LOOPS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4194304"
"""A flag of XLA: on a CPU, loops that move at most 4 MB a turn are one kernel each, not a kernel for each operation."""


def entry(main: Callable[[], None], *, searches: bool = False) -> NoReturn:
    """Run a command line: a user's mistake is one line on stderr and exit status 2, Ctrl-C 130; programs are kept.

    A warning of what was read is one line, too. Loops of a command line that `searches` are compiled as `WHOLE_LOOPS`
    says: a search changes few plans at a time, so that starting kernels takes most of its time.
    """
    if searches:
        prefer_whole_loops()
    leave(run_command(lambda: _run(main)))


def prefer_whole_loops() -> None:
    """Ask for `WHOLE_LOOPS`, before JAX compiles its first program; options of this kind that a user gives stay."""
    flags = os.environ.get("XLA_FLAGS", "")
    if WHOLE_LOOPS.partition("=")[0] not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {WHOLE_LOOPS}".strip()


def training(algorithm: str) -> Callable[..., None]:
    """The command line of an algorithm, `train.commands.launch.main`, which is imported when it is called.

    The imports take a second, in which `entry` already sees to Ctrl-C.
    """

    def main(argv: Sequence[str] | None = None) -> None:
        with importing():
            from train.commands import launch

        launch.main(algorithm, argv)

    return main


def _run(main: Callable[[], None]) -> None:
    with importing():
        import jax

        from jaxvrp.testing import ConformanceError

    warnings.showwarning = lambda message, *place: warn(message)
    jax.config.update("jax_compilation_cache_dir", folder := program_cache())
    if folder and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        make_room(folder)
    # Many small programs take as long as a large one.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # A cache that cannot be written, on a full disk say, costs time alone.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    try:
        main()
    except ConformanceError as error:
        raise UserError(str(error)) from None


def leave(status: int) -> NoReturn:
    """End this process; after an interruption at once: JAX crashes if it is taken down in the middle of its work.

    Not where other processes wait for the end of this one.
    """
    jax = sys.modules.get("jax")  # not there if its import was interrupted
    if status == INTERRUPTED and not (jax and jax.distributed.is_initialized()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be full, closed, or none
                stream.flush()
        os._exit(status)
    sys.exit(status)


def program_cache() -> str | None:
    """The folder that keeps compiled programs; None where nobody has named one and the user has no home directory."""
    home = os.path.expanduser("~")
    default = os.path.join(home, ".cache", "jaxvrp") if os.path.isabs(home) else None
    return os.environ.get("JAX_COMPILATION_CACHE_DIR", default)


def make_room(folder: str, most: int = MOST_BYTES) -> None:
    """Remove the programs that were used longest ago from a folder with more than so many bytes, down to half of that.

    JAX could do so itself, but looks at all files for each program that it writes, of which a first start has hundreds.
    """
    try:
        files = [(file.stat(), file.path) for file in os.scandir(folder) if file.is_file()]
    except OSError:
        return  # there is none yet, or another process makes room
    kept = sum(found.st_size for found, _ in files)
    if kept <= most:
        return
    for found, path in sorted(files, key=lambda file: max(file[0].st_atime, file[0].st_mtime)):
        if kept <= most // 2:
            return
        kept -= found.st_size
        with contextlib.suppress(OSError):
            os.unlink(path)

"""Checkpoints: the whole training state, the latest and the best. The only file that imports orbax.

A checkpoint is a folder that is named by its update. It gets that name last, when all of it is on the disk: the
arrays, of which one has been read back, and `contents.json`, which says what they are, with checksums, and with which
configuration they were learned.
A run that is killed during a save has the checkpoint before, and a folder `.partial-UPDATE` that the next start
removes. Damage, or another configuration, is found before any array is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import gc
import hashlib
import json
import logging
import math
import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxvrp.io.arrays import bytes_of
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import LARGEST_JSON
from jaxvrp.io.messages import cut, shown
from jaxvrp.io.whole_files import naming, read_bytes, write_json
from train.run.lock import cannot

CONTENTS = "contents.json"
VERSION = 1
"""Of the folder's layout and of `contents.json`."""

PARTIAL = ".partial-"
"""What the names of incomplete checkpoints begin with."""

BESIDE_ARRAYS = 2**24
"""Bytes of a checkpoint that are no arrays; it has fewer."""

STATE = "state"
"""The subfolder that orbax writes the arrays into."""

PLAIN = re.compile(r"[\w ./+-]*", re.ASCII)
"""Paths that orbax and tensorstore take as they are; of others some mean a pattern, a bucket or another folder."""

READ_BACK = 2**20
"""Bytes of the largest array that is read back after a save."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """What `contents.json` says."""

    evaluated_return: float | None  # on the fixed instances; None if it was not evaluated, or is not finite
    # algorithm and configuration of the run, see `train.run.resume.RecordedRun.values`
    configuration: dict[str, Any]
    arrays: dict[str, str]  # type and shape, by place in the state
    files: dict[str, str]  # checksums, by path relative to the checkpoint
    version: int = VERSION

    @property
    def is_sound(self) -> bool:
        """Whether its parts are of the right types, and its return is finite."""
        are_mappings = all(isinstance(part, dict) for part in (self.configuration, self.arrays, self.files))
        return are_mappings and (self.evaluated_return is None or math.isfinite(self.evaluated_return))


class Checkpoints:
    """The checkpoints of one run, by update.

    With several processes each makes and calls it alike; process 0 gives the names.
    """

    def __init__(self, folder: pathlib.Path, *, read_only: bool = False):
        """List what is there; unless `read_only`, make the folder, and remove what killed runs left."""
        for chatty in ("absl", "asyncio"):  # asyncio: a traceback for every array of a damaged checkpoint
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        _silence_closed_event_loops()
        # After a failure, threads of orbax drop the writes that they had not begun, some time; they cannot be awaited.
        warnings.filterwarnings("ignore", "coroutine 'async_serialize_from_host", RuntimeWarning)
        self.folder = folder.absolute()
        try:
            if not read_only and jax.process_index() == 0:
                self.folder.mkdir(parents=True, exist_ok=True)
                for path in self.folder.glob(f"{PARTIAL}*"):
                    shutil.rmtree(path)
            updates = self._complete()
        except OSError as error:
            raise UserError(cannot("read" if read_only else "write", error, self.folder)) from None
        if not read_only:
            multihost_utils.sync_global_devices("checkpoints: folder")
        self._returns = {update: self._read_contents(update).evaluated_return for update in updates}

    @property
    def latest(self) -> int | None:
        """Update of the newest one."""
        return max(self._returns, default=None)

    @property
    def best(self) -> int | None:
        """Update of the one with the highest evaluated return; the latest, if none was evaluated."""
        evaluated = {update: value for update, value in sorted(self._returns.items()) if value is not None}
        return max(evaluated, key=lambda update: evaluated[update]) if evaluated else self.latest

    @property
    def kept(self) -> int | None:
        """Update of the newest one that is on the disk now; other processes may have removed some."""
        try:
            return max(self._complete(), default=None)
        except OSError:  # the folder cannot be listed
            return self.latest

    def find(self, name: str) -> int:
        """Update of the `latest` or the `best`."""
        update = self.best if name == "best" else self.latest
        if update is None:
            raise UserError(f"{self.folder} holds no complete checkpoint; train anew, in another --run_dir")
        return update

    def configuration(self, update: int) -> dict[str, Any]:
        """Algorithm and configuration of the run when it wrote a checkpoint."""
        return self._read_contents(update).configuration

    def save(self, update: int, state: Any, evaluated_return: float | None, configuration: dict[str, Any]) -> None:
        """Write a checkpoint of a pytree, then drop those that are neither the latest nor the best; see `Contents`.

        After an OSError those before it are kept.
        """
        self.folder.stat()  # orbax would make the folder of a run again that was removed or renamed
        partial = self.folder / f"{PARTIAL}{update}"
        with _plain(self.folder) as plain, naming(partial, plain / partial.name):
            _write_arrays(state, plain / partial.name)
            _check_one_array(state, plain / partial.name)
        if evaluated_return is not None and not math.isfinite(evaluated_return):
            evaluated_return = None
        if jax.process_index() == 0:
            contents = Contents(evaluated_return, configuration, _described(state), _checksums(partial))
            with naming(self.folder / str(update)):
                write_json(partial / CONTENTS, dataclasses.asdict(contents))
                self._give_name(partial, update)
        self._returns[update] = evaluated_return
        self._returns = {kept: self._returns[kept] for kept in {self.latest, self.best} if kept is not None}
        if jax.process_index() == 0:
            for path in self.folder.iterdir():
                if _is_update(path) and int(path.name) not in self._returns:
                    self._remove(path)
        multihost_utils.sync_global_devices("checkpoints: saved")

    def load(self, like: Any, update: int | None = None) -> Any:
        """Read one (the latest by default) with the structure, shapes and shardings of `like`."""
        update = self.find("latest") if update is None else update
        # Not left to orbax: it drops the reads of a checkpoint that does not fit half-way, which raise when collected.
        if fault := self._fault(update, like):
            raise self._unusable(update, f" ({fault})")
        try:
            with _plain(self.folder) as plain:
                state = _read_arrays(jax.tree.map(_abstract, like), plain / str(update))
        except Exception as error:  # orbax and tensorstore raise all kinds
            raise self._unusable(update, "") from error
        if difference := _difference(_described(state), _described(like)):
            raise self._unusable(update, f" ({difference})")
        return state

    def _complete(self) -> list[int]:
        """Updates of the folders that hold a checkpoint; one without `contents.json` is none."""
        paths = list(self.folder.iterdir()) if self.folder.exists() else []
        return sorted(int(path.name) for path in paths if _is_update(path) and (path / CONTENTS).is_file())

    def _read_contents(self, update: int) -> Contents:
        path = self.folder / str(update) / CONTENTS
        try:
            values = json.loads(read_bytes(path, LARGEST_JSON))
            version = values.get("version")
            contents = Contents(**values) if version == VERSION else None
            if contents is not None and not contents.is_sound:
                raise ValueError
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            raise self._unusable(update, f" ({CONTENTS} was changed)") from None
        except OSError as error:
            raise self._unreadable(update, error) from None
        if contents is None:
            raise UserError(
                f"another version of this program wrote {path.parent}: its {CONTENTS} has version {shown(version)}, "
                f"not {VERSION}; use that version, or train anew in another --run_dir"
            )
        return contents

    def _fault(self, update: int, like: Any) -> str | None:
        """Why a checkpoint cannot be read into `like`; None if it can."""
        contents, folder = self._read_contents(update), self.folder / str(update)
        try:
            if odd := _odd_file(folder, contents.files, 2 * bytes_of(like) + BESIDE_ARRAYS):
                return odd
            found = _checksums(folder)
        except OSError as error:
            raise self._unreadable(update, error) from None
        for name, checksum in contents.files.items():
            if found.get(name) != checksum:
                return f"{cut(name, 80)} is missing or was changed"
        return _difference(contents.arrays, _described(like))

    def _unreadable(self, update: int, error: OSError) -> UserError:
        if isinstance(error, FileNotFoundError):
            return self._unusable(update, "")
        return UserError(cannot("read", error, self.folder / str(update)))

    def _unusable(self, update: int, reason: str) -> UserError:
        if not (self.folder / str(update)).is_dir():
            return UserError(f"the checkpoint of update {update} was dropped meanwhile: the run goes on; try again")
        older = [other for other in self._complete() if other < update]
        remedy = f"delete that folder to go on from update {max(older)}" if older else "start anew in another --run_dir"
        return UserError(
            f"cannot read checkpoint {self.folder / str(update)}: it is damaged or of another configuration"
            f"{reason}; if config.yaml was changed, undo that, else {remedy}"
        )

    def _give_name(self, partial: pathlib.Path, update: int) -> None:
        """Let a complete folder become a checkpoint; all of it is on the disk before."""
        for path in (partial, *partial.rglob("*")):
            _flush(path)
        named = self.folder / str(update)
        if named.exists():  # without contents, so no checkpoint
            self._remove(named)
        partial.rename(named)
        _flush(self.folder)

    def _remove(self, folder: pathlib.Path) -> None:
        """Take its name from a folder, then delete it: half of a checkpoint is never taken for one."""
        shutil.rmtree(folder.rename(self.folder / f"{PARTIAL}{folder.name}.removed"))


def _is_update(path: pathlib.Path) -> bool:
    return re.fullmatch("[1-9][0-9]*", path.name) is not None and path.is_dir()


@contextlib.contextmanager
def _plain(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A path of the folder that has no sign with a meaning: its own, or that of a link to it."""
    if PLAIN.fullmatch(str(folder)):
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        link = pathlib.Path(place) / "checkpoints"
        link.symlink_to(folder, target_is_directory=True)
        yield link


def _read_arrays(abstract: Any, folder: pathlib.Path) -> Any:
    """Read the arrays of a checkpoint that a tree has; a leaf that is None is not read."""
    from orbax.checkpoint import v1 as ocp  # takes a fifth of a second, and few commands need it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Orbax would refuse a field that is None and newer than the checkpoint; arrays were compared already.
        loading = ocp.options.PyTreeOptions.Loading(partial_load=True)
        with ocp.Context(pytree_options=ocp.options.PyTreeOptions(loading=loading)):
            return ocp.load(folder, abstract, checkpointable_name=STATE)


def _check_one_array(state: Any, folder: pathlib.Path) -> None:
    """Read an array back, the largest of few bytes; an OSError, if it is not what was written."""
    leaves, structure = jax.tree.flatten(state)
    written = max(leaves, key=lambda leaf: leaf.nbytes if leaf.nbytes <= READ_BACK else -leaf.nbytes)
    only = [_abstract(leaf) if leaf is written else None for leaf in leaves]
    try:
        read = jax.tree.leaves(_read_arrays(jax.tree.unflatten(structure, only), folder))
    except Exception:  # orbax and tensorstore raise all kinds
        read = []
    if [_bytes_here(leaf) for leaf in read] != [_bytes_here(written)]:
        raise OSError(errno.EIO, "what was written there cannot be read back", str(folder))


def _abstract(leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _bytes_here(leaf: jax.Array) -> list[bytes]:
    """Those of an array that are on the devices of this process."""
    numbers = jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return [np.asarray(part.data).tobytes() for part in numbers.addressable_shards]


def _write_arrays(state: Any, folder: pathlib.Path) -> None:
    """Write arrays with orbax, into a new folder or in place of an old one."""
    from orbax.checkpoint import v1 as ocp

    # In a thread, a folder that cannot be made would be waited for by the others, for minutes, at the end too.
    options = ocp.options.AsyncOptions(create_directories_asynchronously=False)
    failure = None
    with ocp.Context(async_options=options):
        try:
            ocp.save(folder, state, checkpointable_name=STATE, overwrite=True)
        except (OSError, ValueError) as error:
            code = re.search(r"os_error_code='(\d+)'", str(error))  # of tensorstore
            number = int(code[1]) if code else getattr(error, "errno", None)
            if number is None:
                raise
            failure = OSError(number, os.strerror(number), str(folder))
    if failure:  # raised here, it does not hold the exception of orbax, and with that its coroutines
        gc.collect()
        raise failure


@functools.cache
def _silence_closed_event_loops() -> None:
    """From here on, no traceback of an array whose write or read ends after orbax has closed its event loop.

    It does so when another one has failed. Each of the rest gets a RuntimeError that cannot be caught.
    """
    report = sys.unraisablehook

    def report_others(failure: Any) -> None:
        if not (isinstance(failure.exc_value, RuntimeError) and str(failure.exc_value) == "Event loop is closed"):
            report(failure)

    sys.unraisablehook = report_others


def _flush(path: pathlib.Path) -> None:
    """Have a file, or the names in a folder, written to the disk, so that they outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _odd_file(folder: pathlib.Path, names: Collection[str], largest: int) -> str | None:
    """What orbax must not open, as it could be endless: what is no file, or none of `names`, or has more bytes."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name == CONTENTS:
            continue
        if not path.is_file():
            return f"{name} is no file"
        if name not in names and not path.name.startswith("."):  # file managers leave such files
            return f"{name} was added"
        if path.stat().st_size > largest:
            return f"{name} is larger than its arrays"
    return None


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """By file, relative to the folder."""
    checksums = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CONTENTS:
            with path.open("rb") as file:
                checksums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "blake2b").hexdigest()
    return checksums


def _described(state: Any) -> dict[str, str]:
    """Type and shape of every leaf, by its place."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(where): f"{leaf.dtype}{list(leaf.shape)}" for where, leaf in leaves}


def _difference(written: dict[str, str], wanted: dict[str, str]) -> str | None:
    """The first leaf that is not the same in both."""
    for name in {**wanted, **written}:
        if written.get(name) != wanted.get(name):
            found = cut(str(written.get(name, "not there")))
            return f"{cut(name, 80)} is {found}, this run has {wanted.get(name, 'no such thing')}"
    return None

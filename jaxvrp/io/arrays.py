"""Problems as arrays by a schema: checked, padded, stacked, and kept in `.npz` files, written whole and read exactly.

A problem is a dataclass of arrays. Its schema says of each field what its first axis counts (nodes, vehicles, pins), so
that problems of several sizes can be padded to one. Leading axes before that make a batch.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.io.limits import LARGEST, LARGEST_WHOLE
from jaxvrp.io.messages import few, in_words, printable
from jaxvrp.io.problems.problem_files import DamagedFileError, UnknownFormatError
from jaxvrp.io.whole_files import UnreadableError, read_bytes, write_whole

Problem = TypeVar("Problem")

STORED = {float: np.float64, int: np.int32, bool: np.bool_}
"""Dtypes of problems as NumPy arrays, by kind of number."""

COMPUTED = {float: jnp.float32, int: jnp.int32, bool: jnp.bool_}
"""Dtypes that environments compute with."""

READ_HEADER = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
"""By version of the format of an array in a file."""

LARGEST_ARRAYS = 2**26
"""Bytes of all arrays of a file of problems, and of the file."""

MOST_PROBLEMS = 10_000
"""Of a file: each is checked by itself."""

MOST_ARRAYS = 1_000
"""Of a file."""

MEMBER = b"PK\x01\x02"
"""Stands before each entry of the table of contents of a `.zip`."""

LONGEST_HEADER = 2**14
"""Bytes of the header of an array."""

FAMILY = {float: "f", int: "iu", bool: "b"}
"""The kinds of dtypes (`numpy.dtype.kind`) that a file may have, by kind of number; spans of time are no integers."""


@dataclasses.dataclass(frozen=True)
class ArrayField:
    """The shape, kind and padding of one array of a problem."""

    axis: str | None = None  # what its first axis counts, such as `"nodes"`; None if it has no such axis
    inner: tuple[int | str, ...] = ()  # lengths of the axes behind it, or what they count
    kind: type = float  # of the numbers: `float`, `int` or `bool`
    padding: float | Literal["first row"] = 0.0  # the value of added rows; `"first row"`: they repeat the first one
    optional: bool = False  # a problem may be without it; `schema_of` such a problem leaves it out
    origin: str | None = None  # what it counts from, such as `"clock"` or `"map"`; None if from nothing, as durations

    @property
    def axes(self) -> tuple[int | str, ...]:
        """Length of each axis of a single problem, or what it counts."""
        return self.inner if self.axis is None else (self.axis, *self.inner)


Schema = Mapping[str, ArrayField]
"""By name, in the order of the dataclass's fields."""


def schema_of(schema: Schema, problem: object) -> Schema:
    """The fields that a problem has: all but the optional ones that are None in it."""
    return {
        name: field for name, field in schema.items() if not (field.optional and getattr(problem, name, None) is None)
    }


# --- checking -------------------------------------------------------------------------------------------------------


def number_arrays(values: Mapping[str, ArrayLike], subject: str) -> dict[str, np.ndarray]:
    """`float64` arrays of numbers or sequences of any kind; `subject` names the problem in the message, as `"a board"`.

    Raises:
        ValueError: a value is no array of numbers.
    """
    try:
        arrays = {name: np.asarray(value) for name, value in values.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{subject} needs arrays of numbers: {error}") from None
    for name, array in arrays.items():
        # Other kinds would be converted: texts that are numbers, dates to days, complex numbers to their real parts.
        if array.dtype.kind not in "biuf" and array.size:
            raise ValueError(f"{subject} needs arrays of numbers: {name} holds {array.dtype}")
    return {name: np.asarray(array, np.float64) for name, array in arrays.items()}


def stored_arrays(schema: Schema, arrays: Mapping[str, np.ndarray], fraction: str) -> dict[str, np.ndarray]:
    """New arrays of those fields of one problem that are given, in the dtypes that are stored.

    `fraction` ends the message about numbers that are not whole.

    Raises:
        ValueError: a field of whole numbers or flags holds something else; a number is too large.
    """
    schema = {name: field for name, field in schema.items() if name in arrays}
    check_numbers(schema, arrays)
    for name, field in schema.items():
        whole = np.isfinite(arrays[name]) & (arrays[name] == np.round(arrays[name]))
        if field.kind is not float and not whole.all():
            raise ValueError(f"{name} {fraction}")
    return {name: np.array(arrays[name], STORED[field.kind]) for name, field in schema.items()}


def check_numbers(schema: Schema, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse numbers that are too large to be computed with; infinite values and NaN are allowed here.

    Raises:
        ValueError: one line with the field and the number.
    """
    for name, field in schema.items():
        # Of 64 bits: compared with it, numbers are converted piece by piece, not all at once.
        largest = np.float64(LARGEST if field.kind is float else LARGEST_WHOLE + 1)
        array = np.asarray(arrays[name])
        too_large = np.isfinite(array) & ((array >= largest) | (array <= -largest))
        if too_large.any():
            raise ValueError(f"{name} holds {array[too_large][0]:g}; numbers must be below {largest:g} in size")


def check_shapes(schema: Schema, problem: object, counts: Mapping[str, int]) -> None:
    """Check the shapes of one problem, without leading axes; `counts` has the length of each counted axis.

    Raises:
        ValueError: a field has another shape.
    """
    for name, field in schema_of(schema, problem).items():
        shape = tuple(counts[axis] if isinstance(axis, str) else axis for axis in field.axes)
        if np.shape(getattr(problem, name)) != shape:
            raise ValueError(f"{name} has shape {np.shape(getattr(problem, name))}; it needs {shape}")


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays of a pytree, or of `jax.ShapeDtypeStruct`s."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def refuse_where(wrong: np.ndarray, message: str) -> None:
    """Refuse a problem if an entry of `wrong` (`bool[n]`) holds; `{}` in the message is the index of the first.

    Raises:
        ValueError: the message.
    """
    if wrong.any():
        raise ValueError(message.format(int(np.argmax(wrong))))


# --- computing with it ----------------------------------------------------------------------------------------------


def computed_arrays(schema: Schema, problem: Problem) -> Problem:
    """The same problem, or batch, as JAX arrays of the dtypes that environments compute with.

    Raises:
        ValueError: a NumPy array holds something else, or a number is too large; JAX arrays are not checked.
    """
    schema = schema_of(schema, problem)
    given = {name: getattr(problem, name) for name in schema}
    known = {name: field for name, field in schema.items() if isinstance(given[name], np.ndarray | np.generic)}
    for name, field in known.items():
        if given[name].dtype.kind not in ("biuf" if field.kind is float else "biu"):
            raise ValueError(f"{name} has dtype {given[name].dtype}; it must be {STORED[field.kind].__name__}")
    check_numbers(known, given)
    arrays = {name: jnp.asarray(given[name], COMPUTED[field.kind]) for name, field in schema.items()}
    return _with_arrays(problem, arrays)


def unit_of(size: jax.Array) -> jax.Array:
    """A length or time of a problem, any shape, as what others are measured by: itself, or 1 where it is 0."""
    return jnp.where(size > 0, size, 1.0)


def from_origin(schema: Schema, problem: Problem, origins: Mapping[str, ArrayLike]) -> Problem:
    """The same problem, its times and places counted from `origins`, by `ArrayField.origin`; `float64` arrays stay so.

    See `jaxvrp.io.problems.origin`.
    """
    moved = {
        name: np.asarray(getattr(problem, name)) - origins[field.origin]
        for name, field in schema_of(schema, problem).items()
        if field.origin is not None and np.any(origins[field.origin])
    }
    return _with_arrays(problem, moved)


def pad_arrays(schema: Schema, problem: Problem, lengths: Mapping[str, int]) -> Problem:
    """The same problem with rows added at the end, until the counted axes have these lengths.

    Works on batches, under `jit` and `vmap`, in NumPy and JAX.
    """
    arrays = {name: _pad(field, getattr(problem, name), lengths) for name, field in schema_of(schema, problem).items()}
    changed = {name: array for name, array in arrays.items() if array is not getattr(problem, name)}
    return _with_arrays(problem, changed) if changed else problem


def _pad(field: ArrayField, array: Any, lengths: Mapping[str, int]) -> Any:
    xp = jnp if isinstance(array, jax.Array) else np
    for axis, counted in enumerate(field.axes, np.ndim(array) - len(field.axes)):
        missing = lengths[counted] - array.shape[axis] if isinstance(counted, str) else 0
        if missing and field.padding == "first row":
            rows = xp.take(array, np.zeros(missing, np.int32), axis=axis)
            array = xp.concatenate([array, rows], axis=axis)
        elif missing:
            rows = xp.full((*array.shape[:axis], missing, *array.shape[axis + 1 :]), field.padding, array.dtype)
            array = xp.concatenate([array, rows], axis=axis)
    return array


def cut_arrays(schema: Schema, problem: Problem, lengths: Mapping[str, int]) -> Problem:
    """The same problem (no leading axes) with the first rows of counted axes, as NumPy arrays; undoes `pad_arrays`."""
    cut = {}
    for name, field in schema_of(schema, problem).items():
        kept = tuple(slice(lengths.get(axis)) if isinstance(axis, str) else slice(None) for axis in field.axes)
        cut[name] = np.asarray(getattr(problem, name))[kept]
    return _with_arrays(problem, cut)


def void_arrays(schema: Schema, problem: Problem, axis: str, count: jax.Array) -> Problem:
    """The same problem (no leading axes) with its first `count` (`i32[]`) of what `axis` counts, as JAX arrays.

    The other rows become what `pad_arrays` adds, so that all shapes stay; traceable.
    """
    fields = {name: field for name, field in schema_of(schema, problem).items() if axis in field.axes}
    arrays = {name: _void(field, getattr(problem, name), axis, count) for name, field in fields.items()}
    return _with_arrays(problem, arrays)


def _void(field: ArrayField, array: Any, axis: str, count: jax.Array) -> jax.Array:
    for number in (number for number, counted in enumerate(field.axes) if counted == axis):
        exists = jnp.arange(array.shape[number], dtype=jnp.int32) < count
        first_row = jax.lax.slice_in_dim(array, 0, 1, axis=number)
        padding = first_row if field.padding == "first row" else jnp.asarray(field.padding, array.dtype)
        array = jnp.where(exists.reshape(-1, *(1,) * (array.ndim - number - 1)), array, padding)
    return array


def stack_arrays(schema: Schema, problems: Sequence[Problem]) -> Problem:
    """A batch `[E]` of problems of any sizes, padded to the largest, as NumPy arrays; each has the same fields."""
    schema = schema_of(schema, problems[0])
    lengths = {
        field.axis: max(getattr(problem, name).shape[-len(field.axes)] for problem in problems)
        for name, field in schema.items()
        if field.axis is not None
    }
    padded = [pad_arrays(schema, problem, lengths) for problem in problems]
    arrays = {name: np.stack([getattr(problem, name) for problem in padded]) for name in schema}
    return _with_arrays(padded[0], arrays)


def _with_arrays(problem: Problem, arrays: dict[str, Any]) -> Problem:
    copy: Problem = dataclasses.replace(problem, **arrays)  # type: ignore[type-var]
    return copy


# --- files ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ArrayFiles(Generic[Problem]):
    """The `.npz` files of one kind of problem: what `save` wrote, `load` reads exactly.

    Attributes:
        format: its name is written into each file.
        problem: what one is called in messages, as `"an instance"`.
        package: whose `save` writes these files, as `"jaxvrp.envs.darp"`.
        schema: of a problem.
        build: makes the problem, of one array for each field; an `UnknownFormatError` says what else the file has.
        check: raises a ValueError if a single problem is wrong.
    """

    format: str
    problem: str
    package: str
    schema: Schema
    build: Callable[..., Problem]
    check: Callable[[Problem], None]

    def save(self, path: str | os.PathLike, problem: Problem) -> None:
        """Write a problem (NumPy or JAX), or a batch; complete or not at all, whatever the ending of `path`.

        Raises:
            OSError: the file cannot be written.
        """
        arrays = {name: np.asarray(getattr(problem, name)) for name in schema_of(self.schema, problem)}
        write_npz(path, {"format": np.array(self.format), **arrays})

    def load(self, path: str | os.PathLike) -> Problem:
        """Read what `save` wrote, as NumPy arrays, and check every problem in it.

        Raises:
            ValueError: the file is damaged, or something else; one line that names it, and the problem in a batch.
            OSError: it cannot be read.
        """
        remedy = f"give a file that {self.package}.save wrote"
        arrays = read_npz(path, remedy)
        schema = {name: field for name, field in self.schema.items() if name in arrays or not field.optional}
        is_of_format = str(arrays.pop("format", "")) == self.format
        if not is_of_format or arrays.keys() != schema.keys():
            found, kind = few(sorted(arrays)) or "nothing", DamagedFileError if is_of_format else UnknownFormatError
            raise kind(f"{path} holds {found}, not {self.problem}; {remedy}")
        try:
            batch = _batch_of(schema, arrays)
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}; {remedy}") from None
        for name, array in arrays.items():
            if not array.dtype.isnative or array.dtype.itemsize > 8:  # JAX does not know such a dtype
                arrays[name] = array.astype(STORED[schema[name].kind])
        try:
            problem = self.build(**arrays)
        except UnknownFormatError as error:
            raise UnknownFormatError(f"{path} {error}") from None
        self._check_each(path, problem, batch)
        return problem

    def _check_each(self, path: str | os.PathLike, problem: Problem, batch: tuple[int, ...]) -> None:
        for index in np.ndindex(batch):
            try:
                self.check(jax.tree.map(lambda leaf, index=index: leaf[index], problem))
            except ValueError as error:
                noun = self.problem.split()[-1]
                where = f" ({noun} {', '.join(map(str, index))})" if index else ""
                raise DamagedFileError(f"{path}{where}: {error}") from None


def _batch_of(schema: Schema, arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    """The leading axes of all arrays, which are those of the first; a ValueError if one, or a number, does not fit."""
    first = next(iter(schema))
    batch = arrays[first].shape[: arrays[first].ndim - len(schema[first].axes)]
    if math.prod(batch) > MOST_PROBLEMS:
        raise ValueError(f"{math.prod(batch)} problems; at most {MOST_PROBLEMS} are read from a file")
    for name, field in schema.items():
        array = arrays[name]
        if array.ndim != len(batch) + len(field.axes) or array.shape[: len(batch)] != batch:
            raise ValueError(f"{name} has shape {array.shape}, which does not fit {first}'s")
        if array.dtype.kind not in FAMILY[field.kind]:
            raise ValueError(f"{name} has dtype {array.dtype}")
    check_numbers(schema, arrays)
    return batch


def write_npz(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as `.npz`, complete or not at all.

    Raises:
        OSError: the file cannot be written.
    """

    def write(partial: Path) -> None:
        # By its name, NumPy would add a suffix.
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, write)


def read_npz(path: str | os.PathLike, remedy: str, largest: int = LARGEST_ARRAYS) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file, by name, of at most `largest` bytes in all; no code in it is run.

    Raises:
        ValueError: it is damaged, something else, or larger; one line.
        OSError: it cannot be read.
    """
    # From memory: np.load leaves a damaged file open.
    content = read_bytes(path, largest + MOST_ARRAYS * LONGEST_HEADER)
    try:
        if content.count(MEMBER) > MOST_ARRAYS:
            raise ValueError(f"it holds more than {MOST_ARRAYS} arrays")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                _check_declared_size(archive, member)
            if (total := sum(member.file_size for member in archive.infolist())) > largest:
                raise ValueError(f"its arrays take {in_words(total)}, and up to {in_words(largest)} are read")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # zipfile, zlib and NumPy raise exceptions of all kinds
        reason = printable(error, 200) or type(error).__name__
        raise UnreadableError(f"{path} is no readable .npz file ({reason})", remedy) from None


def _check_declared_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse a member whose header declares more or less than it holds: NumPy allocates the declared size."""
    with archive.open(member) as file:
        head = io.BytesIO(file.read(LONGEST_HEADER))  # what a header says of its own length is not believed, either
    version, _ = np.lib.format.read_magic(head)
    if version not in READ_HEADER:
        raise ValueError(f"{member.filename} is of version {version} of its format")
    shape, _, dtype = READ_HEADER[version](head)
    declared, held = math.prod(shape) * dtype.itemsize, member.file_size - head.tell()
    if declared != held or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} declares {dtype} of shape {shape}, {declared} bytes, and holds {held}")

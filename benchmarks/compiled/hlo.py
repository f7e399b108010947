"""The optimised program of a compiler, as text: its kernels, loops, and the bytes that they move."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

FREE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all"}
    | {"partition-id", "replica-id", "opt-barrier"}
)
"""Operations that launch nothing themselves."""

COUNTED = ("gather", "scatter", "sort", "copy", "transpose")
"""Operations that are counted by name, alone or within a fusion."""

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute")
"""Beginnings of operations by which devices hear of each other."""

FETCHES = frozenset({"copy-start", "slice-start"})
"""Copies beside other kernels, from one memory to another."""

PARTIAL = frozenset({"gather", "dynamic-slice", "slice"})
"""Operations that read no more of their first operand than they give."""

IN_PLACE = {"scatter": 2, "dynamic-update-slice": 1}
"""Operations that write into their first operand, and the number of the operand that they write there."""

CONCATENATED = 'custom_call_target="ConcatBitcast"'
"""What a TPU fetched in pieces, seen as one array."""

CALLS = ("to_apply", "calls", "called_computations", "branch_computations", "true_computation", "false_computation")
"""What names the computations that an operation runs once, a loop's body apart."""

HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{\s*$")
SHAPE = re.compile(r"\b(pred|bf16|f8\w*|[fsuc]\d+)\[([\d,]*)\](?:\{([\d,]*)(?::([^}]*))?\})?")
TILE = re.compile(r"T\(([\d,*]*)\)")
ON_CHIP = re.compile(r"S\([1-9]\d*\)")
"""Of a layout: memories of a TPU's core (XLA's `docs/shapes.md`). Without it, an array lies in the device's memory."""

CALLED = re.compile(rf"\b(body|condition|{'|'.join(CALLS)})=(\{{[^}}]*\}}|%[\w.\-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
NAME = re.compile(r"%([\w.\-]+)")


class Bytes(NamedTuple):
    """Of arrays: of their numbers; as they lie in memory, in whole tiles; and those of these that lie off the chip."""

    logical: float = 0.0
    padded: float = 0.0
    off_chip: float = 0.0

    def plus(self, other: Bytes, times: float = 1) -> Bytes:
        """These, and so many times the others."""
        return Bytes(*(before + times * added for before, added in zip(self, other, strict=True)))

    def times(self, count: float) -> Bytes:
        """So many times these."""
        return Bytes().plus(self, count)

    def as_part_of(self, whole: Bytes) -> Bytes:
        """The same bytes, where the array lies that they are a part of."""
        return self._replace(off_chip=self.padded if whole.off_chip else 0.0)


@dataclasses.dataclass(frozen=True)
class Operation:
    """A line of a program; `called` are computations by attribute.

    `number` is the value of a whole constant, the place of a parameter, or the trips that a loop is known to make; None
    if there is none.
    """

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    called: Mapping[str, tuple[str, ...]]
    number: int | None

    @classmethod
    def read(cls, line: str) -> Operation:
        """From `%name = shape opcode(operands), attributes`."""
        left, _, right = line.strip().partition(" = ")
        shape, _, rest = _split_at_depth_zero(right, " ")
        opcode, _, arguments = rest.partition("(")
        inside, _, attributes = _split_at_depth_zero(arguments, ")")
        opcode = "bitcast" if CONCATENATED in attributes else opcode
        called = {key: tuple(NAME.findall(value)) for key, value in CALLED.findall(attributes)}
        trips = TRIPS.search(attributes)
        is_number = opcode in ("constant", "parameter") and inside.isdecimal()
        number = trips[1] if trips else inside if is_number else None
        name = left.removeprefix("ROOT ").lstrip("%")
        return cls(name, shape, opcode, tuple(NAME.findall(inside)), called, None if number is None else int(number))

    @property
    def is_kernel(self) -> bool:
        """Whether it is launched; what only waits for another is not."""
        return self.opcode not in FREE and not self.opcode.endswith("-done")


def _split_at_depth_zero(text: str, mark: str) -> tuple[str, str, str]:
    """As `str.partition`, at the first `mark` that stands in no bracket."""
    depth = 0
    for place, letter in enumerate(text):
        if letter == mark and depth == 0:
            return text[:place], mark, text[place + 1 :]
        depth += (letter in "({[") - (letter in ")}]")
    return text, "", ""


def bytes_of(shape: str) -> Bytes:
    """Of all arrays of a shape, such as `f32[4096,3]{0,1:T(8,128)}` or a tuple of these."""
    total = Bytes()
    for dtype, dims, order, layout in SHAPE.findall(shape):
        sizes = [int(size) for size in dims.split(",") if size]
        width = max(1, _bits(dtype) // 8)
        padded = width * math.prod(_padded(sizes, order, layout))
        total = total.plus(Bytes(width * math.prod(sizes), padded, 0.0 if ON_CHIP.search(layout) else padded))
    return total


def _bits(dtype: str) -> int:
    return 8 if dtype == "pred" else int(re.findall(r"\d+", dtype)[0])


def _padded(sizes: list[int], order: str, layout: str) -> list[int]:
    """The sizes from major to minor, filled up to whole tiles."""
    ordered = [sizes[int(axis)] for axis in reversed(order.split(","))] if order else list(sizes)
    tile = TILE.search(layout or "")
    if tile is None or not ordered:
        return ordered
    tiles = [int(size) if size.isdecimal() else 1 for size in tile[1].split(",")]
    ordered = [1] * (len(tiles) - len(ordered)) + ordered
    minor = [-(-size // of) * of for size, of in zip(ordered[-len(tiles) :], tiles, strict=True)]
    return ordered[: -len(tiles)] + minor


@dataclasses.dataclass(frozen=True)
class Cost:
    """What running a computation once takes: kernels, collectives and bytes by trips; operations as they stand."""

    kernels: int
    collectives: int
    moved: Bytes
    operations: Mapping[str, int]
    loops: int


class Program:
    """An optimised program; see `compiled.as_text()`."""

    def __init__(self, text: str):
        self._computations: dict[str, list[Operation]] = {}
        current: list[Operation] = []
        for line in text.splitlines():
            if not line.startswith(" ") and (head := HEAD.match(line)):
                current = self._computations[head[2]] = []
                self.entry = head[2] if head[1] else getattr(self, "entry", head[2])
            elif line.startswith(" ") and " = " in line:
                current.append(Operation.read(line))
        self._shapes = {
            name: {operation.name: operation.shape for operation in operations}
            for name, operations in self._computations.items()
        }

    def loop_body(self, trips: int) -> str:
        """The computation that the loop of so many trips runs, of several the one with most kernels.

        Raises:
            ValueError: no loop has so many trips.
        """
        operations = [operation for _, operation, _ in self._run(self.entry, 1) if operation.opcode == "while"]
        bodies = [each.called["body"][0] for each in operations if self._trips(each) == trips]
        if not bodies:
            raise ValueError(f"the compiler kept no loop of {trips} trips")
        return max(bodies, key=lambda body: self.cost(body).kernels)

    def opcodes(self) -> Iterator[str]:
        """Of the operations of the program and of all that it calls, each as often as it is written down.

        What is fused is part of one operation, as is what a reduction calls.
        """
        seen, waiting = set(), [self.entry]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for operation in self._computations[name]:
                yield operation.opcode
                if operation.opcode in ("call", "while", "conditional"):
                    waiting += itertools.chain.from_iterable(operation.called.values())

    def cost(self, computation: str) -> Cost:
        """What a computation takes, with all that it calls; loops of unknown length are counted as one trip."""
        kernels, collectives, moved, loops = 0, 0, Bytes(), 0
        counts: collections.Counter[str] = collections.Counter()
        for name, operation, times in self._run(computation, 1):
            loops += operation.opcode == "while"
            if operation.is_kernel:
                kernels += times
                collectives += times * operation.opcode.startswith(COLLECTIVES)
                moved = moved.plus(self._moved(name, operation), times)
                counts.update(self._opcodes(operation) & set(COUNTED))
        return Cost(kernels, collectives, moved, {opcode: counts[opcode] for opcode in COUNTED}, loops)

    def _trips(self, loop: Operation) -> int:
        """What the compiler says, or the number up to which the loop's condition counts; 1 where neither is known."""
        condition = self._computations.get(loop.called["condition"][0], [])
        numbers = [each.number for each in condition if each.opcode == "constant" and each.number is not None]
        return loop.number or (numbers[0] if len(numbers) == 1 else 1)

    def _run(self, computation: str, times: int) -> Iterator[tuple[str, Operation, int]]:
        """Each operation that runs, where it stands, and how often."""
        for operation in self._computations.get(computation, ()):
            yield computation, operation, times
            if operation.opcode == "while":
                yield from self._run(operation.called["body"][0], times * self._trips(operation))
            elif operation.opcode in ("conditional", "call") or operation.opcode.startswith("async"):
                for key in CALLS:
                    for inner in operation.called.get(key, ()):
                        yield from self._run(inner, times)

    def _moved(self, computation: str, operation: Operation) -> Bytes:
        """What a kernel reads and writes, each array once, whole; of one that it takes or changes parts of, these."""
        shapes = self._shapes[computation]
        if operation.opcode in FETCHES:
            # Their shape holds the source beside the copy.
            source = bytes_of(shapes.get(operation.operands[0], ""))
            copied = bytes_of(operation.shape).plus(source, -1)
            return copied.times(2)._replace(off_chip=copied.padded)
        changed, read = self._changed(computation, operation) or (None, bytes_of(operation.shape))
        for number, name in enumerate(operation.operands):
            if name in operation.operands[:number] or number == changed:
                continue
            whole, parts = bytes_of(shapes.get(name, "")), self._parts(operation, number)
            read = read.plus(whole if parts is None else min(whole, parts.as_part_of(whole)))
        return read

    def _changed(self, computation: str, operation: Operation) -> tuple[int, Bytes] | None:
        """The number of the operand that a kernel changes in its place, and the bytes that it writes; None if none.

        Of a scatter these are at most so many: it drops what lies outside.
        """
        called = next(iter(operation.called.get("calls", ())), None)
        inner = self._computations.get(called, []) if called else []
        root = inner[-1] if inner else operation
        if root.opcode not in IN_PLACE:
            return None
        written = bytes_of(self._shapes[called or computation].get(root.operands[IN_PLACE[root.opcode]], ""))
        written = written.as_part_of(bytes_of(operation.shape))
        if root is operation:
            return 0, written
        numbers = [each.number for each in inner if each.opcode == "parameter" and each.name == root.operands[0]]
        return (numbers[0], written) if numbers and numbers[0] is not None else None

    def _parts(self, operation: Operation, number: int) -> Bytes | None:
        """What a kernel takes of its operand of this number; None if it reads the whole."""
        if operation.opcode in PARTIAL:
            return bytes_of(operation.shape) if number == 0 else None
        inner = self._computations.get(next(iter(operation.called.get("calls", ())), ""), [])
        names = [each.name for each in inner if each.opcode == "parameter" and each.number == number]
        return self._parts_of(inner, names[0]) if names else None

    def _parts_of(self, operations: Sequence[Operation], name: str) -> Bytes | None:
        """What the operations of a fusion take of an array of theirs; None if one of them reads the whole."""
        total = Bytes()
        for user in [each for each in operations if name in each.operands]:
            parts = self._parts_of(operations, user.name) if user.opcode == "bitcast" else None
            if user.opcode in PARTIAL and user.operands.index(name) == 0:
                parts = bytes_of(user.shape)
            if parts is None:
                return None
            total = total.plus(parts)
        return total

    def _opcodes(self, operation: Operation) -> set[str]:
        """Of an operation, and of those that are fused into it."""
        inner = [each for name in operation.called.get("calls", ()) for each in self._computations.get(name, ())]
        return {operation.opcode}.union(*map(self._opcodes, inner))

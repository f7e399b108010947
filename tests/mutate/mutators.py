"""Ways to damage bytes, texts and values; all generic, and drawn from a NumPy generator."""

from __future__ import annotations

import datetime
import decimal
import fractions
import re
from collections.abc import Callable
from typing import Any

import numpy as np

Mutator = Callable[[np.random.Generator, bytes], bytes]

NUMBER = re.compile(rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
TOKEN = re.compile(rb"[A-Za-z_]\w*|[-+]?\d[\w.+-]*")

NUMBERS = (
    *("0", "-0", "-1", "1", "2", "3", "0.5", "1e3", "1_000", "010", "0x10", "12:30:45", "1.5.2", "--1", "1e", "+7"),
    *("nan", "NaN", ".nan", "inf", "-inf", ".inf", "Infinity", "1e39", "-1e39", "3.5e38", "1e-45", "1e-39", "1e308"),
    *("-1e308", "1e309", "1e-400", "16777217", "2147483647", "2147483648", "-2147483649", "4294967296"),
    *("9007199254740993", "18446744073709551616", "100000000000", "1" + "0" * 30, "1" + "0" * 400, "9" * 5000),
)
"""Words where a number belongs."""

WORDS = (
    *("", "null", "~", "true", "no", "[]", "{}", "[1, 2", "{a: 1}", '"', "'", "&a", "*a", "!!python/name:os.system"),
    *("../..", "/", "\\", "%s", "{0}", "$HOME", "a:b", "é", "\U0001f69a", "\u202e", "a" * 3000, "-", "--", "NaN"),
)
"""Words where anything belongs."""

JUNK = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n\n\n", b"\t", b"\x1b[31m", b"\xe2\x80\xa8"),
    *(b"</script>", b",", b"#"),
)
"""Pieces that get into files."""

DEPTH, LENGTH = 100_000, 3_000_000
"""How deep is nested, and how long a line gets."""


def pick(random: np.random.Generator, choices: Any) -> Any:
    """One of a sequence."""
    return choices[int(random.integers(len(choices)))]


def flip_byte(random: np.random.Generator, content: bytes) -> bytes:
    """One byte becomes another."""
    if not content:
        return b"\x00"
    damaged = bytearray(content)
    damaged[int(random.integers(len(damaged)))] ^= int(random.integers(1, 256))
    return bytes(damaged)


def flip_bit(random: np.random.Generator, content: bytes) -> bytes:
    """One bit of it."""
    if not content:
        return b"\x01"
    damaged = bytearray(content)
    damaged[int(random.integers(len(damaged)))] ^= 1 << int(random.integers(8))
    return bytes(damaged)


def truncate(random: np.random.Generator, content: bytes) -> bytes:
    """The end is missing."""
    return content[: int(random.integers(len(content) + 1))]


def empty(random: np.random.Generator, content: bytes) -> bytes:
    """Nothing is left."""
    del random, content
    return b""


def remove_piece(random: np.random.Generator, content: bytes) -> bytes:
    """A piece in the middle is missing."""
    start, end = sorted(random.integers(len(content) + 1, size=2).tolist())
    return content[:start] + content[min(end, start + 64) :]


def repeat_piece(random: np.random.Generator, content: bytes) -> bytes:
    """A piece is there twice."""
    start, end = sorted(random.integers(len(content) + 1, size=2).tolist())
    return content[:end] + content[start:]


def insert_junk(random: np.random.Generator, content: bytes) -> bytes:
    """Something gets in between."""
    place = int(random.integers(len(content) + 1))
    return content[:place] + pick(random, JUNK) + content[place:]


def swap_lines(random: np.random.Generator, content: bytes) -> bytes:
    """Two lines change places."""
    lines = content.split(b"\n")
    first, second = random.integers(len(lines), size=2).tolist()
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def repeat_line(random: np.random.Generator, content: bytes) -> bytes:
    """A line is there twice."""
    lines = content.split(b"\n")
    lines.insert(int(random.integers(len(lines) + 1)), pick(random, lines))
    return b"\n".join(lines)


def remove_line(random: np.random.Generator, content: bytes) -> bytes:
    """A line is missing."""
    lines = content.split(b"\n")
    del lines[int(random.integers(len(lines)))]
    return b"\n".join(lines)


def swap_tokens(random: np.random.Generator, content: bytes) -> bytes:
    """Two words change places."""
    found = list(TOKEN.finditer(content))
    if len(found) < 2:
        return content
    first, second = sorted(random.choice(len(found), 2, replace=False).tolist())
    a, b = found[first], found[second]
    return content[: a.start()] + b[0] + content[a.end() : b.start()] + a[0] + content[b.end() :]


def replace_number(random: np.random.Generator, content: bytes) -> bytes:
    """A number becomes an extreme one, or none."""
    return _replace(random, content, NUMBER, NUMBERS)


def replace_token(random: np.random.Generator, content: bytes) -> bytes:
    """A word becomes one of another type."""
    return _replace(random, content, TOKEN, WORDS + NUMBERS)


def _replace(random: np.random.Generator, content: bytes, pattern: re.Pattern, words: tuple[str, ...]) -> bytes:
    found = list(pattern.finditer(content))
    if not found:
        return content
    place = pick(random, found)
    return content[: place.start()] + pick(random, words).encode() + content[place.end() :]


def nest_deep(random: np.random.Generator, content: bytes) -> bytes:
    """A word is wrapped in a hundred thousand brackets."""
    found = list(TOKEN.finditer(content))
    opening, closing = pick(random, [(b"[", b"]"), (b'{"a":', b"}"), (b"[", b"")])
    start, end = pick(random, found).span() if found else (0, 0)
    return content[:start] + opening * DEPTH + content[start:end] + closing * DEPTH + content[end:]


def lengthen_line(random: np.random.Generator, content: bytes) -> bytes:
    """A line does not end."""
    place = int(random.integers(len(content) + 1))
    return content[:place] + pick(random, (b"a", b"9", b" ", b'"', b",")) * LENGTH + content[place:]


BYTES: tuple[Mutator, ...] = (flip_byte, flip_bit, truncate, empty, remove_piece, repeat_piece, insert_junk)
"""For files of any kind."""

LINES: tuple[Mutator, ...] = (swap_lines, repeat_line, remove_line)
TOKENS: tuple[Mutator, ...] = (replace_number, replace_number, replace_number, replace_token, swap_tokens)
HEAVY: tuple[Mutator, ...] = (nest_deep, lengthen_line)
"""Slow to read: tried rarely."""


def mutate_text(random: np.random.Generator, content: bytes) -> bytes:
    """A text with one to three damages; most of them leave it nearly right."""
    if random.random() < 0.01:
        return pick(random, HEAVY)(random, content)
    for _ in range(int(random.integers(1, 4))):
        content = pick(random, BYTES + LINES * 2 + TOKENS * 3)(random, content)
    return content


def mutate_bytes(random: np.random.Generator, content: bytes) -> bytes:
    """Bytes with one damage."""
    return pick(random, BYTES)(random, content)


def odd_values() -> list[Any]:
    """Arguments that nobody should give; made anew, as some can be changed."""
    whole = [0, -1, 1, 2, 10**10, 10**11, 10**30, -(10**30), 10**400, 2**31, 2**32, 2**63, True, False]
    real = [0.5, -0.5, 1e39, -1e39, 1e-45, 1e-39, 1e308, float("nan"), float("inf"), -float("inf"), -0.0]
    scalars = [np.int64(2**40), np.int8(-1), np.uint64(2**63), np.float64(1e300), np.float32(np.nan), np.bool_(True)]
    arrays = [np.array(np.nan), np.array(np.inf), np.array(-1.0), np.array([1.0, -1.0]), np.zeros(0), np.zeros((2, 2))]
    arrays += [np.array(["a"]), np.array([None]), np.array([10**30]), np.array(1, "m8[s]"), np.array(1j)]
    others = [None, "", "a", "1", "nan", "0x10", b"1", [], [1], [1, 2, 3], (), {}, {"a": 1}, {1, 2}, 1j, object(), int]
    others += [decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.date(2024, 1, 1), [[1], [1, 2]], lambda: 1]
    return [*whole, *real, *scalars, *arrays, *others]


def odd_value(random: np.random.Generator) -> Any:
    """One of `odd_values`."""
    return pick(random, odd_values())

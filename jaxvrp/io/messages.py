"""Messages, and their parts: foreign text made printable, shown values, and remedies. Imports nothing of ours."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable

FEW = 15
"""So many names are all listed, more are not."""

LONGEST = 40
"""Values that take more characters are cut."""

LONGEST_MESSAGE = 800
"""Characters of a message; of a longer one the beginning and the end are shown."""

SPACES = "\n \u00a0\u2007\u202f\u3000"
"""What is no printable character to Python, and shown all the same; the last is that of Chinese and Japanese."""

NEAR, SIMILAR = 0.66, 0.4
"""Likeness, in [0, 1], of names that were probably meant, and of names that are worth a look."""


def escaped(text: str) -> str:
    """A text as any terminal shows it, in its lines: without control characters, marks of direction, half characters.

    Foreign text goes through here before it is shown, and names of files are foreign too.
    """
    return "".join(each if each.isprintable() or each in SPACES else ascii(each)[1:-1] for each in text)


def printable(text: object, most: int = LONGEST_MESSAGE) -> str:
    """A foreign text in one line; of one of more than `most` characters the beginning and the end."""
    return _short(escaped(" ".join(_short(str(text), most).split())), most)


def _short(text: str, most: int) -> str:
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]} ... {text[1 - half :]}"


def shown(value: object) -> str:
    """A value in a message: its `repr` in one line, cut if it is long."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # Python writes no whole number of 5 000 digits
        text = f"<{type(value).__name__}, too large to be written>"
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ...")


def cut(text: str, most: int = 32) -> str:
    """A printable text of at most so many characters; one that is longer ends in an ellipsis."""
    text = printable(text if len(text) <= most else f"{text[: most - 1]}…")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown_cost(cost: float) -> str:
    """With two decimals, where it is small with four digits, so that a cost says as much in any unit.

    Where it is large, with no decimals beyond the seven digits that 32 bits hold.
    """
    size = abs(cost)
    magnitude = math.floor(math.log10(size)) if 0 < size < math.inf else 1
    decimals = 3 - magnitude if magnitude < 1 else min(2, max(6 - magnitude, 0))
    return f"{cost + 0.0:.{decimals}f}"


def in_words(num_bytes: float) -> str:
    """`"1.5 GB"`: three digits, and a unit of 1 000, 1 000 000, ... bytes."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if num_bytes < 999.5:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} EB"


def out_of_memory(error: Exception) -> str | None:
    """The message about an error of a device that has no room left; None for any other."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return None
    return f"out of memory ({str(error).splitlines()[0][:200]}); lower the number of environments or another size"


def few(names: Iterable[object]) -> str:
    """Foreign names, each cut; of many the first, and how many more there are."""
    names = list(names)
    more = [f"{len(names) - FEW} more"] if len(names) > FEW else []
    return ", ".join([*(cut(str(name)) for name in names[:FEW]), *more])


def warn(message: object) -> None:
    """Say on standard error, in a line, what does not stop the command."""
    print(f"warning: {printable(message)}", file=sys.stderr)


def installing(extra: str) -> str:
    """A remedy for a package that is missing; jaxvrp is on no index, so that only a clone knows the extra."""
    return f"pip install -e '.[{extra}]' in a clone of jaxvrp"


def nearest(name: str, names: Iterable[str]) -> str:
    """A remedy for a misspelt `name`: the most similar of `names`; else all of them, or a few of many."""
    names = sorted(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=NEAR)
    if near:
        # Texts in this order, as `get_close_matches` compares them.
        likeness = [difflib.SequenceMatcher(None, other, name).ratio() for other in near]
        meant = [other for other, like in zip(near, likeness, strict=True) if like > likeness[0] - 0.1]
        return "did you mean " + " or ".join(shown(other) for other in meant)
    if len(names) <= FEW:
        return f"known: {few(names)}"
    similar = difflib.get_close_matches(name, names, n=5, cutoff=SIMILAR)
    if similar:
        return f"the most similar of {len(names)}: {few(similar)}"
    return f"none of {len(names)} is similar; some of them: {few(names[:5])}"


def number(value: float) -> str:
    """A number for people: three digits, or all that stand before the point; never 0 for what is more."""
    size = abs(value)
    if value == round(value):
        return str(round(value))
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    text = f"{value:.{decimals}f}"
    return text if float(text) or not value else "less than 0.001"

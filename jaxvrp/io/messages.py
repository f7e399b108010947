"""Parts of error messages: shown values, and remedies."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FEW = 15
"""So many names are all listed, more are not."""

LONGEST = 40
"""Values that take more characters are cut."""

NEAR, SIMILAR = 0.66, 0.4
"""Likeness, in [0, 1], of names that were probably meant, and of names that are worth a look."""


def shown(value: object) -> str:
    """A value in a message: its `repr` in one line, cut if it is long."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # Python writes no whole number of 5 000 digits
        text = f"<{type(value).__name__}, too large to be written>"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def cut(text: str, most: int = 32) -> str:
    """A text of at most so many characters; one that is longer ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
        return "did you mean " + " or ".join(f"'{other}'" for other in meant)
    if len(names) <= FEW:
        return f"known: {', '.join(names)}"
    similar = difflib.get_close_matches(name, names, n=5, cutoff=SIMILAR)
    if similar:
        return f"the most similar of {len(names)}: {', '.join(similar)}"
    return f"none of {len(names)} is similar; some of them: {', '.join(names[:5])}"

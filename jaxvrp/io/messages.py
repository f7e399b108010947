"""Remedies that error messages offer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FEW = 12
"""Up to so many names are listed all."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A remedy for a misspelt `name`: the nearest of `names`; all of them if none is near and they are few."""
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f"'{found}'" for found in close)
    if len(names) <= FEW:
        return f"known: {', '.join(names)}"
    similar = difflib.get_close_matches(name, names, n=5, cutoff=0.3) or names[:5]
    return f"the nearest known: {', '.join(similar)}"

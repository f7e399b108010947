"""Where the files of the repository are on the site, and links between them as the site needs them.

Pages are written so that their links work in the repository. On the site the README is the first page, the pages of
`docs/` lie beside it, and any other file that a page links to is copied into `files/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

PAGES = {
    "README.md": "index.md",
    "docs/index.md": "pages.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/NOTES.md": "notes.md",
}
"""Pages that are called something else on the site, or do not lie in `docs/`."""

LINK = re.compile(r"(?P<head>\]\()(?P<target>[^)\s]+)(?=\))")
FENCE = re.compile(r"^(```.*?^```)", re.S | re.M)
MARKER = re.compile(r"^<!-- .* -->$|<!--\S+-->", re.M)


def place_on_site(source: str) -> str:
    """Where a file of the repository is on the site, relative to its root; both with `/`."""
    if source in PAGES:
        return PAGES[source]
    return source.removeprefix("docs/") if source.startswith("docs/") else f"files/{source}"


def linked_file(source: str, target: str) -> str | None:
    """The file of the repository that a link of the page `source` leads to; None if it leads out, or stays on the page.

    Raises:
        ValueError: there is no such file.
    """
    path = target.partition("#")[0]
    if not path or "://" in target or target.startswith("mailto:"):
        return None
    there = os.path.normpath(PurePosixPath(source).parent / path)
    if not (ROOT / there).is_file():
        raise ValueError(f"{source} links to {target}, and there is no file {there}; name one, not a folder")
    return PurePosixPath(there).as_posix()


def linked_files(source: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for part in _prose(text):
        for found in LINK.finditer(part):
            if there := linked_file(source, found["target"]):
                yield there


def as_on_site(source: str, text: str) -> str:
    """The text of a page with its links as they are on the site, without the comments that name tables and figures."""
    here = PurePosixPath(place_on_site(source)).parent

    def relinked(found: re.Match[str]) -> str:
        there = linked_file(source, found["target"])
        if there is None:
            return found[0]
        anchor = found["target"].partition("#")[1:]
        return found["head"] + os.path.relpath(place_on_site(there), here) + "".join(anchor)

    parts = FENCE.split(text)
    # Without a blank line, a table or a list that follows a line of text would be part of its paragraph.
    parts[::2] = [MARKER.sub("", _with_blank_lines(LINK.sub(relinked, part))) for part in parts[::2]]
    return "".join(parts)


def _prose(text: str) -> list[str]:
    """What stands outside of fenced blocks."""
    return FENCE.split(text)[::2]


def _with_blank_lines(text: str) -> str:
    """A blank line before every list and table."""
    return re.sub(r"^(?![\s|]|[-*] |\d+\. |$)(.*)\n(?=[-*] |\d+\. |\|)", r"\1\n\n", text, flags=re.M)

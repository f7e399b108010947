"""Writes the tables of keys and of parameters on the pages of this folder, from the code.

python docs/make_tables.py            # after a field, its default, range or sentence has changed
python docs/make_tables.py --check    # changes no file; exit status 1 if a page is not up to date

A table is named by the comment above it: `<!-- keys: package.module:Class -->` has the fields that a class of
configurations adds to those that it derives from, `<!-- parameters: NAME -->` the keywords of an environment's factory.
The first four columns are written; what a page has in further ones stays.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from jaxvrp.fields import accepted_values
from train.running.keys import as_typed, environment_keys, scenario_default

PAGES = pathlib.Path(__file__).parent
MARKER = re.compile(r"<!-- (keys|parameters): (\S+) -->")
COLUMNS = {"keys": ["key", "default", "range", "meaning"], "parameters": ["parameter", "default", "range", "meaning"]}

Row = list[str]


def rows(kind: str, name: str) -> Iterator[Row]:
    """The first four cells of each row of the table `<!-- KIND: NAME -->`."""
    return _keys(name) if kind == "keys" else _parameters(name)


def _keys(path: str) -> Iterator[Row]:
    module, _, attribute = path.partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    own = inspect.get_annotations(cls)
    for field in (field for field in dataclasses.fields(cls) if field.name in own):
        default = field.default_factory() if callable(field.default_factory) else field.default
        yield _row(field.name, default, accepted_values(cls, field), field.metadata["help"])


def _parameters(env: str) -> Iterator[Row]:
    for key in environment_keys(env, scenario_default(env)):
        kind, _, name = key.name.partition(".")
        if kind == "env" and name not in ("name", "scenario"):
            yield _row(name, key.default, key.accepted, key.sentence)


def _row(name: str, default: Any, accepted: str, sentence: str) -> Row:
    choices = accepted.removeprefix("one of: ")
    if choices != accepted:
        accepted = ", ".join(f"`{choice}`" for choice in choices.split(", "))
    signs = accepted.replace(">=", "≥").replace("<=", "≤")
    return [f"`{name}`", f"`{as_typed(default)}`", signs, sentence.replace("|", "\\|")]


def updated(page: str) -> str:
    """The text of a page with its tables written anew."""
    lines, written = page.splitlines(), []
    while lines:
        written.append(lines.pop(0))
        if found := MARKER.fullmatch(written[-1]):
            old = []
            while lines and lines[0].startswith("|"):
                old.append([cell.strip() for cell in lines.pop(0).strip("|").split(" |")])
            written += _table(COLUMNS[found[1]], list(rows(*found.groups())), old)
    return "\n".join(written) + "\n"


def _table(head: Row, new: Sequence[Row], old: Sequence[Row]) -> list[str]:
    """The lines of a table, with the cells beyond the fourth column of the old one."""
    further_head = old[0][4:] if old else []
    further = {cells[0]: cells[4:] for cells in old}
    body = [cells + further.get(cells[0], [""] * len(further_head)) for cells in new]
    return [_line(head + further_head), "|" + "---|" * (4 + len(further_head)), *map(_line, body)]


def _line(cells: Row) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; with `--check`, only name those that are not up to date. The exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if set(argv) - {"--check"}:
        print("usage: python docs/make_tables.py [--check]", file=sys.stderr)
        return 2
    pages = {path: updated(path.read_text(encoding="utf-8")) for path in sorted(PAGES.glob("*.md"))}
    outdated = {path: text for path, text in pages.items() if path.read_text(encoding="utf-8") != text}
    for path, text in outdated.items():
        print(f"{path.name}: its tables are not up to date; run python docs/make_tables.py" if argv else path.name)
        if not argv:
            path.write_text(text, encoding="utf-8")
    return 1 if argv and outdated else 0


if __name__ == "__main__":
    sys.exit(main())

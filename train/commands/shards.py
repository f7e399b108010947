"""Many files, divided among processes: which are whose, which are done, and what came out of all of them."""

from __future__ import annotations

import argparse
import glob
import hashlib
import pathlib
import platform
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from jaxvrp.io import schema
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import read_json
from jaxvrp.io.limits import LARGEST_WHOLE
from jaxvrp.io.messages import printable, shown
from jaxvrp.io.whole_files import write_csv, write_json

MANIFEST = "manifest-{}-of-{}.json"

ALL = "plans.csv"
"""The plans of all shards."""

FIGURES = ("cost", "feasible", "seconds", "searched_seconds", "method")
"""Of a plan, in its entry."""

COLUMNS = ("file", "problem", "plan", *FIGURES, "error")

CONTENT = schema.object_with(
    shard=schema.whole_number(least=1),
    of=schema.whole_number(least=1),
    files=schema.list_of(
        schema.all_of(
            schema.object_with(file=schema.text),
            schema.optional_keys(
                plan=schema.text, error=schema.text, problem=schema.optional(schema.whole_number(below=LARGEST_WHOLE))
            ),
        )
    ),
)
"""Of a manifest."""

Entry = dict[str, Any]
"""Of a manifest: a problem of a file with its plan and figures, or a file with the `error` that refused it."""


class Shard(NamedTuple):
    """The part of the files that one of `total` processes solves; `number` counts from 1."""

    number: int
    total: int


def shard(text: str) -> Shard:
    """An argument such as `3/16`, as an argument type."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{shown(text)} is no shard; the third of sixteen is 3/16, the first 1/16")
    return Shard(int(found[1]), int(found[2]))


def means_many(text: str) -> bool:
    """Whether an argument is a folder or a pattern of files, and not one file."""
    path = pathlib.Path(text)
    return path.is_dir() or (glob.has_magic(text) and not path.exists())


def files_of(text: str, part: Shard) -> list[pathlib.Path]:
    """The files of a folder, without those of folders in it, or of a pattern; those of a shard.

    Every `total`-th file in the order of names, so that shards get files of all sizes where names tell the size.

    Raises:
        UserError: there is no file.
    """
    path = pathlib.Path(text)
    found = path.iterdir() if path.is_dir() else map(pathlib.Path, glob.glob(text, recursive=True))
    files = sorted(each for each in found if each.is_file() and not each.name.startswith("."))
    if not files:
        raise UserError(f"{text}: there is no file; give a folder of problems, or a pattern such as 'days/*.txt'")
    names: dict[str, pathlib.Path] = {}
    for file in files:
        if file.name in names:
            raise UserError(f"{names[file.name]} and {file} have one name, so their plans would; solve them apart")
        names[file.name] = file
    return files[part.number - 1 :: part.total]


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plan_path(out: pathlib.Path, file: pathlib.Path, problem: int | None) -> pathlib.Path:
    """Where the plan for a file stands; `problem` is the place of one of several in the file."""
    return out / (f"{file.name}.json" if problem is None else f"{file.name}.{problem:04d}.json")


def entry_of(path: pathlib.Path) -> Entry | None:
    """The entry of a plan in a file; None if there is none that was written whole."""
    try:
        plan = read_json(path, "")
        source = plan["source"]
        figures = {name: plan[name] for name in FIGURES}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**source, "plan": path.name, **figures}


def write_manifest(out: pathlib.Path, part: Shard, entries: Sequence[Entry]) -> pathlib.Path:
    """Write what became of all files of a shard."""
    versions = {"python": platform.python_version(), "jax": jax.__version__}
    path = out / MANIFEST.format(*part)
    write_json(path, {"shard": part.number, "of": part.total, "versions": versions, "files": list(entries)})
    return path


def collect(out: pathlib.Path) -> str:
    """Check that all shards are complete and no plan is missing, write one table of all plans, and sum up.

    Raises:
        UserError: a shard or a plan is missing or damaged, or shards do not belong together.
    """
    found = {}
    for path in sorted(out.glob(MANIFEST.format("*", "*"))):
        try:
            manifest = read_json(path, "")
            CONTENT(manifest, "")
            found[Shard(manifest["shard"], manifest["of"])] = manifest["files"]
        except ValueError:
            raise UserError(f"{path} is damaged; delete it, and run its shard again, which keeps the plans") from None
    totals = {part.total for part in found}
    if not found:
        raise UserError(f"{out} holds no manifest; solve a folder with --out {out} first")
    if len(totals) > 1:
        raise UserError(
            f"{out} holds shards of {' and of '.join(map(str, sorted(totals)))}; delete those of one of them"
        )
    (total,) = totals
    if missing := [number for number in range(1, total + 1) if Shard(number, total) not in found]:
        raise UserError(f"{out} lacks the shards {', '.join(f'{number}/{total}' for number in missing)}; run them")
    entries = [entry for part in sorted(found) for entry in found[part]]
    for entry in entries:
        if "plan" in entry and entry_of(out / entry["plan"]) != entry:
            raise UserError(f"{out / entry['plan']} is not the plan of the manifest; run the shards again")
    entries.sort(key=lambda entry: (entry["file"], entry.get("problem") or 0))
    write_csv(out / ALL, [COLUMNS, *([entry.get(name, "") for name in COLUMNS] for entry in entries)])
    plans = [entry for entry in entries if "plan" in entry]
    feasible = [entry for entry in plans if entry["feasible"]]
    lines = [f"{len(plans)} plans, {len(feasible)} of them feasible, in {out / ALL}"]
    lines += [f"refused: {printable(entry['error'])}" for entry in entries if "error" in entry]
    return "\n".join(lines)

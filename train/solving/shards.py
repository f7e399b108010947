"""Many files, divided among processes: which are whose, which are done, and what came out of all of them."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import glob
import hashlib
import os
import pathlib
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxvrp.io import schema
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import read_json
from jaxvrp.io.limits import LARGEST_WHOLE
from jaxvrp.io.messages import printable, shown
from jaxvrp.io.whole_files import write_csv, write_json
from train.commands.instance_file import assumed_words, show_warnings
from train.run.folder import contents_file
from train.run.progress import Bar
from train.solving.case_file import read_case
from train.solving.problem import Problem, chosen, open_problem, problem_in, read_problems, stack_of
from train.solving.solution import Solution, solved, solved_together

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

TOGETHER = 16
"""Problems that are solved in one program: with more, a killed process would lose more."""

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


def files_of(text: str) -> list[pathlib.Path]:
    """The files of a folder, without those of folders in it, or of a pattern, in the order of names.

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
    return files


def refuse_among_problems(out: pathlib.Path, text: str, files: Sequence[pathlib.Path]) -> None:
    """Refuse a folder for plans from which `files_of` the same text would take plans for problems.

    Raises:
        UserError: it is one.
    """
    pattern = "*" if pathlib.Path(text).is_dir() else pathlib.Path(text).name
    written = (plan_path(out, files[0], None).name, ALL)
    is_read_again = any(fnmatch.fnmatch(name, pattern) for name in written)
    if is_read_again and out.resolve() in {file.parent.resolve() for file in files}:
        raise UserError(
            f"--out {out}: {text} would read the plans there as problems; give another folder, or a pattern such as "
            f"'{out / '*.txt'}'"
        )


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest(problem: Any) -> str:
    """SHA-256 of a problem as it was read: also of what stands in files that its file, or its fleet, names."""
    found = hashlib.sha256()
    for part in _parts(problem):
        found.update(part)
    return found.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    """The numbers and texts of a value in order; nothing of objects that are neither data nor hold any."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.asarray(value).tobytes()
    elif isinstance(value, list | tuple):
        yield b"["
        for each in value:
            yield from _parts(each)
        yield b"]"
    elif isinstance(value, str | int | float | None):
        yield repr(value).encode()


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


def write_manifest(
    out: pathlib.Path, part: Shard, files: Sequence[pathlib.Path], settings: Mapping[str, Any], entries: Sequence[Entry]
) -> pathlib.Path:
    """Write what became of all files of a shard; of the `files` of all shards, the checksum of their names."""
    path = out / MANIFEST.format(*part)
    content = {
        "shard": part.number,
        "of": part.total,
        "names": hashlib.sha256(os.fsencode("\n".join(file.name for file in files))).hexdigest(),
        "settings": settings,
        "versions": {"python": platform.python_version(), "jax": jax.__version__},
        "files": list(entries),
    }
    write_json(path, content)
    return path


def solve_shard(args: argparse.Namespace) -> None:
    """Solve all files of a folder or a pattern, or the part that a shard is, into a folder of plans with a manifest.

    A shard has every `total`-th file in the order of names, so that all get files of all sizes where names tell the
    size. A plan of an earlier run is kept if file and settings are the same. Files that cannot be read are named at the
    end, with exit status 2; all others are solved.
    """
    part, out = args.shard or Shard(1, 1), pathlib.Path(args.out[0])
    files, settings = files_of(args.instance), _settings(args)
    refuse_among_problems(out, args.instance, files)
    out.mkdir(parents=True, exist_ok=True)
    entries, groups = _pending(files[part.number - 1 :: part.total], settings, out, args)
    with Bar(total=sum(map(len, groups.values())), unit="plan") as bar:
        for (name, _), group in groups.items():
            for entry in _solve_pending(name, group, args):
                entries.append(entry)
                bar.update()
    entries.sort(key=lambda entry: (entry["file"], entry.get("problem") or 0))
    manifest = write_manifest(out, part, files, settings, entries)
    print(f"{sum('plan' in entry for entry in entries)} plans, listed in {manifest}")
    if refused := [entry["error"] for entry in entries if "error" in entry]:
        raise UserError(f"{len(refused)} of the files are refused, the first: {refused[0]}")


class _Pending(NamedTuple):
    """A problem of a file, and where its plan goes."""

    file: pathlib.Path
    row: int | None
    problem: Any
    path: pathlib.Path
    source: dict[str, Any]


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """What plans depend on beside their files."""
    settings = {name: getattr(args, name) for name in ("seconds", "method", "run", "env", "seed")}
    if args.fleet:
        settings["fleet"] = _fleet_checksum(pathlib.Path(args.fleet))
    if args.run:
        settings["policy"] = checksum(contents_file(args.run))
    return settings | {f"env.{name}": value for name, value in args.given.items()}


def _fleet_checksum(path: pathlib.Path) -> str:
    try:
        return checksum(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; give another file") from None


def _pending(
    files: Sequence[pathlib.Path], settings: Mapping[str, Any], out: pathlib.Path, args: argparse.Namespace
) -> tuple[list[Entry], dict[tuple, list[_Pending]]]:
    """The entries of files that are done or refused; and what is to be solved, by environment and size."""
    entries: list[Entry] = []
    groups: dict[tuple, list[_Pending]] = {}
    for file in files:
        try:
            name, problems = _read(file, args)
        except UserError as error:
            entries.append({"file": file.name, "error": _naming(file, error)})
            continue
        sha256 = checksum(file)
        for row, problem in enumerate(problems):
            number = row if len(problems) > 1 else None
            path = plan_path(out, file, number)
            read = {"sha256": sha256, "read": digest(problem)}
            source = {"file": file.name, "problem": number, **read, "settings": settings}
            if (entry := entry_of(path)) and source.items() <= entry.items():
                entries.append(entry)
                continue
            shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(problem))
            groups.setdefault((name, shapes), []).append(_Pending(file, number, problem, path, source))
    return entries, groups


def _read(file: pathlib.Path, args: argparse.Namespace) -> tuple[str, Sequence[Any]]:
    """What plays the problems of a file, by the name of an environment or of a run, and all of these."""
    if args.fleet:
        name, problem = read_case(file, args.fleet)
        return name, [problem]
    return read_problems(file, args.env, args.given, run=args.run, trust=args.trust)


def _solve_pending(name: str, group: Sequence[_Pending], args: argparse.Namespace) -> Iterator[Entry]:
    """Solve problems of one size, many in one program where a search can; plans are written at once."""
    stack = None if args.run else stack_of(name, args.method)
    size = TOGETHER if stack else 1
    for part in (group[first : first + size] for first in range(0, len(group), size)):
        try:
            solutions = _solve_batch(name, stack, part, args) if stack else [_solve_alone(name, part[0], args)]
        except UserError as error:
            yield from ({"file": each.file.name, "error": _naming(each.file, error)} for each in part)
            continue
        if solutions[-1].interrupted:  # a plan of fewer seconds than the settings say would never be made again
            raise KeyboardInterrupt
        for each, solution in zip(part, solutions, strict=True):
            dataclasses.replace(solution, plan={**solution.plan, "source": each.source}).write(each.path)
            entry = entry_of(each.path)
            assert entry
            yield entry


def _naming(file: pathlib.Path, error: UserError) -> str:
    """Why a file is refused, for a list of many: some mistakes are of an option that does not fit this one alone."""
    return str(error) if str(file) in str(error) else f"{file}: {error}"


def _solve_alone(name: str, pending: _Pending, args: argparse.Namespace) -> Solution:
    if args.run:
        problem = open_problem(pending.file, run=args.run, row=pending.row, trust=args.trust, given=args.given)
        assumed = problem.assumed
    else:
        problem = problem_in(name, pending.problem, pending.file, args.given)
        assumed = "" if args.fleet else assumed_words(problem.problems, pending.file, args.given)
    _show_warnings(pending, problem, assumed)
    return solved(problem, seconds=args.seconds, method=args.method, seed=args.seed)


def _solve_batch(
    name: str, stack: Callable[[Sequence[Any]], Any], part: Sequence[_Pending], args: argparse.Namespace
) -> list[Solution]:
    problems = [each.problem for each in part]
    batch = problem_in(name, stack(problems), part[0].file, args.given)
    method = chosen(batch, args.method)
    for each in part:
        _show_warnings(each, batch, assumed_words(batch.problems, each.file, args.given))
    return solved_together(batch, problems, method, args.seconds, args.seed, None)


def _show_warnings(pending: _Pending, problem: Problem, assumed: str) -> None:
    show_warnings(problem.problems.inspect(pending.problem, problem.env), assumed, f"{pending.file.name}: ")


def collect(out: pathlib.Path) -> str:
    """Check that all shards are complete and no plan is missing, write one table of all plans, and sum up.

    Raises:
        UserError: a shard or a plan is missing or damaged, or shards do not belong together.
    """
    found, of_all = {}, []
    for path in sorted(out.glob(MANIFEST.format("*", "*"))):
        try:
            manifest = read_json(path, "")
            CONTENT(manifest, "")
            found[Shard(manifest["shard"], manifest["of"])] = manifest["files"]
            of_all.append((manifest.get("names"), manifest.get("settings")))
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
    if any(each != of_all[0] for each in of_all):
        raise UserError(
            f"the shards in {out} are not all of the same files and options; run them again, which keeps the plans "
            "that are of these"
        )
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

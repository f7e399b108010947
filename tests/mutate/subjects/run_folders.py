"""Run folders, damaged: resumed, evaluated, replayed; refused with nothing lost, or the same to the last bit.

Beside damage of every kind, folders are tried as a kill would have left them: a copy is made at every change on disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from jaxvrp.io.command_line import UserError
from tests.mutate import runs
from tests.mutate.mutators import NUMBERS, WORDS, mutate_bytes, mutate_text, pick
from tests.mutate.subjects.configurations import MORE
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import Ended, command
from train import algorithms, evaluate, ippo, mappo, replay, sac, td3
from train.commands import launch
from train.run import evaluator, folder, loop
from train.run.checkpoint import Checkpoints
from train.run.folder import read_run
from train.run.metrics import MetricsWriter
from train.shown import report

MAINS = {"mappo": mappo.main, "ippo": ippo.main, "td3": td3.main, "sac": sac.main}

VARIANTS = ("mappo_gru", "td3")
HALF = 4
"""Update at which a run is interrupted that is to be resumed."""

TEXTS = ("config.yaml", "start.json", "rates.json", "metrics.jsonl", "timing.jsonl", "summary.json", "contents.json")
"""Names of files that people read; a damage there is one of words and lines."""


class RunFolders(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        _remember_programs()
        self._made: dict[str, _Made] = {}

    def attempt(self, case: Case) -> Tally:
        """A folder is damaged, and a command is given it."""
        random = case.random()
        name = VARIANTS[int(random.random() < 0.3)]
        if name not in self._made:
            self._made[name] = _Made.of(name, self.scratch / name)
        made, run = self._made[name], case.folder / "run"
        how = random.random()
        try:
            if how < 0.2:
                made.copy(pick(random, made.torn), run)
                _resume(made, run, "as a kill left it")
            elif how < 0.7:
                made.copy(made.half, run)
                _resume(made, run, _damage(run, random))
            elif how < 0.75:
                made.copy(made.half, run)
                _resume_with_more(made, run, random)
            elif how < 0.82:
                made.copy(made.finished, run)
                _look_with_more(run, random)
            else:
                made.copy(made.finished, run)
                _look_at(made, run, _damage(run, random), random)
        except Finding as finding:
            raise Finding(f"{name}: {finding.kind}", finding.details) from finding
        return NOTHING


# --- sound folders --------------------------------------------------------------------------------------------------


def _remember_programs() -> None:
    """In this process, what was compiled once is used again: a learner by its configuration, programs by who plays."""
    launch.make_train = folder.make_train = _by_text(algorithms.make_train)
    of_learners = [(loop, "evaluation_function"), (report, "recording_function")]
    for module, name in (*of_learners, *((evaluate, name) for _, name in of_learners)):
        setattr(module, name, _by_evaluator(getattr(evaluator, name)))
    evaluator.Evaluator.baseline_programs = _by_evaluator(evaluator.Evaluator.baseline_programs)


def _by_evaluator(make: Callable[..., Any]) -> Callable[..., Any]:
    made = functools.lru_cache(maxsize=64)(make)

    def remembered(*players: Any, **how: Any) -> Any:
        *learner, judge = players
        return made(*learner, _same_evaluator(repr(judge.env), judge.num_episodes, judge.seed, judge), **how)

    return remembered


_EVALUATORS: dict[tuple[Any, ...], evaluator.Evaluator] = {}


def _same_evaluator(env: str, num_episodes: int, seed: int, judge: evaluator.Evaluator) -> evaluator.Evaluator:
    return _EVALUATORS.setdefault((env, num_episodes, seed), judge)


def _by_text(make: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[str, Any] = {}

    def remembered(config: Any, _: Any = None, **how: Any) -> Any:
        if repr(config) not in made:
            made[repr(config)] = make(config, **how)
        return made[repr(config)]

    return remembered


@dataclasses.dataclass(frozen=True)
class _Made:
    """Folders of one run.

    Attributes:
        main: the command of its learner.
        half, finished: interrupted at update `HALF`, and never.
        torn: at every change on disk, as a kill would have left it there.
        last: digest of the last state.
        config: as it was resolved.
        shown: what `train.evaluate` says of it.
    """

    main: Callable[..., Any]
    half: Path
    finished: Path
    torn: list[Path]
    last: str
    config: Any
    shown: str

    @classmethod
    def of(cls, name: str, folder: Path) -> _Made:
        algorithm, words = runs.VARIANTS[name]
        main, argv = MAINS[algorithm], words.split()
        folder.mkdir()
        with _interrupted_at(HALF):
            _require(command(main, [*argv, "--run_dir", str(folder / "half")]), 130)
        run, torn = folder / "run", folder / "torn"
        with _digests() as states, _copies(run, torn):
            _require(command(main, [*argv, "--run_dir", str(run)]), 0)
        run.rename(folder / "finished")
        run = folder / "finished"
        shown = _require(command(evaluate.main, ["--run", str(run)]), 0).stdout
        return cls(main, folder / "half", run, sorted(torn.iterdir()), states[-1], read_run(run).config, shown)

    def copy(self, folder: Path, run: Path) -> None:
        """A copy of one of the folders, to be damaged."""
        shutil.copytree(folder, run)


def _require(ended: Ended, status: int) -> Ended:
    if ended.status != status:
        raise AssertionError(f"status {ended.status} instead of {status}: {ended.stderr[-2000:]}")
    return ended


@contextlib.contextmanager
def _interrupted_at(update: int) -> Iterator[None]:
    """Ctrl-C when that update is written down."""
    write = MetricsWriter.write

    def write_and_interrupt(self: MetricsWriter, record: Any, timing: Any) -> None:
        write(self, record, timing)
        if record["update"] == update:
            signal.raise_signal(signal.SIGINT)

    with mock.patch.object(MetricsWriter, "write", write_and_interrupt):
        yield


@contextlib.contextmanager
def _digests() -> Iterator[list[str]]:
    """Of the states that are saved."""
    save, found = Checkpoints.save, []

    def save_and_note(self: Checkpoints, update: int, state: Any, *rest: Any) -> None:
        found.append(runs.digest(state))
        save(self, update, state, *rest)

    with mock.patch.object(Checkpoints, "save", save_and_note):
        yield found


@contextlib.contextmanager
def _copies(run: Path, torn: Path) -> Iterator[None]:
    """A copy of the run folder before every change of it."""
    torn.mkdir()
    lock, is_on, count = threading.RLock(), [True], [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_on[0] or not runs.is_change(event, arguments, run):
            return
        with lock:
            if not is_on[0]:
                return
            is_on[0] = False
            count[0] += 1
            _copy_now(run, torn / f"{count[0]:04d}")
            is_on[0] = True

    sys.addaudithook(hook)
    try:
        yield
    finally:
        is_on[0] = False


def _copy_now(run: Path, copy: Path) -> None:
    """Copy a folder; if something in it goes away meanwhile, by another thread, there is no copy."""
    if not run.is_dir():
        return
    try:
        shutil.copytree(run, copy, symlinks=True)
    except (shutil.Error, FileNotFoundError):
        shutil.rmtree(copy)


# --- damage ---------------------------------------------------------------------------------------------------------


def _damage(run: Path, random: np.random.Generator) -> str:
    """Damage one thing in a run folder; returns what, relative to the folder."""
    how = random.random()
    if how < 0.04:
        return _plant_a_command(run, random)
    if how < 0.1:
        return _add_something(run, random)
    path = _some_path(run, random)
    name = path.relative_to(run).as_posix()
    if how < 0.2:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        return f"{name} is removed"
    if path.is_dir():
        path = next(inner for inner in sorted(path.rglob("*")) if inner.is_file())
        name = path.relative_to(run).as_posix()
    if how < 0.23:
        path.unlink()
        path.mkdir()
        return f"{name} is a folder"
    content = path.read_bytes()
    damaged = mutate_text(random, content) if path.name in TEXTS else mutate_bytes(random, content)
    path.write_bytes(damaged)
    return f"{name} is changed" if damaged != content else "nothing"


def _some_path(run: Path, random: np.random.Generator) -> Path:
    """A file or folder; those at the top as often as those of all checkpoints."""
    top = sorted(path for path in run.iterdir() if path.is_file())
    deep = sorted((run / "checkpoints").rglob("*"))
    paths = top if random.random() < 0.6 else deep
    return pick(random, paths)


def _add_something(run: Path, random: np.random.Generator) -> str:
    names = ("checkpoints/9", "checkpoints/x", "checkpoints/5.orbax-checkpoint-tmp", "checkpoints/3/more", "note.txt")
    name = pick(random, names)
    path = run / name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".txt" or random.random() < 0.3:
        path.write_text("something else\n")
    else:
        path.mkdir(exist_ok=True)
    return f"{name} is added"


PLANTED = """
import pathlib
pathlib.Path({marker!r}).touch()
def Environment(**parameters):
    pathlib.Path({marker!r}).touch()
"""
"""A module that leaves a file where somebody imports it."""


def _plant_a_command(run: Path, random: np.random.Generator) -> str:
    """The configuration names a function that runs commands, or a module that does when it is imported."""
    config, marker = run / "config.yaml", str(run.parent / "planted")
    (run.parent / "planted_module.py").write_text(PLANTED.format(marker=marker))
    environments = (
        ["  name: subprocess:getoutput", f"  cmd: touch {marker}"],
        ["  name: planted_module:Environment"],
        ["  name: truck_drone", "  scenario: planted_module:Environment"],
    )
    lines = config.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("env:"))
    end = next(number for number in range(start + 1, len(lines)) if not lines[number].startswith(" "))
    planted = ["env:", *pick(random, environments)]
    config.write_text("\n".join([*lines[:start], *planted, *lines[end:]]) + "\n")
    return "config.yaml has a command"


# --- what comes of it -----------------------------------------------------------------------------------------------


def _content(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """As for a command line, modules of the working folder can be imported; none is known from before."""
    sys.modules.pop("planted_module", None)
    with mock.patch.object(sys, "path", [str(folder), *sys.path]):
        importlib.invalidate_caches()
        yield


def _check_nothing_ran(run: Path) -> None:
    if (run.parent / "planted").exists():
        raise Finding("a command that a run folder names is run")


def _resume(made: _Made, run: Path, damage: str) -> None:
    before = _content(run)
    try:
        with _digests() as states, _importable(run.parent):
            ended = command(made.main, ["--resume", str(run)])
        _check_nothing_ran(run)
        if ended.status == 2:
            _check_kept(before, run)
        else:
            _check_went_on(made, run, ended, states)
    except Finding as finding:
        raise Finding(f"resume, {_kind(damage)}: {finding.kind}", f"{damage}\n{finding.details}") from finding


def _kind(damage: str) -> str:
    """Without the numbers of checkpoints."""
    return "".join("N" if letter.isdigit() else letter for letter in damage)


def _check_kept(before: dict[str, bytes], run: Path) -> None:
    """Whoever is refused finds everything as it was; what a kill left half-written may be cleared away."""
    after = _content(run)
    lost = [name for name, content in before.items() if after.get(name) != content and "tmp" not in name]
    if lost:
        raise Finding("refused, and yet files are changed or lost", ", ".join(lost))


def _check_went_on(made: _Made, run: Path, ended: Ended, states: list[str]) -> None:
    """The same to the last bit, or a warning that names what is missing."""
    try:
        config = read_run(run).config
    except UserError as error:
        raise Finding("goes on with a configuration that cannot be read", str(error)) from error
    if config != made.config:
        raise Finding("goes on with another configuration", f"{config}\n{made.config}")
    if states and states[-1] != made.last:
        raise Finding("goes on to another last state")
    if "warning" in ended.stderr.lower():
        return
    # Of a record whose figures are others, nobody can know; of one that is missing, everybody.
    unknowable = {"config.yaml", "start.json", "metrics.jsonl", "learning_curve.png"}
    unexplained = {*runs.differences(made.finished, run)} - unknowable
    unexplained -= {name for name in unexplained if name.startswith("files: missing []")}
    if runs.updates(run / "metrics.jsonl") != runs.updates(made.finished / "metrics.jsonl"):
        unexplained.add("updates in metrics.jsonl")
    if unexplained:
        raise Finding("goes on without a warning, and ends otherwise", f"{unexplained}\n{ended.stderr[-2000:]}")


def _resume_with_more(made: _Made, run: Path, random: np.random.Generator) -> None:
    """Other keys with `--resume` are refused by name; those of when to stop and to save may be taken."""
    key = pick(random, list(MORE))
    before = _content(run)
    ended = command(made.main, ["--resume", str(run), f"--{key}", MORE[key]])
    if ended.status == 2 and key not in ended.stderr:
        raise Finding("resume with another key is refused, but not by its name", ended.stderr)
    if ended.status == 2:
        _check_kept(before, run)
    elif not key.endswith("_interval"):
        raise Finding(f"resume takes --{key}")


OPTIONS = {
    evaluate.main: ("--episodes", "--seed", "--best_of", "--temperature", "--checkpoint", "--render", "--env.cut"),
    replay.main: ("--instance", "--checkpoint", "--out"),
}


def _look_with_more(run: Path, random: np.random.Generator) -> None:
    """An option with a word that nobody should give is refused, and nothing is written into the folder."""
    main = list(OPTIONS)[int(random.random() < 0.4)]
    option = pick(random, OPTIONS[main])
    # So many tries, or another place to write, may be meant.
    words = WORDS if option in ("--out", "--render", "--best_of") else WORDS + NUMBERS
    word = pick(random, words)
    before = _content(run)
    try:
        ended = command(main, ["--run", str(run), option, word])
        if ended.status == 2 and _content(run) != before:
            raise Finding("refused, and yet the folder is changed")
    except Finding as finding:
        raise Finding(f"{option} with an odd word: {finding.kind}", f"{word[:200]}\n{finding.details}") from finding


def _look_at(made: _Made, run: Path, damage: str, random: np.random.Generator) -> None:
    """`train.evaluate` shows what it showed, or refuses; neither it nor `train.replay` changes the folder."""
    before = _content(run)
    main = evaluate.main if random.random() < 0.8 else replay.main
    program = "evaluate" if main is evaluate.main else "replay"
    try:
        with _importable(run.parent):
            ended = command(main, ["--run", str(run)])
        _check_nothing_ran(run)
        after = _content(run)
        if any(after.get(name) != content for name, content in before.items()):
            raise Finding("the folder is changed", damage)
        if (
            ended.status == 0
            and program == "evaluate"
            and ended.stdout != made.shown
            and read_run(run).config == made.config
        ):
            raise Finding("shows other figures, and no word of why", f"{ended.stdout}\n{made.shown}")
    except Finding as finding:
        raise Finding(f"{program}, {_kind(damage)}: {finding.kind}", f"{damage}\n{finding.details}") from finding

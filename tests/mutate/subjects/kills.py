"""Runs of every learner, killed at any moment and resumed: they end with the bits of a run that was never killed."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.mutate import runs
from tests.mutate.mutators import pick
from tests.mutate.trial import Case, Finding, Subject, Tally

LONGEST = 240.0
"""Seconds that a process may take."""

MOST = 5
"""Kills of one run."""


class Kills(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        self._straight: dict[str, tuple[Path, int, float]] = {}

    def attempt(self, case: Case) -> Tally:
        """A run is killed up to five times, and finished."""
        random = case.random()
        name = pick(random, list(runs.VARIANTS))
        reference, changes, seconds = self._reference(name)
        run = _Run(name, case.folder)
        for _ in range(int(random.integers(1, MOST + 1))):
            run.interrupt(random, changes, seconds)
        try:
            run.finish()
            _compare(reference, run)
        except Finding as finding:
            raise Finding(f"{name}: {finding.kind}", f"{run.story()}\n{finding.details}") from finding
        return Tally(kills=run.num_kills)

    def _reference(self, name: str) -> tuple[Path, int, float]:
        """The folder of a run that was never killed, with its notes beside it; its changes on disk, its seconds."""
        if name not in self._straight:
            folder = self.scratch / name
            run = _Run(name, folder)
            stopped = run.finish()
            changes = int((run.last_notes / "changes.txt").read_text())
            self._straight[name] = (folder / "run", changes, stopped.seconds)
        return self._straight[name]


class _Run:
    """One run, in as many processes as it takes.

    Attributes:
        folder: of the run.
        num_kills: so far.
        last_notes: folder with the notes of the latest process.
    """

    def __init__(self, name: str, folder: Path):
        self._algorithm, words = runs.VARIANTS[name]
        self._words = tuple(words.split())
        self._place, self.folder, self.num_kills = folder, folder / "run", 0
        self._processes: list[str] = []
        self.last_notes = folder
        self._must_go_on = False

    def story(self) -> str:
        """What happened to it, process by process."""
        return "\n".join(self._processes)

    def interrupt(self, random: np.random.Generator, changes: int, seconds: float) -> None:
        """Kill it: at a change on disk, or at some time; or ask it to stop."""
        how = random.random()
        moment, change = float(random.uniform(0.1, 1.0)) * seconds, int(random.integers(1, changes + 1))
        if how < 0.7:
            self._play(LONGEST, dies_at=change)
        else:
            number = signal.SIGKILL if how < 0.9 else (signal.SIGINT if how < 0.95 else signal.SIGTERM)
            self._play(moment, number=number)

    def finish(self) -> runs.Stopped:
        """Let it come to its end."""
        stopped = self._play(LONGEST)
        if stopped.status != 0:
            raise Finding(f"a run that is not killed ends with status {stopped.status}", stopped.output[-3000:])
        return stopped

    def _play(self, seconds: float, *, dies_at: int | None = None, number: int | None = None) -> runs.Stopped:
        stopped = self._start(seconds, dies_at, number)
        if stopped.status == 2 and not self._must_go_on and "--resume" in self._processes[-1]:
            # It was killed before there was anything to go on from.
            shutil.rmtree(self.folder, ignore_errors=True)
            stopped = self._start(seconds, dies_at, number)
        self._check(stopped, number)
        self.num_kills += stopped.status == -signal.SIGKILL
        return stopped

    def _start(self, seconds: float, dies_at: int | None, number: int | None) -> runs.Stopped:
        self._must_go_on = bool(runs.checkpoints(self.folder))
        if self.folder.exists():
            words: tuple[str, ...] = ("--resume", str(self.folder))
        else:
            words = (*self._words, "--run_dir", str(self.folder))
        self.last_notes = self._place / "notes" / str(len(self._processes))
        training = runs.Training(self._algorithm, words, self.folder, self.last_notes, dies_at)
        stopped = runs.wait(runs.start(training), training, seconds, number)
        how = f"dies at change {dies_at}" if dies_at else f"signal {number} after {seconds:.2f} s" if number else "ends"
        self._processes.append(f"{' '.join(words)} ({how}): status {stopped.status}")
        return stopped

    def _check(self, stopped: runs.Stopped, number: int | None) -> None:
        """It ended as it should have, and what has its final name is whole."""
        if "Traceback" in stopped.output:
            raise Finding("a traceback", f"{self.story()}\n{stopped.output[-3000:]}")
        allowed = (0, 2, -signal.SIGKILL) if number in (None, signal.SIGKILL) else (0, 2, 130, -int(number))
        if stopped.status not in allowed or (stopped.status == 2 and self._must_go_on):
            raise Finding(
                f"status {stopped.status} of a run that had a checkpoint", f"{self.story()}\n{stopped.output[-3000:]}"
            )
        for name, read in (("config.yaml", yaml.safe_load), ("summary.json", json.loads)):
            path = self.folder / name
            if path.is_file() and not isinstance(_parsed(read, path), dict):
                raise Finding(f"{name} is half written", self.story())


def _parsed(read: Callable[[str], Any], path: Path) -> Any:
    """What a file says; None if it cannot be read."""
    try:
        return read(path.read_text())
    except (ValueError, yaml.YAMLError):
        return None


def _compare(reference: Path, run: _Run) -> None:
    different = list(runs.differences(reference, run.folder))
    if different:
        raise Finding("differs from a run that was never killed", "\n".join(different))
    wanted, found = runs.digests(reference.parent / "notes"), runs.digests(run.last_notes.parent)
    for update, saved in found.items():
        if saved != wanted.get(update, saved):
            raise Finding("a state that is saved has other bits than that of a run that was never killed", f"{update}")

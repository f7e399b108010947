"""What the trial says: a line of progress, a line for each finding, a table, and folders with reproducers."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from pathlib import Path

from tests.mutate.lane import Report
from tests.mutate.trial import NOTHING, Tally

KEPT = 3
"""Cases of one kind whose folders are kept."""

LARGEST = 5_000_000
"""Bytes of a folder that is kept whole."""


@dataclasses.dataclass
class Row:
    """What is known of one subject."""

    cases: int = 0
    tally: Tally = NOTHING
    findings: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


class Log:
    """Gathers reports and prints them.

    Attributes:
        rows: by subject.
    """

    def __init__(self, subjects: list[str], seed: int, minutes: float, out: Path):
        self.rows = {name: Row() for name in subjects}
        self._seed, self._minutes, self._out = seed, minutes, out
        self._began, self._shown = time.monotonic(), 0.0

    @property
    def num_findings(self) -> int:
        """Cases in which something was found."""
        return sum(len(numbers) for row in self.rows.values() for numbers in row.findings.values())

    def add(self, subject: str, report: Report, case_folder: Path) -> None:
        """Count a case; what it found is printed if it is new, and kept."""
        row = self.rows[subject]
        row.cases += 1
        row.tally += report.tally
        if report.finding is None:
            return
        kind, details = report.finding
        numbers = row.findings.setdefault(kind, [])
        numbers.append(report.number)
        if len(numbers) <= KEPT:
            self._keep(subject, report.number, kind, details, case_folder)
        if len(numbers) == 1:
            self._clear_line()
            print(f"FOUND  {subject}: {kind}\n       {self.again(subject, report.number)}", flush=True)

    def again(self, subject: str, number: int) -> str:
        """The command that tries a case again."""
        return f"python -m tests.mutate --case {subject}:{self._seed}:{number}"

    def _keep(self, subject: str, number: int, kind: str, details: str, case_folder: Path) -> None:
        kept = self._out / f"{subject}_{self._seed}_{number}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        (kept / "finding.txt").write_text(f"{kind}\n\n{self.again(subject, number)}\n\n{details}\n", errors="replace")
        if case_folder.is_dir():
            size = sum(path.stat().st_size for path in case_folder.rglob("*") if path.is_file())
            if size <= LARGEST:
                shutil.copytree(case_folder, kept / "files", symlinks=True)
            shutil.rmtree(case_folder, ignore_errors=True)

    def progress(self, running: list[str]) -> None:
        """Where the trial stands: on a terminal once a second, else twice a minute."""
        now, is_terminal = time.monotonic(), sys.stderr.isatty()
        if not self._minutes or now - self._shown < (1.0 if is_terminal else 30.0):
            return
        self._shown = now
        spent, total = int(now - self._began), int(60 * self._minutes)
        tally = sum((row.tally for row in self.rows.values()), NOTHING)
        cases = sum(row.cases for row in self.rows.values())
        line = (
            f"{spent // 60}:{spent % 60:02d} of {total // 60}:{total % 60:02d}  {cases} cases, {tally.kills} kills, "
            f"{tally.steps:.3g} steps, {self.num_findings} findings  [{', '.join(running)}]"
        )
        print(f"\r\x1b[K{line}" if is_terminal else line, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    def _clear_line(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def table(self) -> str:
        """Cases, kills, steps and findings of each subject, and every kind of finding with its first case."""
        self._clear_line()
        head = f"{'subject':<16}{'cases':>9}{'kills':>7}{'steps':>14}{'findings':>10}{'seconds':>9}"
        lines = ["", head, "-" * len(head)]
        for name, row in self.rows.items():
            lines.append(_line(name, row.cases, row.tally, sum(map(len, row.findings.values())), row.seconds))
        tally = sum((row.tally for row in self.rows.values()), NOTHING)
        cases = sum(row.cases for row in self.rows.values())
        lines.append(_line("all", cases, tally, self.num_findings, time.monotonic() - self._began))
        for name, row in self.rows.items():
            for kind, numbers in sorted(row.findings.items(), key=lambda found: -len(found[1])):
                lines.append(f"\n{len(numbers)} x {name}: {kind}\n    {self.again(name, numbers[0])}")
        if self.num_findings:
            lines.append(f"\nwhat was found lies in {self._out}")
        return "\n".join(lines)


def _line(name: str, cases: int, tally: Tally, findings: int, seconds: float) -> str:
    return f"{name:<16}{cases:>9}{tally.kills:>7}{tally.steps:>14,}{findings:>10}{seconds:>9.0f}".replace(",", " ")

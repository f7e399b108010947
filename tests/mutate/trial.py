"""What the trial is made of: cases, subjects, and what they find."""

from __future__ import annotations

import abc
import dataclasses
import traceback
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
"""The repository."""

OURS = tuple(str(ROOT / package) for package in ("jaxvrp", "train"))
"""Where an error must be raised to count as a refusal."""


class Finding(Exception):
    """Something slipped through.

    Attributes:
        kind: a short text that is the same for all cases with this fault.
        details: all that is known, over several lines.
    """

    def __init__(self, kind: str, details: str = ""):
        super().__init__(kind)
        self.kind, self.details = kind, details

    @classmethod
    def of(cls, error: BaseException, subject: str = "") -> Finding:
        """The finding that an exception is, told apart by its type and the last place in the repository."""
        frames = traceback.extract_tb(error.__traceback__)
        local = [frame for frame in frames if frame.filename.startswith(OURS)] or frames[-1:]
        place = f"{Path(local[-1].filename).name}, {local[-1].name}" if local else "nowhere"
        kind = f"{subject}{': ' if subject else ''}{type(error).__name__} ({place})"
        return cls(kind, "".join(traceback.format_exception(error)))


@dataclasses.dataclass(frozen=True)
class Case:
    """One trial; its text is `SUBJECT:SEED:NUMBER`.

    Attributes:
        subject, seed, number: what it is drawn from.
        folder: empty, and the working folder while it is tried; kept if something is found.
    """

    subject: str
    seed: int
    number: int
    folder: Path = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.subject}:{self.seed}:{self.number}"

    def random(self) -> np.random.Generator:
        """What the case is drawn from, the same each time."""
        return np.random.default_rng([self.seed, zlib.crc32(self.subject.encode()), self.number])


@dataclasses.dataclass(frozen=True)
class Tally:
    """What was done: environment steps that were checked, processes that were killed."""

    steps: int = 0
    kills: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.steps + other.steps, self.kills + other.kills)


NOTHING = Tally()
"""Nothing was done that is counted."""


class Subject(abc.ABC):
    """What is tried, in a process of its own."""

    def __init__(self, scratch: Path):
        """Make the sound things that are damaged later; `scratch` is an empty folder for them."""
        self.scratch = scratch

    @abc.abstractmethod
    def attempt(self, case: Case) -> Tally:
        """Try one case.

        Raises:
            Finding: what slipped through. Any other exception that leaves here is a finding too.
        """

"""Progress bars: of a run, of episodes that are played, of a command that does one thing after another."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from tqdm import tqdm

from jaxvrp.card import Headline

TICK = 1.0
"""Seconds between two looks at the clock that a bar on a terminal shows: an update may take minutes."""


LINE = 10.0
"""Seconds between two lines of a log."""


class Bar(tqdm):
    """A bar of `tqdm` on a terminal; in a log, a line every `LINE` seconds and at the end."""

    disable: bool

    def __init__(self, **options: Any):
        self._is_terminal = sys.stderr.isatty()
        self._due, self._line = time.monotonic() + LINE, ""
        super().__init__(**options)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw it, or write the line if it is due; see `tqdm`."""
        if self._is_terminal:
            super().display(msg, pos)
        elif time.monotonic() >= self._due and (line := str(self).strip()) != self._line:
            self._due, self._line = time.monotonic() + LINE, line
            print(line, file=sys.stderr)

    def clear(self, nolock: bool = False) -> None:
        """Make room for a line of others; see `tqdm`."""
        if self._is_terminal:
            super().clear(nolock)

    def close(self) -> None:
        """End it, and leave it as it is if it is to be left; see `tqdm`."""
        if self._is_terminal or self.disable:
            super().close()
            return
        self._due = self._due if self.leave is False else 0.0
        self.display()
        self.disable = True
        self._decr_instances(self)


class Progress:
    """A progress bar over environment steps: time, speed, time left, returns and what the headlines name.

    Speed and time left leave out compilation: the first stretch, and the first time of each `phase`.
    """

    def __init__(
        self,
        total_steps: int,
        done_steps: int,
        headlines: Sequence[Headline],
        *,
        enabled: bool,
        title: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ):
        rates = {headline.progress: f"env/{headline.metric}" for headline in headlines if headline.progress}
        self._names = {"return": "episode/return", **rates, "evaluated return": "eval/return"}
        self._figures: dict[str, str] = {}
        self._known_phases: set[str] = set()
        self._clock = clock
        self._stretch_began, self._uncounted_seconds = clock(), 0.0
        self._counted_steps, self._counted_seconds = 0, 0.0
        self._is_first_stretch = True
        self._steps_left = total_steps - done_steps
        self._bar = Bar(
            total=total_steps,
            initial=done_steps,
            disable=not enabled,
            desc=title or None,
            unit_scale=True,
            dynamic_ncols=True,
            bar_format="{l_bar}{bar:20}| {n_fmt}/{total_fmt} steps, {elapsed}{postfix}",
        )
        self._bar.set_postfix_str("compiling, and the first update")
        self._is_closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        if enabled and sys.stderr.isatty():
            self._ticker.start()

    def _tick(self) -> None:
        while not self._is_closed.wait(TICK):
            self._bar.refresh()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the work that takes time now and then; its first time is compilation too, and is not counted."""
        if name in self._known_phases:
            yield
            return
        began = self._clock()
        yield
        self._known_phases.add(name)
        self._uncounted_seconds += self._clock() - began

    def advance(self, steps: int, record: dict[str, Any]) -> None:
        """Show a record, and that `steps` more have been done; a figure stays where the record has none."""
        now = self._clock()
        if not self._is_first_stretch:
            self._counted_steps += steps
            self._counted_seconds += now - self._stretch_began - self._uncounted_seconds
        self._is_first_stretch = False
        self._steps_left -= steps
        self._stretch_began, self._uncounted_seconds = now, 0.0
        for label, name in self._names.items():
            if record.get(name) is not None:
                self._figures[label] = f"{label} {np.mean(record[name]):.2f}"
        figures = [self._figures[label] for label in self._names if label in self._figures]
        self._bar.set_postfix_str(", ".join(filter(None, [self._speed(), *figures])), refresh=False)
        self._bar.update(steps)

    @property
    def seconds_left(self) -> float | None:
        """An estimate, of what was counted so far; None before anything was."""
        return self._steps_left * self._counted_seconds / self._counted_steps if self._counted_steps else None

    def _speed(self) -> str:
        if self.seconds_left is None or not self._counted_seconds:
            return ""
        rate = tqdm.format_sizeof(self._counted_steps / self._counted_seconds)
        return f"{rate} steps/s, {tqdm.format_interval(self.seconds_left)} left"

    def close(self) -> None:
        """Leave the bar as it is."""
        self._is_closed.set()
        if self._ticker.is_alive():
            self._ticker.join()
        self._bar.close()


class Episodes:
    """A progress bar over episodes: the player and the time left; use it as a context manager."""

    layout = "{l_bar}{bar:20}| {n_fmt}/{total_fmt} episodes, {remaining} left{postfix}"

    def __init__(self, total: int):
        # Scaled, 8 of 24 would be `8.00/24.0`.
        self._bar = Bar(total=total, unit_scale=total >= 1000, dynamic_ncols=True, bar_format=self.layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self._bar.close()

    def begin(self, name: str) -> None:
        """Show what is done now."""
        self._bar.set_postfix_str(name)

    def advance(self, count: int = 1) -> None:
        """So many more have been played."""
        self._bar.update(count)
        self._bar.refresh()


class Parts(Episodes):
    """A progress bar over the parts of a command, each shown by its name; a part is done when the next one begins."""

    layout = "{l_bar}{bar:20}| {n}/{total}, {elapsed}{postfix}"
    has_begun = False

    def begin(self, name: str) -> None:
        """The part before is done, and this one begins."""
        self._bar.update(int(self.has_begun))
        self.has_begun = True
        self._bar.set_postfix_str(name)

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self._bar.set_postfix_str("done", refresh=False)
            self._bar.update(self._bar.total - self._bar.n)
        self._bar.close()

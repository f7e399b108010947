"""Times of a day as people write them, `08:00`, and as minutes since a day began."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxvrp.io.messages import shown
from jaxvrp.io.units import TIMES

MINUTES = 24 * 60
"""Of a day."""

TIME = re.compile(r"(?:([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?)|24:00(?::00)?")


def is_time(value: object) -> bool:
    """Whether a value is a text like `08:00` or `8:00:30`."""
    return isinstance(value, str) and TIME.fullmatch(value.strip()) is not None


def minutes_of(text: str) -> float:
    """Minutes from midnight to a time of the clock.

    Raises:
        ValueError: it is none; one line.
    """
    found = TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text.strip()[:20]}' is no time of the clock; write it as 08:30")
    hour, minute, second = (int(part or 0) for part in found.groups())
    return float(MINUTES) if found[1] is None else 60 * hour + minute + second / 60


class Clock(NamedTuple):
    """The clock of a day that begins `start` minutes after midnight."""

    start: float

    def since(self, text: str) -> float:
        """Minutes from the start to a time; one before the start is of the next day. Errors as of `minutes_of`."""
        minutes = minutes_of(text)
        if self.start == 0:  # 24:00 is the end of this day, not its start
            return minutes
        return (minutes - self.start) % MINUTES

    def shown(self, minutes: float) -> str:
        """The time so many minutes after the start, to the minute: `08:12`; on the next day `00:30 +1`.

        Half a minute is rounded up, as on pages.
        """
        days, rest = divmod(math.floor(self.start + minutes + 0.5), MINUTES)
        return f"{rest // 60:02}:{rest % 60:02}" + (f" +{days}" if days else "")

    def number(self, value: Any, unit: float, field: str) -> Any:
        """A time of the clock in units of so many minutes since the start; any other value as it is.

        Raises:
            ValueError: a text that is no time; one line that names the field.
        """
        if not isinstance(value, str):
            return value
        try:
            return self.since(value) / unit
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None


def clock_at(value: Any, field: str) -> Clock:
    """The clock that starts at a time; raises a ValueError of one line that names the field if it is none."""
    if not is_time(value):
        raise ValueError(f"{field} is {shown(value)}; it must be a time, written as 08:00")
    return Clock(minutes_of(value) % MINUTES)


def with_numbers(content: Any, entries: str, times: Sequence[str]) -> tuple[Any, Clock | None]:
    """A JSON value with numbers for times of the clock, in its unit since its `start`, and the clock of that.

    These are its `horizon`, and the fields `times` of each of its `entries`. As it is, and None, if it has no start.

    Raises:
        ValueError: a time is none; one line that names the field.
    """
    if not (isinstance(content, Mapping) and content.get("start") is not None):
        return content, None
    clock, units = clock_at(content["start"], "start"), content.get("units")
    unit = TIMES.get(str(units.get("time")), 1.0) if isinstance(units, Mapping) else 1.0

    def number(value: Any, field: str) -> Any:
        if isinstance(value, list):
            return [clock.number(each, unit, field) for each in value]
        return clock.number(value, unit, field)

    def entry(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {**value, **{name: number(value[name], f"{where}.{name}") for name in times if name in value}}

    found = {"horizon": number(content["horizon"], "horizon")} if "horizon" in content else {}
    if isinstance(listed := content.get(entries), list):
        found[entries] = [entry(value, f"{entries}[{index}]") for index, value in enumerate(listed)]
    return {**content, **found}, clock

"""What about places and times of a problem is absurd, as if units had been mixed; each function yields lines.

A line names the field and the remedy. Places are `f64[n, 2]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

FAR, TINY = 20.0, 100.0
"""Some places are in another unit of length than others if the nearest lies `FAR` times the extent of these away, or if
the extent of these is `TINY` times theirs."""

DEGREES = (180.0, 90.0)
"""Largest longitude and latitude."""

BRIEF = 1 / 500
"""Share of the horizon; what crosses the map in less has another unit of length or time."""

UNITS = "give it in the units of length and time of the file"

Words = Callable[[float], str]
"""A number with its unit."""


def extent(places: np.ndarray) -> float:
    """The diagonal of the box around places."""
    return float(np.linalg.norm(np.ptp(places, axis=0)))


def nearest(places: np.ndarray, others: np.ndarray) -> np.ndarray:
    """`f64[n]`, from each place to the nearest of others; row by row, as a table of all takes much memory."""
    return np.array([np.linalg.norm(others - place, axis=1).min() for place in places])


def degrees(places: np.ndarray, field: str) -> Iterator[str]:
    """Places that look like latitude and longitude; `field` has the first of them."""
    low, high = places.min(axis=0), places.max(axis=0)
    is_bounded = any((np.abs(places) <= bounds).all() for bounds in (DEGREES, DEGREES[::-1]))
    if is_bounded and np.abs(low).max() > 3 and (high - low).max() < min(1.5, 0.1 * np.abs(low).max()):
        x, y = places[0]
        yield (
            f"{field}: [{x:g}, {y:g}] looks like latitude and longitude, and a map is flat; project all "
            "positions to metres or kilometres"
        )


def distant(
    field: Callable[[int], str], places: np.ndarray, name: str, others: np.ndarray, length: Words
) -> Iterator[str]:
    """Places that lie much farther from `others`, each of which is a `name`, than these from each other."""
    gap, width = nearest(places, others), extent(others)
    found = np.flatnonzero(gap > FAR * width)
    if width and found.size:
        more = f" and {found.size - 1} more" if found.size > 1 else ""
        yield (
            f"{field(found[0])}{more}: {length(gap[found[0]])} from the nearest {name}, while the {name}s lie within "
            f"{length(width)}; give all places in one unit of length"
        )


def paces(
    speeds: Mapping[str, float], words: Words, across: float, horizon: float, time: Words, remedy: str = UNITS
) -> Iterator[str]:
    """Speeds, by field, at which the map is crossed in no time, or not by the horizon; `words` are for speeds."""
    for field, speed in speeds.items():
        takes = across / speed
        if 0 < takes < BRIEF * horizon:
            yield (
                f"{field}: {words(speed)} is across the map in {time(takes)}, and the horizon is {time(horizon)}; "
                f"{remedy}"
            )
        yield from slow({field: speed}, words, across, horizon, time, remedy)


def slow(
    speeds: Mapping[str, float], words: Words, across: float, horizon: float, time: Words, remedy: str = UNITS
) -> Iterator[str]:
    """Likewise, those at which the map is not crossed by the horizon."""
    for field, speed in speeds.items():
        if (takes := across / speed) > horizon:
            yield (
                f"{field}: {words(speed)} takes {time(takes)} across the map, and the horizon is {time(horizon)}; "
                f"{remedy}"
            )


def out_of_reach(field: str, limit: float, needs: np.ndarray) -> Iterator[str]:
    """A limit of flights that no customer is within; `needs` (`f64[C]`) are the least flights to each of them."""
    if needs.size and needs.min() > limit:
        least = f"the nearest needs {needs.min():g}"
        yield f"{field}: no customer is within {limit:g}, {least}; give it in the units of the file"

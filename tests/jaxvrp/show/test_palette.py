"""Colours that stand beside each other are apart, for readers who see no red (protanopia) or green (deuteranopia) too.

Simulated as Viénot, Brettel and Mollon (1999) do: cone responses to the colour, of which one is replaced by what the
two others say. Differences are those of CIE L*a*b* (1976), where 2.3 is just noticeable.
"""

import itertools

import numpy as np
import pytest

from jaxvrp.envs.pcb.pictures import board_view as pcb
from jaxvrp.show.drawing import palette, stills
from jaxvrp.show.looks import SHADES, WINDOWS

LMS = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
"""Cone responses to linear red, green and blue; table of the paper."""

CONES = {
    "normal": np.eye(3),
    "protanopia": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deuteranopia": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
}

XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
"""Of linear sRGB."""


def lab(colour, cones):
    """L*, a*, b* of a colour `#rrggbb` as somebody with these cones sees it."""
    coded = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.linalg.solve(LMS, cones @ LMS @ linear), 0, 1)
    white = XYZ @ seen / (XYZ @ np.ones(3))
    x, y, z = np.where(white > 0.008856, np.cbrt(white), 7.787 * white + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(colour, other):
    """The least over all readers."""
    return min(np.linalg.norm(lab(colour, cones) - lab(other, cones)) for cones in CONES.values())


STATUS = (palette.ON_TIME, palette.LATE, palette.WAITING, palette.LOST)

BESIDE_EACH_OTHER = {
    "drones, customers, truck, map": (*palette.BESIDE_STATUS, *STATUS, palette.INK, palette.GROUND),
    "vehicles, faults, words": (*palette.SERIES, palette.WRONG, palette.INK, palette.WAITING, palette.GROUND),
    "nets, faults, power": (*pcb.COLOURS, palette.WRONG, pcb.POWER, "#ffffff"),
    "truck, drone, nobody": (*palette.SERIES[:2], palette.WAITING, palette.INK, palette.GROUND),
    "states in notebooks": (*stills.AGENT_COLOURS[:5], palette.ON_TIME, stills.WAITING, palette.LOST),
}


@pytest.mark.parametrize("where", BESIDE_EACH_OTHER)
def test_colours_beside_each_other_are_apart(where):
    pairs = itertools.combinations(BESIDE_EACH_OTHER[where], 2)
    found = {pair: round(difference(*pair), 1) for pair in pairs}
    assert min(found.values()) >= 12, sorted(found.items(), key=lambda item: item[1])[:5]


@pytest.mark.parametrize("grounds", [SHADES.values(), WINDOWS.values()])
def test_pale_grounds_are_apart(grounds):
    assert min(difference(*pair) for pair in itertools.combinations(grounds, 2)) >= 8


def test_the_measure_finds_what_meets():
    """The pink of drones and the grey of customers not served, as they were before."""
    pink, grey = "#CC79A7", "#9AA0A8"
    assert difference(pink, grey) < 7
    assert np.linalg.norm(lab(pink, np.eye(3)) - lab(grey, np.eye(3))) > 35
    assert difference("#ffffff", "#000000") == pytest.approx(100, abs=0.1)

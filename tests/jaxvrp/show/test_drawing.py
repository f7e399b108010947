"""Drawing functions draw into what they are given and return it; files are what endings say; maps have a scale."""

import importlib
import inspect

import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxvrp.show import draw_story
from jaxvrp.show.drawing import files, paper
from tests.jaxvrp.show.stories import RIDES


@pytest.mark.parametrize(
    ("module", "all_targets"), [("jaxvrp.show", {"ax", "fig"}), ("jaxvrp.envs.pcb.pictures", {"fig"})]
)
def test_every_drawing_function_takes_axes_or_a_figure(module, all_targets):
    drawing = [value for name, value in vars(importlib.import_module(module)).items() if name.startswith("draw_")]
    targets = []
    for draw in drawing:
        parameters = inspect.signature(draw).parameters
        (target,) = {"ax", "fig"} & set(parameters)
        assert parameters[target].default is None and parameters[target].kind is inspect.Parameter.KEYWORD_ONLY, draw
        targets.append(target)
    assert all_targets == set(targets)


@pytest.mark.parametrize(("width", "unit"), [(2.1, "map units"), (3.2, "km"), (173.0, "mm")])
def test_a_scale_bar_is_as_long_as_it_says(width, unit):
    axes = Figure().subplots()
    axes.set(xlim=(-width / 3, 2 * width / 3), ylim=(5, 5 + width))
    bar = paper.scale_bar(axes, unit)
    number, _, words = axes.texts[0].get_text().partition(" ")
    drawn = np.ptp(bar.get_xdata())
    assert words == unit and drawn == pytest.approx(float(number))
    assert number.strip("0.") in ("1", "2", "5") and width / 10 < drawn <= 0.28 * width


@pytest.mark.parametrize(("ending", "head"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")])
def test_a_file_is_what_its_ending_says_and_always_the_same(tmp_path, ending, head):
    paths = [tmp_path / f"{name}{ending}" for name in ("one", "two")]
    for path in paths:
        files.save_still(draw_story(RIDES), path, 60)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(head) and first == second
    assert b"/Type3" not in first, "publishers refuse fonts of this type"


@pytest.mark.parametrize("name", ["picture.doc", "picture"])
def test_an_unknown_ending_is_one_line_before_anything_is_drawn(name, tmp_path):
    def draw():
        raise AssertionError("drawn")

    with pytest.raises(ValueError, match=rf"^cannot draw a plan to '{name}': use \.png, \.svg or \.pdf$"):
        files.write_drawn(tmp_path / name, "a plan", draw, dpi=60)
    with pytest.raises(ValueError, match=rf"^cannot draw a picture to '{name}': use \.png, \.svg or \.pdf$"):
        files.save_still(Figure(), tmp_path / name, 60)
    assert not list(tmp_path.iterdir())

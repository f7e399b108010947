"""Drawing functions draw into what they are given and return it; files are what endings say; maps have a scale."""

import importlib
import inspect

import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxvrp.envs.tsp_drone import Operation, make_instance
from jaxvrp.envs.tsp_drone import pictures as tsp_drone
from jaxvrp.show import files, paper

HOUSES = ("darp", "dispatch", "pcb", "truck_drone", "tsp_drone")


@pytest.fixture(scope="module")
def plan():
    """Depot and four customers on a line, and a plan for them."""
    instance = make_instance(np.stack([[0, 3, 4, 8, 5], [0, 0, 0, 0, 0]], axis=1))
    return instance, [Operation(0, 2, 1), Operation(2, 2, 3), Operation(2, 0, 4)]


@pytest.mark.parametrize("house", HOUSES)
def test_every_drawing_function_takes_axes_or_a_figure(house):
    module = importlib.import_module(f"jaxvrp.envs.{house}.pictures")
    drawing = [getattr(module, name) for name in module.__all__ if name.startswith("draw_")]
    targets = []
    for draw in drawing:
        parameters = inspect.signature(draw).parameters
        (target,) = {"ax", "fig"} & set(parameters)
        assert parameters[target].default is None and parameters[target].kind is inspect.Parameter.KEYWORD_ONLY, draw
        targets.append(target)
    assert {"ax", "fig"} == set(targets)


def test_a_part_of_a_figure_is_filled_and_nothing_else(plan):
    figure = Figure(figsize=(9, 9))
    upper, lower = figure.subfigures(2, 1)
    assert tsp_drone.draw_plan(*plan, fig=lower) is lower
    assert not upper.axes and len(lower.axes) == 2 and not figure.texts
    for axes in lower.axes:
        assert axes.get_position().ymax < 1 and axes.bbox.ymax < figure.bbox.height / 2


def test_a_panel_is_drawn_into_its_axes_alone(plan):
    figure = Figure()
    one, two = figure.subplots(1, 2)
    assert tsp_drone.draw_routes(*plan, ax=two) is two
    assert not one.lines and two.lines and two.get_legend() and not two.get_title()
    assert tsp_drone.draw_times(*plan, ax=one) is one
    assert one.collections and one.get_xlabel() == "time" and len(figure.axes) == 2
    assert tsp_drone.draw_routes(*plan, legend=False).get_legend() is None


@pytest.mark.parametrize(("width", "length", "unit"), [(2.1, 1.0, "map units"), (2.1, 1.5, "km"), (173.0, 1.0, "mm")])
def test_a_scale_bar_is_as_long_as_it_says(width, length, unit):
    axes = Figure().subplots()
    axes.set(xlim=(-width / 3, 2 * width / 3), ylim=(5, 5 + width))
    bar = paper.scale_bar(axes, unit, length)
    number, _, words = axes.texts[0].get_text().partition(" ")
    drawn = np.ptp(bar.get_xdata())
    assert words == unit and drawn * length == pytest.approx(float(number))
    assert number.strip("0.") in ("1", "2", "5") and width / 10 < drawn <= 0.28 * width


@pytest.mark.parametrize(("ending", "head"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")])
def test_a_file_is_what_its_ending_says_and_always_the_same(plan, tmp_path, ending, head):
    paths = [tmp_path / f"{name}{ending}" for name in ("one", "two")]
    for path in paths:
        files.save_still(tsp_drone.draw_plan(*plan), path, 60)
    one, two = (path.read_bytes() for path in paths)
    assert one.startswith(head) and one == two
    assert b"/Type3" not in one, "publishers refuse fonts of this type"


@pytest.mark.parametrize("name", ["picture.doc", "picture"])
def test_an_unknown_ending_is_one_line_before_anything_is_drawn(name, tmp_path):
    def draw():
        raise AssertionError("drawn")

    with pytest.raises(ValueError, match=rf"^cannot draw a plan to '{name}': use \.png, \.svg or \.pdf$"):
        files.write_drawn(tmp_path / name, "a plan", draw, dpi=60)
    with pytest.raises(ValueError, match=rf"^cannot draw a picture to '{name}': use \.png, \.svg or \.pdf$"):
        files.save_still(Figure(), tmp_path / name, 60)
    assert not list(tmp_path.iterdir())

"""Figures and animations show what a story tells, all of it, where it belongs and so that it can be read."""

import dataclasses
import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from jaxvrp.show import animation, draw_chart, draw_map, draw_story, write_picture
from jaxvrp.show.drawing.palette import BESIDE_STATUS, INK, LATE, LOST, ON_TIME, RIGHT, SERIES
from jaxvrp.show.figure import lay_out
from jaxvrp.show.route_map import RouteMap, Way
from jaxvrp.story import Lines, Region, Rows, Standing, Units
from tests.jaxvrp.show.stories import FLIGHTS, RIDES, crowd


def texts(figure):
    figure = getattr(figure, "figure", figure)
    return [text.get_text() for each in (figure, *figure.axes) for text in each.texts if text.get_visible()]


def marks(axes, face):
    """`(marker, x, y)` of all marks of this colour."""
    lines = [line for line in axes.lines if to_hex(line.get_markerfacecolor()) == to_hex(face)]
    return {(line.get_marker(), *place) for line in lines for place in line.get_xydata().round(6).tolist()}


# --- stills ---------------------------------------------------------------------------------------------------------


def test_a_still_says_what_came_of_it():
    figure = draw_story(RIDES)
    headline, verdict = figure.texts[:2]
    assert headline.get_text() == "cost 12.3   |   served 2 of 3 requests   |   vehicles 2 of 2"
    assert verdict.get_text() == RIDES.verdict and verdict.get_color() == LOST
    kept = draw_story(dataclasses.replace(RIDES, verdict="feasible", is_feasible=True))
    assert kept.texts[1].get_color() == RIGHT
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["", *(chart.title for chart in RIDES.charts)]


def test_long_headlines_fit():
    story = dataclasses.replace(RIDES, summary=(("cost", "1"),) * 30, verdict="not feasible: " + 40 * "unserved 1, ")
    figure = draw_story(story)
    figure.canvas.draw()
    for text in figure.texts[:2]:
        assert text.get_window_extent().x1 <= figure.bbox.width
        assert text.get_fontsize() > 6


def test_places_have_the_colour_of_their_vehicle_and_red_for_what_went_wrong():
    axes = draw_map(RIDES)
    first, second = SERIES[:2]
    assert marks(axes, first) >= {("^", 2.0, 0.0), ("v", 8.0, 1.0)}
    assert marks(axes, second) >= {("^", 1.0, 6.0), ("v", 1.0, 3.0)}
    edges = {
        tuple(line.get_xydata()[0]): line.get_markeredgecolor() for line in axes.lines if line.get_marker() in "^v"
    }
    assert edges[8.0, 1.0] == edges[5.0, 5.0] == edges[5.1, 5.1] == LOST and edges[2.0, 0.0] == "white"
    assert [text.get_text() for text in axes.texts if to_rgb(text.get_color()) == to_rgb(LOST)] == ["3", "3"]
    keys = [text.get_text() for text in axes.get_legend().get_texts()]
    assert keys == ["depot", "pickup", "drop-off", "served late", "not served", "vehicle 0", "vehicle 1"]


def test_places_have_the_colour_of_their_standing_and_the_edge_of_their_vehicle():
    axes = draw_map(FLIGHTS)
    assert marks(axes, ON_TIME) == {("o", 0.5, -0.5)} and marks(axes, LATE) == {("o", -0.5, 0.5)}
    served = {line.get_markerfacecolor(): line.get_markeredgecolor() for line in axes.lines}
    assert (served[ON_TIME], served[LATE]) == BESIDE_STATUS[:2]
    assert {"0", "1", "2", "drone_0 @ 4", "drone_1 @ 7"} <= {text.get_text() for text in axes.texts}
    assert marks(axes, LOST) == {("X", -0.4, 0.1)}
    keys = [text.get_text() for text in axes.get_legend().get_texts()]
    assert keys[:4] == ["place to stop at", "served on time", "served late", "not served"] and "crashed" in keys


def test_words_of_a_story_replace_the_usual_ones():
    story = dataclasses.replace(RIDES, shortfall="Rejected", words={"late": "too late", "depot": "", "pickup": "fetch"})
    keys = [text.get_text() for text in draw_map(story).get_legend().get_texts()]
    assert keys[:4] == ["fetch", "drop-off", "too late", "rejected"]


def test_regions_are_on_the_map_with_their_names():
    zone = Region("no flights", ((1.0, 1.0), (3.0, 1.0), (3.0, 3.0)))
    axes = draw_map(dataclasses.replace(FLIGHTS, regions=(zone,)))
    assert [patch.get_xy()[:3].tolist() for patch in axes.patches] == [[list(corner) for corner in zone.corners]]
    assert "no flights" in [text.get_text() for text in axes.texts] and axes.get_xlim()[1] > 3


def test_a_ride_on_board_leaves_no_way():
    way = Way(FLIGHTS.vehicles[1])
    line = way.line(0.0, 10.0)
    np.testing.assert_allclose(
        line, [(0, 0), (np.nan,) * 2, (0.12, 0), (0.5, -0.5), (0.36, 0), (np.nan,) * 2, (0.6, 0)]
    )
    np.testing.assert_allclose(way.line(3.0, 5.0), [(0.31, -0.25), (0.5, -0.5), (0.43, -0.25)])


@pytest.mark.parametrize("count", [20, 96])
def test_names_cover_neither_each_other_nor_the_marks(count):
    figure = draw_story(crowd(count))
    figure.canvas.draw()
    names = [text for text in figure.axes[0].texts if text.get_text().isdecimal()]
    assert len(names) == count
    boxes = np.array([text.get_window_extent().extents for text in names])
    # The boxes of letters have some room above and below.
    boxes[:, 1], boxes[:, 3] = boxes[:, 1] + 2, boxes[:, 3] - 2
    meets = (boxes[:, None, :2] < boxes[None, :, 2:]).all(-1) & (boxes[:, None, 2:] > boxes[None, :, :2]).all(-1)
    assert meets.sum() == count
    places = figure.axes[0].transData.transform([place.position for place in crowd(count).places])
    covered = (boxes[:, None, :2] < places).all(-1) & (places < boxes[:, None, 2:]).all(-1)
    assert not covered.any()


@pytest.mark.slow
def test_many_stay_within_the_picture():
    figure = draw_story(crowd(200))
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    assert max(pixels.shape) < 2200
    edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in edges)


def test_nothing_happens_at_one_place():
    nowhere = dataclasses.replace(
        RIDES, places=RIDES.places[:1], vehicles=(), charts=(), span=(0.0, 0.0), clocks=(0.0,)
    )
    draw_story(nowhere).canvas.draw()
    draw_story(dataclasses.replace(nowhere, places=(), charts=RIDES.charts[2:])).canvas.draw()


# --- charts ---------------------------------------------------------------------------------------------------------


def test_marks_and_bars_stand_at_their_times():
    axes = draw_chart(RIDES, "Requests")
    times = {(line.get_marker(), *line.get_xydata()[0]) for line in axes.lines if line.get_marker() in "^vo"}
    assert times == {("^", 2.0, -0.2), ("v", 8.1, 0.2), ("o", 6.1, 1.0), ("o", 9.1, 1.0)}
    (window,) = axes.patches
    assert window.get_bbox().extents == pytest.approx((0.0, -0.38, 6.0, -0.02))
    rides = {
        line.get_color(): line.get_xdata()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] in (0, 1)
    }
    assert rides[LOST] == [2.0, 8.1] and rides[SERIES[1]] == [6.1, 9.1]
    assert {"late by 2.1", "not served"} <= {text.get_text() for text in axes.texts}
    labels = {tick.get_text(): to_hex(tick.get_color()) for tick in axes.get_yticklabels()}
    assert list(labels) == ["1", "2", "3"] and to_rgb(labels["3"])[0] > 2 * to_rgb(labels["3"])[1]


def test_who_came_is_written_where_no_colour_tells_it():
    axes = draw_chart(FLIGHTS, 1)
    assert [text.get_text() for text in axes.texts] == ["drone_0 @ 4", "drone_1 @ 7 (2 late)", "not served"]
    delay = [bar for bar in axes.patches if to_hex(bar.get_facecolor()) == LATE.lower()]
    assert [bar.get_bbox().extents.tolist()[::2] for bar in delay] == [[5.0, 7.0]]


def test_loads_are_steps_and_overload_is_red():
    axes = draw_chart(RIDES, 0)
    loads = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert [line.get_xdata().tolist() for line in loads] == [[0.0, 2.0, 8.1], [0.0, 6.1, 9.1]]
    assert [text.get_text() for text in axes.texts] == ["2", "2"]
    red = [c for c in axes.collections if to_hex(c.get_facecolor()[0]) == LOST.lower()]
    spans = [np.ptp(path.vertices, axis=0) for each in red for path in each.get_paths()]
    assert sum(height > 1e-6 for _, height in spans) == 1
    assert "overload" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_batteries_are_curves_over_what_drones_do():
    axes = draw_chart(FLIGHTS, "battery")
    assert sorted(bar.get_x() for bar in axes.patches) == [0, 0, 2, 4, 7, 8]
    curve = next(line for line in axes.lines if line.get_color() == BESIDE_STATUS[0])
    assert curve.get_xdata().tolist() == [0, 2, 6, 10] and curve.get_ydata()[0] < curve.get_ydata()[2]
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["on the way", "waiting", "on board", "returns", "crashed", "with a parcel"]


def test_numbers_grow_when_they_do():
    axes = draw_chart(RIDES, "Answers")
    accepted, rejected = axes.lines
    assert accepted.get_xdata().tolist() == [0, 1, 2, 10] and accepted.get_ydata().tolist() == [0, 1, 2, 2]
    assert (rejected.get_color(), [text.get_text() for text in axes.texts]) == (LOST, ["2 accepted", "1 rejected"])


def test_lines_of_numbers_are_named_where_there_are_several():
    line = ("height", None, ((0.0, 3.0), (4.0, 5.0)))
    single, several = (
        dataclasses.replace(RIDES, charts=(Lines("Heights", lines),)) for lines in ((line,), (line, ("of 1", 1, ())))
    )
    assert draw_chart(single).get_legend() is None and draw_chart(single).lines[0].get_ydata().tolist() == [3.0, 5.0]
    assert [text.get_text() for text in draw_chart(several).get_legend().get_texts()] == ["height", "of 1"]
    assert draw_chart(several).lines[1].get_color() == SERIES[1]


def test_windows_that_close_long_after_the_end_stretch_rows_alone():
    battery, rows = (draw_chart(FLIGHTS, chart) for chart in (0, 1))
    assert battery.get_xlim()[1] < 10.5 and rows.get_xlim()[1] > 20
    assert [line.get_xdata() for line in rows.lines if line.get_linestyle() == "--"] == [[10.0, 10.0]]


def test_clocks_are_written_in_full():
    late = 1_732_600_000.0
    moved = dataclasses.replace(RIDES, span=(late, late + 10), charts=(Rows("Requests", ()),), vehicles=(), places=())
    figure = draw_story(moved)
    figure.canvas.draw()
    ticks = [tick.get_text() for tick in figure.axes[-1].get_xticklabels()]
    assert all(len(tick) == 10 and tick.isdecimal() for tick in ticks) and len(ticks) > 1


def test_where_a_day_has_a_clock_pictures_have_its_times():
    """Half an hour is a unit of this clock, which begins at 23:10."""
    story = dataclasses.replace(FLIGHTS, units=Units("half an hour", "km", (23 * 60 + 10.0, 30.0)))
    axes = draw_chart(story, 1)
    assert [text.get_text() for text in axes.texts][:2] == ["drone_0 @ 01:10 +1", "drone_1 @ 02:40 +1 (2 late)"]
    times = [(tick, text.get_text()) for tick, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)]
    assert len(times) > 2 and all(words == story.units.moment(tick) and ":00" in words for tick, words in times)
    assert axes.get_xlabel() == "time"
    assert {"drone_0 @ 01:10 +1", "drone_1 @ 02:40 +1"} <= {text.get_text() for text in draw_map(story).texts}
    scene = animation.Scene(story)
    scene.frame(7.0)
    assert scene.headline.get_text() == "02:40 +1   |   served 2 of 3   |   1 late"


@pytest.mark.parametrize("name", ["Shop $5 & $10", "a $\\frac$ b"])
def test_names_with_dollars_are_no_formulas(name, tmp_path):
    places = tuple(dataclasses.replace(place, label=name) for place in RIDES.places)
    vehicles = tuple(dataclasses.replace(vehicle, name=name) for vehicle in RIDES.vehicles)
    story = dataclasses.replace(RIDES, summary=(("plan", name),), verdict=name, places=places, vehicles=vehicles)
    for figure in (
        draw_story(story),
        draw_map(story).figure,
        draw_chart(story).figure,
        animation.Scene(story).animated.figure,
    ):
        texts = [text for text in figure.findobj(Text) if name in text.get_text()]
        assert texts and not any(text.get_parse_math() for text in texts)
        figure.canvas.draw()


def test_an_unknown_chart_is_one_line():
    with pytest.raises(
        ValueError, match=r"^there is no chart 'loads'; this episode has 'battery', 'customers: .*', by num"
    ):
        draw_chart(FLIGHTS, "loads")


# --- panels ---------------------------------------------------------------------------------------------------------


def test_a_part_of_a_figure_is_filled_and_nothing_else():
    figure = Figure(figsize=(9, 9))
    upper, lower = figure.subfigures(2, 1)
    assert draw_story(RIDES, fig=lower) is lower
    assert not upper.axes and len(lower.axes) == 4 and not figure.texts
    for axes in lower.axes:
        assert axes.get_position().ymax < 1 and axes.bbox.ymax < figure.bbox.height / 2


def test_a_panel_is_drawn_into_its_axes_alone():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert draw_map(RIDES, ax=right) is right
    assert not left.lines and right.lines and right.get_legend() and not right.get_title()
    assert draw_chart(RIDES, 1, ax=left) is left
    assert left.patches and left.get_xlabel() == "min" and len(figure.axes) == 2
    assert draw_map(RIDES, legend=False).get_legend() is None
    assert draw_chart(RIDES, 1, legend=False).get_legend() is None


# --- animations -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[RIDES, FLIGHTS], ids=["rides", "flights"])
def scene(request):
    return animation.Scene(request.param)


def test_moments_are_steps_or_evenly_spread():
    assert animation.frame_times(FLIGHTS) == list(range(11))
    times = animation.frame_times(RIDES)
    assert len(times) == animation.MAX_FRAMES and times[0] == 0.0 and times[-1] == 10.0
    assert np.allclose(np.diff(times), times[1])


def test_the_headline_counts(scene):
    scene.frame(0.0)
    start = scene.headline.get_text()
    scene.frame(scene.end)
    assert scene.headline.get_text() == "   |   ".join(f"{name} {value}" for name, value in scene.story.summary)
    scene.frame(8.5 if scene.story is RIDES else 7.0)
    words = scene.headline.get_text()
    if scene.story is RIDES:
        assert (start, words) == ("time  0.0 min   |   served 0 of 3", "time  8.5 min   |   served 1 of 3   |   1 late")
    else:
        assert (start, words) == ("step  0   |   served 0 of 3", "step  7   |   served 2 of 3   |   1 late")


def test_the_future_is_covered(scene):
    scene.frame(4.0)
    for cover, axes in scene.covers:
        box = cover.get_bbox()
        assert box.x0 == 4.0 and box.x1 == pytest.approx(axes.get_xlim()[1])
    scene.frame(scene.end)
    assert all(cover.get_width() == 0 for cover, _ in scene.covers)


def test_places_change_when_they_do():
    scene = animation.Scene(FLIGHTS)

    def shown(time):
        scene.frame(time)
        return {
            (mark.face, place)
            for mark, artist in scene.parts[0].marks.items()
            for place in map(tuple, artist.get_xydata())
        }

    assert (ON_TIME, (0.5, -0.5)) not in shown(3.9) and (ON_TIME, (0.5, -0.5)) in shown(4.0)
    assert not any(place == (0.9, 0.9) for _, place in shown(2.0)), "not known yet"
    assert ("white", (-0.5, 0.5)) in shown(1.0) and ("white", (-0.5, 0.5)) not in shown(3.0)
    scene.frame(3.0)
    assert names_of(scene) == {"0", "1", "2"}
    assert len(scene.parts[0].halo.get_offsets()) == 3
    scene.frame(6.0)
    assert names_of(scene) == {"0", "1", "2", "drone_0 @ 4"}


def names_of(scene):
    """What can be read at the places of a map."""
    return {name.text.get_text() for name in scene.parts[0].names if name.text.get_visible()}


def test_a_name_with_an_at_sign_is_a_name():
    places = [dataclasses.replace(place, label=place.label and f"{place.label}@home") for place in RIDES.places]
    scene = animation.Scene(dataclasses.replace(RIDES, places=tuple(places)))
    scene.frame(0.0)
    assert names_of(scene) == {"1@home", "2@home", "3@home"}


def test_vehicles_are_where_they_are_with_parcels_and_aims():
    scene = animation.Scene(FLIGHTS)
    scene.frame(3.0)
    fleet = scene.parts[1]
    truck, first, _ = (body.get_xydata()[0] for body in fleet.bodies)
    np.testing.assert_allclose(truck, (0.18, 0.0))
    np.testing.assert_allclose(first, (0.31, -0.25))
    (aim,) = fleet.aims.get_segments()
    np.testing.assert_allclose(aim, [first, (0.5, -0.5)])
    (parcel,) = fleet.parcels.get_xydata()
    assert parcel[0] == first[0] and parcel[1] < first[1]
    assert [sign.get_text() for sign in fleet.signs[1:]] == ["0", "1"] and not len(fleet.crosses.get_xydata())
    scene.frame(1.0)
    assert fleet.bodies[1].get_xydata()[0][1] > fleet.bodies[0].get_xydata()[0][1], "on board, it is above the truck"
    scene.frame(9.0)
    assert len(fleet.crosses.get_xydata()) == 1 and not len(fleet.aims.get_segments())


def test_a_vehicle_that_is_nowhere_is_left_out():
    away = dataclasses.replace(RIDES.vehicles[1], track=())
    scene = animation.Scene(dataclasses.replace(RIDES, vehicles=(RIDES.vehicles[0], away)))
    scene.frame(5.0)
    assert len(scene.parts[1].bodies[0].get_xydata()) == 1 and not len(scene.parts[1].bodies[1].get_xydata())


def test_loads_stand_in_vehicles_and_those_in_the_depot_are_not_drawn():
    scene = animation.Scene(RIDES)
    scene.frame(0.0)
    assert not any(body.get_visible() for body in scene.parts[1].bodies)
    scene.frame(5.0)
    assert all(body.get_visible() for body in scene.parts[1].bodies)
    assert [sign.get_text() for sign in scene.parts[1].signs] == ["3", "0"]


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", [RIDES, FLIGHTS], ids=["rides", "flights"])
def test_an_animation_moves(story, tmp_path, monkeypatch):
    monkeypatch.setattr(animation, "MAX_FRAMES", 12)
    path = tmp_path / "episode.gif"
    write_picture(story, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name] and path.stat().st_size < 500_000
    with Image.open(path) as picture:
        frames = [
            np.asarray((picture.seek(index), picture.convert("L"))[1], np.int64) for index in range(picture.n_frames)
        ]
        assert picture.info["duration"] == animation.LAST_FRAME_MS
    assert len(frames) == len(animation.frame_times(story))
    assert frames[0].shape[1] in range(animation.WIDTH - 2, animation.WIDTH + 3)
    assert all((before != after).sum() > 50 for before, after in itertools.pairwise(frames))


def test_colours_of_an_animation_are_those_of_the_palette(tmp_path, monkeypatch):
    monkeypatch.setattr(animation, "MAX_FRAMES", 3)
    write_picture(FLIGHTS, tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as picture:
        picture.seek(picture.n_frames - 1)
        found = {to_hex(np.divide(colour, 255)) for _, colour in picture.convert("RGB").getcolors(1 << 16)}
    assert {colour.lower() for colour in (ON_TIME, LATE, LOST, INK, *BESIDE_STATUS[:2])} <= found


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_single_state(tmp_path, suffix):
    standings = (Standing(0.0, "open"),)
    places = tuple(dataclasses.replace(p, standings=standings[: len(p.standings)]) for p in FLIGHTS.places)
    fleet = tuple(
        dataclasses.replace(
            v, track=v.track[:1], hosts=v.hosts[:1], levels=v.levels[:1], carries=(), activities=(), aims=()
        )
        for v in FLIGHTS.vehicles
    )
    start = dataclasses.replace(FLIGHTS, places=places, vehicles=fleet, clocks=(0.0,))
    write_picture(start, tmp_path / f"start.{suffix}")
    assert (tmp_path / f"start.{suffix}").stat().st_size > 5_000


@pytest.mark.parametrize("name", ["episode.mp4", "episode"])
def test_unknown_suffix(tmp_path, name):
    with pytest.raises(ValueError, match=rf"'{name}': use \.gif \(animation\), \.png, \.svg or \.pdf \(still\)$"):
        write_picture(RIDES, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["episode.gif", "episode.png"])
def test_no_half_file(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text("an older picture")

    def fail(self, path, *args, **kwargs):
        with open(path, "wb") as file:
            file.write(b"half")
        raise RuntimeError("disk full")

    monkeypatch.setattr(animation, "MAX_FRAMES", 3)
    monkeypatch.setattr("PIL.Image.Image.save" if name.endswith("gif") else "matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        write_picture(FLIGHTS, path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert path.read_text() == "an older picture"


def test_units_are_written():
    story = dataclasses.replace(RIDES, units=Units())
    axes = RouteMap(story, Figure().subplots()).axes
    assert axes.texts[0].get_text().endswith(" units")
    assert lay_out(story).charts[-1].get_xlabel() == "time"
    assert draw_map(RIDES).texts[0].get_text().endswith(" km")

"""Curves are those of the records: seeds, bands, levels, axes; the command finds what belongs together."""

import json

import numpy as np
import pytest

from jaxvrp.card import Headline
from jaxvrp.io.command_line import UserError
from train import plot
from train.run.records import read_start
from train.shown import plots
from train.shown.report import start_record

HEADLINES = (Headline("completion_rate", "completion", curve="completion"), Headline("tours", "tours"))
START = {"env_steps": 0, "eval/return": [-3.0, -5.0], "eval/completion_rate": [0.0, 0.1]}
LENGTHS = {"episode/length": [20.0, 20.0], "eval/length": [21.0, 19.0]}
RECORDS = [
    START,
    {"update": 1, "env_steps": 10, "episode/return": None, "truck/entropy": [1.0, 2.0]},
    {"update": 2, "env_steps": 20, "episode/return": [1.0, 3.0], "truck/entropy": [0.5, 1.5]}
    | {"eval/return": [2.0, 6.0], "eval/completion_rate": [0.5, 1.0]}
    | LENGTHS,
]


def test_seeds_of_several_runs_stand_beside_each_other():
    other = [{"env_steps": 5, "eval/return": 1.0}, {"env_steps": 25, "eval/return": 5.0}]
    steps, values = plots.seeds_of([RECORDS, other], "eval/return")
    assert steps.tolist() == [5, 20]  # neither is carried beyond what it has
    np.testing.assert_allclose(values, [[-1.75, -2.25, 1.0], [2.0, 6.0, 4.0]])
    assert len(plots.seeds_of([RECORDS, other], "episode/return")[0]) == 0
    assert len(plots.seeds_of([RECORDS, [{"env_steps": 99, "eval/return": 0.0}]], "eval/return")[0]) == 0


def test_bands_are_what_they_say():
    from scipy import stats  # here, since it takes a second

    values = np.random.default_rng(0).normal(size=(4, 5))
    band = {name: draw(values) for name, (_, draw) in plots.BANDS.items()}
    np.testing.assert_allclose(band["range"], [np.sort(values)[:, 0], np.sort(values)[:, -1]])
    np.testing.assert_allclose(band["std"][1] - values.mean(axis=1), [np.std(row, ddof=1) for row in values])
    for row, low, high in zip(values, *band["ci"], strict=True):
        # The bounds are those means that a t test at 5 % just does not reject.
        assert stats.ttest_1samp(row, low).pvalue == pytest.approx(0.05)
        assert stats.ttest_1samp(row, high).pvalue == pytest.approx(0.05)


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}


def test_a_run_is_drawn_from_step_0_with_rates_from_0_to_1():
    figure = plots.learning_curve(RECORDS, {"greedy": {"return": 7.0}}, HEADLINES)
    drawn = panels(figure)
    assert list(drawn) == ["return", "rate", "entropy"]
    training, evaluation, greedy = drawn["return"].lines
    assert training.get_xydata().tolist() == [[20, 2]]
    assert evaluation.get_xydata().tolist() == [[0, -4], [20, 4]]
    assert greedy.get_ydata()[0] == 7.0 and greedy.get_label() == "greedy"
    low, high = drawn["rate"].get_ylim()
    assert -0.05 < low < 0 and 1 < high < 1.05
    assert [line.get_label() for line in drawn["rate"].lines] == ["completion"]
    assert "2 seeds" in figure.get_suptitle() and len({axes.get_xlim() for axes in figure.axes}) == 1


def test_a_rate_above_1_is_not_cut_off():
    records = [{"env_steps": step, "eval/completion_rate": [0.9, best]} for step, best in ((0, 1.0), (20, 1.5))]
    rate = panels(plots.learning_curve(records, {}, HEADLINES))["rate"]
    compared = plots.compare(
        [plots.Group("a", (records,))], {"eval/completion_rate": "share"}, rates=["eval/completion_rate"]
    )
    for axes in (rate, panels(compared)["share"]):
        assert axes.get_ylim() == (-0.02, pytest.approx(1.53))


def test_a_run_without_rates_has_no_panel_of_them():
    assert list(panels(plots.learning_curve(RECORDS, {}, ()))) == ["return", "entropy"]


def test_returns_of_different_lengths_have_axes_of_their_own():
    records = [*RECORDS[:2], {**RECORDS[2], "eval/length": [90.0, 110.0]}]
    drawn = panels(plots.learning_curve(records, {"greedy": {"return": 7.0}}, HEADLINES))
    assert list(drawn)[:2] == ["return in training, 20 steps", "return in evaluation, 100 steps"]
    training, evaluation = list(drawn.values())[:2]
    assert [line.get_label() for line in training.lines] == ["training"]
    assert [line.get_label() for line in evaluation.lines] == ["evaluation", "greedy"]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path):
    """`runs(name, returns, algorithm=..., seed=...)`: the folder of a run that never was."""

    def run(name, returns, algorithm="mappo", seed=0, gamma=0.9, greedy=7.0, pictures="true"):
        folder = tmp_path / name
        folder.mkdir()
        lines = [f"algorithm: {algorithm}", f"seed: {seed}", f"gamma: {gamma}", "env:", "  name: truck_drone"]
        lines += [f"pictures: {pictures}", f"logger: {'[]' if pictures == 'false' else '[wandb]'}"]
        (folder / "config.yaml").write_text("\n".join(lines))
        (folder / "start.json").write_text(json.dumps({"env_steps": 0, "eval/return": -9.0}))
        records = [{"update": n, "env_steps": 10 * n, "eval/return": value} for n, value in enumerate(returns, 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        summary = {"policy": {"return": returns[-1]}, "greedy": {"return": greedy}}
        (folder / "summary.json").write_text(json.dumps(summary))
        return str(folder)

    return run


def test_runs_that_differ_in_their_seed_are_one_curve(runs, tmp_path, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(plot, "save_still", lambda figure, path, dpi: drawn.append(figure))
    folders = [
        runs("a", [1.0, 4.0]),
        runs("b", [3.0, 8.0], seed=1, pictures="false"),
        runs("c", [0.0, 1.0], algorithm="ippo"),
    ]
    plot.main([*folders, "--out", str(tmp_path / "curves.svg")])
    (figure,) = drawn
    (axes,) = figure.axes
    mappo, ippo, greedy = axes.lines
    assert mappo.get_xydata().tolist() == [[0, -9], [10, 2], [20, 6]]
    assert ippo.get_xydata().tolist() == [[0, -9], [10, 0], [20, 1]]
    assert greedy.get_ydata()[0] == 7.0 and len(axes.collections) == 1
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["mappo (2 seeds)", "ippo (1 seed)", "greedy"]
    assert capsys.readouterr().out.splitlines()[0] == f"mappo: {folders[0]}, {folders[1]}"


def test_rates_are_those_that_the_run_has_written(runs, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "save_still", lambda figure, path, dpi: drawn.append(figure))
    folder = tmp_path / "a"
    runs("a", [1.0])
    config = (folder / "config.yaml").read_text().replace("truck_drone", "my_package.my_module:make")
    (folder / "config.yaml").write_text(config)
    record = {"update": 1, "env_steps": 10, "eval/return": 1.0, "eval/arrived": 0.5, "eval/walked": 3.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    for text in (json.dumps({"eval/arrived": "$at the goal"}), "{"):
        (folder / "rates.json").write_text(text)
        plot.main([str(folder), "--out", str(tmp_path / "curves.png")])
        drawn[-1].canvas.draw()
    assert list(panels(drawn[0])) == ["return in evaluation", r"\$at the goal (evaluation)"]
    assert panels(drawn[0])[r"\$at the goal (evaluation)"].get_ylim() == (-0.02, 1.02)
    assert list(panels(drawn[1])) == ["return in evaluation"]


def test_groups_are_called_by_what_differs(runs):
    found = [plot.read(tmp) for tmp in map(plot.pathlib.Path, [runs("a", [1.0]), runs("b", [1.0], gamma=0.5)])]
    assert plot.labels_of([[run] for run in found]) == ["gamma 0.9", "gamma 0.5"]
    assert plot.labels_of([found[:1]]) == ["mappo"]


@pytest.mark.parametrize("name", ["curves.png", "curves.svg", "curves.pdf"])
def test_the_picture_is_written(runs, tmp_path, name):
    plot.main([runs("a", [1.0, 2.0]), "--out", str(tmp_path / name)])
    assert (tmp_path / name).stat().st_size > 3000


def test_baselines_that_runs_do_not_agree_on_are_not_drawn(runs):
    found = [
        plot.read(plot.pathlib.Path(folder)) for folder in (runs("a", [1.0]), runs("b", [1.0], seed=1, greedy=8.0))
    ]
    assert plot.common_baselines(found) == {} and list(plot.common_baselines(found[:1])) == ["greedy"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("a a", "are the same training, of the same seed; leave one out"),
        ("a none", "none is no run folder"),
        ("a empty", "empty has no record in metrics.jsonl so far; leave it out"),
        ("a --metrics eval/gain", "--metrics: no run has 'eval/gain'; they have eval/return"),
        ("a --labels one two", "--labels has 2 labels for 1 groups of runs; group 1: a"),
        ("a --out curves.doc", "--out is 'curves.doc'; it must end in .png, .svg or .pdf"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(runs, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    runs("a", [1.0])
    (plot.pathlib.Path(runs("empty", [1.0])) / "metrics.jsonl").write_text("")
    words = words.split() if "--out" in words else [*words.split(), "--out", "curves.png"]
    with pytest.raises(UserError, match=says):
        plot.main(words)
    assert not list(tmp_path.glob("curves*"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"env_steps": 1}', '{"env_steps": 0, "eval/return": "much"}'])
def test_a_damaged_start_is_no_record(tmp_path, text):
    (tmp_path / "start.json").write_text(text)
    assert read_start(tmp_path) == []


def test_a_run_without_a_start_is_drawn_with_a_warning(tmp_path, capsys):
    assert start_record(tmp_path) == []
    assert capsys.readouterr().err == f"warning: {tmp_path / 'start.json'} is missing or damaged, and not drawn\n"

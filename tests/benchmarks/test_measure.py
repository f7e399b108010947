"""The shared parts of the benchmarks: spread, turns, memory, options, files."""

import argparse
import json

import pytest

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread
from jaxvrp.io.command_line import UserError


def test_spread_is_median_and_extremes():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of(iter([4.0, 2.0])) == Spread(3.0, 2.0, 4.0)


def test_runs_take_turns():
    turns = []
    figures = measure.interleaved({"a": lambda: turns.append("a") or 1.0, "b": lambda: turns.append("b") or 2.0}, 3)
    assert turns == list("ababab")
    assert figures == {"a": [1.0] * 3, "b": [2.0] * 3}


def test_calls_fill_the_time(monkeypatch):
    taken = iter([5.0, 0.25])  # the first call is slow: it warms up
    monkeypatch.setattr(measure, "clock", lambda run, count=1: next(taken))
    assert measure.calls_for(lambda: None, 6.0) == 24
    taken = iter([5.0])
    assert measure.calls_for(lambda: None, 1.0) == 1


def test_clock_calls_as_often_as_told():
    calls = []
    assert measure.clock(lambda: calls.append(1), 4) >= 0
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (999.2, "999"), (999.7, "1 k"), (12345, "12.3 k"), (999_600, "1 M"), (2.5e6, "2.5 M"), (3e9, "3 G")],
)
def test_rates_have_three_digits(value, text):
    assert measure.rate(value) == text


def test_header_names_the_machine():
    header = measure.machine(["python", "-m", "x"], measure.device_name())
    assert {"device", "cpu", "cores", "os", "python", "jax", "jaxlib", "numpy", "date", "command"} == set(header)
    assert all(header.values())
    assert header["command"] == "python -m x"
    lines = measure.described(header, {"a longer name": "b"}).splitlines()
    assert lines[-1] == "a longer name  b"
    assert lines[0].startswith("device         ")


def test_peak_memory_is_plausible():
    peak, owner = measure.peak_memory()
    assert owner in ("device", "process")
    assert peak is None or peak > 2**20


@pytest.mark.parametrize("text", ["", "2,", "2,0,5", "2,-3,5", "a,b,c"])
def test_bad_sizes(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is no list of whole numbers above 0"):
        measure.sizes_option(text)


@pytest.mark.parametrize("size", [(2, 3), (2, 3, 5, 7)])
def test_sizes_of_another_environment(size):
    with pytest.raises(UserError, match=f"'{','.join(map(str, size))}' is not drones,customers,nodes"):
        measure.check_sizes([(2, 3, 5), size], "drones,customers,nodes")


def test_good_sizes():
    assert measure.sizes_option("2,3,5") == (2, 3, 5)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x"])
def test_bad_seconds(text):
    with pytest.raises(argparse.ArgumentTypeError, match="seconds above 0"):
        measure.seconds_option(text)


def test_result_file_is_checked_first(tmp_path):
    assert measure.result_file(str(tmp_path / "a.json")) == tmp_path / "a.json"
    for bad in (tmp_path, tmp_path / "no" / "a.json"):
        with pytest.raises(argparse.ArgumentTypeError, match="cannot write"):
            measure.result_file(str(bad))


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    measure.write_result(path, {"x": 1})
    with pytest.raises(TypeError):
        measure.write_result(path, {"x": object()})
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_result_is_written_before_its_report_is_printed_which_comes_even_so(tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.json"
    monkeypatch.setattr("builtins.print", lambda said, shown=print: shown(said, path.exists()))
    measure.write_result(path, {}, "a table")
    assert capsys.readouterr().out == f"a table True\nwrote {path} True\n"
    with pytest.raises(UserError, match=r"cannot write .*; choose another --out"):
        measure.write_result(tmp_path / "no" / "a.json", {}, "a table")
    assert capsys.readouterr().out == "a table True\n"

"""The progress bar: what it shows, and how it estimates the time that is left."""

import io
import sys
import time

import pytest

from jaxvrp.card import Headline
from train.run import progress
from train.run.progress import Episodes, Progress


class Clock:
    """A clock that is set by hand."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


HEADLINES = [Headline("served", "served", progress="served"), Headline("late", "late")]


def test_the_time_left_does_not_count_compilation(clock):
    bar = Progress(1000, 200, HEADLINES, enabled=False, clock=clock)
    clock.seconds += 50  # compiling, mostly
    bar.advance(100, {})
    assert bar.seconds_left is None
    clock.seconds += 2
    bar.advance(100, {})
    assert bar.seconds_left == pytest.approx(600 * 2 / 100)
    with bar.phase("evaluation"):
        clock.seconds += 30
    clock.seconds += 2
    bar.advance(100, {})
    assert bar.seconds_left == pytest.approx(500 * 4 / 200)
    with bar.phase("evaluation"):  # not for the first time
        clock.seconds += 3
    clock.seconds += 2
    bar.advance(100, {})
    assert bar.seconds_left == pytest.approx(400 * 9 / 300)


def test_a_resumed_run_has_only_the_rest_before_it(clock):
    bar = Progress(1000, 800, [], enabled=False, clock=clock)
    for _ in range(2):
        clock.seconds += 1
        bar.advance(50, {})
    assert bar.seconds_left == pytest.approx(100 / 50)


def test_figures_stay_until_there_are_others(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE", 0.0)
    bar = Progress(1000, 200, HEADLINES, enabled=True, clock=clock)

    def shown(record):
        clock.seconds += 1
        bar.advance(10, record)
        bar._bar.refresh()
        return capsys.readouterr().err.strip().rsplit("\n", 1)[-1]

    first = shown({"episode/return": None, "env/served": None})
    assert "210/1.00k steps" in first and "return" not in first
    full = shown({"episode/return": -3.456, "env/served": [0.25, 0.75], "env/late": 2.0, "eval/return": 7.0})
    assert full.rstrip().endswith("return -3.46, served 0.50, evaluated return 7.00")
    assert "late" not in full and "steps/s" in full and " left" in full
    later = shown({"episode/return": -1.0, "env/served": None})
    assert later.rstrip().endswith("return -1.00, served 0.50, evaluated return 7.00")
    bar.close()


def test_the_clock_of_a_terminal_goes_on_during_an_update(clock, monkeypatch):
    """And that of a log does not: each look would be a line."""
    looks = []
    for is_terminal in (True, False):
        stderr = io.StringIO()
        stderr.isatty = lambda answer=is_terminal: answer
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(progress, "TICK", 0.01)
        bar = Progress(1000, 0, HEADLINES, enabled=True, clock=clock)
        before = stderr.tell()
        deadline = time.monotonic() + (10 if is_terminal else 0.2)
        while stderr.tell() == before and time.monotonic() < deadline:
            time.sleep(0.01)
        looks.append(stderr.getvalue()[before:])
        bar.close()
        closed = stderr.tell()
        time.sleep(0.1)
        assert stderr.tell() == closed
    assert "00:0" in looks[0] and "compiling, and the first update" in looks[0] and looks[1] == ""


@pytest.mark.parametrize("ends", [True, False])
def test_a_log_gets_a_line_now_and_then_and_one_at_the_end(ends, capsys, monkeypatch):
    seconds = Clock()
    monkeypatch.setattr(progress.time, "monotonic", seconds)
    with progress.Bar(total=1000, unit="step", leave=ends) as bar:
        for count in range(1000):
            seconds.seconds += 1 / 32
            bar.set_postfix_str(f"at {count}")
            if count % 100 == 0:
                bar.write("said", file=sys.stderr)
            bar.update()
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("said") == 10
    shown = [line for line in lines if line != "said"]
    assert len(shown) == 3 + ends and not any("\r" in line for line in shown)
    assert [line.split()[-1] for line in shown[:3]] == ["319]", "639]", "959]"]
    assert all("1000/1000" in line for line in shown[3:])


@pytest.mark.parametrize(("total", "shown"), [(24, "8/24 episodes"), (1536, "8.00/1.54k episodes")])
def test_few_episodes_are_whole_numbers(total, shown, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE", 0.0)
    with Episodes(total) as episodes:
        episodes.advance(8)
    assert shown in capsys.readouterr().err


def test_a_log_says_nothing_twice(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE", 0.0)
    with Episodes(1) as episodes:
        episodes.begin("random")
        episodes.advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) and "1/1 episodes" in lines[-1]

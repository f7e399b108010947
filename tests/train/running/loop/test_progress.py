"""The progress bar: what it shows, and how it estimates the time that is left."""

import pytest

from jaxvrp.toolbox import Headline
from train.running.loop.progress import Progress


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
    progress = Progress(1000, 200, HEADLINES, enabled=False, clock=clock)
    clock.seconds += 50  # compiling, mostly
    progress.advance(100, {})
    assert progress.seconds_left is None
    clock.seconds += 2
    progress.advance(100, {})
    assert progress.seconds_left == pytest.approx(600 * 2 / 100)
    with progress.phase("evaluation"):
        clock.seconds += 30
    clock.seconds += 2
    progress.advance(100, {})
    assert progress.seconds_left == pytest.approx(500 * 4 / 200)
    with progress.phase("evaluation"):  # not for the first time
        clock.seconds += 3
    clock.seconds += 2
    progress.advance(100, {})
    assert progress.seconds_left == pytest.approx(400 * 9 / 300)


def test_a_resumed_run_has_only_the_rest_before_it(clock):
    progress = Progress(1000, 800, [], enabled=False, clock=clock)
    for _ in range(2):
        clock.seconds += 1
        progress.advance(50, {})
    assert progress.seconds_left == pytest.approx(100 / 50)


def test_figures_stay_until_there_are_others(clock, capsys):
    progress = Progress(1000, 200, HEADLINES, enabled=True, clock=clock)

    def shown(record):
        clock.seconds += 1
        progress.advance(10, record)
        progress._bar.refresh()
        return capsys.readouterr().err.strip("\r\n ").rsplit("\r", 1)[-1]

    first = shown({"episode/return": None, "env/served": None})
    assert "210/1.00k steps" in first and "return" not in first
    full = shown({"episode/return": -3.456, "env/served": [0.25, 0.75], "env/late": 2.0, "eval/return": 7.0})
    assert full.rstrip().endswith("return -3.46, served 0.50, evaluated return 7.00")
    assert "late" not in full and "steps/s" in full and " left" in full
    later = shown({"episode/return": -1.0, "env/served": None})
    assert later.rstrip().endswith("return -1.00, served 0.50, evaluated return 7.00")
    progress.close()

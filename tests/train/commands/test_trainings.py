"""A process that trains run after run: what it answers, and what becomes of one that is killed."""

import os
import signal
import sys
import time

import pytest

from train.commands.trainings import Trainings

STAND_IN = """
import json, os, sys, time
for line in sys.stdin:
    log, what = json.loads(line)
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\\n")
    if what == "sleep":
        time.sleep(600)
    if what == "fail":
        sys.exit("error: it has failed")
    print(what, flush=True)
"""


@pytest.fixture
def trainings():
    with Trainings([sys.executable, "-c", STAND_IN]) as trainings:
        yield trainings


def status_of(trainings):
    deadline = time.time() + 60
    while (status := trainings.status()) is None and time.time() < deadline:
        time.sleep(0.01)
    return status


def test_runs_are_trained_by_one_process_and_by_another_when_it_has_ended(trainings, tmp_path):
    log = tmp_path / "log"
    for word, wanted in (("0", 0), ("2", 2), ("fail", 1), ("0", 0), ("130", 130)):
        trainings.begin([word], log)
        assert status_of(trainings) == wanted
    *before, fault, fourth, fifth = log.read_text().splitlines()
    assert len(before) == 3
    assert len(set(before)) == 1 and fourth == fifth != before[0]
    assert fault == "error: it has failed"


def test_a_process_that_is_killed_answers_with_the_signal(trainings, tmp_path):
    log = tmp_path / "log"
    for ended in (signal.SIGKILL, signal.SIGTERM):
        log.write_text("")
        trainings.begin(["sleep"], log)
        while not log.read_text():
            assert trainings.status() is None
            time.sleep(0.01)
        if ended == signal.SIGKILL:
            os.kill(int(log.read_text()), ended)
            assert status_of(trainings) == -ended
        else:
            trainings.stop()
    trainings.begin(["0"], log)
    assert status_of(trainings) == 0

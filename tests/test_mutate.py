"""The trial: one minute of it finds nothing; and it would find what it is for, told by faults that are planted."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.envs import darp
from jaxvrp.io.command_line import UserError
from jaxvrp.spaces import Box, Discrete
from tests.mutate import faces, lane, material, mutators, runs
from tests.mutate.__main__ import FOUND, main
from tests.mutate.faces import REFUSED, judge_array
from tests.mutate.lane import Entry, Lane, Order, try_case
from tests.mutate.subjects import kills, problem_files
from tests.mutate.subjects.configurations import says
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import LONGEST, call, command


@pytest.mark.slow
def test_one_minute_on_two_cores_finds_nothing(tmp_path, capfd):
    """A quarter of a minute of two processes; what the seed draws first for `kills` is a run that is killed once.

    With other seeds that first case takes up to a minute on its own, and the trial waits for it.
    """
    status = main(["--minutes", "0.25", "--seed", "0", "--jobs", "2", "--out", str(tmp_path)])
    table = capfd.readouterr().out
    assert status == 0, table
    tried = {
        line.split()[0]: int(line.split()[1]) for line in table.splitlines() if line.startswith(tuple(lane.SUBJECTS))
    }
    assert tried.keys() == lane.SUBJECTS.keys()
    assert min(tried.values()) >= 1


# --- a case ---------------------------------------------------------------------------------------------------------


class Planted(Subject):
    """Case 0 is sound; each of the others is faulty in its own way."""

    def attempt(self, case):
        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        faults = {1: die, 2: lambda: time.sleep(600), 3: lambda: {}["key"], 4: lambda: Path("left.txt").write_text("!")}
        if case.number in faults:
            faults[case.number]()
        if case.number >= 4:
            raise Finding("planted", "details")
        return Tally(steps=5, kills=1)


@pytest.mark.slow
def test_dead_and_hanging_processes_are_findings_and_the_next_case_goes_on(tmp_path):
    entry = Entry("tests.test_mutate:Planted", share=1.0, patience=1.0)
    running = Lane(Order("planted", entry, 0, tmp_path, 120.0, first=0, last=4))
    reports = {}
    while not running.is_over:
        reports |= {report.number: report for report in running.poll()}
        time.sleep(0.02)
    kinds = {number: report.finding and report.finding[0] for number, report in reports.items()}
    assert kinds[0] is None and reports[0].tally == Tally(5, 1)
    assert kinds[1] == "died in a case (exit code -9)"
    assert kinds[2].startswith("no end after 1 s")
    assert kinds[3].startswith("KeyError")
    assert kinds[4] == "planted"
    assert [path.name for path in sorted(tmp_path.iterdir()) if path.name.isdigit()] == ["1", "2", "3", "4"]
    assert (tmp_path / "4" / "left.txt").read_text() == "!"


def test_cases_are_drawn_from_their_name_alone(tmp_path):
    draws = [
        Case(*name, tmp_path).random().integers(2**62) for name in (("a", 0, 1), ("a", 0, 2), ("a", 1, 1), ("b", 0, 1))
    ]
    assert len(set(draws)) == 4
    assert Case("a", 0, 1, tmp_path / "elsewhere").random().integers(2**62) == draws[0]


class Found(Subject):
    """Every case finds the same."""

    def attempt(self, case):
        Path("damaged.txt").write_text(str(case))
        raise Finding("planted", "details")


@pytest.mark.slow
def test_what_is_found_is_kept_and_can_be_tried_again(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(lane.SUBJECTS, "planted", Entry("tests.test_mutate:Found", 1.0, 5.0))
    assert main(["--case", "planted:7:3", "--out", str(tmp_path / "out")]) == FOUND
    output = capfd.readouterr().out
    assert "FOUND  planted: planted" in output
    assert "python -m tests.mutate --case planted:7:3" in output
    kept = tmp_path / "out" / "planted_7_3"
    assert (kept / "files" / "damaged.txt").read_text() == "planted:7:3"
    assert (kept / "finding.txt").read_text().endswith("--case planted:7:3\n\ndetails\n")


@pytest.mark.parametrize("case", ["planted", "files:0:1", "actions:0:x", "actions:-1:0"])
def test_a_case_that_is_none_is_one_line(case, capfd):
    assert main(["--case", case]) == 2
    assert "it must be SUBJECT:SEED:NUMBER" in capfd.readouterr().err


# --- verdicts -------------------------------------------------------------------------------------------------------


def in_a_library():
    np.zeros(3).reshape(2, 2)


def raising(error):
    def function(*_):
        raise error

    return function


def test_a_refusal_is_one_line_that_is_raised_on_purpose():
    assert call(darp.load, "nowhere.npz").refusal
    assert call(lambda: 5).value == 5
    faults = {
        "not refused, but failed in a library: ValueError": in_a_library,
        "KeyError": raising(KeyError("x")),
        "MemoryError": raising(MemoryError()),
        "RuntimeWarning": lambda: np.float32(1e30) * np.float32(1e30),
    }
    for kind, function in faults.items():
        with pytest.raises(Finding, match=f"^{kind}"):
            call(function)


@pytest.mark.parametrize("message", ["two\nlines", "", "x" * (LONGEST + 1)])
def test_a_message_is_one_line_of_a_decent_length(message):
    with pytest.raises(Finding, match="a message is"):
        call(raising(OSError(message)))


@pytest.mark.parametrize(
    ("behaves", "kind"),
    [
        (raising(RuntimeError("boom")), "RuntimeError"),
        (lambda argv: 3, "exit status 3"),
        (lambda argv: os.sys.stderr.write("Traceback (most recent call last):\n") and 0, "a traceback"),
        (raising(SystemExit(2)), "refused in other than one line"),
        (raising(OSError(5, "broken")), "without the name of the file"),
    ],
)
def test_a_command_ends_well_or_in_one_line(behaves, kind):
    assert command(lambda argv: None, []).status == 0
    assert command(raising(UserError("no such thing")), []).refusal == "error: no such thing"
    with pytest.raises(Finding, match=kind):
        command(behaves, [])


# --- mutators -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(content=st.binary(max_size=200), seed=st.integers(0, 2**32 - 1))
def test_anything_can_be_damaged_and_the_same_way_again(content, seed):
    for mutator in (*mutators.BYTES, *mutators.LINES, *mutators.TOKENS):
        damaged = [mutator(np.random.default_rng(seed), content) for _ in range(2)]
        assert damaged[0] == damaged[1]


def test_most_damages_of_a_text_change_it():
    text, random = b"num_envs: 4\nenv:\n  name: darp\nlist: [1, 2.5]\n", np.random.default_rng(0)
    assert sum(mutators.mutate_text(random, text) != text for _ in range(200)) > 180


# --- what the subjects know -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "value", "is_said"),
    [
        ("8", 8, True),
        ("1_000", 1000, True),
        ("010", 8, False),
        ("010", 10, True),
        ("12:30:45", 45045, False),
        ("3e-4", 3e-4, True),
        (".inf", float("inf"), True),
        ("1e39", 1e38, False),
        ("true", True, True),
        ("true", 1, False),
        ("null", None, True),
        ("[64, 32]", (64, 32), True),
        ("[64]", (64, 32), False),
        ("gru", "gru", True),
        ("gru", "mlp", False),
    ],
)
def test_what_is_typed_says_one_value(typed, value, is_said):
    assert says(yaml.compose(typed), value) is is_said


MASK = np.array([True, False, True])


@pytest.mark.parametrize(
    ("value", "judged"),
    [(0, 0), (1, 1), (2**32, 1), (10**30, 1), (np.int64(-1), 1), (0.0, REFUSED), (True, REFUSED), (None, REFUSED)],
)
def test_an_index_is_judged_by_its_python_value(value, judged):
    assert judge_array(value, Discrete(3), (), MASK) == judged


def test_a_vector_is_judged_by_its_python_values():
    box = Box(-1.0, 1.0, (2,))
    rows = np.array([[0.0, 1.0], [np.nan, 0.0], [0.0, 1.5]])
    assert judge_array(rows, box, (3, 2), None) == 2
    assert judge_array(rows, box, (2, 2), None) == REFUSED
    assert judge_array(np.zeros((3, 2), int), box, (3, 2), None) == REFUSED


@pytest.mark.parametrize(
    ("value", "index"),
    [(2, 2), ([2.0], 2), ([0, 1, 0], 1), (0.5, None), ([0, 0, 0], None), ([1, 0, 1], None), ([0, np.nan, 0], None)],
)
def test_a_row_is_an_index_if_it_has_one_1(value, index):
    assert faces._index_in_words(np.asarray(value), 3) == index


def found_in(subject, folder, count):
    """Kinds of what a subject finds in its first cases, in this process."""
    here = Path.cwd()
    try:
        reports = [try_case(subject, Case("x", 0, number, folder / str(number)), 60.0) for number in range(count)]
    finally:
        os.chdir(here)
    return {report.finding[0] for report in reports if report.finding}


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        (lambda path: material.instance(np.random.default_rng(5)), "read as something else"),
        (lambda path: {}["missing"], "KeyError"),
        (lambda path: json.loads("{"), "failed in a library: JSONDecodeError"),
    ],
)
def test_a_reader_with_a_planted_fault_is_found(tmp_path, monkeypatch, planted, kind):
    sound = problem_files.FORMATS["Cordeau"]
    broken = problem_files.Format(sound.write, planted, sound.check, sound.draw)
    monkeypatch.setattr(problem_files, "FORMATS", {"Cordeau": broken})
    monkeypatch.setattr(problem_files, "DRAWN", 0.0)
    (tmp_path / "scratch").mkdir()
    found = found_in(problem_files.ProblemFiles(tmp_path / "scratch"), tmp_path, 3)
    assert any(kind in finding for finding in found)


@pytest.fixture
def straight(tmp_path):
    """The files of a run as the comparison sees them."""
    run = tmp_path / "straight"
    (run / "checkpoints" / "6").mkdir(parents=True)
    for name in runs.SAME_BYTES:
        (run / name).write_text("{}")
    (run / "timing.jsonl").write_text('{"update": 1}\n{"update": 2}\n')
    return run


CHANGED = {
    "metrics.jsonl": lambda run: (run / "metrics.jsonl").write_text("{ }"),
    "left behind": lambda run: (run / ".summary.json.1.part").write_text(""),
    "missing": lambda run: (run / "summary.json").unlink(),
    "timing.jsonl": lambda run: (run / "timing.jsonl").write_text('{"update": 2}\n'),
    "checkpoint": lambda run: (run / "checkpoints" / "6").rename(run / "checkpoints" / "4"),
}


@pytest.mark.parametrize(("name", "change"), CHANGED.items(), ids=CHANGED)
def test_two_runs_are_told_apart(straight, tmp_path, name, change):
    other = tmp_path / "other"
    shutil.copytree(straight, other)
    assert list(runs.differences(straight, other)) == []
    change(other)
    assert any(name in difference for difference in runs.differences(straight, other))


def test_a_line_ends_with_a_line_feed_and_with_nothing_else(tmp_path):
    path = tmp_path / "timing.jsonl"
    path.write_bytes('{"update": 1, "a\u2028b": 2}\n{"update": 2}\n'.encode())
    assert runs.updates(path) == [1, 2]


def test_a_state_with_other_bits_is_told_apart(straight, tmp_path):
    state = {"a": jnp.array([1.0, -0.0], jnp.float32)}
    assert runs.digest(state) == runs.digest({"a": jnp.array([1.0, -0.0], jnp.float32)})
    assert runs.digest(state) != runs.digest({"a": jnp.array([1.0, 0.0], jnp.float32)})
    for name, bits in (("straight", "aa"), ("other", "bb")):
        notes = tmp_path / name / "notes" / "0"
        notes.mkdir(parents=True)
        (notes / "digests.jsonl").write_text(json.dumps({"update": 6, "digest": bits}) + "\n")
    shutil.copytree(straight, tmp_path / "straight" / "run")
    shutil.copytree(tmp_path / "straight" / "run", tmp_path / "other" / "run")
    killed = kills._Run("mappo_mlp", tmp_path / "other")
    killed.last_notes = tmp_path / "other" / "notes" / "0"
    with pytest.raises(Finding, match="other bits"):
        kills._compare(tmp_path / "straight" / "run", killed)


def test_what_changes_a_folder_is_noticed(tmp_path):
    write, read = os.O_WRONLY | os.O_CREAT, os.O_RDONLY
    inside, outside = str(tmp_path / "run" / "a"), str(tmp_path / "b")
    run = tmp_path / "run"
    assert runs.is_change("open", (inside, "w", write), run)
    assert runs.is_change("os.rename", (inside, outside, -1, -1), run)
    assert not runs.is_change("open", (inside, "r", read), run)
    assert not runs.is_change("open", (outside, "w", write), run)
    assert not runs.is_change("os.listdir", (inside,), run)


def test_nothing_was_done_by_default():
    assert NOTHING + Tally(2, 3) == Tally(2, 3)

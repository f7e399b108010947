"""Files of records: whatever has become of them, what is whole is kept byte for byte and what is missing is said."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.card import Headline
from train.run.records import cut_back, listed, read_lines, read_records
from train.shown.plots import learning_curve

GARBAGE = (
    b"\xff",
    b"",
    b"5",
    b"null",
    b"[]",
    b"{}",
    b'{"update": null}',
    b'{"update": true, "env_steps": 10}',
    b'{"update": 1.0, "env_steps": 10}',
    b'{"update": 0, "env_steps": 0}',
    b'{"update": -1, "env_steps": 10}',
    b'{"update": 2}',
    b'{"update": 2, "env_steps": "20"}',
    b'{"update": 2, "env_steps": 20, "loss": "0.5"}',
    b'{"update": 2, "env_steps": 20, "loss": []}',
    b'{"update": 2, "env_steps": 20, "loss": [1, [2]]}',
    b'{"update": 2, "env_steps": 20, "loss": true}',
    b'{"update": 2, "env_steps": 20, "loss": {"a": 1}}',
    b'{"update": 2, "env_steps": 20, "loss": 1' + b"0" * 400 + b"}",
    b'{"update": 1' + b"0" * 400 + b', "env_steps": 20}',
    b'{"update": 2, "env_steps": 1' + b"0" * 5000 + b"}",
    b'{"update": 2, "env_steps": 20, "loss": ' + b"[" * 100_000,
    b'{"update": 4, "env_steps": 40, "loss": 0.5',
)
"""Lines that are no records, whatever update they pretend to be of."""


def record(update):
    """A line of `metrics.jsonl`: a figure, one that is not known, one per seed."""
    return json.dumps(
        {"update": update, "env_steps": 10 * update, "loss": 1 / update, "no": None, "two": [0, update]}
    ).encode()


@pytest.fixture
def write(tmp_path):
    """`write(lines)`: the file `metrics.jsonl` of them."""

    def write(lines):
        path = tmp_path / "metrics.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_a_line_that_is_no_record(garbage, write):
    path = write([record(1), garbage, record(3), record(4)])
    assert [line.record is None for line in read_lines(path)] == [False, True, False, False]
    assert [each["update"] for each in read_records(path)] == [1, 3, 4]


def test_figures_that_are_large_or_not_finite_are_figures(write):
    large = [b'{"update": %d, "env_steps": 1, "a": %s}' % pair for pair in ((1, b"1.0"), (2, b"3.2e12"), (3, b"1e38"))]
    assert len(read_records(write(large))) == 3
    path = write([b'{"update": 1, "env_steps": 1, "a": NaN, "b": [Infinity, -1e400]}'])
    assert len(read_records(path)) == 1


@pytest.mark.parametrize("figure", [b"1e308", b"-1e39", b"[1.0, 1e39]", b"1" + b"0" * 50])
def test_figures_beyond_32_bits_are_damage(figure, write):
    """A plot of them would overflow."""
    shape = b"[1.0, 2.0]" if figure[:1] == b"[" else b"1.0"
    lines = [b'{"update": %d, "env_steps": 1, "a": %s}' % pair for pair in ((1, shape), (2, figure), (3, shape))]
    assert [each["update"] for each in read_records(write(lines))] == [1, 3]


def test_of_two_shapes_the_usual_one_is_right(write):
    shapes = [b"[1, 2]", b"7", b"8", b"null", b"9"]
    path = write([b'{"update": %d, "env_steps": 1, "a": %s}' % (update, a) for update, a in enumerate(shapes, 1)])
    assert [each["update"] for each in read_records(path)] == [2, 3, 4, 5]


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl"])
def test_a_file_that_is_missing_empty_or_whole(name, tmp_path):
    path = tmp_path / name
    assert read_records(path) == []
    assert cut_back(path, range(0)) is None
    says = f"{path}: the file is empty or missing: no record of updates 2 to 6"
    assert cut_back(path, range(2, 7, 2)) == says
    assert not path.exists()
    path.write_bytes(b"")
    assert cut_back(path, range(2, 7, 2)) == says
    path.write_bytes(record(2) + b"\n" + record(4) + b"\n")
    before = path.stat()
    assert cut_back(path, range(2, 5, 2)) is None
    assert path.stat() == before, "nothing was written"


def test_a_timing_needs_no_environment_steps(tmp_path):
    (tmp_path / "timing.jsonl").write_text('{"update": 1, "time/seconds": 2.0}\n')
    assert len(read_records(tmp_path / "timing.jsonl")) == 1


@pytest.mark.parametrize("tail", [b'{"update": 5, "env', b"\xff\n", record(5) + b"\n" + record(6) + b"\n{"])
def test_what_a_killed_run_had_begun_is_of_no_concern(tail, write):
    path = write([record(1), record(2)])
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert cut_back(path, range(1, 3)) is None
    assert path.read_bytes() == whole
    assert [each.name for each in path.parent.iterdir()] == ["metrics.jsonl"]


def test_the_damaged_file_is_kept_and_never_overwritten(write):
    path = write([record(1), b"5", record(3)])
    first = path.read_bytes()
    says = f"{path}: line 2 damaged, the file as it was is kept as metrics.jsonl.damaged; no record of update 2"
    assert cut_back(path, range(1, 4)) == says
    assert cut_back(path, range(1, 4)) == f"{path}: no record of update 2"
    write([b"{}", record(3)])
    says = f"{path}: line 1 damaged, the file as it was is kept as metrics.jsonl.damaged_2; no record of updates 1 to 2"
    assert cut_back(path, range(1, 4)) == says
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == first
    assert path.with_name("metrics.jsonl.damaged_2").read_bytes() == b"{}\n" + record(3) + b"\n"
    assert path.read_bytes() == record(3) + b"\n"


def test_lists_are_short():
    assert listed("line", [3]) == "line 3"
    assert listed("line", [3, 4, 5, 9]) == "lines 3 to 5, 9"
    assert listed("update", [2, 4, 6, 7, 9], [2, 4, 6, 7, 8, 9]) == "updates 2 to 7, 9"
    assert listed("line", range(1, 99, 2)) == "lines 1, 3, 5, 7, 9, ..."


def numbers_in(text):
    """What `listed` says, back as numbers of an interval of 1."""
    ends = [[int(end) for end in part.split(" to ")] for part in re.findall(r"\d+(?: to \d+)?", text)]
    return {number for each in ends for number in range(each[0], each[-1] + 1)}


FATES = st.sampled_from(["kept"] * 6 + ["lost", "garbage before", "garbage instead", "twice"])


@settings(max_examples=200, deadline=None)
@given(fates=st.lists(FATES, min_size=1, max_size=9), data=st.data())
def test_what_is_kept_and_what_is_said(fates, data, tmp_path_factory):
    """Against the fates of the lines: what is whole is kept, and exactly what was lost is named."""
    path = tmp_path_factory.mktemp("records") / "metrics.jsonl"
    update = data.draw(st.integers(0, len(fates)))
    garbage = st.sampled_from(GARBAGE)
    lines, bad = [], []
    for number, fate in enumerate(fates, 1):
        if fate.startswith("garbage"):
            lines.append(data.draw(garbage))
            bad.append(len(lines))
        if fate in ("kept", "twice", "garbage before"):
            lines.append(record(number))
        if fate == "twice":
            lines.append(record(number))
            if number <= update:
                bad.append(len(lines))
    whole = [number for number, fate in enumerate(fates, 1) if fate not in ("lost", "garbage instead")]
    due = [number for number in whole if number <= update]
    lost = set(range(1, update + 1)) - set(due)
    end = len(lines) if lost else max((lines.index(record(number)) + 1 for number in due), default=0)
    concern = {number for number in bad if number <= end}
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    original = path.read_bytes()
    said = cut_back(path, range(1, update + 1))
    assert path.read_bytes() == b"".join(record(number) + b"\n" for number in due)
    assert (said is None) == (not lost and not concern)
    about_lines, _, about_updates = (said or "").partition("no record of")
    listed_lines = re.search(r"lines? (.*) damaged", about_lines)
    if "..." not in (said or ""):
        assert numbers_in(listed_lines[1] if listed_lines else "") == concern
        assert numbers_in(about_updates) == lost
    kept = list(path.parent.glob("*.damaged"))
    assert [each.read_bytes() for each in kept] == [original] * bool(concern)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=60), start=st.integers(0, 200), length=st.integers(0, 60))
def test_any_bytes_in_the_middle(content, start, length, tmp_path_factory):
    """Nothing of them is raised, and nothing goes without a word."""
    path = tmp_path_factory.mktemp("bytes") / "metrics.jsonl"
    whole = b"".join(record(number) + b"\n" for number in range(1, 5))
    path.write_bytes(whole[:start] + content + whole[start + length :])
    for name in ("loss", "two"):
        assert len({np.shape(each[name]) for each in read_records(path) if each.get(name) is not None}) <= 1
    before = path.read_bytes()
    said = cut_back(path, range(1, 5))
    assert said or path.read_bytes() == whole or before.startswith(path.read_bytes())
    copies = list(path.parent.glob("*.damaged"))
    assert [copy.read_bytes() for copy in copies] == [before] * ("damaged" in (said or ""))


def test_the_learning_curve_is_of_the_records_that_are_whole(write):
    path = write([record(1), *GARBAGE, record(2), b'{"update": 3, "env_steps": 3, "two": 3}', record(4)])
    figure = learning_curve(read_records(path), {}, [Headline("two", "two", curve="two")])
    assert {axes.get_title() for axes in figure.axes} == {"return", "rate", "entropy"}

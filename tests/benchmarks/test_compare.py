"""`benchmarks.compare`: slower and faster beyond the noise, by ratios to a reference, and what it refuses."""

import json

import pytest

from benchmarks import compare
from jaxvrp.io.command_line import UserError

MACHINE = {"device": "1 x cpu (cpu)", "cpu": "a", "cores": 2, "jax": "1", "jaxlib": "1"}


@pytest.fixture
def write(tmp_path):
    """`write(name, content)`: the path of a JSON file."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write_file


def throughput(rates, numpy=(), size=(2, 3, 5), **machine):
    figures = {"jax": list(rates), **({"numpy": list(numpy)} if numpy else {})}
    return {
        "machine": {**MACHINE, **machine},
        "cases": [{"env": "truck_drone", "size": list(size), "batch": 64, "steps_per_second": figures}],
    }


def training(rates, network="mlp"):
    row = {"network": network, "size": [2, 3, 5], "steps_per_second": list(rates)}
    return {"machine": MACHINE, "rows": [row]}


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ([10, 12, 11], [9.9, 9, 8], "slower"),
        ([10, 12, 11], [10.1, 9, 8], "same"),
        ([10, 12, 11], [12.1, 13, 20], "faster"),
        ([10, 12, 11], [11.9, 13, 20], "same"),
    ],
)
def test_ranges_that_do_not_overlap_differ(old, new, word):
    assert compare.verdict(old, new) == word


def test_a_slower_row_is_named_and_gives_exit_status_1(write, capsys):
    old, new = write("old.json", training([70e3, 71e3, 72e3])), write("new.json", training([35e3, 36e3, 37e3]))
    with pytest.raises(SystemExit) as stop:
        compare.main([old, new])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert "mlp (2, 3, 5)" in out.splitlines()[-1]
    assert "71 k" in out and "36 k" in out and "0.51" in out


def test_faster_is_no_failure(write, capsys):
    compare.main([write("old.json", training([35e3, 36e3])), write("new.json", training([70e3, 71e3]))])
    assert capsys.readouterr().out.splitlines()[-1] == "0 of 1 rows are slower"


def test_a_machine_that_is_half_as_fast_cancels_where_there_is_a_reference(write, capsys):
    old = write("old.json", throughput([1000, 1100], [10, 11]))
    new = write("new.json", throughput([500, 550], [5, 5.5], cpu="b"))
    compare.main([old, new])
    out = capsys.readouterr().out
    assert "1.00" in out and "0 of 1 rows are slower" in out
    assert "the files differ" not in out


def test_a_ratio_that_fell_is_slower_though_the_machine_is_faster(write):
    old = write("old.json", throughput([1000, 1100], [10, 10]))
    new = write("new.json", throughput([1200, 1210], [20, 20]))
    with pytest.raises(SystemExit):
        compare.main([old, new])


def test_other_parameters_are_another_row(write):
    changed = throughput([10, 11])
    changed["cases"][0]["parameters"] = {"limits": True}
    with pytest.raises(UserError, match="no row in common"):
        compare.main([write("old.json", throughput([10, 11])), write("new.json", changed)])


def test_another_machine_without_a_reference_is_said(write, capsys):
    compare.main([write("old.json", throughput([10, 11])), write("new.json", throughput([10, 11], cpu="b", jax="2"))])
    assert "the files differ in cpu, jax" in capsys.readouterr().out


def test_rows_of_one_file_only_are_counted(write, capsys):
    old, new = training([1.0, 2.0]), training([1.0, 2.0])
    new["rows"].append({"network": "gru", "size": [2, 3, 5], "steps_per_second": [1.0]})
    compare.main([write("old.json", old), write("new.json", new)])
    assert "1 rows are in one of the files only" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    ["", "5", "[]", '{"cases": 5}', '{"machine": {}, "tables": {}}', json.dumps(training(["a"])),
     json.dumps(training([-1.0])), "[" * 100_000, json.dumps(training([10**400]))],
)  # fmt: skip
def test_other_files_are_refused_in_a_line(write, content):
    path = write("odd.json", content)
    with pytest.raises(UserError, match=r"odd\.json is no result of a benchmark of speed; give"):
        compare.main([path, path])


def test_a_missing_file_and_files_without_a_common_row_are_refused(write, tmp_path):
    path = write("old.json", training([1.0]))
    with pytest.raises(UserError, match=r"cannot read .*missing\.json: No such file"):
        compare.main([path, str(tmp_path / "missing.json")])
    with pytest.raises(UserError, match="no row in common"):
        compare.main([path, write("new.json", training([1.0], network="gru"))])

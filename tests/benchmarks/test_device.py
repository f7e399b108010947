"""`benchmarks.device`: rows, what goes wrong in one, the end by the clock, and what is written."""

import json
import threading
import time

import pytest

from benchmarks import device


@pytest.fixture
def out(tmp_path):
    return tmp_path / "device.json"


def options(out, *words):
    return ["--batches", "4", "--num_envs", "4", "--steps", "2", "--out", str(out), *words]


def test_a_row_that_fails_is_kept_and_the_next_follows(out, monkeypatch, capsys):
    def fail():
        raise MemoryError("out of memory\nand more")

    rows = [{"part": "steps", "what": what, "batch": 4} for what in ("first", "second")]
    monkeypatch.setattr(device, "jobs", lambda args: [(rows[0], fail), (rows[1], lambda: {"steps_per_second": 1e6})])
    device.main(options(out))
    result = json.loads(out.read_text())
    assert [row.get("error") for row in result["rows"]] == ["MemoryError: out of memory", None]
    assert result["machine"]["device"]
    assert out.with_suffix(".png").stat().st_size > 0
    assert "2 of 2 rows" in capsys.readouterr().out


def test_the_clock_ends_a_row_and_keeps_those_before_it(out, monkeypatch, capsys):
    left, released = [], threading.Event()

    def leave(status):
        left.append(status)
        released.set()

    row = {"part": "steps", "what": "w", "batch": 4}
    hangs = (row, lambda: {"waited": released.wait(60)})
    monkeypatch.setattr(device, "jobs", lambda args: [(row, lambda: {"steps_per_second": 1e6}), hangs])
    device.main(options(out, "--seconds", "0.5"), leave)
    assert left == [0]
    assert json.loads(out.read_text())["rows"][0]["steps_per_second"] == 1e6
    assert "stopped by the clock" in capsys.readouterr().out


def test_the_clock_draws_to_the_end_though_all_rows_are_done(out, monkeypatch):
    stopped, plot = threading.Event(), device.plot

    def plot_slowly(*words):
        stopped.set()
        time.sleep(0.3)
        plot(*words)

    row = {"part": "steps", "what": "w", "batch": 4}
    monkeypatch.setattr(device, "plot", plot_slowly)
    monkeypatch.setattr(device, "jobs", lambda args: [(row, lambda: {"steps_per_second": 1.0 + stopped.wait(60)})])
    device.main(options(out, "--seconds", "0.3"), lambda status: None)
    assert out.with_suffix(".png").exists()


def test_rows_are_of_every_part():
    args = device._parser().parse_args(["--out", "device.json"])
    rows = [row for row, _ in device.jobs(args)]
    assert {row["part"] for row in rows} == {"parity", "steps", "training"}
    batches = {row["batch"] for row in rows if row["part"] == "steps"}
    assert (min(batches), max(batches)) == (2**10, 2**18)
    assert {row["batch"] for row in rows if row["part"] == "training"} == {2**12, 2**13, 2**14, 2**15}


@pytest.mark.slow
def test_a_row_of_each_part_is_measured():
    assert device.parity("darp", 3)["share_as_on_cpu"] == 1.0
    small = {"num_drones": 1, "num_customers": 1, "num_route_nodes": 1}
    assert device.simulation("truck_drone", small, 2, 2)["steps_per_second"] > 0
    assert device.training("mlp", 8, "bfloat16")["steps_per_second"] > 0

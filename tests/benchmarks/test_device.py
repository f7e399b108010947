"""`benchmarks.device`: rows, what goes wrong in one, the end by the clock, and what is written."""

import functools
import json
import os
import signal
import time
import types

import pytest

from benchmarks.device import __main__ as command
from benchmarks.device import rows as measured
from benchmarks.device.__main__ import Job
from benchmarks.device.kernels import kernels, kernels_of
from jaxvrp.io.command_line import UserError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "device.json"


def job(name, run, **further):
    return Job({"part": "steps", "what": name, "batch": 4}, run, **further)


def variable(name):
    return {"note": os.environ.get(name, "none")}


def fails():
    raise MemoryError("out of memory\nand more")


def crashes():
    os.write(2, b"F1127 02:21:08.305444 29897 parse.cc:234] Unknown flag\nusage\n")
    os.kill(os.getpid(), signal.SIGABRT)


def rate():
    return {"steps_per_second": 1e6, "compile_seconds": 1.0, "program_bytes": 2**20, "peak_memory_bytes": None}


def once(path):
    path.touch(exist_ok=False)
    return {"note": "ran"}


def compiled():
    return {"compile_seconds": 7.0}


@pytest.fixture
def table_of(out, monkeypatch):
    """`table_of(jobs, *options)`: the file that a call with these rows writes."""

    def table(jobs, *options):
        monkeypatch.setattr(command, "jobs", lambda args: jobs)
        command.main(["--steps", "2", "--out", str(out), *options])
        return json.loads(out.read_text())

    return table


def test_a_row_that_fails_or_crashes_is_kept_and_the_next_follows(table_of, out, capsys):
    alone = {"variables": {"TESTED": "alone"}}
    runs = [fails, crashes, rate, functools.partial(variable, "TESTED")]
    jobs = [*(job(f"row {place}", run) for place, run in enumerate(runs)), job("flags", runs[-1], **alone)]
    result = table_of([*jobs, job("crash alone", crashes, **alone), job("last", rate)])
    crash = "its process ended with -6: F1127 02:21:08.305444 29897 parse.cc:234] Unknown flag"
    said = [row.get("error", row.get("note")) for row in result["rows"]]
    assert said == ["MemoryError: out of memory and more", crash, None, "none", "alone", crash, None]
    assert result["machine"]["device"] and result["machine"]["runtime"]
    assert result["rows_planned"] == len(result["rows"]) == 7
    assert out.with_suffix(".png").stat().st_size > 0
    assert "7 of 7 rows" in capsys.readouterr().out
    assert "usage" in out.with_suffix(".log").read_text()


def test_the_clock_ends_a_row_and_keeps_those_before_it(table_of, out, monkeypatch, capsys):
    """The clock stands still but for the end of a row, however busy this machine is: the second row has two seconds."""

    def now():
        rows = json.loads(out.read_text())["rows"] if out.exists() else []
        return (0.0, 598.0, 601.0)[len(rows)]

    monkeypatch.setattr(command, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(command, "time", types.SimpleNamespace(monotonic=now))
    start = time.monotonic()
    hangs = functools.partial(time.sleep, 600)
    result = table_of([job("first", rate), job("hangs", hangs), job("none", rate)], "--seconds", "600")
    assert time.monotonic() - start < 200
    assert result["rows"][0]["steps_per_second"] == 1e6
    assert result["rows"][1]["error"] == "stopped after 2 s"
    assert len(result["rows"]) == 2 and "2 of 3 rows" in capsys.readouterr().out


def test_a_rehearsal_with_a_row_that_fails_has_a_status(table_of):
    assert "rows" in table_of([job("well", rate)], "--rehearse")
    with pytest.raises(SystemExit, match="1"):
        table_of([job("fails", fails)], "--rehearse")


def test_without_a_device_nothing_is_measured(table_of, monkeypatch, out):
    monkeypatch.setattr(command.measured, "driver", fails)
    with pytest.raises(UserError, match=r"^JAX finds no device \(MemoryError: out of memory and more\); .*device\.log"):
        table_of([job("well", rate)])
    assert not out.exists()


def test_another_platform_than_asked_for_is_not_measured(table_of, out):
    with pytest.raises(UserError, match=r"^--platform gpu: JAX finds \d x cpu \(cpu\); .*device\.log may say why"):
        table_of([job("well", rate)], "--platform", "gpu")
    assert not out.exists()


def test_rows_are_of_every_part():
    args = command._parser().parse_args(["--out", "device.json"])
    vars(args).update(command.FULL)
    rows = [job.row for job in command.jobs(args)]
    assert {row["part"] for row in rows} == set(command.PARTS)
    assert rows[command.COMMAND_PLACE]["part"] == "command"
    batches = {row["batch"] for row in rows if row["part"] == "steps"}
    assert (min(batches), max(batches)) == (2**10, 2**18)
    assert {row["batch"] for row in rows if row["part"] == "training"} == {2**10, 2**12, 2**14}
    args.parts = ["flags"]
    variables = [job.variables for job in command.jobs(args)]
    unrolled = [unroll for _, unroll in command.FLAGS.values() if unroll > 1]
    assert len(variables) == 2 * len(command.FLAGS) - len(unrolled), "the main job's loops are not unrolled"
    assert all("XLA_FLAGS" in each for each in variables)


@pytest.mark.slow
def test_a_row_of_each_part_is_measured():
    assert measured.parity("darp", 3)["share_as_on_cpu"] == 1.0
    small = {"num_drones": 1, "num_customers": 1, "num_route_nodes": 1}
    for build in (
        functools.partial(measured.simulation, "truck_drone", small, 2, 2, unroll=2),
        functools.partial(measured.training, "mlp", 8, "bfloat16"),
    ):
        row = measured.timed(build)
        assert row["steps_per_second"] > 0 and row["compile_seconds"] > 0


def test_what_is_found_ahead_is_kept_and_what_is_not_timed_does_not_run_again(table_of, tmp_path):
    """Two processes compile; a row that fails there is measured with the others, and says why there."""
    whole = functools.partial(once, tmp_path / "ran")
    jobs = [
        job("compiled", rate, ahead=compiled),
        job("whole", whole, ahead=whole),
        job("fails", fails, ahead=fails),
        job("alone", functools.partial(variable, "TESTED"), ahead=compiled, variables={"TESTED": "alone"}),
    ]
    first, second, third, fourth = table_of(jobs, "--processes", "2")["rows"]
    assert (first["compile_seconds"], first["steps_per_second"]) == (7.0, 1e6)
    assert second["note"] == "ran"
    assert third["error"] == "MemoryError: out of memory and more"
    assert (fourth["compile_seconds"], fourth["note"]) == (7.0, "alone")


def test_kernels_are_those_of_the_streams_of_a_gpu():
    def named(event, pid, tid, name):
        return {"ph": "M", "name": event, "pid": pid, "tid": tid, "args": {"name": name}}

    def ran(name, start, duration, tid=7):
        return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": start, "dur": duration}

    events = [ran("sum", 0.0, 2.0), ran("copy", 3.0, 1.0), ran("sum", 6.0, 4.0), ran("python", 0.0, 90.0, tid=8), {}]
    lanes = [named("thread_name", 1, 7, "Stream #14(Compute)"), named("thread_name", 1, 8, "python3")]
    found = kernels_of([*events, *lanes])
    assert found["kernels"] == [{"kernel": "sum", "calls": 2, "us": 6.0}, {"kernel": "copy", "calls": 1, "us": 1.0}]
    assert (found["us"], found["busy"]) == (10.0, 0.7)
    assert kernels_of([lanes[1], events[3]]) == {"note": "the profiler tells of no kernels"}


@pytest.mark.slow
def test_a_program_is_traced_where_no_gpu_tells_of_kernels():
    small = {"num_drones": 1, "num_customers": 1, "num_route_nodes": 1}
    build = functools.partial(measured.simulation, "truck_drone", small, 2, 2)
    assert kernels(build) == {"note": "the profiler tells of no kernels"}

"""The throughput benchmark in small: what it plays, what it writes, what it says. No figure is judged."""

import dataclasses
import json
import pathlib
import re
import sys
import time
import types

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks import throughput
from benchmarks.measuring.subject import choose, subject_of
from benchmarks.reference.truck_drone import RandomTruckDrone
from benchmarks.throughput import Case, JaxPlayer

CASE = Case(env="truck_drone", size=(1, 1, 1), batch=2, steps=256, repeats=3, seconds=0.001)


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("truck_drone", **subject_of("truck_drone").parameters(CASE.size))


@pytest.fixture(scope="module")
def record():
    return throughput.measure_case(CASE)


def measured(size=(2, 3, 5), batch=4096, jax=(3.0, 1.0, 2.0), numpy=(0.5, 0.5, 0.01)):
    """A made-up record with these rates."""
    rates = {"jax": list(jax), "numpy": list(numpy)}
    return {
        "size": list(size),
        "batch": batch,
        "device": "1 x cpu (cpu)",
        "devices_used": 1,
        "compile_seconds": 1.0,
        "peak_memory_bytes": 2**30,
        "memory_of": "process",
        "steps_per_second": rates,
        "ratio": throughput.ratio(rates),
    }


@pytest.mark.slow
def test_record_is_complete(record):
    assert json.loads(json.dumps(record)) == {**record, "size": [1, 1, 1]}
    assert set(measured()) <= set(record)
    assert all(len(record["steps_per_second"][name]) == CASE.repeats for name in ("jax", "numpy"))
    assert record["steps_per_repeat"]["jax"] % (CASE.batch * CASE.steps) == 0


def test_ratio_is_of_the_medians(record):
    medians = {name: float(np.median(values)) for name, values in record["steps_per_second"].items()}
    assert record["median"] == medians
    assert record["ratio"] == pytest.approx(medians["jax"] / medians["numpy"])
    assert measured()["ratio"] == 4.0


@pytest.mark.slow
def test_the_scan_carries_true_observations(env):
    player = JaxPlayer(env, CASE.batch, CASE.steps)
    player.play()
    assert player.devices == 2
    playing, _ = player._begun
    for name in ("observation", "global_observation", "action_mask"):
        wanted = jax.jit(jax.vmap(getattr(env, name)))(playing.vec.env)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), getattr(playing.timestep, name), wanted)
    assert player._ended >= CASE.batch
    assert (np.asarray(playing.vec.episode_length) < CASE.steps).all()


def test_the_reference_begins_anew(env):
    reference = RandomTruckDrone(env)
    assert throughput.play_reference(reference, 500) >= 2
    assert not reference.env.is_terminal()


def test_every_environment_has_a_reference_that_plays():
    for name in ("darp", "dispatch", "pcb", "truck_drone", "tsp_drone"):
        subject = subject_of(name)
        assert {len(size) for size in subject.sizes} == {len(subject.labels.split(","))}
        env = jaxvrp.make(name, **subject.parameters(subject.sizes[0]))
        reward, done = subject.reference(env).step()
        assert np.isfinite(reward) and not done, name


@pytest.mark.slow
def test_an_environment_without_a_reference_is_measured_alone(capsys):
    name = "jaxvrp.envs.truck_drone:make"
    record = throughput.measure_case(dataclasses.replace(CASE, env=name, size=(), steps=2, repeats=1))
    assert record["median"]["jax"] > 0 and record["ratio"] is None
    throughput.main(["--env", name, "--batches", "2"], run=lambda case: record)
    printed = capsys.readouterr().out
    assert re.search(r"^default +2 +[\d.]+( [kM])? +[\d.]+( [kM])? - [\d.]+( [kM])? +- +- +- ", printed, re.M), printed


def test_other_parameters_are_measured_without_the_reference(monkeypatch):
    def player(env, batch, steps):
        return types.SimpleNamespace(play=lambda: time.sleep(1e-4 * env.max_steps), devices=1, compile_seconds=0.0)

    monkeypatch.setattr(throughput, "JaxPlayer", player)
    record = throughput.measure_case(dataclasses.replace(CASE, parameters={"max_steps": 7}))
    assert list(record["median"]) == ["jax"] and record["parameters"] == {"max_steps": 7}
    assert record["median"]["jax"] <= CASE.batch * CASE.steps / 7e-4


def test_parameters_reach_every_case(record, capsys):
    asked = []
    throughput.main(
        ["--env", "darp", "--env.limits", "true", "--env.max_ride_time=7", "--sizes", "8,3", "--batches", "1", "2"],
        run=lambda case: asked.append(case) or {**record, "size": list(case.size), "batch": case.batch},
    )
    assert [case.parameters for case in asked] == [{"limits": True, "max_ride_time": 7}] * 2
    assert re.search(r"^parameters +limits True, max_ride_time 7$", capsys.readouterr().out, re.M)


def test_numpy_chooses_uniformly_among_the_legal():
    mask = np.array([[1, 0, 1, 0, 0], [1, 0, 0, 0, 0]], bool)
    chosen = np.array([choose(np.random.default_rng(seed), mask) for seed in range(2000)])
    assert set(chosen[:, 0]) == {0, 2}
    assert abs(np.mean(chosen[:, 0] == 0) - 0.5) < 0.05
    assert (chosen[:, 1] == 0).all()


def test_command_line_end_to_end(record, tmp_path, capsys):
    out, asked = tmp_path / "a.json", []

    def run(case):
        asked.append(case)
        if case.batch == 64:
            return {"size": list(case.size), "batch": 64, "error": "exit status -9: it said nothing"}
        return {**record, "size": list(case.size), "batch": case.batch}

    throughput.main(["--sizes", "2,3,5", "--batches", "1", "64", "4096", "--repeats", "2", "--out", str(out)], run)
    assert asked == [Case("truck_drone", (2, 3, 5), batch, 128, 2, 1.0) for batch in (1, 64, 4096)]
    printed = capsys.readouterr().out
    assert "failed: (2, 3, 5), batch 64: exit status -9: it said nothing" in printed
    content = json.loads(out.read_text())
    assert set(content) == {"machine", "protocol", "cases"}
    assert len(content["cases"]) == 3
    assert content["machine"]["command"].startswith("python -m benchmarks.throughput --sizes 2,3,5")
    assert content["machine"]["device"] == record["device"]
    assert all(f"{name} " in printed for name in (*content["machine"], *content["protocol"]))


def test_table_is_aligned(record):
    lines = throughput.table(
        [record, measured(batch=16384), measured(size=(8, 50, 16))], "drones,customers,nodes"
    ).splitlines()
    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1


@pytest.mark.slow
def test_a_process_of_its_own(monkeypatch, tmp_path):
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    case = Case("truck_drone", (1, 1, 1), 3, 2, 1, 0.001)
    record = throughput.measure_apart(case, {"JAX_NUM_CPU_DEVICES": "2"})
    assert record["device"].startswith("2 x ")
    assert record["devices_used"] == 1  # 3 environments cannot be shared by 2
    assert record["size"] == [1, 1, 1]
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\necho 'Traceback:' >&2; echo 'ValueError: it is too small' >&2; exit 3\n")
    failing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(failing))
    assert throughput.measure_apart(CASE)["error"] == "exit status 3: ValueError: it is too small"

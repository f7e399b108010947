"""`benchmarks.growth`: what is varied, the exponents, the picture and the file."""

import json

import numpy as np
import pytest

import jaxvrp
from benchmarks import growth
from benchmarks.throughput import subject_of
from jaxvrp.io.command_line import UserError


def measured(seconds):
    """`run(case, devices)` whose time per step is `seconds(case)`."""

    def run(case, devices):
        assert devices is None and not case.with_reference
        speed = 1 / seconds(case)
        figures = {"steps_per_second": {"jax": [speed / 2, speed, speed * 2]}, "compile_seconds": 3.0}
        return {"size": list(case.size), "batch": case.batch, "peak_memory_bytes": 2**20, **figures}

    return run


def test_a_power_is_found():
    values = np.array([1.0, 10.0, 100.0])
    assert growth.exponent(values, 7 * values**1.5) == pytest.approx(1.5)
    assert np.isnan(growth.exponent([3.0], [1.0]))


def test_one_number_is_varied_at_a_time_and_compared_with_agents_times_entities(capsys, tmp_path):
    asked = []

    def seconds(case):
        asked.append((case.size, case.batch))
        drones, customers, nodes = case.size
        return 1e-6 * (1 + drones) * (drones + customers + nodes) / case.batch

    path = tmp_path / "growth.png"
    growth.main(["--batches", "1", "16", "--batch", "2", "--out", str(path)], measured(seconds))
    assert asked[:2] == [((2, 3, 5), 1), ((2, 3, 5), 16)]
    assert {size for size, batch in asked[2:] if size[1] != 3} == {(2, c, 5) for c in (10, 30, 100, 300, 500)}
    assert {size for size, batch in asked[2:] if size[0] != 2} == {(d, 3, 5) for d in (1, 4, 8, 16, 32)}
    out = capsys.readouterr().out
    assert "batch: time of a step as its power -1.00" in out
    assert "drones: time of a step as the power 1.00 of agents x entities, compile time as its power 0.00" in out
    assert path.read_bytes().startswith(b"\x89PNG")
    assert len(json.loads(path.with_suffix(".json").read_text())["growth"]) == len(asked)


def test_a_case_that_fails_is_a_line_and_the_others_go_on(capsys):
    run = measured(lambda case: 1e-6)

    def failing(case, devices):
        broken = {"size": list(case.size), "batch": case.batch, "error": "exit status 1: out of memory"}
        return broken if case.batch == 16 else run(case, devices)

    growth.main(["--batches", "1", "16", "256"], failing)
    out = capsys.readouterr().out
    assert "failed: batch 16: exit status 1: out of memory" in out
    assert "batch: time of a step as its power 0.00" in out


@pytest.mark.parametrize("env", jaxvrp.registered())
def test_every_size_that_is_asked_for_can_be_made(env):
    subject = subject_of(env)
    labels = subject.labels.split(",") if subject.labels else []
    for label, values in subject.growth.items():
        for value in values:
            size = [value if name == label else number for name, number in zip(labels, subject.sizes[0], strict=True)]
            assert subject.work(tuple(size)) >= 1
            if env != "pcb":  # its boards are drawn when it is made
                jaxvrp.make(env, **subject.parameters(tuple(size)))


def test_mistakes_are_a_line(tmp_path):
    with pytest.raises(
        UserError, match="nothing says what grows in 'a:b'; choose one of: darp, pcb, truck_drone, tsp_drone"
    ):
        growth.main(["--env", "a:b"])
    with pytest.raises(UserError, match=r"it must end in"):
        growth.main(["--out", str(tmp_path / "growth.txt")])

"""The guard against environments that become slower, with rates that are made up."""

import collections
import dataclasses
import itertools
import json

import jax
import jax.numpy as jnp
import pytest

import jaxvrp
from benchmarks import guard
from benchmarks.measuring.subject import subject_of
from jaxvrp.io.command_line import UserError


def measured(ratio):
    """`run(case)`: the record of a case whose environment is so many times as fast as its reference."""

    def run(case):
        rates = {"jax": [99.0 * ratio, 100.0 * ratio, 104.0 * ratio], "numpy": [99.0, 100.0, 104.0]}
        return {**dataclasses.asdict(case), "device": "cpu", "steps_per_second": rates}

    return run


def program(case):
    return {"kernels": 40, "bytes": 1000.0}


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "guard.json"
    guard.main(["--write"], measured(80.0), path, program)
    return path


def test_every_shipped_environment_is_guarded():
    assert [case.env for case in guard.cases()] == [env for env in jaxvrp.registered() if subject_of(env).labels]
    rows = {guard.row_name(case.env, case.size, case.batch) for case in guard.cases()}
    kept = guard.read_kept(guard.KEPT)
    assert set(kept["programs"]) == rows
    untimed = {"truck_drone_tours (8,) batch 64"}  # its reference tries everything: no measure of speed
    assert set(guard.ratios(kept["cases"])) == rows - untimed


@pytest.mark.parametrize("ratio", [800.0, 80.0, 49.0])
def test_what_is_about_as_fast_passes(ratio, kept, capsys):
    guard.main([], measured(ratio), kept, program)
    assert f"{ratio:.3g}x" in capsys.readouterr().out


def test_what_is_slower_three_times_is_named(kept, capsys):
    with pytest.raises(SystemExit) as stop:
        guard.main([], measured(47.0), kept, program)
    assert stop.value.code == 1
    assert "slower than they were: darp (6, 2) batch 64, dispatch" in capsys.readouterr().out


def test_one_attempt_in_three_is_enough(kept):
    ratios = collections.defaultdict(lambda: itertools.repeat(80.0), darp=iter([10.0, 20.0, 80.0]))
    asked = []

    def run(case):
        asked.append(case.env)
        return measured(next(ratios[case.env]))(case)

    guard.main([], run, kept, program)
    assert asked.count("darp") == 3
    assert asked.count("pcb") == 1


@pytest.mark.parametrize("change", [{"kernels": 41}, {"kernels": 39}, {"bytes": 1001.0}])
def test_another_program_is_named(change, kept, capsys):
    with pytest.raises(SystemExit) as stop:
        guard.main([], measured(80.0), kept, lambda case: program(case) | (change if case.env == "pcb" else {}))
    assert stop.value.code == 1
    message = capsys.readouterr().out.splitlines()[-1]
    assert message.startswith("other programs than before: pcb")
    assert "darp" not in message


def test_programs_of_another_version_are_not_compared(kept, capsys):
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"jaxlib": "0.0.1"}))
    guard.main([], measured(80.0), kept, lambda case: {"kernels": 1, "bytes": 1.0})
    assert "not compared: those kept are of jaxlib 0.0.1" in capsys.readouterr().out


def test_what_cannot_be_compared_is_one_line(kept, monkeypatch):
    monkeypatch.setattr(guard, "measure_apart", lambda case, variables: {"error": "exit status 1: out of luck"})
    with pytest.raises(UserError, match=r"^darp cannot be measured: exit status 1: out of luck$"):
        guard.main([], kept=kept, program=program)
    result = json.loads(kept.read_text())
    kept.write_text(json.dumps({**result, "cases": result["cases"][:1]}))
    with pytest.raises(UserError, match=r"has no row 'dispatch .*'; run python -m benchmarks.guard --write"):
        guard.main([], measured(80.0), kept, program)
    with pytest.raises(UserError, match="cannot read"):
        guard.main([], measured(80.0), kept.with_name("missing.json"), program)


PROGRAM = """HloModule jit_f

%fused_computation (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %sine = f32[4]{0} sine(%p)
  ROOT %add = f32[4]{0} add(%sine, %p)
}

%body (carry: (s32[], f32[4])) -> (s32[], f32[4]) {
  %carry = (s32[], /*index=1*/f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%carry), index=1
  %fusion.1 = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused_computation
  ROOT %out = (s32[], f32[4]{0}) tuple(%x, %fusion.1)
}

%condition (carry.1: (s32[], f32[4])) -> pred[] {
  %carry.1 = (s32[], f32[4]{0}) parameter(0)
  ROOT %less = pred[] compare(%carry.1, %carry.1), direction=LT
}

ENTRY %main (x.1: f32[4]) -> f32[4] {
  %x.1 = f32[4]{0} parameter(0)
  %copy = f32[4]{0} copy(%x.1)
  %fusion.2 = f32[4]{0} fusion(%copy), kind=kLoop, calls=%fused_computation
  %while.1 = (s32[], f32[4]{0}) while(%copy), condition=%condition, body=%body
  ROOT %concatenate.1 = f32[8]{0} concatenate(%fusion.2, %copy), dimensions={0}
}
"""
"""An optimised program of two kernels, and a loop of two more."""


def test_kernels_of_a_program_and_of_its_loops_are_counted():
    assert guard.kernels(PROGRAM) == 4


def test_a_loop_over_one_array_is_one_kernel():
    text = jax.jit(lambda x: jnp.where(x > 0, 2 * x, x - 1)).lower(jnp.ones(8)).compile().as_text()
    assert guard.kernels(text) == 1

"""The guard against environments that become much slower, with rates that are made up."""

import dataclasses
import json

import pytest

import jaxvrp
from benchmarks import guard
from benchmarks.subject import subject_of
from jaxvrp.io.command_line import UserError


def measured(ratio):
    """`run(case)`: the record of a case whose environment is so many times as fast as its reference."""

    def run(case):
        rates = {"jax": [99.0 * ratio, 100.0 * ratio, 104.0 * ratio], "numpy": [99.0, 100.0, 104.0]}
        return {**dataclasses.asdict(case), "device": "cpu", "steps_per_second": rates}

    return run


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "guard.json"
    guard.main(["--write"], measured(80.0), path)
    return path


def test_every_shipped_environment_is_guarded():
    assert [case.env for case in guard.cases()] == [env for env in jaxvrp.registered() if subject_of(env).labels]
    assert set(guard.kept_ratios(guard.KEPT)) == {
        f"{case.env} {case.size} batch {case.batch}" for case in guard.cases()
    }


@pytest.mark.parametrize("ratio", [800.0, 80.0, 21.0])
def test_what_is_about_as_fast_passes(ratio, kept, capsys):
    guard.main([], measured(ratio), kept)
    assert f"{ratio:.3g}x" in capsys.readouterr().out


def test_what_is_much_slower_is_named(kept, capsys):
    with pytest.raises(SystemExit) as stop:
        guard.main([], measured(19.0), kept)
    assert stop.value.code == 1
    assert "much slower than they were: darp (6, 2) batch 64, dispatch" in capsys.readouterr().out


def test_what_cannot_be_compared_is_one_line(kept, monkeypatch):
    monkeypatch.setattr(guard, "measure_apart", lambda case, variables: {"error": "exit status 1: out of luck"})
    with pytest.raises(UserError, match=r"^darp cannot be measured: exit status 1: out of luck$"):
        guard.main([], kept=kept)
    result = json.loads(kept.read_text())
    kept.write_text(json.dumps({**result, "cases": result["cases"][:1]}))
    with pytest.raises(UserError, match=r"has no row 'dispatch .*'; run python -m benchmarks.guard --write"):
        guard.main([], measured(80.0), kept)
    with pytest.raises(UserError, match="cannot read"):
        guard.main([], measured(80.0), kept.with_name("missing.json"))

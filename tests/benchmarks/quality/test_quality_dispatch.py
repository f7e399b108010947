"""The table of requests that arrive: every player on the same days, and the rule that is tuned on other ones."""

import json

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks.quality import dispatch
from benchmarks.quality.__main__ import main
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor

SMALL = ["--env.max_requests", "12", "--env.expected_requests", "10", "--env.num_vehicles", "2", "--env.max_stops", "4"]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["same_day", "ride_pooling"])
def test_the_table_from_the_command_line(scenario, tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--days", "3", "--replan_rounds", "2", "--hindsight_days", "2", "--futures", "2x3"]
    rounds = ["--hindsight_rounds", "20", "--out", str(out)]
    main(["--env", "dispatch", "--env.scenario", scenario, *SMALL, *options, *rounds])
    (table,) = json.loads(out.read_text())["tables"].values()
    rows = {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert ("cover" in rows) == ("threshold" not in rows) == (scenario == "ride_pooling")
    assert {"accept", "replan (2 rounds)", "hindsight (20 rounds)"} <= set(rows)
    assert any(name.endswith(", 2 futures of 3 requests") for name in rows)
    assert rows["accept"]["days"] == "3" and rows["hindsight (20 rounds)"]["days"] == "2"
    assert rows["replan (2 rounds)"]["above replan"] == "+0.0 ± 0.0 %"
    assert "against that of replan (2 rounds)" in capsys.readouterr().out


def test_a_gap_is_that_of_the_same_days():
    env = jaxvrp.make("dispatch", scenario="same_day", max_requests=6, expected_requests=5.0, num_drones=1)
    field = dispatch.Field(env, 3)
    replan = field.act(AcceptActor(), 3)
    twice = replan._replace(value=2 * replan.value[:2])
    row = dict(zip(dispatch.HEAD, field.row("twice", twice, replan), strict=True))
    assert row["above replan"].startswith("+100.0") and row["days"] == "2"
    share = 200 * replan.value[:2].sum() / field.offered[:2].sum()
    assert row["value share"] == f"{share:.1f} %"
    load, value = np.asarray(field.instances.load), np.asarray(field.instances.value)
    np.testing.assert_allclose(field.offered, (value * (load > 0)).sum(axis=1))


def test_another_future_has_the_same_past():
    env = jaxvrp.make("dispatch", scenario="ride_pooling", max_requests=12, expected_requests=10.0, num_vehicles=2)
    state, timestep = jax.jit(env.reset)(jax.random.key(0))
    action = {role: np.zeros(mask.shape[0], np.int32) for role, mask in timestep.action_mask.items()}
    step = jax.jit(env.step)
    for _ in range(4):
        state, _ = step(state, action)
    drawn = jax.jit(dispatch.another_future, static_argnums=0)(env, state, jax.random.key(1)).prepared
    arrival, past = np.asarray(drawn.instance.arrival), 5
    np.testing.assert_array_equal(drawn.table[:past], state.prepared.table[:past])
    later = arrival[past : int(drawn.num_requests)]
    assert later.size and (later > state.now).all() and (np.diff(later) >= 0).all() and np.isfinite(later).all()
    assert not np.isin(later, state.prepared.instance.arrival).any()


@pytest.mark.slow
def test_fleets_are_planned_again_from_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(dispatch, "OPEN", (2, 6))
    monkeypatch.setattr(dispatch, "ROUNDS", (5, 20))
    monkeypatch.setattr(dispatch, "LONG", 0.01)
    main(["--env", "dispatch", "--env.scenario", "same_day", *SMALL, "--fleets", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[:1].isdecimal()] == ["0", "5", "20", "0.01"]

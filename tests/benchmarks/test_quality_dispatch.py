"""The table of requests that arrive: every player on the same days, and the rule that is tuned on other ones."""

import json

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
    options = ["--days", "3", "--replan_rounds", "2", "--rollout_days", "2", "--hindsight_days", "2"]
    rounds = ["--hindsight_rounds", "20", "--samples", "1", "--out", str(out)]
    main(["--env", "dispatch", "--env.scenario", scenario, *SMALL, *options, *rounds])
    (table,) = json.loads(out.read_text())["tables"].values()
    rows = {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert ("relocate" in rows) == (scenario == "ride_pooling")
    assert {"accept", "threshold", "replan (2 rounds)", "rollout (1 futures)", "hindsight (20 rounds)"} <= set(rows)
    assert rows["accept"]["days"] == "3" and rows["hindsight (20 rounds)"]["days"] == "2"
    assert rows["replan (2 rounds)"]["above replan"] == "+0.0 ± +0.0 %"
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

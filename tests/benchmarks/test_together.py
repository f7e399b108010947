"""`benchmarks.together`: plans of a batch beside PyVRP's, and mistakes. No figure is judged."""

import importlib.util
import json

import pytest

from benchmarks import together
from jaxvrp.io.command_line import UserError


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyvrp") is None, reason="PyVRP is not installed: jaxvrp[solvers]")
def test_both_plan_the_same_instances(tmp_path):
    """Two requests for one vehicle: both find the best plan."""
    out = tmp_path / "out.json"
    words = ["--count", "3", "--num_nodes", "4", "--num_agents", "1", "--compared", "2", "--solver_seconds", "0.1"]
    together.main([*words, "--out", str(out)])
    written = json.loads(out.read_text())
    head, *rows = written["table"]
    table = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["instances"] for row in table] == ["3", "2", "2"]
    assert [row["against PyVRP"].lstrip("+-") for row in table[1:]] == ["0.00%", "0.00%"]
    assert written["curve"][-1][0] == written["seconds"] >= 0.3


def test_a_mistake_is_one_line():
    with pytest.raises(UserError, match="--compared is 4, but there are 3 instances; lower it"):
        together.main(["--count", "3", "--compared", "4"])

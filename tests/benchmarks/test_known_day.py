"""The comparison of known days: both players' plans pass the checker, which the command calls."""

import json

import pytest

from benchmarks import known_day


def test_both_serve_all_and_the_checker_agrees(tmp_path, capsys):
    pytest.importorskip("pyvrp", reason="PyVRP is an extra: pip install 'jaxvrp[solvers]'")
    path = tmp_path / "result.json"
    known_day.main(["--sizes", "8", "--days", "1", "--seconds", "0.3", "--out", str(path)])
    records = json.loads(path.read_text())["records"]
    assert [(each["customers"], each["kind"]) for each in records] == [(8, kind) for kind in known_day.KINDS]
    for record in records:
        (left_out, search_minutes), (pyvrp_left_out, pyvrp_minutes) = record["search"], record["PyVRP"]
        assert left_out == pyvrp_left_out == 0
        assert search_minutes == pytest.approx(pyvrp_minutes, rel=1e-3), "both find the best plan of eight customers"
    assert "minutes driven" in capsys.readouterr().out

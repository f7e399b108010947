"""The tutorials' named examples run as they stand there; `test_docs.py` runs the others."""

from __future__ import annotations

import json
import pathlib
import re
import shlex

import pytest

import jaxvrp
from train import mappo

TUTORIALS = pathlib.Path(__file__).parents[1] / "docs" / "tutorials"
SCENARIO = "train_your_scenario.md"
TINY = {
    "total_steps": 512,
    "num_envs": 8,
    "rollout_length": 16,
    "num_minibatches": 2,
    "hidden_sizes": "[8]",
    "eval_episodes": 4,
    "env.max_steps": 12,
    "num_devices": 1,
}


def example(page: str, name: str) -> str:
    """The code block under `<!-- example: NAME -->` of a tutorial."""
    block = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", (TUTORIALS / page).read_text(), re.S)
    assert block, f"{page} has no example '{name}'"
    return block[1]


@pytest.mark.slow
def test_a_scenario_of_ones_own_is_trained_without_touching_the_repository(tmp_path, monkeypatch):
    module = tmp_path / "my_package" / "my_module.py"
    module.parent.mkdir()
    module.write_text(example(SCENARIO, "my_package/my_module.py"))
    command = shlex.split(example(SCENARIO, "train it"))
    assert command[:3] == ["python", "-m", "train.mappo"]
    tiny = [word for key, value in TINY.items() for word in (f"--{key}", str(value))]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    mappo.main([*command[3:], *tiny, "--run_dir", "run"])
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(record["env/road_toll"] >= 0 for record in records)
    assert records[-1]["env/road_toll"] == records[-1]["env/truck_distance"] * 0.5
    assert {"policy", "greedy", "random"} == set(json.loads((tmp_path / "run" / "summary.json").read_text()))


@pytest.mark.slow
def test_the_scenario_passes_check_env(tmp_path, monkeypatch):
    (tmp_path / "tutorial_scenario.py").write_text(example(SCENARIO, "my_package/my_module.py"))
    monkeypatch.syspath_prepend(tmp_path)
    sizes = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 2, "max_steps": 12}
    jaxvrp.check_env(jaxvrp.make("truck_drone", scenario="tutorial_scenario:MyScenario", **sizes))

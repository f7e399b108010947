"""`benchmarks.learning`: the figures of a run of several seeds, and the table of them."""

import json

import pytest

import jaxvrp
import tests.toy_environments  # noqa: F401
from benchmarks import learning

TINY = "--num_envs 4 --rollout_length 8 --num_minibatches 2 --num_epochs 1 --num_devices 1 --hidden_sizes [8]"
WHEN = "--total_steps 64 --eval_episodes 4 --env.name toy_of_the_tests"


@pytest.mark.slow
def test_the_summary_of_every_seed_is_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "tiny.yaml"
    config.write_text("env: {name: toy_of_the_tests}\n")
    words = f"--config {config} --num_seeds 2 --out result.json {TINY} {WHEN}"
    learning.main(words.split())
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["figures"].keys() == {"policy", "random"}
    policy, random = result["figures"]["policy"]["return"], result["figures"]["random"]["return"]
    assert len(policy) == 2 and policy[0] != policy[1]
    assert isinstance(random, float)
    assert "64 steps of each of 2 seeds" in result["protocol"]["training"]
    assert list(tmp_path.iterdir()) != [] and not (tmp_path / "runs").exists()
    out = capsys.readouterr().out
    assert f"{sum(policy) / 2:.3f} ({min(policy):.3f} to {max(policy):.3f})" in out and f"{random:.3f}" in out


def test_a_table_has_mean_and_range_of_seeds_and_plain_numbers_else():
    figures = {"policy": {"return": [1.0, 2.0, 6.0], "length": [4.0, 4.0, 4.0]}, "random": {"return": -1, "length": 9}}
    assert learning.table(figures, {"return": "return", "length": "steps"}) == [
        ["player", "return", "steps"],
        ["policy", "3.000 (1.000 to 6.000)", "4.000 (4.000 to 4.000)"],
        ["random", "-1.000", "9.000"],
    ]


def test_columns_that_an_environment_does_without_are_left_out():
    env = jaxvrp.make("dispatch", scenario="same_day")
    titles = learning.titles_of(env, {"return": 1.0, "length": 12.0})
    assert "late_share" not in titles and {"return", "length"} < titles.keys()

"""`benchmarks.ablation`: every part of a suite is another training, and what came of it is kept and tabulated."""

import json

import pytest

import tests.toy_environments  # noqa: F401
from benchmarks import ablation
from jaxvrp.io.command_line import UserError
from train import ALGORITHMS, parse

TINY = "--num_envs 4 --rollout_length 8 --num_minibatches 2 --num_epochs 1 --num_devices 1 --hidden_sizes [8]"
WHEN = "--total_steps 96 --eval_episodes 4 --eval_interval 1 --env.name toy_of_the_tests"


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted(path.stem for path in ablation.SUITES.glob("*.yaml")))
def test_every_part_of_a_suite_is_another_training(suite):
    found = ablation.read_suite(suite)
    words = ["--config", found.config, *found.options]
    kind = ALGORITHMS["mappo"].config_class
    given = [ablation.replaced(words, changes) for changes in found.parts.values()]
    configs = [parse(kind, each, prog="", description="").config for each in given]
    assert all(config.num_updates % config.log_interval == 0 for config in configs)
    assert all(config not in configs[:place] for place, config in enumerate(configs))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parts: {as it is: }", "'config'; see suites/truck_drone_basic.yaml for what is needed"),
        ("config: darp\nparts: 3", "see suites/truck_drone_basic.yaml for what is needed"),
        (None, "give a path, or one of: truck_drone_basic, truck_drone_scarce, vrpd_tw"),
    ],
)
def test_a_suite_that_is_none_is_one_line(text, says, tmp_path):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=says):
        ablation.read_suite(str(path))


def test_what_is_changed_takes_the_place_of_what_was_given():
    words = "--config main --imitate_steps 40 --env.decide=events --hidden_sizes [8] --imitate greedy"
    given = words.split()
    changed = ablation.replaced(given, ["--imitate", "null", "--imitate_steps", "0", "--env.decide", "steps"])
    kept = "--config main --hidden_sizes [8]"
    assert " ".join(changed) == f"{kept} --imitate null --imitate_steps 0 --env.decide steps"
    assert ablation.replaced(given, []) == given


@pytest.mark.slow
def test_figures_of_all_are_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text("env: {name: toy_of_the_tests}\n")
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"config: tiny.yaml\noptions: {TINY} {WHEN}\nparts: {{as it is: , no bonus: --entropy_coef 0}}\n")
    ablation.main(["--suite", str(suite), "--num_seeds", "2", "--only", "no bonus", "--out", "result.json"])
    (record,) = json.loads((tmp_path / "result.json").read_text())["records"].values()
    returns = record["figures"]["return"]
    assert len(returns) == 2 and record["cpu_seconds"] > 0
    assert f"{sum(returns) / 2:.3f} ({min(returns):.3f} to {max(returns):.3f})" in capsys.readouterr().out

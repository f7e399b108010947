"""`benchmarks.ablation`: every part can be changed, and what came of it is kept, tabulated and drawn."""

import argparse
import json

import numpy as np
import pytest

import tests.toy_environments  # noqa: F401
from benchmarks import ablation
from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS
from train.running.command import command_line

TINY = "--num_envs 4 --rollout_length 8 --num_minibatches 2 --num_epochs 1 --num_devices 1 --hidden_sizes [8]"
WHEN = "--total_steps 96 --eval_episodes 4 --eval_interval 1 --env.name toy_of_the_tests"


@pytest.mark.parametrize("part", ablation.PARTS)
def test_every_part_of_the_main_job_can_be_changed(part):
    words = ["--config", "truck_drone_basic", *ablation.PARTS[part].split()]
    parse = command_line.parse
    config, whole = (
        parse(ALGORITHMS["mappo"].config_class, given, prog="", description="").config for given in (words, words[:2])
    )
    assert (config == whole) == (part == ablation.AS_IT_IS)


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted(path.stem for path in ablation.SUITES.glob("*.yaml")))
def test_every_part_of_a_suite_is_another_training(suite):
    found = ablation.read_suite(suite)
    words = ["--config", found.config, *found.options]
    configs = [ablation._config(ablation.replaced(words, changes)) for changes in found.parts.values()]
    assert all(config.num_updates % config.log_interval == 0 for config in configs)
    assert all(config not in configs[:place] for place, config in enumerate(configs))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parts: {as it is: }", "nothing is known of 'config'"),
        ("config: darp\nparts: {the weather: }", "nothing is known of 'the weather'"),
        ("config: darp\nparts: 3", "see suites/truck_drone_basic.yaml for what is needed"),
        (None, "give a path, or one of: truck_drone_basic, truck_drone_scarce, vrpd_tw"),
    ],
)
def test_a_suite_that_is_none_is_one_line(text, says, tmp_path):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=says) as error:
        ablation.read_suite(str(path))
    assert "\n" not in str(error.value)


def test_what_is_changed_takes_the_place_of_what_was_given():
    given = [
        "--config",
        "main",
        "--imitate_steps",
        "40",
        "--env.decide=events",
        "--hidden_sizes",
        "[8]",
        "--imitate",
        "greedy",
    ]
    changed = ablation.replaced(given, ["--imitate", "null", "--imitate_steps", "0", "--env.decide", "steps"])
    kept = "--config main --hidden_sizes [8]"
    assert " ".join(changed) == f"{kept} --imitate null --imitate_steps 0 --env.decide steps"
    assert ablation.replaced(given, []) == given


@pytest.mark.slow
def test_figures_and_curves_of_all_are_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "tiny.yaml"
    config.write_text("env: {name: toy_of_the_tests}\n")
    parts = ["no entropy bonus"]
    files = ["--out", "result.json", "--plot", "curves.png", "--runs", "runs"]
    words = ["--config", str(config), "--num_seeds", "2", "--only", *parts, *files, *TINY.split(), *WHEN.split()]
    ablation.main(words)
    result = json.loads((tmp_path / "result.json").read_text())
    assert list(result["records"]) == parts
    finals = []
    for record in result["records"].values():
        seconds, returns = np.transpose(record["curve"])
        assert len(seconds) == 3 and (np.diff(seconds) > 0).all() and seconds[0] > 0
        assert returns[-1] == pytest.approx(np.mean(record["figures"]["return"]))
        finals.append(returns[-1])
    out = capsys.readouterr().out
    assert all(f"{final:.3f} (" in out for final in finals)
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    # What was trained is not trained again, unless it is something else.
    monkeypatch.setattr(ablation.learning, "trained", lambda *_: pytest.fail("trained again"))
    ablation.main(words)
    assert json.loads((tmp_path / "result.json").read_text())["records"] == result["records"]
    with pytest.raises(UserError, match="holds a training with other keys; move it away, or choose other --runs"):
        ablation.main([*words, "--gamma", "0.5"])


@pytest.mark.parametrize(
    "words",
    [
        ["--only", "the weather"],
        ["--plot", "curves.gif"],
        ["--num_seeds", "0"],
        ["--suite", "darp", "--config", "darp"],
    ],
)
def test_a_mistake_is_one_line(words):
    with pytest.raises(UserError, match=words[0]) as error:
        ablation.main(words)
    assert "\n" not in str(error.value)


def test_a_folder_of_runs_may_be_moved():
    def start(path, gamma=1.0):
        return ablation._training(argparse.Namespace(start_from=path, gamma=gamma))

    assert start("here/imitation alone") == start("there/imitation alone")
    assert start("here/imitation alone") != start("here/imitation alone", gamma=0.9)
    assert start("here/imitation alone") != start("here/as it is") != start(None)

"""`stages`: one command trains several configurations, each from the policy of the one before."""

import contextlib
import functools
import io
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import tests.toy_environments  # noqa: F401
from jaxvrp.io.command_line import Interrupted, UserError
from jaxvrp.io.yaml_text import dump_yaml
from train import evaluate, export, mappo
from train.on_policy.config import PPOConfig
from train.run.checkpoint import Checkpoints
from train.run.folder import RunFolder, read_run
from train.run.metrics import MetricsWriter
from train.settings import command_line
from train.settings.stages import joined, stages_of
from train.shown import report

FILE = """
env: {name: toy_of_the_tests}
num_envs: 4
num_devices: 1
rollout_length: 8
num_minibatches: 2
num_epochs: 1
hidden_sizes: [8]
save_interval: 2
eval_interval: 1
eval_episodes: 4
logger: []
pictures: false
seed: 3
"""
FIRST = {"total_steps": 96, "actor_lr": 0.01}
SECOND = {"total_steps": 128, "gamma": 0.9, "eval_env.cut": True}

pytestmark = pytest.mark.usefixtures("programs_once")


@pytest.fixture(scope="module", autouse=True)
def undrawn():
    """No learning curves, which take a third of so small a run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("learning_curve", "save_still"):
            patch.setattr(report, name, lambda *_: None)
        yield


def written(path, *stages, **keys):
    text = FILE + dump_yaml({**keys, **({"stages": list(stages)} if stages else {})})
    path.write_text(text)
    return path


def trained(*words):
    mappo.main([str(word) for word in words])


def parsed(path, *words):
    return command_line.parse(PPOConfig, ["--config", str(path), *words], prog="train.mappo", description="").config


@pytest.fixture(scope="module")
def by_hand(programs_once, tmp_path_factory):
    """The folders of two runs, of which the second starts from the first."""
    folder = tmp_path_factory.mktemp("by_hand")
    trained("--config", written(folder / "1.yaml", **FIRST), "--run_dir", folder / "1")
    trained("--config", written(folder / "2.yaml", start_from=str(folder / "1"), **SECOND), "--run_dir", folder / "2")
    return [folder / "1", folder / "2"]


@pytest.fixture(scope="module")
def staged(programs_once, tmp_path_factory):
    """The folder of a run with the same two as its stages."""
    folder = tmp_path_factory.mktemp("staged")
    trained("--config", written(folder / "both.yaml", FIRST, SECOND), "--run_dir", folder / "run")
    return folder / "run"


def numbers(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@functools.cache
def like(folder):
    """A state of a run: its structure and shapes, which all runs of this file have."""
    return RunFolder(folder).writer.init(jax.random.key(0))


def check_same_bits(run, by_hand):
    for found, wanted in zip((run / "stages" / "1", run), by_hand, strict=True):
        for name in ("metrics.jsonl", "start.json"):
            assert (found / name).read_bytes() == (wanted / name).read_bytes()
        states = []
        for folder in (found, wanted):
            saved = Checkpoints(folder / "checkpoints", read_only=True)
            states.append(jax.tree.leaves(saved.load(like(by_hand[0]))))
        assert all(np.array_equal(*map(numbers, pair)) for pair in zip(*states, strict=True))


def test_one_command_gives_the_bits_of_two(staged, by_hand):
    check_same_bits(staged, by_hand)
    assert not list(staged.rglob(".lock"))


@pytest.mark.slow("1-3", "2-1", "2-3")
@pytest.mark.parametrize(("stage", "record"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_a_run_that_was_stopped_at_once_goes_on_bit_for_bit(stage, record, by_hand, tmp_path, monkeypatch):
    write, count = MetricsWriter.write, {1: record, 2: 3 + record}[stage]

    def write_and_stop(self, *rest):
        nonlocal count
        write(self, *rest)
        count -= 1
        if not count:
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(Interrupted) as stopped:
        patch.setattr(MetricsWriter, "write", write_and_stop)
        trained("--config", written(tmp_path / "both.yaml", FIRST, SECOND), "--run_dir", run)
    assert f"stage {stage} of 2" in str(stopped.value)
    assert str(stopped.value).endswith(f"--resume {run}")
    if stage == 1 or record == 1:
        with pytest.raises(UserError, match=r"run is not yet in its last stage; go on with --resume"):
            RunFolder(run).load("latest")
        with pytest.raises(UserError, match=r"is not yet in its last stage; leave out --total_steps$"):
            trained("--resume", run, "--total_steps", 256)
    moved = run.rename(tmp_path / "moved")
    output = io.StringIO()
    with contextlib.redirect_stderr(output):
        trained("--resume", moved)
    assert "stage 2 of 2" in output.getvalue()
    assert ("stage 1 of 2" in output.getvalue()) == (stage == 1)
    check_same_bits(moved, by_hand)


def test_a_finished_run_is_read_as_any_other_and_made_longer(staged, tmp_path):
    run = shutil.copytree(staged, tmp_path / "run")
    evaluate.main(["--run", str(run), "--episodes", "4"])
    export.main([str(run), str(tmp_path / "policy"), "--config", str(staged.parent / "both.yaml")])
    assert read_run(tmp_path / "policy") == read_run(run)
    assert RunFolder(tmp_path / "policy").load("latest").update == 4
    # An interval that stage 1 could not have.
    trained("--resume", run, "--total_steps", 256, "--log_interval", 4, "--eval_interval", 4, "--save_interval", 4)
    assert Checkpoints(run / "checkpoints", read_only=True).latest == 8


def test_its_configuration_trains_it_again(staged, tmp_path):
    found = parsed(staged / "config.yaml")
    assert found == read_run(staged).config == parsed(staged.parent / "both.yaml")
    with pytest.raises(UserError, match=r"config\.yaml is of algorithm mappo; train with .*train.mappo"):
        command_line.parse(PPOConfig, ["--config", str(staged / "config.yaml")], prog="train.ippo", description="")


def test_stages_are_what_separate_files_would_be(tmp_path):
    config = parsed(written(tmp_path / "both.yaml", FIRST, SECOND, {}, actor_lr=0.5))
    alone = [parsed(written(tmp_path / "1.yaml", **{"actor_lr": 0.5, **keys})) for keys in (FIRST, SECOND, {})]
    assert stages_of(config) == alone
    assert joined(alone) == config
    assert config.stages[-1] == {}
    assert config.stages[0] == {"total_steps": 96, "actor_lr": 0.01}
    assert joined(alone[:1]) == alone[0] == parsed(written(tmp_path / "one.yaml", FIRST, actor_lr=0.5))


def test_what_is_typed_holds_for_all_stages(tmp_path):
    both = written(tmp_path / "both.yaml", FIRST, SECOND)
    config = parsed(both, "--total_steps", "64", "--seed=9", "--env.cut", "true")
    assert [(each.total_steps, each.seed, each.env["cut"]) for each in stages_of(config)] == [(64, 9, True)] * 2
    assert [each.actor_lr for each in stages_of(config)] == [0.01, 0.001]
    typed = parsed(both, "--stages", "[{gamma: 0.5}, {}]", "--gamma", "0.8")
    assert [each.gamma for each in stages_of(typed)] == [0.5, 0.8]


def test_null_takes_a_range_out_again(tmp_path):
    ranges = {"battery_rate": [0.3, 1.2]}
    stages = [{"env.max_repeat": 2}, {"randomize.battery_rate": None, "randomize.forced_return_factor": [1.0, 1.2]}]
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump({"env": {"name": "truck_drone"}, "randomize": ranges, "stages": stages}))
    first, second = stages_of(parsed(path))
    assert (first.randomize, second.randomize) == (ranges, {"forced_return_factor": [1.0, 1.2]})
    assert (first.env["max_repeat"], second.env["max_repeat"]) == (2, parsed(path, "--stages", "[]").env["max_repeat"])


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([{}, {"gama": 0.9}], r"^unknown key 'gama' in stage 2; .*gamma"),
        ([{"env.cuts": True}, {}], r"^unknown key 'env\.cuts' in stage 1; .*env\.cut"),
        ([{}, {"run_dir": "x"}], r"^unknown key 'run_dir' in stage 2"),
        ([{}, {"gamma": 3}], r"^stage 2: gamma is 3.0; it must be >= 0 and <= 1$"),
        ([{"total_steps": "many"}], r"^stage 1: total_steps is 'many'; it must be a whole number$"),
        ([{}, {"start_from": "there"}], r"^stage 2 sets start_from, which is one for the whole run; set it beside"),
        ([{"env": {"name": "darp"}}, {}], r"^stage 1 sets env\.name, which is one for the whole run"),
        ([{}, {"stages": [{}]}], r"^stage 2 sets stages"),
        ([{}, {"env": {"cut": True}, "env.cut": True}], "stands twice"),
        ("twice", r"^stages is 'twice'; it must be a list of mappings, for example \[\{\}, \{gamma: 0\.9\}\]$"),
        ([3], r"^stages is \[3\]; it must be a list of mappings"),
    ],
)
def test_what_is_no_stage_is_one_line(stages, says, tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text(FILE + yaml.safe_dump({"stages": stages}))
    with pytest.raises(UserError, match=says) as refused:
        parsed(path)
    assert "\n" not in str(refused.value)


def test_a_stage_that_cannot_follow_is_refused_before_anything_is_trained(tmp_path):
    path = written(tmp_path / "both.yaml", {}, {"hidden_sizes": [4]})
    with pytest.raises(UserError, match=r"^stage 2 begins with stage 1: its networks are not those of this run; take"):
        trained("--config", path, "--run_dir", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_stopped_before_its_first_checkpoint_still_starts_from_another(by_hand, tmp_path, monkeypatch):
    run, short = tmp_path / "run", {"total_steps": 32}
    path = written(tmp_path / "both.yaml", short, short, start_from=str(by_hand[0]))
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(MetricsWriter, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        trained("--config", path, "--run_dir", run)
    begun = (run / "stages" / "1" / "start.json").read_bytes()
    trained("--resume", run, "--trust")
    assert (run / "stages" / "1" / "start.json").read_bytes() == begun


@pytest.mark.slow
def test_the_first_stage_may_start_from_another_run(by_hand, tmp_path):
    short = {"total_steps": 32}
    path = written(tmp_path / "both.yaml", short, short, start_from=str(by_hand[0]))
    trained("--config", path, "--run_dir", tmp_path / "run")
    for start, run in ((by_hand[0], "1"), (tmp_path / "1", "2")):
        config = written(tmp_path / "one.yaml", **short)
        trained("--config", config, "--start_from", start, "--run_dir", tmp_path / run)
    check_same_bits(tmp_path / "run", [tmp_path / "1", tmp_path / "2"])

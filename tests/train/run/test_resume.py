"""A run goes on only as the run that wrote its checkpoint, but for the few keys that a resume may change."""

import dataclasses
import re
import shutil

import jax.numpy as jnp
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxvrp.io.command_line import UserError
from train.commands import launch
from train.run.checkpoint import Checkpoints
from train.run.folder import read_run, write_configuration
from train.run.resume import CHANGEABLE, Change, RecordedRun, check_same, logged_updates, resumed

DONE = 20
"""Updates that are done, of 48 steps each."""

STATE = {"weights": jnp.zeros(3, jnp.float32)}


@pytest.fixture(scope="module")
def recorded(config):
    settings = config(num_envs=4, rollout_length=12, total_steps=48 * 40, log_interval=2, eval_interval=4)
    return RecordedRun(dataclasses.replace(settings, save_interval=4), "mappo")


@pytest.fixture(scope="module")
def written(recorded, tmp_path_factory):
    """A run folder with a checkpoint of update 20, that nobody trained; tests take a copy."""
    folder = tmp_path_factory.mktemp("written")
    write_configuration(folder, recorded)
    Checkpoints(folder / "checkpoints").save(DONE, STATE, None, recorded.values)
    return folder


@pytest.fixture
def run(written, tmp_path):
    """A copy of `written`."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def go_on(run, words="", algorithm="mappo"):
    """What `python -m train.mappo --resume RUN` would train."""
    asked = launch.command_line.parse(
        type(read_run(run).config), ["--resume", str(run), *words.split()], prog="train.mappo", description=""
    )
    return launch.run_to_train(asked, algorithm)


def refused(run, words=""):
    """The one line of the refusal; nothing is written."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(UserError) as mistake:
        go_on(run, words)
    assert "\n" not in str(mistake.value)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return str(mistake.value)


def edit(run, **changes):
    """Change keys of `config.yaml` by hand; `env_cut` is `cut` of the environment, None takes a key out."""
    path = run / "config.yaml"
    values = yaml.safe_load(path.read_text())
    for name, value in changes.items():
        place = values["env"] if name.startswith("env_") else values
        place[name.removeprefix("env_")] = value
        if value is None:
            del place[name.removeprefix("env_")]
    path.write_text(yaml.safe_dump(values))


def test_an_unchanged_run_goes_on(run, recorded):
    assert go_on(run) == recorded
    edit(run, eval_env=None, gae_lambda=None)  # as they are by default
    assert go_on(run) == recorded


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gamma": 0.5}, "gamma is 0.5, in the checkpoint 0.99;"),
        ({"seed": 1}, "seed is 1, in the checkpoint 0;"),
        ({"actor_lr": 0.01}, "actor_lr is 0.01, in the checkpoint 0.001;"),
        ({"activation": "tanh"}, "activation is tanh, in the checkpoint relu;"),
        ({"rollout_length": 24}, "rollout_length is 24, in the checkpoint 12;"),
        ({"hidden_sizes": [8, 8]}, r"hidden_sizes is \[8, 8\], in the checkpoint \[8\];"),
        ({"eval_episodes": 5}, "eval_episodes is 5, in the checkpoint 4;"),
        ({"env_cut": True}, "env.cut is true, in the checkpoint false;"),
        ({"env_cut": None}, "env.cut is not there, in the checkpoint false;"),
        (
            {"env": {"name": "truck_drone"}},
            "env.name is truck_drone, in the checkpoint toy_of_the_tests, env.cut is not",
        ),
        ({"hidden_sizes": None, "seed": 3}, r"seed is 3, in the checkpoint 0, hidden_sizes is \[64, 64\], .* \[8\];"),
        (
            {"total_steps": 960},
            r"total_steps is 960, .* 1920; undo that in config\.yaml \(.* takes --total_steps 960\)$",
        ),
        ({"total_steps": 9600}, "total_steps is 9600, in the checkpoint 1920;"),
        ({"save_interval": None}, "save_interval is 10, in the checkpoint 4;"),
    ],
)
def test_a_configuration_that_was_changed_by_hand_is_refused(changes, says, run):
    edit(run, **changes)
    assert re.search(rf"config\.yaml is not the configuration of the checkpoint: {says}", refused(run))


@pytest.mark.slow
def test_a_file_that_was_cut_short_goes_on_as_before_or_not_at_all(run, recorded):
    path = run / "config.yaml"
    whole, refusals = path.read_bytes(), 0
    for length in range(0, len(whole), 9):
        path.write_bytes(whole[:length])
        try:
            assert go_on(run) == recorded
        except UserError as refusal:
            refusals += 1
            assert str(path) in str(refusal) or "is no run folder" in str(refusal)
    assert refusals > len(whole) / 9 / 2


def test_a_resume_takes_the_total_and_the_intervals(run, recorded):
    words = "--total_steps 3840 --log_interval 5 --eval_interval=10 --save_interval 20"
    after = {"total_steps": 3840, "log_interval": 5, "eval_interval": 10, "save_interval": 20}
    changed = go_on(run, words)
    assert changed.config == dataclasses.replace(recorded.config, **after)
    before = {name: getattr(recorded.config, name) for name in CHANGEABLE if name in after}
    assert changed.changes == (Change(DONE, before, after),)
    assert go_on(run, "--total_steps 1920") == recorded, "as it is already"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "--gamma 0.9",
            r"leave out --gamma; it takes total_steps, log_interval, eval_interval, save_interval, logger, pictures$",
        ),
        ("--seed 3 --total_steps 99 --env.cut true", "leave out --seed, --env.cut; it takes"),
        ("--eval_episodes 3", "leave out --eval_episodes"),
        ("--run_dir there", "leave out --run_dir"),
        ("--env.num_drone 3", "leave out --env.num_drone;"),
        # 960 steps are done; one more than this would be rounded up to as many, since chunks are of two updates.
        ("--total_steps 864", "total_steps is 864, but 960 steps are done; take 960 or more"),
        ("--total_steps 0", "total_steps is 0; it must be >= 1"),
        ("--total_steps many", "total_steps is 'many'; it must be a whole number"),
        ("--log_interval 3", "log_interval is 3, which does not divide the 20 updates that are done; take 2"),
    ],
)
def test_what_a_resume_does_not_take(words, says, run):
    assert re.search(says, refused(run, words))


def test_an_interval_that_changes_the_number_of_updates_needs_a_total(run, recorded):
    first = resumed(recorded, {"total_steps": 48 * 50}, DONE)
    write_configuration(run, first)
    says = "log_interval is 20, with which the run has 60 updates, not 50; leave it out, or give total_steps as well"
    assert refused(run, "--log_interval 20 --eval_interval 20 --save_interval 20") == says
    assert refused(run, "--log_interval 19").endswith("take 10")
    assert go_on(run, "--log_interval 10").config.num_updates == 50
    assert go_on(run, "--log_interval 20 --total_steps 2400").config.num_updates == 60


def test_a_run_may_end_where_it_is(run):
    assert go_on(run, "--total_steps 960").config.num_updates == DONE


def test_changes_are_recorded_and_do_not_break_later_resumes(run, recorded):
    """Each time the process dies before the next checkpoint, which still holds the first configuration."""
    for total, interval in ((3840, 4), (2880, 8), (5760, 8)):
        changed = go_on(run, f"--total_steps {total} --save_interval {interval}")
        write_configuration(run, changed)
        assert read_run(run) == changed
        assert go_on(run) == changed
        check_same(changed, recorded.values, run / "config.yaml")
    assert [change.after for change in changed.changes] == [
        {"total_steps": 3840},
        {"total_steps": 2880, "save_interval": 8},
        {"total_steps": 5760},
    ]
    Checkpoints(run / "checkpoints").save(24, STATE, None, changed.values)
    assert go_on(run) == changed
    later = go_on(run, "--total_steps 9600")
    assert later.changes == (*changed.changes, Change(24, {"total_steps": 5760}, {"total_steps": 9600}))
    edit(run, gamma=0.5)
    assert "gamma is 0.5, in the checkpoint 0.99; undo" in refused(run)


def test_an_older_checkpoint_than_the_changes_serves(run, recorded):
    first = resumed(recorded, {"total_steps": 3840}, DONE)
    write_configuration(run, first)
    Checkpoints(run / "checkpoints").save(24, STATE, None, first.values)
    write_configuration(run, resumed(first, {"total_steps": 5760}, 24))
    (run / "checkpoints" / "24").rename(run / "damaged")
    Checkpoints(run / "checkpoints").save(DONE, STATE, None, recorded.values)
    assert go_on(run).config.total_steps == 5760


TAMPERED = {
    "a total that no resume gave": lambda values: values.update(total_steps=2000),
    "another key": lambda values: values["changes"].append(
        {"update": 20, "before": {"gamma": 1}, "after": {"gamma": 0.9}}
    ),
    "another past": lambda values: values["changes"][0].update(after={"total_steps": 5}),
    "half a change": lambda values: values["changes"][0].pop("before"),
    "no list": lambda values: values.update(changes=5),
    "no mapping": lambda values: values.update(changes=["more"]),
    "no values": lambda values: values["changes"][0].update(before=3, after=3),
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_changes_that_no_resume_made_are_refused(tamper, run):
    write_configuration(run, go_on(run, "--total_steps 3840"))
    path = run / "config.yaml"
    values = yaml.safe_load(path.read_text())
    tamper(values)
    path.write_text(yaml.safe_dump(values))
    assert re.search(r"config\.yaml: changes is not what resumes have changed", refused(run))


def test_a_checkpoint_from_before_a_key_is_compared_with_its_default(run, recorded):
    saved = dict(recorded.values)
    assert saved.pop("value_norm") is True
    check_same(recorded, saved, run / "config.yaml")
    other = RecordedRun(dataclasses.replace(recorded.config, value_norm=False), "mappo")
    with pytest.raises(UserError, match="value_norm is false, in the checkpoint true"):
        check_same(other, saved, run / "config.yaml")


def test_a_checkpoint_of_another_algorithm_is_refused(run, recorded):
    with pytest.raises(UserError, match="algorithm is mappo, in the checkpoint ippo"):
        check_same(recorded, {**recorded.values, "algorithm": "ippo"}, run / "config.yaml")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_which_updates_have_a_record(recorded, data):
    """Against a run that is played: every resume goes on from some checkpoint, and may log in another interval."""
    run, logged, update = recorded, [], 0
    for _ in range(data.draw(st.integers(1, 5))):
        interval = run.config.log_interval
        length = data.draw(st.integers(0, 4)) * interval
        logged = [
            *(number for number in logged if number <= update),
            *range(update + interval, update + length + 1, interval),
        ]
        update += length
        assert logged_updates(run, update) == logged
        divisors = [number for number in range(1, update + 1) if update % number == 0] or [interval]
        wanted = data.draw(st.sampled_from(divisors))
        if wanted != interval and logged:
            update = data.draw(st.sampled_from([number for number in logged if number % wanted == 0]))
        run = resumed(run, {"log_interval": wanted, "total_steps": 48 * 1000}, update)

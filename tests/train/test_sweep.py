"""Sweeps: what is refused, and that every trial is trained once, whatever becomes of the workers.

Most trainings are replaced by a program that writes metrics alone: its return is high where `actor_lr` is near 1e-3.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

pytest.importorskip("optuna", reason="Optuna is not installed")

from jaxvrp.io.command_line import Interrupted, UserError
from jaxvrp.io.yaml_text import read_yaml
from train import sweep

RUN = """
import json, math, pathlib, sys, time

def train(words):
    folder = pathlib.Path(words["--run_dir"])
    rate = float(words["--actor_lr"])
    if rate > 0.05:
        folder.with_suffix(".log").write_text("error: it is refused")
        return 2
    folder.mkdir()
    with folder.with_suffix(".starts").open("a") as file:
        file.write("x")
    for update in (1, 2):
        record = {"update": update, "env_steps": 10 * update, "eval/return": -abs(math.log10(rate) + 3)}
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\\n")
        time.sleep(PAUSE)
    return 0

for line in sys.stdin:
    _, *words = json.loads(line)
    sys.stdout.write(f"{train(dict(zip(words[::2], words[1::2])))}\\n")
    sys.stdout.flush()
"""

WORKER = """
import sys
from train import sweep
sweep.POLL = 0.05
sweep.command_of = lambda algorithm: [sys.executable, sys.argv[1]]
sweep.main(sys.argv[2:])
"""


@pytest.fixture
def files(tmp_path):
    """A space, a stand-in for trainings, and the words of a sweep."""
    (tmp_path / "space.yaml").write_text("actor_lr: {low: 1e-4, high: 1e-2, log: true}\n")
    (tmp_path / "run.py").write_text(RUN.replace("PAUSE", "0"))
    return tmp_path


def words(folder, trials, *more):
    space = str(folder / "space.yaml")
    return [
        "--config",
        "truck_drone_basic",
        "--space",
        space,
        "--out",
        str(folder / "out"),
        "--trials",
        str(trials),
        *more,
    ]


@pytest.fixture
def stand_in(files, monkeypatch):
    monkeypatch.setattr(sweep, "command_of", lambda algorithm: [sys.executable, str(files / "run.py")])
    monkeypatch.setattr(sweep, "POLL", 0.02)
    return files


def table(folder):
    return [line.split(",") for line in (folder / "out" / "trials.csv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "names no key"),
        ("actor_lr: 3", "actor_lr is 3; write"),
        ("actor_lr: {low: 1}", "actor_lr has low; write"),
        ("actor_lr: {low: 1, high: 0}", "actor_lr: .*low"),
        ("actor_lr: {low: a, high: 1}", "actor_lr: low is 'a', which is no number; write"),
        ("actor_lr: {low: 0.1, high: 1, step: true}", "actor_lr: step is True, which is no number; write"),
        ("actor_lr: {low: 0.0, high: 1.0, log: true}", "actor_lr: .*low"),
        ("actor_lr: {choices: 3}", "actor_lr has choices; write"),
        ("actor_rl: {low: 0.1, high: 1.0}", "unknown key 'actor_rl' in .*space.yaml; .*actor_lr"),
        ("gamma: {low: 0.5, high: 1.5}", "gamma is 1.5"),
        ("resume: {choices: [a, b]}", "resume is no key of a configuration"),
        ("network: {choices: [mlp, mpl]}", "network is 'mpl'"),
    ],
)
def test_a_space_that_is_none_is_refused_in_one_line(files, content, message):
    (files / "space.yaml").write_text(content)
    with pytest.raises(UserError, match=message):
        sweep.main(words(files, 2))
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--actor_lr", "1e-3"], "--actor_lr is fixed, and in"),
        (["--run_dir", "x"], "--run_dir is of one run"),
        (["--gamme", "1"], "unknown key 'gamme'"),
        (["--storage", "nosuch://x"], "cannot open --storage nosuch"),
        (["--storage", "mysql://user@host/x"], "cannot open --storage mysql.*: No module named 'MySQLdb'; mend that"),
        (["--trials", "0"], "given twice"),
    ],
)
def test_a_command_that_is_none_is_refused_in_one_line(files, more, message):
    with pytest.raises(UserError, match=message):
        sweep.main(words(files, 2, *more))


def test_every_trial_is_trained_once_and_more_can_follow(stand_in, capsys):
    sweep.main(words(stand_in, 4))
    first = table(stand_in)
    assert [row[1] for row in first] == ["complete"] * 4
    returns = [float(row[2]) for row in first]
    assert returns == sorted(returns, reverse=True)
    assert {"history.png", "keys.png"} <= {path.name for path in (stand_in / "out").iterdir()}
    sweep.main(words(stand_in, 4))
    assert table(stand_in) == first
    sweep.main(words(stand_in, 6))
    assert {row[0] for row in table(stand_in)} == {f"trial_000{number}" for number in range(6)}
    assert all(path.read_text() == "x" for path in (stand_in / "out").glob("*.starts"))
    assert "trial_0000" in capsys.readouterr().out


def test_the_database_of_a_folder_of_any_name_lies_in_it(stand_in):
    command = words(stand_in, 1)
    out = command[command.index("--out") + 1] = str(stand_in / "a?b %41#[x]\\é")
    sweep.main(command)
    assert {"sweep.db", "trial_0000"} <= {path.name for path in pathlib.Path(out).iterdir()}
    assert sorted(path.name for path in stand_in.iterdir()) == [pathlib.Path(out).name, "run.py", "space.yaml"]


def test_trials_depend_on_the_seed_of_the_sampler_alone(stand_in):
    tables = []
    for seed in ("3", "3", "4"):
        sweep.main(words(stand_in, 3, "--sampler_seed", seed))
        tables.append(sorted(table(stand_in)))
        (stand_in / "out").rename(stand_in / f"out_{len(tables)}")
    assert tables[0] == tables[1] != tables[2]


def test_the_seed_is_that_of_the_trainings(stand_in, monkeypatch):
    begun = []
    begin = sweep.Trainings.begin
    monkeypatch.setattr(
        sweep.Trainings, "begin", lambda self, words, log: begun.append(words) or begin(self, words, log)
    )
    sweep.main(words(stand_in, 2, "--seed", "7"))
    assert [each[each.index("--seed") + 1] for each in begun] == ["7", "7"]


def test_the_table_in_a_file_has_all_digits(stand_in, capsys):
    sweep.main(words(stand_in, 1))
    ((_, _, value, rate, _),) = table(stand_in)
    assert float(value) == -abs(math.log10(float(rate)) + 3)
    assert f"{float(value):.3f}  {float(rate):.4g}" in " ".join(capsys.readouterr().out.split("\n"))


def test_a_refused_trial_has_failed_and_the_sweep_goes_on(stand_in, capsys):
    (stand_in / "space.yaml").write_text("actor_lr: {choices: [0.1, 0.001]}\n")
    sweep.main(words(stand_in, 8))
    states = [row[1] for row in table(stand_in)]
    assert len(states) == 8
    assert set(states) == {"complete", "fail"}
    assert "failed: error: it is refused" in capsys.readouterr().out


def test_a_trial_without_a_return_has_failed(stand_in, capsys):
    (stand_in / "run.py").write_text(RUN.replace("PAUSE", "0").replace("-abs(math.log10(rate) + 3)", "math.nan"))
    sweep.main(words(stand_in, 2))
    assert [row[:3] for row in table(stand_in)] == [["trial_0000", "fail", ""], ["trial_0001", "fail", ""]]
    assert "trial_0001 failed: the evaluated return is no number" in capsys.readouterr().out


def test_a_sweep_with_other_settings_is_refused(stand_in):
    sweep.main(words(stand_in, 1))
    with pytest.raises(UserError, match="is a sweep with other typed keys; take another --out"):
        sweep.main(words(stand_in, 1, "--gamma", "0.9"))
    (stand_in / "space.yaml").write_text("actor_lr: {low: 1e-5, high: 1e-2, log: true}\n")
    with pytest.raises(UserError, match="is a sweep with another space"):
        sweep.main(words(stand_in, 1))


def test_a_trial_below_the_median_is_pruned(stand_in, capsys):
    (stand_in / "run.py").write_text(RUN.replace("PAUSE", "0.25"))
    (stand_in / "space.yaml").write_text("actor_lr: {choices: [0.001, 0.0001]}\n")
    sweep.main(words(stand_in, 10))
    pruned = [row for row in table(stand_in) if row[1] == "pruned"]
    assert pruned
    printed = capsys.readouterr().out
    assert all(f"{row[0]}: pruned after " in printed for row in pruned)
    assert all(row[3] == "0.0001" for row in pruned)


ASK = """
import sys, time
from train import sweep
study = sweep._connected(sys.argv[1], "all", 60)
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))  # all at once
print(*(study.ask().number for _ in range(20)))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*experimental")  # of Optuna; the command ignores it, too
def test_no_two_workers_take_up_the_same_waiting_trial(tmp_path):
    url = f"sqlite:///{tmp_path / 'sweep.db'}"
    study = sweep._connected(url, "all", 60)
    for number in range(40):
        study.enqueue_trial({"x": number})
    command = [sys.executable, "-c", ASK, url, str(time.time() + 5)]
    root = pathlib.Path(sweep.__file__).parents[1]
    workers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    taken = [number for worker in workers for number in worker.communicate(timeout=300)[0].split()]
    assert len(taken) == len(set(taken)) == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*experimental", "ignore:Heartbeat of storage")
def test_a_worker_that_was_killed_before_its_first_sign_of_life_loses_no_trial(stand_in):
    sweep.main(words(stand_in, 1, "--heartbeat", "1"))
    study = sweep._connected(f"sqlite:///{stand_in / 'out' / 'sweep.db'}", "out", 1)
    study.ask()
    sweep.main(words(stand_in, 2, "--heartbeat", "1"))
    assert sorted(row[1] for row in table(stand_in)) == ["complete", "complete", "taken up by 2"]


def test_a_signal_stops_where_that_is_checked():
    stop = sweep.Stop()
    stop.check()
    stop.request(15, None)
    with pytest.raises(sweep.StoppedError):
        stop.check()


def test_killed_workers_lose_no_trial_and_count_none_twice(files):
    (files / "run.py").write_text(RUN.replace("PAUSE", "0.7"))
    command = [sys.executable, "-c", WORKER, str(files / "run.py"), *words(files, 5, "--heartbeat", "1")]
    root = pathlib.Path(sweep.__file__).parents[1]

    def begin():
        return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    killed, interrupted = begin(), begin()
    deadline = time.time() + 300
    while len(list((files / "out").glob("*.starts"))) < 3 and time.time() < deadline:
        time.sleep(0.05)
    assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    interrupted.send_signal(signal.SIGTERM)
    assert "go on with the same command" in interrupted.communicate(timeout=300)[0]
    killed.communicate(timeout=300)
    last = begin()
    output = last.communicate(timeout=300)[0]
    assert last.returncode == 0, output
    rows = table(files)
    complete = [row for row in rows if row[1] == "complete"]
    assert len(complete) == len({row[0] for row in complete}) == 5
    assert sorted(int(row[-1]) for row in rows) == list(range(len(rows)))
    assert all(row[1] == "surplus" or row[1].startswith("taken up by ") for row in rows if row not in complete)


class Killed(BaseException):
    """The end of a worker as by `kill -9`: Optuna notes nothing."""


STAGES = {
    "before its run has a name": (sweep, "train_trial"),
    "before its keys are chosen": (sweep, "_suggest"),
    "while it waits for its folder": (sweep, "_wait_until_free"),
    "before its run begins": (sweep.Trainings, "begin"),
    "while it is trained": (sweep.Trainings, "status"),
    "when it was trained": (sweep, "evaluations"),
    "before its return is told": (sweep, "_shown"),
}


def test_a_worker_that_is_killed_at_any_stage_of_a_trial_loses_no_number(stand_in, monkeypatch, capsys):
    import optuna

    def kill(*_):
        raise Killed

    def killed(owner, name):
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(owner, name, kill)
            if name == "status":
                patched.setattr(sweep.Trainings, "stop", lambda self: None)
            sweep.main(command)

    number = len(STAGES) + 1
    command = words(stand_in, number)
    for owner, name in STAGES.values():
        killed(owner, name)
    with sqlite3.connect(stand_in / "out" / "sweep.db") as database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = '2000-01-01 00:00:00'")
    killed(optuna.Study, "add_trial")
    capsys.readouterr()
    sweep.main(command)
    printed, rows = capsys.readouterr().out, table(stand_in)
    assert sorted(int(row[-1]) for row in rows) == list(range(len(rows))), "every number"
    ended = [row for row in rows if row[1] in ("complete", "pruned")]
    assert len({row[0] for row in ended}) == len(ended) == number, "every run once"
    lost = {row[-1]: row[1] for row in rows if row not in ended}
    assert lost.keys() == {str(each) for each in range(len(STAGES))}
    after = {row[-1]: row[0] for row in ended}
    for each, end in lost.items():
        (successor,) = re.fullmatch(r"taken up by (\d+)", end).groups()
        assert after[successor] == f"trial_000{each}"
        assert f"trial_000{each}: the worker of trial {each} is gone, trial {successor} goes on with it" in printed


def test_a_full_disk_ends_the_sweep_and_fails_no_trial(stand_in, monkeypatch):
    (stand_in / "run.py").write_text(RUN.replace("PAUSE", "0").replace("rate > 0.05", "True"))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(sweep, "try_to_write", lambda path: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
        sweep.main(words(stand_in, 1))
    (stand_in / "run.py").write_text(RUN.replace("PAUSE", "0"))
    sweep.main(words(stand_in, 1))
    assert [(row[0], row[1]) for row in table(stand_in)] == [
        ("trial_0000", "complete"),
        ("trial_0000", "taken up by 1"),
    ]


@pytest.mark.parametrize("is_of_a_trial", [False, True])
def test_a_database_that_cannot_be_written_is_one_line(stand_in, is_of_a_trial, monkeypatch):
    import optuna

    def full(*_):
        raise optuna.exceptions.StorageInternalError("the data are too long") from OSError("the disk is full\nmore")

    monkeypatch.setattr(optuna.Trial if is_of_a_trial else optuna.Study, "set_user_attr", full)
    with pytest.raises(UserError, match=r"^cannot use --storage: the disk is full; mend that, then the same command"):
        sweep.main(words(stand_in, 1))


def test_a_trial_that_is_interrupted_before_its_run_begins_is_taken_up_first(stand_in, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sweep, "_suggest", lambda *_: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(Interrupted):
            sweep.main(words(stand_in, 2))
    assert not list((stand_in / "out").glob("*.starts"))
    sweep.main(words(stand_in, 2))
    assert [(row[0], row[1], row[-1]) for row in sorted(table(stand_in))] == [
        ("trial_0000", "complete", "1"),
        ("trial_0000", "taken up by 1", "0"),
        ("trial_0002", "complete", "2"),
    ]


TINY = {
    "network": "mlp",
    "hidden_sizes": "[8]",
    "imitate": "null",
    "imitate_steps": 0,
    "imitate_coef": 0,
    "total_steps": 2048,
    "num_envs": 8,
    "rollout_length": 16,
    "num_minibatches": 2,
    "log_interval": 1,
    "eval_interval": 1,
    "save_interval": 1,
    "eval_episodes": 4,
    "env.max_steps": 12,
    "num_devices": 1,
    "logger": "[]",
    "pictures": "false",
}


@pytest.mark.slow
def test_the_run_of_a_killed_worker_goes_on_bit_for_bit_and_the_next_one_is_what_it_is_alone(files):
    (files / "space.yaml").write_text("actor_lr: {low: 1e-3, high: 2e-3}\n")
    keys = [word for key, value in TINY.items() for word in (f"--{key}", str(value))]
    root, out = pathlib.Path(sweep.__file__).parents[1], files / "out"
    command = [sys.executable, "-m", "train.sweep", *words(files, 2, "--heartbeat", "1"), *keys]
    killed = subprocess.Popen(command, cwd=root, start_new_session=True)
    deadline = time.time() + 300
    while not list(out.glob("trial_0000/checkpoints/[0-9]*")) and time.time() < deadline:
        time.sleep(0.05)
    subprocess.run(["kill", "-9", "--", f"-{killed.pid}"], check=True)
    killed.wait()
    again = subprocess.run(command, cwd=root, check=True, timeout=300, capture_output=True, text=True)
    assert f"took over {out / 'trial_0000'}" in again.stderr
    # A slow machine takes over before it begins another trial, whose number is then one higher.
    runs = sorted(path.parent.name for path in out.glob("trial_*/config.yaml"))
    assert runs in (["trial_0000", "trial_0001"], ["trial_0000", "trial_0002"])
    rates = []
    for run in runs:
        rates.append(str(read_yaml(out / run / "config.yaml")["actor_lr"]))
        training = [
            sys.executable,
            "-m",
            "train.mappo",
            "--config",
            "truck_drone_basic",
            *keys,
            "--actor_lr",
            rates[-1],
        ]
        subprocess.run([*training, "--run_dir", str(files / run)], cwd=root, check=True, timeout=300)
        assert (out / run / "metrics.jsonl").read_bytes() == (files / run / "metrics.jsonl").read_bytes()
        assert len(json.loads((files / run / "summary.json").read_text())) > 0
    assert rates[0] != rates[1]


def test_the_keys_of_a_typed_environment_are_known(files):
    (files / "space.yaml").write_text("env.num_nodes: {low: 4, high: 6}\n")
    (files / "plain.yaml").write_text("num_envs: 8\nrollout_length: 8\n")
    paths = {name: str(files / f"{name}.yaml") for name in ("plain", "space")}
    args = argparse.Namespace(
        config=paths["plain"], space=paths["space"], algorithm=None, trials=2, sampler_seed=0, out=str(files / "out")
    )
    assert sweep.read_sweep(args, ["--env.name", "darp"]).space.keys() == {"env.num_nodes"}


@pytest.mark.parametrize("num_keys", [1, 2])
def test_texts_of_the_plots_are_whole_and_apart(num_keys, tmp_path, monkeypatch):
    import optuna

    space = {
        "actor_lr": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True),
        "a_key_with_a_long_name": optuna.distributions.FloatDistribution(0, 1),
    }
    space = dict(itertools.islice(space.items(), num_keys))
    study = optuna.create_study(direction="maximize")
    for rate, other, value in ((0.00117, 0.9, -5.5), (0.00884, 0.2, -16.9), (0.0013, 0.5, -14.9), (0.0009, 0.3, -17.9)):
        params = dict(zip(space, (rate, other), strict=False))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    figures = {}
    monkeypatch.setattr(sweep, "save_still", lambda figure, path, dpi: figures.update({path.stem: figure}))
    sweep.draw(study, sweep.Sweep("mappo", (), space, 4, 0, tmp_path))
    for figure in figures.values():
        figure.draw_without_rendering()
        for axes in figure.axes:
            for text in (axes.xaxis.label, axes.yaxis.label):
                box = text.get_window_extent()
                assert figure.bbox.contains(*box.min) and figure.bbox.contains(*box.max), text
    for axes in figures["keys"].axes[:num_keys]:
        ticks = [tick for tick in (*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks())]
        labels = [tick.label1 for tick in ticks if tick.label1.get_text()]
        places = sorted(axes.transData.transform((label.get_position()[0], 0))[0] for label in labels)
        height = labels[0].get_fontsize() * axes.figure.dpi / 72
        assert all(label.get_rotation() > 45 for label in labels)
        assert min(right - left for left, right in itertools.pairwise(places)) > height

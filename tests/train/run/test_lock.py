"""The lock of a run folder: held by one process, named in the refusal of the others, gone with its process."""

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys

import jax.numpy as jnp
import pytest

from jaxvrp.io.command_line import UserError
from train import mappo
from train.commands import launch
from train.on_policy.config import PPOConfig
from train.run import lock, loop
from train.run.checkpoint import Checkpoints
from train.run.folder import write_configuration
from train.run.lock import locked
from train.run.resume import RecordedRun

pytestmark = pytest.mark.skipif(not lock.HAS_LOCKS, reason="this system has no locks of this kind")

HOLD = """
import pathlib, sys, time
from train.run.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path):
    """A run folder with a checkpoint."""
    folder = tmp_path / "run"
    folder.mkdir()
    recorded = RecordedRun(PPOConfig(env={"name": "toy_of_the_tests", "cut": False}), "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / "checkpoints").save(1, {"update": jnp.zeros((), jnp.int32)}, None, recorded.values)
    return folder


def refusal(*argv):
    with pytest.raises(UserError) as refused:
        mappo.main([str(word) for word in argv])
    return str(refused.value)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_second_process_is_refused_and_a_killed_one_does_not_count(run, monkeypatch, capfd):
    process = subprocess.Popen([sys.executable, "-c", HOLD, run], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        before = content(run)
        owner = f"process {process.pid} on {socket.gethostname()}, since 20"
        says = f"{run} is in use by {owner}"
        for argv in (["--resume", run], ["--run_dir", run]):
            message = refusal(*argv)
            assert message.startswith(says) and "\n" not in message
            assert message.endswith("; wait for its end, stop it, or take another run folder")
        assert content(run) == before
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert content(run) == before
    monkeypatch.setattr(loop, "run", lambda *_, **__: None)
    capfd.readouterr()
    mappo.main(["--resume", str(run)])
    said = capfd.readouterr().err
    assert said.startswith(f"took over {run}/.lock of {owner}") and said.endswith(", which is gone\n")
    assert said.count("\n") == 1
    assert ".lock" not in content(run)


def test_it_is_held_while_a_run_lasts_and_let_go_at_its_end(run, tmp_path, monkeypatch, capfd):
    folders = []

    def train(learner, folder, recorded, *, resume, begin, stage, kept, shown):
        folders.append(folder)
        assert json.loads((folder / ".lock").read_text())["pid"] == os.getpid()
        assert (folder / "config.yaml").exists()
        raise KeyboardInterrupt if resume else UserError("enough")

    monkeypatch.setattr(loop, "run", train)
    new = tmp_path / "new"
    assert refusal("--env.name", "toy_of_the_tests", "--num_devices", "1", "--run_dir", new) == "enough"
    with pytest.raises(KeyboardInterrupt):
        mappo.main(["--resume", str(run)])
    assert folders == [new, run]
    assert list(content(new)) == list(content(run)) == ["config.yaml"]
    assert capfd.readouterr().err == ""


def test_a_folder_that_holds_something_is_left_as_it_is(run):
    before = content(run)
    with pytest.raises(UserError, match="is not empty"), locked(run):
        launch.begin_run(run, RecordedRun(PPOConfig(), "mappo"))
    assert content(run) == before


def test_one_of_several_processes_locks(run, monkeypatch):
    begun = []
    monkeypatch.setattr(loop, "run", lambda learner, folder, *_, resume, **__: begun.append((folder, resume)))
    with locked(run):
        note = (run / ".lock").read_bytes()
        monkeypatch.setattr(launch.jax, "process_index", lambda: 1)
        mappo.main(["--resume", str(run)])
        assert begun == [(run, True)]
        assert (run / ".lock").read_bytes() == note


def test_what_another_process_changed_before_it_let_go_is_seen(run, monkeypatch):
    """It ended between the reading of the run and the locking of its folder."""

    @contextlib.contextmanager
    def wait(folder):
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("eval_seed: 1000003", "eval_seed: 1"))
        monkeypatch.setattr(launch, "check_same", lambda *_: None)
        yield

    monkeypatch.setattr(launch, "locked", wait)
    assert refusal("--resume", run) == f"another process has just changed the run in {run}; try again"


def test_a_lock_that_was_let_go_while_one_waited_for_it_is_not_taken_for_it(run, monkeypatch):
    """Between opening and locking, the process that has it ends: the file is no longer in the folder."""
    wait = lock.fcntl.flock

    def let_go(file, how):
        monkeypatch.setattr(lock.fcntl, "flock", wait)
        (run / ".lock").unlink()
        wait(file, how)

    monkeypatch.setattr(lock.fcntl, "flock", let_go)
    with locked(run):
        assert (run / ".lock").exists()
        with pytest.raises(UserError, match=f"in use by process {os.getpid()} on"), locked(run):
            pass


@pytest.mark.parametrize(
    "note", [b"\xff", b"5", b"{}", b'{"pid": 1}', b"[" * 2000, b'{"pid": 1, "host": "a\\nb", "since": ""}']
)
def test_a_damaged_note_is_of_an_unknown_process(note, run, capfd):
    (run / ".lock").write_bytes(note)
    with locked(run):
        assert capfd.readouterr().err == f"took over {run}/.lock of an unknown process, which is gone\n"
        (run / ".lock").write_bytes(note)
        with pytest.raises(UserError, match="in use by another process; "), locked(run):
            pass


def test_a_run_folder_that_was_removed_or_cannot_be_locked(run):
    with (
        pytest.raises(UserError, match=r"cannot write .*away/\.lock: No such file or directory; "),
        locked(run / "away"),
    ):
        pass
    (run / ".lock").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*\.lock: Is a directory; "), locked(run):
        pass


def test_its_folder_may_go_while_it_is_held(run):
    elsewhere = run.with_name("elsewhere")
    with locked(run):
        run.rename(elsewhere)
    assert not run.exists()
    with locked(elsewhere):
        assert json.loads((elsewhere / ".lock").read_text())["pid"] == os.getpid()


def test_a_new_folder_of_the_same_name_keeps_its_own(run):
    with contextlib.ExitStack() as new:
        with locked(run):
            run.rename(run.with_name("elsewhere"))
            run.mkdir()
            new.enter_context(locked(run))
        with pytest.raises(UserError, match="is in use"), locked(run):
            pass


def test_a_file_system_without_locks_is_told(run, monkeypatch, capfd):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    (run / ".lock").write_text('{"pid": 1, "host": "another", "since": "today"}')
    with locked(run):
        assert capfd.readouterr().err == f"warning: cannot lock {run}: No locks available; train in it once at a time\n"
    assert "another" in (run / ".lock").read_text()


def test_a_system_without_locks_goes_without(run, monkeypatch):
    monkeypatch.setattr(lock, "HAS_LOCKS", False)
    with locked(run), locked(run):
        assert not (run / ".lock").exists()

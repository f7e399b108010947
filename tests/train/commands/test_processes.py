"""Several processes of one run: one that is gone stops all, and the run goes on from what it saved."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[3]

KEYS = "--env.name tests.toy_environments:Errands --network mlp --hidden_sizes [8] --num_envs 8 --rollout_length 4 "
KEYS += f"--num_minibatches 1 --total_steps {32 * 2000} --log_interval 1 --eval_interval 1000 --save_interval 1 "
KEYS += "--eval_episodes 2 --logger [] --pictures false"


def begin(*given, number):
    """So many processes of one run, each with one device, on a free port."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}
    group = ["--coordinator", address, "--num_processes", str(number)]
    command = [sys.executable, "-m", "train.mappo", *given, *group, "--process_id"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return [subprocess.Popen([*command, str(i)], cwd=ROOT, env=env, text=True, **pipes) for i in range(number)]


def saved_updates(run):
    return [int(path.name) for path in (run / "checkpoints").glob("[0-9]*")]


def begun(run, number):
    """So many processes of a run that has saved a checkpoint."""
    processes, deadline = begin("--run_dir", str(run), *KEYS.split(), number=number), time.time() + 300
    while not saved_updates(run) and time.time() < deadline:
        time.sleep(0.1)
    return processes


def ends(processes):
    errors = [process.communicate(timeout=300)[1] for process in processes]
    return [process.returncode for process in processes], errors


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 2])
def test_four_processes_stop_when_one_is_killed_and_go_on(tmp_path, victim):
    run = tmp_path / "run"
    processes = begun(run, 4)
    processes[victim].kill()
    status, errors = ends(processes)
    assert all(status), errors
    done = max(saved_updates(run))
    again = begin("--resume", str(run), "--trust", "--total_steps", str(32 * (done + 3)), number=4)
    status, errors = ends(again)
    assert status == [0, 0, 0, 0], errors
    updates = [json.loads(line)["update"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert updates == list(range(1, done + 4))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_all_processes_stop_where_one_is_asked_to(tmp_path, place):
    run = tmp_path / "run"
    processes = begun(run, 2)
    processes[place].terminate()
    status, errors = ends(processes)
    assert status[0] == status[1] != 0
    assert all("everything is saved" in error for error in errors), errors
    assert f"interrupted at update {max(saved_updates(run))} of 2000" in errors[0]


def test_a_cluster_that_is_none_is_named(tmp_path):
    command = [sys.executable, "-m", "train.mappo", "--coordinator", "auto", "--run_dir", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "coordinator is auto, and no cluster has started this process" in done.stderr
    assert not (tmp_path / "run").exists()

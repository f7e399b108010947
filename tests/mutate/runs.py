"""Tiny runs of every learner: how they are started in processes that die on command, and whether two are the same."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tests.toy_environments  # noqa: F401 (registers them)
from jaxvrp.io.command_line import run_command
from jaxvrp.testing import ConformanceError
from tests.mutate.lane import PRELOADED
from train.run.checkpoint import Checkpoints

UPDATES, SAVE = 6, 2
"""Updates of a run, and between two checkpoints."""

SIZES = "--num_envs 4 --rollout_length 4 --num_devices 1 --hidden_sizes [8] --total_steps 96 --log_interval 1"
WHEN = f"--save_interval {SAVE} --eval_interval 3 --eval_episodes 4"
ON_POLICY = f"{SIZES} {WHEN} --num_minibatches 2 --num_epochs 1"
OFF_POLICY = f"{SIZES} {WHEN} --batch_size 16 --gradient_steps 2 --buffer_size 400 --random_steps 16"
TOY = "--env.name toy_of_the_tests"
LINE_WALK = "--env.name line_walk_of_the_tests"
DARP = "--env.name darp --env.num_nodes 4 --env.num_agents 2"
GRU = "--network gru --recurrent_size 8 --chunk_length 2"
ATTENTION = "--network attention --attention_size 8 --attention_heads 2 --attention_layers 1"

VARIANTS = {
    "mappo_mlp": ("mappo", f"{ON_POLICY} {TOY} --env.cut true"),
    "mappo_gru": ("mappo", f"{ON_POLICY} {TOY} {GRU}"),
    "ippo_gru": ("ippo", f"{ON_POLICY} {TOY} {GRU} --num_seeds 2"),
    "mappo_attention": ("mappo", f"{ON_POLICY} {DARP} {ATTENTION}"),
    "td3": ("td3", f"{OFF_POLICY} {LINE_WALK}"),
    "sac": ("sac", f"{OFF_POLICY} {LINE_WALK} --target_exploration_steps 16"),
}
"""Algorithm and words of each kind of run."""

SAME_BYTES = ("config.yaml", "start.json", "rates.json", "metrics.jsonl", "summary.json", "learning_curve.png")
"""Files of a run that say the same to the last bit, however often it was killed."""

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree")
"""Events of a file system, as Python's audit hooks call them, beside opening a file to write."""


@dataclasses.dataclass(frozen=True)
class Training:
    """One process of a run.

    Attributes:
        algorithm: of the learners.
        words: of its command line.
        run_dir: of the run; events elsewhere do not count.
        notes: folder for what the process says, and for digests of the states that it saves.
        dies_at: number of the change in the run folder at which it is killed, from 1; None for never.
    """

    algorithm: str
    words: tuple[str, ...]
    run_dir: Path
    notes: Path
    dies_at: int | None = None


def _train(training: Training) -> None:
    """What runs in the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(training.notes / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    jax.config.update("jax_disable_most_optimizations", True)
    _note_digests(training.notes / "digests.jsonl")
    changes = _count_changes(training)
    main = importlib.import_module(f"train.{training.algorithm}").main
    status = run_command(lambda: main(list(training.words)), (ConformanceError,))
    (training.notes / "changes.txt").write_text(str(changes[0]))
    sys.exit(status)


def _count_changes(training: Training) -> list[int]:
    """Count what changes in the run folder, in the one entry of the list, and die when it is time."""
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if is_change(event, arguments, training.run_dir):
            count[0] += 1
            if count[0] == training.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def is_change(event: str, arguments: tuple[Any, ...], folder: Path) -> bool:
    """Whether an event, as audit hooks are told it, is about to change something in a folder."""
    if event == "open":
        flags = arguments[2] if isinstance(arguments[2], int) else 0
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return False
    elif event not in CHANGES:
        return False
    return str(arguments[0]).startswith(str(folder))


def _note_digests(path: Path) -> None:
    """Before a state is saved, a line with its digest is written elsewhere."""
    save = Checkpoints.save

    def save_and_note(self: Checkpoints, update: int, state: Any, *rest: Any) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"update": update, "digest": digest(state)}) + "\n")
        save(self, update, state, *rest)

    Checkpoints.save = save_and_note


def digest(state: Any) -> str:
    """Of all bits of a training state."""
    whole = hashlib.blake2b()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        bits = jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        array = np.asarray(bits)
        whole.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def digests(notes: Path) -> dict[int, set[str]]:
    """Of the states that were saved, by update; all processes of one run together."""
    found: dict[int, set[str]] = {}
    for path in notes.glob("**/digests.jsonl"):
        for line in path.read_text().splitlines():
            note = json.loads(line) if line.endswith("}") else {}
            if note:
                found.setdefault(note["update"], set()).add(note["digest"])
    return found


def start(training: Training) -> multiprocessing.Process:
    """Begin a process."""
    training.notes.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    process = context.Process(target=_train, args=(training,))
    process.start()
    return process


@dataclasses.dataclass(frozen=True)
class Stopped:
    """A process that has ended: its exit status (negative: the signal), what it said, and how long it took."""

    status: int
    output: str
    seconds: float


def wait(process: multiprocessing.Process, training: Training, seconds: float, number: int | None = None) -> Stopped:
    """Wait for the end; after some seconds it is sent a signal, and then waited for without limit."""
    began = time.monotonic()
    process.join(seconds)
    if process.exitcode is None:
        assert process.pid is not None
        os.kill(process.pid, number or signal.SIGKILL)
        process.join()
    output = (training.notes / "log.txt").read_text(errors="replace")
    return Stopped(process.exitcode or 0, output, time.monotonic() - began)


def differences(reference: Path, run: Path) -> Iterator[str]:
    """What a run folder does not have in common with that of a run that was never killed."""
    names, others = ({path.name for path in folder.iterdir()} for folder in (reference, run))
    if names != others:
        yield f"files: missing {sorted(names - others)}, left behind {sorted(others - names)}"
    for name in SAME_BYTES:
        if (run / name).is_file() and (run / name).read_bytes() != (reference / name).read_bytes():
            yield name
    if updates(run / "timing.jsonl") != updates(reference / "timing.jsonl"):
        yield "updates in timing.jsonl"
    if checkpoints(run)[-1:] != checkpoints(reference)[-1:]:
        yield "the latest checkpoint"


def updates(path: Path) -> list[int]:
    """Of the records of a file, one per line; other signs that Python takes for the end of a line are none."""
    return [json.loads(line)["update"] for line in path.read_bytes().split(b"\n") if line]


def checkpoints(run: Path) -> list[int]:
    """Updates of the checkpoints that have their final name."""
    folder = run / "checkpoints"
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []

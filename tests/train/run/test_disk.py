"""A disk that is full, a run folder that goes or may not be written: one line, what is safe, and nothing is lost."""

import gc
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types

import jax
import numpy as np
import pytest

from jaxvrp.io.command_line import UserError
from train.algorithms import make_train
from train.run import loop
from train.run.checkpoint import Checkpoints
from train.run.evaluator import evaluation_function
from train.run.lock import locked
from train.run.metrics import MetricsWriter
from train.run.resume import RecordedRun
from train.shown.loggers import open_loggers
from train.shown.report import Report

ROOT = pathlib.Path(__file__).parents[3]
SAVE, UPDATES = 2, 6
"""Updates from one checkpoint to the next, and of the whole run."""

NOTHING = r"nothing is saved, as there is no checkpoint yet; delete {run}, and start anew"
KEPT = r"the checkpoint of update {update} of 6 is kept, go on with --resume {run}"


# Every failure is looked at for what it leaves behind. The filter: as in `test_run.py`, whose reads may end here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collect_quickly"),
]


@pytest.fixture(scope="module")
def trainer(config):
    """Of the toy environment."""
    return make_train(config(total_steps=48 * UPDATES, eval_interval=SAVE, save_interval=SAVE))


@pytest.fixture(scope="module")
def train(trainer):
    """`train(folder, resume=False)`: the loop in a run folder, compiled once; without the report, unless asked."""
    figures = {}

    def function(learner, evaluator):
        return figures.setdefault("function", evaluation_function(learner, evaluator))

    def run(folder, *, resume=False, report=False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "evaluation_function", function)
            no_report = types.SimpleNamespace(write=lambda *_: [])
            shown = loop.Shown(open_loggers, Report if report else lambda *_: no_report)
            loop.run(trainer, folder, RecordedRun(trainer.config, "mappo"), resume=resume, shown=shown)

    return run


@pytest.fixture(scope="module")
def straight(train, tmp_path_factory):
    """The folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("straight")
    train(folder)
    return folder


@pytest.fixture
def run(tmp_path):
    """An empty run folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def disk(tmp_path):
    """`disk(kilobytes)`: the folder of a file system of that size; called again, it changes the size."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(kilobytes):
        options = f"{'remount,' if folder.is_mount() else ''}size={kilobytes}k"
        if shutil.which("mount") is None:
            pytest.skip("this system has no command 'mount'")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"only root may mount a small file system: {done.stderr.strip()}")
        return folder

    yield mount
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", folder], check=True)  # also if a test that failed left files open


@pytest.fixture
def after(monkeypatch):
    """`after(update, happen)`: `happen()` is called once, after the records of an update were written."""
    write = MetricsWriter.write

    def happens(update, happen):
        def write_and_happen(self, record, timing):
            write(self, record, timing)
            if record["update"] == update:
                monkeypatch.setattr(MetricsWriter, "write", write)
                happen()

        monkeypatch.setattr(MetricsWriter, "write", write_and_happen)

    return happens


def fill(folder, leave=0):
    """Take the space on the disk of a folder, except for so many bytes."""
    with (folder / "filler").open("ab", buffering=0) as filler:
        filler.write(bytes(shutil.disk_usage(folder).free - leave))


def fails(train, folder, **options):
    """What is said when training ends; it is one line, and no thread has anything left to do or to say."""
    threads = set(threading.enumerate())
    with pytest.raises(UserError) as stopped:
        train(folder, **options)
    message = str(stopped.value)
    assert "\n" not in message
    del stopped
    for thread in set(threading.enumerate()) - threads:
        threading.Thread.join(thread, timeout=10)  # what orbax has in its place raises again what was said
        assert not thread.is_alive(), thread
    gc.collect()  # what orbax leaves behind would be reported elsewhere
    return message


def newest(run):
    """Update of the newest checkpoint, 0 if there is none."""
    return max((int(path.name) for path in (run / "checkpoints").glob("[1-9]*")), default=0)


def assert_says_full(message, run, where=""):
    """That a file could not be written, of which checkpoint is kept, and what to do."""
    kept = (KEPT if newest(run) else NOTHING).format(run=run, update=newest(run))
    says = f"cannot write {run}/{where}[^;]*: No space left on device; free some space; {kept}"
    assert re.fullmatch(says, message), message


def numbers(leaf):
    return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def assert_same_bits(folder, other, trainer):
    assert (folder / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    states = []
    for each in (folder, other):
        checkpoints = Checkpoints(each / "checkpoints", read_only=True)
        assert checkpoints.latest == UPDATES
        states.append(jax.tree.leaves(checkpoints.load(trainer.init(jax.random.key(1)))))
    for leaf, other_leaf in zip(*states, strict=True):
        np.testing.assert_array_equal(numbers(leaf), numbers(other_leaf))


@pytest.mark.parametrize("kilobytes", [4, 20, 100, 180])
@pytest.mark.slow
def test_a_disk_that_is_too_small(kilobytes, disk, train, straight, trainer):
    run = disk(kilobytes) / "run"
    run.mkdir()
    assert_says_full(fails(train, run), run)
    disk(2000)
    if newest(run):
        train(run, resume=True)
    else:
        shutil.rmtree(run)
        run.mkdir()
        train(run)
    assert_same_bits(run, straight, trainer)


@pytest.mark.parametrize(("update", "leave"), [(3, 0), (4, 0), (4, 40_000), (4, 120_000)])
@pytest.mark.slow
def test_a_disk_that_somebody_fills(update, leave, disk, train, after, straight, trainer):
    run = disk(600) / "run"
    run.mkdir()
    after(update, lambda: fill(run.parent, leave))
    assert_says_full(fails(train, run), run)
    before = newest(run)
    fill(run.parent)
    assert_says_full(fails(train, run, resume=True), run)
    assert newest(run) == before
    (run.parent / "filler").unlink()
    train(run, resume=True)
    assert_same_bits(run, straight, trainer)


@pytest.mark.parametrize(("leave", "where"), [(0, "summary.json"), (8_192, "learning_curve.png")])
@pytest.mark.slow
def test_a_disk_without_space_for_the_report(leave, where, disk, train, monkeypatch):
    run = disk(600) / "run"
    run.mkdir()
    write = Report.write

    def fill_and_write(*report):
        fill(run.parent, leave)
        write(*report)

    monkeypatch.setattr(Report, "write", fill_and_write)
    assert_says_full(fails(train, run, report=True), run, where)
    assert newest(run) == UPDATES
    (run.parent / "filler").unlink()
    monkeypatch.setattr(Report, "write", write)
    train(run, resume=True, report=True)
    assert {"summary.json", "learning_curve.png"} <= {path.name for path in run.iterdir()}


@pytest.mark.slow
def test_a_command_on_a_full_disk_says_one_line_and_no_thread_has_more_to_say(disk):
    folder = disk(100)
    words = (
        "--env.name tests.toy_environments:Errands --num_envs 4 --rollout_length 12 --chunk_length 4 --hidden_sizes [8]"
    )
    words += " --num_minibatches 2 --num_epochs 1 --num_devices 1 --total_steps 480 --eval_episodes 4 --save_interval 1"
    command = [sys.executable, "-m", "train.mappo", *words.split(), "--run_dir", folder / "run"]
    env = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true", "JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)
    *bar, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(f"error: cannot write {folder}/run/.*: No space left on device; free some space; nothing", last)
    # The bar is drawn as often as the machine is slow.
    assert [line for line in bar if line and "steps" not in line] == [], done.stderr


def renamed(run):
    run.rename(run.with_name("elsewhere"))


@pytest.mark.slow
@pytest.mark.parametrize("remove", [shutil.rmtree, renamed])
@pytest.mark.parametrize("update", [3, 4])
def test_a_run_folder_that_goes(update, remove, run, train, after, straight, trainer):
    """After update 3, records are written next; after update 4, a checkpoint."""
    after(update, lambda: remove(run))
    says = f"the run folder {run} was removed or renamed during the run; if it was renamed, go on with --resume and "
    assert fails(train, run) == f"{says}its new name, else start anew"
    assert not run.exists()
    if remove is renamed:
        train(run.with_name("elsewhere"), resume=True)
        assert_same_bits(run.with_name("elsewhere"), straight, trainer)


def replaced(path):
    path.rename(path.with_name("old"))
    path.write_text("")


@pytest.mark.parametrize(
    ("name", "change", "why", "kept"),
    [
        ("metrics.jsonl", pathlib.Path.unlink, "No such file or directory", KEPT),
        ("timing.jsonl", replaced, "another file has taken its place", KEPT),
        ("checkpoints", shutil.rmtree, "No such file or directory", NOTHING),
    ],
    ids=["metrics", "timing", "checkpoints"],
)
@pytest.mark.slow("metrics", "checkpoints", "timing")
def test_a_part_of_the_run_folder_that_goes(name, change, why, kept, run, train, after):
    after(3, lambda: change(run / name))
    kept = kept.format(run=run, update=2)
    assert fails(train, run) == f"cannot write {run / name}: {why}; mend that; {kept}"


@pytest.fixture
def powerless():
    """A folder, and `forbid(mode)`, after which the process cannot do in it what the mode does not allow."""
    with tempfile.TemporaryDirectory() as name:  # not below `tmp_path`, which is closed to all but its owner
        folder, nobody = pathlib.Path(name), 65534
        root = os.geteuid() == 0
        (folder / "run").mkdir()

        def forbid(mode):
            for path in (folder, *folder.rglob("*")):
                if root:
                    os.chown(path, nobody, nobody)
                path.chmod(mode | 0o111 if path.is_dir() else mode)
            folder.chmod(0o755)
            if root:  # to whom modes do not apply
                os.seteuid(nobody)

        yield folder / "run", forbid
        if root:
            os.seteuid(0)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700)


@pytest.mark.slow
def test_a_run_folder_that_may_not_be_written(powerless, train, straight):
    run, forbid = powerless
    shutil.copytree(straight, run, dirs_exist_ok=True)
    forbid(0o444)
    with pytest.raises(UserError) as refused, locked(run):
        pass
    assert str(refused.value) == f"cannot write {run}/.lock: Permission denied; give yourself access to it"
    message = fails(train, run, resume=True)
    assert re.match(rf"cannot write {run}/.*: Permission denied; give yourself access to it; .*update 6 of 6", message)


@pytest.mark.slow
def test_rights_that_are_lost_in_the_middle(powerless, train, straight, after):
    """`straight` has compiled everything: the cache of programs may be out of reach, too."""
    run, forbid = powerless
    forbid(0o777)
    after(3, lambda: (run / "checkpoints").chmod(0o555))
    says = f"cannot write {run}/checkpoints/.*: Permission denied; give yourself access to it; "
    message = fails(train, run)
    assert re.fullmatch(says + KEPT.format(run=run, update=2), message), message


@pytest.mark.slow
def test_checkpoints_that_may_not_be_read(powerless, straight):
    run, forbid = powerless
    shutil.copytree(straight, run, dirs_exist_ok=True)
    forbid(0o444)
    (run / "checkpoints").chmod(0)
    with pytest.raises(UserError) as refused:
        Checkpoints(run / "checkpoints", read_only=True)
    assert str(refused.value) == f"cannot read {run}/checkpoints: Permission denied; give yourself access to it"

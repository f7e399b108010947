"""A run that is killed, torn during a save and interrupted ends with the same bits as one that is left alone."""

import dataclasses
import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train import mappo
from train.running import command_line, loop
from train.running.checkpoint import Checkpoints

# When one array of a checkpoint cannot be read, orbax closes its event loop under the reads of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = pathlib.Path(__file__).parents[2]
SAVE, TOTAL = 100, 200
SIZES = "--num_envs 4 --rollout_length 8 --chunk_length 4 --num_minibatches 2 --num_epochs 1 --num_devices 1"
NETWORK = "--network gru --hidden_sizes [8] --recurrent_size 8"
WORLD = "--env.num_customers 2 --env.num_route_nodes 3 --env.max_steps 12"
WHEN = f"--total_steps {TOTAL * 32} --save_interval {SAVE} --eval_interval 50 --eval_episodes 4"
ARGUMENTS = f"{SIZES} {NETWORK} {WORLD} {WHEN}".split()

TORN = """
import os, signal, sys
from train import cli, mappo

def replaced(source, target, *rest, **options):
    if "tmp" in str(source) and str(target).endswith("checkpoints/200"):
        os.kill(os.getpid(), signal.SIGKILL)  # all is written, but nothing has its final name
    return rename(source, target, *rest, **options)

rename, os.rename = os.rename, replaced
os.replace = replaced
command_line.entry(lambda: mappo.main(["--resume", sys.argv[1]]))
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """A process that has ended, and its run folder as it left it."""

    run: pathlib.Path
    status: int
    told: str


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    """Programs that compile in half the time, and run slower."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """`start(*words)`: a process of the command line, quickly compiled; its output goes to a file."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}

    def popen(*words):
        told = tmp_path_factory.mktemp("told") / "told.txt"
        with told.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)], cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT
            )
        return process, told

    return popen


@pytest.fixture(scope="module")
def end(tmp_path_factory):
    """`end(process, told, run)`: wait for it, and keep what the run folder holds now."""

    def wait(process, told, run):
        status = process.wait(timeout=300)
        kept = tmp_path_factory.mktemp("kept") / "run"
        shutil.copytree(run, kept)
        return Ended(kept, status, told.read_text())

    return wait


@pytest.fixture(scope="module")
def straight(start, end, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight") / "run"
    return end(*start("-m", "train.mappo", *ARGUMENTS, "--run_dir", run), run)


@pytest.fixture(scope="module")
def broken(start, end, tmp_path_factory):
    """The same run, with three bad ends: killed between two saves, interrupted, killed during a save; then finished."""
    run, stages = tmp_path_factory.mktemp("broken") / "run", {}

    process, told = start("-m", "train.mappo", *ARGUMENTS, "--run_dir", run)
    wait_until(process, lambda: saved(run) == [SAVE] and last_update(run) > SAVE)
    process.kill()
    stages["killed"] = end(process, told, run)

    process, told = start("-m", "train.mappo", "--resume", run)
    wait_until(process, lambda: last_update(run) == SAVE)  # what was beyond the checkpoint is cut off
    wait_until(process, lambda: last_update(run) > SAVE)
    process.send_signal(signal.SIGINT)
    stages["interrupted"] = end(process, told, run)

    stages["torn"] = end(*start("-c", TORN, run), run)
    stages["finished"] = end(*start("-m", "train.mappo", "--resume", run), run)
    return stages


@pytest.fixture(scope="module")
def learner(straight):
    return mappo.make_train(loop.read_run(straight.run)[0])


@pytest.fixture(scope="module")
def fresh(learner):
    """A state of the run's structure and shapes."""
    return learner.init(jax.random.key(1))


def wait_until(process, condition):
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.001)
    pytest.fail(f"the run ended, or went on for too long, before it could be stopped (status {process.poll()})")


def last_update(run):
    return len((run / "metrics.jsonl").read_text().splitlines()) if (run / "metrics.jsonl").exists() else 0


def saved(run):
    return sorted(int(path.name) for path in (run / "checkpoints").glob("*") if path.name.isdigit())


def numbers(leaf):
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def load(run, like, update=None):
    with Checkpoints(run / "checkpoints", read_only=True) as checkpoints:
        return jax.tree.map(numbers, checkpoints.load(like, update))


def status_of(capfd, argv):
    """Exit status and the lines on stderr of the command line, in this process."""
    with pytest.raises(SystemExit) as stopped:
        command_line.entry(lambda: mappo.main(argv))
    return stopped.value.code, capfd.readouterr().err.splitlines()


def test_a_killed_run_had_gone_on_after_its_checkpoint(broken):
    killed = broken["killed"]
    assert killed.status == -signal.SIGKILL
    assert saved(killed.run) == [SAVE]
    assert SAVE < last_update(killed.run) < TOTAL


def test_ctrl_c_saves_and_says_how_to_go_on(broken, fresh):
    interrupted = broken["interrupted"]
    update = saved(interrupted.run)[-1]
    message = f"error: interrupted at update {update} of {TOTAL}; everything is saved, go on with --resume "
    assert interrupted.status == 2
    assert interrupted.told.splitlines()[-1].startswith(message)
    assert "Traceback" not in interrupted.told
    assert SAVE < update < TOTAL
    assert last_update(interrupted.run) == update
    assert load(interrupted.run, fresh).update == update


def test_a_save_that_is_killed_leaves_the_checkpoint_before(broken, fresh):
    torn = broken["torn"]
    before = saved(broken["interrupted"].run)
    assert torn.status == -signal.SIGKILL
    assert saved(torn.run) == before
    assert [path for path in (torn.run / "checkpoints").iterdir() if "tmp" in path.name]
    assert last_update(torn.run) == TOTAL
    assert load(torn.run, fresh).update == before[-1]


def test_resumed_to_the_last_bit(straight, broken, fresh):
    finished = broken["finished"]
    assert straight.status == finished.status == 0, straight.told + finished.told
    for name in ("metrics.jsonl", "summary.json", "config.yaml", "learning_curve.png", "episode.png"):
        assert (finished.run / name).read_bytes() == (straight.run / name).read_bytes(), name
    mine, theirs = load(straight.run, fresh), load(finished.run, fresh)
    assert mine.update == TOTAL
    assert {leaf.dtype.name for leaf in jax.tree.leaves(mine)} >= {"float32", "int32", "uint32", "bool"}
    for (path, one), other in zip(jax.tree_util.tree_leaves_with_path(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=jax.tree_util.keystr(path))


def test_the_state_is_not_what_it_was(straight, fresh):
    """So that the comparison above compares something: what a run is made of has moved, recurrent states too."""
    now, before = load(straight.run, fresh), jax.tree.map(numbers, fresh)
    for part in ("params", "optimizer", "value_norm", "key"):
        pairs = zip(jax.tree.leaves(getattr(now, part)), jax.tree.leaves(getattr(before, part)), strict=True)
        assert not all(np.array_equal(one, other) for one, other in pairs), part
    carries = jax.tree.leaves(now.players.carry)
    assert carries
    assert all(np.abs(carry).max() > 0 for carry in carries)


def test_the_temporary_folder_goes_at_the_next_start(broken):
    assert saved(broken["finished"].run)[-1] == TOTAL
    assert not [path for path in (broken["finished"].run / "checkpoints").iterdir() if "tmp" in path.name]


def files(folder, pattern):
    return [path for path in folder.glob(pattern) if path.is_file()]


def remove(pattern):
    return lambda folder: [path.unlink() for path in files(folder, pattern)]


def cut(pattern):
    def half(path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return lambda folder: [half(path) for path in files(folder, pattern)]


def flip(pattern):
    def damage(folder):
        path = max(files(folder, pattern), key=lambda path: path.stat().st_size)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return damage


DAMAGES = {
    "nothing in it": lambda folder: [shutil.rmtree(path) for path in folder.iterdir() if path.is_dir()],
    "no data": remove("state/d/*"),
    "data cut short": cut("state/d/*"),
    "no manifest": remove("state/manifest.ocdbt"),
    "structure cut short": cut("state/_METADATA"),
    "no types": remove("state/array_metadatas/*"),
    "one bit changed": flip("state/d/*"),
    "contents cut short": cut("contents.json"),
    "return cut short": cut("metrics/metrics"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_one_line(damage, straight, fresh, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(straight.run, run)
    damage(run / "checkpoints" / str(TOTAL))
    content = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(command_line.UserError, match=r"damaged.*(delete|start anew)") as mistake:
        load(run, fresh)
    gc.collect()  # what a broken read leaves behind would be reported elsewhere
    assert str(TOTAL) in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert content == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert capfd.readouterr().err == ""


def test_after_a_damaged_checkpoint_is_deleted_the_older_one_serves(broken, fresh, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(broken["finished"].run, run)
    shutil.copytree(
        broken["killed"].run / "checkpoints" / str(SAVE), run / "checkpoints" / str(SAVE), dirs_exist_ok=True
    )
    older = [update for update in saved(run) if update < TOTAL]
    DAMAGES["no data"](run / "checkpoints" / str(TOTAL))
    with pytest.raises(command_line.UserError, match=f"delete that folder to go on from update {older[-1]}"):
        load(run, fresh)
    shutil.rmtree(run / "checkpoints" / str(TOTAL))
    assert load(run, fresh).update == older[-1]


def test_a_checkpoint_without_its_contents_is_read(straight, fresh, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(straight.run, run)
    (run / "checkpoints" / str(TOTAL) / "contents.json").unlink()
    assert load(run, fresh).update == TOTAL


def test_a_checkpoint_of_other_sizes_or_networks_is_one_line(straight, fresh):
    wider = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]) if leaf.ndim else leaf, fresh)
    for other in (wider, fresh.replace(params={"actor": fresh.params["actor"]})):
        with pytest.raises(command_line.UserError, match="of another configuration"):
            load(straight.run, other)


def test_resume_of_a_folder_with_a_foreign_checkpoint_ends_with_2(straight, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(straight.run, run)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("recurrent_size: 8", "recurrent_size: 6"))
    metrics = (run / "metrics.jsonl").read_bytes()
    status, lines = status_of(capfd, ["--resume", str(run)])
    assert (status, len(lines)) == (2, 1)
    assert lines[0].startswith("error: ") and "of another configuration" in lines[0]
    assert (run / "metrics.jsonl").read_bytes() == metrics
    assert saved(run) == saved(straight.run)


def test_resume_before_the_first_checkpoint(straight, tmp_path, capfd):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(straight.run / "config.yaml", run)
    status, lines = status_of(capfd, ["--resume", str(run)])
    assert (status, len(lines)) == (2, 1)
    assert "holds no checkpoint" in lines[0]


NAN_AT_THE_END = """
import jax.numpy as jnp
from jaxvrp.envs.truck_drone.scenarios.truck_drone_basic import TruckDroneBasic

class Cracked(TruckDroneBasic):
    def reward(self, world):
        return jnp.where(world.step >= 20, jnp.nan, super().reward(world))
"""


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch, capfd):
    """Nobody is served here, so that episodes last: rollouts of 8 steps meet step 20 in the third update."""
    (tmp_path / "cracked_scenario.py").write_text(NAN_AT_THE_END)
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    argv = f"{SIZES} --hidden_sizes [8] {WORLD} --env.scenario cracked_scenario:Cracked"
    argv += " --env.max_steps 30 --env.drone_speed 0"
    argv += f" --total_steps 320 --save_interval 1 --eval_interval 10 --eval_episodes 4 --run_dir {run}"
    status, lines = status_of(capfd, argv.split())
    assert status == 2
    assert "is not finite at update 3; stopped, the checkpoint of update 2 is kept;" in lines[-1]
    assert not [line for line in lines if "Traceback" in line]
    assert (saved(run), last_update(run)) == ([2], 2)
    learner = mappo.make_train(loop.read_run(run)[0])
    state = load(run, learner.init(jax.random.key(0)))
    assert state.update == 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))

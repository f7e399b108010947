"""A run leaves its files; killed, interrupted, torn during a save and resumed, it ends with the same bits."""

import contextlib
import dataclasses
import gc
import io
import json
import pathlib
import shutil
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import image
from tensorboardX.proto import event_pb2

from jaxvrp.io.command_line import UserError
from train import evaluate, mappo
from train.algorithms import make_train
from train.commands import entry
from train.run.checkpoint import Checkpoints
from train.run.folder import read_run
from train.run.metrics import MetricsWriter
from train.run.records import read_records
from train.shown.report import Report

# The filter: when one array of a checkpoint cannot be read, orbax closes its event loop under the reads of the others.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collect_quickly"),
]

SAVE, KILL, INTERRUPT, TOTAL = 10, 13, 16, 20
"""Updates: of the first checkpoint; when a run is killed; when the resumed one is interrupted; at the end."""

SIZES = "--num_envs 4 --rollout_length 8 --chunk_length 4 --num_minibatches 2 --num_epochs 1 --num_devices 1"
NETWORK = "--network gru --hidden_sizes [8] --recurrent_size 8"
WORLD = "--env.num_customers 2 --env.num_route_nodes 3 --env.max_steps 12"
WHEN = f"--total_steps {TOTAL * 32} --save_interval {SAVE} --eval_interval 5 --eval_episodes 4"
ARGUMENTS = f"{SIZES} {NETWORK} {WORLD} {WHEN}".split()

PICTURES = ("learning_curve.png", "episode.png", "episode.gif")
FILES = {
    "config.yaml",
    "start.json",
    "rates.json",
    "metrics.jsonl",
    "timing.jsonl",
    "summary.json",
    "tensorboard",
    "checkpoints",
    *PICTURES,
}
ROLE_METRICS = {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio", "explained_variance"}

KILLED = f"""
import os, signal, sys
from train import mappo
from train.commands import entry
from train.run.metrics import MetricsWriter

def write_and_die(self, record, timing):
    write(self, record, timing)
    if record["update"] == {KILL}:
        os.kill(os.getpid(), signal.SIGKILL)

write, MetricsWriter.write = MetricsWriter.write, write_and_die
entry.entry(lambda: mappo.main(sys.argv[1:]))
"""

TORN = f"""
import os, signal, sys
from train import mappo
from train.commands import entry

def replaced(source, target, *rest, **options):
    if ".partial" in str(source) and str(target).endswith("checkpoints/{TOTAL}"):
        os.kill(os.getpid(), signal.SIGKILL)  # all is written, but nothing has its final name
    return rename(source, target, *rest, **options)

rename, os.rename = os.rename, replaced
os.replace = replaced
entry.entry(lambda: mappo.main(sys.argv[1:]))
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """A command that has ended, and its run folder as it left it."""

    run: pathlib.Path
    status: int
    output: str


@pytest.fixture(scope="module")
def keep(tmp_path_factory):
    """`keep(run, status, output)`: an `Ended`, with what the run folder holds now."""

    def copy(run, status, output):
        kept = tmp_path_factory.mktemp("kept") / "run"
        shutil.copytree(run, kept)
        return Ended(kept, status, output)

    return copy


def command(*words):
    """Exit status and stderr of the command line, in this process."""
    output = io.StringIO()
    with contextlib.redirect_stderr(output), pytest.raises(SystemExit) as stopped:
        entry.entry(lambda: mappo.main([str(word) for word in words]))
    return stopped.value.code, output.getvalue()


def killed_process(script, *words):
    """Exit status and output of a process that kills itself."""
    argv = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def straight(programs_once, keep, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight") / "run"
    return keep(run, *command(*ARGUMENTS, "--run_dir", run))


@pytest.fixture(scope="module")
def broken(programs_once, keep, tmp_path_factory):
    """The same run, with three bad ends: killed between two saves, interrupted, killed during a save; then finished."""
    run, stages = tmp_path_factory.mktemp("broken") / "run", {}
    stages["killed"] = keep(run, *killed_process(KILLED, *ARGUMENTS, "--run_dir", run))
    with pytest.MonkeyPatch.context() as patch:
        write = MetricsWriter.write

        def write_and_interrupt(self, record, timing):
            write(self, record, timing)
            if record["update"] == INTERRUPT:
                signal.raise_signal(signal.SIGINT)

        patch.setattr(MetricsWriter, "write", write_and_interrupt)
        stages["interrupted"] = keep(run, *command("--resume", run))
    stages["torn"] = keep(run, *killed_process(TORN, "--resume", run))
    stages["finished"] = keep(run, *command("--resume", run))
    return stages


@pytest.fixture(scope="module")
def fresh(straight):
    """A state of the run's structure and shapes."""
    recorded = read_run(straight.run)
    return make_train(recorded.config).init(jax.random.key(1))


def last_update(run):
    return len((run / "metrics.jsonl").read_text().splitlines())


def saved(run):
    return sorted(int(path.name) for path in (run / "checkpoints").glob("*") if path.name.isdigit())


def numbers(leaf):
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def load(run, like, update=None):
    return jax.tree.map(numbers, Checkpoints(run / "checkpoints", read_only=True).load(like, update))


def events_of(run):
    """By name: the steps at which TensorBoard was told a value; and where it was told to forget what follows."""
    steps, restarts = {}, []
    for path in sorted((run / "tensorboard").iterdir()):
        content, position = path.read_bytes(), 0
        while position < len(content):  # length u64, its checksum u32, the event, its checksum u32
            length = int.from_bytes(content[position : position + 8], "little")
            event = event_pb2.Event.FromString(content[position + 12 : position + 12 + length])
            position += length + 16
            if event.HasField("session_log"):
                restarts.append(event.step)
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    return steps, restarts


def test_files_of_a_run(straight):
    assert straight.status == 0, straight.output
    assert {path.name for path in straight.run.iterdir()} == FILES


@pytest.mark.slow
def test_tensorboard_counts_environment_steps(straight, broken):
    steps, restarts = events_of(straight.run)
    every = [32 * update for update in range(1, TOTAL + 1)]
    assert restarts == [1]
    assert steps["truck/entropy"] == steps["time/seconds"] == every
    assert steps["eval/return"] == [32 * update for update in (0, 5, 10, 15, 20)]
    assert not {"env_steps", "update"} & set(steps)
    _, restarts = events_of(broken["finished"].run)
    assert restarts == [1, 32 * SAVE + 1, 32 * INTERRUPT + 1, 32 * INTERRUPT + 1]


def test_pictures_of_a_run(straight):
    for name in PICTURES[:2]:
        picture = image.imread(straight.run / name)
        assert min(picture.shape[:2]) > 200
        dark = (picture[..., :3].min(axis=-1) < 0.9).mean()
        assert 0.005 < dark < 0.9, name
    assert (straight.run / PICTURES[2]).read_bytes()[:6] == b"GIF89a"


def test_records_of_a_run(straight):
    records = list(read_records(straight.run / "metrics.jsonl"))
    assert [record["update"] for record in records] == list(range(1, TOTAL + 1))
    last = records[-1]
    for role in ("truck", "drone"):
        assert {f"{role}/{name}" for name in ROLE_METRICS | {"grad_norm"}} <= set(last)
    assert {"team/critic_grad_norm", "episode/return", "episode/length", "episode/count"} <= set(last)
    assert {"env/completion_rate", "env/success", "env/on_time_rate", "eval/success_rate", "eval/length"} <= set(last)
    assert records[0]["episode/count"] == 0
    assert records[0]["episode/return"] is None
    ended = [record for record in records if record["episode/count"]]
    assert ended
    for record in ended:
        assert record["env/total_customers"] == 2.0
        assert record["env/time_step"] == record["episode/length"] <= 12
    timing = list(read_records(straight.run / "timing.jsonl"))
    assert all(record["time/env_steps_per_second"] > 0 for record in timing)


def test_summary_of_a_run(straight, tmp_path, capfd):
    summary = json.loads((straight.run / "summary.json").read_text())
    assert set(summary) == {"policy", "greedy", "random"}
    for figures in summary.values():
        assert {"return", "completion_rate", "success_rate", "on_time_rate"} <= set(figures)
    last = list(read_records(straight.run / "metrics.jsonl"))[-1]
    assert summary["policy"] == {n.removeprefix("eval/"): v for n, v in last.items() if n.startswith("eval/")}
    evaluate.main(["--run", str(straight.run), "--render", str(tmp_path / "again.png")])
    output = capfd.readouterr().out
    assert f"{summary['policy']['return']:.3f}" in output
    assert f"{summary['greedy']['return']:.3f}" in output
    assert (tmp_path / "again.png").read_bytes() == (straight.run / "episode.png").read_bytes()


@pytest.mark.slow
def test_a_run_from_before_there_was_eval_env_is_evaluated(straight, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(straight.run, run)
    config = run / "config.yaml"
    assert "eval_env: {}\n" in config.read_text()
    config.write_text(config.read_text().replace("eval_env: {}\n", ""))
    evaluate.main(["--run", str(run)])
    summary = json.loads((run / "summary.json").read_text())
    assert f"{summary['policy']['return']:.3f}" in capfd.readouterr().out


@pytest.mark.slow
def test_a_killed_run_had_gone_on_after_its_checkpoint(broken):
    killed = broken["killed"]
    assert killed.status == -signal.SIGKILL
    assert saved(killed.run) == [SAVE]
    assert last_update(killed.run) == KILL


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(broken, fresh):
    interrupted = broken["interrupted"]
    message = f"interrupted at update {INTERRUPT} of {TOTAL}; everything is saved, go on with --resume "
    assert interrupted.status == 130
    assert interrupted.output.splitlines()[-1].startswith(message)
    assert "Traceback" not in interrupted.output and "error" not in interrupted.output
    assert saved(interrupted.run)[-1] == INTERRUPT
    assert last_update(interrupted.run) == INTERRUPT
    assert [record["update"] for record in read_records(interrupted.run / "metrics.jsonl")][SAVE] == SAVE + 1
    assert load(interrupted.run, fresh).update == INTERRUPT


@pytest.mark.slow
def test_a_save_that_is_killed_leaves_the_checkpoint_before(broken, fresh):
    torn = broken["torn"]
    before = saved(broken["interrupted"].run)
    assert torn.status == -signal.SIGKILL
    assert saved(torn.run) == before
    assert [path for path in (torn.run / "checkpoints").iterdir() if path.name == f".partial-{TOTAL}"]
    assert last_update(torn.run) == TOTAL
    assert load(torn.run, fresh).update == before[-1]


@pytest.mark.slow
def test_resumed_to_the_last_bit(straight, broken, fresh):
    finished = broken["finished"]
    assert straight.status == finished.status == 0, straight.output + finished.output
    for name in ("metrics.jsonl", "summary.json", "config.yaml", "learning_curve.png", "episode.png"):
        assert (finished.run / name).read_bytes() == (straight.run / name).read_bytes(), name
    whole, resumed = load(straight.run, fresh), load(finished.run, fresh)
    assert whole.update == TOTAL
    assert {leaf.dtype.name for leaf in jax.tree.leaves(whole)} >= {"float32", "int32", "uint32", "bool"}
    for (path, leaf), other in zip(jax.tree_util.tree_leaves_with_path(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(leaf, other, err_msg=jax.tree_util.keystr(path))


@pytest.mark.slow
def test_the_state_is_not_what_it_was(straight, fresh):
    """So that the comparison above compares something: what a run is made of has moved, recurrent states too."""
    now, before = load(straight.run, fresh), jax.tree.map(numbers, fresh)
    for part in ("params", "optimizer", "value_norm", "key"):
        pairs = zip(jax.tree.leaves(getattr(now, part)), jax.tree.leaves(getattr(before, part)), strict=True)
        assert not all(np.array_equal(leaf, other) for leaf, other in pairs), part
    carries = jax.tree.leaves(now.players.carry)
    assert carries
    assert all(np.abs(carry).max() > 0 for carry in carries)


@pytest.mark.slow
def test_the_temporary_folder_goes_at_the_next_start(broken):
    assert saved(broken["finished"].run)[-1] == TOTAL
    assert not [path for path in (broken["finished"].run / "checkpoints").iterdir() if not path.name.isdigit()]


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
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_one_line(damage, straight, fresh, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(straight.run, run)
    damage(run / "checkpoints" / str(TOTAL))
    content = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"damaged.*(delete|start anew)") as mistake:
        load(run, fresh)
    gc.collect()  # what a broken read leaves behind would be reported elsewhere
    assert str(TOTAL) in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert content == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_after_a_damaged_checkpoint_is_deleted_the_older_one_serves(broken, fresh, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(broken["finished"].run, run)
    shutil.copytree(
        broken["killed"].run / "checkpoints" / str(SAVE), run / "checkpoints" / str(SAVE), dirs_exist_ok=True
    )
    older = [update for update in saved(run) if update < TOTAL]
    DAMAGES["no data"](run / "checkpoints" / str(TOTAL))
    with pytest.raises(UserError, match=f"delete that folder to go on from update {older[-1]}"):
        load(run, fresh)
    shutil.rmtree(run / "checkpoints" / str(TOTAL))
    assert load(run, fresh).update == older[-1]


def test_a_checkpoint_of_other_sizes_or_networks_is_one_line(straight, fresh):
    wider = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]) if leaf.ndim else leaf, fresh)
    for other in (wider, fresh.replace(params={"actor": fresh.params["actor"]})):
        with pytest.raises(UserError, match="of another configuration"):
            load(straight.run, other)


@pytest.fixture
def copied(straight, tmp_path):
    """A copy of the finished run."""
    shutil.copytree(straight.run, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("program", ["resume", "evaluate"])
def test_another_configuration_than_that_of_the_checkpoint_is_one_line(program, straight, copied):
    config = copied / "config.yaml"
    config.write_text(config.read_text().replace("recurrent_size: 8", "recurrent_size: 6"))
    metrics = (copied / "metrics.jsonl").read_bytes()
    called = {"resume": mappo.main, "evaluate": evaluate.main}[program]
    with pytest.raises(UserError, match=r"config\.yaml is not .*: recurrent_size is 6, .* checkpoint 8; undo"):
        called(["--resume" if program == "resume" else "--run", str(copied)])
    assert (copied / "metrics.jsonl").read_bytes() == metrics
    assert saved(copied) == saved(straight.run)


@pytest.mark.slow
def test_a_finished_run_is_made_longer_whatever_happens_in_between(straight, copied, monkeypatch):
    """It is stopped at once before its next checkpoint, and goes on."""

    def interrupted(*_):
        raise KeyboardInterrupt

    longer = 32 * (TOTAL + 2)
    monkeypatch.setattr(Report, "write", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted)
        status, output = command("--resume", copied, "--total_steps", longer, "--save_interval", 1)
    assert (status, last_update(copied), saved(copied)) == (130, TOTAL + 1, saved(straight.run)), output
    first, now = read_run(straight.run), read_run(copied)
    assert now.config == dataclasses.replace(first.config, total_steps=longer, save_interval=1)
    assert command("--resume", copied)[0] == 0
    assert (last_update(copied), saved(copied)[-1]) == (TOTAL + 2, TOTAL + 2)
    assert read_run(copied) == now
    content = json.loads((copied / "checkpoints" / str(TOTAL + 2) / "contents.json").read_text())
    assert content["configuration"] == now.values
    records, before = (list(read_records(run / "metrics.jsonl")) for run in (copied, straight.run))
    assert records[:TOTAL] == before
    assert [record["update"] for record in records] == list(range(1, TOTAL + 3))


def test_resume_before_the_first_checkpoint(straight, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(straight.run / "config.yaml", run)
    status, output = command("--resume", run)
    assert (status, len(output.splitlines())) == (2, 1)
    assert "holds no complete checkpoint" in output


NAN_AT_THE_END = """
import jax.numpy as jnp
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic

class Cracked(TruckDroneBasic):
    def shared_reward(self, state):
        return jnp.where(state.step >= 20, jnp.nan, super().shared_reward(state))
"""


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    """Nobody is served here, so that episodes last: rollouts of 8 steps meet step 20 in the third update."""
    (tmp_path / "cracked_scenario.py").write_text(NAN_AT_THE_END)
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    world = WORLD.replace("--env.max_steps 12", "--env.max_steps 30")
    argv = f"{SIZES} --hidden_sizes [8] {world} --env.scenario cracked_scenario:Cracked --env.drone_speed 0"
    argv += f" --total_steps 320 --save_interval 1 --eval_interval 10 --eval_episodes 4 --run_dir {run}"
    status, output = command(*argv.split())
    assert status == 2
    assert "is not finite at update 3; stopped, the checkpoint of update 2 is kept;" in output.splitlines()[-1]
    assert "Traceback" not in output
    assert (saved(run), last_update(run)) == ([2], 2)
    learner = make_train(read_run(run, trust=True).config)
    state = load(run, learner.init(jax.random.key(0)))
    assert state.update == 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))

"""The loop of the learners: what it calls when, what it keeps, and what it leaves in the run folder."""

import json
import re
import signal
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.io.command_line import Interrupted
from jaxvrp.io.whole_files import write_whole
from train import mappo
from train.on_policy.config import PPOConfig
from train.run import checkpoint, loop
from train.run.checkpoint import Checkpoints
from train.run.metrics import summarize
from train.run.records import read_records
from train.run.resume import RecordedRun
from train.settings import command_line
from train.shown import report
from train.shown.loggers import open_loggers

SIZES = "--num_envs 4 --rollout_length 8 --num_minibatches 2 --num_epochs 1 --num_devices 1 --hidden_sizes [8]"
WORLD = "--env.num_customers 2 --env.num_route_nodes 3 --env.max_steps 12"
SCENARIO = """
import jax.numpy as jnp
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic

class Counted(TruckDroneBasic):
    '''Two metrics more: the time squared, and how often each drone could have been asked.'''

    def metrics(self, world):
        time = world.step.astype(jnp.float32)
        asked = time * jnp.arange(1, self.num_drones + 1, dtype=jnp.float32)
        return {**super().metrics(world), "time_squared": time**2, "asked": asked}
"""


class Scripted:
    """A learner whose state is the number of updates, and whose evaluated return is `returns[update]`."""

    env = evaluation_env = types.SimpleNamespace(max_episode_steps=20)

    def __init__(self, returns=None, bad=None, **config):
        defaults = {"num_envs": 1, "rollout_length": 10, "eval_interval": 1, "save_interval": 1}
        self.config = PPOConfig(**{**defaults, **config})
        self.returns, self.bad, self.calls = returns or {}, bad, []

    def init(self, key):
        del key
        return {"update": jnp.zeros((), jnp.int32)}

    def train_chunk(self, state):
        length, now = self.config.log_interval, int(state["update"])
        updates = np.arange(now + 1, now + length + 1, dtype=np.float32)
        self.calls.append(("train", now + length))
        if self.config.num_seeds > 1:
            updates = np.stack([updates, updates + 100])
        loss = np.where(updates == self.bad, np.nan, updates)
        steps = np.full_like(updates, 3)
        episodes = {"episode/episodes": steps, "episode/episode_return": 6 * updates, "episode/served": 3 * updates}
        return {"update": state["update"] + length}, {"truck/value_loss": loss, **episodes}

    def actor_params(self, state):
        return int(state["update"])

    def actor(self, params, *, deterministic, temperature=1.0):
        raise NotImplementedError


class NoReport:
    """Writes nothing at the end of a run."""

    def __init__(self, *_):
        pass

    def write(self, *_):
        return []


@pytest.fixture
def play(tmp_path, monkeypatch):
    """`play(learner)`: the loop over it in a run folder, with its script instead of episodes; the records."""

    def evaluation(learner, evaluator, **_):
        def figures(update):
            learner.calls.append(("evaluate", update))
            return {"return": np.float32(learner.returns.get(update, 0.0))}

        return figures

    monkeypatch.setattr(loop, "evaluation_function", evaluation)

    def run(learner, resume=False):
        shown = loop.Shown(open_loggers, NoReport)
        loop.run(learner, tmp_path, RecordedRun(learner.config, "mappo"), resume=resume, shown=shown)
        return list(read_records(tmp_path / "metrics.jsonl"))

    return run


def saved(folder):
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir())


def test_means_over_episodes_wait_until_every_environment_can_have_ended_one(play):
    records = play(Scripted(total_steps=30))  # episodes of up to 20 steps, rollouts of 10
    assert [record["episode/return"] for record in records] == [None, 4.0, 6.0]
    assert [record["episode/count"] for record in records] == [3.0, 3.0, 3.0]


def test_intervals(play, tmp_path):
    learner = Scripted(total_steps=120, log_interval=2, eval_interval=4, save_interval=6)
    records = play(learner)
    assert [record["update"] for record in records] == [2, 4, 6, 8, 10, 12]
    assert [record["env_steps"] for record in records] == [20, 40, 60, 80, 100, 120]
    assert [record["update"] for record in records if "eval/return" in record] == [4, 8, 12]
    assert learner.calls.count(("evaluate", 12)) == 1
    assert saved(tmp_path)[-1] == 12
    assert [record["truck/value_loss"] for record in records] == [1.5, 3.5, 5.5, 7.5, 9.5, 11.5]
    assert [record["episode/return"] for record in records] == [3.0, 7.0, 11.0, 15.0, 19.0, 23.0]
    assert all(record["episode/count"] == 6 for record in records)


def test_a_run_ends_with_an_evaluation_and_a_checkpoint(play, tmp_path):
    records = play(Scripted(total_steps=65, eval_interval=4, save_interval=4))
    assert [record["update"] for record in records if "eval/return" in record] == [4, 7]
    assert saved(tmp_path)[-1] == 7


def test_what_a_killed_run_left_half_written_goes_at_the_next_start(play, tmp_path):
    left = {}

    def kill(partial):
        partial.write_text("half")
        left[partial] = partial.read_bytes()

    write_whole(tmp_path / "summary.json", kill)
    for path, half in left.items():
        path.write_bytes(half)
    foreign = tmp_path / "notes.part"
    foreign.write_text("mine")
    play(Scripted(total_steps=10))
    assert left and not any(path.exists() for path in left)
    assert foreign.exists()


def test_the_latest_and_the_best_are_kept(play, tmp_path):
    play(Scripted(returns={1: -3.0, 2: 8.0, 3: 1.0, 4: 7.0, 5: 2.0, 6: 3.0}, total_steps=60))
    assert saved(tmp_path) == [2, 6]
    checkpoints = Checkpoints(tmp_path / "checkpoints", read_only=True)
    assert (checkpoints.best, checkpoints.latest) == (2, 6)
    like = {"update": jnp.zeros((), jnp.int32)}
    assert [int(checkpoints.load(like, update)["update"]) for update in (2, 6, None)] == [2, 6, 6]


def test_the_best_may_be_the_latest_or_unevaluated(play, tmp_path):
    play(Scripted(returns={2: 1.0, 4: 5.0}, total_steps=40))
    assert saved(tmp_path) == [4]
    checkpoints = Checkpoints(tmp_path / "checkpoints", read_only=True)
    assert checkpoints.best == checkpoints.latest == 4


def test_a_checkpoint_that_a_run_drops_while_others_read_it(tmp_path):
    state = {"update": jnp.zeros((), jnp.int32)}
    writing = Checkpoints(tmp_path)
    writing.save(1, state, None, {})
    reading = Checkpoints(tmp_path, read_only=True)
    writing.save(2, state, None, {})
    for read in (lambda: reading.load(state), lambda: reading.configuration(1)):
        with pytest.raises(command_line.UserError) as refused:
            read()
        assert str(refused.value) == "the checkpoint of update 1 was dropped meanwhile: the run goes on; try again"


def test_a_checkpoint_that_a_run_drops_while_others_list_it(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "_complete", lambda _: [1])
    with pytest.raises(
        command_line.UserError, match=r"^the checkpoint of update 1 was dropped meanwhile: .* try again$"
    ):
        Checkpoints(tmp_path, read_only=True)


def test_only_what_orbax_leaves_behind_is_silenced(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    checkpoint._silence_closed_event_loops.__wrapped__()
    errors = [RuntimeError("Event loop is closed"), RuntimeError("another"), ValueError("Event loop is closed")]
    for error in errors:
        sys.unraisablehook(types.SimpleNamespace(exc_value=error))
    assert [failure.exc_value for failure in reported] == errors[1:]


def test_a_return_that_is_not_finite_is_never_the_best(play, tmp_path):
    play(Scripted(returns={1: 1.0, 2: np.nan, 3: np.inf, 4: 0.0}, total_steps=40))
    assert saved(tmp_path) == [1, 4]


def test_resuming_a_finished_run_changes_nothing(play, tmp_path):
    first = play(Scripted(total_steps=30))
    again = Scripted(total_steps=30)
    assert play(again, resume=True) == first
    assert again.calls == [("evaluate", 3)]  # for the report


def test_what_is_beyond_the_checkpoint_is_cut_off(play, tmp_path):
    records = play(Scripted(total_steps=30))
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"update": 4, "env_steps": 40}\n{"update": 5, "env_')
    assert play(Scripted(total_steps=30), resume=True) == records


@pytest.mark.parametrize(("interval", "kept"), [(1, 6), (2, 6), (3, 6), (5, 5)])
def test_the_update_of_a_loss_that_is_not_finite(interval, kept, play, tmp_path):
    learner = Scripted(bad=7, total_steps=300, log_interval=interval, eval_interval=interval, save_interval=interval)
    with pytest.raises(
        command_line.UserError, match=rf"value_loss is not finite at update 7; .* of update {kept} is kept"
    ):
        play(learner)
    assert saved(tmp_path)[-1] == kept
    assert [record["update"] for record in read_records(tmp_path / "metrics.jsonl")][-1] == kept


def test_a_loss_that_is_not_finite_in_one_seed(play):
    learner = Scripted(bad=103, total_steps=80, num_seeds=2, log_interval=2, eval_interval=2, save_interval=4)
    with pytest.raises(command_line.UserError, match="not finite at update 3; stopped, no checkpoint had been written"):
        play(learner)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_at_once(number, play, tmp_path):
    class Stopped(Scripted):
        def train_chunk(self, state):
            if int(state["update"]) == 2:
                signal.raise_signal(number)
            return super().train_chunk(state)

    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=rf"^interrupted at update 3 of 8; everything .* --resume {tmp_path}$"):
        play(Stopped(total_steps=80, eval_interval=5, save_interval=5))
    assert signal.getsignal(number) is before
    assert saved(tmp_path) == [3]
    learner = Scripted(total_steps=80, eval_interval=5, save_interval=5)
    assert [record["update"] for record in play(learner, resume=True)] == list(range(1, 9))
    assert learner.calls[0] == ("train", 4)


@pytest.mark.parametrize(
    ("save_interval", "saves", "says"),
    [
        (1, [1, 2], "stopped at once; the checkpoint of update 2 of 8 is kept, go on with --resume {run}"),
        (5, [], "stopped at once; nothing is saved, as there is no checkpoint yet; delete {run}, and start anew"),
    ],
)
def test_a_second_ctrl_c_stops_in_the_middle(save_interval, saves, says, play, tmp_path):
    class Impatient(Scripted):
        def train_chunk(self, state):
            if int(state["update"]) == 2:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            return super().train_chunk(state)

    with pytest.raises(Interrupted) as stopped:
        play(Impatient(total_steps=80, returns={1: 1.0}, save_interval=save_interval))
    assert str(stopped.value) == says.format(run=tmp_path)
    assert saved(tmp_path) == saves


@pytest.mark.parametrize("where", ["init", "report"])
def test_ctrl_c_before_and_after_training(where, play, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    learner = Scripted(total_steps=20)
    monkeypatch.setattr(*((learner, "init") if where == "init" else (NoReport, "write")), interrupted)
    kept = "nothing is saved" if where == "init" else "the checkpoint of update 2 of 2 is kept"
    with pytest.raises(Interrupted, match=f"^stopped at once.*{kept}"):
        play(learner)


def test_a_folder_that_cannot_be_written_any_more(play, tmp_path):
    play(Scripted(total_steps=20))
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(
        command_line.UserError, match=r"cannot write .*metrics\.jsonl: Is a directory; mend that; .*kept"
    ):
        play(Scripted(total_steps=20), resume=True)


DAMAGES = {
    "a byte": (
        lambda lines: [*lines[:2], b"\xff" + lines[2], *lines[3:]],
        [3],
        "line 3 damaged, .*; no record of update 3",
    ),
    "a number": (lambda lines: [*lines[:2], b"5", *lines[3:]], [3], "line 3 damaged, .*; no record of update 3"),
    "nothing": (lambda lines: [b"{}", *lines[1:]], [1], "line 1 damaged, .*; no record of update 1"),
    "no update": (lambda lines: [*lines[:5], b'{"update": null}'], [6], "line 6 damaged, .*; no record of update 6"),
    "half": (lambda lines: [lines[0], lines[1][:9], *lines[2:]], [2], "line 2 damaged, .*; no record of update 2"),
    "one more": (lambda lines: [*lines[:2], b"5", *lines[2:]], [], "line 3 damaged, .*"),
    "short": (lambda lines: lines[:3], [4, 5, 6], "no record of updates 4 to 6"),
    "empty": (lambda lines: [], [1, 2, 3, 4, 5, 6], "the file is empty or missing: no record of updates 1 to 6"),
}
"""By name: what happens to the lines of a file, which updates are lost, and what is said."""


@pytest.mark.parametrize(("damage", "lost", "says"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_records_are_told_and_the_run_goes_on(damage, lost, says, play, tmp_path, capfd):
    play(Scripted(total_steps=60, save_interval=6))
    paths = [tmp_path / name for name in ("metrics.jsonl", "timing.jsonl")]
    for path in paths:
        path.write_bytes(b"".join(line + b"\n" for line in damage(path.read_bytes().splitlines())))
    damaged = [path.read_bytes() for path in paths]
    capfd.readouterr()
    play(Scripted(total_steps=80, save_interval=8), resume=True)
    warnings = [line for line in capfd.readouterr().err.splitlines() if "warning" in line]
    for path, warning, content in zip(paths, warnings, damaged, strict=True):
        assert re.fullmatch(f"warning: {path}: {says}; the run goes on from its checkpoint", warning)
        assert [record["update"] for record in read_records(path)] == [n for n in range(1, 9) if n not in lost]
        beside = [path.read_bytes() for path in tmp_path.glob(f"{path.name}.*")]
        assert beside == [content] * ("damaged" in says)


def test_records_that_are_damaged_during_a_run_are_not_drawn(tmp_path, capfd):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 1, "env_steps": 1}\n5\n{"update": 3, "env_steps": 3}\n')
    assert [record["update"] for record in report.whole_records(path)] == [1, 3]
    assert capfd.readouterr().err == f"warning: {path}: line 2 damaged, and not drawn\n"


def test_means_are_over_finished_episodes():
    metrics = {
        "episode/episodes": np.array([1.0, 0.0, 3.0]),
        "episode/episode_return": np.array([10.0, 0.0, 50.0]),
        "episode/asked": np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 10.0]]),
        "drone/ratio": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    }
    assert summarize(metrics, 1) == {
        "episode/count": 4.0,
        "episode/return": 15.0,
        "env/asked_0": 1.0,
        "env/asked_1": 3.0,
        "drone_0/ratio": 3.0,
        "drone_1/ratio": 4.0,
    }
    none = summarize({name: np.zeros_like(value) for name, value in metrics.items()}, 1)
    assert none.keys() == summarize(metrics, 1).keys()
    assert (none["episode/count"], none["episode/return"], none["env/asked_0"]) == (0.0, None, None)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """The run folder of a short run of two seeds, drones with actors of their own, a scenario with further metrics."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "counted_scenario.py").write_text(SCENARIO)
    argv = f"{SIZES} {WORLD} --env.scenario counted_scenario:Counted --share_drone_policy false --num_seeds 2"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        mappo.main(f"{argv} --total_steps 128 --eval_interval 4 --eval_episodes 4 --run_dir {folder / 'run'}".split())
    return folder / "run"


@pytest.mark.slow
def test_records_of_two_seeds(seeds):
    records = list(read_records(seeds / "metrics.jsonl"))
    assert {path.name for path in seeds.iterdir()} >= {"summary.json", "learning_curve.png", "episode.gif"}
    for name in ("truck/entropy", "drone_0/policy_loss", "drone_1/policy_loss", "env/time_squared", "env/asked_1"):
        values = [record[name] for record in records if record[name] is not None]
        assert all(len(pair) == 2 for pair in values), name
    for name in ("truck/policy_loss", "drone_0/policy_loss", "drone_1/entropy"):
        first, second = records[-1][name]
        assert first != second, name
    assert not any(name.startswith("drone/policy") for name in records[-1])


@pytest.mark.slow
def test_further_metrics_of_a_scenario(seeds):
    records = list(read_records(seeds / "metrics.jsonl"))
    ended = [record for record in records if record["env/time_step"] is not None]
    assert ended
    for record in ended:
        time = np.array(record["env/time_step"])
        np.testing.assert_allclose(record["env/asked_0"], time, rtol=1e-5)
        np.testing.assert_allclose(record["env/asked_1"], 2 * time, rtol=1e-5)
        assert np.all(np.array(record["env/time_squared"]) >= time**2 * (1 - 1e-5))
    assert "eval/asked" not in records[-1]
    assert [np.shape(records[-1][f"eval/asked_{drone}"]) for drone in range(2)] == [(2,), (2,)]


@pytest.mark.slow
def test_summary_of_two_seeds(seeds):
    summary = json.loads((seeds / "summary.json").read_text())
    assert np.shape(summary["policy"]["return"]) == (2,)
    assert [np.shape(summary["policy"][f"asked_{drone}"]) for drone in range(2)] == [(2,), (2,)]
    assert isinstance(summary["greedy"]["return"], float) and isinstance(summary["greedy"]["asked_1"], float)

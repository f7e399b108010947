"""Loggers: what TensorBoard and Weights & Biases are given of a run, as their own files say; wandb offline."""

import importlib.util
import json
import struct
import sys
import time
import types

import pytest
from PIL import Image
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

from jaxvrp.io.command_line import UserError
from jaxvrp.io.yaml_text import load_yaml
from train import mappo
from train.on_policy.config import PPOConfig
from train.run.folder import write_configuration
from train.run.metrics import MetricsWriter
from train.run.resume import RecordedRun, changes_of, resumed
from train.settings import command_line
from train.shown import loggers
from train.shown.loggers import check_loggers, open_loggers

CONFIGURATION = {"algorithm": "mappo", "env": {"name": "darp", "num_nodes": 4}, "gamma": 0.5, "hidden_sizes": [8, 8]}
CONFIGURATION |= {"lr_decay": True, "start_from": None, "most": float("inf")}

needs_wandb = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason="needs the extra wandb: pip install -e '.[wandb]'"
)


@pytest.fixture
def pictures(tmp_path):
    """A still, and a picture that moves."""
    still, moving = tmp_path / "episode.png", tmp_path / "episode.gif"
    Image.new("RGB", (6, 4), "red").save(still)
    frames = [Image.new("RGB", (5, 3), colour) for colour in ("red", "blue")]
    frames[0].save(moving, save_all=True, append_images=frames[1:])
    return [still, moving]


def write(folder, loggers, updates, pictures=(), ended_well=True):
    """What a run does to its writer, from the first of some updates to the last, with 10 steps each."""
    start = 10 * (updates[0] - 1)
    writer = MetricsWriter(folder, lambda: open_loggers(loggers, folder, CONFIGURATION, start))
    for update in updates:
        record = {"update": update, "env_steps": 10 * update, "eval/return": [update, update + 1.0], "empty": None}
        writer.write(record, {"update": update, "time/seconds": 0.5})
    writer.flush()
    if pictures:
        writer.show_pictures(pictures, 10 * updates[-1])
    writer.close(ended_well=ended_well)


def events(folder):
    """The events in the files of a folder, in order."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        content, position = path.read_bytes(), 0
        while position < len(content):  # length u64, its checksum u32, the event, its checksum u32
            (length,) = struct.unpack_from("<Q", content, position)
            found.append(Event.FromString(content[position + 12 : position + 12 + length]))
            position += length + 16
    return found


def values(folder):
    """`(tag, step, value)` of all summaries."""
    return [(value.tag, event.step, value) for event in events(folder) for value in event.summary.value]


def hyperparameters(folder):
    """What the plugin of that name is told: `{kind: message}`."""
    messages = {}
    for tag, _, value in values(folder):
        if tag.startswith("_hparams_/"):
            content = HParamsPluginData.FromString(value.metadata.plugin_data.content)
            assert value.metadata.plugin_data.plugin_name == "hparams"
            messages[tag.removeprefix("_hparams_/")] = content
    return messages


def test_tensorboard_shows_the_configuration_beside_figures(tmp_path, caplog):
    write(tmp_path, ["tensorboard"], [1])
    messages = hyperparameters(tmp_path)
    keys = messages["session_start_info"].session_start_info.hparams
    assert keys["gamma"].number_value == 0.5
    assert keys["lr_decay"].bool_value is True
    assert keys["env.num_nodes"].number_value == 4
    words = ("algorithm", "env.name", "hidden_sizes", "start_from", "most")
    assert {name: keys[name].string_value for name in words} == {
        "most": "inf",
        "algorithm": "mappo",
        "env.name": "darp",
        "hidden_sizes": "[8, 8]",
        "start_from": "null",
    }
    metrics = {info.name.tag for info in messages["experiment"].experiment.metric_infos}
    assert metrics == {"eval/return", "episode/return"}
    assert messages["session_end_info"].session_end_info.status == 1, "SUCCESS, in the protocol of TensorBoard"
    assert not caplog.records, "a number without end is no error"


def test_tensorboard_is_not_told_that_a_run_ended_which_stopped(tmp_path):
    write(tmp_path, ["tensorboard"], [1], ended_well=False)
    assert "session_end_info" not in hyperparameters(tmp_path)


def test_tensorboard_shows_figures_and_pictures_at_environment_steps(tmp_path, pictures):
    write(tmp_path, ["tensorboard"], [1, 2])
    write(tmp_path, ["tensorboard"], [3], pictures)
    shown = values(tmp_path)
    assert [(step, value.simple_value) for tag, step, value in shown if tag == "eval/return"] == [
        (10, 1.5),
        (20, 2.5),
        (30, 3.5),
    ]
    images = {tag: (step, value.image) for tag, step, value in shown if value.HasField("image")}
    assert set(images) == {"episode.png", "episode.gif"}
    for picture in pictures:
        step, image = images[picture.name]
        assert step == 30 and image.encoded_image_string == picture.read_bytes()
    assert (images["episode.png"][1].width, images["episode.png"][1].height) == (6, 4)
    assert (images["episode.gif"][1].width, images["episode.gif"][1].height) == (5, 3)


def test_without_loggers_there_are_records_alone(tmp_path, pictures):
    run = tmp_path / "run"
    run.mkdir()
    write(run, [], [1], pictures)
    assert {path.name for path in run.iterdir()} == {"metrics.jsonl", "timing.jsonl"}


def records(path):
    """The records in a file of wandb: after 7 bytes, blocks of 32 KiB with parts of records, as LevelDB's log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(content):
        left = 2**15 - position % 2**15
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        if position + 7 + length > len(content):  # it is being written
            return
        part = content[position + 7 : position + 7 + length]
        parts, position = (parts + part if kind in (3, 4) else part), position + 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(parts)


def whole(path):
    """All records of a run that has ended; a process of wandb's own writes them, and may still be at it."""
    until, kinds = time.monotonic() + 60, []
    while "exit" not in kinds:
        assert time.monotonic() < until, f"{path} has no end: {kinds}"
        time.sleep(0.05)
        kinds = [record.WhichOneof("record_type") for record in records(path)]
    return list(records(path))


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """wandb writes in the run folder alone."""
    for name in ("WANDB_PROJECT", "WANDB_NAME", "WANDB_RUN_ID", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DISABLE_GIT", "true")


@pytest.mark.slow
@needs_wandb
@pytest.mark.filterwarnings("default")  # what others warn of is theirs
def test_wandb_offline_and_a_resume_that_goes_on_with_the_run(tmp_path, pictures, offline):
    check_loggers(["wandb"])
    run = tmp_path / "four"
    run.mkdir()
    write(run, ["wandb"], [1, 2], ended_well=False)
    write(run, ["tensorboard", "wandb"], [3], pictures)
    number = (run / "wandb" / "run_id").read_text().strip()
    files = sorted((run / "wandb").glob("offline-run-*/*.wandb"))
    assert [path.name for path in files] == [f"run-{number}.wandb"] * 2
    stretches = [whole(path) for path in files]
    for stretch in stretches:
        (begun,) = [record.run for record in stretch if record.HasField("run")]
        assert (begun.run_id, begun.display_name, begun.project) == (number, "four", "jaxvrp")
        keys = {entry.key: json.loads(entry.value_json) for entry in begun.config.update}
        assert keys.items() >= CONFIGURATION.items()
    shown = [history(stretch) for stretch in stretches]
    assert [(step, each["eval/return"]) for step, each in shown[0].items()] == [(10, 1.5), (20, 2.5)]
    assert shown[1][30]["eval/return"] == 3.5 and shown[1][30]["time/seconds"] == 0.5
    assert "update" not in shown[0][10] and "empty" not in shown[0][10]
    assert shown[1][30]["episode.png/_type"] == "image-file"
    assert shown[1][30]["episode.gif/_type"] == "video-file"
    kept = [path.read_bytes() for path in (run / "wandb").glob("offline-run-*/files/media/*/*")]
    assert sorted(kept) == sorted(picture.read_bytes() for picture in pictures)
    ends = [record.exit.exit_code for stretch in stretches for record in stretch if record.HasField("exit")]
    assert ends == [1, 0]


def history(stretch):
    """By wandb's own step: what was shown there."""
    shown = {}
    for record in stretch:
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            shown.setdefault(items["_step"], {}).update(items)
    return shown


@pytest.mark.parametrize("found", [None, types.ModuleType("wandb")], ids=["nothing", "a folder"])
def test_without_wandb_nothing_begins(found, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", found)
    with pytest.raises(
        UserError, match=r"logger names wandb, which is not installed; pip install -e '\.\[wandb\]' in a clone"
    ):
        mappo.main(["--logger", "[wandb]", "--run_dir", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_without_a_login_nothing_begins(monkeypatch):
    wandb = types.ModuleType("wandb")
    settings = types.SimpleNamespace(mode="online")
    wandb.init = None
    wandb.setup = lambda: types.SimpleNamespace(settings=settings)
    wandb.login = lambda prompt: False
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(isatty=lambda: False))
    with pytest.raises(UserError, match="no user is logged in there; run `wandb login`, set WANDB_MODE=offline, or"):
        check_loggers(["tensorboard", "wandb"])
    settings.mode = "offline"
    check_loggers(["wandb"])


def test_what_wandb_refuses_is_one_line(monkeypatch, tmp_path):
    wandb = types.ModuleType("wandb")
    wandb.Error, wandb.Settings = type("Error", (Exception,), {}), lambda **_: None

    def init(**_):
        raise wandb.Error("no\nroute")

    wandb.init = init
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    with pytest.raises(UserError, match=r"^wandb cannot begin a run: no route; run `wandb login`"):
        loggers.WandbRun(tmp_path, {})


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("wandb", r"logger is 'wandb'; it must be a list, for example \[tensorboard, wandb\]"),
        ("true", r"logger is True; it must be a list"),
        ("[tensorbord]", "logger is 'tensorbord'; it must be one of: tensorboard, wandb"),
        ("[1]", "logger is 1; it must be a text"),
    ],
)
def test_a_mistake_is_one_line(typed, says):
    with pytest.raises(UserError, match=says):
        command_line.parse(PPOConfig, ["--logger", typed], prog="train.mappo", description="")


@pytest.mark.parametrize("typed", [[], ["tensorboard"], ["wandb", "tensorboard"]])
def test_the_key(typed):
    words = ["--logger", f"[{', '.join(typed)}]"]
    assert command_line.parse(PPOConfig, words, prog="train.mappo", description="").config.logger == tuple(typed)


def test_a_resume_takes_other_loggers(tmp_path):
    before = RecordedRun(PPOConfig(logger=("wandb",)), "mappo")
    after = resumed(before, {"logger": ("tensorboard", "wandb")}, 0)
    assert after.config.logger == ("tensorboard", "wandb")
    write_configuration(tmp_path, after)
    content = load_yaml((tmp_path / "config.yaml").read_text())
    assert content["changes"] == [
        {"update": 0, "before": {"logger": ["wandb"]}, "after": {"logger": [*after.config.logger]}}
    ]
    assert changes_of(content.pop("changes"), content) == after.changes
    assert resumed(before, {"logger": ("wandb",)}, 0) is before

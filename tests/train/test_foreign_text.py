"""Whatever a name or a file says, what is printed about it is short, and nothing in it steers the terminal."""

import json
import pathlib
import shutil
import zipfile

import numpy as np
import pytest

import jaxvrp
from benchmarks.records import check
from benchmarks.records import run as bench
from jaxvrp.io.command_line import UserError, run_command
from jaxvrp.io.messages import escaped
from jaxvrp.io.yaml_text import dump_yaml, read_yaml
from jaxvrp.policies.folder import SHIPPED
from jaxvrp.testing import ConformanceError
from jaxvrp_command import main as command
from train import evaluate, mappo, play, plot, replay, solve, sweep
from train.run.checkpoint import CONTENTS, Checkpoints
from train.solving.shards import collect

HOSTILE = "\x1b[31mred\x07\x00\x9b2J\u202e\udcff" + "\u200b" * 1000 + "x" * 3000

LONGEST = 2000
"""Characters of all that a command prints about one mistake."""


def message_of(capsys, main, *words):
    """What a command that ends with a mistake prints; it is one line."""
    assert run_command(lambda: main(list(words)), (ConformanceError,)) == 2
    out, errors = capsys.readouterr()
    assert errors.startswith("error: ") and errors.count("\n") == 1
    return out + errors


def is_plain(text):
    return len(text) < LONGEST and escaped(text) == text


def test_what_is_typed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day = {"format": "jaxvrp-dispatch-day-1", "horizon": 60, "vehicles": [], "requests": []}
    pathlib.Path("day.json").write_text(json.dumps(day))
    for main, words in (
        (evaluate.main, ["--run", HOSTILE]),
        (evaluate.main, ["--run", "darp", "--instance", HOSTILE]),
        (evaluate.main, ["--run", "truck_drone_basic", f"--env.{HOSTILE}", "3"]),
        (play.main, [HOSTILE]),
        (play.main, ["darp", "--actor", HOSTILE]),
        (play.main, [HOSTILE + ":Class"]),
        (replay.main, ["--run", HOSTILE]),
        (solve.main, [HOSTILE]),
        (solve.main, ["day.json", "--env", HOSTILE]),
        (solve.main, ["--collect", HOSTILE]),
        (plot.main, [HOSTILE]),
        (mappo.main, ["--config", HOSTILE]),
        (mappo.main, ["--resume", HOSTILE]),
        (mappo.main, [f"--{HOSTILE}", "3"]),
        (mappo.main, ["--env.name", HOSTILE]),
        (mappo.main, ["--env.scenario", HOSTILE]),
        (mappo.main, ["--network", HOSTILE]),
        (mappo.main, ["--imitate", HOSTILE]),
        (mappo.main, ["--start_from", HOSTILE]),
        (mappo.main, ["--run_dir", "day.json/" + HOSTILE]),
        (sweep.main, ["--config", HOSTILE, "--space", HOSTILE]),
        (bench.main, [HOSTILE, "--method", "search", "--out", "a.json"]),
        (check.main, [HOSTILE]),
    ):
        text = message_of(capsys, main, *words)
        assert is_plain(text), (words, text)
    for words in ([HOSTILE], ["train", HOSTILE], ["list", HOSTILE], ["list", f"--{HOSTILE}"]):
        with pytest.raises(SystemExit):
            command.main(words)
        assert is_plain(capsys.readouterr().err), words


@pytest.fixture
def policy(tmp_path):
    """A copy of a shipped policy: the path of its folder."""
    return pathlib.Path(shutil.copytree(SHIPPED / "truck_drone_basic", tmp_path / "policy"))


def refusal(policy):
    with pytest.raises((ValueError, TypeError)) as refused:
        jaxvrp.load_policy(policy)
    return str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"name": HOSTILE}},
        {"env": {"scenario": HOSTILE}},
        {"env": {"scenario": f"{HOSTILE}:Scenario"}},
        {"env": {HOSTILE: 3}},
        {"env": {"num_drones": HOSTILE}},
        {"env": HOSTILE},
        {"env": 5},
        {"algorithm": HOSTILE},
        {"network": HOSTILE},
        {"hidden_sizes": [HOSTILE]},
        {"hidden_sizes": {HOSTILE: HOSTILE}},
        {"imitate": HOSTILE},
        {"imitate": 3},
        {"start_from": HOSTILE},
        {"stages": [{HOSTILE: 3}]},
        {"stages": HOSTILE},
        {"randomize": {HOSTILE: [1, 2]}},
        {"eval_env": {HOSTILE: 1}},
        {"changes": HOSTILE},
        {"config": HOSTILE},
        {"logger": [HOSTILE]},
        {HOSTILE: HOSTILE},
        {5: 5},
    ],
    ids=lambda changes: "-".join(map(str, changes))[:20].encode("unicode_escape").decode(),
)
def test_a_configuration(changes, policy, capsys):
    path = policy / "config.yaml"
    values = read_yaml(path)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(values.get(name), dict)
        values[name] = {**values[name], **value} if both else value
    # YAML refuses most control characters as they are, and reads them escaped.
    text = json.dumps(values) if 5 not in values else dump_yaml(values)
    path.write_text(text)
    for main, words in ((evaluate.main, ["--run", str(policy)]), (mappo.main, ["--config", str(path)])):
        run_command(
            lambda main=main, words=words: main([*words, "--total_steps", "x"][: len(words) + 2 * (main is mappo.main)])
        )
        out, errors = capsys.readouterr()
        assert errors.startswith("error: ") and is_plain(out + errors), errors
    assert is_plain(refusal(policy)) and refusal(policy).startswith(str(policy))


def test_a_card_and_arrays(policy, capsys):
    card = json.loads((policy / "policy.json").read_text())
    for changes in (
        {"version": HOSTILE},
        {"checksums": {HOSTILE: HOSTILE, "config.yaml": HOSTILE}},
        {"training": HOSTILE},
        {"training": {"update": HOSTILE}},
        {HOSTILE: HOSTILE},
        {"figures": 10**17, "checksums": 3},
    ):
        (policy / "policy.json").write_text(json.dumps({**card, **changes}))
        assert is_plain(refusal(policy)), changes
    (policy / "policy.json").write_text(json.dumps({**card, "checksums": {}}))
    name = HOSTILE.replace("\0", "").replace("\udcff", "")
    for number in (1, 400):
        np.savez(policy / "actor.npz", **{f"{name[:9]}{each}{name[9:40]}": np.zeros(0) for each in range(number)})
        assert is_plain(refusal(policy))
        shutil.copy(policy / "actor.npz", policy / "problem.npz")
        assert is_plain(message_of(capsys, solve.main, str(policy / "problem.npz")))
    for header in (
        b"[" * 1000,
        b"{'descr': [('\x1b[31m', '<f8')], 'fortran_order': False, 'shape': (0,)}",
        name.encode(),
    ):
        content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        with zipfile.ZipFile(policy / "problem.npz", "w") as archive:
            archive.writestr(f"{name}.npy", content)
        assert is_plain(message_of(capsys, solve.main, str(policy / "problem.npz")))


def test_a_record(tmp_path, capsys):
    known = pathlib.Path(__file__).parents[2] / "benchmarks" / "results" / "records" / "darp_10_requests_search.json"
    record = json.loads(known.read_text())
    path = tmp_path / "record.json"
    for changes in (
        {"format": HOSTILE},
        {"set": {**record["set"], "name": HOSTILE}},
        {"set": {**record["set"], "checksum": HOSTILE}},
        {"player": HOSTILE},
        {"plans": [{HOSTILE: HOSTILE}]},
        {"seconds_per_problem": {"wall": HOSTILE}},
    ):
        path.write_text(json.dumps({**record, **changes}))
        assert is_plain(message_of(capsys, check.main, str(path))), changes
    assert is_plain(check.shown_record({**record, "player": {HOSTILE: HOSTILE}}))


def test_manifests(tmp_path):
    manifest = {"shard": 1, "of": 1, "files": [{"file": HOSTILE, "error": HOSTILE}]}
    (tmp_path / "manifest-1-of-1.json").write_text(json.dumps(manifest))
    assert is_plain(collect(tmp_path))
    for files in (
        [{"file": "a", "plan": HOSTILE}],
        [{"file": HOSTILE, "plan": 5}],
        [{"file": "a", "problem": "0"}],
        [5],
        HOSTILE,
    ):
        (tmp_path / "manifest-1-of-1.json").write_text(json.dumps({**manifest, "files": files}))
        with pytest.raises(UserError) as refused:
            collect(tmp_path)
        assert is_plain(str(refused.value))


def test_contents_of_a_checkpoint(tmp_path):
    saved = Checkpoints(tmp_path)
    state = {"weights": jaxvrp.environment.jnp.zeros(2)}
    saved.save(1, state, None, {})
    path = tmp_path / "1" / CONTENTS
    contents = json.loads(path.read_text())
    for changes in (
        {"version": HOSTILE},
        {"arrays": {HOSTILE: HOSTILE}},
        {"arrays": {**contents["arrays"], HOSTILE: 5}},
        {"arrays": {name: HOSTILE for name in contents["arrays"]}},
        {"files": {HOSTILE: HOSTILE}},
        {HOSTILE: HOSTILE},
        {"evaluated_return": HOSTILE},
    ):
        path.write_text(json.dumps({**contents, **changes}))
        with pytest.raises(UserError) as refused:
            Checkpoints(tmp_path).load(state)
        assert is_plain(str(refused.value)), changes


def test_problems(tmp_path, capsys):
    vehicle = {"id": "van", "speed": 30, "capacity": 10}
    request = {"id": HOSTILE, "arrival": 5, "dropoff": [3, 0]}
    day = {"format": "jaxvrp-dispatch-day-1", "horizon": 480, "depot": [0, 0], "vehicles": [vehicle]}
    for changes in (
        {"requests": [request, request]},
        {"requests": [{**request, "dropoff": HOSTILE}]},
        {"requests": [{**request, HOSTILE: 3}]},
        {"requests": [request], "vehicles": [{**vehicle, "id": HOSTILE}] * 2},
        {"format": HOSTILE},
        {HOSTILE: HOSTILE},
        {"horizon": HOSTILE},
    ):
        path = tmp_path / "day.json"
        path.write_text(json.dumps({**day, **changes}))
        assert is_plain(message_of(capsys, solve.main, str(path))), changes
    for ending in (".txt", ".csv", ".pcb", ".nodes", ".npz", ".json", ".html", ""):
        path = tmp_path / f"problem\x1b[31m{ending}"
        for content in (HOSTILE, f"2 16 480 3 30\n{HOSTILE}\n", f"component {HOSTILE}\n" * 300):
            path.write_text(content, errors="replace")
            assert is_plain(message_of(capsys, solve.main, str(path))), (ending, content)


def test_the_report_of_a_plan(tmp_path):
    day = {
        "format": "jaxvrp-dispatch-day-1",
        "horizon": 480,
        "depot": [0, 0],
        "vehicles": [{"id": "\x1b[31mvan\u202e", "speed": 30, "capacity": 10}],
        "requests": [{"id": "\x1b[31m\u007fd\n\u0085ör\u3000Ż", "arrival": 5, "dropoff": [3, 0]}],
    }
    path = tmp_path / "day.json"
    path.write_text(json.dumps(day))
    solution = solve.solve(path, method="accept")
    text = solve.report(solution)
    assert escaped(text) == text and r"\x1b[31m\x7fd ör Ż" in text and r"\x1b[31mvan\u202e" in text

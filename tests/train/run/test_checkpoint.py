"""Checkpoints: complete or not there, whenever a process dies; the latest and the best; damage is one line."""

import contextlib
import json
import math
import os
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.io.command_line import UserError
from train.run import checkpoint
from train.run.checkpoint import CONTENTS, Checkpoints

CONFIGURATION = {"algorithm": "mappo", "gamma": 0.99, "env": {"name": "darp", "max_ride_time": math.inf}}


def state_of(update):
    return {"update": jnp.asarray(update, jnp.int32), "weights": jnp.full((3, 2), update, jnp.float32)}


def save(folder, update, evaluated_return=None):
    Checkpoints(folder).save(update, state_of(update), evaluated_return, CONFIGURATION)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def loaded(folder, update=None):
    """What a fresh process reads: the number that fills the state."""
    state = Checkpoints(folder, read_only=True).load(state_of(0), update)
    assert np.all(state["weights"] == state["update"])
    return int(state["update"])


def changed_contents(folder, update, **values):
    path = folder / str(update) / CONTENTS
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture
def folder(tmp_path):
    """Checkpoints 1 and 2, both of use: the first is the best."""
    save(tmp_path / "checkpoints", 1, 5.0)
    save(tmp_path / "checkpoints", 2, 1.0)
    return tmp_path / "checkpoints"


def test_what_a_checkpoint_says(folder):
    assert names(folder) == ["1", "2"]
    assert Checkpoints(folder, read_only=True).configuration(2) == CONFIGURATION
    contents = json.loads((folder / "2" / CONTENTS).read_text())
    assert (contents["version"], contents["evaluated_return"]) == (1, 1.0)
    assert contents["arrays"] == {"['update']": "int32[]", "['weights']": "float32[3, 2]"}
    files = {path.relative_to(folder / "2").as_posix() for path in (folder / "2").rglob("*") if path.is_file()}
    assert set(contents["files"]) == files - {CONTENTS}


def test_the_latest_and_the_best(folder):
    saved = Checkpoints(folder)
    assert (saved.find("latest"), saved.find("best")) == (2, 1)
    assert [loaded(folder), loaded(folder, 1)] == [2, 1]
    saved.save(3, state_of(3), None, CONFIGURATION)
    assert names(folder) == ["1", "3"]
    saved.save(4, state_of(4), 5.0, CONFIGURATION)  # no better than the first
    assert (names(folder), saved.best) == (["1", "4"], 1)
    saved.save(10, state_of(10), 5.5, CONFIGURATION)
    assert (names(folder), saved.best, saved.latest) == (["10"], 10, 10)


def test_a_part_of_the_state_that_is_nothing_may_be_newer_than_the_checkpoint(folder):
    read = Checkpoints(folder, read_only=True).load({**state_of(0), "newer": None})
    assert read["newer"] is None and int(read["update"]) == 2
    with pytest.raises(UserError, match=r"newer.* is not there"):
        Checkpoints(folder, read_only=True).load({**state_of(0), "newer": jnp.zeros(2)})


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_was_not_evaluated_is_the_best_only_if_nothing_was(value, tmp_path):
    save(tmp_path, 1, value)
    assert Checkpoints(tmp_path, read_only=True).best == 1
    save(tmp_path, 2, -1e9)
    save(tmp_path, 3, value)
    assert (names(tmp_path), Checkpoints(tmp_path, read_only=True).best) == (["2", "3"], 2)


ODD = ["a[x]", "[!a]", "back\\slash", "gs:", "s3:", "*", "a?", "{a,b}", "~", "a b ", "'q\"", "%41#", "dot.", "-dash"]
ODD += ["$HOME", "new\nline", "ünï🚚", "[a-z]*\\?"]


@pytest.mark.parametrize("name", ODD)
def test_a_folder_of_any_name_gives_back_what_it_was_given(name, tmp_path):
    """In some, the storage of arrays sees a pattern, a bucket or two folders."""
    folder = tmp_path / name / "run" / "checkpoints"
    save(folder, 1, 5.0)
    save(folder, 2)
    assert (names(folder), loaded(folder), loaded(folder, 1)) == (["1", "2"], 2, 1)
    assert names(tmp_path) == [name]


def test_a_save_that_cannot_be_read_back_is_none(folder, tmp_path, monkeypatch):
    """As on a disk that forgets; here orbax takes the name for a pattern, and drops all arrays without a word."""
    odd = folder.rename(tmp_path / "a[x]")
    monkeypatch.setattr(checkpoint, "_plain", contextlib.nullcontext)
    with pytest.raises(OSError, match="what was written there cannot be read back") as failure:
        save(odd, 3, 9.0)
    assert failure.value.filename == str(odd / ".partial-3")
    monkeypatch.undo()
    assert loaded(odd) == 2


def test_a_save_that_reads_back_as_something_else_is_none(folder, monkeypatch):
    write = checkpoint._write_arrays
    monkeypatch.setattr(checkpoint, "_write_arrays", lambda state, path: write(state_of(4), path))
    with pytest.raises(OSError, match="cannot be read back"):
        save(folder, 3, 9.0)
    assert loaded(folder) == 2


@pytest.fixture
def deaths(monkeypatch, tmp_path):
    """`deaths(folder)`: copies of it, as it is before every change of a name, every deletion and every flush."""

    @contextlib.contextmanager
    def watch(folder):
        copies, numbers = [], iter(range(1000))

        def copy():
            copies.append(tmp_path / f"died_{next(numbers)}")
            shutil.copytree(folder, copies[-1])

        def watched(function):
            def call(*args, **options):
                copy()
                return function(*args, **options)

            return call

        with monkeypatch.context() as patch:
            for module, name in ((os, "rename"), (os, "replace"), (os, "fsync"), (os, "unlink"), (os, "rmdir")):
                patch.setattr(module, name, watched(getattr(module, name)))
            yield copies

    return watch


def test_whenever_a_process_dies_a_checkpoint_is_there(folder, deaths):
    """As after `kill -9`: the folder as it was then, read by another process, which goes on from there."""
    with deaths(folder) as copies:
        save(folder, 3, 9.0)  # the best too, so that both others are dropped
    assert names(folder) == ["3"]
    found = [sorted(int(name) for name in names(copy) if name.isdigit()) for copy in copies]
    latest = [Checkpoints(copy, read_only=True).latest for copy in copies]
    assert latest == [max(updates) for updates in found] == sorted(latest)
    assert {*map(tuple, found)} >= {(1, 2), (1, 2, 3), (3,)} and len(copies) > 20
    for copy, updates in zip(copies, found, strict=True):
        assert [loaded(copy, update) for update in updates] == updates, "what has a name is complete"
    for copy in copies[:: len(copies) // 4]:
        save(copy, 4, 9.5)
        assert (names(copy), loaded(copy)) == (["4"], 4)


def test_what_a_killed_save_left_is_removed_by_the_next_writer_alone(folder):
    for name in (".partial-3", ".partial-3.orbax-checkpoint-tmp", ".partial-1.removed"):
        shutil.copytree(folder / "2", folder / name)
    before = names(folder)
    assert loaded(folder) == 2
    assert names(folder) == before
    Checkpoints(folder)
    assert names(folder) == ["1", "2"]


def test_a_folder_without_contents_is_no_checkpoint(folder):
    (folder / "2" / CONTENTS).unlink()
    (folder / "notes.txt").write_text("mine")
    assert loaded(folder) == 1
    save(folder, 2, 7.0)
    assert (names(folder), loaded(folder)) == (["2", "notes.txt"], 2)
    (folder / "2" / CONTENTS).unlink()
    with pytest.raises(UserError, match="holds no complete checkpoint; train anew"):
        Checkpoints(folder, read_only=True).find("latest")


def test_a_folder_that_is_not_there_is_not_made_to_be_read(tmp_path):
    saved = Checkpoints(tmp_path / "nowhere", read_only=True)
    assert saved.latest is saved.best is None
    with pytest.raises(UserError, match="nowhere holds no complete checkpoint"):
        saved.load(state_of(0))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", ["", "5", "[]", '{"version": 1', '{"version": 1}', "[" * 100_000, "\xff"])
def test_damaged_contents_are_one_line(content, folder):
    (folder / "2" / CONTENTS).write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"checkpoints/2: it is damaged .*contents\.json was changed.*from update 1$"):
        Checkpoints(folder)


@pytest.mark.parametrize(
    "changes",
    [{"files": 5}, {"configuration": []}, {"evaluated_return": "5"}, {"evaluated_return": 10**400}, {"more": 1}],
)
def test_contents_of_other_types_are_one_line(changes, folder):
    changed_contents(folder, 2, **changes)
    with pytest.raises(UserError, match=r"contents\.json was changed"):
        Checkpoints(folder)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_checkpoints_of_another_version_are_refused(version, folder):
    changed_contents(folder, 2, version=version)
    with pytest.raises(
        UserError, match=rf"another version .* wrote .*/2: .* version {version!r}, not 1; use that version"
    ):
        Checkpoints(folder)


def test_checkpoints_from_before_there_was_a_version_are_refused(folder):
    path = folder / "2" / CONTENTS
    contents = json.loads(path.read_text())
    path.write_text(json.dumps({name: contents[name] for name in ("arrays", "files")}))
    with pytest.raises(UserError, match="another version of this program wrote"):
        Checkpoints(folder, read_only=True)


def test_arrays_that_were_changed_are_found(folder):
    data = max(pathlib.Path(folder / "2" / "state").rglob("*"), key=lambda path: path.is_file() * path.stat().st_size)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(UserError, match=rf"damaged .*{data.name} is missing or was changed.* go on from update 1"):
        loaded(folder)
    wider = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state_of(0))
    with pytest.raises(UserError, match=r"\['update'\] is int32\[\], this run has int32\[2\]"):
        Checkpoints(folder).load(wider, 1)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda state: (state / "d" / "more").symlink_to("/dev/zero"), "state/d/more is no file"),
        (lambda state: (state / "array_metadatas" / "more").write_text(""), "state/array_metadatas/more was added"),
        (lambda state: os.truncate(next((state / "d").iterdir()), 2**40), "is larger than its arrays"),
    ],
)
def test_files_that_may_be_endless_are_not_opened(spoil, says, folder):
    spoil(folder / "2" / "state")
    with pytest.raises(UserError, match=rf"damaged .*{says}.* go on from update 1"):
        loaded(folder)
    assert loaded(folder, 1) == 1
    (folder / "1" / ".DS_Store").write_text("")
    assert loaded(folder, 1) == 1

"""What the tests of several environments share: published data, problems that are equal, files, and command lines."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published.data import VARIABLE, data_folder

# Resolved now: tests change the current folder.
DATA = data_folder().resolve()


@pytest.fixture(scope="session")
def published_folder():
    """`published_folder(*families)`: the folder that holds the published data; skips where a family is missing."""

    def find(*families):
        missing = [name for name in families if not (DATA / name).is_dir()]
        if missing:
            remedy = f"no {missing[0]} in {DATA}; set {VARIABLE}"
            pytest.skip(f"the benchmark data are not part of the repository: {remedy}")
        return DATA

    return find


@pytest.fixture(scope="session")
def published_city(published_folder):
    """Degrees `f64[n, 2]` of places in a city of Murray & Raj; seconds and metres along its streets, `f64[n, n]`."""
    folder = published_folder("mfstsp_murray_raj") / "mfstsp_murray_raj" / "20170606T113038113409"
    table = np.loadtxt(folder / "tbl_truck_travel_data_PG.csv", delimiter=",", comments="%")
    count = int(table[:, 0].max()) + 1
    seconds, metres = (table[:, column].reshape(count, count) for column in (2, 3))
    return np.loadtxt(folder / "tbl_locations.csv", delimiter=",", comments="%")[:, [2, 3]], seconds, metres


@pytest.fixture(scope="session")
def assert_same():
    """`assert_same(problem, other)`: equal to the last bit, dtypes included."""

    def compare(problem, other):
        for field in dataclasses.fields(problem):
            arrays = getattr(problem, field.name), getattr(other, field.name)
            np.testing.assert_array_equal(*arrays, err_msg=field.name, strict=True)

    return compare


@pytest.fixture
def write(tmp_path):
    """`write(content, name)`: the path of a file with that text, or bytes."""

    def put(content, name="hand.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


@pytest.fixture
def full_disk(monkeypatch):
    """From now on, nothing that was written can be put in its place."""

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)


@pytest.fixture
def assert_refused(capsys):
    """`assert_refused(main, arguments, words)`: exit status 2, one line with these words, and no file made."""

    def check(main, arguments, words):
        before = sorted(Path.cwd().iterdir())
        assert main(arguments.split()) == 2
        out, error = capsys.readouterr()
        assert out == "" and error.startswith("error: ") and words in error and error.count("\n") == 1
        assert sorted(Path.cwd().iterdir()) == before

    return check

"""Every test process has two CPU devices, and keeps what it compiled for the next run."""

import os
import pathlib

import pytest

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
# Programs that compile in half the time, and run slower: compiling takes most of the time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "jaxvrp-tests"))
# Also the hundreds of tiny programs of plain calls: together they take longer than the large ones.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def pytest_addoption(parser):
    """`--thorough`: tests that compare many random steps with a slow reference play all of them, and not a quarter."""
    parser.addoption("--thorough", action="store_true", help="compare four times as many steps with the references")


@pytest.fixture(scope="session")
def share(request):
    """`share(count)`: how many of so many episodes or steps are played: all with `--thorough`, else a quarter."""
    return (lambda count: count) if request.config.getoption("--thorough") else (lambda count: -(-count // 4))

"""Every test process has two CPU devices, and keeps what it compiled for the next run."""

import ctypes
import gc
import os
import pathlib
import shutil
import signal
import sys

import pytest

from benchmarks import fast_compilation

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.update({**fast_compilation.variables(), **os.environ})
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "jaxvrp-tests"))
# Also the hundreds of tiny programs of plain calls: together they take longer than the large ones.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Runs sync what they write: the files of tests lie in memory where there is enough of it. (A container has 64 MB.)
if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2**32:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# What a shell starts in the background ignores Ctrl-C; the tests of it want Python's own handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis  # noqa: F401  (looks at objects of trio, which wandb brings, before `seldom_collect` hides them)
import jax
import numpy as np

TOGETHER = ("jaxvrp/envs/dispatch", "jaxvrp/show", "train/on_policy")
"""Folders whose files go to one process of `--dist loadfile`: they share programs, which another would trace again."""

LONGEST = (
    "train/run/test_run.py",
    "jaxvrp/test_testing.py",
    "train/commands/test_stages.py",
    "jaxvrp/envs/flying_sidekicks/test_sidekicks.py",
    "jaxvrp/envs/pcb/test_env.py",
    "train/test_sweep.py",
    "jaxvrp/policies/test_load.py",
    "test_lowering.py",
    "jaxvrp/envs/truck_drone/test_same_day.py",
    "jaxvrp/envs/truck_drone/test_parity.py",
    "test_docs.py",
    "train/test_solve.py",
    "jaxvrp/envs/truck_drone/test_vrpd_tw.py",
)
"""Other files that take longest: they begin first, so that no process has one left when the others have ended."""

MOST_MEMORY = 2**32
"""Bytes; a test process that holds more, or a sixth of the machine's memory, lets go of the programs of the files that
it is through with. Files that share them with these trace them again."""

CORES_FOR_ALL = 4
"""Cores from which on the tests marked as slow are run, too: on two, all tests would take more than ten minutes."""

PROGRAMS_PER_CONTEXT = 200
"""Programs that are lowered in one context of MLIR."""


def pytest_configure(config):
    """Files are handed out in the order of collection; by default the files with most tests go first."""
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, files of a folder of `TOGETHER` are handed out as one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(f"tests/{folder}/")), file)

    return Scheduling(config, log)


def cores():
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def leaves_slow_tests_out(config):
    """Whether the tests marked as slow are left out."""
    return cores() < CORES_FOR_ALL and not config.getoption("--slow")


def pytest_terminal_summary(terminalreporter, config):
    """That not all tests ran, where it is so."""
    if leaves_slow_tests_out(config):
        terminalreporter.write_line(
            f"fewer than {CORES_FOR_ALL} cores: tests marked as slow were left out; --slow runs them"
        )


def pytest_collection_modifyitems(config, items):
    """The folders of `TOGETHER` and the longest files first, and no slow tests on few cores."""
    if leaves_slow_tests_out(config):
        config.hook.pytest_deselected(items=[item for item in items if is_slow(item)])
        items[:] = [item for item in items if not is_slow(item)]
    folder = pathlib.Path(__file__).parent
    places = {folder / name: place for place, name in enumerate((*TOGETHER, *LONGEST))}

    def place(item):
        return min(places.get(path, len(places)) for path in (item.path, *item.path.parents))

    items.sort(key=place)


def is_slow(item):
    """Whether a test is marked as slow, or this form of it: `slow("large", ...)` names forms by their id."""
    form = item.callspec.id if hasattr(item, "callspec") else ""
    return any(not mark.args or form in mark.args for mark in item.iter_markers("slow"))


@pytest.fixture(scope="session", autouse=True)
def seldom_collect():
    """Garbage is looked for less often, and not among what was imported: tracing makes many objects, most to stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def share_contexts():
    """Programs are lowered in a context of MLIR that serves many of them: making one takes 8 ms, a third of a tiny one.

    What is interned there stays as long as the context does, so that it is given up after so many.
    """
    lowering = sys.modules.get("jax._src.interpreters.mlir")
    if not hasattr(lowering, "make_ir_context"):  # private to JAX: another release may have none
        yield
        return
    make, current, served = lowering.make_ir_context, None, 0

    def shared():
        nonlocal current, served
        if served % PROGRAMS_PER_CONTEXT == 0:
            current = make()
        served += 1
        return current

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "make_ir_context", shared)
        yield


@pytest.fixture(scope="module", autouse=True)
def let_go(seldom_collect):
    """Programs of a file that is over are dropped once they take much memory; they still lie on disk."""
    yield
    statm = pathlib.Path("/proc/self/statm")
    if not statm.exists():
        return
    most = min(MOST_MEMORY // os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES") // 6)
    if int(statm.read_text().split()[1]) > most:
        jax.clear_caches()
        gc.collect()
        # Else the process would still hold what was freed, and let go of everything again after each file that follows.
        getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: None)(0)


@pytest.fixture(scope="session", autouse=True)
def check_shapes_once():
    """Trainers check every environment that they are given; one that has passed is not checked again.

    What the check finds depends on the class and on the parameters alone, and both are compared here.
    """
    prepare = sys.modules.get("train.settings.environment")
    if prepare is None:  # no test of this session trains
        yield
        return
    check, passed = prepare.check_shapes, set()

    def once(env):
        leaves, structure = jax.tree.flatten(env)
        arrays = map(np.asarray, leaves)
        values = ((each.dtype, each.shape, each.tobytes()) for each in arrays)
        name = (type(env), structure, *map(type, leaves), *values)
        if name not in passed:
            check(env)
            passed.add(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "check_shapes", once)
        yield


def pytest_addoption(parser):
    """`--thorough`: tests that compare many random steps with a slow reference play all of them, and not a quarter.

    `--slow`: also on few cores, run the tests that take long and check a further form of what another test checks, or
    what seldom changes.
    """
    parser.addoption("--thorough", action="store_true", help="compare four times as many steps with the references")
    parser.addoption("--slow", action="store_true", help="run the tests marked as slow, however few cores there are")


@pytest.fixture(scope="session")
def share(request):
    """`share(count)`: how many of so many episodes or steps are played: all with `--thorough`, else a quarter."""
    return (lambda count: count) if request.config.getoption("--thorough") else (lambda count: -(-count // 4))


@pytest.fixture
def registered_apart(monkeypatch):
    """What a test registers is forgotten after it."""
    from jaxvrp import registry

    monkeypatch.setattr(registry, "_ENTRIES", {kind: dict(names) for kind, names in registry._ENTRIES.items()})

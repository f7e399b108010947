"""How every command line begins and ends."""

import importlib.metadata
import os
import subprocess
import sys
import warnings

import pytest

from jaxvrp.io.command_line import Interrupted
from train.commands import entry


@pytest.mark.parametrize(
    ("error", "says"), [(KeyboardInterrupt(), "interrupted; "), (Interrupted("saved; go on"), "saved; go on\n")]
)
def test_ctrl_c_is_no_error(error, says, capfd):
    def interrupted():
        raise error

    with pytest.raises(SystemExit) as stopped:
        entry.entry(interrupted)
    output = capfd.readouterr().err
    assert stopped.value.code == 130
    assert output.startswith(says) and len(output.splitlines()) == 1


def test_a_warning_of_what_was_read_is_one_line(capfd):
    with warnings.catch_warnings(), pytest.raises(SystemExit):
        warnings.simplefilter("always")
        entry.entry(lambda: warnings.warn("day.json: a way is quicker by way of others", stacklevel=1))
    assert capfd.readouterr().err == "warning: day.json: a way is quicker by way of others\n"


@pytest.mark.parametrize(
    ("home", "named", "kept"),
    [
        ("/home/me", None, "/home/me/.cache/jaxvrp"),
        ("", None, None),  # of a user that the system does not know, it is `~`
        ("~", None, None),
        ("~", "/kept", "/kept"),
    ],
)
def test_programs_are_kept_where_there_is_a_home_directory(home, named, kept, monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda _: home)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    if named:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", named)
    assert entry.program_cache() == kept


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (None, entry.WHOLE_LOOPS),
        ("--xla_dump_to=/here", f"--xla_dump_to=/here {entry.WHOLE_LOOPS}"),
        ("--xla_backend_extra_options=xla_cpu_x", "--xla_backend_extra_options=xla_cpu_x"),
    ],
)
def test_flags_that_a_user_gives_stay(given, flags, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    if given:
        monkeypatch.setenv("XLA_FLAGS", given)
    entry.prefer_whole_loops()
    assert os.environ["XLA_FLAGS"] == flags


LOOP = """
import sys

from train.commands.entry import entry

def main():
    import jax
    import jax.numpy as jnp

    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda _, x: x - jnp.sin(x).sum() * x[::-1].cumsum(), x))
    print(loop.lower(jnp.ones(400)).compile().as_text().count("xla_cpu_small_call"))

entry(main, searches=len(sys.argv) > 1)
"""


# XLA has other limits in jaxlib 0.12: there a loop as small as this is one kernel anyway.
IS_ONE_ANYWAY = tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2])) >= (0, 12)


@pytest.mark.parametrize(("words", "kernels"), [((), f"{IS_ONE_ANYWAY:d}\n"), (("searches",), "1\n")])
def test_the_loops_of_a_command_line_that_searches_are_one_kernel(words, kernels):
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", LOOP, *words]
    done = subprocess.run(command, env=plain, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == kernels


INTERRUPTED = """
import atexit
from train.commands.entry import entry

def main():
    atexit.register(print, "taken down")
    print("half a table")
    raise KeyboardInterrupt

entry(main)
"""


IMPORTED = """
import runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module(sys.argv[2], run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("program", ["train.mappo", "train.sac"])
@pytest.mark.parametrize("module", ["jaxlib.xla_client", "train.commands.launch"])
def test_ctrl_c_while_programs_are_imported_is_one_line(module, program):
    command = [sys.executable, "-c", IMPORTED, module, program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; what was saved before is kept, and the same command begins anew\n"


def test_programs_that_were_used_longest_ago_make_room(tmp_path):
    for age in range(5):
        path = tmp_path / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    entry.make_room(str(tmp_path), most=500)
    assert len(list(tmp_path.iterdir())) == 5, "no more than there may be"
    entry.make_room(str(tmp_path), most=400)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-cache", "1-cache"]
    entry.make_room(str(tmp_path / "none"))


def test_an_interrupted_process_ends_at_once_with_all_that_it_has_said():
    """JAX, taken down while it compiles or computes, crashes: the exit status would be that of a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (130, "half a table\n")
    assert done.stderr.endswith("and the same command begins anew\n")

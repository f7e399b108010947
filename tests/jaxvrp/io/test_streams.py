"""Output that cannot fail: of a process of its own, whose standard streams are closed, full, or of a small encoding."""

import os
import subprocess
import sys

import pytest

from jaxvrp_command.names import ROOT

STREAMS = f"""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("streams", {str(ROOT / "jaxvrp" / "io" / "streams.py")!r})
streams = importlib.util.module_from_spec(spec)
spec.loader.exec_module(streams)
streams.protect()
"""


def end(script, redirected="", **environment):
    """Of a script that has `streams`, run by a shell with these redirections: status, output and errors."""
    argv = ["sh", "-c", f'exec "$0" -c "$1" {redirected}', sys.executable, STREAMS + script]
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", rb"\u017babka \xfc \udcff"),
        ("ascii:strict", rb"\u017babka \xfc \udcff"),
        ("latin-1", b"\\u017babka \xfc \\udcff"),
        ("cp1252", b"\\u017babka \xfc \\udcff"),
        ("utf-8", "Żabka ü ".encode() + rb"\udcff"),
    ],
)
def test_what_the_encoding_lacks_is_escaped(encoding, shown):
    script = "print('Żabka ü \\udcff'); print('ü', file=sys.stderr); sys.exit(streams.finish(0))"
    status, out, errors = end(script, PYTHONIOENCODING=encoding)
    assert (status, out.strip()) == (0, shown) and errors


LINES = "for line in range(10_000): print(line, flush=line < 3)\nprint('done', file=sys.stderr)"


@pytest.mark.parametrize("lines", [LINES, "print(1)"], ids=["many", "one"])
def test_a_reader_that_has_gone_ends_nothing(lines):
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-c", f"{STREAMS}{lines}\nsys.exit(streams.finish(0))"]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == (b"done\n" if lines == LINES else b"")


def test_a_full_device_is_one_line():
    line = b"error: cannot write to standard output: No space left on device; send it elsewhere\n"
    assert end("print(1); sys.exit(streams.finish(0))", ">/dev/full") == (2, b"", line)
    assert end("print(1); sys.exit(streams.finish(3))", ">/dev/full") == (3, b"", b""), "it has failed before"
    assert end("print(1, file=sys.stderr); sys.exit(streams.finish(0))", "2>/dev/full") == (0, b"", b"")


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_the_place_of_a_closed_stream(closed, tmp_path):
    path = tmp_path / "file"
    script = (
        f"file = open({str(path)!r}, 'w'); os.write(1, b'1'); os.write(2, b'2'); print(3); print(4, file=sys.stderr)"
    )
    status, _, _ = end(f"{script}; sys.exit(streams.finish(0))", closed)
    assert (status, path.read_bytes()) == (0, b"")


def test_a_library_may_put_the_streams_of_python_back():
    """As JaxMARL does when it is imported."""
    back = "sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__"
    script = f"{back}; streams.protect(); {back}; print('ü'); print(1, file=sys.stderr); sys.exit(streams.finish(0))"
    assert end(script, PYTHONIOENCODING="ascii") == (0, b"\\xfc\n", b"1\n")
    line = b"error: cannot write to standard output: No space left on device; send it elsewhere\n"
    assert end(f"{back}; print(1); sys.exit(streams.finish(0))", ">/dev/full") == (2, b"", line)

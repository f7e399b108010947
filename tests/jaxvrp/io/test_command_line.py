"""How a command ends: exit status, and one line on stderr after a mistake."""

import argparse
import re
import signal
import time
from pathlib import Path

import pytest

from jaxvrp.io.command_line import (
    INTERRUPTED,
    Interrupted,
    Parser,
    UserError,
    above_zero,
    check_picture_path,
    going_on,
    index,
    positive,
    refuse_overwriting,
    refuse_unwritable,
    run_command,
)


def raising(error):
    def command():
        raise error

    return command


def test_success_is_0_and_silent(capsys):
    assert run_command(lambda: "whatever") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("two\n  lines"), "error: two lines"),
        (ValueError("wrong"), "error: wrong"),
        (
            FileNotFoundError(2, "No such file", "a.txt"),
            "error: cannot read or write 'a.txt': No such file; give another path",
        ),
    ],
)
def test_a_mistake_is_one_line_and_2(capsys, error, line):
    assert run_command(raising(error), (ValueError,)) == 2
    assert capsys.readouterr() == ("", line + "\n")


def test_of_a_long_message_the_beginning_and_the_end_are_shown(capsys):
    assert run_command(raising(UserError("choose " + "x" * 10_000 + " or leave"))) == 2
    line = capsys.readouterr().err
    assert len(line) < 1000 and line.startswith("error: choose xx") and line.endswith("xx or leave\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Interrupted("stopped; resume it"), "stopped; resume it"),
        (KeyboardInterrupt(), "interrupted; what was saved before is kept, and the same command begins anew"),
    ],
)
def test_an_interruption_is_no_error_and_130(capsys, error, line):
    assert run_command(raising(error)) == INTERRUPTED == 130
    assert capsys.readouterr() == ("", line + "\n")


class Garbage:
    """Ctrl-C comes while it is collected."""

    def __del__(self):
        raise KeyboardInterrupt


def test_an_interruption_that_python_drops_is_none_that_is_lost(capsys):
    def work():
        garbage = Garbage()
        del garbage
        time.sleep(30)

    assert run_command(work) == INTERRUPTED
    assert capsys.readouterr().err.startswith("interrupted; what was saved before is kept")


def test_a_request_to_terminate_acts_like_ctrl_c_and_says_how_to_go_on(capsys):
    before = signal.getsignal(signal.SIGTERM)

    def work():
        with going_on("say it again"):
            signal.raise_signal(signal.SIGTERM)

    assert run_command(work) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted; say it again\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_device_without_room_is_one_line(capsys):
    assert run_command(raising(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4 bytes.\nmore"))) == 2
    line = "error: out of memory (RESOURCE_EXHAUSTED: Out of memory allocating 4 bytes.); lower the number of "
    assert capsys.readouterr().err == f"{line}environments or another size\n"


def test_a_bug_is_not_hidden():
    with pytest.raises(ValueError, match="a bug"):
        run_command(raising(ValueError("a bug")))
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 / 0, (ValueError,))


def test_a_parser_has_no_abbreviations_and_says_where_help_is():
    parser = Parser("package.module", "Do it.")
    parser.add_argument("--count", type=positive)
    assert parser.parse_args(["--count", "3"]).count == 3
    for arguments in (["--cou", "3"], ["--count", "0"], ["--count"]):
        with pytest.raises(UserError, match=r"; see python -m package\.module --help$"):
            parser.parse_args(arguments)


def test_an_option_is_given_once_by_any_of_its_names():
    parser = Parser("package.module", "Do it.")
    parser.add_argument("-o", "--out")
    parser.add_argument("--sizes", nargs="+")
    parser.add_argument("--fast", action="store_true")
    assert vars(parser.parse_args(["--sizes", "1", "1", "-o", "a", "--fast"])) == {
        "out": "a",
        "sizes": ["1", "1"],
        "fast": True,
    }
    for words in ("-o a -o b", "-o a --out a", "--out=a -ob", "--sizes 1 --out a --sizes 2", "--fast --fast"):
        with pytest.raises(UserError, match=r"^(-o/--out|--sizes|--fast) is given twice; leave one of them out; see"):
            parser.parse_args(words.split())
    with pytest.raises(UserError, match=r"^-o/--out is given twice"):
        parser.parse_known_args(["--key", "3", "-o", "a", "--key", "4", "-o", "b"])
    words = ["--key", "3", "--key", "4"]
    assert parser.parse_known_args(words)[1] == words, "that is for others to judge"


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (positive, {"1": 1, "12": 12, "4294967295": 2**32 - 1}, ["0", "-1", "1.5", "x", "", "4294967296"]),
        (index, {"0": 0, "7": 7}, ["-1", "1.5", "x", "", "100000000000"]),
        (above_zero, {"0.5": 0.5, "1e3": 1000.0}, ["0", "-1", "nan", "inf", "x", "", "1e39", "1e-45"]),
    ],
)
def test_types_of_arguments(read, good, bad):
    assert {word: read(word) for word in good} == good
    for word in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"'{word}' is no ")):
            read(word)


@pytest.mark.parametrize("read", [positive, index, above_zero])
def test_digits_without_end_are_one_short_line(read):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^'{'9' * 35} \\.\\.\\. is no "):
        read("9" * 5000)


def test_what_is_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, folder = Path("a.json"), Path("run")
    source.write_text("{}")
    folder.mkdir()
    (folder / "config.yaml").write_text("seed: 1")
    Path("link.json").symlink_to("a.json")
    Path("hard.json").hardlink_to("a.json")
    Path("same").symlink_to("run")
    for out in ("a.json", "./a.json", "run/../a.json", str(tmp_path / "a.json"), "link.json", "hard.json"):
        with pytest.raises(
            UserError, match=r"^-o is '.*', which would take the place of 'a\.json'; choose another -o$"
        ):
            refuse_overwriting(Path(out), "-o", [source])
    for out in ("run/config.yaml", "same/config.yaml", "run"):
        with pytest.raises(UserError, match=r"would take the place of 'run'"):
            refuse_overwriting(Path(out), "-o", [source, folder])
    with pytest.raises(UserError, match=r"would take the place of 'new\.json'"):
        refuse_overwriting(Path("./new.json"), "-o", [Path("new.json")])
    for out in ("b.json", "run/new.json", "away/a.json", "a.html"):
        refuse_overwriting(Path(out), "-o", [source, folder])


def test_the_path_of_a_picture_is_checked_early(tmp_path):
    endings = (".png", ".svg", ".pdf")
    check_picture_path(tmp_path / "a.PNG", endings)
    with pytest.raises(UserError, match=r"--out is 'a\.gif'; it must end in \.png, \.svg or \.pdf$"):
        check_picture_path(Path("a.gif"), endings)
    with pytest.raises(UserError, match=r"^--out .*a\.png: there is no folder .*away; make it first$"):
        check_picture_path(tmp_path / "away" / "a.png", endings)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_known_before_the_work_begins(tmp_path, monkeypatch):
    def full(path, content):
        path.write_text("")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(UserError, match=r"^--out .*a\.json: cannot write there: No space left on device"):
            refuse_unwritable(tmp_path / "a.json", "--out")
    with pytest.raises(UserError, match=r"this is a folder; give a file$"):
        refuse_unwritable(tmp_path, "--out")
    refuse_unwritable(tmp_path / "a.json", "--out")
    assert not list(tmp_path.iterdir())

"""How a command ends: exit status, and one line on stderr after a mistake."""

import argparse
import re
from pathlib import Path

import pytest

from jaxvrp.io.command_line import (
    INTERRUPTED,
    Interrupted,
    Parser,
    UserError,
    above_zero,
    check_picture_path,
    index,
    positive,
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


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Interrupted("stopped; resume it"), "stopped; resume it"),
        (KeyboardInterrupt(), "interrupted; what was saved before is kept"),
    ],
)
def test_an_interruption_is_no_error_and_130(capsys, error, line):
    assert run_command(raising(error)) == INTERRUPTED == 130
    assert capsys.readouterr() == ("", line + "\n")


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


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (positive, {"1": 1, "12": 12}, ["0", "-1", "1.5", "x", ""]),
        (index, {"0": 0, "7": 7}, ["-1", "1.5", "x", ""]),
        (above_zero, {"0.5": 0.5, "1e3": 1000.0}, ["0", "-1", "nan", "inf", "x", ""]),
    ],
)
def test_types_of_arguments(read, good, bad):
    assert {word: read(word) for word in good} == good
    for word in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"'{word}' is no ")):
            read(word)


def test_the_path_of_a_picture_is_checked_early(tmp_path):
    endings = (".png", ".svg", ".pdf")
    check_picture_path(tmp_path / "a.PNG", endings)
    with pytest.raises(UserError, match=r"--out is 'a\.gif'; it must end in \.png, \.svg or \.pdf$"):
        check_picture_path(Path("a.gif"), endings)
    with pytest.raises(UserError, match=r"but there is no folder '.*away'; make it first$"):
        check_picture_path(tmp_path / "away" / "a.png", endings)
    assert not list(tmp_path.iterdir())

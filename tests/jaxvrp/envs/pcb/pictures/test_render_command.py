"""The command that draws a board from a file: what it draws, and that a mistake costs one line and no file."""

import runpy
import sys

import pytest

from jaxvrp.envs.pcb import PcbFile, make_netlist, save, stack, write_pcb
from jaxvrp.envs.pcb.pictures.__main__ import main


@pytest.fixture
def files(make, tmp_path, monkeypatch):
    """The current folder, with boards."""
    board = make(pin_net=[0, 1, 0, 1, 1, 1], power_rail=[1, 0])
    write_pcb(tmp_path / "two.pcb", PcbFile((make_netlist(board, "small"),) * 2))
    save(tmp_path / "one.npz", board)
    save(tmp_path / "three.npz", stack([board] * 3))
    (tmp_path / "broken.pcb").write_text("pcb begin\n")
    (tmp_path / "board.txt").write_text("")
    (tmp_path / "link.png").symlink_to("two.pcb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "drawn"),
    [
        ("two.pcb", "two_0.png"),
        ("two.pcb --board 1 --out a.svg", "a.svg"),
        ("one.npz --out a.pdf", "a.pdf"),
        ("three.npz --board 2", "three_2.png"),
    ],
)
def test_the_command_draws(files, capsys, arguments, drawn):
    assert main(arguments.split()) == 0
    assert (files / drawn).stat().st_size > 5_000
    assert capsys.readouterr() == (f"drew {drawn}\n", "")


def test_bookshelf_boards_have_names(data_folder, tmp_path, capsys):
    out = tmp_path / "a.svg"
    assert main([str(data_folder / "cypress" / "small-2.nodes"), "--out", str(out)]) == 0
    assert "small-2" in out.read_text() and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "required: boards"),
        ("none.pcb", "cannot read or write 'none.pcb': No such file or directory; give another path"),
        ("none.npz", "No such file"),
        ("broken.pcb", "broken.pcb"),
        ("board.txt", "is neither .pcb, .nodes (Bookshelf) nor .npz"),
        ("two.pcb --out a.gif", "--out is 'a.gif'; it must end in .png, .svg or .pdf"),
        ("two.pcb --out away/a.png", "there is no folder away; make it first"),
        ("two.pcb --board 2", "two.pcb holds 2 boards; choose one with --board 0 to 1"),
        ("two.pcb --board -1", "argument --board: '-1' is no whole number from 0"),
        ("one.npz --board 1", "one.npz holds 1 board; leave --board out"),
        ("two.pcb --board x", "argument --board: 'x' is no whole number from 0"),
        ("two.pcb --board 0 --board 1", "--board is given twice"),
        (
            "two.pcb --out link.png",
            "--out is 'link.png', which would take the place of 'two.pcb'; choose another --out",
        ),
        ("two.pcb --bo 1", "unrecognized arguments"),
    ],
)
def test_mistakes_are_one_line(files, capsys, arguments, words):
    before = sorted(files.iterdir())
    assert main(arguments.split()) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.startswith("error: ") and words in error and error.count("\n") == 1
    assert sorted(files.iterdir()) == before


def test_as_a_module(files, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, main.__module__)
    monkeypatch.setattr(sys, "argv", ["pictures", "none.pcb", "--out", "a.png"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("jaxvrp.envs.pcb.pictures", run_name="__main__")
    out, error = capsys.readouterr()
    assert stop.value.code == 2 and out == ""
    assert error.startswith("error: ") and error.count("\n") == 1

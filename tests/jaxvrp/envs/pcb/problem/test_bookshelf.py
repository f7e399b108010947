"""Boards in Bookshelf form: what is read, and every way in which the files can be broken."""

import csv

import numpy as np
import pytest

from jaxvrp.envs.pcb.problem.board import make_board
from jaxvrp.envs.pcb.problem.bookshelf import read_bookshelf

NODES = """\
UCLA nodes 1.0

NumNodes : 2
NumTerminals : 0

# made by hand
C1 5 10
U2 80 60
"""
PLACES = """\
UCLA pl 1.0
# made by hand

U2 20 30 : N
C1 0 15.5 : FN
"""
NETS = """\
UCLA nets 1.0

NumNets : 2
NumPins : 3

NetDegree : 2 N0
\tU2 I : 35 -25.5
\tC1 I : 0 4
NetDegree : 1 N7
\tC1 I : 1.5 -4
"""
CANVAS = "board,canvas_width,canvas_height,row_height\nother,1,2,1\nhand,200,150,1\n"
FILES = {"hand.nodes": NODES, "hand.pl": PLACES, "hand.nets": NETS, "canvas.csv": CANVAS}


@pytest.fixture
def write_all(write):
    """`write_all({name: content})`: the `.nodes` file, beside the others; a content of None leaves the file out."""

    def put(changes):
        for name, content in (FILES | changes).items():
            path = write(content or "", name)
            if content is None:
                path.unlink()
        return path.with_name("hand.nodes")

    return put


def test_files_are_read_in_millimetres_with_y_down(write_all, assert_same):
    netlist = read_bookshelf(write_all({}))
    expected = make_board(
        [20.0, 15.0],
        [[0.5, 1.0], [8.0, 6.0]],
        [0, 0, 1],
        [[0, -0.4], [0.15, 0.4], [3.5, 2.55]],
        [0, 1, 0],
        [0, 0],
        position=[[0.25, 12.95], [6.0, 9.0]],
        side=[1, 0],
    )
    assert_same(netlist.board, expected)
    assert [part.name for part in netlist.components] == ["C1", "U2"]
    assert [net.name for net in netlist.nets] == ["N0", "N7"] and netlist.source == "hand"


def test_the_size_and_the_unit_can_be_given(write_all, assert_same):
    board = read_bookshelf(write_all({"canvas.csv": None}), outline=(400, 300), units_per_mm=20.0).board
    assert board.outline.tolist() == [20.0, 15.0] and board.size.tolist() == [[0.25, 0.5], [4.0, 3.0]]
    assert board.position.tolist() == [[0.125, 15 - 20.5 / 20], [3.0, 12.0]]


VARIANTS = {
    "terminal": ({"hand.nodes": NODES.replace("80 60", "80 60 terminal")}, {"fixed": [False, True]}),
    "fixed place": ({"hand.pl": PLACES.replace(": N", ": N /FIXED")}, {"fixed": [False, True]}),
    "no image": (
        {"hand.nodes": NODES.replace("80 60", "80 60 terminal_NI"), "hand.pl": PLACES.replace(": N", ": N /FIXED_NI")},
        {"fixed": [False, True], "size": np.array([[0.5, 1.0], [0, 0]])},
    ),
    "no sides": ({"hand.pl": PLACES.replace(" : N", "").replace(" : FN", "")}, {"side": [0, 0]}),
    "no offsets": (
        {"hand.nets": NETS.replace(" : 35 -25.5", "").replace(" I : 0 4", "").replace("1.5 -4", "")},
        {"pin_offset": np.zeros((3, 2))},
    ),
    "small letters": ({"hand.nodes": NODES.lower().replace("c1", "C1").replace("u2", "U2"), "hand.nets": NETS}, {}),
    "a canvas with semicolons": ({"canvas.csv": CANVAS.upper().replace("HAND", "hand").replace(",", ";") + "EOF"}, {}),
}


@pytest.mark.parametrize(("files", "changes"), VARIANTS.values(), ids=VARIANTS)
def test_variants_are_read(write_all, assert_same, files, changes):
    plain, board = (read_bookshelf(write_all(each)).board for each in ({}, files))
    changes = {name: np.asarray(value, getattr(plain, name).dtype) for name, value in changes.items()}
    assert_same(board, plain.replace(**changes))


def test_nets_without_names_are_numbered_as_no_net_of_the_file_is_called(write_all):
    netlist = read_bookshelf(write_all({"hand.nets": NETS.replace("N0", "net1").replace(" N7", "")}))
    assert [net.name for net in netlist.nets] == ["net1", "net 1"]


BROKEN = {
    "empty": ("nodes", "", "line 1: expected a Bookshelf file of nodes, found an empty file"),
    "binary": ("nets", b"\xff\x00", "byte 0: expected text, found binary data"),
    "another kind": ("pl", NODES, "line 1: expected 'UCLA pl 1.0'"),
    "prose": ("nets", "Nets\n", "line 1: expected 'UCLA nets 1.0'"),
    "short node": ("nodes", NODES.replace("C1 5 10", "C1 5"), "line 7: expected the 3 fields 'name width height', f"),
    "letters": ("nodes", NODES.replace("5 10", "5 ten"), "line 7: expected a number below 1000000000000 for height"),
    "negative": ("nodes", NODES.replace("5 10", "-5 10"), "line 7: expected a size of at least 0, found -5 x 10"),
    "name twice": ("nodes", NODES.replace("U2", "C1"), "line 8: expected a new name, found 'C1' again"),
    "missing node": ("nodes", NODES.replace("C1 5 10\n", ""), "line 3: expected as many as are there, 1, found 2"),
    "no count": ("nodes", NODES.replace("NumNodes : 2", ""), "line 1: expected a line 'NumNodes : 2' below; add it"),
    "half a count": (
        "nodes",
        NODES.replace(": 2", ": 2.5"),
        "line 3: expected a whole number of at least 0 for NumNod",
    ),
    "long count": ("nodes", NODES.replace(": 2", ": 2 3"), "line 3: expected 'NumNodes : count'"),
    "no node": ("nodes", "UCLA nodes 1.0\nNumNodes : 0\n", "line 1: expected at least one part below"),
    "short place": ("pl", PLACES.replace(" 30 :", " :"), "line 4: expected the 5 fields 'name x y : side', found 4"),
    "no colon": ("pl", PLACES.replace("30 :", "30 0"), "line 4: expected ':' before the side, found '0'"),
    "turned": ("pl", PLACES.replace("FN", "W"), "line 5: expected side N or FN, found 'W'"),
    "nowhere": (
        "pl",
        PLACES.replace("15.5", "nan"),
        "line 5: expected a number below 1000000000000 for y, found 'nan'",
    ),
    "unknown place": ("pl", PLACES.replace("C1", "C2"), "line 5: expected a part of the .nodes file, found 'C2'"),
    "unknown place of a long name": (
        "pl",
        PLACES.replace("C1", "C" * 3000),
        "line 5: expected a part of the .nodes file, found 'CCCC",
    ),
    "place twice": ("pl", PLACES.replace("C1", "U2"), "line 5: expected each part once, found 'U2' again"),
    "missing place": (
        "pl",
        PLACES.replace("C1 0 15.5 : FN\n", ""),
        "line 1: expected a place for each part, found none",
    ),
    "unknown pin": (
        "nets",
        NETS.replace("C1 I : 0", "C2 I : 0"),
        "line 8: expected a part of the .nodes file, found 'C2'",
    ),
    "short pin": ("nets", NETS.replace("35 ", ""), "line 7: expected the 5 fields 'part direction : x y', found 4"),
    "letter pin": ("nets", NETS.replace("35 ", "E "), "line 7: expected a number below 1000000000000 for x, found 'E'"),
    "endless pin": ("nets", NETS.replace("U2 I", "U" * 200_000 + " I"), "line 7: expected at most 131072 characters"),
    "short net": (
        "nets",
        NETS.replace(": 2 N0", ""),
        "line 6: expected the 4 fields 'NetDegree : degree name', found 1",
    ),
    "wrong degree": ("nets", NETS.replace("2 N0", "3 N0"), "line 6: expected as many pins as follow, 2, found 3"),
    "no degree": ("nets", NETS.replace("1 N7", "0 N7"), "line 9: expected a whole number of at least 1 for degree"),
    "loose pin": (
        "nets",
        NETS.replace("NetDegree : 2 N0\n", ""),
        "line 6: expected 'NetDegree : degree name' before the",
    ),
    "wrong nets": ("nets", NETS.replace("Nets : 2", "Nets : 3"), "line 3: expected as many as are there, 2, found 3"),
    "wrong pins": ("nets", NETS.replace("Pins : 3", "Pins : 2"), "line 4: expected as many as are there, 3, found 2"),
    "net of one name": ("nets", NETS.replace("N7", "N0"), "line 9: expected a new name, found 'N0' again; rename it"),
    "no nets": ("nets", "UCLA nets 1.0\nNumNets : 0\nNumPins : 0\n", "line 1: expected at least one net below"),
}


BROKEN |= {
    "many parts": (
        "nodes",
        NODES + "".join(f"n{i} 1 1\n" for i in range(10_001)),
        "expected at most 10000 parts; give",
    ),
    "many pins": ("nets", NETS + 10_001 * NETS.splitlines(True)[-1], "expected at most 10000 pins; give a smaller"),
}


@pytest.mark.parametrize(("suffix", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_line_expectation_and_remedy(write_all, suffix, content, message):
    path = write_all({f"hand.{suffix}": content})
    with pytest.raises(ValueError) as caught:
        read_bookshelf(path)
    text = str(caught.value)
    assert (
        text.startswith(str(path.with_suffix(f".{suffix}"))) and message in text and "; " in text and "\n" not in text
    )


def test_no_message_holds_a_control_character_of_the_file(write_all):
    refused = 0
    for name, text in {"hand.nodes": NODES, "hand.pl": PLACES, "hand.nets": NETS, "canvas.csv": CANVAS}.items():
        for at in range(len(text)):
            path = write_all({name: text[:at] + "\x1b" + text[at + 1 :]})
            try:
                read_bookshelf(path)
            except ValueError as error:
                refused += 1
                assert str(error).isprintable()
    assert refused > 200
    path = write_all({"canvas.csv": CANVAS.replace("200,", "").replace("row", "r\x1bw")})
    with pytest.raises(ValueError, match="expected the columns board, canvas_width, canvas_height, printable"):
        read_bookshelf(path)


CANVASES = {
    "missing": (None, "does not exist: expected the size of hand there; write it, or give outline="),
    "empty": ("", "line 1: expected a table of canvas sizes, found an empty file"),
    "other columns": (CANVAS.replace("canvas_width", "w"), "line 1: expected the columns board, canvas_width"),
    "no such board": (CANVAS.replace("hand", "foot"), "line 1: expected a line for hand below; add a line for hand"),
    "short line": (CANVAS.replace("200,", ""), "line 3: expected the 4 fields 'board canvas_width canvas_height row_h"),
    "letters": (CANVAS.replace("200", "wide"), "line 3: expected a number below 1000000000000 for canvas_width"),
    "a field without end": ("board," + "x" * 200_000 + CANVAS[5:], "line 1: expected at most 131072 characters; give"),
    "an open quote": ('"' + CANVAS, "line 1: expected fields between commas (unexpected end of data); correct the"),
    "beyond float32": (CANVAS.replace("200", "1e39"), "line 3: expected a number below 1000000000000 for canvas_width"),
    "flat": (CANVAS.replace("200", "0"), "line 3: expected a size above 0, found 0 x 150"),
}


@pytest.mark.parametrize(("content", "message"), CANVASES.values(), ids=CANVASES)
def test_a_broken_table_of_sizes_is_named_with_line_expectation_and_remedy(write_all, content, message):
    path = write_all({"canvas.csv": content})
    with pytest.raises(ValueError) as caught:
        read_bookshelf(path)
    text = str(caught.value)
    assert text.startswith(str(path.with_name("canvas.csv"))) and message in text and "; " in text and "\n" not in text


@pytest.mark.parametrize("suffix", ["nodes", "pl", "nets"])
def test_missing_files_stay_operating_system_errors(write_all, suffix):
    with pytest.raises(FileNotFoundError):
        read_bookshelf(write_all({f"hand.{suffix}": None}))


def test_every_published_board_is_read_with_its_reference_wirelength(data_folder, signal_hpwl):
    with (data_folder / "cypress" / "canvas.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 20
    for row in rows:
        board = read_bookshelf(data_folder / "cypress" / f"{row['board']}.nodes").board
        sizes = [board.num_components, board.num_nets, board.num_pins, int((board.side == 0).sum())]
        assert sizes == [int(row[name]) for name in ("components", "nets", "pins", "top_side")], row["board"]
        share = board.size.prod(axis=1).sum() / (2 * board.outline.prod())
        assert share == pytest.approx(float(row["utilisation_both_sides"]), abs=1e-4), row["board"]
        hpwl = 10 * signal_hpwl(board, board.position, board.orientation)
        assert hpwl == pytest.approx(float(row["reference_hpwl_all_nets"]), abs=1e-6), row["board"]
        inside = (board.position - board.size / 2 > -1e-9) & (board.position + board.size / 2 < board.outline + 1e-9)
        assert np.mean(inside) > 0.99, row["board"]

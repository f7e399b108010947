"""The `.pcb` format: round trips, and every way in which a file can be broken."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from jaxvrp.envs.pcb.problem.board import as_float32, make_board, pad, stack, trim
from jaxvrp.envs.pcb.problem.generator import generate, make_parameters
from jaxvrp.envs.pcb.problem.netlist import Component, Net, PcbFile, Pin, make_netlist
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb, write_pcb

TWO_PARTS = """\
filename=./hand.pcb
timestamp=1700000000
pcb begin
	.kicad_pcb=hand.kicad_pcb
	timestamp=1700000001
	id=7
	graph begin
		nodes begin
			3,"U1",6.5,4.00,110.1,90.3,0,0,1,8,8,0,-1
			5,R1,2.0,1.0,103.7,88,270.0,1,0,2,0,2,-1
		nodes end
		optimals begin
			3,U1,1000000.0,1e+06
			5,R1,1.25,10.5
		optimals end
		edges begin
			3,4,5,0.6,0.3,-2.5,0.5,1,5,1,2,0.9,0.95,0.75,0,0,2,"Net-(R1,Pad2)",0
			5,0,1,0.9,0.95,-0.75,0,0,3,0,1,0.6,0.3,-2.5,-1.5,1,1,GND,1
		edges end
	graph end
	board begin
		bb_min_x,100.0
		bb_min_y,80.2
		bb_max_x,120.0
		bb_max_y,95.2
	board end
pcb end
"""
BLOCK = TWO_PARTS[TWO_PARTS.index("pcb begin") :]
NODE = "'id name size_x size_y pos_x pos_y orientation layer locked pins pins_smd pins_th type'"


def edited(line, old, new, text=TWO_PARTS):
    """`text` with `old` replaced in a line (from 1); the empty `new` line is dropped."""
    rows = text.splitlines()
    assert old in rows[line - 1], rows[line - 1]
    rows[line - 1] = rows[line - 1].replace(old, new, 1)
    return "\n".join(rows) + "\n"


def without(*lines):
    return "".join(row for at, row in enumerate(TWO_PARTS.splitlines(keepends=True), 1) if at not in lines)


def test_a_file_is_read_in_order_relative_to_the_corner(write, assert_same):
    file = read_pcb(write(TWO_PARTS))
    (netlist,) = file.boards
    assert (file.filename, file.timestamp) == ("./hand.pcb", 1700000000)
    expected = make_board(
        [20.0, 15.0],
        [[6.5, 4.0], [2.0, 1.0]],
        [0, 0, 1, 1],
        [[-2.5, -1.5], [-2.5, 0.5], [-0.75, 0], [0.75, 0]],
        [1, 0, 1, 0],
        [0, 1],
        position=[[10.1, 10.1], [3.7, 7.8]],
        orientation=[0, 3],
        fixed=[True, False],
        side=[0, 1],
        target_wirelength=[np.inf, 1.25],
        target_hpwl=[np.inf, 10.5],
    )
    assert_same(netlist.board, expected)
    assert netlist.components == (Component(3, "U1", 8, 8, 0, -1), Component(5, "R1", 2, 0, 2, -1))
    assert netlist.pins[1:3] == (Pin(4, "5", 0.6, 0.3), Pin(0, "1", 0.9, 0.95))
    assert netlist.nets == (Net(2, "Net-(R1,Pad2)"), Net(1, "GND"))
    assert (netlist.source, netlist.origin) == ("hand.kicad_pcb", (100.0, 80.2))
    assert (netlist.timestamp, netlist.id) == (1700000001, 7)


@pytest.mark.parametrize(
    "text",
    [
        TWO_PARTS.replace("\n", "\r\n"),
        "\ufeff\n" + TWO_PARTS.replace("\n", "\n  \n").rstrip(),
        TWO_PARTS.replace("\t", ""),
        TWO_PARTS.replace("graph begin\n", "graph begin\nhpwl=105.7\n"),
        TWO_PARTS.replace("270.0", "-90"),
        TWO_PARTS.replace("270.0", "291.9"),
        TWO_PARTS.replace("0.5,1,5", "0.5,0,5").replace("-1.5,1,1", "-1.5,0,1"),
        edited(17, "0,0,2,", "0,1,2,"),
        re.sub(r"\w+ (begin|end)$|^[\t.\w]+=|bb_\w+", lambda found: found[0].upper(), TWO_PARTS, flags=re.MULTILINE),
        TWO_PARTS.replace("-2.5", "-2.5D0").replace("103.7", "1.037d+02") + "EOF\n\x1a",
        TWO_PARTS.replace(",-1\n", ",-1,,\n"),
    ],
    ids=[
        *("Windows", "blank lines", "no tabs", "hpwl", "a negative angle", "an oblique part that can be moved"),
        *("no lock in an edge", "a lock in an edge", "capitals", "exponents of Fortran, and an end", "empty fields"),
    ],
)
def test_other_forms_of_the_same_file(write, text, assert_same_file):
    assert_same_file(read_pcb(write(text)), read_pcb(write(TWO_PARTS)))


def test_the_head_and_the_id_are_optional_and_boards_follow_each_other(write):
    plain = BLOCK.replace("\tid=7\n", "")
    file = read_pcb(write(plain + BLOCK))
    assert file.filename is file.timestamp is None
    assert [board.id for board in file.boards] == [None, 7]


ALSO = "found the end of the file; restore"
BROKEN = {
    "empty": ("", "line 1: expected a .pcb file"),
    "blank": ("\n \n\t\n", "line 1: expected a .pcb file"),
    "binary": (b"\x93NUMPY\xff\xfe\x00", "byte 0: expected text, found binary data; give a .pcb file"),
    "prose": ("A board\n", "line 1: expected filename=... or timestamp=... or 'pcb begin', found 'A board'"),
    "head only": ("filename=a\n", f"line 1: expected 'pcb begin' after it, {ALSO}"),
    "the head twice": (TWO_PARTS.replace("timestamp=1700000000", "filename=b"), "line 2: expected filename once"),
    "a letter for a time": (edited(2, "1700000000", "now"), "line 2: expected a number below"),
    "half a second": (edited(5, "1700000001", "1.5"), "line 5: expected a whole number for timestamp, found '1.5'"),
    "no source": (without(4), "line 3: expected a line '.kicad_pcb=...' below; add it"),
    "no time": (without(5), "line 3: expected a line 'timestamp=...' below; add it"),
    "an unknown head": (edited(6, "id", "name"), "line 6: expected .kicad_pcb=... or timestamp=... or id=... or 'gra"),
    "no graph": (without(7), "line 7: expected .kicad_pcb=... or timestamp=... or id=... or 'graph begin'"),
    "no nodes": (without(8), "line 8: expected hpwl=... or 'nodes begin'"),
    "open nodes": (without(11), f"line 11: expected the 13 fields {NODE}, found 1; add"),
    "empty nodes": (without(9, 10), "line 8: expected at least one component below"),
    "missing optimal": (without(14), "line 12: expected a line for each component below, found none for id [5]"),
    "surplus optimal": (
        edited(14, "5,R1", "6,R1"),
        "line 14: expected each component of the nodes once, found 6,'R1'",
    ),
    "other optimal": (
        edited(14, "R1", "R2"),
        "line 14: expected each component of the nodes once, found 5,'R2'",
    ),
    "optimal twice": (
        edited(14, "5,R1", "3,U1"),
        "line 14: expected each component of the nodes once, found 3,'U1'",
    ),
    "negative optimal": (edited(14, "1.25", "-1"), "line 14: expected targets of at least 0"),
    "no number for an optimal": (edited(14, "1.25", "nan"), "line 14: expected a number below"),
    "no edges": (without(16, 17, 18, 19), "line 16: expected 'edges begin', found 'graph end'"),
    "empty edges": (without(17, 18), "line 16: expected at least one edge below"),
    "no board": (without(21, 22, 23, 24, 25, 26), "line 21: expected 'board begin', found 'pcb end'"),
    "short board": (without(23), "line 21: expected lines of bb_min_x, bb_min_y, bb_max_x, bb_max_y below; add"),
    "corner twice": (edited(23, "bb_min_y", "bb_min_x"), "line 23: expected each of bb_min_x, bb_min_y, bb_max_x"),
    "no number for a corner": (edited(23, "80.2", "inf"), "line 23: expected a number below"),
    "flat": (edited(25, "95.2", "80.2"), "line 21: expected bb_max_y above bb_min_y, found 80.2 and 80.2"),
    "open pcb": (without(27), f"line 26: expected 'pcb end' after it, {ALSO}"),
    "open board": (without(26, 27), f"line 25: expected 'board end' after it, {ALSO}"),
    "cut": ("\n".join(TWO_PARTS.splitlines()[:17]), f"line 17: expected 'edges end' after it, {ALSO}"),
    "surplus text": (TWO_PARTS + "the end\n", "line 28: expected 'pcb begin', found 'the end'"),
    "short node": (edited(10, ",-1", ""), f"line 10: expected the 13 fields {NODE}, found 12; add"),
    "long node": (edited(10, ",-1", ",-1,0"), f"line 10: expected the 13 fields {NODE}, found 14; add"),
    "open quote": (edited(9, '"U1"', '"U1'), "line 9: expected fields between commas ("),
    "letter id": (edited(9, "3", "x"), "line 9: expected a number below 1000000000000 for id, found 'x'; correct"),
    "same id": (edited(10, "5", "3"), "line 10: expected a new id, found 3 again"),
    "same name": (edited(10, "R1", "U1"), "line 10: expected a new name, found 'U1' again; rename it"),
    "no size": (edited(10, "2.0", "wide"), "line 10: expected a number below 1000000000000 for size_x, found 'wide'"),
    "negative size": (edited(10, "2.0", "-2.0"), "line 10: expected size_x of at least 0, found -2.0"),
    "no place": (edited(10, "103.7", "nan"), "line 10: expected a number below 1000000000000 for pos_x, found 'nan'"),
    "a third layer": (edited(10, "270.0,1", "270.0,2"), "line 10: expected layer 0 or 1, found 2"),
    "half locked": (edited(10, "1,0,2", "1,0.5,2"), "line 10: expected a whole number for locked, found '0.5'"),
    "all locked": (edited(10, "1,0,2", "1,1,2").replace("0,0,2,", "0,1,2,").replace("0,0,3", "0,1,3"), "is fixed; a"),
    "half a pin": (edited(10, "0,2,0,2", "0,2.5,0,2"), "line 10: expected a whole number for pins, found '2.5'"),
    "short edge": (edited(17, ",0.95", ""), "line 17: expected the 19 fields 'component a index a"),
    "bracket unquoted": (edited(17, '"', "").replace('2)"', "2)"), "line 17: expected the 19 fields"),
    "edge of nothing": (edited(17, "5,1,2", "9,1,2"), "line 17: expected the id of a component, found 9"),
    "negative pad": (edited(17, "3,4", "3,-4"), "line 17: expected a whole number of at least 0 for index, found '-4'"),
    "pad off": (edited(17, "-2.5", "NaN"), "line 17: expected a number below 1000000000000 for offset_x, found 'NaN'"),
    "pad to itself": (edited(18, "5,0,1,0.9,0.95,-0.75,0,0", "3,0,1,0.6,0.3,-2.5,-1.5,1"), "line 18: expected two"),
    "two nets": (edited(18, "5,0,1", "5,1,2").replace("-0.75", "0.75"), "line 18: expected pad 1 of component 5 as in"),
    "net of one name": (edited(18, "GND", '"Net-(R1,Pad2)"'), "line 18: expected a new name for net 1, found 'Net-"),
    "renamed net": (edited(18, "1,GND", "2,GND"), "line 18: expected name and power_rail of net 2 as in line 17"),
    "rail below 0": (edited(18, "GND,1", "GND,-1"), "line 18: expected a whole number of at least 0 for power_rail"),
    "board inside": (edited(16, "edges", "pcb"), "line 16: expected 'edges begin', found 'pcb begin'"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_line_expectation_and_remedy(write, content, message):
    path = write(content)
    with pytest.raises(ValueError) as caught:
        read_pcb(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "; " in text and "\n" not in text


def test_a_board_whose_tables_no_memory_holds_is_refused_as_it_is_read(write):
    part, edge = (TWO_PARTS.splitlines()[row] for row in (9, 17))
    parts = "\n".join(f"{number}{part.strip()[1:]}".replace("R1", f"R{number}") for number in range(6, 10_006))
    with pytest.raises(ValueError, match=r"line 10009: expected at most 10000 components; give a smaller board$"):
        read_pcb(write(edited(10, part, f"{part}\n{parts}")))
    pads = "\n".join(f"5,0{edge.strip()[3:]}".replace("3,0,1,", f"3,{number},1,") for number in range(10, 10_010))
    with pytest.raises(ValueError, match=r"line 10015: expected at most 10000 pads; give a smaller board$"):
        read_pcb(write(edited(18, edge, f"{edge}\n{pads}")))


def test_without_optimals_all_targets_are_unknown(write):
    board = read_pcb(write(without(12, 13, 14, 15))).boards[0].board
    assert np.isinf([board.target_wirelength, board.target_hpwl]).all()


def test_the_back_of_kicad_is_side_1_and_written_as_it_was(write, tmp_path):
    text = edited(10, "270.0,1", "270.0,31")
    file = read_pcb(write(text))
    assert file.boards[0].board.side.tolist() == [0, 1]
    write_pcb(tmp_path / "out.pcb", file)
    assert "\t5,R1,2,1,103.7,88.0,270,31,0," in (tmp_path / "out.pcb").read_text()


def test_of_an_oblique_fixed_part_the_bounding_box_is_in_the_way_and_the_file_keeps_it(
    write, tmp_path, assert_same_file
):
    text = edited(9, "90.3,0,0,1", "90.3,30,0,1")
    file = read_pcb(write(text))
    board, cos, sin = file.boards[0].board, np.sqrt(0.75), 0.5
    assert board.orientation.tolist() == [0, 3]
    np.testing.assert_allclose(board.size[0], [6.5 * cos + 4 * sin, 6.5 * sin + 4 * cos], rtol=1e-12)
    np.testing.assert_allclose(board.pin_offset[1], [-2.5 * cos + 0.5 * sin, 2.5 * sin + 0.5 * cos], rtol=1e-12)
    write_pcb(tmp_path / "out.pcb", file)
    written = (tmp_path / "out.pcb").read_text()
    assert "\t3,U1,6.5,4,110.1,90.3,30,0,1," in written and ",0.6,0.3,-2.5,0.5,1," in written
    assert_same_file(read_pcb(tmp_path / "out.pcb"), file)


CLIQUE = """\
			5,0,1,0.9,0.95,-0.75,0,0,3,2,3,0.6,0.3,2.5,-1.5,1,1,GND,1
			3,0,1,0.6,0.3,-2.5,-1.5,1,3,2,3,0.6,0.3,2.5,-1.5,1,1,GND,1
"""


def test_a_net_is_the_pads_of_all_its_edges_and_needs_them_all(write):
    ground = TWO_PARTS.splitlines(keepends=True)[17]
    whole = TWO_PARTS.replace(ground, ground + CLIQUE)
    assert read_pcb(write(whole)).boards[0].board.pin_net.tolist() == [1, 1, 0, 1, 0]
    path = write(TWO_PARTS.replace(ground, ground + CLIQUE.splitlines(keepends=True)[0]))
    message = "line 18: expected 3 edges between the 3 pads of net 'GND', found 2; restore"
    with pytest.raises(ValueError, match=message):
        read_pcb(path)
    path = write(TWO_PARTS.replace(ground, ground + ground))
    with pytest.raises(ValueError, match=r"line 19: expected each pair of pads once, found it again; remove"):
        read_pcb(path)


def test_no_message_holds_a_control_character_of_the_file(write):
    refused = 0
    for at in range(TWO_PARTS.index("pcb begin"), len(TWO_PARTS)):
        # Inserted, and in the place of what is there.
        for rest in (TWO_PARTS[at:], TWO_PARTS[at + 1 :]):
            path = write(TWO_PARTS[:at] + "\x1b" + rest)
            try:
                read_pcb(path)
            except ValueError as error:
                refused += 1
                assert str(error).isprintable()
    assert refused > 900
    net = TWO_PARTS.replace("GND", "G\x1bD").splitlines(keepends=True)
    path = write("".join(net[:18] + CLIQUE.replace("GND", "G\x1bD").splitlines(keepends=True)[:1] + net[18:]))
    with pytest.raises(ValueError, match=r"pads of net 'G\\x1bD', found 2"):
        read_pcb(path)


def test_unreadable_files_stay_operating_system_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_pcb(tmp_path / "nowhere.pcb")
    with pytest.raises(OSError):
        read_pcb(tmp_path)


def random_netlist(seed, parts=5):
    """Numbers of all magnitudes that use every digit, nets of 2 pins, odd names."""
    rng = np.random.default_rng(seed)
    pins = np.sort(rng.integers(0, parts, 12))
    board = make_board(
        rng.exponential(50, 2),
        rng.exponential(3, (parts, 2)),
        pins,
        rng.normal(size=(12, 2)) * 10.0 ** rng.integers(-8, 5, (12, 1)),
        np.arange(12) // 2,
        rng.integers(0, 4, 6),
        position=rng.normal(size=(parts, 2)) * 10.0 ** rng.integers(-12, 5, (parts, 1)),
        orientation=rng.integers(0, 4, parts),
        fixed=np.arange(parts) == 2,
        side=rng.integers(0, 2, parts),
        target_wirelength=np.where(np.arange(parts) % 2, np.inf, rng.exponential(10, parts)),
        target_hpwl=rng.exponential(10, parts),
    )
    names = ('a"b', "(c)", "d,e", "f g", "é")
    netlist = make_netlist(board, "some board", names, tuple(f"/Sheet/net={at}" for at in range(6)))
    return dataclasses.replace(netlist, origin=tuple(rng.normal(size=2) * 100), timestamp=seed, id=seed or None)


@pytest.mark.parametrize("seed", range(5))
def test_writing_and_reading_keeps_every_digit(tmp_path, seed, assert_same_file):
    file = PcbFile((random_netlist(seed), random_netlist(seed + 5)), "some name" if seed % 2 else None, seed or None)
    write_pcb(tmp_path / "out.pcb", file)
    assert_same_file(read_pcb(tmp_path / "out.pcb"), file)
    assert [path.name for path in tmp_path.iterdir()] == ["out.pcb"]


def test_writing_jax_arrays_keeps_their_float32_values(tmp_path, assert_same):
    board = as_float32(random_netlist(0).board)
    write_pcb(tmp_path / "out.pcb", PcbFile((make_netlist(board),)))
    assert_same(as_float32(read_pcb(tmp_path / "out.pcb").boards[0].board), board)


def test_what_is_written_is_the_format(write, tmp_path):
    write_pcb(tmp_path / "out.pcb", read_pcb(write(TWO_PARTS)))
    expected = edited(9, '"U1",6.5,4.00', "U1,6.5,4")
    for line, old, new in (
        (10, "2.0,1.0,103.7,88,270.0", "2,1,103.7,88.0,270"),
        (13, "1000000.0,1e+06", "1000000,1000000"),
        (
            18,
            "5,0,1,0.9,0.95,-0.75,0,0,3,0,1,0.6,0.3,-2.5,-1.5,1",
            "3,0,1,0.6,0.3,-2.5,-1.5,1,5,0,1,0.9,0.95,-0.75,0,0",
        ),
        (22, "100.0", "100"),
    ):
        expected = edited(line, old, new, expected)
    assert (tmp_path / "out.pcb").read_text() == expected


def test_a_generated_board_survives_the_file(tmp_path, assert_same):
    board = trim(jax.jit(generate)(jax.random.key(0), make_parameters()))
    write_pcb(tmp_path / "out.pcb", PcbFile((make_netlist(board),)))
    again = read_pcb(tmp_path / "out.pcb").boards[0].board
    assert_same(as_float32(again), as_float32(board))


def changed(**changes):
    return lambda n: dataclasses.replace(n, board=n.board.replace(**changes))


UNWRITABLE = {
    "padding; trim it first": lambda n: make_netlist(pad(n.board, 6, 12, 6)),
    "pins without a net": lambda n: make_netlist(pad(n.board, 5, 13, 6)),
    "nets with a single pin": changed(pin_net=np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5], np.int32)),
    "pins that are not ordered": lambda n: dataclasses.replace(n, pins=(Pin(0, "1"),) * 12),
    "nets with the same name": lambda n: dataclasses.replace(
        n, nets=(dataclasses.replace(n.nets[0], name=n.nets[1].name), *n.nets[1:])
    ),
    "components or nets with the same name": lambda n: dataclasses.replace(
        n, components=(dataclasses.replace(n.components[0], name=n.components[1].name), *n.components[1:])
    ),
    "components or nets with the same id": lambda n: dataclasses.replace(n, nets=(Net(1, "GND"),) * 6),
    "known targets of 1000000 or more": changed(target_hpwl=np.full(5, 2e6)),
    "line breaks or outer spaces in names": lambda n: dataclasses.replace(n, source="two\nlines"),
    "numbers of 1e\\+12 or more": changed(position=np.full((5, 2), 1e12)),
    "one board of the batch": lambda n: dataclasses.replace(n, board=stack([n.board, n.board])),
    "give each a name": lambda n: dataclasses.replace(n, nets=n.nets[:5]),
}


@pytest.mark.parametrize(("message", "change"), UNWRITABLE.items(), ids=UNWRITABLE)
def test_what_the_format_cannot_hold_is_named_and_nothing_is_written(tmp_path, message, change):
    with pytest.raises(ValueError, match=message) as caught:
        write_pcb(tmp_path / "out.pcb", PcbFile((random_netlist(0), change(random_netlist(1)))))
    assert str(caught.value).startswith("board 1 (")
    assert not list(tmp_path.iterdir())


def test_a_file_needs_boards_and_a_plain_name(tmp_path):
    for file, message in ((PcbFile(()), "without boards"), (PcbFile((random_netlist(0),), " a"), "file name")):
        with pytest.raises(ValueError, match=message):
            write_pcb(tmp_path / "out.pcb", file)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(write, tmp_path, monkeypatch):
    path = write("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_pcb(path, PcbFile((random_netlist(0),)))
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "old"

"""Plans of boards: what is fixed stays where its file says, and each signal net is listed."""

import dataclasses
import json

import numpy as np
import pytest

from jaxvrp.envs import pcb
from train import solve

POSITION = [[10.123, 10.456], [3.0, 13.0], [3.0, 5.0], [17.0, 7.0]]


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    """Of a board with a fixed part, a power rail, and a net that joins two pads in one place."""
    board = pcb.make_board(
        [20.0, 20.0],
        [[6.0, 4.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]],
        [0, 0, 0, 0, 1, 1, 2, 3],
        [[-2, 0], [2, 0], [1, 1], [1, 1], [-0.5, 0], [0.5, 0], [0, 0], [0, 0]],
        [0, 1, 2, 2, 0, 3, 1, 3],
        [0, 0, 0, 1],
        position=POSITION,
        fixed=[True, False, False, False],
    )
    path = tmp_path_factory.mktemp("board") / "board.pcb"
    pcb.write_pcb(path, pcb.PcbFile((dataclasses.replace(pcb.make_netlist(board), origin=(80.0, 100.0)),)))
    return solve.solve(path, method="random")


def test_a_fixed_part_stays_where_the_file_says(solution, tmp_path):
    solution.write(tmp_path / "placed.pcb")
    solution.write(tmp_path / "plan.json")
    netlist = pcb.read_pcb(tmp_path / "placed.pcb").boards[0]
    assert netlist.board.position[0].tolist() == POSITION[0]
    part, *others = json.loads((tmp_path / "plan.json").read_text())["parts"]
    assert part["fixed"] and [part["x"], part["y"]] == [90.123, 110.456]
    found = netlist.board.position[1:] + np.array(netlist.origin)
    np.testing.assert_allclose(found, [[each["x"], each["y"]] for each in others], rtol=0, atol=1e-12)


def test_nets_are_the_signal_nets_also_of_no_length(solution):
    plan = solution.plan
    assert list(plan["routes"]) == list(plan["nets"]) == ["net0", "net1", "net2"]
    assert plan["nets"]["net2"] == 0 and plan["nets"]["net0"] > 0

"""The published `.pcb` boards: their wirelengths, round trips, and the best known placements."""

import csv

import numpy as np
import pytest

from jaxvrp.envs.pcb.problem.pcb_file import read_pcb, write_pcb

HPWL = {
    "training": [25.77, 32.55, 53.402, 70.735, 37.05, 76.795],
    "evaluation": [54.586, 29.705, 91.315],
}


@pytest.mark.parametrize("folder", ["base", "base_opt"])
@pytest.mark.parametrize("split", HPWL)
def test_the_published_files_are_read_and_survive_a_round_trip(
    data_folder, tmp_path, folder, split, signal_hpwl, assert_same_file
):
    path = data_folder / "rl_pcb" / folder / f"{split}.pcb"
    file = read_pcb(path)
    boards = [netlist.board for netlist in file.boards]
    found = [signal_hpwl(board, board.position, board.orientation) for board in boards]
    np.testing.assert_allclose(found, HPWL[split], atol=1e-9)
    for board in boards:
        known = np.isfinite([board.target_wirelength, board.target_hpwl])
        assert (known == (board.movable & (folder == "base_opt"))).all()
        assert board.fixed.sum() == 1 and (board.power_rail == 1).sum() <= 1 and (board.outline == 20).all()
        assert board.num_components <= 10 and board.num_pins <= 28 and board.num_nets <= 10
    write_pcb(tmp_path / "out.pcb", file)
    assert_same_file(read_pcb(tmp_path / "out.pcb"), file)


def test_the_best_known_placements_have_the_listed_wirelength(data_folder, signal_hpwl):
    files = {split: read_pcb(data_folder / "rl_pcb" / "base" / f"{split}.pcb").boards for split in HPWL}
    with (data_folder / "rl_pcb" / "best_known_zero_overlap.csv").open() as table:
        rows = list(csv.DictReader(table))
    for split, boards in files.items():
        for index, netlist in enumerate(boards):
            best = [row for row in rows if (row["split"], row["index"]) == (split, str(index))]
            assert [row["component"] for row in best] == [part.name for part in netlist.components]
            place = np.array([[float(row["x_mm"]), float(row["y_mm"])] for row in best])
            turns = np.array([int(row["quarter_turns"]) for row in best])
            assert signal_hpwl(netlist.board, place, turns) == pytest.approx(float(best[0]["signal_hpwl_mm"]), abs=1e-4)
            fixed = netlist.board.fixed
            np.testing.assert_allclose(place[fixed], netlist.board.position[fixed], atol=1e-6)

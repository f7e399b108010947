"""The table of placement: who is judged, and by what."""

import json

import numpy as np
import pytest

from benchmarks.measuring.measure import Seconds
from benchmarks.quality import pcb
from benchmarks.quality.__main__ import main
from benchmarks.quality.pcb import HEAD, TRIAL_MOVES, Places, Result
from jaxvrp.envs.pcb import make_board


@pytest.fixture(scope="module")
def board():
    """A fixed part and a small one that is wired to its right edge; the optimum has 1.5 mm of wire."""
    return make_board(
        outline=[20, 10],
        size=[[4, 4], [1, 1]],
        position=[[6, 5], [15, 5]],
        fixed=[True, False],
        pin_component=[0, 1],
        pin_offset=[[1, 0], [0, 0]],
        pin_net=[0, 0],
        power_rail=[0],
    )


@pytest.mark.slow
def test_players_reach_what_their_placements_are_worth(board):
    places = Places(board, starts=3, steps=4)
    annealed, placed, played = places.anneal(TRIAL_MOVES), places.place_randomly(), places.play_randomly()
    np.testing.assert_allclose(annealed.hpwl, 1.5, atol=0.05)
    assert np.isfinite(placed.hpwl).all()
    assert (placed.hpwl >= 1.5 - 1e-4).all()
    assert (played.hpwl >= 1.5 - 1e-4).all()
    assert len({round(value, 3) for value in placed.hpwl}) == 3, "the starts are alike"


def test_a_row_counts_only_the_starts_that_became_legal():
    result = Result(np.array([30.0, np.inf, 20.0, np.inf]), seconds=Seconds(2.0, 3.0))
    assert result.row("somebody", 20.0) == ["somebody", "2/4", "25.00", "20.00", "+25.0 %", "0.500"]
    nobody = Result(np.full(2, np.inf), seconds=Seconds(1.0, 1.5))
    assert nobody.row("nobody", 20.0) == ["nobody", "0/2", "-", "-", "-", "0.500"]
    assert len(HEAD) == len(result.row("somebody", 20.0))


def test_the_best_known_are_of_the_evaluation_boards(tmp_path):
    path = tmp_path / "best.csv"
    rows = ["split,index,component,signal_hpwl_mm", "training,0,C1,9.0", "evaluation,0,C1,16.5", "evaluation,1,R1,10.5"]
    path.write_text("\n".join(rows) + "\n")
    assert pcb.best_known(path) == {0: 16.5, 1: 10.5}
    assert pcb.best_known(tmp_path / "none.csv") == {}


@pytest.mark.slow
def test_the_command_line(board, tmp_path, monkeypatch, capsys):
    """Of the sizes of the first test, so that their programs are compiled once."""
    monkeypatch.setattr(pcb, "generated", lambda count, seed: iter([("tiny", board, None)]))
    out = tmp_path / "out.json"
    main(["--env", "pcb", "--starts", "3", "--steps", "4", "--quick", "--out", str(out)])
    ((title, table),) = json.loads(out.read_text())["tables"].items()
    assert [row[0] for row in table] == [
        "player",
        "random play",
        "random legal placement",
        "annealing in the same time",
    ]
    assert title.startswith("tiny: 3 starts, 4 steps") and title in capsys.readouterr().out

"""`benchmarks.peers`: both sides in turn, what is not installed or fails is a line, and our players really play."""

import argparse
import json

import jax
import pytest

from benchmarks.peers import __main__ as peers
from benchmarks.peers import players
from benchmarks.peers.players import PAIRS, PLAYERS, Pair, Player
from jaxvrp.io.command_line import UserError


@pytest.fixture
def args():
    return argparse.Namespace(batch=8, steps=4, seconds=0.1, repeats=3, cores=(1,))


@pytest.fixture
def rates_of(monkeypatch):
    """`rates_of(NAME=[...])`: processes give these figures, one after the other; the log of who was asked."""

    def install(**figures):
        log, given = [], {name: iter(values) for name, values in figures.items()}

        def process(name, cores, args):
            log.append((name, cores))
            return next(given[name])

        monkeypatch.setattr(peers, "measure_apart", process)
        return log

    return install


def test_the_sides_take_turns_and_medians_are_compared(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "a", Player("A", "jaxvrp", 3, None))
    monkeypatch.setitem(PLAYERS, "b", Player("B", "jax", 1, None))
    log = rates_of(a=[30.0, 10.0, 20.0], b=[5.0, 4.0, 9.0])
    record = peers.measure_pair(Pair("a", "b", 2.0), 2, args)
    assert log == [("a", 2), ("b", 2)] * 3
    assert record["ratio"] == 4.0
    assert record["peer"]["version"] == jax.__version__
    line = peers.table([record]).splitlines()[-1].split()
    assert line[-3:] == ["4.00", "2", "12.00"]  # three decisions of ours against one


def test_a_suite_that_is_not_installed_is_a_line(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "b", Player("B", "no-such-suite", 1, None))
    assert rates_of() == []
    record = peers.measure_pair(Pair("darp", "b", 2.0), 1, args)
    text = peers.table([record])
    assert "B, 1 cores: no-such-suite is not installed; pip install -e '.[peers]'" in text


def test_a_side_that_fails_is_a_line_with_its_last_words(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "b", Player("B", "jax", 1, None))
    rates_of(darp=[1.0], b=["RuntimeError: out of luck"])
    record = peers.measure_pair(Pair("darp", "b", 2.0), 1, args)
    assert "B: RuntimeError: out of luck" in peers.table([record])


def test_all_pairs_are_of_known_players():
    assert {name for pair in PAIRS for name in (pair.ours, pair.peer)} == set(PLAYERS)


def test_our_player_goes_on_where_it_was(monkeypatch):
    played = []
    step = players.jaxvrp.VecEnv.step

    def counted(self, state, action, *, refresh):
        jax.debug.callback(lambda cursor: played.append(int(cursor)), state.cursor)
        return step(self, state, action, refresh=refresh)

    monkeypatch.setattr(players.jaxvrp.VecEnv, "step", counted)
    run = PLAYERS["darp"].build(2, 3)
    run()
    run()
    jax.effects_barrier()
    assert played == [0, 1, 2, 0, 1, 2]  # a fresh pool of instances in every call


def test_the_command_line_writes_all_pairs(args, rates_of, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(peers, "PAIRS", (Pair("darp", "truck_drone small", 1.5),))
    rates_of(**{"darp": [3e6], "truck_drone small": [1e6]})
    peers.main(["--cores", "1", "--repeats", "1", "--out", str(tmp_path / "result.json")])
    (pair,) = json.loads((tmp_path / "result.json").read_text())["pairs"]
    assert pair["steps_per_second"] == {"ours": [3e6], "peer": [1e6]}
    assert "3 M" in capsys.readouterr().out


def test_systems_without_affinity_are_told(monkeypatch):
    monkeypatch.delattr(peers.os, "sched_setaffinity")
    with pytest.raises(UserError, match="run this benchmark on Linux"):
        peers.main([])

"""The table of truck and drone: made of plans that were checked, from files by hand."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.published.data import VARIABLE
from benchmarks.quality import tsp_drone
from benchmarks.quality.__main__ import main
from benchmarks.quality.contest import best_of
from benchmarks.quality.tsp_drone import SYMMETRIES, attempted, turned
from jaxvrp.actor import RandomActor
from jaxvrp.envs.tsp_drone import generate_dataset, make_instance, write_agatz, write_one_line
from jaxvrp.envs.tsp_drone.baselines.tours import plan_tours
from jaxvrp.io.command_line import UserError


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two instances in lines, and one of Agatz's with an optimum."""
    lines, files = tmp_path / tsp_drone.LINES, tmp_path / tsp_drone.FILES
    (files / "uniform").mkdir(parents=True)
    lines.mkdir()
    square = [[0, 0], [10, 0], [10, 10], [0, 10]]
    write_one_line(lines / "random_n4.txt", [make_instance(square), make_instance(2 * np.array(square))])
    (lines / "random_n4_tsp_ep_all.txt").write_text("25\n50\n")
    write_agatz(files / "uniform" / "uniform-1-n4.txt", make_instance(square))
    table = "instance,nodes,best_makespan,status\nuniform-1-n4,4,24.142136,optimal\nuniform-3-n4,4,1,\n"
    (files / "best_known.csv").write_text(table)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_the_table_from_the_command_line(data, capsys):
    out = data / "out.json"
    main(["--env", "tsp_drone", "--sets", "random_n4", "--out", str(out)])
    (table,) = json.loads(out.read_text())["tables"].values()
    rows = {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert list(rows) == ["nearest neighbour", "random", "TSP-ep", "TSP-ep-all", "annealing"]
    assert {row["feasible"] for row in rows.values()} == {"100.0 %"}
    assert rows["TSP-ep-all"]["gap"] == "-3.43 %"
    # Around the square with the drone on board, or over a corner: 10 + 14.14 and 20 + 28.28 are the least.
    assert rows["TSP-ep-all"]["makespan"] == "36.21"
    assert "gap: summed makespans against the published TSP-ep-all" in capsys.readouterr().out


def test_sets_of_files_are_those_with_a_proven_optimum(data):
    found = tsp_drone.find("uniform_n4", None)
    assert found.makespans.tolist() == [24.142136] and found.instances.locs.shape == (1, 4, 2)
    assert found.reference == "the proven optimum"
    assert tsp_drone.find("random_n4", 1).makespans.tolist() == [25.0]


@pytest.mark.slow
def test_the_best_of_several_tries_and_of_their_orders():
    env = jaxvrp.make("tsp_drone", num_nodes=5)
    instances = generate_dataset(env, 0, 3)

    @jax.jit
    def tried_and_replayed():
        attempt = functools.partial(attempted, env, RandomActor(env), instances)
        best = best_of(attempt, jax.random.key(0), 16)
        first, _ = jax.vmap(env.reset_to)(instances)
        actions = jax.tree.map(lambda chosen: chosen.T[..., None], best["plan"][1])
        step = lambda state, action: (jax.vmap(env.step)(state, action)[0], None)  # noqa: E731
        return best, jax.lax.scan(step, first, actions)[0].clock

    best, clock = tried_and_replayed()
    (makespan, _), (cost, tour) = best["plan"], best["order"]
    np.testing.assert_allclose(clock, makespan, rtol=1e-5)
    assert (np.sort(tour[:, 1:5], axis=1) == np.arange(1, 5)).all()
    optimum = plan_tours(instances, jax.random.key(0), method="ep_all").cost
    assert (cost >= optimum * 0.999).all() and (makespan < 2 * optimum).all(), "random play has thrice that"


def test_turned_maps_are_all_different_and_keep_distances():
    locs = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)
    maps = [np.asarray(turned(locs, jnp.int32(symmetry))) for symmetry in range(SYMMETRIES)]
    lengths = [np.linalg.norm(each[:, None] - each, axis=-1) for each in maps]
    np.testing.assert_allclose(lengths, [lengths[0]] * SYMMETRIES, rtol=1e-5)
    assert len({each.tobytes() for each in maps}) == SYMMETRIES


def test_a_set_without_costs_and_a_damaged_one_are_one_line(data):
    with pytest.raises(UserError, match=r"--sets: cannot read 'ring_n4' \(no optimum of such instances"):
        main(["--env", "tsp_drone", "--sets", "ring_n4"])
    (data / tsp_drone.LINES / "random_n4_tsp_ep_all.txt").write_text("25\n")
    with pytest.raises(UserError, match=r"line 1: expected 2 makespans, found 1"):
        main(["--env", "tsp_drone", "--sets", "random_n4"])


@pytest.mark.slow
def test_the_table_of_tandems_with_time_windows(tmp_path, monkeypatch):
    """Customers on both sides of the depot: the truck serves one of them while the drone serves the other."""
    folder = tmp_path / tsp_drone.WINDOWS
    folder.mkdir()
    head = "instance,n,mip_z,vns_best,alns_best"
    (folder / "published_results.csv").write_text(f"{head}\n1,2,0.28,0.28,0.30\n2,9,1,1,1\n")
    nodes = ["x,y,demand,open,close,servicetime", "0,0,0,0,480,0", "1,0,1,0,480,10", "-1,0,1,60,90,10"]
    (folder / "instance-1.csv").write_text("\n".join(nodes) + "\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    out = tmp_path / "out.json"
    main(["--env", "truck_drone_tours", "--sets", "kuo_n2", "--seconds", "0.1", "--out", str(out)])
    (table,) = json.loads(out.read_text())["tables"].values()
    rows = {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert list(rows) == ["search, 0.1 s", "nearest neighbour", "random", "annealing"]
    assert {row["feasible"] for row in rows.values()} == {"100.0 %"}
    best = rows["search, 0.1 s"]
    assert (best["cost"], best["gap"]) == ("0.2802", "+0.06 %") and rows["annealing"]["cost"] == "0.2802"
    with pytest.raises(UserError, match="--sets: no instances 'kuo_n3'"):
        main(["--env", "truck_drone_tours", "--sets", "kuo_n3"])

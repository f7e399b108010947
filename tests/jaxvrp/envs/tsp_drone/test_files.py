"""Instances and files: what is read is what was written, and what is damaged costs one line."""

import re

import jax
import numpy as np
import pytest

from jaxvrp.envs.tsp_drone import (
    Operation,
    generate_dataset,
    load,
    make,
    make_instance,
    pad,
    read_agatz,
    read_murray_chu,
    read_one_line,
    read_operations,
    save,
    solution_report,
    stack,
    write_agatz,
    write_one_line,
    write_operations,
)
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.envs.tsp_drone.problem.generator import LAYOUTS
from jaxvrp.io.problems.problem_files import DamagedFileError

AGATZ = """#MAXFLY 6.5
#NOVISIT 2
/*The speed of the Truck*/
1.0
/*The speed of the Drone*/
0.5
/*Number of Nodes*/
3
/*The Depot*/
0.25 0.75 depot
/*The Locations (x_coor y_coor name)*/
3.0 4.0 loc1
1.5 2.0 loc 2
"""
NODES = "0, 2.5, 3.5, 0.2\n1, 3.8, 5.7, 0\n2, 1.4, 0.5, 1\n3, 2.5, 3.5, 0\n"
TRUCK = "0,8,9,0\n8,0,18,8\n9,18,0,9\n0,0,0,0\n"
DRONE = "0,4,5,0\n4,0,6,4\n5,6,0,5\n0,0,0,0\n"


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    truck, drone = rng.uniform(1, 9, (2, 4, 4)) * (1 - np.eye(4))
    limits = {"max_flight": 7.5, "launch_time": 1, "recovery_time": 2, "no_fly": [0, 0, 1, 0]}
    return make_instance(rng.uniform(0, 9, (4, 2)), truck_time=truck, drone_time=drone, **limits)


# --- Agatz et al. ---------------------------------------------------------------------------------------------------


def test_an_instance_of_agatz_line_by_line(write):
    instance = read_agatz(write(AGATZ))
    np.testing.assert_array_equal(instance.locs, [[0.25, 0.75], [3, 4], [1.5, 2]])
    assert (instance.truck_pace, instance.drone_pace, instance.max_flight) == (1.0, 0.5, 6.5)
    assert instance.no_fly.tolist() == [False, False, True] and instance.exists.all()


def test_instances_and_solutions_of_agatz_come_back(write, tmp_path, assert_same):
    instance = read_agatz(write(AGATZ))
    write_agatz(tmp_path / "again.txt", instance)
    assert_same(read_agatz(tmp_path / "again.txt"), instance)
    plan = [Operation(0, 1, 2), Operation(1, 0, None, (2, 1)), Operation(0, 0)]
    write_operations(tmp_path / "plan.txt", plan)
    assert read_operations(tmp_path / "plan.txt") == plan


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"launch_time": 1.0}, "a launch_time or recovery_time"),
        ({"recovery_time": 1.0}, "a launch_time or recovery_time"),
        ({"depot_launch_time": 1.0}, "a depot_launch_time"),
        ({"max_sortie": 9.0}, "a max_sortie"),
        ({"truck_time": np.zeros((2, 2)), "drone_time": np.zeros((2, 2))}, "matrices of times"),
    ],
)
def test_writers_of_text_refuse_what_their_format_cannot_hold(given, says, tmp_path):
    instance = make_instance([[0, 0], [3, 4]], **given)
    with pytest.raises(ValueError, match=f"the format of Agatz et al. cannot hold {says}; use"):
        write_agatz(tmp_path / "other.txt", instance)
    with pytest.raises(ValueError, match=r"instance 0 has a .* that the format cannot hold; use"):
        write_one_line(tmp_path / "other.txt", [instance])
    assert not (tmp_path / "other.txt").exists()


def test_published_instances_come_back(agatz_folder, tmp_path, assert_same):
    for path in (
        sorted(agatz_folder.glob("**/*n1[01]*.txt"))[::5] + sorted(agatz_folder.glob("restricted/**/*.txt"))[:2]
    ):
        if path.parent.name != "solutions":
            instance = read_agatz(path)
            write_agatz(tmp_path / "again.txt", instance)
            assert_same(read_agatz(tmp_path / "again.txt"), instance)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (("#MAXFLY 6.5", "#MAXFLY"), "line 1: expected '#MAXFLY distance' or '#NOVISIT node'"),
        (("#MAXFLY 6.5", "#MAXFLY -1"), "line 1: expected a distance above 0 for #MAXFLY, found '-1'"),
        (("#NOVISIT 2", "#MAXFLY 7"), "line 2: expected #MAXFLY once, found it again; remove one of the two"),
        (("#NOVISIT 2", "#NOVISIT 3"), "line 2: expected a customer from 1 to 2 for #NOVISIT, found 3"),
        (("1.0\n", "fast\n"), "line 4: expected a number below 1000000000000 for the truck's time for a unit"),
        (("0.5\n", "0\n"), "line 6: expected a number above 0 for the drone's time for a unit"),
        (("\n3\n", "\n4\n"), "line 8: expected 3 for the number of nodes, as lines follow, found 4"),
        (("3.0 4.0 loc1", "3.0"), "line 12: expected 'x y name', found '3.0'"),
        (("3.0 4.0", "3.0 4.0.0"), "line 12: expected a number below 1000000000000 for y, found '4.0.0'"),
        (("/*The Depot*/", "/*The Depot"), "line 9: expected a comment that ends in the same line"),
        ((AGATZ, "1.0\n0.5\n"), "line 2: expected two speeds, the number of nodes and the nodes"),
        ((AGATZ, "/* nothing */"), "found comments only"),
        ((AGATZ, ""), "found an empty file"),
    ],
)
def test_a_damaged_instance_of_agatz_is_one_line(damage, says, write):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        read_agatz(write(AGATZ.replace(*damage)))
    assert "\n" not in str(error.value) and "hand.txt" in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2\n0 1 -1 0\n", "line 1: expected 1 for the number of operations, as lines follow, found 2"),
        ("1\n0 1 -1\n", "line 2: expected 'start end fly internal', and the nodes between"),
        ("1\n0 1 -1 2 3\n", "line 2: expected 1 nodes between, as are written, found 2"),
        ("1\n0 1 -2 0\n", "line 2: expected nodes of at least 0, and fly of at least -1"),
    ],
)
def test_a_damaged_solution_is_one_line(text, says, write):
    with pytest.raises(ValueError, match=re.escape(says)):
        read_operations(write(text))


# --- one line each, Murray & Chu ------------------------------------------------------------------------------------


def test_instances_in_a_line_come_back(tmp_path, assert_same):
    instances = [make_instance([[0.1, 0.2], [30, 40]]), make_instance([[0.5, 1 / 3], [1, 2], [99, 98.5]])]
    write_one_line(tmp_path / "lines.txt", instances)
    for instance, again in zip(instances, read_one_line(tmp_path / "lines.txt"), strict=True):
        assert_same(again, instance)
    assert read_one_line(tmp_path / "lines.txt", alpha=4)[0].drone_pace == 0.25
    with pytest.raises(ValueError, match="instance 0 has a max_flight that the format cannot hold"):
        write_one_line(tmp_path / "other.txt", [make_instance([[0, 0]], max_flight=3)])
    assert not (tmp_path / "other.txt").exists()


def test_lines_are_written_as_long_as_they_are_read(tmp_path, assert_same):
    large, too_large = (make_instance(np.random.default_rng(0).uniform(0, 100, (n, 2))) for n in (3000, 4000))
    write_one_line(tmp_path / "lines.txt", [large])
    assert_same(read_one_line(tmp_path / "lines.txt")[0], large)
    with pytest.raises(ValueError, match=r"instance 1 takes \d+ characters, and a line is read up to 131072; use "):
        write_one_line(tmp_path / "other.txt", [large, too_large])
    assert not (tmp_path / "other.txt").exists()


def test_a_text_file_is_told_by_its_content(write):
    """Agatz's format or lines of places; of another one, and of an empty one, the message is as before."""
    assert [instance.num_nodes for instance in PROBLEMS.read(write("1 2 3 4\n5 6 7 8 9 10\n"))] == [2, 3]
    assert PROBLEMS.read(write(AGATZ))[0].num_nodes == 3
    with pytest.raises(DamagedFileError, match="line 1: expected an even number of coordinates, found 9"):
        PROBLEMS.read(write("1 2 3 4 5 6 7 8 9\n"))
    for text, says in (("2 16 480 3 30\n", "format of Agatz|two speeds"), ("", "found an empty file")):
        with pytest.raises(ValueError, match=says) as error:
            PROBLEMS.read(write(text))
        assert not isinstance(error.value, DamagedFileError)


def test_published_lines_lie_where_the_generator_draws(published_folder):
    folder = published_folder("tspd_bogyrbayeva") / "tspd_bogyrbayeva"
    for count in (11, 20, 50):
        locs = np.stack([instance.locs for instance in read_one_line(folder / f"random_n{count}.txt")])
        assert locs.shape[1:] == (count, 2)
        assert (locs[:, 0] <= 1).all() and (locs[:, 1:] <= 100).all() and locs.min() >= 0


@pytest.mark.parametrize(("text", "says"), [("1 2 3", "an even number of coordinates, found 3"), ("1 x", "coordinate")])
def test_a_damaged_line_is_named(text, says, write):
    with pytest.raises(ValueError, match=f"line 2: expected .*{says}"):
        read_one_line(write("1 2 3 4\n" + text))


@pytest.fixture
def folder(tmp_path):
    for name, text in {"nodes": NODES, "Cprime": "1", "tau": TRUCK, "tauprime": DRONE}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_matrices_of_murray_and_chu_line_by_line(folder):
    instance = read_murray_chu(folder, endurance=20)
    np.testing.assert_array_equal(instance.truck_time, [[0, 8, 9], [8, 0, 18], [9, 18, 0]])
    np.testing.assert_array_equal(instance.drone_time, [[0, 4, 5], [4, 0, 6], [5, 6, 0]])
    assert instance.no_fly.tolist() == [False, False, True]
    assert (instance.max_flight, instance.launch_time, instance.recovery_time) == (19, 1, 1)
    assert (instance.depot_launch_time, instance.max_sortie) == (0, None)
    # Truck 0-2-0 while the drone serves 1: max(18, 8) + 1.
    report = solution_report(instance, [Operation(0, 0, 1, (2,))], strict=True)
    assert report.cost == 19.0


def test_the_rules_of_murray_and_chu_are_parameters(folder):
    plan = [Operation(0, 0, 1, (2,))]
    of_flights = read_murray_chu(folder, endurance=20, endurance_counts="flight", depot_launch_time=1)
    assert (of_flights.max_flight, of_flights.max_sortie) == (20, None)
    assert solution_report(of_flights, plan, strict=True).cost == 20.0
    whole = {"endurance_counts": "flight, waiting and recovery"}
    assert solution_report(read_murray_chu(folder, endurance=19, **whole), plan, strict=True).cost == 19.0
    too_short = solution_report(read_murray_chu(folder, endurance=18.9, **whole), plan)
    assert too_short.summary() == "endurance 1 (first node 1)"
    with pytest.raises(ValueError, match="endurance_counts is 'wait'; it must be one of: flight; flight and "):
        PROBLEMS.assumed(folder / "nodes.csv", endurance_counts="wait")
    with pytest.raises(ValueError, match="endurance is 1, and a recovery takes 1; give a longer one"):
        read_murray_chu(folder, endurance=1)


@pytest.mark.parametrize("text", ["", "\n", ",,\nEOF\n"])
def test_where_nobody_can_be_flown_to_the_truck_drives_its_tour(folder, text):
    (folder / "Cprime.csv").write_text(text)
    instance = read_murray_chu(folder, endurance=20)
    assert instance.no_fly.tolist() == [False, True, True]
    assert solution_report(instance, [Operation(0, 0, None, (1, 2))], strict=True).cost == 8 + 18 + 9


def test_a_folder_of_matrices_holds_both_problems_of_the_paper(folder):
    problems = PROBLEMS.read(folder / "nodes.csv")
    assert [problem.max_flight for problem in problems] == [19, 39]
    (folder / "tau.csv").unlink()
    with pytest.raises(DamagedFileError, match=r"nodes.csv needs tau.csv beside it; give a whole folder"):
        PROBLEMS.read(folder / "nodes.csv")


def test_published_matrices_are_read(published_folder):
    folder = published_folder("fstsp_murray_chu") / "fstsp_murray_chu" / "FSTSP_10"
    instances = [read_murray_chu(path, endurance=20) for path in sorted(folder.iterdir())]
    assert {instance.num_nodes for instance in instances} == {11}
    assert all(instance.no_fly.any() and not instance.no_fly.all() for instance in instances)
    assert stack(instances).truck_time.shape == (len(instances), 11, 11)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "nodes",
            NODES.replace("1, 3.8", "7, 3.8"),
            "nodes.csv, line 2: expected node 1, found 7; put the nodes in order",
        ),
        ("nodes", NODES.replace("3, 2.5", "3, 2.6"), "line 4: expected the place of the depot again"),
        ("tau", TRUCK.replace("9,18,0,9\n", ""), "tau.csv, line 1: expected 4 lines, one for each node, found 3"),
        ("tauprime", DRONE.replace("4,0,6,4", "4,0,6"), "tauprime.csv, line 2: expected 4 times, one for each node"),
        ("tau", TRUCK.replace("9,18,0,9", "9,18,0,8"), "tau.csv, line 3: expected as the last time that to the depot"),
        ("Cprime", "3", "Cprime.csv, line 1: expected a customer from 1 to 2, found 3"),
    ],
)
def test_a_damaged_matrix_is_one_line(name, text, says, folder):
    (folder / f"{name}.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(says)):
        read_murray_chu(folder, endurance=20)


# --- .npz, padding, checks ------------------------------------------------------------------------------------------


def test_instances_are_saved_and_loaded(matrices, tmp_path, assert_same):
    plain = make_instance([[0, 0], [1, 2]], max_flight=3)
    for instance in (matrices, plain, stack([plain, make_instance([[0, 0], [5, 5], [6, 6]])]), stack([matrices] * 2)):
        save(tmp_path / "one.npz", instance)
        assert_same(load(tmp_path / "one.npz"), instance)


def test_what_is_no_instance_is_refused(matrices, tmp_path):
    given = {name: value for name, value in vars(matrices).items() if value is not None}
    np.savez(tmp_path / "half.npz", format=np.array("jaxvrp-tsp_drone-1"), **{**given, "drone_time": np.eye(3)})
    with pytest.raises(ValueError, match=r"half.npz.*drone_time"):
        load(tmp_path / "half.npz")
    (tmp_path / "no.npz").write_text("no")
    with pytest.raises(ValueError, match=r"no\.npz is no readable \.npz file"):
        load(tmp_path / "no.npz")


def test_padding_adds_nodes_that_do_not_exist(matrices):
    padded = pad(matrices, 6)
    assert padded.truck_time.shape == (6, 6) and padded.exists.tolist() == [True] * 4 + [False] * 2
    np.testing.assert_array_equal(padded.truck_time[:4, :4], matrices.truck_time)
    np.testing.assert_array_equal(padded.locs[4:], matrices.locs[[0, 0]])
    with pytest.raises(ValueError, match="an instance of 4 nodes does not fit into num_nodes 3"):
        pad(matrices, 3)
    with pytest.raises(ValueError, match="some instances have matrices of times, others have none"):
        stack([matrices, make_instance([[0, 0]])])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"locs": []}, "the instance has no nodes"),
        ({"locs": [[0, np.nan]]}, "locs of node 0 is not finite"),
        ({"locs": [[0, 0], [1, 1]], "no_fly": [0]}, "no_fly has shape (1,); it needs (2,)"),
        ({"no_fly": [0.5, 0]}, "no_fly holds something else than 0 and 1"),
        ({"drone_pace": 0}, "drone_pace is 0.0; it must be > 0"),
        ({"truck_pace": np.inf}, "truck_pace is inf; it must be finite"),
        ({"max_flight": np.nan}, "max_flight is nan; it must be > 0"),
        ({"launch_time": -1}, "launch_time is -1.0; it must be 0 or more"),
        ({"truck_time": np.zeros((2, 2))}, "of truck_time and drone_time one is missing"),
        ({"truck_time": np.zeros((2, 2)), "drone_time": -np.ones((2, 2))}, "drone_time from node 0 is not 0 or more"),
        ({"truck_time": np.ones((2, 2)), "drone_time": np.ones((2, 2))}, "truck_time from node 0 to itself is not 0"),
    ],
)
def test_a_wrong_instance_is_one_line(values, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        make_instance(**{"locs": [[0, 0], [1, 1]], **values})


# --- the generator --------------------------------------------------------------------------------------------------


def test_layouts_are_those_of_the_published_files(agatz_folder):
    drawn = {layout: jax.device_get(generate_dataset(make(num_nodes=20, layout=layout), 0, 500)) for layout in LAYOUTS}
    assert (drawn["corner"].locs[:, 0] <= 1).all() and (drawn["corner"].locs[:, 1:].max() > 95)
    assert (drawn["uniform"].locs[:, 1:] % 1 == 0).all() and (drawn["uniform"].locs[:, 0] < 1).all()
    for layout in ("uniform", "singlecenter", "doublecenter"):
        paths = sorted(agatz_folder.glob(f"{layout}/{layout}-[0-9]*-n*.txt"))
        published = np.concatenate([read_agatz(path).locs[1:] for path in paths])
        generated = drawn[layout].locs[:, 1:].reshape(-1, 2)
        np.testing.assert_allclose(generated.mean(axis=0), published.mean(axis=0), atol=4)
        np.testing.assert_allclose(generated.std(axis=0), published.std(axis=0), atol=3)
    assert (drawn["doublecenter"].locs[:, 0, 0] < 150).mean() > 0.99, "the depot is in the first centre"
    assert (drawn["corner"].drone_pace == 0.5).all() and np.isinf(drawn["corner"].max_flight).all()

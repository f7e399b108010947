"""Files of well-known problems that are not solved here: named in one line, with what solves them."""

import pytest

from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.io.command_line import UserError
from jaxvrp.io.problems.other_problems import other_problem
from train import solve
from train.commands.instance_file import InstanceFile

CVRP = "NAME :\tX-n3-k1\t\nTYPE :\tCVRP\nDIMENSION : 3\nCAPACITY : 9\nNODE_COORD_SECTION\n1\t0\t0\n"
SOLOMON = """C101\r
\r
VEHICLE\r
NUMBER     CAPACITY\r
  25         200\r
\r
CUSTOMER\r
CUST NO.  XCOORD.    YCOORD.    DEMAND   READY TIME  DUE DATE   SERVICE TIME\r
\r
    0      40         50          0          0       1236          0\r
"""
LI_LIM = (
    "25\t200\t1\n0\t40\t50\t0\t0\t1236\t0\t0\t0\n"
    "1\t45\t68\t-10\t912\t967\t90\t11\t0\n2\t45\t70\t-20\t825\t870\t90\t6\t0\n"
)
CORDEAU = "{} 2 2 1\n0 80\n1 37 52 0 7 1 2 1 2\n2 49 49 0 30 1 2 1 2\n3 20 20 0 0 0 0\n4 30 30 0 0 0 0\n"
FILES = {
    "x.vrp": (CVRP, "CVRP", "PyVRP"),
    "no_type.vrp": (CVRP.replace("TYPE :\tCVRP\n", ""), "CVRP", "PyVRP"),
    "x.tsp": ("NAME: a280\nTYPE: TSP\nDIMENSION: 280\n", "TSP", "OR-Tools"),
    "backhauls.vrp": ("TYPE: VRPB\nDIMENSION: 280\n", "VRPB", "OR-Tools"),
    "sartori.txt": ("NAME: bar-n100-1\nTYPE: PDPTW\nSIZE: 101\n", "PDPTW", "OR-Tools"),
    "solomon.txt": (SOLOMON, "VRPTW", "PyVRP"),
    "solomon.csv": (
        "CUST NO.,XCOORD.,YCOORD.,DEMAND,READY TIME,DUE DATE,SERVICE TIME\n1,40,50,0,0,1236,0\n",
        "VRPTW",
        "PyVRP",
    ),
    "schneider.txt": (
        "StringID Type x y demand ReadyTime DueDate ServiceTime\nD0 d 40 50 0 0 1236 0\n",
        "EVRPTW",
        "OR-Tools",
    ),
    "li_lim.txt": (LI_LIM, "PDPTW", "OR-Tools"),
    "p01": (CORDEAU.format(2), "MDVRP", "PyVRP"),
    "pr01.txt": (CORDEAU.format(4), "VRPTW", "PyVRP"),
    "vrpnc1.txt": ("50 160 999999 0\n30 40\n37 52 7\n49 49 30\n", "CVRP", "PyVRP"),
}


@pytest.mark.parametrize("name", FILES)
def test_solve_says_which_problem_it_is_and_what_solves_it(name, tmp_path):
    text, kind, software = FILES[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as refused:
        solve.read_problems(tmp_path / name, None)
    said = str(refused.value)
    assert f"({kind}), which is not solved here; {software} solves it" in said
    assert said.count(name) == 1 and len(said.removeprefix(str(tmp_path))) < 150


def test_so_does_a_policy_that_is_to_play_it(tmp_path):
    (tmp_path / "li_lim.txt").write_text(LI_LIM)
    with pytest.raises(UserError, match=r"^\S*li_lim.txt is a pickup and delivery problem .*\(PDPTW\)"):
        InstanceFile.open(str(tmp_path / "li_lim.txt"), "darp", {})


def test_a_solution_is_no_problem(tmp_path):
    (tmp_path / "x.sol").write_text("Route #1: 54 77 83\nCost 26362\n")
    assert other_problem(tmp_path / "x.sol").endswith("is a solution, a list of routes; give the file of its problem")


@pytest.mark.parametrize(
    "text", ["", "\n", "2 16 480 3 30\n0 0 0 0 0 0 480\n", "1.0\n0.5\n2\n0 0 depot\n1 1 a\n", "1 2 3 4\n5 6 7 8\n"]
)
def test_a_file_of_a_format_that_is_read_is_no_other_problem(text, tmp_path):
    (tmp_path / "own.txt").write_text(text)
    assert other_problem(tmp_path / "own.txt") is None


def test_drones_that_shuttle_from_the_depot_are_known_by_the_name_of_their_folder(tmp_path):
    (tmp_path / "20140813T111604").mkdir()
    (tmp_path / "20140813T111604" / "nodes.csv").write_text("")
    assert "(PDSTSP)" in other_problem(tmp_path / "20140813T111604" / "nodes.csv")
    folder = tmp_path / "PDSTSP_10" / "1"
    folder.mkdir(parents=True)
    (folder / "nodes.csv").write_text("0, 1, 1, 0.4\n1, 2, 2, 0\n2, 1, 1, 0\n")
    with pytest.raises(
        ValueError, match=r"nodes.csv is a parallel drone scheduling problem.*\(PDSTSP\).* not solved here"
    ):
        PROBLEMS.read(folder / "nodes.csv")
    with pytest.raises(UserError, match=r"nodes.csv is a parallel drone .* \(PDSTSP\), which is not"):
        solve.read_problems(folder / "nodes.csv", None)


def test_a_file_that_nobody_can_read_is_named_once(tmp_path):
    for content, says in (
        ("", r"is no problem that can be read \(darp: line 1: .*; tsp_drone: line 1: "),
        ("some words\n", "is of no format that is read here; give one of .csv, .json, "),
    ):
        (tmp_path / "words.txt").write_text(content)
        with pytest.raises(UserError, match=f"words.txt {says}") as refused:
            solve.read_problems(tmp_path / "words.txt", None)
        assert str(refused.value).count("words.txt") == 1

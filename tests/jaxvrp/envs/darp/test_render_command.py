"""The command that draws a plan from files: what it draws, and that a mistake costs one line and no file."""

import json
import subprocess
import sys

import numpy as np
import pytest

from jaxvrp.envs.darp import generate_dataset, make, make_instance, save, write_cordeau
from jaxvrp.envs.darp.pictures import main


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with instances, most of them of four requests and three vehicles, and plans."""
    instance = make_instance(
        np.stack([[0, 2, 8, 1, 6, 3, 5, -1, -2], np.arange(9) % 3], axis=1),
        [0, 1, -1, 2, -2, 1, -1, 1, -1],
        np.full(9, 90.0),
        capacity=[2, 2, 2],
        max_ride_time=60,
        max_route_duration=500,
    )
    folder = tmp_path_factory.mktemp("library")
    save(folder / "one.npz", instance)
    save(folder / "three.npz", generate_dataset(make(num_nodes=6, num_agents=2), 0, 3))
    write_cordeau(folder / "one.txt", instance)
    plan = {"plan": [[1, 5], [2, 6]], "other": [[1, 2, 5, 6]], "long": [[1]] * 4, "word": [["x"]]}
    for name, routes in {**plan, "zero": [[0, 1]], "huge": [[10**17]], "flat": [1, 2], "half": [[1.5]]}.items():
        (folder / f"{name}.json").write_text(json.dumps({"routes": routes}))
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    (folder / "digits.json").write_text('{"routes": [[' + "9" * 5000 + "]]}")
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
    (folder / "link.png").symlink_to("plan.json")
    (folder / "hard.png").hardlink_to(folder / "one.npz")
    return folder


@pytest.fixture
def files(library, monkeypatch):
    """The same as the current folder."""
    monkeypatch.chdir(library)
    return library


@pytest.mark.parametrize(
    "arguments",
    [
        "one.npz --plan plan.json",
        "one.txt --plan plan.json",
        "three.npz --index 2 --plan plan.json",
    ],
)
def test_the_command_draws(files, capsys, arguments):
    assert main([*arguments.split(), "--out", "drawn.png"]) == 0
    assert (files / "drawn.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr() == ("", "")


def test_both_files_draw_the_same_plan(files):
    drawn = {"a": "one.txt --plan plan.json", "b": "one.npz --plan plan.json", "c": "one.txt --plan other.json"}
    for name, words in drawn.items():
        assert main([*words.split(), "--out", f"drawn_{name}.png"]) == 0
    a, b, c = ((files / f"drawn_{name}.png").read_bytes() for name in drawn)
    assert a == b != c


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "required: instance, --plan, --out"),
        ("one.npz", "required: --plan, --out"),
        ("one.npz --plan plan.json --out a.doc", "--out is 'a.doc'; it must end in .png, .svg, .pdf or .gif"),
        ("one.npz --plan plan.json --out away/a.png", "there is no folder away; make it first"),
        ("one.npz --plan plan.json --out a.png --inde 0", "unrecognized arguments"),
        ("one.csv --plan plan.json --out a.png", "is neither .txt (Cordeau) nor .npz"),
        ("none.npz --plan plan.json --out a.png", "No such file"),
        ("none.txt --plan plan.json --out a.png", "No such file"),
        ("broken.json --plan plan.json --out a.png", "is neither .txt (Cordeau) nor .npz"),
        ("three.npz --plan plan.json --out a.png", "holds 3 instances; choose one with --index 0 to 2"),
        ("three.npz --index 3 --plan plan.json --out a.png", "choose one with --index 0 to 2"),
        (
            "three.npz --index -1 --plan plan.json --out a.png",
            "argument --index: '-1' is no whole number from 0, up to 4294967295",
        ),
        ("three.npz --index x --plan plan.json --out a.png", "argument --index: 'x' is no whole number from 0"),
        (
            f"three.npz --index {'9' * 5000} --plan plan.json --out a.png",
            f"argument --index: '{'9' * 35} ... is no whole number from 0",
        ),
        (
            "three.npz --index 0 --plan plan.json --out a.png --index 1",
            "--index is given twice; leave one of them out",
        ),
        (
            "one.npz --plan link.png --out ./link.png",
            "--out is 'link.png', which would take the place of 'link.png'; cho",
        ),
        (
            "one.npz --plan plan.json --out link.png",
            "would take the place of 'plan.json'; choose another",
        ),
        (
            "one.npz --plan plan.json --out hard.png",
            "--out is 'hard.png', which would take the place of 'one.npz'; choose another --out",
        ),
        ("one.npz --index 0 --plan plan.json --out a.png", "holds a single instance; leave the choice out"),
        ("one.npz --plan none.json --out a.png", "No such file"),
        ("one.npz --plan broken.json --out a.png", "broken.json is no JSON"),
        ("one.npz --plan binary.json --out a.png", "binary.json is in UTF-16; save it as UTF-8"),
        (
            "one.npz --plan deep.json --out a.png",
            "deep.json is no JSON (more than 32 lists and objects within each other)",
        ),
        (
            "one.npz --plan digits.json --out a.png",
            "digits.json is no JSON (a whole number of 5000 digits; up to 18 are",
        ),
        ("one.npz --plan list.json --out a.png", 'list.json needs {"routes": [[1, 2], ...]}'),
        ("one.npz --plan flat.json --out a.png", 'flat.json needs {"routes": [[1, 2], ...]}'),
        ("one.npz --plan word.json --out a.png", "has 'x' in a route; give whole numbers from 1 to 8"),
        ("one.npz --plan half.json --out a.png", "has 1.5 in a route"),
        ("one.npz --plan zero.json --out a.png", "has 0 in a route"),
        ("one.npz --plan huge.json --out a.png", "give whole numbers from 1 to 8"),
        ("one.npz --plan long.json --out a.png", "long.json: 4 routes for 3 vehicles"),
    ],
)
def test_mistakes_are_one_line(files, assert_refused, arguments, words):
    assert_refused(main, arguments, words)


AS_A_MODULE = """
import runpy
import sys

import jaxvrp.envs.darp.toolbox

print([name for name in ("matplotlib", "PIL") if name in sys.modules])
sys.argv = ["pictures", "none.txt", "--plan", "plan.json", "--out", "a.png"]
try:
    runpy.run_module("jaxvrp.envs.darp.pictures", run_name="__main__", alter_sys=True)
except SystemExit as stop:
    print(stop.code)
"""


@pytest.mark.slow
def test_as_a_module_and_without_matplotlib_until_something_is_drawn(files):
    command = [sys.executable, "-W", "error", "-c", AS_A_MODULE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "2"]
    (missing,) = done.stderr.splitlines()
    assert missing.startswith("error: ") and "none.txt" in missing

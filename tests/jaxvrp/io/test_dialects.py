"""Problem files as editors and spreadsheets leave them: every format reads each dialect as the same problem."""

import re

import jax
import numpy as np
import pytest

from jaxvrp.envs.darp.problem.cordeau import read_cordeau
from jaxvrp.envs.flying_sidekicks.murray_raj import read_murray_raj
from jaxvrp.envs.truck_drone_tours.problem.kuo import read_kuo
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.envs.tsp_drone.problem.murray_chu import read_murray_chu

DRONE = "2,2,15.5,31.25,7.75,360,50,5,60,30,60,457503,low"
FILES = {
    "cordeau": {"a.txt": "1 1 480 3 30\n0 0.5 0 0 0 0 480\n1 1.5 1 3 1 0 480\n2 2.5 -1 3 -1 0 48.5\n"},
    "agatz": {"a.txt": "/*truck*/\n1.5\n/*drone*/\n0.5\n/*nodes*/\n2\n/*depot*/\n0.5 0.25 depot\n3.5 4 loc1\n"},
    "lines": {"a.txt": "0.5 0.25 3 4\n1.5 2 0.5 9 7 8\n"},
    "kuo": {"a.csv": "x,y,demand,open,close,servicetime\n0,0.5,0,0,480,0\n1.5,1,2,0,48.5,5\n"},
    "murray_chu": {
        "nodes.csv": "0, 2.5, 3.5, 0.2\n1, 3.8, 5.7, 0\n2, 2.5, 3.5, 0\n",
        "Cprime.csv": "1\n",
        "tau.csv": "0,8.5,0\n8.5,0,8.5\n0,0,0\n",
        "tauprime.csv": "0,4.5,0\n4.5,0,4.5\n0,0,0\n",
    },
    "murray_raj": {
        "tbl_locations.csv": "% node, type, ...\n0, 0, 47.5, -122.25, 0, -1\n1, 1, 47.75, -122.5, 0, 2.5\n",
        "tbl_truck_travel_data_PG.csv": "0,0,0,0\n0,1,90.5,1000\n1,0,95.5,1000\n1,1,0,0\n",
        "vehicles.csv": f"% drones,,\n1,1,-1,-1,-1,-1,-1,-1,-1,-1,30,-1,NA\n{DRONE}\n",
    },
}
READERS = {
    "cordeau": lambda folder: read_cordeau(folder / "a.txt"),
    "agatz": lambda folder: PROBLEMS.read(folder / "a.txt"),
    "lines": lambda folder: PROBLEMS.read(folder / "a.txt"),
    "kuo": lambda folder: read_kuo(folder / "a.csv"),
    "murray_chu": lambda folder: read_murray_chu(folder, endurance=20),
    "murray_raj": lambda folder: read_murray_raj(folder, folder / "vehicles.csv", num_drones=1),
}
# Separators between numbers, and between a number and a name; not in comments.
GAP = re.compile(r"(?<=[\w.])(, ?| )(?=[-\w])")


def rows(change):
    """A dialect that changes each row, but for comments."""
    return lambda text: "".join(
        row if row.startswith(("%", "/*")) else change(row.rstrip("\n")) + "\n"
        for row in text.splitlines(keepends=True)
    )


DIALECTS = {
    "end": lambda text: f"{text}\nEOF",
    "ctrl-z": lambda text: f"{text}\x1a",
    "mark and carriage returns": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "empty rows": lambda text: text.replace("\n", "\n\n;;;\n") + ",,,\n",
    "empty fields": rows(lambda row: row + ",,"),
    "commas": rows(lambda row: GAP.sub(",", row)),
    "semicolons": rows(lambda row: GAP.sub(";", row) + ";"),
    "semicolons and decimal commas": rows(lambda row: GAP.sub(";", row).replace(".", ",") + ";;"),
    "tabs": rows(lambda row: GAP.sub("\t", row)),
    "Fortran": rows(lambda row: re.sub(r"(\d)\.5\b", r"\g<1>5D-01", row)),
    "capitals": str.upper,
    "a separator row": lambda text: "sep=,\n" + text,
}


def test_a_drone_that_does_not_turn_is_refused(tmp_path):
    for file, text in FILES["murray_raj"].items():
        (tmp_path / file).write_text(text.replace("7.75,360,", "7.75,0,"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"vehicles.csv, line 3: expected a yaw rate above 0, found 0; correct it$"):
        READERS["murray_raj"](tmp_path)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", FILES)
def test_every_format_reads_every_dialect(tmp_path, name, dialect):
    found = []
    for folder, change in (("plain", str), ("other", DIALECTS[dialect])):
        (tmp_path / folder).mkdir()
        for file, text in FILES[name].items():
            (tmp_path / folder / file).write_bytes(change(text).encode())
        found.append(READERS[name](tmp_path / folder))
    assert len(jax.tree.leaves(found[0])) == len(jax.tree.leaves(found[1])) > 5
    jax.tree.map(np.testing.assert_array_equal, *found)

"""What a user of a benchmark gets wrong is a `UserError`, which is one line, before anything is measured."""

import importlib
import shlex

import pytest

from benchmarks.published.data import VARIABLE
from jaxvrp.io.command_line import UserError
from jaxvrp_command.main import BENCHMARKS

SAYS = {
    "ablation --only 'the weather'": "--only",
    "ablation --num_seeds 0": "--num_seeds",
    "ablation --suite darp": "--suite",
    "peers --parts training --jaxmarl .": "give a clone of github",
    "quality --env.battery_rate -1": "--env: battery_rate",
    "quality --env.num_drones 2": "--env.num_drones differs from table to table; give --sizes instead",
    "quality --episodes 0": "--episodes.*0",
    "quality --env truck_drones": "--env.*truck_drones",
    "quality --env darp --env pcb": "--env is given twice",
    "quality --env darp --instances a0-0": "no file 'a0-0', and no a0-0.txt in",
    "quality --env darp --solvers gurobi": "invalid choice: 'gurobi'",
    "quality --env darp --run nowhere": "nowhere is no run folder",
    "quality --env darp --env.vehicle_speed -5": "--env: vehicle_speed",
    "quality --env darp --env.wings 2": "--env: ",
    "quality --env darp --env.name pcb": "--env.name: the command names the environment otherwise; leave it out",
    "quality --env pcb --published": f"set {VARIABLE} to the folder",
    "quality --env tsp_drone --sets random_n5": "--sets: cannot read 'random_n5' .*take random_n20, .* and set JAX",
    "quality --env tsp_drone --run nowhere": "nowhere is no run folder",
    "quality --env tsp_drone --best_of 0": "--best_of",
    "run darp_11 --method search --out b.json": "there is no set darp_11; known: darp_10_requests",
    "run darp_10_requests --out b.json": "who plays",
    "run darp_10_requests --method serch --out b.json": "--method serch: did you mean 'search'",
    "run darp_10_requests --policy tsp_drone --out b.json": "--policy tsp_drone",
    "run darp_10_requests --policy nothing --out b.json": "--policy nothing",
    "serving --clients 0": "'0' is no whole number above 0",
    "serving --clients 1 2 --second 3": "unrecognized arguments: --second 3",
    "solving --instances a2-160": "--instances: no file 'a2-160'",
    "solving --instances a.md": r"is neither \.txt",
    "solving --env tsp_drone --instances random_n4": "--instances: cannot read 'random_n4' ",
    "throughput --sizes 2,3": "--sizes: '2,3' is not drones,customers,nodes",
    "throughput --env jaxvrp.envs.darp:make --sizes 20,5": "'jaxvrp.envs.darp:make' are; leave it out",
    "throughput --env drap": "--env: unknown environment 'drap'; did you mean 'darp'",
    "throughput --batches 0": "'0' is no whole number above 0",
    "throughput --seconds nan": "'nan' is no number of seconds above 0",
    "throughput --out no/such/folder/a.json": "cannot write 'no/such/folder/a.json'",
    "throughput --env darp --env.name pcb": "--env.name: the command names the environment otherwise; leave it out",
    "throughput --env darp --env.limit true": "--env: unknown parameter of 'darp': 'limit'; did you mean 'limits'",
    "throughput --env darp --env.num_nodes 8": "--env.num_nodes differs from row to row; give --sizes instead",
    "throughput --repeat 3": "unrecognized arguments: --repeat 3",
    "training --network gru": "--network differs from row to row; give --networks instead",
    "training --env.num_drones=3": "--env.num_drones differs from row to row; give --sizes instead",
    "training --resume runs/x": "--resume is for training runs; leave it out",
    "training --num_env 3": "unknown key 'num_env'; did you mean 'num_envs'",
    "training --layer_norm 3": "layer_norm is 3; it must be true or false",
    "training --num_envs 3": r"num_envs is 3, which the number of devices \(2\) does not divide",
    "training --networks cnn": "argument --networks: invalid choice: 'cnn'",
    "training --sizes 2,3": "'2,3' is not drones,customers,nodes",
    "training stray": "stray",
    "training --seed 1 --seed 2": "--seed is given twice; leave one of them out",
    "training --repeats 1 --repeats=2": "--repeats is given twice; leave one of them out",
    f"training --sizes 2,3,{'9' * 5000}": r"\.\.\. is no list of whole numbers above 0, for example 2,3,5",
}
"""By the words behind `jaxvrp bench`; `a.txt` and `a.md` are files, and no published data is there."""


def bench(words):
    name, *options = shlex.split(words)
    importlib.import_module(BENCHMARKS[name]).main(options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with two files in it."""
    for name in ("a.txt", "a.md"):
        (tmp_path / name).write_text("seed: 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    return tmp_path


@pytest.mark.parametrize("words", SAYS, ids=lambda words: words[:70])
def test_a_mistake_is_one_line_and_nothing_is_written(words, folder):
    with pytest.raises(UserError, match=SAYS[words]):
        bench(words)
    assert {path.name for path in folder.iterdir()} == {"a.txt", "a.md"}


@pytest.mark.parametrize(
    "words",
    [
        *("learning --config a.txt", "training --config a.txt", "quality --env pcb --td3 ."),
        *("quality --env darp --instances a.txt", "quality --env darp --run ."),
    ],
)
def test_what_is_read_is_not_overwritten(words, folder):
    with pytest.raises(UserError, match=r"^--out is 'a\.txt', which would take the place of '.*'; choose "):
        bench(f"{words} --out ./a.txt")

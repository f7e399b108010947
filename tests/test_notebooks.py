"""The notebooks run from top to bottom, with small settings, and show what they promise."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"

found = importlib.util.spec_from_file_location("address", NOTEBOOKS / "address.py")
address = importlib.util.module_from_spec(found)
found.loader.exec_module(address)

SMALL = {
    "quickstart": {"NUM_ENVS": 16, "TOTAL_STEPS": 25_600, "EVAL_EPISODES": 4},
    "colab_tpu_gpu": {
        "TRAIN": "--total_steps 2048 --num_envs 32 --rollout_length 8 --num_minibatches 1 --eval_episodes 4",
        "DEVICE": "--parts steps --batches 16 --steps 4 --seconds 90",
    },
}
SHOWN = {
    "quickstart": {
        "make": "text/html",
        "step": "text/html",
        "curve": "image/png",
        "gif": "image/gif",
        "replay": "text/html",
    },
    "colab_tpu_gpu": {"measure": "image/png"},
}


def small_run(name: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """The notebook in a process of its own, on two CPU devices."""
    settings = {**SMALL[name], "RUNS": folder / "runs"}
    env = {
        **os.environ,
        **{f"JAXVRP_{key}": str(value) for key, value in settings.items()},
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    # The notebook for Colab runs commands of the clone that it lies in.
    where = NOTEBOOKS if name == "colab_tpu_gpu" else folder
    command = [sys.executable, str(NOTEBOOKS / "execute.py"), str(NOTEBOOKS / f"{name}.ipynb")]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "colab_tpu_gpu"])
def test_it_runs_and_shows_its_pictures(name, tmp_path):
    done = small_run(name, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    for cell, kind in SHOWN[name].items():
        assert kind in shown.get(cell, []), f"{cell} shows {shown.get(cell)}"
    (run,) = (tmp_path / "runs").iterdir()
    assert {"policy", "greedy", "random"} == set(json.loads((run / "summary.json").read_text()))
    if name == "colab_tpu_gpu":
        assert json.loads((run / "device.json").read_text())["rows"]


PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))

each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def code_cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@each_notebook
def test_its_parameters_can_be_set_and_it_is_tidy(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert set(notebook["metadata"]) <= {"accelerator", "kernelspec", "language_info"}
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    assert path.stem in SMALL
    (parameters,) = (cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", []))
    names = {f"JAXVRP_{name}" for name in [*SMALL[path.stem], "RUNS"]}
    assert all(name in "".join(parameters["source"]) for name in names)


@each_notebook
def test_it_is_stored_with_what_it_shows(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run from top to bottom"
    shown = {cell["id"]: [kind for output in cell["outputs"] for kind in output.get("data", {})] for cell in cells}
    for name, kind in SHOWN[path.stem].items():
        assert kind in shown[name], name
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data", "execute_result"}, "no errors"
    outputs = json.dumps([cell["outputs"] for cell in cells])
    assert not re.findall(r"/(?:home|root|tmp|work|Users)/", outputs), "no paths of a machine"
    assert path.stat().st_size < 1_000_000


def test_the_quickstart_trains_the_shipped_configuration_which_wins():
    path = NOTEBOOKS / "quickstart.ipynb"
    assert '"config": "truck_drone_basic"' in source_of(path, "train")
    shipped = yaml.safe_load((ROOT / "train" / "configs" / "truck_drone_basic.yaml").read_text(encoding="utf-8"))
    assert f'"{shipped["total_steps"]}"' in source_of(path, "parameters")
    (cell,) = (cell for cell in code_cells(path) if cell["id"] == "train")
    printed = "".join(line for output in cell["outputs"] for line in output["text"])
    returns = {player: float(figure) for player, figure in re.findall(r"^(policy|greedy|random) +(\S+)", printed, re.M)}
    learning = json.loads((ROOT / "benchmarks" / "results" / "learning_cpu.json").read_text(encoding="utf-8"))
    for player in ("greedy", "random"):
        assert returns[player] == pytest.approx(learning["figures"][player]["return"], abs=5e-4)
    assert returns["policy"] > returns["greedy"] + 20


# --- the address of the repository ----------------------------------------------------------------------------------


def test_the_address_is_the_same_everywhere():
    assert address.fill_in(ROOT, address.address_of(ROOT), check=True) == [], "run python notebooks/address.py"
    assert sorted(address.PLACES) == sorted(["pyproject.toml", "CITATION.cff", *(f"notebooks/{p.name}" for p in PATHS)])


def test_one_command_fills_it_in(tmp_path):
    for name in address.PLACES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    new = "https://git.example.org/us/jaxvrp"
    assert address.fill_in(tmp_path, new) == list(address.PLACES)
    assert address.address_of(tmp_path) == new and address.fill_in(tmp_path, new) == []
    citation = yaml.safe_load((tmp_path / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == new
    for path in PATHS:
        assert f'REPOSITORY = "{new}"' in source_of(tmp_path / "notebooks" / path.name, "install")
    (tmp_path / "CITATION.cff").write_text("no address")
    with pytest.raises(ValueError, match=r"CITATION.cff: 0 places for the address, instead of one"):
        address.fill_in(tmp_path, new)


def source_of(path, name):
    (source,) = ("".join(cell["source"]) for cell in code_cells(path) if cell["id"] == name)
    return source


def as_clone(folder):
    """Makes a folder look like a clone."""
    (folder / "jaxvrp").mkdir(parents=True)
    (folder / "jaxvrp" / "environment.py").touch()
    return folder


@pytest.fixture
def install(monkeypatch, tmp_path):
    """`install(path, **environment)`: the commands of the cell where there is no jaxvrp, in an empty folder."""

    def install(path, filled_in=True, folder=tmp_path, **environment):
        given = []

        def run(words, check):
            assert check
            given.append(words)
            if words[0] == "git":
                as_clone(pathlib.Path(words[-1]))

        monkeypatch.chdir(folder)
        monkeypatch.setattr("importlib.metadata.distributions", lambda name: ())  # a folder is no installation
        monkeypatch.setattr("subprocess.run", run)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        source = source_of(path, "install")
        if filled_in:
            source = source.replace("https://github.com/OWNER/jaxvrp", "https://git.example.org/us/jaxvrp")
        exec(compile(source, "install", "exec"), {})
        return given

    return install


def test_the_quickstart_installs_what_it_needs_on_colab(install):
    path = NOTEBOOKS / "quickstart.ipynb"
    ((*_, where, accelerator),) = install(path, TPU_NAME="local")
    assert where == "git+https://git.example.org/us/jaxvrp" and accelerator in ("jax[tpu]", "jax[cuda12]")
    ((*_, where, _),) = install(path, JAXVRP_SOURCE="somewhere")
    assert where == "somewhere"
    ((*_, where, _),) = install(path, folder=NOTEBOOKS, filled_in=False, JAXVRP_SOURCE="")
    assert where == str(ROOT)


def test_on_colab_the_repository_is_cloned_and_installed(install, tmp_path):
    clone, (*_, editable, where, accelerator) = install(NOTEBOOKS / "colab_tpu_gpu.ipynb", TPU_NAME="local")
    assert clone == ["git", "clone", "-q", "https://git.example.org/us/jaxvrp", "jaxvrp"]
    assert (editable, where) == ("-e", ".") and accelerator in ("jax[tpu]", "jax[cuda12]")
    assert pathlib.Path.cwd() == tmp_path / "jaxvrp"


def test_beside_an_archive_or_a_clone_no_address_is_needed(install, tmp_path):
    (tmp_path / "zip").mkdir()
    as_clone(tmp_path / "beside" / "jaxvrp-main")
    archive = pathlib.Path(shutil.make_archive(tmp_path / "zip" / "jaxvrp", "zip", tmp_path / "beside"))
    ((*_, where, _),) = install(NOTEBOOKS / "quickstart.ipynb", folder=archive.parent, filled_in=False)
    assert where == str(archive)
    ((*_, where, _),) = install(NOTEBOOKS / "quickstart.ipynb", folder=tmp_path / "beside", filled_in=False)
    assert where == str(tmp_path / "beside" / "jaxvrp-main")
    for folder in (archive.parent, tmp_path / "beside"):
        ((*_, editable, where, _),) = install(NOTEBOOKS / "colab_tpu_gpu.ipynb", folder=folder, filled_in=False)
        assert (editable, where) == ("-e", ".") and pathlib.Path.cwd() == folder / "jaxvrp-main"


def test_a_notebook_in_a_clone_installs_that(install):
    ((*_, editable, where, _),) = install(NOTEBOOKS / "colab_tpu_gpu.ipynb", folder=NOTEBOOKS, filled_in=False)
    assert (editable, where) == ("-e", ".") and pathlib.Path.cwd() == ROOT


@each_notebook
def test_without_an_address_it_says_what_to_fill_in(path, install):
    if address.NOT_FILLED_IN not in address.address_of(ROOT):
        pytest.skip("the address is filled in")
    with pytest.raises(
        SystemExit, match=r"fill in REPOSITORY above, open this notebook in a clone, or put jaxvrp\.zip"
    ):
        install(path, filled_in=False)

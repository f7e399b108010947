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
    "quickstart": {"NUM_ENVS": 16, "TOTAL_STEPS": 25_600},
    "colab_tpu_gpu": {
        "BATCHES": "16",
        "SECONDS": 0.01,
        "REPEATS": 1,
        "STEPS": 4,
        "ENVS_PER_DEVICE": 128,  # on two devices the program of the quickstart: compiled once
        "TOTAL_STEPS": 25_600,
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
    "colab_tpu_gpu": {"curve": "image/png", "episode": "image/gif"},
}


def small_run(name: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """The notebook in a process of its own, on two CPU devices."""
    settings = {**SMALL[name], "EVAL_EPISODES": 4, "RUNS": folder / "runs"}
    env = {
        **os.environ,
        **{f"JAXVRP_{key}": str(value) for key, value in settings.items()},
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, str(NOTEBOOKS / "execute.py"), str(NOTEBOOKS / f"{name}.ipynb")]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


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
    names = {f"JAXVRP_{name}" for name in [*SMALL[path.stem], "EVAL_EPISODES", "RUNS"]}
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


@pytest.fixture
def install(monkeypatch, tmp_path):
    """`install(path, **environment)`: what the cell has pip install where there is no jaxvrp, in an empty folder."""

    def install(path, filled_in=True, folder=tmp_path, **environment):
        given = []
        monkeypatch.chdir(folder)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setattr("subprocess.run", lambda words, check: given.extend(words))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        source = source_of(path, "install")
        if filled_in:
            source = source.replace("https://github.com/OWNER/jaxvrp", "https://git.example.org/us/jaxvrp")
        exec(compile(source, "install", "exec"), {})
        return given[given.index("-q") + 1 :]

    return install


@each_notebook
def test_it_installs_what_it_needs_on_colab(path, install):
    where, accelerator = install(path, TPU_NAME="local")
    assert where == "git+https://git.example.org/us/jaxvrp" and accelerator in ("jax[tpu]", "jax[cuda12]")
    assert install(path, JAXVRP_SOURCE="somewhere")[0] == "somewhere"


@each_notebook
def test_it_installs_the_clone_that_it_lies_in(path, install):
    assert install(path, folder=NOTEBOOKS, filled_in=False)[0] == str(ROOT)


@each_notebook
def test_without_an_address_it_says_what_to_fill_in(path, install):
    if address.NOT_FILLED_IN not in address.address_of(ROOT):
        pytest.skip("the address is filled in")
    with pytest.raises(SystemExit, match="fill in REPOSITORY above, or open this notebook in a clone"):
        install(path, filled_in=False)

"""The notebooks run from top to bottom, with small settings, and show what they promise."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
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


@pytest.mark.parametrize("name", ["quickstart", pytest.param("colab_tpu_gpu", marks=pytest.mark.slow)])
def test_it_runs_and_shows_its_pictures(name, tmp_path):
    done = small_run(name, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    for cell, kind in SHOWN[name].items():
        assert kind in shown.get(cell, []), f"{cell} shows {shown.get(cell)}"
    (run,) = (tmp_path / "runs").iterdir()
    assert {"policy", "greedy", "random"} == set(json.loads((run / "summary.json").read_text()))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell["id"]
    assert set(notebook["metadata"]) <= {"accelerator", "kernelspec", "language_info"}
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    assert path.stem in SMALL
    (parameters,) = (cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", []))
    names = {f"JAXVRP_{name}" for name in [*SMALL[path.stem], "EVAL_EPISODES", "RUNS"]}
    assert all(name in "".join(parameters["source"]) for name in names)

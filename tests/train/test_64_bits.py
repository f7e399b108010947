"""With `JAX_ENABLE_X64=1` all runs as it does without: every leaf has a type of its own."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

SIZES = "--total_steps 16 --num_envs 2 --rollout_length 4 --num_minibatches 1 --eval_episodes 2 --hidden_sizes [4]"


@pytest.mark.slow
def test_a_training_with_64_bits(tmp_path):
    """Decisions by events: their loop refuses a reward that is wider than at its beginning."""
    env = "--env.name truck_drone --env.decide events --env.num_drones 1 --env.num_customers 2 --env.max_steps 8"
    words = [*env.split(), *SIZES.split(), "--logger", "[]", "--pictures", "false", "--run_dir", str(tmp_path / "run")]
    result = subprocess.run(
        [sys.executable, "-m", "train.mappo", *words],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "summary.json").is_file()


PLACE = {"randint": 4, "uniform": 2, "normal": 2, "exponential": 2}
"""Where draws of `jax.random` have the type of their numbers, among their arguments."""


def test_every_draw_has_a_type_of_its_own():
    """Else it is of 64 bits with the flag, and a loop that carries it on stops."""
    draws = [
        (path, call)
        for path in pathlib.Path("jaxvrp").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).removeprefix("jax.random.") in PLACE
    ]
    typeless = [
        f"{path}:{call.lineno}"
        for path, call in draws
        if len(call.args) <= PLACE[ast.unparse(call.func).removeprefix("jax.random.")]
        and not any(isinstance(arg, ast.Starred) for arg in call.args)
        and not any(word.arg == "dtype" for word in call.keywords)
    ]
    assert len(draws) > 50 and not typeless, typeless


@pytest.mark.slow
def test_a_map_is_solved_with_64_bits():
    words = ["-m", "train.solve", "docs/maps/market_town.json", "--seconds", "0.1"]
    result = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr

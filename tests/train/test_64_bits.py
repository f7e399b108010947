"""With `JAX_ENABLE_X64=1` a training runs as it does without: every leaf has a type of its own."""

import os
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

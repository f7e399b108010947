"""Solve every file of a folder on a Ray cluster with a shared disk: `python solve_ray.py days plans`."""

import subprocess
import sys

import ray

SHARDS = 16


@ray.remote(num_cpus=2, max_retries=3)
def solve(files: str, out: str, shard: int) -> None:
    """Solve one shard; a second try keeps the plans of the first."""
    command = ["jaxvrp", "solve", files, "--seconds", "10", "--out", out, "--shard", f"{shard}/{SHARDS}"]
    subprocess.run(command, check=True)


ray.init()
ray.get([solve.remote(*sys.argv[1:3], shard) for shard in range(1, SHARDS + 1)])
subprocess.run(["jaxvrp", "solve", "--collect", sys.argv[2]], check=True)

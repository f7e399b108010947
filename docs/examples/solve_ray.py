"""Solve every file of a folder on a Ray cluster with a shared disk: `python solve_ray.py days plans`."""

import argparse
import os
import subprocess

import ray

SHARDS = 16


@ray.remote(num_cpus=2, max_retries=3)
def solve(files: str, out: str, shard: int, folder: str) -> None:
    """Solve one shard, from the folder where this was called; a second try keeps the plans of the first."""
    command = ["jaxvrp", "solve", files, "--seconds", "10", "--out", out, "--shard", f"{shard}/{SHARDS}"]
    subprocess.run(command, check=True, cwd=folder)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("files", help="a folder, or a quoted pattern")
parser.add_argument("out", help="the folder for the plans")
args = parser.parse_args()
ray.init()
# Nodes work in the folders in which they were started.
ray.get([solve.remote(args.files, args.out, shard, os.getcwd()) for shard in range(1, SHARDS + 1)])
subprocess.run(["jaxvrp", "solve", "--collect", args.out], check=True)

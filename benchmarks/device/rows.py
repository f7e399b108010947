"""What is measured, each by a function that runs in a process which has the device."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from benchmarks.compiled.programs import configuration
from benchmarks.measuring import measure
from benchmarks.measuring.subject import subject_of
from benchmarks.peers.players import PLAYERS
from benchmarks.throughput import JaxPlayer
from benchmarks.training import Learning
from jaxvrp import VecEnv
from jaxvrp.actor import RandomActor
from jaxvrp.io.messages import installing
from train import RunConfig
from train.on_policy.config import PPOConfig

Row = dict[str, Any]

LEAST_SECONDS = 0.5
"""Of a measurement, after a warm-up."""

PARITY_BATCH = 256

PRECISIONS = {"as it comes": "default", "float32": "float32", "bfloat16": "BF16_BF16_F32"}
"""How matrix products are taken: as the device does by default (an H100 rounds factors to TF32), in 32 bits, and of
factors rounded to bfloat16 with sums in 32 bits. All else is in 32 bits."""


def driver() -> Row:
    """The device, what drives it, and its memory, as far as they are told."""
    device, output = jax.devices()[0], ""
    if program := shutil.which("nvidia-smi"):
        command = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    return {
        "device": measure.device_name(),
        "platform": device.platform,
        "driver": " ".join(output.split()),
        "runtime": " ".join(device.client.platform_version.split()),
        "memory_bytes": (device.memory_stats() or {}).get("bytes_limit"),
    }


def parity(name: str, steps: int) -> Row:
    """The share of environments whose rewards are those on the CPU; rounding decides some close calls otherwise."""
    device, cpu = jax.devices()[0], jax.devices("cpu")[0]
    devices = list(dict.fromkeys((device, cpu)))  # one in a rehearsal
    with ThreadPoolExecutor() as threads:  # both compile at once
        rewards = dict(zip(devices, threads.map(functools.partial(rewards_on, name, steps), devices), strict=True))
    here, on_cpu = rewards[device], rewards[cpu]
    same = np.isclose(here, on_cpu, rtol=1e-4, atol=1e-4).all(axis=0)
    return {"share_as_on_cpu": float(same.mean()), "largest_difference": float(np.abs(here - on_cpu).max())}


def rewards_on(name: str, steps: int, device: jax.Device) -> np.ndarray:
    """`f32[steps, PARITY_BATCH]`, the team's rewards of masked random play on a device."""
    subject = subject_of(name)
    env = jaxvrp.make(name, **(subject.parameters(subject.tiny) if subject.tiny else {}))
    vec, actor = VecEnv(env, PARITY_BATCH), RandomActor(env)

    def advance(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        state, timestep = carry
        action, _ = actor.act(key, (), state.env, timestep)
        state, after = vec.step(state, action)
        return (state, after), jnp.stack([paid.mean(axis=-1) for paid in after.reward.values()]).sum(axis=0)

    @jax.jit
    def play(key: jax.Array) -> jax.Array:
        return jax.lax.scan(advance, vec.reset(key), jax.random.split(key, steps))[1]

    with jax.default_device(device):
        return np.asarray(play(jax.random.key(0)))


def speed(call: Callable[[], object], steps: int) -> float:
    """Environment steps per second of a call that plays `steps` of them, and waits."""
    calls = measure.calls_for(call, LEAST_SECONDS)
    return steps * calls / measure.clock(call, calls)


class Program(NamedTuple):
    """Compiled: a call that plays `steps` environment steps and waits, and the seconds to trace and compile it."""

    call: Callable[[], object]
    steps: int
    compiled: Any
    compile_seconds: float


def timed(build: Callable[[], Program]) -> Row:
    """Steps per second of the program that `build` compiles, and its memory."""
    program = build()
    rate = speed(program.call, program.steps)
    most, owner = measure.peak_memory()
    return {"steps_per_second": rate, **_compilation(program), "peak_memory_bytes": most, "memory_of": owner}


def compiled(build: Callable[[], Program]) -> Row:
    """How long the compilation takes; the program is then in JAX's cache of programs, for `timed`."""
    return _compilation(build())


def _compilation(program: Program) -> Row:
    """Its seconds, and the most bytes that the program holds, by its compiler: none tells of a program of the cache."""
    most = getattr(program.compiled.memory_analysis(), "peak_memory_in_bytes", None)
    return {"compile_seconds": program.compile_seconds, "program_bytes": most or None}


def simulation(name: str, parameters: dict[str, Any], batch: int, steps: int, unroll: int = 1) -> Program:
    """Masked random play, as in `benchmarks.throughput`."""
    player = JaxPlayer(jaxvrp.make(name, **parameters), batch, steps, unroll)
    return Program(player.play, batch * steps, player.compiled, player.compile_seconds)


def training(network: str, num_envs: int, precision: str) -> Program:
    """MAPPO; `precision` of matrix products is one of `PRECISIONS`."""
    seen = "entities" if network == "attention" else "flat"
    env = {"name": "truck_drone", "num_drones": 2, "num_customers": 3, "num_route_nodes": 5, "observation": seen}
    with jax.default_matmul_precision(PRECISIONS[precision]):
        return _chunk(PPOConfig(env=env, network=network, num_envs=num_envs, log_interval=1, num_devices=1))


def updates(config: str) -> Program:
    """MAPPO by a shipped configuration, as many updates as between two lines of its log."""
    return _chunk(configuration("mappo", config, {}))


def _chunk(config: RunConfig) -> Program:
    """`train_chunk` of a configuration."""
    learning = Learning(config)
    program, seconds = measure.seconds_of(learning.compile)
    return Program(learning.chunk, learning.steps, program, seconds.wall)


def peer(batch: int, steps: int) -> Row:
    """JaxMARL's MPE spread on this device."""
    player = PLAYERS["mpe"]
    if player.version is None:
        return {"note": f"{player.package} is not installed; {installing('peers')}"}
    return {"steps_per_second": speed(player.build(batch, steps), batch * steps), "version": player.version}


def first_command(config: str, further: Sequence[str], most_seconds: float) -> Row:
    """Training of a configuration, as typed on a fresh machine: how long it takes, and what its policy comes to."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        command = [sys.executable, "-m", "train.mappo", "--config", config, "--run_dir", str(run), *further]
        fresh = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(pathlib.Path(folder, "programs"))}
        _, seconds = measure.seconds_of(lambda: subprocess.run(command, check=True, timeout=most_seconds, env=fresh))
        figures = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return {"command_seconds": seconds.wall, "figures": figures}

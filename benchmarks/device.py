"""What the accelerator of this machine does, in one command that takes nine minutes at most.

python -m benchmarks.device --out device.json
python -m benchmarks.device --batches 64 256 --num_envs 16 --steps 8 --seconds 120 --out trial.json    # on a CPU

Whatever JAX finds is measured, one row after another: whether steps are those of this machine's CPU, random play,
training, a peer on the same device if it is installed. After each row the file is written anew. Rows for which there is
no time are left out, and a row that takes too long ends the program, with all rows before it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.peers.players import PLAYERS
from benchmarks.subject import subject_of
from benchmarks.throughput import JaxPlayer
from benchmarks.training import Learning
from jaxvrp import VecEnv
from jaxvrp.actor import RandomActor
from jaxvrp.io.command_line import Parser, positive
from jaxvrp.io.messages import installing
from jaxvrp.io.whole_files import write_json
from train import aligned, entry
from train.on_policy.config import PPOConfig

Row = dict[str, Any]
Job = tuple[Row, Callable[[], Row]]
"""What a row is called, and what measures the rest of it."""

LEAST_SECONDS = 0.5
"""Of a measurement, after a warm-up."""

PARITY_BATCH = 256

PARTS = ("parity", "steps", "training")
"""Of the table, in its order."""


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


def parity(name: str, steps: int) -> Row:
    """The share of environments whose rewards are those on the CPU; rounding decides some close calls otherwise."""
    here, on_cpu = (rewards_on(name, steps, device) for device in (jax.devices()[0], jax.devices("cpu")[0]))
    same = np.isclose(here, on_cpu, rtol=1e-4, atol=1e-4).all(axis=0)
    return {"share_as_on_cpu": float(same.mean()), "largest_difference": float(np.abs(here - on_cpu).max())}


def speed(call: Callable[[], object], steps: int) -> float:
    """Environment steps per second of a call that plays `steps` of them, and waits."""
    calls = measure.calls_for(call, LEAST_SECONDS)
    return steps * calls / measure.clock(call, calls)


def simulation(name: str, parameters: dict[str, Any], batch: int, steps: int) -> Row:
    """Masked random play, as in `benchmarks.throughput`."""
    player = JaxPlayer(jaxvrp.make(name, **parameters), batch, steps)
    return {"steps_per_second": speed(player.play, batch * steps), "compile_seconds": player.compile_seconds}


def training(network: str, num_envs: int, precision: str) -> Row:
    """MAPPO; with `"bfloat16"` matrix products round their factors to it, and all the rest is in 32 bits."""
    seen = "entities" if network == "attention" else "flat"
    env = {"name": "truck_drone", "num_drones": 2, "num_customers": 3, "num_route_nodes": 5, "observation": seen}
    with jax.default_matmul_precision(precision):
        learning = Learning(PPOConfig(env=env, network=network, num_envs=num_envs, log_interval=1, num_devices=1))
        compiled = measure.clock(learning.chunk)
        return {"steps_per_second": speed(learning.chunk, learning.steps), "compile_seconds": compiled}


def peer(batch: int, steps: int) -> Row:
    """JaxMARL's MPE spread on this device."""
    player = PLAYERS["mpe"]
    if player.version is None:
        return {"error": f"{player.package} is not installed; {installing('peers')}"}
    return {"steps_per_second": speed(player.build(batch, steps), batch * steps), "version": player.version}


def jobs(args: argparse.Namespace) -> list[Job]:
    """All rows; one of each part in turn, so that every part has some if time is short."""
    parts = (parities(args), simulations(args), trainings(args))
    return [job for in_turn in itertools.zip_longest(*parts) for job in in_turn if job]


def parities(args: argparse.Namespace) -> Iterator[Job]:
    """A row for each environment, `truck_drone` first."""
    for name in sorted(jaxvrp.registered(), key=lambda name: name != "truck_drone"):
        yield {"part": "parity", "what": name}, functools.partial(parity, name, args.steps)


def simulations(args: argparse.Namespace) -> Iterator[Job]:
    """Random play: `truck_drone` by batch, the largest first, the peer, and all other environments."""
    small = subject_of("truck_drone").parameters((2, 3, 5))
    largest = max(args.batches)
    for batch in sorted(args.batches, reverse=True):
        for seen in ("flat", "entities"):
            row = {"part": "steps", "what": f"truck_drone (2, 3, 5), {seen}", "batch": batch}
            yield row, functools.partial(simulation, "truck_drone", {**small, "observation": seen}, batch, args.steps)
        if batch == largest:
            row = {"part": "steps", "what": "JaxMARL MPE spread", "batch": batch}
            yield row, functools.partial(peer, batch, args.steps)
    for name in jaxvrp.registered():
        if name != "truck_drone" and (sizes := subject_of(name).sizes):
            row = {"part": "steps", "what": f"{name} {sizes[0]}", "batch": largest}
            yield row, functools.partial(simulation, name, subject_of(name).parameters(sizes[0]), largest, args.steps)


def trainings(args: argparse.Namespace) -> Iterator[Job]:
    """MAPPO by network and number of environments, the least number in both precisions."""
    for num_envs in sorted(args.num_envs):
        for network in ("mlp", "gru", "attention"):
            for precision in ("float32", "bfloat16") if num_envs == min(args.num_envs) else ("float32",):
                row = {"part": "training", "what": f"{network}, {precision}", "batch": num_envs}
                yield row, functools.partial(training, network, num_envs, precision)


def measured(job: Job) -> Row:
    """The whole row, with the memory in use so far; what goes wrong is a word in it, and the next row follows."""
    row, run = job
    start = time.perf_counter()
    try:
        found = run()
    except Exception as error:  # an accelerator runs out of memory in many ways
        reason, _, _ = str(error).strip().partition("\n")
        found = {"error": f"{type(error).__name__}: {reason[:200]}"}
    peak, memory_of = measure.peak_memory()
    return {**row, **found, "peak_memory_bytes": peak, "memory_of": memory_of, "seconds": time.perf_counter() - start}


def plot(rows: Sequence[Row], title: str, path: pathlib.Path) -> None:
    """Steps per second by batch, random play and training side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    figure.suptitle(title)
    for axes, part in zip(figure.subplots(1, 2), PARTS[1:], strict=True):
        of_part = [row for row in rows if row["part"] == part and "steps_per_second" in row]
        for what in dict.fromkeys(row["what"] for row in of_part):
            line = sorted((row["batch"], row["steps_per_second"]) for row in of_part if row["what"] == what)
            axes.plot(*zip(*line, strict=True), marker="o", label=what)
        axes.set(title=part, xlabel="environments", ylabel="environment steps per second")
        if of_part:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.legend(fontsize="small")
    figure.savefig(path)


def table(rows: Sequence[Row]) -> str:
    """The aligned table, one line per row."""
    head = ["part", "what", "batch", "steps/s", "compile s", "peak MiB", "note"]
    lines = [head]
    for row in sorted(rows, key=lambda row: PARTS.index(row["part"])):
        rate = measure.rate(row["steps_per_second"]) if "steps_per_second" in row else "-"
        compiled = f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "-"
        memory = "-" if row["peak_memory_bytes"] is None else f"{row['peak_memory_bytes'] / 2**20:.0f}"
        same = f"{row['share_as_on_cpu']:.1%} as on the CPU" if "share_as_on_cpu" in row else ""
        lines.append(
            [row["part"], row["what"], str(row.get("batch", "-")), rate, compiled, memory, row.get("error", same)]
        )
    return aligned(lines)


def main(argv: Sequence[str] | None = None, leave: Callable[[int], object] = os._exit) -> None:
    """The command line; `leave` ends the program out of a row that takes too long, which may be in the compiler."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parser().parse_args(argv)
    deadline = time.monotonic() + args.seconds
    header = measure.machine(["python", "-m", "benchmarks.device", *argv], measure.device_name())
    rows: list[Row] = []
    at_end = threading.Lock()

    def finish(note: str) -> None:
        print(f"{header['device']}; {note}\n\n{table(rows)}")
        plot(rows, str(header["device"]), args.out.with_suffix(".png"))

    def out_of_time() -> None:
        if at_end.acquire(blocking=False):
            finish("stopped by the clock")
            sys.stdout.flush()
            leave(0)

    clock = threading.Timer(args.seconds, out_of_time)
    clock.daemon = True
    clock.start()
    every = jobs(args)
    for job in measure.progress(every, "row"):
        # A row takes as long to compile as the one before it of its part.
        before = next((row["seconds"] for row in reversed(rows) if row["part"] == job[0]["part"]), 0.0)
        if time.monotonic() + before > deadline:
            continue
        rows.append(measured(job))
        write_json(args.out, {"machine": header, "rows_planned": len(every), "rows": rows})
    if at_end.acquire(blocking=False):
        clock.cancel()
        finish(f"{len(rows)} of {len(every)} rows")
    else:
        clock.join()  # it still draws


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.device", "What the accelerator of this machine does, in nine minutes at most.")
    powers = [2**power for power in range(10, 19, 2)]
    parser.add_argument(
        "--batches", type=positive, nargs="+", default=powers, help="of random play (default: to 2**18)"
    )
    envs = [2**power for power in range(12, 16)]
    parser.add_argument("--num_envs", type=positive, nargs="+", default=envs, help="of training (default: to 2**15)")
    parser.add_argument("--steps", type=positive, default=64, help="scanned steps of a call (default: 64)")
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=530.0, help="after which it stops (default: 530)"
    )
    parser.add_argument(
        "--out", type=measure.result_file, default="device.json", help="JSON file; the plot is beside it, a PNG"
    )
    return parser


if __name__ == "__main__":
    entry(main)

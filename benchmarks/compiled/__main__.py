"""What the compilers of accelerators make of our programs: kernels and bytes, without a device.

python -m benchmarks.compiled --target h100 --out compiled_h100.json
python -m benchmarks.compiled --target v5e --programs play:darp train:truck_drone_basic --keep programs
python -m benchmarks.compiled --target h100 --devices 2 --programs train:truck_drone_basic

A program `play` is 64 steps of masked random play, of which one counts; all others count as a whole. Nothing is run:
times are least times that the memory's bandwidth and the starts of kernels allow. What a TPU keeps on the chip from one
kernel to the next does not wait for that memory.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.compiled import hlo
from benchmarks.compiled.programs import Program, all_programs
from benchmarks.compiled.targets import TARGETS, Target
from benchmarks.measuring import measure
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.whole_files import write_json
from train import aligned, entry
from train.learning.sharding import DEVICES

Row = dict[str, Any]


def compiled_row(program: Program, target: Target, keep: pathlib.Path | None = None) -> Row:
    """A program's figures; of one that is not compiled, the compiler's complaint."""
    row: Row = {"program": program.name, "batch": program.batch}
    start = time.perf_counter()
    try:
        lowered = program.lower()
        lowered_at = time.perf_counter()
        compiled = lowered.compile()
    except Exception as error:  # compilers have no kind of error of their own
        return {**row, "error": " ".join(str(error).split())[:300]}
    seconds = {"lower_seconds": lowered_at - start, "compile_seconds": time.perf_counter() - lowered_at}
    text = compiled.as_text()
    if keep:
        (keep / f"{program.name.replace(':', '_')}.hlo").write_text(text, encoding="utf-8")
    memory = compiled.memory_analysis()
    return {**row, **figures(hlo.Program(text), program, target), "peak_bytes": memory.peak_memory_in_bytes, **seconds}


def figures(text: hlo.Program, program: Program, target: Target) -> Row:
    """Kernels, bytes and operations of a step, or of a whole program, and the least seconds that they take."""
    cost = text.cost(text.loop_body(program.steps) if program.steps else text.entry)
    return {
        "kernels": cost.kernels,
        "collectives": cost.collectives,
        "logical_bytes": cost.moved.logical,
        "padded_bytes": cost.moved.padded,
        "off_chip_bytes": cost.moved.off_chip,
        **cost.operations,
        "loops": cost.loops,
        "least_seconds_by_bandwidth": cost.moved.off_chip / target.bandwidth,
        "least_seconds_by_launches": cost.kernels * target.launch,
    }


def table(rows: Sequence[Row]) -> str:
    """The aligned table, a line a program."""
    sizes = ["MB", "padded MB", "off-chip MB"]
    head = ["program", "kernels", "collectives", *sizes, *hlo.COUNTED, "loops", "peak MB", "least us", "compile s"]
    return aligned([head, *map(_cells, rows)])


def _cells(row: Row) -> list[str]:
    if "error" in row:
        return [row["program"], *["-"] * (8 + len(hlo.COUNTED)), row["error"]]
    least = max(row["least_seconds_by_bandwidth"], row["least_seconds_by_launches"])
    megabytes = [f"{row[name] / 1e6:.3g}" for name in ("logical_bytes", "padded_bytes", "off_chip_bytes")]
    return [
        row["program"],
        str(row["kernels"]),
        str(row["collectives"]),
        *megabytes,
        *(str(row[name]) for name in hlo.COUNTED),
        str(row["loops"]),
        f"{row['peak_bytes'] / 1e6:.3g}",
        f"{least * 1e6:.3g}",
        f"{row['compile_seconds']:.1f}",
    ]


def chosen(programs: Sequence[Program], beginnings: Sequence[str]) -> list[Program]:
    """The programs whose names begin so; all, if nothing is asked for.

    Raises:
        UserError: none begins so.
    """
    for beginning in beginnings:
        if not any(program.name.startswith(beginning) for program in programs):
            raise UserError(
                f"--programs {beginning}: there is none; there are {', '.join(each.name for each in programs)}"
            )
    return [each for each in programs if not beginnings or each.name.startswith(tuple(beginnings))]


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parser().parse_args(argv)
    # What is compiled is not run here, and its compilation is to be timed.
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_compilation_cache", False)
    target = TARGETS[args.target]
    devices = target.devices(args.devices)
    DEVICES.set(devices)
    programs = chosen(list(all_programs(args.batch)), args.programs)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    kind = f"{len(devices)} x {devices[0].device_kind}"
    header = measure.machine(["python", "-m", "benchmarks.compiled", *argv], f"none; compiled for {kind}")
    rows: list[Row] = []
    for program in measure.progress(programs, "program"):
        rows.append(compiled_row(program, target, args.keep))
        if args.out:
            write_json(args.out, {"machine": header, "rows": rows})
    print(f"compiled for {kind}, not run\n\n{table(rows)}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.compiled", "What the compilers of accelerators make of our programs, without a device.")
    parser.add_argument("--target", choices=TARGETS, required=True, help="the device that is compiled for")
    parser.add_argument("--devices", type=positive, default=1, help="over which learners train (default: 1)")
    parser.add_argument("--programs", nargs="+", default=(), metavar="NAME", help="beginnings of names (default: all)")
    parser.add_argument("--batch", type=positive, default=4096, help="environments of a step (default: 4096)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="a folder for the compiled programs, as text")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and all figures")
    return parser


if __name__ == "__main__":
    entry(main)

"""What the accelerator of this machine does, in one command that takes nine minutes at most.

python -m benchmarks.device --out device.json
python -m benchmarks.device --rehearse --seconds 120 --out trial.json    # tiny, on a CPU; a row that fails is status 1

Whatever JAX finds is measured, one row after another, the most important first: whether steps are those of this
machine's CPU, random play by batch, flags of the compiler, training, kernels by time, a peer on the same device if it
is installed, and two training commands. Where there are four cores or more, programs are compiled before, several at
once. After each row the file is written anew. A row that fails, or takes too long, says so, and the next follows;
`device.log` beside the file has all that libraries say. `--platform gpu` refuses to measure a CPU, which is what JAX
finds where a GPU does not start.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import queue
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import jaxvrp
from benchmarks import fast_compilation
from benchmarks.device import kernels
from benchmarks.device import rows as measured
from benchmarks.device.rows import Program, Row
from benchmarks.device.worker import Answer, Worker
from benchmarks.measuring import measure
from benchmarks.measuring.subject import parameters_of, subject_of
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.messages import cut
from jaxvrp.io.whole_files import write_json
from train import aligned, entry

PARTS = ("parity", "steps", "flags", "training", "kernels", "command")
"""Of the table, in its order."""

LEAST_SECONDS = 10.0
"""Which must be left for a row to begin."""

COMMANDS = {"the README's first": "truck_drone_basic", "the accelerator's configuration": "truck_drone_accelerator"}
"""Words for configurations that are trained from the command line."""

COMMAND_PLACE = 20
"""How many rows come before these commands."""

ENVIRONMENTS = ("truck_drone", "darp", "tsp_drone", "pcb", "dispatch")
"""Measured first; the others follow."""

MOST_PROCESSES = 8
"""That compile side by side; each holds some memory of the device."""

WHILE, UNROLL, SHORT, DOUBLE = (
    "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL",
    "--xla_gpu_command_buffer_unroll_loops=true",
    "--xla_gpu_graph_min_graph_size=1",
    "--xla_gpu_enable_while_loop_double_buffering=true",
)

FLAGS = {
    "as they are": ((), 1),
    "loops in command buffers, even short ones": ((WHILE, SHORT), 1),
    "the same, unrolled": ((WHILE, SHORT, UNROLL), 1),
    "double buffering of loops": ((DOUBLE,), 1),
    "scan(unroll=4)": ((), 4),
    "loops in command buffers, scan(unroll=4)": ((WHILE, SHORT), 4),
    "loops in command buffers": ((WHILE,), 1),
    "short command buffers": ((SHORT,), 1),
}
"""Words for flags of XLA that are added to those of the user, and steps in a trip of the loop."""

FLAGS_BATCH = 4096
"""Environments of the program whose flags are compared: on an H100 its time is that of starting kernels."""

REHEARSAL = {
    "batches": [64, 256],
    "num_envs": [16],
    "steps": 4,
    "row_seconds": 900.0,
    "further": ("--total_steps", "12800"),
}
"""Of a rehearsal: sizes, seconds of a row, many since a busy CPU is slow, and options of the README's first command."""

FULL = {
    "batches": [2**power for power in range(10, 19, 2)],
    "num_envs": [2**10, 2**12, 2**14],
    "steps": 64,
    "row_seconds": 180.0,
    "further": (),
}


@dataclasses.dataclass(frozen=True)
class Job:
    """A row of the table.

    Attributes:
        row: its `part`, `what` it is, and the `batch` if it has one.
        run: measures the rest of it; a function of a module, with its arguments.
        variables: of the environment of a process that measures this row alone; None: rows share a process.
        ahead: finds a part of it while other processes are at work too, such as the seconds of a compilation; `run`
            itself where nothing is timed, and it then need not run again.
    """

    row: Row
    run: Callable[[], Row]
    variables: Mapping[str, str] | None = None
    ahead: Callable[[], Row] | None = None


def of_program(
    row: Row,
    build: Callable[[], Program],
    measure: Callable[[Callable[[], Program]], Row] = measured.timed,
    variables: Mapping[str, str] | None = None,
) -> Job:
    """The row of a program, which is compiled ahead."""
    return Job(row, functools.partial(measure, build), variables, functools.partial(measured.compiled, build))


def jobs(args: argparse.Namespace) -> list[Job]:
    """All rows; some of each part in turn, so that every part has some if time is short."""
    steps = simulations(args)
    parts = (parities(args), steps, flags(args), trainings(args), traces(args), steps)
    every = [job for in_turn in itertools.zip_longest(*parts) for job in in_turn if job]
    every[COMMAND_PLACE:COMMAND_PLACE] = commands(args)
    return [job for job in every if job.row["part"] in args.parts]


def parities(args: argparse.Namespace) -> Iterator[Job]:
    """A row for each environment."""
    for name in dict.fromkeys((*ENVIRONMENTS, *jaxvrp.registered())):
        run = functools.partial(measured.parity, name, args.steps)
        yield Job({"part": "parity", "what": name}, run, ahead=run)


def commands(args: argparse.Namespace) -> Iterator[Job]:
    """Training as users type it."""
    for name, config in COMMANDS.items():
        run = functools.partial(measured.first_command, config, args.further, args.row_seconds - LEAST_SECONDS)
        yield Job({"part": "command", "what": name}, run)


def simulations(args: argparse.Namespace) -> Iterator[Job]:
    """Random play: `truck_drone` and a peer in the largest batch, the others in the next, and so on down."""
    batches = sorted(args.batches, reverse=True)
    for place, batch in enumerate(batches):
        row = {"part": "steps", "batch": batch}
        small = subject_of("truck_drone").parameters((2, 3, 5))
        for seen in ("flat", "entities"):
            build = functools.partial(
                measured.simulation, "truck_drone", {**small, "observation": seen}, batch, args.steps
            )
            yield of_program({**row, "what": f"truck_drone (2, 3, 5), {seen}"}, build)
        if place == 0:
            yield Job({**row, "what": "JaxMARL MPE spread"}, functools.partial(measured.peer, batch, args.steps))
            continue
        for name in ENVIRONMENTS[1:]:
            build = functools.partial(measured.simulation, name, parameters_of(name), batch, args.steps)
            yield of_program({**row, "what": f"{name} {subject_of(name).sizes[0]}"}, build)


def flags(args: argparse.Namespace) -> Iterator[Job]:
    """Two programs under flags of the compiler, which are read when a process starts.

    A step of the main job has a loop of its own, until something happens.
    """
    small = {**subject_of("truck_drone").parameters((2, 3, 5)), "observation": "entities"}
    batch = min(FLAGS_BATCH, max(args.batches))
    for name, (words, unroll) in FLAGS.items():
        given = " ".join([os.environ.get("XLA_FLAGS", ""), *words]).strip()
        row = {"part": "flags", "what": name, "batch": batch, "flags": given, "unroll": unroll}
        build = functools.partial(measured.simulation, "truck_drone", small, batch, args.steps, unroll)
        yield of_program(row, build, variables={"XLA_FLAGS": given})
        if unroll == 1:
            config = COMMANDS["the README's first"]
            main_job = {"part": "flags", "what": f"main job: {name}", "flags": given}
            build = functools.partial(measured.updates, config)
            yield of_program(main_job, build, variables={"XLA_FLAGS": given})


def trainings(args: argparse.Namespace) -> Iterator[Job]:
    """MAPPO by network, the largest number of environments first, that one in other precisions, too."""
    largest = max(args.num_envs)
    numbers = [(num_envs, "as it comes") for num_envs in sorted(args.num_envs, reverse=True)]
    for num_envs, precision in (numbers[0], (largest, "bfloat16"), *numbers[1:], (largest, "float32")):
        for network in ("mlp", "gru", "attention"):
            row = {"part": "training", "what": f"{network}, {precision}", "batch": num_envs}
            yield of_program(row, functools.partial(measured.training, network, num_envs, precision))


def traces(args: argparse.Namespace) -> Iterator[Job]:
    """Kernels of the updates of two configurations, and of programs that other rows time."""
    part = {"part": "kernels"}
    for config in COMMANDS.values():
        build = functools.partial(measured.updates, config)
        yield of_program({**part, "what": f"updates of {config}"}, build, kernels.kernels)
    batch = sorted(args.batches)[-2:][0]  # most of these have no row in the largest
    for name in ENVIRONMENTS:
        build = functools.partial(measured.simulation, name, parameters_of(name), batch, args.steps)
        yield of_program({**part, "what": name, "batch": batch}, build, kernels.kernels)
    num_envs = min(args.num_envs)
    for network in ("attention", "mlp"):
        build = functools.partial(measured.training, network, num_envs, "as it comes")
        yield of_program({**part, "what": f"training {network}", "batch": num_envs}, build, kernels.kernels)


class Table:
    """Rows as they are measured, and the file that always has all of them."""

    def __init__(self, args: argparse.Namespace, variables: Mapping[str, str]):
        """`args` are those of the command line; `variables` are of every process that measures."""
        out, seconds = args.out, args.seconds
        self.rows: list[Row] = []
        self._row_seconds, self._processes = args.row_seconds, args.processes
        self._programs = tempfile.TemporaryDirectory()  # what one process has compiled another one reads
        self._out, self._log, self._deadline = out, out.with_suffix(".log"), time.monotonic() + seconds
        self._log.unlink(missing_ok=True)
        # Two processes have the device at a time: none takes memory before it needs it.
        programs = {"JAX_COMPILATION_CACHE_DIR": self._programs.name}
        self._variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **programs, **variables}
        self._shared = Worker(self._variables, self._log)
        self.header: Row = {}

    def begin(self, command: Sequence[str], platform: str | None) -> None:
        """Find the device, which is to be of that platform; None: of any.

        Raises:
            UserError: JAX finds none.
        """
        answer = self._shared.call(measured.driver, self._row_seconds)
        if answer.error:
            raise UserError(f"JAX finds no device ({answer.error}); {self._log} has more")
        if platform not in (None, answer.result["platform"]):
            found = answer.result["device"]
            raise UserError(f"--platform {platform}: JAX finds {found}; {self._log} may say why, or leave it out")
        self.header = {**measure.machine(command, answer.result["device"]), **answer.result}
        self.header["xla_flags"] = os.environ.get("XLA_FLAGS", "")
        write_json(self._out, {"machine": self.header, "rows": []})

    def measure(self, every: Sequence[Job]) -> None:
        """Measure one row after another while there is time, and write the file after each."""
        found = self._found_ahead(every) if self._processes else [{} for _ in every]
        for job, ahead in measure.progress(list(zip(every, found, strict=True)), "row"):
            if self._left() < LEAST_SECONDS:
                break
            start = time.monotonic()
            is_found = job.ahead is job.run and ahead
            row = ahead if is_found else {**self._measured(job), **ahead}
            self.rows.append({**job.row, **row, "seconds": time.monotonic() - start})
            write_json(self._out, {"machine": self.header, "rows_planned": len(every), "rows": self.rows})

    def _found_ahead(self, every: Sequence[Job]) -> list[Row]:
        """What processes side by side find in half of the time; a row that fails there is measured with the others."""
        until = time.monotonic() + self._left() / 2
        found: list[Row] = [{} for _ in every]
        waiting = queue.SimpleQueue[tuple[Job, Callable[[], Row], Row]]()
        for job, row in zip(every, found, strict=True):
            if job.ahead:
                waiting.put((job, job.ahead, row))
        with ThreadPoolExecutor(self._processes) as threads:
            each = [threads.submit(self._find_ahead, waiting, until) for _ in range(self._processes)]
        for thread in each:
            thread.result()
        return found

    def _find_ahead(self, waiting: queue.SimpleQueue[tuple[Job, Callable[[], Row], Row]], until: float) -> None:
        """Add to the rows that wait what is found ahead, in one process for all of them without variables."""
        shared = Worker(self._variables, self._log)
        while (left := until - time.monotonic()) > 0 and shared.is_alive:
            try:
                job, ahead, row = waiting.get_nowait()
            except queue.Empty:
                break
            row.update(self._called(shared, job, ahead, left).result or {})
        shared.end()

    def end(self) -> None:
        """End what measures."""
        self._shared.end()
        self._programs.cleanup()

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _measured(self, job: Job) -> Row:
        if not self._shared.is_alive:
            self._shared = Worker(self._variables, self._log)
        answer = self._called(self._shared, job, job.run, min(self._row_seconds, self._left()))
        if answer.error:
            self._shared.end()  # an error of a GPU may stay with its process
            return {"error": answer.error}
        return answer.result

    def _called(self, shared: Worker, job: Job, function: Callable[[], Row], seconds: float) -> Answer:
        """What the function returns in the shared process, or in one of its own with the variables of the row."""
        if job.variables is None:
            return shared.call(function, seconds)
        alone = Worker({**self._variables, **job.variables}, self._log)
        answer = alone.call(function, seconds)
        alone.end()
        return answer


def plot(rows: Sequence[Row], title: str, path: pathlib.Path) -> None:
    """Steps per second by batch, random play and training side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    figure.suptitle(title)
    for axes, part in zip(figure.subplots(1, 2), ("steps", "training"), strict=True):
        of_part = [row for row in rows if row["part"] == part and "steps_per_second" in row]
        for name in dict.fromkeys(row["what"] for row in of_part):
            line = sorted((row["batch"], row["steps_per_second"]) for row in of_part if row["what"] == name)
            axes.plot(*zip(*line, strict=True), marker="o", label=name)
        axes.set(title=part, xlabel="environments", ylabel="environment steps per second")
        if of_part:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.legend(fontsize="small")
    figure.savefig(path)


def table(rows: Sequence[Row]) -> str:
    """The aligned table, one line per row."""
    head = ["part", "what", "batch", "steps/s", "compile s", "program MiB", "peak MiB", "note"]
    return aligned([head, *map(_cells, sorted(rows, key=lambda row: PARTS.index(row["part"])))])


def _cells(row: Row) -> list[str]:
    memory = [row.get(name) for name in ("program_bytes", "peak_memory_bytes")]
    return [
        row["part"],
        row["what"],
        str(row.get("batch", "-")),
        measure.rate(row["steps_per_second"]) if "steps_per_second" in row else "-",
        f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "-",
        *("-" if taken is None else f"{taken / 2**20:.0f}" for taken in memory),
        _note(row),
    ]


def _note(row: Row) -> str:
    if "share_as_on_cpu" in row:
        return f"{row['share_as_on_cpu']:.1%} as on the CPU"
    if "command_seconds" in row:
        return f"{row['command_seconds']:.1f} s"
    if "kernels" in row:
        first = row["kernels"][0]
        return f"busy {row['busy']:.0%}; {first['us'] / row['us']:.0%} in {cut(first['kernel'], 50)}"
    return cut(str(row.get("error") or row.get("note") or ""), 80)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parser().parse_args(argv)
    for name, value in (REHEARSAL if args.rehearse else FULL).items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    variables = fast_compilation.variables() if args.rehearse else {}
    measured_table = Table(args, variables)
    every = jobs(args)
    try:
        measured_table.begin(["python", "-m", "benchmarks.device", *argv], args.platform)
        measured_table.measure(every)
    finally:
        measured_table.end()
    rows, device = measured_table.rows, str(measured_table.header["device"])
    print(f"{device}; {len(rows)} of {len(every)} rows\n\n{table(rows)}")
    plot(rows, device, args.out.with_suffix(".png"))
    if args.rehearse and any("error" in row for row in rows):
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.device", "What the accelerator of this machine does, in nine minutes at most.")
    parser.add_argument("--batches", type=positive, nargs="+", help="of random play (default: 2**10 to 2**18)")
    parser.add_argument("--num_envs", type=positive, nargs="+", help="of training (default: 2**10 to 2**14)")
    parser.add_argument("--steps", type=positive, help="scanned steps of a call (default: 64)")
    parser.add_argument("--platform", choices=("gpu", "tpu", "cpu"), help="refuse to measure any other (default: any)")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=PARTS, help="of the table (default: all)")
    parser.add_argument(
        "--rehearse", action="store_true", help="tiny sizes, and exit status 1 if a row fails: for a CPU"
    )
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=520.0, help="after which it stops (default: 520)"
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument(
        "--processes",
        type=int,
        choices=range(MOST_PROCESSES + 1),
        default=min(MOST_PROCESSES, cores // 2) if cores >= 4 else 0,
        metavar="N",
        help=f"that compile side by side before anything is timed, at most {MOST_PROCESSES} (default: half of the "
        "cores, of four or more); 0: each program when its row comes",
    )
    parser.add_argument(
        "--out", type=measure.result_file, default="device.json", help="JSON file; a plot and a log are beside it"
    )
    return parser


if __name__ == "__main__":
    entry(main)

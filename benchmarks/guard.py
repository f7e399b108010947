"""Whether an environment has become slower than it was, in two ways that do not depend on how busy the machine is.

python -m benchmarks.guard            # what CI runs; exit status 1 if a ratio has fallen, or a program has changed
python -m benchmarks.guard --write    # keep what is measured now; nothing else writes

The first is its ratio to the NumPy reference, at a tiny size: rates themselves say nothing on another machine, ratios
of the same run do, roughly. It fails where each of three attempts is below 0.6 of the kept ratio. Programs are compiled
fast, since that takes longest here, so that ratios are lower than those of `benchmarks.throughput`. The second is the
optimised program of a step: its kernels and its bytes are those kept, exactly, or the difference is meant and is kept
by `--write`. Another version of JAX optimises otherwise, and is not compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import jax
import jaxlib

import jaxvrp
from benchmarks import fast_compilation
from benchmarks.compiled import hlo
from benchmarks.compiled.programs import shapes_of_step
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread
from benchmarks.measuring.subject import subject_of
from benchmarks.throughput import Case, Record, measure_apart
from jaxvrp import Environment, VecEnv
from jaxvrp.io.command_line import Parser, UserError
from jaxvrp.io.json_files import read_json
from jaxvrp.search.side_by_side import num_cores
from train import aligned, entry

Result = TypeVar("Result")

KEPT = Path(__file__).parent / "results" / "guard_cpu.json"
LEAST = 0.6
"""Share of the kept ratio below which an environment counts as slower."""

ATTEMPTS = 3
"""How often a slower one is measured before it counts: another process slows JAX down more than NumPy. The first time
all are measured side by side, then each alone."""

BATCH, STEPS, REPEATS, SECONDS = 64, 100, 3, 0.1


def cases() -> Iterator[Case]:
    """One of each environment that has a tiny size."""
    for env in jaxvrp.registered():
        if (size := subject_of(env).tiny) is not None:
            yield Case(env, size, BATCH, STEPS, REPEATS, SECONDS)


def is_timed(case: Case) -> bool:
    """Whether there is a reference to compare its speed with; of others the program alone is compared."""
    return subject_of(case.env).reference is not None


def row_name(env: str, size: Iterable[int], batch: int) -> str:
    """What a row is called in tables and in the kept file."""
    return f"{env} {tuple(size)} batch {batch}"


def ratios(records: Iterable[Record]) -> dict[str, float]:
    """Median over the repeats of the ratio to the reference, by row."""
    found = {}
    for record in records:
        rates = record["steps_per_second"]
        pairs = zip(rates["jax"], rates["numpy"], strict=True)
        name = row_name(record["env"], record["size"], record["batch"])
        found[name] = Spread.of(jax / beside for jax, beside in pairs).median
    return found


def program_of(case: Case) -> dict[str, float]:
    """`{"kernels": ..., "bytes": ...}` of the optimised program of a step."""
    env = jaxvrp.make(case.env, **subject_of(case.env).parameters(case.size))
    program = step_program(env, case.batch)
    return {"kernels": kernels(program.as_text()), "bytes": program.cost_analysis()["bytes accessed"]}


def step_program(env: Environment, batch: int) -> Any:
    """A step of `VecEnv` compiled for this machine; nothing is run, and the pool is not redrawn."""
    vec = VecEnv(env, batch)
    return jax.jit(functools.partial(vec.step, refresh=False)).lower(*shapes_of_step(vec)).compile()


def kernels(text: str) -> int:
    """Operations of an optimised program (`Compiled.as_text()`) that each pass over memory, those of loops once.

    Copies are left out: they depend on what the caller does with the old state, and a loop needs fewer.
    """
    return sum(opcode not in hlo.FREE and opcode != "copy" for opcode in hlo.Program(text).opcodes())


def read_kept(path: Path) -> dict[str, Any]:
    """What `--write` wrote: `cases` as measured, and `programs`, by row, of the version `jaxlib`.

    Raises:
        UserError: there is no such file.
    """
    try:
        return read_json(path, "give a file that --write wrote")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; run python -m benchmarks.guard --write") from None


def write_kept(
    kept: Path,
    rows: Mapping[str, Case],
    run: Callable[[Case], Record],
    program: Callable[[Case], dict[str, float]],
    command: list[str],
) -> None:
    """Measure all rows, and keep them in a file, with the command that does it."""
    records = [run(case) for case in measure.progress(list(filter(is_timed, rows.values())), "environment")]
    programs = {name: program(case) for name, case in rows.items()}
    header = measure.machine(command, records[0]["device"])
    content = {"machine": header, "cases": records, "jaxlib": jaxlib.__version__, "programs": programs}
    measure.write_result(kept, content)


def measure_fast_compiled(case: Case) -> Record:
    """What `measure_apart` measures of a case, compiled fast.

    Raises:
        UserError: it could not be measured.
    """
    record = measure_apart(case, variables=fast_compilation.variables())
    if "error" in record:
        raise UserError(f"{case.env} cannot be measured: {record['error']}")
    return record


def side_by_side(function: Callable[[Case], Result], rows: Mapping[str, Case], unit: str) -> dict[str, Result]:
    """What a function gives for each row, on all cores at once; a bar counts them."""
    with ThreadPoolExecutor(num_cores()) as pool:
        found = pool.map(function, rows.values())
        return dict(zip(rows, measure.progress(found, unit, total=len(rows)), strict=True))


def best_ratio(case: Case, first: Record, run: Callable[[Case], Record], enough: float) -> tuple[float, int]:
    """The best ratio of up to three attempts, the last of which is the first that is `enough`; and how many."""
    attempts = [*ratios([first]).values()]
    while max(attempts) < enough and len(attempts) < ATTEMPTS:
        attempts += ratios([run(case)]).values()
    return max(attempts), len(attempts)


def main(
    argv: Sequence[str] | None = None,
    run: Callable[[Case], Record] = measure_fast_compiled,
    kept: Path = KEPT,
    program: Callable[[Case], dict[str, float]] = program_of,
) -> None:
    """The command line; `run` measures one case, `program` counts in its program, and `kept` is the file of both.

    Raises:
        UserError: a case could not be measured, or was not kept.
    """
    parser = Parser("benchmarks.guard", "Whether an environment has become slower than it was.")
    parser.add_argument("--write", action="store_true", help="keep what is measured now")
    argv = sys.argv[1:] if argv is None else list(argv)
    args = parser.parse_args(argv)
    rows = {row_name(case.env, case.size, case.batch): case for case in cases()}
    if args.write:
        write_kept(kept, rows, run, program, ["python", "-m", "benchmarks.guard", *argv])
        return
    before = read_kept(kept)
    before_ratios = ratios(before["cases"])
    timed = {name for name, case in rows.items() if is_timed(case)}
    if missing := sorted((rows.keys() - before["programs"]) | (timed - before_ratios.keys())):
        raise UserError(f"{kept} has no row '{missing[0]}'; run python -m benchmarks.guard --write")
    is_same_version = before["jaxlib"] == jaxlib.__version__
    table, slower, changed = [["row", "ratio", "kept", "share", "attempts", "kernels", "bytes"]], [], []
    first = side_by_side(run, {name: rows[name] for name in rows if name in timed}, "environment")
    programs = side_by_side(program, rows, "program")
    for name, case in rows.items():
        of_program, of_kept = programs[name], before["programs"][name]
        figures = ["", "", "", ""]
        if name in timed:
            ratio, attempts = best_ratio(case, first[name], run, LEAST * before_ratios[name])
            share = ratio / before_ratios[name]
            figures = [f"{ratio:.3g}x", f"{before_ratios[name]:.3g}x", f"{share:.2f}", str(attempts)]
            slower += [name] if share < LEAST else []
        table.append([name, *figures, *(f"{of_program[key]:.0f}" for key in ("kernels", "bytes"))])
        if is_same_version and of_program != of_kept:
            changed.append(f"{name} (kept: {of_kept['kernels']:.0f} kernels, {of_kept['bytes']:.0f} bytes)")
    print(aligned(table))
    if not is_same_version:
        print(f"\nprograms are not compared: those kept are of jaxlib {before['jaxlib']}, not {jaxlib.__version__}")
    if slower:
        print(f"\nslower than they were: {', '.join(slower)}")
    if changed:
        print(f"\nother programs than before: {', '.join(changed)}; if that is meant, run benchmarks.guard --write")
    if slower or changed:
        sys.exit(1)


if __name__ == "__main__":
    entry(main)

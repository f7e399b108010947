"""Environment steps per second of masked random play, against a plain NumPy reference.

python -m benchmarks.throughput
python -m benchmarks.throughput --env darp
python -m benchmarks.throughput --env pcb --batches 64 1024 4096
python -m benchmarks.throughput --sizes 2,3,5 --batches 4096 --out result.json
python -m benchmarks.throughput --env darp --env.limits true --env.lookahead true      # other parameters, without NumPy
python -m benchmarks.throughput --env my_package.my_module:make          # one of your own, without a reference
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import jaxvrp
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Size, Spread
from benchmarks.measuring.subject import Reference, Subject, subject_of
from jaxvrp import Environment, TimeStep, VecEnv, registry
from jaxvrp.actor import RandomActor
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.spaces import ByKind, ByRole
from jaxvrp.vectorize import VecState
from train import aligned, entry, split_mapping
from train.learning.sharding import DATA, batch_specs, device_key, make_mesh, shard

Record = dict[str, Any]

BATCHES = (1, 64, 1024, 4096, 16384)


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: environment, its size, how many of them, scanned steps per call, and how long to measure.

    `parameters` are those that differ from the defaults, by keyword of the environment's factory.
    """

    env: str
    size: Size
    batch: int
    steps: int
    repeats: int
    seconds: float
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Playing(struct.PyTreeNode):
    """Between two steps: state of the `VecEnv`, what the agents see beside their masks, and the episodes that ended.

    The last are counted by environment, `i32[E]`; rewards are in the state, as sums over the episode.
    """

    vec: VecState
    observation: ByRole
    global_observation: jax.Array | None
    entities: ByKind
    ended: jax.Array

    @classmethod
    def of(cls, state: VecState, timestep: TimeStep, ended: jax.Array) -> Playing:
        """What the scan carries: with the observations in it, every step has to write them out."""
        return cls(state, timestep.observation, timestep.global_observation, timestep.entities, ended)

    @property
    def timestep(self) -> TimeStep:
        """What the agents see; an array that stands in the carry twice, such as a mask, is copied in every step."""
        begun = jnp.zeros(self.vec.episode_length.shape, bool)
        return TimeStep(
            observation=self.observation,
            global_observation=self.global_observation,
            entities=self.entities,
            action_mask=self.vec.action_mask,
            valid=self.vec.valid,
            reward={},
            terminated=begun,
            truncated=begun,
            metrics={},
            duration=jnp.zeros(begun.shape, jnp.float32),
        )


class RandomPlay:
    """Masked random play of a batch on each device of a mesh, as two jitted programs.

    `begin` goes from a key to a `Playing` and the next key; `chunk` takes both, which are donated, plays `steps`
    scanned steps, `unroll` of them in a trip of the loop, and returns them with the number of episodes that ended.
    """

    def __init__(self, env: Environment, batch: int, steps: int, mesh: Mesh, unroll: int = 1):
        self._vec, self._actor, self._steps, self._unroll = VecEnv(env, batch), RandomActor(env), steps, unroll
        specs = batch_specs(jax.eval_shape(self._begin, jax.eval_shape(lambda: jax.random.key(0))))
        self.begin = jax.jit(shard(lambda key: self._begin(device_key(key)), mesh, P(), specs))
        self.chunk = jax.jit(shard(self._chunk, mesh, (specs,), (specs, P())), donate_argnums=0)

    def _begin(self, key: jax.Array) -> tuple[Playing, jax.Array]:
        state, timestep = self._vec.reset(key)
        return Playing.of(state, timestep, jnp.zeros(self._vec.num_envs, jnp.int32)), jax.random.key(1)

    def _chunk(self, begun: tuple[Playing, jax.Array]) -> tuple[tuple[Playing, jax.Array], jax.Array]:
        playing, key = begun
        key, pool_key, play_key = jax.random.split(key, 3)
        state = self._vec.refresh_pool(playing.vec, device_key(pool_key))
        keys = jax.random.split(device_key(play_key), self._steps)
        playing = playing.replace(vec=state, ended=jnp.zeros_like(playing.ended))
        playing, _ = jax.lax.scan(self._step, playing, keys, unroll=self._unroll)
        return (playing, key), jax.lax.psum(playing.ended.sum(), DATA)

    def _step(self, playing: Playing, key: jax.Array) -> tuple[Playing, None]:
        action, _ = self._actor.act(key, (), playing.vec.env, playing.timestep)
        state, timestep = self._vec.step(playing.vec, action, refresh=False)
        return Playing.of(state, timestep, playing.ended + timestep.done), None


class JaxPlayer:
    """`RandomPlay` in one jitted, donated call, the batch spread over all devices that divide it.

    Attributes:
        devices: how many these are.
        compiled: the call.
        compile_seconds: to trace, lower and compile it.
    """

    def __init__(self, env: Environment, batch: int, steps: int, unroll: int = 1):
        self.devices = len(jax.devices()) if batch % len(jax.devices()) == 0 else 1
        play = RandomPlay(env, batch // self.devices, steps, make_mesh(self.devices), unroll)
        self._begun = jax.block_until_ready(play.begin(jax.random.key(0)))
        self._ended = jnp.zeros((), jnp.int32)
        start = time.perf_counter()
        self.compiled = play.chunk.lower(self._begun).compile()
        self.compile_seconds = time.perf_counter() - start

    def play(self) -> None:
        """One call, waited for."""
        self._begun, self._ended = self.compiled(self._begun)
        jax.block_until_ready(self._ended)


def play_reference(reference: Reference, steps: int) -> int:
    """Play steps of the reference, one environment in this process; returns how many episodes ended."""
    return sum(reference.step()[1] for _ in range(steps))


def measure_case(case: Case) -> Record:
    """Compile, warm up and measure one case in this process.

    Raises:
        UserError: there are more environments than are counted.
    """
    measure.check_batch(case.batch, "--batches")
    subject = subject_of(case.env)
    env = jaxvrp.make(case.env, **subject.parameters(case.size), **case.parameters)
    jax_player = JaxPlayer(env, case.batch, case.steps)
    plays: dict[str, tuple[Callable[[], object], int]] = {"jax": (jax_player.play, case.batch * case.steps)}
    # References play by the default parameters.
    if subject.reference is not None and not case.parameters:
        play = functools.partial(play_reference, subject.reference(env), subject.reference_steps)
        plays["numpy"] = (play, subject.reference_steps)
    calls = {name: measure.calls_for(play, case.seconds) for name, (play, _) in plays.items()}

    def speed(name: str) -> float:
        play, steps = plays[name]
        return steps * calls[name] / measure.clock(play, calls[name])

    rates = measure.interleaved({name: functools.partial(speed, name) for name in plays}, case.repeats)
    peak, memory_of = measure.peak_memory()
    return {
        **dataclasses.asdict(case),
        "device": measure.device_name(),
        "devices_used": jax_player.devices,
        "compile_seconds": jax_player.compile_seconds,
        "peak_memory_bytes": peak,
        "memory_of": memory_of,
        "steps_per_repeat": {name: steps * calls[name] for name, (_, steps) in plays.items()},
        "steps_per_second": rates,
        "median": {name: Spread.of(values).median for name, values in rates.items()},
        "ratio": ratio(rates),
    }


def ratio(rates: dict[str, list[float]]) -> float | None:
    """Median of JAX over median of NumPy; None without a reference."""
    return Spread.of(rates["jax"]).median / Spread.of(rates["numpy"]).median if "numpy" in rates else None


def measure_apart(case: Case, variables: Mapping[str, str] | None = None) -> Record:
    """`measure_case` in a process of its own, so that peak memory and compilation are this case's alone.

    `variables` are those of the process's environment, beside those of this one.
    """
    command = [*measure.this_program("throughput"), "--case", json.dumps(dataclasses.asdict(case))]
    # Without the cache: else the second run would compile in no time.
    env = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", **(variables or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last_words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        error = f"exit status {done.returncode}: {last_words}"
        return {**dataclasses.asdict(case), "error": error}
    return json.loads(done.stdout.splitlines()[-1])


def table(records: Sequence[Record], labels: str) -> str:
    """The aligned table, one row per case."""
    head = [
        f"({labels.replace(',', ', ')})" if labels else "size",
        "batch",
        "JAX steps/s",
        "min - max",
        "NumPy steps/s",
        "min - max",
        "ratio",
    ]
    rows = [[*head, "compile s", "peak memory"], *map(_row, records)]
    failed = [f"failed: {_size(r['size'])}, batch {r['batch']}: {r['error']}" for r in records if "error" in r]
    return "\n".join([aligned(rows), *failed])


def _size(size: Sequence[int]) -> str:
    return str(tuple(size)) if size else "default"


def _row(record: Record) -> list[str]:
    name = [_size(record["size"]), str(record["batch"])]
    if "error" in record:
        return [*name, "failed", *["-"] * 6]
    figures = record["steps_per_second"]
    speeds = {player: measure.rates(Spread.of(rates)) for player, rates in figures.items()}
    compared = "-" if record["ratio"] is None else f"{record['ratio']:.3g}x"
    peak = record["peak_memory_bytes"]
    memory = "-" if peak is None else f"{peak / 2**20:.0f} MiB"
    cells = [*speeds["jax"], *speeds.get("numpy", ("-", "-")), compared, f"{record['compile_seconds']:.1f}", memory]
    return [*name, *cells]


def protocol(args: argparse.Namespace, records: Sequence[Record], parameters: Mapping[str, Any]) -> dict[str, str]:
    """What was measured, and how."""
    measured = [r for r in records if "error" not in r]
    used = sorted({r["devices_used"] for r in measured})
    reference = "one environment in one process: action sampling, reset and all observations included"
    compared = any("numpy" in r["steps_per_second"] for r in measured)
    owners = {"device": "of the device", "process": "resident, of the case's process: Python, JAX, compiler and all"}
    return {
        "parameters": ", ".join(f"{name} {value}" for name, value in parameters.items()) or "defaults",
        "work per step": "masked random actions, step, auto-reset, observations, global observation, masks",
        "JAX": f"one jitted, donated call = a fresh pool of instances, then {args.steps} scanned steps of VecEnv; the "
        "scan carries observations and masks (so each step writes them) and returns the sums of reward and done",
        "JAX devices": f"{' or '.join(map(str, used)) or '-'}, the batch spread over them",
        "NumPy": reference if compared else "-",
        "repeats": f"{args.repeats} of at least {args.seconds:g} s, JAX and NumPy in turn; medians, and min - max",
        "ratio": "median of JAX / median of NumPy",
        "compile": "trace, lower and compile the call, without compilation cache",
        "peak memory": ", ".join(sorted({owners[r["memory_of"]] for r in measured})) or "-",
    }


def main(argv: Sequence[str] | None = None, run: Callable[[Case], Record] = measure_apart) -> None:
    """The command line; `run` measures one case."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, parameters = _arguments(argv)
    if args.case:
        print(json.dumps(measure_case(Case(**json.loads(args.case)))))
        return
    subject, sizes = _asked_for(args, parameters)
    how_long = (args.steps, args.repeats, args.seconds)
    cases = [Case(args.env, size, batch, *how_long, parameters) for size in sizes for batch in args.batches]
    records = []
    with measure.progress(cases, "case") as bar:
        for case in bar:
            bar.set_postfix_str(f"{case.size}, batch {case.batch}")
            records.append(run(case))
    device = next((record["device"] for record in records if "error" not in record), "unknown")
    header = measure.machine(["python", "-m", "benchmarks.throughput", *argv], device)
    how = protocol(args, records, parameters)
    report = f"{measure.described(header, how)}\n\n{table(records, subject.labels)}"
    measure.write_result(args.out, {"machine": header, "protocol": how, "cases": records}, report)


def _asked_for(args: argparse.Namespace, parameters: Mapping[str, Any]) -> tuple[Subject, Sequence[Size]]:
    """What is to be measured, and at which sizes; checks that the `parameters` can be."""
    try:
        registry.resolve(args.env)
    except ValueError as error:
        raise UserError(f"--env: {error}") from None
    subject = subject_of(args.env)
    if not subject.labels and args.sizes:
        raise UserError(f"--sizes: nothing says what the sizes of '{args.env}' are; leave it out")
    measure.check_sizes(args.sizes or (), subject.labels)
    sizes = args.sizes or subject.sizes
    of_size = subject.parameters(sizes[0])
    for name in of_size.keys() & parameters.keys():
        raise UserError(f"--env.{name} differs from row to row; give --sizes instead")
    try:
        jaxvrp.make(args.env, **of_size, **parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None
    return subject, sizes


def _arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The options, and the parameters of the environment among them (`--env.key value`)."""
    parser = Parser("benchmarks.throughput", "Environment steps per second against a NumPy reference.")
    known = jaxvrp.registered()
    parser.add_argument(
        "--env",
        default="truck_drone",
        help=f"{', '.join(known)} or package.module:make (default: truck_drone)",
    )
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    sizes = " or ".join(f"{labels} ({name})" for name in known if (labels := subject_of(name).labels))
    parser.add_argument("--sizes", type=measure.sizes_option, nargs="+", help=f"{sizes} (default: three of them)")
    parser.add_argument("--batches", type=positive, nargs="+", default=BATCHES, help="environments in parallel")
    parser.add_argument("--repeats", type=positive, default=5, help="repeats of each case (default: 5)")
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=1.0, help="least time of a repeat (default: 1)"
    )
    parser.add_argument("--steps", type=positive, default=128, help="scanned steps of one call (default: 128)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    words, parameters = split_mapping(argv, "env", has_name=True)
    return parser.parse_args(words), parameters


if __name__ == "__main__":
    entry(main)

"""How near to the machine's limit a step and an update are, and where the rest goes.

python -m benchmarks.limit
python -m benchmarks.limit --env darp --size 20,5 --batch 4096 --out result.json

The limit is what the machine needs to move the bytes, or to do the floating-point operations, that the compiler counts
in the program: its bandwidth when it copies as much memory as the program holds, in a cache or beyond, and its rate of
matrix products are measured first. A program that is far from both is held up by something else: kernels too small to
fill the cores, indices, branches, transcendentals.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import jaxvrp
from benchmarks import measure
from benchmarks.measure import Spread
from benchmarks.subject import subject_of
from jaxvrp import Environment, VecEnv
from jaxvrp.actor import RandomActor
from jaxvrp.environment import select
from jaxvrp.io.command_line import Parser, UserError, positive
from train import aligned, entry, make_train
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import Guidance, guidance_at
from train.on_policy.trainer import Trainer
from train.sharding import shard

COPIED_BYTES = tuple(2**power for power in (20, 22, 24, 26, 28))
"""Of the arrays whose copies measure the bandwidth: from those that fit a cache of one core to those beyond any."""

COPIES = 8
"""Of an array in one call: the memory that a call is given anew, and touches for the first time, counts only once."""

PRODUCT_SIZE = 1536
"""Rows and columns of the matrix product that measures the rate."""

CALLS = {"call", "while", "conditional"}
"""Instructions of an optimised program that run other computations, which are counted as well."""

CALLED = r"(?:to_apply|body|condition|\w+_computations?)=(\{.*?\}|%[\w.\-]+)"

NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy", *CALLS}
"""Instructions that are no kernels. Copies depend on what the caller does with the old state: a loop needs fewer."""

WARM_UP_STEPS = 20
"""Of random play before a step is measured, so that states are those of the middle of episodes."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """What it can do.

    Attributes:
        bandwidths: bytes read and written per second by copies, by how many bytes both arrays hold, ascending.
        flops: operations per second by a matrix product.
    """

    bandwidths: dict[int, float]
    flops: float

    def bandwidth(self, footprint: float) -> float:
        """Of a program that holds so many bytes: that of the smallest copy which holds no less, else of the largest."""
        held = min((size for size in self.bandwidths if size >= footprint), default=max(self.bandwidths))
        return self.bandwidths[held]


@dataclasses.dataclass(frozen=True)
class Part:
    """A compiled program and what it costs.

    Attributes:
        name: what it does.
        seconds: of a call, for all repeats.
        bytes_accessed, flops: of a call, by the compiler's own analysis.
        footprint: bytes of its arguments, results and temporaries together.
    """

    name: str
    seconds: list[float]
    bytes_accessed: float
    flops: float
    footprint: int

    def fraction(self, machine: Machine) -> float:
        """The least time that the machine needs for the counted bytes or operations, over the median time taken."""
        least = max(self.bytes_accessed / machine.bandwidth(self.footprint), self.flops / machine.flops)
        return least / Spread.of(self.seconds).median


def kernels(text: str) -> int:
    """Instructions of an optimised program (`Compiled.as_text()`) that each pass over memory: fusions and such.

    Bodies of loops count once, those of fusions and reductions not at all: they are part of one kernel.
    """
    computations, count = {}, 0
    for block in re.split(r"\n(?=(?:ENTRY )?%)", text):
        if header := re.match(r"(ENTRY )?%([\w.\-]+) .*\{\n", block):
            computations["ENTRY" if header[1] else header[2]] = block[header.end() :]
    seen, waiting = set(), ["ENTRY"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for instruction in re.finditer(r"^ .*? = .*?[\]})] ([a-z\-]+)\(.*", computations[name], re.MULTILINE):
            count += instruction[1] not in NO_KERNEL
            if instruction[1] in CALLS:
                called = re.findall(CALLED, instruction[0])
                waiting += re.findall(r"%([\w.\-]+)", " ".join(called))
    return count


def step_program(env: Environment, batch: int) -> Any:
    """A step of `VecEnv` compiled for this machine; nothing is run, and the pool is not redrawn."""
    vec = VecEnv(env, batch)
    state, _ = jax.eval_shape(vec.reset, jax.eval_shape(lambda: jax.random.key(0)))
    action = {
        name: jax.ShapeDtypeStruct((batch, role.num_agents, *role.action.shape), role.action.dtype)
        for name, role in env.roles.items()
    }
    return jax.jit(functools.partial(vec.step, refresh=False)).lower(state, action).compile()


def compiled_part(name: str, function: Callable[..., Any], *arguments: Any) -> tuple[Part, Callable[[], None]]:
    """The part, with no repeat yet, and a call of its program that waits."""
    program = jax.jit(function).lower(*arguments).compile()
    costs: dict[str, Any] = program.cost_analysis() or {}
    memory: Any = program.memory_analysis()
    footprint = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes

    def run() -> None:
        jax.block_until_ready(program(*arguments))

    return Part(name, [], float(costs.get("bytes accessed", 0.0)), float(costs.get("flops", 0.0)), footprint), run


def measured_parts(
    functions: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]], repeats: int, seconds: float
) -> list[Part]:
    """Every program with its repeats, one of each in turn."""
    made = [compiled_part(name, function, *arguments) for name, (function, arguments) in functions.items()]
    calls = {part.name: measure.calls_for(run, seconds) for part, run in made}

    def seconds_of(name: str, run: Callable[[], None]) -> float:
        return measure.clock(run, calls[name]) / calls[name]

    taken = measure.interleaved(
        {part.name: functools.partial(seconds_of, part.name, run) for part, run in made}, repeats
    )
    return [dataclasses.replace(part, seconds=taken[part.name]) for part, _ in made]


def copied(array: jax.Array) -> jax.Array:
    """The array, plus one, `COPIES` times over: each pass reads all of it and writes all of it."""
    return jax.lax.fori_loop(0, COPIES, lambda _, x: x + 1.0, array)


def measured_machine(repeats: int, seconds: float) -> tuple[Machine, list[Part]]:
    """What the machine can do, by the fastest repeat of each copy and of a large matrix product."""
    arrays = {size: jnp.zeros(size // 4, jnp.float32) for size in COPIED_BYTES}
    square = jnp.ones((PRODUCT_SIZE, PRODUCT_SIZE), jnp.float32)
    copies = {f"copy of {size // 2**10} KiB": (copied, (array,)) for size, array in arrays.items()}
    *copied_parts, product = measured_parts(
        {**copies, "matrix product": (lambda a: a @ a, (square,))}, repeats, seconds
    )
    moved = zip(COPIED_BYTES, copied_parts, strict=True)
    machine = Machine(
        bandwidths={2 * size: COPIES * 2 * size / min(part.seconds) for size, part in moved},
        flops=2 * PRODUCT_SIZE**3 / min(product.seconds),
    )
    return machine, [*copied_parts, product]


def step_functions(env: Environment, batch: int) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """A step of `VecEnv` after random play, and each of its parts alone, on the same states."""
    vec, actor = VecEnv(env, batch), RandomActor(env)

    def advance(carry: Any, key: jax.Array) -> tuple[Any, None]:
        state, timestep = carry
        action, _ = actor.act(key, (), state.env, timestep)
        state, after = vec.step(state, action, refresh=False)
        return (state, after), None

    def play(key: jax.Array) -> Any:
        return jax.lax.scan(advance, vec.reset(key), jax.random.split(key, WARM_UP_STEPS))[0]

    state, timestep = jax.jit(play)(jax.random.key(0))
    key, zero = jax.random.key(1), jnp.zeros((), jnp.int32)
    action, _ = actor.act(key, (), state.env, timestep)
    shared = "entities" if env.entity_kinds else "global observation"  # what is made once for all agents

    def whole(state: Any, timestep: Any) -> Any:
        return advance((state, timestep), key)[0]

    def reset(states: Any, pool: Any, done: jax.Array) -> Any:
        return select(done, jax.tree.map(lambda leaf: leaf[:batch], pool), states)

    return {
        "whole step": (whole, (state, timestep)),
        "random actions": (lambda t: actor.act(key, (), None, t)[0], (timestep,)),
        "rules": (jax.vmap(lambda s, a: env.transition(s, a, zero)), (state.env, action)),
        "mask": (jax.vmap(env.action_mask), (state.env,)),
        "observation": (jax.vmap(env.observation), (state.env,)),
        shared: (jax.vmap(getattr(env, shared.replace(" ", "_"))), (state.env,)),
        "reward": (jax.vmap(env.reward), (state.env,)),
        "metrics": (jax.vmap(env.metrics), (state.env,)),
        "reset": (reset, (state.env, state.pool, timestep.done)),
    }


def update_functions(config: PPOConfig) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The parts of an update: one step of the policy for all environments, and one gradient step on a minibatch."""
    trainer = make_train(dataclasses.replace(config, num_devices=1))
    state = trainer.init(jax.random.key(0))
    batch = _minibatch(trainer, state)

    def gradients(params: Any, batch: Any, guidance: Guidance) -> Any:
        return jax.grad(trainer.loss, has_aux=True)(params, batch, guidance)[0]

    def act(params: Any, env_state: Any, timestep: Any) -> Any:
        player = trainer.actor(params["actor"], deterministic=False)
        return player.act(jax.random.key(0), player.init(config.num_envs), env_state, timestep)[0]

    one_device = shard(gradients, trainer.mesh, (P(), P(), P()), P())
    guidance = guidance_at(trainer.config, state.update)
    return {
        "policy, one step": (act, (state.params, state.players.vec.env, state.players.timestep)),
        "gradient step": (one_device, (state.params, batch, guidance)),
    }


def _minibatch(trainer: Trainer, state: Any) -> Any:
    """What the first gradient step of the first update learns from."""
    config = trainer.config

    def play(state: Any) -> Any:
        _, recording = trainer.rollout.play(state.params, state.players, state.key)
        batch, _, _ = ppo.prepare(config, recording, state.value_norm)
        return ppo.take(batch, jnp.arange(config.num_envs // config.num_minibatches))

    return jax.jit(shard(play, trainer.mesh, (P(),), P()))(state)


def table(parts: Sequence[Part], machine: Machine, count: int) -> str:
    """The aligned table: memory held; bytes and operations of one of the `count` environments (or rows) of a call."""
    rows = [["part", "us/call", "min - max", "MiB", "bytes each", "flops each", "GB/s", "GFLOP/s", "of the limit"]]
    for part in parts:
        spread = Spread.of(part.seconds)
        figures = (part.bytes_accessed / count, part.flops / count)
        speeds = (part.bytes_accessed / spread.median / 1e9, part.flops / spread.median / 1e9)
        cells = [f"{1e6 * spread.median:.0f}", f"{1e6 * spread.low:.0f} - {1e6 * spread.high:.0f}"]
        cells += [f"{part.footprint / 2**20:.1f}", *(f"{figure:.0f}" for figure in figures)]
        cells += [f"{speed:.2f}" for speed in speeds]
        rows.append([part.name, *cells, f"{part.fraction(machine):.0%}"])
    return aligned(rows)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    subject = subject_of(args.env)
    measure.check_sizes([args.size] if args.size else (), subject.labels)
    size = args.size or (subject.sizes[0] if subject.sizes else ())
    try:
        env = jaxvrp.make(args.env, **subject.parameters(size))
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None
    measure.check_batch(env, args.batch, "--batch")
    machine, reference_parts = measured_machine(args.repeats, args.seconds)
    speeds = ", ".join(f"{speed / 1e9:.1f} in {held // 2**20} MiB" for held, speed in machine.bandwidths.items())
    print(f"{machine.flops / 1e9:.0f} GFLOP/s in a matrix product; GB/s copied (read and written): {speeds}")
    step = measured_parts(step_functions(env, args.batch), args.repeats, args.seconds)
    tables = {"machine": reference_parts, f"step of {args.env} {size}, batch {args.batch}": step}
    print(
        f"\na step of {args.env} {size}; bytes and operations of one environment\n\n{table(step, machine, args.batch)}"
    )
    whole, *parts = (Spread.of(part.seconds).median for part in step)
    print(f"\nthe parts alone take {sum(parts) / whole:.0%} of the step: in one program, kernels are fused and shared")
    if args.update:
        config = PPOConfig(env={"name": args.env, **subject.parameters(size)})
        try:
            functions = update_functions(config)
        except (ValueError, TypeError) as error:
            raise UserError(f"{error}; or leave the update out with --no_update") from None
        update = tables[f"update of {args.env} {size}"] = measured_parts(functions, args.repeats, args.seconds)
        rows = config.num_envs * config.rollout_length // config.num_minibatches
        print(
            f"\nan update of MAPPO; of one of {rows} environment steps of a minibatch\n\n{table(update, machine, rows)}"
        )
    header = measure.machine(["python", "-m", "benchmarks.limit", *argv], measure.device_name())
    content = {name: [dataclasses.asdict(part) for part in parts] for name, parts in tables.items()}
    measure.write_result(args.out, {"machine": header, "limits": dataclasses.asdict(machine), "parts": content})


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.limit", "How near to the machine's limit a step and an update are.")
    parser.add_argument("--env", default="truck_drone", help="registered name (default: truck_drone)")
    parser.add_argument("--size", type=measure.sizes_option, help="as --sizes of benchmarks.throughput")
    parser.add_argument("--batch", type=positive, default=4096, help="environments in parallel (default: 4096)")
    parser.add_argument("--no_update", dest="update", action="store_false", help="leave the update out")
    parser.add_argument("--repeats", type=positive, default=5, help="repeats of each program (default: 5)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=0.3, help="least time of each (default: 0.3)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and all figures")
    return parser.parse_args(argv)


if __name__ == "__main__":
    entry(main)

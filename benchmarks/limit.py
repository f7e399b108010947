"""How near to the machine's limit a step and an update are, and where the time goes.

python -m benchmarks.limit
python -m benchmarks.limit --env darp --size 20,5 --batch 4096 --out result.json
python -m benchmarks.limit --no_step --networks mlp gru attention --num_envs 256 1024

The limit is what the machine needs to move the bytes, or to do the floating-point operations, that the compiler counts
in the program: its bandwidth when it copies as much memory as the program holds, in a cache or beyond, and its rate of
matrix products are measured first. A program that is far from both is held up by something else: kernels too small to
fill the cores, indices, branches, transcendentals.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import jaxvrp
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread
from benchmarks.measuring.subject import subject_of
from jaxvrp import Environment, VecEnv
from jaxvrp.actor import RandomActor
from jaxvrp.environment import select
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.policies.networks import NETWORKS
from train import aligned, entry, make_train
from train.learning.sharding import shard
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import guidance_at
from train.on_policy.trainer import Trainer

COPIED_BYTES = tuple(2**power for power in (20, 22, 24, 26, 28))
"""Of the arrays whose copies measure the bandwidth: from those that fit a cache of one core to those beyond any."""

COPIES = 8
"""Of an array in one call: the memory that a call is given anew, and touches for the first time, counts only once."""

PRODUCT_SIZE = 1536
"""Rows and columns of the matrix product that measures the rate."""

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
        bytes_accessed, flops: of a call, by the compiler's own analysis; 0 for scans, of which it counts a single step.
        footprint: bytes of its arguments, results and temporaries together.
        calls: of the program, in one of the whole.
    """

    name: str
    seconds: list[float]
    bytes_accessed: float
    flops: float
    footprint: int
    calls: int = 1

    def fraction(self, machine: Machine) -> float:
        """The least time that the machine needs for the counted bytes or operations, over the median time taken."""
        least = max(self.bytes_accessed / machine.bandwidth(self.footprint), self.flops / machine.flops)
        return least / Spread.of(self.seconds).median


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


def measured_update(config: PPOConfig, repeats: int, seconds: float) -> list[Part]:
    """The whole update of MAPPO on one device, and its parts: each alone, on what the others would hand to it."""
    functions = update_functions(config)
    steps = config.num_epochs * config.num_minibatches
    of_update = {}
    for part in measured_parts(functions, repeats, seconds):
        changed: dict[str, Any] = {"bytes_accessed": 0.0, "flops": 0.0} if part.name in SCANS else {"calls": steps}
        of_update[part.name] = dataclasses.replace(part, **changed)
    forward, both = of_update["forward"], of_update["forward and backward"]
    backward = Part(
        "backward",
        [all_ - part for all_, part in zip(both.seconds, forward.seconds, strict=True)],
        max(both.bytes_accessed - forward.bytes_accessed, 0.0),
        max(both.flops - forward.flops, 0.0),
        both.footprint,
        steps,
    )
    order = [*SCANS, "minibatch", "forward", "backward", "optimiser"]
    return [{**of_update, "backward": backward}[name] for name in order]


SCANS = ("whole update", "rollout", "advantages")
"""Called once in an update; the other parts once for each minibatch."""


def update_functions(config: PPOConfig) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The whole update and its parts, as for `measured_parts`, after the first rollout."""
    trainer: Trainer = make_train(dataclasses.replace(config, num_devices=1, log_interval=1))
    config, state = trainer.config, trainer.init(jax.random.key(0))

    def alone(function: Callable[..., Any]) -> Callable[..., Any]:
        return shard(function, trainer.mesh, P(), P())

    rollout = alone(lambda state: trainer.rollout.play(state.params, state.players, state.key))
    advantages = alone(lambda recording, norm: ppo.prepare(config, recording, norm)[0])
    minibatch, gradients, optimiser = alone(ppo.take), alone(trainer.gradients), alone(trainer.apply_gradients)
    recording = jax.jit(rollout)(state)[1]
    batch = jax.jit(advantages)(recording, state.value_norm)
    envs = jnp.arange(config.num_envs // config.num_minibatches, dtype=jnp.int32)
    learned_from = (state.params, jax.jit(minibatch)(batch, envs), guidance_at(config, state.update))
    gradient, _ = jax.jit(gradients)(*learned_from)
    return {
        "whole update": (trainer.train_chunk, (state,)),
        "rollout": (rollout, (state,)),
        "advantages": (advantages, (recording, state.value_norm)),
        "minibatch": (minibatch, (batch, envs)),
        "forward": (alone(trainer.loss), learned_from),
        "forward and backward": (gradients, learned_from),
        "optimiser": (optimiser, (gradient, state.params, state.optimizer)),
    }


def table(parts: Sequence[Part], machine: Machine, count: int) -> str:
    """The aligned table of a whole, which comes first, and its parts: shares of its time, and memory held.

    Bytes and operations are of one of the `count` environments (or environment steps) of the whole, in all calls.
    """
    head = ["part", "calls", "share", "us/call", "min - max", "MiB", "bytes each", "flops each", "GB/s", "GFLOP/s"]
    rows = [[*head, "of the limit"]]
    whole = Spread.of(parts[0].seconds).median
    for part in parts:
        spread = Spread.of(part.seconds)
        figures = (part.calls * part.bytes_accessed / count, part.calls * part.flops / count)
        speeds = (part.bytes_accessed / spread.median / 1e9, part.flops / spread.median / 1e9)
        cells = [str(part.calls), f"{part.calls * spread.median / whole:.0%}", f"{1e6 * spread.median:.0f}"]
        cells += [f"{1e6 * spread.low:.0f} - {1e6 * spread.high:.0f}", f"{part.footprint / 2**20:.1f}"]
        counted = [*(f"{figure:.0f}" for figure in figures), *(f"{speed:.2f}" for speed in speeds)]
        counted.append(f"{part.fraction(machine):.0%}")
        rows.append([part.name, *cells, *(counted if part.bytes_accessed else ["-"] * len(counted))])
    together = sum(part.calls * Spread.of(part.seconds).median for part in parts[1:]) / whole
    remark = f"the parts alone take {together:.0%} of the whole: in one program, kernels are fused and shared"
    return f"{aligned(rows)}\n\n{remark}"


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
    measure.check_batch(args.batch, "--batch")
    machine, reference_parts = measured_machine(args.repeats, args.seconds)
    speeds = ", ".join(f"{speed / 1e9:.1f} in {held // 2**20} MiB" for held, speed in machine.bandwidths.items())
    print(f"{machine.flops / 1e9:.0f} GFLOP/s in a matrix product; GB/s copied (read and written): {speeds}")
    tables = {"machine": reference_parts}
    if args.step:
        title = f"step of {args.env} {size}, batch {args.batch}"
        step = tables[title] = measured_parts(step_functions(env, args.batch), args.repeats, args.seconds)
        print(f"\n{title}; bytes and operations of one environment\n\n{table(step, machine, args.batch)}")
    for network, num_envs in itertools.product(args.networks, args.num_envs) if args.update else ():
        config = PPOConfig(env={"name": args.env, **subject.parameters(size)}, network=network, num_envs=num_envs)
        try:
            update = measured_update(config, args.repeats, args.seconds)
        except (ValueError, TypeError) as error:
            raise UserError(f"{error}; or leave the update out with --no_update") from None
        title = f"update of {args.env} {size}, {network}, {num_envs} environments x {config.rollout_length} steps"
        tables[title] = update
        shown = table(update, machine, config.steps_per_update)
        print(f"\n{title}; bytes and operations of one environment step, in all epochs\n\n{shown}")
    header = measure.machine(["python", "-m", "benchmarks.limit", *argv], measure.device_name())
    content = {name: [dataclasses.asdict(part) for part in parts] for name, parts in tables.items()}
    measure.write_result(args.out, {"machine": header, "limits": dataclasses.asdict(machine), "parts": content})


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.limit", "How near to the machine's limit a step and an update are.")
    parser.add_argument("--env", default="truck_drone", help="registered name (default: truck_drone)")
    parser.add_argument("--size", type=measure.sizes_option, help="as --sizes of benchmarks.throughput")
    parser.add_argument("--batch", type=positive, default=4096, help="environments in parallel (default: 4096)")
    parser.add_argument("--no_step", dest="step", action="store_false", help="leave the step out")
    parser.add_argument("--no_update", dest="update", action="store_false", help="leave the update out")
    parser.add_argument(
        "--networks", choices=NETWORKS, nargs="+", default=("mlp",), help="whose update is measured (default: mlp)"
    )
    parser.add_argument(
        "--num_envs", type=positive, nargs="+", default=(256,), help="environments of an update (default: 256)"
    )
    parser.add_argument("--repeats", type=positive, default=5, help="repeats of each program (default: 5)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=0.3, help="least time of each (default: 0.3)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and all figures")
    return parser.parse_args(argv)


if __name__ == "__main__":
    entry(main)

"""Environment steps per second of the learners, end to end, and the share of the rollout; `benchmarks.limit` has more.

python -m benchmarks.training
python -m benchmarks.training --learners mappo --num_envs 1024 --layer_norm false --out result.json
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
from jax.sharding import PartitionSpec as P

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Size, Spread
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.policies.networks import NETWORKS
from train import ALGORITHMS, LAUNCH, RunConfig, aligned, entry, make_train, parse, value_of
from train.learning.sharding import DATA, batch_specs, device_key, shard, vec_specs
from train.off_policy.config import OffPolicyConfig
from train.on_policy import trainer as on_policy
from train.on_policy.config import PPOConfig
from train.on_policy.rollout import Players, Recording

Record = dict[str, Any]

SIZES: tuple[Size, ...] = ((2, 3, 5), (4, 20, 10))

LAUNCH_KEYS = set(LAUNCH) - {"config"}

SIZE_NAMES = ("num_drones", "num_customers", "num_route_nodes")
"""The parameters of `truck_drone` that are the size of a row of MAPPO."""

ROW_KEYS = {"network": "--networks", **{f"env.{name}": "--sizes" for name in SIZE_NAMES}}
"""Keys that make the rows of MAPPO, and the option that sets them."""

BOARD_SIZE_NAMES = ("max_parts", "rays")
"""The parameters of `pcb` that are the size of a row of TD3 or SAC."""


class Learning:
    """A trainer and its state: the whole update, and the rollout alone, each as a call to be timed.

    Attributes:
        steps: environment steps of one chunk of `log_interval` updates, of all seeds.
    """

    def __init__(self, config: RunConfig):
        self._trainer = make_train(config)
        self._train_chunk = self._trainer.train_chunk
        self._state = self._trainer.init(jax.random.key(config.seed))
        is_on_policy = isinstance(self._trainer, on_policy.Trainer)
        self._rollout = (rollout_alone if is_on_policy else collection_alone)(self._trainer)
        self.updates = config.log_interval
        self.steps = config.steps_per_update * config.log_interval * config.num_seeds

    def compile(self) -> jax.stages.Compiled:
        """Compile `train_chunk` alone, which `chunk` then calls as it is."""
        program, given = self._trainer.train_chunk.func, self._trainer.train_chunk.args
        compiled = program.lower(*given, self._state).compile()
        self._train_chunk = functools.partial(compiled, *given)
        return compiled

    def chunk(self) -> None:
        """One call of `train_chunk`, waited for."""
        self._state, metrics = self._train_chunk(self._state)
        jax.block_until_ready((self._state, metrics))

    def rollouts(self) -> None:
        """As many rollouts as a chunk has, from where the players stand; nothing is learned."""
        for _ in range(self.updates):
            jax.block_until_ready(self._rollout(self._state))


def rollout_alone(trainer: on_policy.Trainer) -> Callable[[Any], Any]:
    """The rollout of MAPPO as a program of its own, on the same devices, with all that the update would read."""
    rollout = trainer.rollout
    players = batch_specs(jax.eval_shape(rollout.reset, jax.eval_shape(lambda: jax.random.key(0))))

    def play(params: Any, players: Players, key: jax.Array) -> tuple[Players, Recording]:
        players, recording = rollout.play(params, players, device_key(key))
        return players, recording.replace(statistics=jax.lax.psum(recording.statistics, DATA))

    # Transitions are [K, L, E, ...], recurrent states [K, E, ...].
    parts: list[Any] = [P(None, None, DATA), P(None, DATA), P(DATA), P(DATA), P()]
    sharded = shard(play, trainer.mesh, (P(), players, P()), (players, Recording(*parts)))
    program = jax.jit(jax.vmap(sharded) if trainer.config.num_seeds > 1 else sharded)
    return lambda state: program(state.params, state.players, state.key)


def collection_alone(trainer: Any) -> Callable[[Any], Any]:
    """As `rollout_alone`, of TD3 or SAC, once the policy plays."""
    collector = trainer.collector
    vec = vec_specs(jax.eval_shape(collector.vec_env.reset, jax.eval_shape(lambda: jax.random.key(0)))[0])

    def play(actors: Any, vec: Any, update: jax.Array, key: jax.Array) -> Any:
        step = update * trainer.config.rollout_length
        vec, rows, statistics = collector.play(actors, vec, step, device_key(key))
        return vec, rows, jax.lax.psum(statistics, DATA)

    program = jax.jit(shard(play, trainer.mesh, (P(), vec, P(), P()), (vec, P(DATA), P())))
    return lambda state: program(trainer.actor_params(state), state.vec, state.update, state.key)


def measure_row(learner: str, config: RunConfig, repeats: int, seconds: float) -> Record:
    """Compile, warm up and measure one configuration of the `learner` of that name."""
    learning = Learning(config)
    runs = {"rollout": learning.rollouts, "chunk": learning.chunk}
    calls = {name: measure.calls_for(run, seconds) for name, run in runs.items()}

    def chunk_seconds(name: str) -> float:
        return measure.clock(runs[name], calls[name]) / calls[name]

    taken = measure.interleaved({name: functools.partial(chunk_seconds, name) for name in runs}, repeats)
    shares = (part / whole for part, whole in zip(taken["rollout"], taken["chunk"], strict=True))
    share = Spread.of(shares).median
    size = SIZE_NAMES if learner == "mappo" else BOARD_SIZE_NAMES
    return {
        "network": getattr(config, "network", learner),
        "size": [config.env[name] for name in size],
        "settings": settings(config),
        "config": dataclasses.asdict(config),
        "device": measure.device_name(),
        "updates_per_repeat": calls["chunk"] * config.log_interval,
        "seconds_per_chunk": taken,
        "steps_per_second": [learning.steps / seconds for seconds in taken["chunk"]],
        "rollout_share": share,
        "update_share": 1 - share,
    }


def settings(config: RunConfig) -> str:
    """What a figure depends on, in one line."""
    if isinstance(config, PPOConfig):
        learning = f"{config.num_epochs} epochs x {config.num_minibatches} minibatches"
        memory = f"{config.network} {config.recurrent_size}"
        more = [f"{memory}, chunks of {config.chunk_length}"] if NETWORKS[config.network].has_memory else []
    else:
        assert isinstance(config, OffPolicyConfig)
        learning, more = f"{config.gradient_steps} gradient steps of {config.batch_size} decisions", []
    layers = f"{'-'.join(map(str, config.hidden_sizes))} {config.activation}"
    layers += f", layer norm {'on' if config.layer_norm else 'off'}"
    seeds = [f"{config.num_seeds} seeds"] if config.num_seeds > 1 else []
    return ", ".join([f"{config.num_envs} envs x {config.rollout_length} steps", learning, layers, *seeds, *more])


def table(records: Sequence[Record]) -> str:
    """The aligned table, one row per configuration."""
    rows = [["network", "size", "env-steps/s", "min - max", "rollout", "update", "settings"]]
    for record in records:
        shares = [f"{record[name]:.0%}" for name in ("rollout_share", "update_share")]
        speed = measure.rates(Spread.of(record["steps_per_second"]))
        rows.append([record["network"], str(tuple(record["size"])), *speed, *shares, record["settings"]])
    return aligned(rows)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, overrides = _parser().parse_known_args(argv)
    measure.check_sizes(args.sizes, "drones,customers,nodes")
    measure.check_result_file(args.out, [value_of(overrides, "config")])
    configs: list[tuple[str, RunConfig]] = []
    for learner in args.learners:
        if learner == "mappo":
            rows = itertools.product(args.sizes, args.networks)
            configs += [(learner, _config(overrides, network, size)) for size, network in rows]
        else:
            configs.append((learner, _board_config(overrides, learner)))
    records = []
    with measure.progress(configs, "row") as bar:
        for learner, config in bar:
            bar.set_postfix_str(settings(config))
            try:
                records.append(measure_row(learner, config, args.repeats, args.seconds))
            except (ValueError, TypeError) as error:
                raise UserError(str(error)) from None
    header = measure.machine(["python", "-m", "benchmarks.training", *argv], records[0]["device"])
    how = {
        "env-steps": "steps of all environments in train_chunk: rollout, advantages, gradient steps",
        "size": "(drones, customers, nodes) of truck_drone; (parts, rays) of pcb, for td3 and sac",
        "repeats": f"{args.repeats} of at least {args.seconds:g} s after a warm-up; medians, and min - max",
        "rollout": "share of the trainer's own rollout, timed alone in turn with train_chunk; update: the rest",
    }
    report = f"{measure.described(header, how)}\n\n{table(records)}"
    measure.write_result(args.out, {"machine": header, "protocol": how, "rows": records}, report)


def _config(overrides: Sequence[str], network: str, size: Size) -> PPOConfig:
    """The configuration of a row of MAPPO: the defaults, what the command line overrides, and the row's own keys."""
    _check_keys(overrides, ROW_KEYS)
    values = zip(ROW_KEYS, (network, *size), strict=True)
    words = [*overrides, *(f"--{name}={value}" for name, value in values)]
    return parse(PPOConfig, words, prog="benchmarks.training", description="").config


def _board_config(overrides: Sequence[str], learner: str) -> RunConfig:
    """The shipped configuration of TD3 or SAC, without the random play that comes before learning."""
    _check_keys(overrides, {})
    words = [*overrides, "--random_steps=0", "--target_exploration_steps=0"]
    if value_of(overrides, "config") is None:
        words.append(f"--config=pcb_{learner}")
    return parse(ALGORITHMS[learner].config_class, words, prog="benchmarks.training", description="").config


def _check_keys(overrides: Sequence[str], row_keys: Mapping[str, str]) -> None:
    """Refuse keys that make the rows, by the option that sets them, and keys of runs."""
    for name in (word[2:].partition("=")[0] for word in overrides if word.startswith("--")):
        if name in row_keys:
            raise UserError(f"--{name} differs from row to row; give {row_keys[name]} instead")
        if name in LAUNCH_KEYS:
            raise UserError(f"--{name} is for training runs; leave it out")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.training", "Environment steps per second of the learners, end to end.")
    parser.epilog = "Any key of the learners overrides all rows: --num_envs 1024 --layer_norm false"
    parser.add_argument(
        "--learners",
        choices=("mappo", "td3", "sac"),
        nargs="+",
        default=("mappo",),
        help="td3 and sac place components, by the shipped configurations (default: mappo)",
    )
    parser.add_argument(
        "--sizes",
        type=measure.sizes_option,
        nargs="+",
        default=SIZES,
        help="drones,customers,nodes of mappo (default: two)",
    )
    parser.add_argument("--networks", choices=NETWORKS, nargs="+", default=("mlp", "gru"), help="of mappo")
    parser.add_argument("--repeats", type=positive, default=5, help="repeats of each row (default: 5)")
    parser.add_argument(
        "--seconds", type=measure.seconds_option, default=2.0, help="least time of a repeat (default: 2)"
    )
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    return parser


if __name__ == "__main__":
    entry(main)

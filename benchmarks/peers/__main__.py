"""Speed beside other suites: random play and training, in alternating processes.

pip install -e '.[peers]'
python -m benchmarks.peers
python -m benchmarks.peers --parts simulation --batch 1024 --cores 1 --repeats 3 --out result.json
python -m benchmarks.peers --parts training

A suite that is not installed is a line that says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import ChainMap
from collections.abc import Sequence
from typing import Any

from benchmarks import measure
from benchmarks.measure import Spread, rates
from benchmarks.peers.players import LEARNER_PAIRS, LEARNERS, PAIRS, PLAYERS, Pair, Player
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.messages import installing
from train import aligned, entry

Record = dict[str, Any]

SIDES = ChainMap(PLAYERS, LEARNERS)
"""All that `--player` takes, by name."""

PARTS = ("simulation", "training")


def measure_player(player: Player, batch: int, steps: int, seconds: float) -> float:
    """Environment steps per second of a player, built and warmed up in this process."""
    play = player.build(batch, steps)
    play()  # compiles, which would pass for one long call
    calls = measure.calls_for(play, seconds)
    return calls * batch * steps / measure.clock(play, calls)


def measure_apart(name: str, cores: int, args: argparse.Namespace) -> float | str:
    """`measure_player` in a process of its own on so many cores; or the last words of that process."""
    options = {"player": name, "batch": args.batch, "steps": args.steps, "seconds": args.seconds}
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    done = subprocess.run(
        [*measure.this_program("peers"), *words],
        env={**os.environ, "OMP_NUM_THREADS": str(cores), "JAX_NUM_CPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores]),
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return float(done.stdout.splitlines()[-1])


def measure_pair(pair: Pair, cores: int, args: argparse.Namespace) -> Record:
    """Both sides in turn, `args.repeats` processes each."""
    names = {"ours": pair.ours, "peer": pair.peer}
    players = {side: SIDES[name] for side, name in names.items()}
    record: Record = {"cores": cores, "goal": pair.goal}
    for side, player in players.items():
        record[side] = {"label": player.label, "version": player.version, "decisions": player.decisions}
    if players["peer"].version is None:
        return {**record, "error": f"{players['peer'].package} is not installed; {installing('peers')}"}
    figures: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(args.repeats):
        for side, name in names.items():
            found = measure_apart(name, cores, args)
            if isinstance(found, str):
                return {**record, "error": f"{players[side].label}: {found}"}
            figures[side].append(found)
    return {
        **record,
        "steps_per_second": figures,
        "ratio": Spread.of(figures["ours"]).median / Spread.of(figures["peer"]).median,
    }


def table(records: Sequence[Record]) -> str:
    """The aligned table, one row per pair and number of cores."""
    speeds = [title for side in ("ours", "peer") for title in (f"{side}, steps/s", "min - max", "decisions/s")]
    rows = [["ours", "peer", "cores", *speeds, "ratio", "goal", "ratio per decision"]]
    failed = []
    for record in records:
        labels = [record["ours"]["label"], f"{record['peer']['label']} {record['peer']['version'] or ''}".strip()]
        if "error" in record:
            failed.append(f"{labels[1]}, {record['cores']} cores: {record['error']}")
            continue
        figures = []
        for side in ("ours", "peer"):
            spread = Spread.of(record["steps_per_second"][side])
            figures += [*rates(spread), measure.rate(spread.median * record[side]["decisions"])]
        per_decision = record["ratio"] * record["ours"]["decisions"] / record["peer"]["decisions"]
        compared = f"{record['ratio']:.2f}", f"{record['goal']:g}", f"{per_decision:.2f}"
        rows.append([*labels, str(record["cores"]), *figures, *compared])
    return "\n".join([aligned(rows), *failed])


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    if args.player:
        print(measure_player(SIDES[args.player], args.batch, args.steps, args.seconds))
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UserError("processes cannot be bound to cores on this system; run this benchmark on Linux")
    result: Record = {}
    if "simulation" in args.parts:
        result["pairs"] = measure_pairs(PAIRS, args)
    if "training" in args.parts:
        updates = {"batch": args.train_envs, "steps": args.train_steps}
        result["training"] = measure_pairs(LEARNER_PAIRS, argparse.Namespace(**{**vars(args), **updates}))
    header = measure.machine(["python", "-m", "benchmarks.peers", *argv], measure.device_name())
    how = protocol(args)
    report = "\n\n".join([measure.described(header, how), *map(table, result.values())])
    measure.write_result(args.out, {"machine": header, "protocol": how, **result}, report)


def measure_pairs(pairs: Sequence[Pair], args: argparse.Namespace) -> list[Record]:
    """`measure_pair` of all, on every number of cores."""
    cases = [(pair, cores) for pair in pairs for cores in args.cores]
    records = []
    with measure.progress(cases, "pair") as bar:
        for pair, cores in bar:
            bar.set_postfix_str(f"{SIDES[pair.ours].label} / {SIDES[pair.peer].label}, {cores} cores")
            records.append(measure_pair(pair, cores, args))
    return records


def protocol(args: argparse.Namespace) -> dict[str, str]:
    """What is measured in the parts that were asked for, and how."""
    parts = {
        "simulation": f"{args.batch} environments, {args.steps} steps in a call; a step: random legal actions, step, "
        "auto-reset, observations and masks, which the scan carries",
        "training": f"{args.train_envs} environments, {args.train_steps} steps in an update; a step is one of an "
        "environment, played and learned from in 4 epochs of 4 minibatches",
    }
    asked = {part: parts[part] for part in PARTS if part in args.parts}
    return asked | {
        "repeats": f"{args.repeats} processes of each side in turn, at least {args.seconds:g} s each after a warm-up",
        "ratio": "median of ours / median of the peer's; per decision: per choice of an agent",
    }


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.peers", "Simulation and training beside other suites.")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=PARTS, help="what is measured (default: all)")
    parser.add_argument("--batch", type=positive, default=4096, help="environments of simulation (default: 4096)")
    parser.add_argument("--steps", type=positive, default=128, help="steps of a call, in simulation (default: 128)")
    parser.add_argument("--train_envs", type=positive, default=1024, help="environments of training (default: 1024)")
    parser.add_argument(
        "--train_steps", type=positive, default=25, help="steps of an update, in training (default: 25)"
    )
    parser.add_argument("--cores", type=positive, nargs="+", default=(1, 2), help="CPU cores to use (default: 1 2)")
    parser.add_argument("--repeats", type=positive, default=5, help="processes of each side (default: 5)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=1.0, help="least time of each (default: 1)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--player", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    entry(main)

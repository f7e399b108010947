"""Speed of random play beside other suites, and our learners beside JaxMARL's, in alternating processes.

pip install -e '.[peers]'
python -m benchmarks.peers
python -m benchmarks.peers --batch 1024 --cores 1 --repeats 3 --out result.json
git clone https://github.com/FLAIROx/JaxMARL ../JaxMARL
python -m benchmarks.peers --parts training --jaxmarl ../JaxMARL --cores 1

A suite that is not installed is a line that says so.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread, rates
from benchmarks.peers import training
from benchmarks.peers.learners import COMPARISONS
from benchmarks.peers.players import PAIRS, PLAYERS, Pair, Player
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.messages import installing
from train import aligned, entry

Record = dict[str, Any]

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
    program = [*measure.this_program("peers"), *words]
    with measure.on_cores(cores) as env:
        done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return float(done.stdout.splitlines()[-1])


def measure_pair(pair: Pair, cores: int, args: argparse.Namespace) -> Record:
    """Both sides in turn, `args.repeats` processes each."""
    names = {"ours": pair.player, "peer": pair.peer}
    players = {side: PLAYERS[name] for side, name in names.items()}
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
        print(measure_player(PLAYERS[args.player], args.batch, args.steps, args.seconds))
        return
    if args.learner:
        side, comparison = args.learner
        training.serve(side, comparison, args.jaxmarl)
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UserError("processes cannot be bound to cores on this system; run this benchmark on Linux")
    if "training" in args.parts and not (args.jaxmarl and (args.jaxmarl / "baselines").is_dir()):
        raise UserError("training needs JaxMARL's scripts; give a clone of github.com/FLAIROx/JaxMARL by --jaxmarl")
    result: Record = {}
    reports = []
    if "simulation" in args.parts:
        result["pairs"] = measure_pairs(PAIRS, args)
        reports.append(table(result["pairs"]))
    if "training" in args.parts:
        result["training"] = measure_learners(args)
        reports += [aligned(training.table(result["training"])), *training.errors(result["training"])]
    header = measure.machine(["python", "-m", "benchmarks.peers", *argv], measure.device_name())
    how = protocol(args)
    report = "\n\n".join([measure.described(header, how), *reports])
    measure.write_result(args.out, {"machine": header, "protocol": how, **result}, report)


def measure_learners(args: argparse.Namespace) -> list[Record]:
    """`training.measure_comparison` of all that are asked for, on every number of cores."""
    asked = [comparison for comparison in COMPARISONS if comparison.name in args.comparisons]
    records = []
    with measure.progress([(each, cores) for each in asked for cores in args.cores], "comparison") as bar:
        for comparison, cores in bar:
            bar.set_postfix_str(f"{comparison.name}, {cores} cores")
            records.append(training.measure_comparison(comparison, cores, args))
    return records


def measure_pairs(pairs: Sequence[Pair], args: argparse.Namespace) -> list[Record]:
    """`measure_pair` of all, on every number of cores."""
    cases = [(pair, cores) for pair in pairs for cores in args.cores]
    records = []
    with measure.progress(cases, "pair") as bar:
        for pair, cores in bar:
            bar.set_postfix_str(f"{PLAYERS[pair.player].label} / {PLAYERS[pair.peer].label}, {cores} cores")
            records.append(measure_pair(pair, cores, args))
    return records


def protocol(args: argparse.Namespace) -> dict[str, str]:
    """What is measured in the parts that were asked for, and how."""
    said = {}
    if "simulation" in args.parts:
        said = {
            "simulation": f"{args.batch} environments, {args.steps} steps in a call; a step: random legal actions, "
            "step, auto-reset, observations and masks, which the scan carries",
            "repeats": f"{args.repeats} processes of each side in turn, at least {args.seconds:g} s each after a "
            "warm-up",
            "ratio": "median of ours / median of the peer's; per decision: per choice of an agent",
        }
    return said | ({"training": training.protocol(args)} if "training" in args.parts else {})


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.peers", "Simulation and learners beside other suites'.")
    parser.add_argument(
        "--parts", choices=PARTS, nargs="+", default=PARTS[:1], help="what is measured (default: simulation)"
    )
    parser.add_argument("--batch", type=positive, default=4096, help="environments of simulation (default: 4096)")
    parser.add_argument("--steps", type=positive, default=128, help="steps of a call, in simulation (default: 128)")
    parser.add_argument("--jaxmarl", type=pathlib.Path, help="clone of github.com/FLAIROx/JaxMARL, for training")
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument("--comparisons", choices=names, nargs="+", default=names, help="of training (default: all)")
    parser.add_argument("--seeds", type=positive, default=3, help="of a training (default: 3)")
    parser.add_argument("--cores", type=positive, nargs="+", default=(1, 2), help="CPU cores to use (default: 1 2)")
    parser.add_argument("--repeats", type=positive, default=5, help="processes of each side (default: 5)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=1.0, help="least time of each (default: 1)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--player", choices=PLAYERS, help=argparse.SUPPRESS)
    parser.add_argument("--learner", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    entry(main)

"""Learners beside each other: a process for each, compiled once, that trains a seed when it is asked to, in turn."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread, rate, rates
from benchmarks.peers import scripts
from benchmarks.peers.learners import COMPARISONS, SIDES, Comparison, Update

Record = dict[str, Any]

POINTS = 40
"""Of a learning curve, at most."""

LAST = 0.1
"""Share of the updates over which the final return is the mean."""


def serve(side: str, name: str, clone: pathlib.Path) -> None:
    """Compile a learner; then train each seed that stdin names, a line each; answers are lines of JSON on stdout."""
    (comparison,) = (comparison for comparison in COMPARISONS if comparison.name == name)
    # What imports print there is no answer.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        train, seconds = measure.seconds_of(lambda: SIDES[side](comparison, clone))
        print(json.dumps({"compile": seconds.cpu}), file=answers, flush=True)
        settings = comparison.published(clone)
        for line in sys.stdin:
            run = run_of(train(int(line)), settings["NUM_ENVS"] * settings["NUM_STEPS"])
            print(json.dumps(run), file=answers, flush=True)


def run_of(updates: Sequence[Update], steps: int) -> Record:
    """Curve, final return and speed of a training whose updates have so many environment steps each.

    The first update counts for none of them: in it, some scripts take the mean with episodes that have not ended.
    """
    parts = np.array_split(np.arange(1, len(updates)), min(POINTS, len(updates) - 1))
    returned = np.array([update.returned for update in updates])
    first, last, count = updates[0], updates[-1], len(updates) - 1
    return {
        "curve": [[int((part[-1] + 1) * steps), round(float(returned[part].mean()), 4)] for part in parts],
        "final": float(returned[-max(1, round(LAST * len(updates))) :].mean()),
        "steps_per_second": count * steps / (last.wall - first.wall),
        "steps_per_cpu_second": count * steps / (last.cpu - first.cpu),
    }


class Server:
    """A process that `serve`s."""

    def __init__(self, process: subprocess.Popen[str], said: IO[str]):
        self._process, self._said = process, said
        self.compile_seconds: float = self._answer()["compile"]

    def trained(self, seed: int) -> Record:
        """Its training of a seed; a RuntimeError has its last words."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(seed, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Record:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            said = self._said.read().partition("\n--------------------\n")[0]  # JAX adds advice
            words = [line for line in said.splitlines() if any(map(str.isalnum, line))]
            raise RuntimeError((words or ["it said nothing"])[-1].strip())
        answer: Record = json.loads(line)
        return answer


@contextlib.contextmanager
def served(side: str, comparison: Comparison, cores: int, clone: pathlib.Path) -> Iterator[Server]:
    """`serve` in a process of its own, on so many cores."""
    words = [*measure.this_program("peers"), "--learner", side, comparison.name, "--jaxmarl", str(clone)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        with measure.on_cores(cores) as bound:
            env = {**bound, "JAX_ENABLE_COMPILATION_CACHE": "false"}
            process = subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, stderr=said, text=True)
        with process:
            try:
                yield Server(process, said)
            finally:
                process.kill()


def measure_comparison(comparison: Comparison, cores: int, args: argparse.Namespace) -> Record:
    """All sides in turn, seed by seed."""
    settings = comparison.published(args.jaxmarl)
    record: Record = {"problem": comparison.problem, "algorithm": comparison.algorithm, "cores": cores}
    record |= {"settings": settings, "sides": {side: {"runs": []} for side in comparison.sides}}
    try:
        with contextlib.ExitStack() as stack:
            servers = {
                side: stack.enter_context(served(side, comparison, cores, args.jaxmarl)) for side in comparison.sides
            }
            for side, server in servers.items():
                record["sides"][side]["compile_cpu_seconds"] = server.compile_seconds
            for seed in range(args.seeds):
                for side, server in servers.items():
                    record["sides"][side]["runs"].append({"seed": seed, **server.trained(seed)})
    except RuntimeError as error:
        record["error"] = str(error)
    return record


def table(records: Sequence[Record]) -> list[list[str]]:
    """A head, and a row for each side of each comparison; ratios are of medians, to the side that is named last.

    Seconds are those of the clock on several cores, and CPU seconds on one.
    """
    rows, titles = [], set()
    for record in records:
        if "error" in record:
            continue
        about = record["problem"], record["algorithm"], str(record["cores"])
        steps, sides = rate(record["settings"]["TOTAL_TIMESTEPS"]), record["sides"]
        by_clock = record["cores"] > 1
        titles.add("steps/s" if by_clock else "steps/CPU s")
        key = "steps_per_second" if by_clock else "steps_per_cpu_second"
        speeds = {side: Spread.of(run[key] for run in sides[side]["runs"]) for side in sides}
        base = list(speeds.values())[-1].median
        fastest = max(speed.median for speed in speeds.values())
        for side, speed in speeds.items():
            final = [run["final"] for run in sides[side]["runs"]]
            earlier = f"{return_after(sides[side]['runs'], speed.median / fastest):.2f}"
            returned = f"{sum(final) / len(final):.2f} ({min(final):.2f} to {max(final):.2f})"
            compilation = f"{sides[side]['compile_cpu_seconds']:.0f} CPU s"
            returns = (returned, earlier)
            rows.append([*about, steps, side, *returns, *rates(speed), f"{speed.median / base:.2f}", compilation])
    returns = ("return", "when the fastest is done")
    head = ["problem", "learner", "cores", "steps", "whose", *returns, ", ".join(sorted(titles))]
    return [[*head, "min - max", "ratio", "compilation"], *rows]


def return_after(runs: Sequence[Record], share: float) -> float:
    """The mean return of runs after a share of their steps, over the last tenth of a curve's points before that."""
    means = []
    for run in runs:
        steps, returned = np.transpose(run["curve"])
        count = max(1, round(LAST * len(steps)))
        means.append(returned[steps <= share * steps[-1]][-count:].mean())
    return float(np.mean(means))


def errors(records: Sequence[Record]) -> list[str]:
    """What went wrong, a line each."""
    return [f"{each['algorithm']}, {each['problem']}: {each['error']}" for each in records if "error" in each]


def protocol(args: argparse.Namespace) -> str:
    """What is measured, and how."""
    return (
        f"{args.seeds} seeds, sides in turn; settings and scripts of JaxMARL {scripts.commit_of(args.jaxmarl)}; final "
        f"return: of an agent, in training, mean of the last {LAST:.0%} of the updates; speed without the first update"
    )

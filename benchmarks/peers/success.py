"""Time to success: the easy job, trained from a cold process until its evaluation succeeds often enough.

The easy job is MAPPO with all of its defaults: ample batteries, decisions at every step, two layers of 64.

The programs are compiled ahead, without compilation cache, so that their time can be told apart. What a run of
`train.mappo` also does (checkpoints, logs, a report) is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.measure import Spread, rate
from train.algorithms import ALGORITHMS
from train.running.command import command_line
from train.running.command.prepare import evaluation_env
from train.running.loop.evaluator import Evaluator, evaluation_function, to_host
from train.running.shown.tables import aligned

Record = dict[str, Any]

JOB = ("--total_steps", "2000000")
"""Words of the command line: the easy job."""

SUCCESS = 0.95
"""Share of the fixed instances on which the deterministic policy succeeds."""


def reach(words: Sequence[str], success: float = SUCCESS) -> Record:
    """Train MAPPO until an evaluation, at the configuration's own intervals, shows so much success, or to the end.

    Args:
        words: of its command line, for example `JOB`.
        success: that is enough.

    Returns:
        `reached`; the last `success`; `env_steps`; seconds of `compiling` and of `running` (updates and evaluations);
        and `time.monotonic()` at the end, as `ended`.
    """
    algorithm = ALGORITHMS["mappo"]
    config = command_line.parse(algorithm.config_class, words, prog="benchmarks.peers", description="").config
    learner = algorithm.make_train(config)
    evaluator = Evaluator(evaluation_env(learner.env, config), config.eval_episodes, config.eval_seed)
    began = time.monotonic()
    state = learner.init(jax.random.key(config.seed))
    chunk = _compiled(learner.train_chunk, state)
    evaluate = _compiled(evaluation_function(learner, evaluator), learner.actor_params(state))
    compiled = time.monotonic()
    update, reached = 0, -1.0
    while update < config.num_updates and reached < success:
        state, _ = chunk(state)
        update += config.log_interval
        if update % config.eval_interval == 0 or update >= config.num_updates:
            reached = to_host(evaluate(learner.actor_params(state)))["success_rate"]
    ended = time.monotonic()
    return {
        "reached": reached >= success,
        "success": reached,
        "env_steps": update * config.steps_per_update,
        "compiling": compiled - began,
        "running": ended - compiled,
        "ended": ended,
    }


def _compiled(function: Any, *args: Any) -> Any:
    return function.lower(*args).compile()


def table(records: Sequence[Record]) -> str:
    """One row per number of cores, of the runs that reached it; and a line for each that failed."""
    head = [
        "easy job",
        "cores",
        "reached",
        "env steps",
        "min - max",
        "s, cold",
        "min - max",
        "s, compiled",
        "min - max",
    ]
    rows, failed = [head], []
    for record in records:
        runs = [run for run in record["runs"] if run.get("reached")]
        failed += [
            f"seed {run['seed']}, {record['cores']} cores: {run['error']}" for run in record["runs"] if "error" in run
        ]
        figures = [cell for name in ("env_steps", "cold", "running") for cell in _cells([run[name] for run in runs])]
        reached = f"{len(runs)} of {len(record['runs'])}"
        rows.append([f"success {SUCCESS:g}", str(record["cores"]), reached, *figures])
    return "\n".join([aligned(rows), *failed])


def _cells(values: Sequence[float]) -> tuple[str, str]:
    """Median, and `"low - high"`; dashes if there is nothing."""
    if not values:
        return "-", "-"
    spread = Spread.of(values)
    return rate(spread.median), f"{rate(spread.low)} - {rate(spread.high)}"

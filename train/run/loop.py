"""The one Python loop of all learners: chunk, log, evaluate, checkpoint, resume, progress, stop."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple, Protocol, Self

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxvrp import registry
from jaxvrp.io.command_line import Interrupted, UserError
from jaxvrp.io.messages import warn
from jaxvrp.io.whole_files import remove_unfinished, write_json
from train.learning.learner import Learner
from train.run.checkpoint import Checkpoints
from train.run.compiler import Compiler, Kept
from train.run.evaluator import Evaluator, Figures, evaluation_function, to_host
from train.run.folder import CHECKPOINTS, write_configuration
from train.run.lock import cannot
from train.run.metrics import Logger, MetricsWriter, summarize
from train.run.progress import Progress
from train.run.records import METRICS, RATES, START, TIMING, cut_back, rates_of
from train.run.resume import RecordedRun, logged_updates

Begin = Callable[[Any], Any]
"""From a fresh training state to the one that a run begins with."""

TrainChunk = Callable[[Any], tuple[Any, dict[str, jax.Array]]]
"""`Learner.train_chunk`, compiled."""


class Stage(NamedTuple):
    """Which stage of a run is trained, of how many (1 for a run without stages); `run` is the folder to resume."""

    number: int
    total: int
    run: pathlib.Path

    @property
    def title(self) -> str:
        """`stage 2 of 3`; nothing for a run without stages."""
        return f"stage {self.number} of {self.total}" if self.total > 1 else ""


class Report(Protocol):
    """What is made of a run at its end."""

    def write(self, params: Any, policy: Figures, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write it, of actors with these parameters and figures; the pictures that were drawn."""


class Shown(NamedTuple):
    """What shows a run besides the records that it writes: loggers by name, see `MetricsWriter`, and a report."""

    open_loggers: Callable[[Sequence[str], pathlib.Path, Mapping[str, Any], int], Sequence[Logger]]
    make_report: Callable[[Learner, Any, Evaluator, Compiler], Report]


class Stop:
    """Turns Ctrl-C and a request to terminate into a flag; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Self:
        self._previous_handlers = {s: signal.signal(s, self.request) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def request(self, number: int, frame: FrameType | None) -> None:
        """The handler of signals."""
        del frame
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping: saving after this update; Ctrl-C again stops at once ...", file=sys.stderr)


def _any_process(requested: bool) -> bool:
    """Whether any process was asked to stop: all of them save, and stop, after the same update."""
    if jax.process_count() == 1:
        return requested
    return bool(multihost_utils.process_allgather(np.asarray(requested)).any())


def run(
    learner: Learner,
    folder: pathlib.Path,
    recorded: RecordedRun,
    *,
    resume: bool,
    begin: Begin | None = None,
    stage: Stage | None = None,
    kept: Kept | None = None,
    shown: Shown,
) -> None:
    """Train to the end (or go on from the latest checkpoint), then report.

    `folder` is that of the run, or of an earlier stage of it; `recorded` is what its `config.yaml` and its checkpoints
    say. `begin` makes the state that a new run begins with from a fresh one; None for the fresh one itself. Programs
    that are `kept` are not compiled again.

    Raises:
        UserError: no usable checkpoint to resume; a loss that is not finite; the folder cannot be written any more.
        Interrupted: Ctrl-C, or a request to terminate; the message says what is saved.
    """
    stage, is_main = stage or Stage(1, 1, folder), jax.process_index() == 0
    config, key = learner.config, jax.random.key(learner.config.seed)
    checkpoints = Checkpoints(folder / CHECKPOINTS)
    with _failures_explained(learner, checkpoints, stage), Compiler(kept.of(config) if kept else None) as compiler:
        if is_main:
            remove_unfinished(folder)
        update = checkpoints.find("latest") if resume else 0
        train_chunk = learner.train_chunk
        if update < config.num_updates:  # first of all, since it takes longest
            train_chunk = compiler.compile(train_chunk, jax.eval_shape(learner.init, key), name="train_chunk")
        state = compiler.compile(learner.init, key, quick=True, name="init")(key)
        if begin is not None:
            state = begin(state)
        if resume:
            state = checkpoints.load(state, update)
            if is_main:
                write_configuration(folder, recorded)
        params = learner.actor_params(state)
        evaluator = Evaluator(learner.evaluation_env, config.eval_episodes, config.eval_seed)
        figures = compiler.compile(evaluation_function(learner, evaluator), params, quick=True, name="figures")
        report = shown.make_report(learner, params, evaluator, compiler) if is_main else None
        with _Session(learner, folder, recorded, checkpoints, update, stage, figures, shown) as session:
            state = session.train(train_chunk, state, evaluate_first=not resume)
            last_figures = session.last_figures or session.evaluate(state)
            if report:
                session.show_pictures(report.write(learner.actor_params(state), last_figures, folder))


@contextlib.contextmanager
def _failures_explained(learner: Learner, checkpoints: Checkpoints, stage: Stage) -> Iterator[None]:
    """A second Ctrl-C, and a folder that cannot be written any more, say what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped at once; {_kept(learner, checkpoints, stage)}") from None
    except OSError as error:
        if stage.run.is_dir():
            message = f"{cannot('write', error, stage.run)}; {_kept(learner, checkpoints, stage)}"
        else:
            message = (
                f"the run folder {stage.run} was removed or renamed during the run; if it was renamed, go on with "
                "--resume and its new name, else start anew"
            )
        raise UserError(message) from error


def _kept(learner: Learner, checkpoints: Checkpoints, stage: Stage) -> str:
    """What a run that was stopped has left; one without stages cannot be resumed without a checkpoint."""
    update = checkpoints.kept
    if update is None and stage.title:
        return f"{stage.title} has no checkpoint yet; begin it again with --resume {stage.run}"
    if update is None:
        return f"nothing is saved, as there is no checkpoint yet; delete {stage.run}, and start anew"
    of_stage = f" of {stage.title}" if stage.title else ""
    return (
        f"the checkpoint of update {update} of {learner.config.num_updates}{of_stage} is kept, go on with --resume "
        f"{stage.run}"
    )


class _Session:
    """One stretch of training: from a state to the end, or to an interruption; use it as a context manager.

    `figures` is what `evaluation_function` makes, compiled.
    """

    def __init__(
        self,
        learner: Learner,
        folder: pathlib.Path,
        recorded: RecordedRun,
        checkpoints: Checkpoints,
        update: int,
        stage: Stage,
        figures: Callable[[Any], dict[str, jax.Array]],
        shown: Shown,
    ):
        config, self._stage, self._figures = learner.config, stage, figures
        self.learner, self.folder, self.checkpoints, self.update = learner, folder, checkpoints, update
        self._configuration = recorded.values
        self.last_figures: Figures = {}
        is_main, env_steps, self._writer = jax.process_index() == 0, update * config.steps_per_update, None
        headlines = registry.card_of(learner.evaluation_env).headlines
        if is_main:
            write_json(folder / RATES, rates_of(headlines))
            for name in (METRICS, TIMING):
                if faults := cut_back(folder / name, logged_updates(recorded, update)):
                    warn(f"{faults}; the run goes on from its checkpoint")
            loggers = (config.logger, folder, self._configuration, env_steps)
            self._writer = MetricsWriter(folder, functools.partial(shown.open_loggers, *loggers))
        total_steps = config.num_updates * config.steps_per_update
        self._progress = Progress(total_steps, env_steps, headlines, enabled=is_main, title=stage.title)

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self._progress.close()
        try:
            if self._writer:
                self._writer.close(ended_well=failure is None)
        except OSError:
            if failure is None:  # else that is told, and the cause of this one
                raise

    def train(self, train_chunk: TrainChunk, state: Any, *, evaluate_first: bool) -> Any:
        """The state at the end; a request to stop saves everything, and raises `Interrupted`."""
        with Stop() as stop:
            if evaluate_first:
                self._record_start(state)
            return self._train(train_chunk, state, stop)

    def _train(self, train_chunk: TrainChunk, state: Any, stop: Stop) -> Any:
        config = self.learner.config
        while self.update < config.num_updates:
            began = time.perf_counter()
            state, metrics = train_chunk(state)
            metrics = jax.device_get(metrics)
            seconds = time.perf_counter() - began
            self._require_finite(metrics)
            self.update += config.log_interval
            is_last = self.update >= config.num_updates
            is_evaluated = is_last or self.update % config.eval_interval == 0
            self.last_figures = self.evaluate(state) if is_evaluated else {}
            self._log(metrics, seconds)
            is_stopping = _any_process(stop.requested)
            if is_last or is_stopping or self.update % config.save_interval == 0:
                self._save(state)
            if is_stopping and not is_last:
                raise Interrupted(
                    f"interrupted at update {self.update} of {config.num_updates}"
                    f"{self._stage.title and f' of {self._stage.title}'}; everything is saved, "
                    f"go on with --resume {self._stage.run}"
                )
        self._progress.close()
        return state

    def _record_start(self, state: Any) -> None:
        """Write what the policy is worth that the run begins with."""
        figures = {f"eval/{name}": value for name, value in self.evaluate(state).items()}
        if self._writer:
            write_json(self.folder / START, {"env_steps": 0, **figures})
            self._writer.show_figures(figures, 0)

    def evaluate(self, state: Any) -> Figures:
        """Figures of the state's policy on the fixed instances."""
        with self._progress.phase("evaluation"):
            return to_host(self._figures(self.learner.actor_params(state)))

    def show_pictures(self, pictures: Sequence[pathlib.Path]) -> None:
        """Show pictures in the loggers."""
        if self._writer and pictures:
            self._writer.show_pictures(pictures, self.update * self.learner.config.steps_per_update)

    def _save(self, state: Any) -> None:
        if self._writer:
            self._writer.flush()
        score = float(np.mean(self.last_figures["return"])) if self.last_figures else None
        self.checkpoints.save(self.update, state, score, self._configuration)

    def _log(self, metrics: dict[str, np.ndarray], seconds: float) -> None:
        config = self.learner.config
        steps = config.log_interval * config.steps_per_update
        env_steps = self.update * config.steps_per_update
        record = {"update": self.update, "env_steps": env_steps}
        # Before every environment can have ended an episode, only the short ones have: their mean would flatter.
        is_settled = env_steps // config.num_envs >= self.learner.env.max_episode_steps
        record |= summarize(metrics, config.num_seeds, settled=is_settled)
        record |= {f"eval/{name}": value for name, value in self.last_figures.items()}
        timing = {"update": self.update, "time/seconds": seconds}
        timing["time/env_steps_per_second"] = steps * config.num_seeds / seconds
        if self._writer:
            self._writer.write(record, timing)
        self._progress.advance(steps, record)

    def _require_finite(self, metrics: dict[str, np.ndarray]) -> None:
        for name, values in metrics.items():
            is_bad = ~np.isfinite(values)
            if name.startswith("episode/") or not is_bad.any():
                continue
            updates_axis = 1 if self.learner.config.num_seeds > 1 else 0
            other_axes = tuple(axis for axis in range(is_bad.ndim) if axis != updates_axis)
            first = int(np.argmax(is_bad.any(axis=other_axes)))
            kept = self.checkpoints.kept
            where = f"the checkpoint of update {kept} is kept" if kept else "no checkpoint had been written"
            raise UserError(
                f"{name} is not finite at update {self.update + first + 1}; stopped, {where}; "
                "lower the learning rates, or look at the environment with jaxvrp.check_env"
            )

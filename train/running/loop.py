"""The one Python loop of all learners: chunk, log, evaluate, checkpoint, resume, progress, stop."""

from __future__ import annotations

import pathlib
import signal
import sys
import time
from types import FrameType
from typing import Any, Protocol

import jax
import numpy as np

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor
from jaxvrp.io.command_line import UserError
from train.config import RunConfig
from train.running.checkpoint import Checkpoints
from train.running.evaluator import Evaluator, Figures, evaluation_function, to_host
from train.running.metrics import MetricsWriter, summarize
from train.running.prepare import evaluation_env
from train.running.progress import Progress
from train.running.report import write_report


class Learner(Protocol):
    """What the loop needs of a learner; `train_chunk` does `config.log_interval` updates."""

    config: RunConfig
    env: Environment

    def init(self, key: jax.Array) -> Any:
        """A fresh state."""

    def train_chunk(self, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """Donates the state; metrics `{name: [(seeds,) updates, ...]}`."""

    def actor_params(self, state: Any) -> Any:
        """The part of the state that acts."""

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> Actor:
        """A player with these parameters (of one seed); samples are of logits divided by `temperature`."""


class Stop:
    """Turns Ctrl-C and a request to terminate into a flag; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Stop:
        self._before = {s: signal.signal(s, self._request) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping: saving after this update ...", file=sys.stderr)


def run(learner: Learner, folder: pathlib.Path, *, resume: bool) -> None:
    """Train to the end (or go on from the latest checkpoint), then report.

    Raises:
        UserError: no usable checkpoint to resume; a loss that is not finite; an interruption (after saving).
    """
    state = learner.init(jax.random.key(learner.config.seed))
    with Checkpoints(folder / "checkpoints") as checkpoints:
        update = 0
        if resume:
            state, update = checkpoints.load(state), checkpoints.latest or 0
        session = _Session(learner, folder, checkpoints, update)
        try:
            with Stop() as stop:
                state = session.train(state, stop)
        finally:
            session.close()
    if jax.process_index() == 0:
        params = learner.actor_params(state)
        write_report(learner, params, to_host(session.evaluate(params)), session.evaluator, folder)


class _Session:
    """One stretch of training: from a state to the end, or to an interruption."""

    def __init__(self, learner: Learner, folder: pathlib.Path, checkpoints: Checkpoints, update: int):
        config = learner.config
        self.learner, self.folder, self.checkpoints, self.update = learner, folder, checkpoints, update
        self.is_main = jax.process_index() == 0
        env = evaluation_env(learner.env, config)
        self.evaluator = Evaluator(env, config.eval_episodes, config.eval_seed)
        self.evaluate = evaluation_function(learner, self.evaluator)
        self.writer = _writer(folder, update) if self.is_main else None
        step = config.steps_per_update
        headlines = registry.toolbox_of(env).headlines
        self.progress = Progress(config.num_updates * step, update * step, headlines, enabled=self.is_main)

    def train(self, state: Any, stop: Stop) -> Any:
        config = self.learner.config
        while self.update < config.num_updates:
            began = time.perf_counter()
            state, metrics = self.learner.train_chunk(state)
            metrics = jax.device_get(metrics)
            seconds = time.perf_counter() - began
            self._require_finite(metrics)
            self.update += config.log_interval
            last = self.update >= config.num_updates
            figures = self._evaluate(state) if last or self.update % config.eval_interval == 0 else {}
            self._log(metrics, figures, seconds)
            if last or stop.requested or self.update % config.save_interval == 0:
                score = float(np.mean(figures["return"])) if figures else None
                self.checkpoints.save(self.update, state, score)
            if stop.requested and not last:
                raise UserError(
                    f"interrupted at update {self.update} of {config.num_updates}; everything is saved, "
                    f"go on with --resume {self.folder}"
                )
        return state

    def _evaluate(self, state: Any) -> Figures:
        return to_host(self.evaluate(self.learner.actor_params(state)))

    def _log(self, metrics: dict[str, np.ndarray], figures: Figures, seconds: float) -> None:
        config = self.learner.config
        steps = config.log_interval * config.steps_per_update
        record = {"update": self.update, "env_steps": self.update * config.steps_per_update}
        # Before every environment can have ended an episode, only the short ones have: their mean would flatter.
        played = self.update * config.steps_per_update // config.num_envs
        record |= summarize(metrics, config.num_seeds, settled=played >= self.learner.env.max_episode_steps)
        record |= {f"eval/{name}": value for name, value in figures.items()}
        timing = {"update": self.update, "time/seconds": seconds}
        timing["time/env_steps_per_second"] = steps * config.num_seeds / seconds
        if self.writer:
            self.writer.write(record, timing)
        self.progress.advance(steps, record)

    def _require_finite(self, metrics: dict[str, np.ndarray]) -> None:
        for name, values in metrics.items():
            bad = ~np.isfinite(values)
            if name.startswith("episode/") or not bad.any():
                continue
            axis = 1 if self.learner.config.num_seeds > 1 else 0
            first = int(np.argmax(bad.any(axis=tuple(i for i in range(bad.ndim) if i != axis))))
            kept = self.checkpoints.latest
            where = f"the checkpoint of update {kept} is kept" if kept else "no checkpoint had been written"
            raise UserError(
                f"{name} is not finite at update {self.update + first + 1}; stopped, {where}; "
                "lower the learning rates, or look at the environment with jaxvrp.check_env"
            )

    def close(self) -> None:
        self.progress.close()
        if self.writer:
            self.writer.close()


def _writer(folder: pathlib.Path, update: int) -> MetricsWriter:
    try:
        return MetricsWriter(folder, after=update)
    except OSError as error:
        raise UserError(f"cannot write {error.filename or folder}: {error.strerror}; free it, and --resume") from None

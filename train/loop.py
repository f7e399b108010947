"""The one Python loop of all learners: chunk, log, evaluate, checkpoint, resume, progress, stop."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import jax
import numpy as np
import yaml

from jaxvrp import Environment
from jaxvrp.actor import Actor
from train.checkpoint import Checkpoints
from train.cli import Launch, UserError, checked
from train.config import CONFIGS, RunConfig
from train.evaluate import Evaluator, Figures, first_seed, to_host
from train.logger import METRICS, MetricsWriter, Progress, Record, figures_table, read_records
from train.plots import learning_curve

CONFIG = "config.yaml"
EPISODE_NAMES = {"episode_return": "episode/return", "episode_length": "episode/length"}


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


def configuration(launch: Launch, algorithm: str) -> RunConfig:
    """The configuration that a command line asks for: its own, or that of the run to resume."""
    if launch.resume is None:
        return launch.config
    config, wrote = read_run(pathlib.Path(launch.resume))
    if wrote != algorithm:
        raise UserError(
            f"{launch.resume} is a run of {wrote}; go on with python -m train.{wrote} --resume {launch.resume}"
        )
    return config


def run_folder(launch: Launch, config: RunConfig, algorithm: str) -> pathlib.Path:
    """The folder of a run: made, with the resolved configuration in it, unless the run is resumed.

    Raises:
        UserError: it cannot be written, or holds something.
    """
    if launch.resume is not None:
        return pathlib.Path(launch.resume)
    name = config.env.get("scenario", config.env["name"]).rpartition(":")[2]
    folder = pathlib.Path(launch.run_dir or f"runs/{algorithm}_{name}")
    if jax.process_index() > 0:
        return folder
    try:
        folder = _made(folder, dated=not launch.run_dir)
        if any(folder.iterdir()):
            raise UserError(f"the run folder {folder} is not empty; choose another --run_dir, or --resume {folder}")
        _write(folder / CONFIG, yaml.safe_dump({"algorithm": algorithm, **_plain(config)}, sort_keys=False))
    except OSError as error:
        raise UserError(f"cannot write the run folder {folder}: {error.strerror}; choose another --run_dir") from None
    return folder


def _made(folder: pathlib.Path, *, dated: bool) -> pathlib.Path:
    """The folder, made; if `dated`, a new one with the time in its name, another for each run of the same second."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not dated:
        folder.mkdir(exist_ok=True)
        return folder
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    own = folder.with_name(f"{folder.name}_{now}")
    for count in itertools.count(2):
        with contextlib.suppress(FileExistsError):
            own.mkdir()
            break
        own = folder.with_name(f"{folder.name}_{now}_{count}")
    return own


def read_run(folder: pathlib.Path) -> tuple[RunConfig, str]:
    """The resolved configuration that a run wrote at its start, and the algorithm.

    Raises:
        UserError: the folder holds no run, or its configuration was damaged.
    """
    try:
        content = yaml.safe_load((folder / CONFIG).read_text())
        algorithm = content.pop("algorithm")
        config_class = CONFIGS[algorithm]
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError):
        raise UserError(f"{folder} is no run folder: it has no readable {CONFIG}; give the folder of a run") from None
    try:
        return checked(config_class, content), algorithm
    except UserError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from None


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
        report(learner, state, session, folder)


class _Session:
    """One stretch of training: from a state to the end, or to an interruption."""

    def __init__(self, learner: Learner, folder: pathlib.Path, checkpoints: Checkpoints, update: int):
        config = learner.config
        self.learner, self.folder, self.checkpoints, self.update = learner, folder, checkpoints, update
        self.is_main = jax.process_index() == 0
        self.evaluator = Evaluator(learner.env, config.eval_episodes, config.eval_seed)
        self.evaluate = evaluation(learner, self.evaluator)
        self.writer = _writer(folder, update) if self.is_main else None
        step = config.steps_per_update
        self.progress = Progress(config.num_updates * step, update * step, enabled=self.is_main)

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


def evaluation(
    learner: Learner, evaluator: Evaluator, *, deterministic: bool = True, temperature: float = 1.0, best_of: int = 1
) -> Callable[[Any], Figures]:
    """A jitted function from `actor_params` to figures; over all seeds if there are several."""

    def play(params: Any) -> dict[str, jax.Array]:
        return evaluator.play(learner.actor(params, deterministic=deterministic, temperature=temperature), best_of)

    return jax.jit(jax.vmap(play) if learner.config.num_seeds > 1 else play)


def summarize(metrics: dict[str, np.ndarray], num_seeds: int, *, settled: bool = True) -> Record:
    """One record from the metrics of a chunk: means over updates, and over the episodes that ended in it.

    Numbers, or lists of one number per seed. Means over episodes are None where none ended, or unless `settled`. Names
    that begin with `learn/` are means over the updates of which `learn/updates` says that they learned.
    """
    axis = 1 if num_seeds > 1 else 0
    sums = {name: np.asarray(value, np.float64).sum(axis=axis) for name, value in metrics.items()}
    updates = next(iter(metrics.values())).shape[axis]
    episodes = sums.pop("episode/episodes")
    learning = sums.pop("learn/updates", np.full_like(episodes, updates))
    known = settled and bool(np.all(episodes > 0))
    record: Record = {"episode/count": episodes.tolist()}
    for name, total in sums.items():
        group, _, short = name.partition("/")
        if group == "episode":
            _spread(record, EPISODE_NAMES.get(short, f"env/{short}"), _per(total, episodes), axis, known=known)
        elif group == "learn":
            _spread(record, short, _per(total, learning), axis, known=bool(np.all(learning > 0)))
        else:
            _spread(record, name, total / updates, axis)
    return record


def _per(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return total / np.maximum(count.reshape(count.shape + (1,) * (total.ndim - count.ndim)), 1)


def _spread(record: Record, name: str, value: np.ndarray, seed_axes: int, *, known: bool = True) -> None:
    """Store a value; one with an agent axis under a name for each agent (`drone/ratio` -> `drone_0/ratio`)."""
    if value.ndim == seed_axes:
        record[name] = value.tolist() if known else None
        return
    group, _, metric = name.rpartition("/")
    for agent in range(value.shape[-1]):
        own = f"{group}/{metric}_{agent}" if group == "env" else f"{group}_{agent}/{metric}"
        record[own] = value[..., agent].tolist() if known else None


def report(learner: Learner, state: Any, session: _Session, folder: pathlib.Path) -> None:
    """The end of a run: summary, learning curve, pictures of one episode, and the table."""
    params, evaluator = learner.actor_params(state), session.evaluator
    baselines = evaluator.baselines()
    figures = {"policy": to_host(session.evaluate(params)), **baselines}
    _write(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    learning_curve(list(read_records(folder / METRICS)), baselines, folder / "learning_curve.png")
    pictures = ["episode.gif", "episode.png"] if learner.env.renderer else []
    render(learner, params, evaluator, [folder / name for name in pictures])
    print(f"\n{evaluator.num_episodes} fixed instances, whole episodes, deterministic policy\n")
    print(figures_table(figures))
    print(f"\nrun folder: {folder} ({', '.join(['learning_curve.png', *pictures, 'summary.json', METRICS])})")


def render(
    learner: Learner,
    params: Any,
    evaluator: Evaluator,
    paths: list[pathlib.Path],
    *,
    deterministic: bool = True,
    temperature: float = 1.0,
) -> None:
    """Draw the episode on the first fixed instance into each path; of the first seed, if there are several."""
    draw = evaluator.env.renderer
    if draw is None:
        return
    states = recorded(learner, params, evaluator, deterministic=deterministic, temperature=temperature)
    for path in paths:
        draw(states, path)


def recorded(
    learner: Learner, params: Any, evaluator: Evaluator, *, deterministic: bool = True, temperature: float = 1.0
) -> Any:
    """States `[T + 1, ...]` of that episode, on the host."""
    params = first_seed(learner, params)
    how: dict[str, Any] = {"deterministic": deterministic, "temperature": temperature}
    return jax.device_get(jax.jit(lambda p: evaluator.record(learner.actor(p, **how))[0])(params))


def _plain(config: RunConfig) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(config).items()
    }


def _write(path: pathlib.Path, text: str) -> None:
    scratch = path.with_name("." + path.name)
    scratch.write_text(text)
    os.replace(scratch, path)

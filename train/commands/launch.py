"""The command line of an algorithm: from what is typed to a run in its folder."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from jaxvrp import Environment
from jaxvrp.io.command_line import UserError, program_name
from jaxvrp.io.messages import out_of_memory, shown
from jaxvrp.policies.networks import NETWORKS
from train.algorithms import CONFIG_CLASSES, make_train
from train.learning.learner import Learner
from train.learning.sharding import initialize
from train.run import loop
from train.run.checkpoint import Checkpoints
from train.run.compiler import Kept
from train.run.folder import CHECKPOINTS, CONFIG, RunFolder, read_run, same_shapes, write_configuration
from train.run.lock import LOCK, locked
from train.run.loop import Begin, Stage
from train.run.resume import RecordedRun, check_same, resumed
from train.settings import command_line
from train.settings.command_line import NAMES, Launch
from train.settings.config import RunConfig
from train.settings.stages import joined, stage_folder, stages_of
from train.shown.loggers import check_loggers, open_loggers
from train.shown.report import Report

SHOWN = loop.Shown(open_loggers, Report)


def main(algorithm: str, argv: Sequence[str] | None = None, *, kept: Kept | None = None) -> None:
    """The command line of an algorithm; `python -m train.<algorithm> --help` lists every key.

    Compiled programs are `kept` for the next call.
    """
    description = f"Train with {algorithm.upper()}, end to end on the device, and see what was learned."
    launch = command_line.parse(
        CONFIG_CLASSES[algorithm],
        sys.argv[1:] if argv is None else argv,
        prog=f"train.{algorithm}",
        description=description,
        algorithms=CONFIG_CLASSES,
    )
    if launch.coordinator:
        try:
            initialize(launch.coordinator, launch.num_processes, launch.process_id)
        except ValueError as error:
            raise UserError(str(error)) from None
    run = run_to_train(launch, algorithm)
    check_loggers(run.config.logger)
    resumed_folder = pathlib.Path(launch.resume) if launch.resume else None
    is_in_last = resumed_folder is not None and latest_update(resumed_folder) is not None
    configs = [] if is_in_last else stages_of(run.config)
    earlier = [joined(configs[:number]) for number in range(1, len(configs))]
    learners = [*map(checked_learner, earlier), checked_learner(run.config, launch.env)]
    for number, (before, learner) in enumerate(itertools.pairwise(learners), 2):
        check_continues(before, learner, f"stage {number} begins with stage {number - 1}")
    # A resumed run begins anew where its first stage has no checkpoint yet.
    first_stage = stage_folder(resumed_folder, 1) if resumed_folder else None
    has_begun = is_in_last or (first_stage is not None and latest_update(first_stage) is not None)
    start = None if has_begun else getattr(run.config, "start_from", None)
    begin = beginning(learners[0], start, trust=launch.trust) if start else None
    folder = resumed_folder or make_run_folder(launch, run)
    is_main = jax.process_index() == 0
    with locked(folder) if is_main else contextlib.nullcontext(), out_of_memory_as_mistake(folder):
        if is_main and launch.resume is None:
            begin_run(folder, run)
        elif is_main and run != run_to_train(launch, algorithm):
            raise UserError(f"another process has just changed the run in {folder}; try again")
        train_stages(learners, folder, run, begin=begin, kept=kept)


def checked_learner(config: RunConfig, made: Environment | None = None) -> Learner:
    """The learner of a configuration, if it can be trained; see `make_train`."""
    try:
        learner = make_train(config, made)
        learner.config.check_training()
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    return learner


@contextlib.contextmanager
def out_of_memory_as_mistake(folder: pathlib.Path) -> Iterator[None]:
    """What a device raises when it has no room left becomes a `UserError`; `folder` is that of the run."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if (problem := out_of_memory(error)) is None:
            raise
        raise UserError(f"{problem}, and start anew; {folder} keeps what was saved") from None


@contextlib.contextmanager
def unwritable_as_mistake(folder: pathlib.Path) -> Iterator[None]:
    """A run folder that cannot be written becomes a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write the run folder {folder}: {error.strerror}; choose another --run_dir") from None


def train_stages(
    learners: Sequence[Learner],
    folder: pathlib.Path,
    run: RecordedRun,
    *,
    begin: Begin | None,
    kept: Kept | None,
) -> None:
    """Train a run, or go on with it, stage by stage: the last in its folder, those before in folders within.

    `learners` are of the stages that are to be trained: of the last one alone, if it has a checkpoint.
    """
    total = max(1, len(getattr(run.config, "stages", ())))
    for number, learner in enumerate(learners[:-1], 1):
        place = stage_folder(folder, number)
        if (latest_update(place) or 0) < learner.config.num_updates:
            recorded = RecordedRun(learner.config, run.algorithm)
            train_earlier(learner, recorded, place, begin, Stage(number, total, folder), kept)
        begin = beginning(learners[number], place, trust=False)
    resume = latest_update(folder) is not None
    loop.run(
        learners[-1], folder, run, resume=resume, begin=begin, stage=Stage(total, total, folder), kept=kept, shown=SHOWN
    )


def train_earlier(
    learner: Learner, run: RecordedRun, folder: pathlib.Path, begin: Begin | None, stage: Stage, kept: Kept | None
) -> None:
    """Train a stage that is not the last, or go on with it."""
    update, is_main = latest_update(folder), jax.process_index() == 0
    if update is not None:
        check_same(run, Checkpoints(folder / CHECKPOINTS, read_only=True).configuration(update), folder / CONFIG)
    elif is_main:
        with unwritable_as_mistake(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_configuration(folder, run)
    with locked(folder) if is_main else contextlib.nullcontext():
        loop.run(learner, folder, run, resume=update is not None, begin=begin, stage=stage, kept=kept, shown=SHOWN)


def latest_update(folder: pathlib.Path) -> int | None:
    """Of the newest checkpoint in the folder of a run; None if there is none."""
    return Checkpoints(folder / CHECKPOINTS, read_only=True).latest


def run_to_train(launch: Launch, algorithm: str) -> RecordedRun:
    """What a command line asks for: a new run, or one that goes on, with what it changes; writes nothing."""
    if launch.resume is None:
        return RecordedRun(launch.config, algorithm)
    folder = pathlib.Path(launch.resume)
    run = read_run(folder, trust=launch.trust)
    if run.algorithm != algorithm:
        program = program_name(f"train.{run.algorithm}")
        raise UserError(f"{launch.resume} is a run of {run.algorithm}; go on with {program} --resume {launch.resume}")
    saved = Checkpoints(folder / CHECKPOINTS, read_only=True)
    if saved.latest is None and getattr(run.config, "stages", None):
        if launch.changes:
            raise UserError(f"{folder} is not yet in its last stage; leave out --{next(iter(launch.changes))}")
        return run
    update = saved.find("latest")
    check_same(run, saved.configuration(update), folder / CONFIG)
    return resumed(run, launch.changes, update)


def beginning(learner: Any, path: str | os.PathLike, *, trust: bool) -> Begin:
    """What puts the policy of the run at a path into a fresh state.

    Dotted paths of that run are imported where they are those of the learner's environment, or with `trust`.
    """
    named = [learner.config.env.get(name) for name in NAMES]
    start = RunFolder(path, trust=trust, named=named).load("latest")
    check_continues(start.learner, learner, f"start_from {path}")

    def begin(state: Any) -> Any:
        # They were read on one device.
        fresh = learner.actor_params(state)
        placed = jax.tree.map(lambda leaf, new: jax.device_put(leaf, new.sharding), start.params, fresh)
        return learner.with_actor(state, placed)

    return begin


def check_continues(before: Any, learner: Any, name: str) -> None:
    """Check that the actors of a learner can go on from those of the learner before; messages begin with `name`."""
    seeds = before.config.num_seeds
    if learner.config.num_seeds != seeds:
        raise UserError(f"{name}: it has num_seeds {seeds}, and each seed goes on from its own; set it so")
    key = jax.random.key(0)
    if not same_shapes(*(each.actor_params(jax.eval_shape(each.init, key)) for each in (before, learner))):
        raise UserError(f"{name}: its networks are not those of this run; take the same network and sizes")
    for option in NETWORKS[learner.config.network].shapeless:
        before_value, value = (shown(getattr(config, option)) for config in (before.config, learner.config))
        if before_value != value:
            raise UserError(f"{name}: its {option} is {before_value}, and that of this run {value}; set it so")


def make_run_folder(launch: Launch, run: RecordedRun) -> pathlib.Path:
    """Make the folder of a new run, if it is not there; only the first process does."""
    name = run.config.env.get("scenario", run.config.env["name"]).rpartition(":")[2]
    folder = pathlib.Path(launch.run_dir or f"runs/{run.algorithm}_{name}")
    if jax.process_index() > 0:
        return folder
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    # Another run of the same second may have the name already.
    suffixes = itertools.chain([f"_{now}"], (f"_{now}_{count}" for count in itertools.count(2)))
    with unwritable_as_mistake(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if launch.run_dir:
            folder.mkdir(exist_ok=True)
            return folder
        while True:
            with contextlib.suppress(FileExistsError):
                dated = folder.with_name(folder.name + next(suffixes))
                dated.mkdir()
                return dated


def begin_run(folder: pathlib.Path, run: RecordedRun) -> None:
    """Write the resolved configuration of a new run into its folder, which this process has locked."""
    with unwritable_as_mistake(folder):
        if any(path.name != LOCK for path in folder.iterdir()):
            raise UserError(f"the run folder {folder} is not empty; choose another --run_dir, or --resume {folder}")
        write_configuration(folder, run)

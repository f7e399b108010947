"""The command line of an algorithm: from what is typed to a run in its folder."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import pathlib
import sys
from collections.abc import Sequence

import jax

from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS
from train.config import RunConfig
from train.running import command_line, loop
from train.running.command_line import Launch
from train.running.memory import check_memory, out_of_memory_told
from train.running.run_folder import read_run, write_configuration
from train.sharding import initialize


def main(algorithm: str, argv: Sequence[str] | None = None) -> None:
    """The command line of an algorithm; `python -m train.<algorithm> --help` lists every key.

    Raises:
        UserError: a mistake of the user's, as one line.
        Interrupted: Ctrl-C; the message says what is saved.
    """
    description = f"Train with {algorithm.upper()}, end to end on the device, and see what was learned."
    launch = command_line.parse(
        ALGORITHMS[algorithm].config_class,
        sys.argv[1:] if argv is None else argv,
        prog=f"train.{algorithm}",
        description=description,
    )
    if launch.coordinator:
        initialize(launch.coordinator, launch.num_processes, launch.process_id)
    config = configuration_to_run(launch, algorithm)
    make_train = ALGORITHMS[algorithm].make_train
    try:
        learner = make_train(config)
        check_memory(learner, make_train)
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    folder = pathlib.Path(launch.resume) if launch.resume else make_run_folder(launch, config, algorithm)
    with out_of_memory_told(folder):
        loop.run(learner, folder, resume=launch.resume is not None)


def configuration_to_run(launch: Launch, algorithm: str) -> RunConfig:
    """The configuration that a command line asks for: its own, or that of the run to resume.

    Raises:
        UserError: there is no such run, or it is one of another algorithm.
    """
    if launch.resume is None:
        return launch.config
    config, written_by = read_run(pathlib.Path(launch.resume))
    if written_by != algorithm:
        raise UserError(
            f"{launch.resume} is a run of {written_by}; go on with python -m train.{written_by} --resume "
            f"{launch.resume}"
        )
    return config


def make_run_folder(launch: Launch, config: RunConfig, algorithm: str) -> pathlib.Path:
    """Make the folder of a new run, with the resolved configuration in it; only the first process writes.

    Raises:
        UserError: it cannot be written, or holds something.
    """
    name = config.env.get("scenario", config.env["name"]).rpartition(":")[2]
    folder = pathlib.Path(launch.run_dir or f"runs/{algorithm}_{name}")
    if jax.process_index() > 0:
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if launch.run_dir:
            folder.mkdir(exist_ok=True)
        else:
            folder = _make_dated_folder(folder)
        if any(folder.iterdir()):
            raise UserError(f"the run folder {folder} is not empty; choose another --run_dir, or --resume {folder}")
        write_configuration(folder, config, algorithm)
    except OSError as error:
        raise UserError(f"cannot write the run folder {folder}: {error.strerror}; choose another --run_dir") from None
    return folder


def _make_dated_folder(folder: pathlib.Path) -> pathlib.Path:
    """Make a folder with the time in its name, numbered if another run of the same second has it."""
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    numbers = (f"_{count}" for count in itertools.count(2))
    for suffix in itertools.chain([""], numbers):
        dated = folder.with_name(f"{folder.name}_{now}{suffix}")
        with contextlib.suppress(FileExistsError):
            dated.mkdir()
            return dated
    raise AssertionError("unreachable: the numbers do not end")

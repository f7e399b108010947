"""The folder of a run: made at its start, read again to resume, evaluate or replay it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import yaml

from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import write_text
from train.algorithms import ALGORITHMS
from train.config import RunConfig
from train.running.checkpoint import Checkpoints
from train.running.command_line import Launch, checked

CONFIG = "config.yaml"


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
        write_text(folder / CONFIG, yaml.safe_dump({"algorithm": algorithm, **_plain(config)}, sort_keys=False))
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
        config_class = ALGORITHMS[algorithm].config_class
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError):
        raise UserError(f"{folder} is no run folder: it has no readable {CONFIG}; give the folder of a run") from None
    try:
        return checked(config_class, content), algorithm
    except UserError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from None


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained run.

    Attributes:
        learner: as `train.running.loop.Learner`, on one device, with the environment to play.
        params: of its actors.
        update: of the checkpoint.
    """

    learner: Any
    params: Any
    update: int


class RunFolder:
    """A run on disk, to be played on one device, with some parameters of its environment changed if wanted.

    Attributes:
        player: the learner of the environment to play.
    """

    def __init__(self, folder: pathlib.Path, env: dict[str, Any] | None = None):
        """Read the configuration; `env` holds the changes, such as another size.

        Raises:
            UserError: no run there, or no such parameter.
        """
        config, algorithm = read_run(folder)
        # One device is enough, and may be all there is; the checkpoint does not depend on how many wrote it.
        config = dataclasses.replace(config, num_devices=1)
        changed = checked(type(config), {**vars(config), "env": {**config.env, **(env or {})}})
        make_train = ALGORITHMS[algorithm].make_train
        try:
            self.player = make_train(changed)
            self._writer = make_train(config) if env else self.player
        except (ValueError, TypeError) as error:
            raise UserError(str(error)) from None
        self.folder = folder

    def load(self, checkpoint: str) -> Trained:
        """The actors of the `latest` or `best` checkpoint.

        Raises:
            UserError: no such checkpoint, or networks that are tied to the old size.
        """
        with Checkpoints(self.folder / "checkpoints", read_only=True) as saved:
            update = getattr(saved, checkpoint)
            like = self._writer.init(jax.random.key(self._writer.config.seed))
            params = self._writer.actor_params(saved.load(like, update))
        wanted = self.player.actor_params(jax.eval_shape(self.player.init, jax.random.key(0)))
        if jax.tree.map(jnp.shape, params) != jax.tree.map(jnp.shape, wanted):
            network = getattr(self.player.config, "network", "")
            kind, other = (f"({network}) ", ", or train with --network attention") if network else ("", "")
            raise UserError(
                f"the networks of {self.folder} {kind}are tied to the sizes that they were trained with; "
                f"leave out what changes these{other}"
            )
        return Trained(self.player, params, update)


def _plain(config: RunConfig) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(config).items()
    }

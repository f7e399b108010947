"""The folder of a run, written at its start and read again: its configuration, and its policy, to be played."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import write_text
from train.algorithms import ALGORITHMS
from train.config import RunConfig
from train.networks import NETWORKS
from train.running.checkpoint import Checkpoints
from train.running.command_line import build_config, check_names, known_keys
from train.running.config_file import flat, read_yaml
from train.running.learner import Learner
from train.running.plain_yaml import dump_yaml

CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"


def write_configuration(folder: pathlib.Path, config: RunConfig, algorithm: str) -> None:
    """Write the resolved configuration of a run into its folder, as `read_run` reads it.

    Raises:
        OSError: it cannot be written.
    """
    values = {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(config).items()
    }
    write_text(folder / CONFIG, dump_yaml({"algorithm": algorithm, **values}))


def read_run(folder: pathlib.Path) -> tuple[RunConfig, str]:
    """The resolved configuration that a run wrote at its start, and the algorithm.

    Raises:
        UserError: the folder holds no run, or its configuration was damaged or is of another version.
    """
    path = folder / CONFIG
    try:
        values = read_yaml(path)
        algorithm = values.pop("algorithm")
        config_class = ALGORITHMS[algorithm].config_class
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise UserError(f"{folder} is no run folder: it has no readable {CONFIG}; give the folder of a run") from None
    try:
        flat_values = flat(values)
        check_names(flat_values, known_keys(config_class, flat_values), "")
    except UserError as error:
        raise UserError(f"{path}: {error}; if another version wrote it, rename or delete the key there") from None
    try:
        return build_config(config_class, values), algorithm
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained run.

    Attributes:
        learner: on one device, with the environment to play.
        params: of its actors.
        update: of the checkpoint.
    """

    learner: Learner
    params: Any
    update: int


class RunFolder:
    """A run on disk, to be played on one device, with some parameters of its environment changed if wanted.

    Attributes:
        folder: where it lies.
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
        changed = build_config(type(config), {**vars(config), "env": {**config.env, **(env or {})}})
        make_train = ALGORITHMS[algorithm].make_train
        try:
            self.player = make_train(changed)
            self._writer = make_train(config) if env else self.player
        except (ValueError, TypeError) as error:
            raise UserError(str(error)) from None
        self.folder = folder

    @property
    def sources(self) -> list[pathlib.Path]:
        """What is read of it: its configuration, and the folder of its checkpoints."""
        return [self.folder / CONFIG, self.folder / CHECKPOINTS]

    def load(self, checkpoint: str) -> Trained:
        """The actors of the `latest` or `best` checkpoint.

        Raises:
            UserError: no such checkpoint, or networks that are tied to the old size.
        """
        with Checkpoints(self.folder / CHECKPOINTS, read_only=True) as saved:
            update = getattr(saved, checkpoint)
            like = self._writer.init(jax.random.key(self._writer.config.seed))
            params = self._writer.actor_params(saved.load(like, update))
        wanted = self.player.actor_params(jax.eval_shape(self.player.init, jax.random.key(0)))
        if jax.tree.map(jnp.shape, params) != jax.tree.map(jnp.shape, wanted):
            raise UserError(f"the networks of {self.folder} {self._tied()}")
        return Trained(self.player, params, update)

    def _tied(self) -> str:
        """Why they cannot play another size, and what can."""
        network = getattr(self.player.config, "network", None)
        kind = f"({network}) " if network else ""
        any_size = " or ".join(name for name, entry in NETWORKS.items() if entry.reads_entities)
        other = f", or train with --network {any_size}" if network else ""
        return f"{kind}are tied to the sizes that they were trained with; leave out what changes these{other}"

"""The folder of a run, written at its start and read again: its configuration, and its policy, to be played.

A folder that holds a policy alone is read likewise, and found by name where it is one that is shipped.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import write_text
from jaxvrp.io.yaml_text import dump_yaml
from jaxvrp.policies.environment import changed_parameters, evaluation_parameters
from jaxvrp.policies.folder import (
    ARRAYS,
    CARD,
    CONFIG,
    find_run,
    read_card,
    read_policy,
    read_values,
    refuse_dotted_paths,
)
from jaxvrp.policies.networks import NETWORKS
from train.algorithms import ALGORITHMS, make_train
from train.learning.learner import Learner
from train.run.checkpoint import CONTENTS, Checkpoints
from train.run.evaluator import first_seed
from train.run.resume import RecordedRun, changes_of, check_same
from train.settings.command_line import Known, build_config, check_names
from train.settings.config_file import flat

CHECKPOINTS = "checkpoints"


def write_configuration(folder: pathlib.Path, run: RecordedRun) -> None:
    """Write the resolved configuration of a run into its folder, whole, as `read_run` reads it."""
    changes = {"changes": [dataclasses.asdict(change) for change in run.changes]} if run.changes else {}
    write_text(folder / CONFIG, dump_yaml({**run.values, **changes}))


def read_run(folder: pathlib.Path, *, trust: bool = False, named: Collection[Any] = ()) -> RecordedRun:
    """The resolved configuration that a run wrote at its start, its algorithm, and what resumes have changed.

    A folder may come from a stranger. So a dotted path in it, which would be imported and run, is refused before that,
    unless the folder is to be trusted, or the user `named` the same path.

    Raises:
        UserError: the folder holds no run, or its configuration was damaged, is of another version, or names a dotted
            path.
    """
    path = folder / CONFIG
    values, algorithm = read_values(folder, ALGORITHMS)
    changes, config_class = values.pop("changes", []), ALGORITHMS[algorithm].config_class
    try:
        flat_values = flat(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    env = {name.removeprefix("env."): value for name, value in flat_values.items()}
    refuse_dotted_paths(env, path, "--trust", trust=trust, named=named)
    try:
        check_names(flat_values, Known.of(config_class, flat_values).keys, "")
    except UserError as error:
        raise UserError(f"{path}: {error}; if another version wrote it, rename or delete the key there") from None
    try:
        return RecordedRun(build_config(config_class, values)[0], algorithm, changes_of(changes, values))
    except (UserError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def contents_file(run: str | os.PathLike) -> pathlib.Path:
    """The file that has the checksums of the arrays of a policy, or of the latest checkpoint of a run.

    Another policy has another content there, and so has a run that went on.

    Raises:
        UserError: no run there, or none with a complete checkpoint.
    """
    folder = find_run(run)
    read_values(folder, ALGORITHMS)  # refuses what is no run
    if (folder / CARD).is_file():
        return folder / CARD
    saved = Checkpoints(folder / CHECKPOINTS, read_only=True)
    return saved.folder / str(saved.find("latest")) / CONTENTS


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained run, on one device, with the environment to play; `critic` is None if a policy is all that was kept."""

    learner: Learner
    params: Any
    update: int
    critic: Any = None


def same_shapes(a: Any, b: Any) -> bool:
    """Whether two trees of arrays, or of their shapes, have the same structure and shapes."""
    return jax.tree.map(jnp.shape, a) == jax.tree.map(jnp.shape, b)


def _actor_shapes(learner: Learner) -> Any:
    return jax.eval_shape(learner.init_actors, jax.random.key(0))


class RunFolder:
    """A run on disk, to be played on one device, with some parameters of its environment changed if wanted.

    `writer` is the learner of the environment that it was trained in, `player` that of the environment to play.
    """

    def __init__(
        self,
        run: str | os.PathLike,
        env: dict[str, Any] | None = None,
        *,
        trust: bool = False,
        named: Collection[Any] = (),
    ):
        """Read the configuration of a run, a policy, or a policy that is shipped, by its name.

        `env` holds changes of its environment, such as another size; they go before what evaluation changes. Dotted
        paths that they name, or that are `named`, are imported; see `read_run`.

        Raises:
            UserError: no run there, no such parameter, or a dotted path without `trust`; see `read_run`.
        """
        changes = env or {}
        self.folder = find_run(run)
        self.is_policy = (self.folder / CARD).is_file()
        self.recorded = read_run(self.folder, trust=trust, named=[*named, *changes.values()])
        config = dataclasses.replace(self.recorded.config, **self.recorded.config.reading)
        try:
            differs = bool(changes or config.randomize)
            self.writer = self.player = make_train(config, check=not differs)
            if differs:
                parameters = changed_parameters(self.writer.env, config.env, changes)
                evaluation = evaluation_parameters(self.writer.env, config.eval_env)
                evaluation |= {name: changes[name] for name in evaluation if name in changes}
                values = {**vars(config), "env": parameters, "eval_env": evaluation, **config.playing}
                self.player = make_train(*build_config(type(config), values))
        except (ValueError, TypeError) as error:
            raise UserError(str(error)) from None

    @property
    def sources(self) -> list[pathlib.Path]:
        """What is read of it: its configuration, and the folder of its checkpoints, or what a policy has."""
        names = (CONFIG, CARD, ARRAYS) if self.is_policy else (CONFIG, CHECKPOINTS)
        return [self.folder / name for name in names]

    def load(self, checkpoint: str) -> Trained:
        """The actors of the `latest` or `best` checkpoint."""
        critic = None
        if self.is_policy:
            params, update = self._read_policy(checkpoint)
        else:
            params, critic, update = self._read_checkpoint(checkpoint)
        if not same_shapes(first_seed(self.player, params), _actor_shapes(self.player)):
            network = getattr(self.player.config, "network", None)
            kind = f"({network}) " if network else ""
            any_size = " or ".join(name for name, entry in NETWORKS.items() if entry.reads_entities)
            other = f", or train with --network {any_size}" if network else ""
            raise UserError(
                f"the networks of {self.folder} {kind}are tied to the sizes that they were trained with; leave out "
                f"what changes these{other}"
            )
        # A critic that values each agent of a team is tied to their number, even where actors are not.
        if critic is not None:
            wanted = self.player.critic_params(jax.eval_shape(self.player.init, jax.random.key(0)))
            critic = critic if same_shapes(critic, wanted) else None
        return Trained(self.player, params, update, critic)

    def _read_policy(self, checkpoint: str) -> tuple[Any, int]:
        if checkpoint != "latest":
            raise UserError(f"{self.folder} holds a policy, and no checkpoints; leave --checkpoint {checkpoint} out")
        update = int(read_card(self.folder).training["update"])
        return read_policy(self.folder, _actor_shapes(self.writer)), update

    def _read_checkpoint(self, checkpoint: str) -> tuple[Any, Any, int]:
        saved = Checkpoints(self.folder / CHECKPOINTS, read_only=True)
        if saved.latest is None and getattr(self.recorded.config, "stages", None):
            raise UserError(f"{self.folder} is not yet in its last stage; go on with --resume {self.folder}")
        update = saved.find(checkpoint)
        check_same(self.recorded, saved.configuration(update), self.folder / CONFIG)
        # Its shapes alone, on one device: no episode has to begin for them.
        device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        like = jax.eval_shape(self.writer.init, jax.random.key(0))
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device), like)
        state = saved.load(like, update)
        return self.writer.actor_params(state), self.writer.critic_params(state), update

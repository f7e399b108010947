"""Runs on Weights & Biases, or offline in the run folder. The only file that imports wandb, which is an extra."""

from __future__ import annotations

import os
import pathlib
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import write_text

FOLDER, RUN_ID = "wandb", "run_id"
"""Where wandb keeps its files in a run folder, and what the file there is called that says which run this is."""

REMEDY = "run `wandb login`, set WANDB_MODE=offline, or leave wandb out of logger"


def check() -> None:
    """Find out whether a run can be begun: wandb is installed, and a user is logged in, or can be asked to."""
    wandb = _library()
    is_online = wandb.setup().settings.mode in ("online", "shared")
    if is_online and not sys.stdin.isatty() and not wandb.login(prompt=False):
        raise UserError(f"logger names wandb, but no user is logged in there; {REMEDY}")


class Run:
    """A run on Weights & Biases, by the name of its folder; a resumed one goes on under its number.

    What wandb's own variables say (`WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_NAME`, `WANDB_MODE`, ...) holds.
    """

    def __init__(self, folder: pathlib.Path, configuration: Mapping[str, Any]):
        """Begin the run, or go on with it.

        Args:
            folder: of the run.
            configuration: algorithm and keys; nested.

        Raises:
            OSError: the folder cannot be written.
            UserError: wandb refuses it; one line.
        """
        self._wandb = _library()
        (folder / FOLDER).mkdir(exist_ok=True)
        number = folder / FOLDER / RUN_ID
        if not number.exists():
            write_text(number, f"{secrets.token_hex(4)}\n")
        try:
            self._run = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", "jaxvrp"),
                name=os.environ.get("WANDB_NAME", folder.resolve().name),
                id=number.read_text(encoding="utf-8").strip(),
                resume="allow",
                dir=folder,
                config=dict(configuration),
                settings=self._wandb.Settings(console="off"),  # it would keep every state of the progress bar
            )
        except self._wandb.Error as error:
            raise UserError(f"wandb cannot begin a run: {error}; {REMEDY}") from None

    def add(self, figures: Mapping[str, float], env_steps: int) -> None:
        """Show figures; wandb's own step, the x-axis of its charts, is the environment step.

        After a kill, steps beyond the checkpoint come a second time, with the same figures; wandb leaves them out.
        """
        self._run.log(dict(figures), step=env_steps)

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None:
        """Show pictures, those that move as such."""
        shown = {
            path.name: self._wandb.Video(str(path), format="gif")
            if path.suffix == ".gif"
            else self._wandb.Image(str(path))
            for path in paths
        }
        self._run.log(shown, step=env_steps)

    def flush(self) -> None:
        """Nothing: a process of wandb's own writes what it is given."""

    def close(self, *, ended_well: bool) -> None:
        """End the run; online, wait until everything is sent."""
        self._run.finish(exit_code=0 if ended_well else 1)


def _library() -> Any:
    """wandb."""
    try:
        import wandb

        wandb.init  # noqa: B018 (without wandb, a folder of that name is what is imported)
    except (ImportError, AttributeError):
        raise UserError(
            "logger names wandb, which is not installed; pip install 'jaxvrp[wandb]', or leave it out"
        ) from None
    return wandb

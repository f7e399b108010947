"""The parts of an environment beside its rules: baselines, pictures, replay, and headline metrics.

The registry maps environments to toolboxes, so that environments import no drawing code, and learners, logs, plots and
benchmarks name no environment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxvrp.card import Card
from jaxvrp.episodes import Episode
from jaxvrp.players import Players, Searched
from jaxvrp.problems import Problems

if TYPE_CHECKING:
    from jaxvrp.show.drawing.stills import Still
    from jaxvrp.story import Story

__all__ = ["Searched", "Toolbox", "View"]


@dataclasses.dataclass(frozen=True)
class View:
    """How an environment shows its episodes where a story does not fit, see `jaxvrp.show`; None where it does not.

    `problem` is what `Problems.read` gave, for its names and units, or None.

    Attributes:
        export: `(episode, problem) -> exported`, a JSON object whose `kind` is the name that the environment is
            registered under.
        check: raises a ValueError, one line, unless an exported episode has what `script` reads.
        script: a JavaScript file that defines `VIEWS[kind]`; see `jaxvrp/show/page/tools.js`. A style sheet of the
            same name that ends in `.css` may lie beside it.
        draw: `(episode, path, problem)`: draws it to `.gif`, `.png`, `.svg` or `.pdf`.
        record_steps: `(episode, folder)`: records every step in an empty folder.
    """

    export: Callable[[Episode, Any], dict[str, Any]]
    check: Callable[[dict[str, Any]], None]
    script: Path
    draw: Callable[[Episode, str | os.PathLike, Any], None] | None = None
    record_steps: Callable[[Episode, str | os.PathLike], None] | None = None


@dataclasses.dataclass(frozen=True)
class Toolbox(Card, Players):
    """All parts of an environment beside its rules; every part is optional.

    Attributes:
        story: `(episode, problem or None) -> Story`, what is drawn of an episode, with the names and units of a problem
            of `problems`.
        view: what shows episodes where a story does not fit.
        problems: how problems are read from files, and plans written.
        still: `state -> Still`, or None if there is nothing to draw: how a state shows itself in a notebook, and in
            `render` of adapters; see `jaxvrp.show.drawing.stills`.
    """

    story: Callable[[Episode, Any], Story] | None = None
    view: View | None = None
    problems: Problems[Any] | None = None
    still: Callable[[Any], Still | None] | None = None

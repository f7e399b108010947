"""The parts of an environment beside its rules: baselines, pictures, replay, and headline metrics.

The registry maps environments to toolboxes, so that environments import no drawing code, and learners, logs, plots and
benchmarks name no environment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.episodes import Episode
from jaxvrp.io import plan_files
from jaxvrp.players import GREEDY, Players, Searched, SearchedAll
from jaxvrp.story import Story

__all__ = [
    "GREEDY",
    "Headline",
    "Inspection",
    "InstanceFiles",
    "Padding",
    "ProblemSet",
    "Searched",
    "SearchedAll",
    "Sheet",
    "Toolbox",
    "View",
]


@dataclasses.dataclass(frozen=True)
class View:
    """How an environment shows its episodes where a story does not fit, see `jaxvrp.show`; None where it does not.

    `problem` is what `InstanceFiles.read` gave, for its names and units, or None.

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


class Inspection(NamedTuple):
    """What a problem means to its reader, in the units of its file: `figures`, and `warnings` of what is absurd.

    Each is a line; a warning names the field and the remedy.
    """

    figures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Sheet(NamedTuple):
    """A table of a plan for people: of one vehicle, say."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class InstanceFiles:
    """How problems of a user's own are read from files, and how plans for them are written.

    Attributes:
        read: `path -> problems`, all in the file; raises a ValueError, one line that names the file and the place.
        assumed: `(path, **given) -> {name: value}`, what `read` assumes of a file that does not say it, or what is
            given instead; `read(path, **given)` takes that.
        parameters: `(problem, env) -> {keyword: value}`, what the problem sets of the environment's parameters; raises
            a ValueError, one line, if it cannot be played in such an environment.
        plan: `(problem, episode) -> plan`, a JSON object: events with vehicle, time, place. At least
            `feasible`, whether it keeps all constraints and leaves nothing out, and `routes`, by vehicle the stops in
            order. What makes it infeasible may stand in `reasons`, a list of lines, and totals for people in `totals`,
            name -> words.
        write_plan: `(problem, path, plan)`, by the ending of the path.
        instance: `(problem, env) -> instance` for `Environment.reset_to` of an environment with these parameters; by
            default the problem itself.
        endings: those that `write_plan` knows.
        environment: the registered name of the environment that problems are solved in unless another is named; None:
            that with the toolbox.
        inspect: `(problem, env) -> Inspection`, where `env` has the parameters of the problem.
        sheets: `(problem, plan) -> sheets` for people; by default one for each vehicle of the plan's table.
        solvers: `(problem, names of methods) -> names` of those that can solve it, the best choice first.
        stack: `problems -> problem`, of any sizes, padded to the largest, with a leading axis: `parameters` and
            `instance` take that, too. None where problems are solved one by one.
        weighed: `(problem, env) -> env` that `train.solve` plans in: what is left undone costs more than any way.
        recompute: `(problem, plan) -> plan`, the decisions of a plan and the numbers that follow from them alone, in
            NumPy, without the rules of the environment; raises a ValueError, one line, if the plan breaks a constraint.
            None where there is no such check.
    """

    read: Callable[..., Sequence[Any]]
    parameters: Callable[[Any, Any], dict[str, Any]]
    plan: Callable[[Any, Episode], dict[str, Any]]
    write_plan: Callable[[Any, str | os.PathLike, dict[str, Any]], None]
    instance: Callable[[Any, Any], Any] = lambda problem, env: problem
    endings: tuple[str, ...] = plan_files.ENDINGS
    environment: str | None = None
    assumed: Callable[..., Mapping[str, Any]] = lambda path: {}
    inspect: Callable[[Any, Any], Inspection] = lambda problem, env: Inspection()
    sheets: Callable[[Any, dict[str, Any]], Sequence[Sheet]] | None = None
    solvers: Callable[[Any, Sequence[str]], Sequence[str]] = lambda problem, names: names
    stack: Callable[[Sequence[Any]], Any] | None = None
    weighed: Callable[[Any, Any], Any] = lambda problem, env: env
    recompute: Callable[[Any, Mapping[str, Any]], dict[str, Any]] | None = None


@dataclasses.dataclass(frozen=True)
class ProblemSet:
    """Generated problems to compare players on, the same for ever: any change makes another version.

    Attributes:
        version: from 1.
        parameters: of the environment whose generator draws them. Only generators whose numbers are the same to the
            last bit on every machine make a set: draws that are scaled, sums of whole numbers.
        seed: of all problems.
        count: of problems.
        checksum: of their arrays; see `benchmarks.records.sets.checksum`.
    """

    version: int
    parameters: Mapping[str, Any]
    seed: int
    count: int
    checksum: str


@dataclasses.dataclass(frozen=True)
class Toolbox(Card, Players):
    """All parts of an environment beside its rules; every part is optional.

    Attributes:
        story: `(episode, problem or None) -> Story`, what is drawn of an episode, with the names and units of a problem
            of `instances`.
        view: what shows episodes where a story does not fit.
        instances: how problems are read from files, and plans written.
        still: `state -> SVG` or None, how a state shows itself in a notebook.
        sets: by name, problems to compare players on; they need `InstanceFiles.recompute`.
    """

    story: Callable[[Episode, Any], Story] | None = None
    view: View | None = None
    instances: InstanceFiles | None = None
    still: Callable[[Any], str | None] | None = None
    sets: Mapping[str, ProblemSet] = dataclasses.field(default_factory=dict)

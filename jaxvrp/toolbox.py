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
    "ReplayKind",
    "Searched",
    "SearchedAll",
    "Sheet",
    "Toolbox",
]

Draw = Callable[[Any, Any, str | os.PathLike], None]
"""`(env, states [T + 1, ...], path)`: draws, or records, the states of one episode."""


@dataclasses.dataclass(frozen=True)
class ReplayKind:
    """How episodes are written and played on a page where a `Story` does not fit; see `jaxvrp.show`.

    Attributes:
        export: `(episode, problem or None) -> exported`: of an episode that was cut at its end, a JSON object, see
            `jaxvrp.show.common.common_entries`; with the names of a problem of `InstanceFiles`.
        check: raises a ValueError, one line, unless an episode has what `script` reads.
        script: a JavaScript file that defines `VIEWS[kind]`; see `jaxvrp/show/page/tools.js`. A style sheet of the
            same name that ends in `.css` may lie beside it.
    """

    export: Callable[[Episode, Any], dict[str, Any]]
    check: Callable[[dict[str, Any]], None]
    script: Path


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
        draw: `(problem, env, states [T + 1, ...], path)`: draws the plan of an episode with the problem's own names;
            None: `Toolbox.renderer` does, without.
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
    draw: Callable[[Any, Any, Any, str | os.PathLike], None] | None = None
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
        renderer: draws an episode to `.gif`, `.png`, `.svg` or `.pdf`.
        step_recorder: records every step of an episode in an empty folder.
        replay: how episodes are written and played.
        story: `(episode, problem or None) -> Story`, what is drawn of an episode, with the names and units of a problem
            of `instances`; where there is one, nothing of `renderer`, `step_recorder` and `replay` is asked for.
        instances: how problems are read from files, and plans written.
        still: `state -> SVG` or None, how a state shows itself in a notebook.
        sets: by name, problems to compare players on; they need `InstanceFiles.recompute`.
    """

    renderer: Draw | None = None
    step_recorder: Draw | None = None
    replay: ReplayKind | None = None
    story: Callable[[Episode, Any], Story] | None = None
    instances: InstanceFiles | None = None
    still: Callable[[Any], str | None] | None = None
    sets: Mapping[str, ProblemSet] = dataclasses.field(default_factory=dict)

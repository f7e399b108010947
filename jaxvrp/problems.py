"""Problems of a user's own: how an environment reads them from files, checks them, and writes plans for them."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from jaxvrp.episodes import Episode
from jaxvrp.io.messages import shown_cost
from jaxvrp.io.problems.plan_files import ENDINGS, Sheet, plan_sheets
from jaxvrp.io.whole_files import write_csv, write_json
from jaxvrp.orders.geojson import ENDING as GEOJSON
from jaxvrp.orders.geojson import write_geojson
from jaxvrp.orders.orders import Case
from jaxvrp.orders.visits import sheets_to_drive_by, write_table
from jaxvrp.orders.vroom_plan import ENDING as VROOM
from jaxvrp.orders.vroom_plan import write_vroom
from jaxvrp.players import Searched

OF_VISITS = {".csv": write_table, GEOJSON: write_geojson}
"""What writes the visits of a plan, by the ending of a file."""

Problem = TypeVar("Problem")
"""The type of a problem, as `read` gives it: with the names and units of its file, say."""


class Inspection(NamedTuple):
    """What a problem means to its reader, in the units of its file: `figures`, and `warnings` of what is absurd.

    Each is a line; a warning names the field and the remedy.
    """

    figures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Problems(abc.ABC, Generic[Problem]):
    """The problems that an environment plays, in files. A subclass writes `read` and `plan`, and what else differs.

    Attributes:
        table: the key of a plan under which its table stands: a list of objects with at least the keys `columns`. A
            `.csv` has a line for each, and each vehicle has a sheet. "": plans have no table, and are `.json` only.
        columns: of the `.csv`.
        vehicle: the column that names the vehicle; "": the table is one sheet.
        environment: the registered name of the environment that problems are solved in unless another is named; None:
            that with the toolbox.
        choices: parameters of the environment that no file says, so that a user may choose them (`--env.NAME`).
        is_stacked: whether `stack` makes one problem of several; else they are solved one by one.
    """

    table: str = ""
    columns: tuple[str, ...] = ()
    vehicle: str = ""
    environment: str | None = None
    choices: tuple[str, ...] = ()
    is_stacked: bool = False

    @abc.abstractmethod
    def read(self, path: str | os.PathLike, **given: Any) -> Sequence[Problem]:
        """All problems in a file; what is `given` takes the place of what is `assumed`.

        Raises:
            ValueError: a damaged file, or none of these; one line that names the file and the place.
            OSError: it cannot be read.
        """

    def of_case(self, case: Case) -> tuple[Problem, list[str]]:
        """The problem that orders and a fleet are, and lines that say what it says otherwise than they do.

        Raises:
            ValueError: it cannot say them; one line.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no problems of orders and a fleet")

    def assumed(self, path: str | os.PathLike, **given: Any) -> Mapping[str, Any]:
        """By name, what `read` assumes of a file that does not say it, or what is given instead."""
        return {}

    def parameters(self, problem: Problem, env: Any) -> dict[str, Any]:
        """By keyword, what a problem sets of the environment's parameters.

        Raises:
            ValueError: it cannot be played in such an environment; one line.
        """
        return {}

    def instance(self, problem: Problem, env: Any) -> Any:
        """The instance for `Environment.reset_to` of an environment with these parameters."""
        return problem

    def weighed(self, problem: Problem, env: Any) -> Any:
        """The environment that `train.solve` plans in: what is left undone costs more than any way."""
        return env

    def cost_words(self, problem: Problem, env: Any, found: Searched) -> str:
        """What an episode in the environment of `weighed` costs, for people."""
        return shown_cost(found.cost)

    def inspect(self, problem: Problem, env: Any) -> Inspection:
        """What is said of a problem before it is played, where `env` has its parameters."""
        return Inspection()

    def solvers(self, problem: Problem, names: Sequence[str]) -> Sequence[str]:
        """Those of the names of methods that can solve it, the best choice first."""
        return names

    def has_page(self, problem: Problem) -> bool:
        """Whether a plan of it is an episode, which pages and pictures show; by default so."""
        return True

    def stack(self, problems: Sequence[Problem]) -> Problem:
        """One problem of several, of any sizes, padded to the largest, with a leading axis.

        `parameters`, `instance` and `weighed` take it, too.
        """
        raise NotImplementedError(f"{type(self).__name__} solves problems one by one")

    @abc.abstractmethod
    def plan(self, problem: Problem, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, a JSON object: events with vehicle, time, place.

        It has at least `feasible`, whether it keeps all constraints and leaves nothing out, and `routes`, by vehicle
        the stops in order. What makes it infeasible may stand in `reasons`, a list of lines, and totals for people in
        `totals`, name -> words. A `cost` there counts more than the search's: that of the checker has more digits.
        """

    def recompute(self, problem: Problem, plan: Mapping[str, Any]) -> dict[str, Any]:
        """The decisions of a plan and the numbers that follow from them alone, in NumPy, without the environment.

        Raises:
            ValueError: the plan breaks a constraint; one line.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot check plans")

    def written(self, problem: Problem, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """A plan as files have it: with times of the clock, where the problem has one."""
        return plan

    @property
    def endings(self) -> tuple[str, ...]:
        """Of the files that `write_plan` writes."""
        return ENDINGS if self.table else ENDINGS[:1]

    def write_plan(self, problem: Problem, path: str | os.PathLike, plan: Mapping[str, Any]) -> None:
        """Write a plan, by the ending of the path; of one with `visits`, `.csv` has these, `.geojson` tours in degrees.

        `.vroom.json` is VROOM's output.

        Raises:
            ValueError: another ending, or one that cannot say the plan.
            OSError: the file cannot be written.
        """
        name, suffix = Path(path).name, Path(path).suffix.lower()
        if name.lower().endswith(VROOM):
            write_vroom(path, plan)
            return
        plan = self.written(problem, plan)
        if plan.get("visits") and suffix in OF_VISITS:
            OF_VISITS[suffix](path, plan)
        elif suffix == ".json":
            write_json(path, plan)
        elif suffix == ".csv":
            columns = self.columns_of(plan)
            write_csv(path, [columns, *([event.get(key) for key in columns] for event in plan.get(self.table, ()))])
        else:
            raise ValueError(f"a plan is written to {' or '.join(ENDINGS)}, not to '{name}'")

    def columns_of(self, plan: Mapping[str, Any]) -> Sequence[str]:
        """The columns of the `table` of a plan: `columns`, unless a scenario of one's own has added some."""
        return self.columns

    def sheets(self, problem: Problem, plan: Mapping[str, Any]) -> Sequence[Sheet]:
        """A plan for people: a sheet for each vehicle; of one with `visits`, to drive by."""
        return sheets_to_drive_by(plan) if plan.get("visits") else plan_sheets(plan, self.table, self.vehicle)

"""Plans for published problems as records, and their check from the published files alone.

A record has the result of `benchmarks.solving` without curves: machine, protocol, and an entry for each problem with
its file in the data folder, which of the file's problems it is, the rules that the file does not say, or that are not
those of the paper, the cost, and the plan as a text. What a plan means, and its check, is a file of
`benchmarks.records.checkers` each.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jaxvrp
from benchmarks.published.data import VARIABLE, data_folder
from benchmarks.published.instances import PUBLISHED, Published, members
from benchmarks.quality import tsp_drone
from jaxvrp import Environment, Problems, registry
from jaxvrp.envs.flying_sidekicks.murray_raj import MOST_DRONES, VEHICLES
from jaxvrp.envs.flying_sidekicks.report import DRIVE, LAUNCH, RECOVER, SERVE
from jaxvrp.envs.truck_drone_tours.problem.kuo import assumed_by_kuo
from jaxvrp.envs.tsp_drone.problem.murray_chu import NODES
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import cut, shown

FORMAT = "jaxvrp-published-record-1"

ROUNDING = 1e-5
"""Share by which a stated cost may differ: plans are searched in 32 bits."""


def operations(found: list[dict[str, Any]]) -> str:
    """`0-3-5^8`: over 3 to 5, the drone from 0 over 8 to 5."""

    def words(each: Mapping[str, Any]) -> str:
        way = "-".join(map(str, (each["start"], *each["internal"], each["end"])))
        return way if each["fly"] is None else f"{way}^{each['fly']}"

    return " ".join(map(words, found))


def tasks(found: list[dict[str, Any]]) -> str:
    """`D3 S L5:0 R5:0`: drive to 3, serve, launch drone 0 to 5, take it in again."""
    words = {DRIVE: "D{node}", SERVE: "S", LAUNCH: "L{node}:{drone}", RECOVER: "R{node}:{drone}"}
    return " ".join(words[each["kind"]].format(**each) for each in found)


PLANS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "darp": lambda plan: " / ".join(" ".join(map(str, route)) for route in plan["routes"]),
    "tsp_drone": lambda plan: operations(plan["operations"]),
    "truck_drone_tours": lambda plan: " / ".join(map(operations, plan["tours"])),
    "flying_sidekicks": lambda plan: tasks(plan["tasks"]),
}
"""By environment, a plan as a text."""


def _rules(environment: str, path: pathlib.Path, row: int | None, rules: Mapping[str, Any]) -> dict[str, Any]:
    """What a file does not say, or holds for one of its problems; of tandems nothing if all is as in the paper."""
    if environment == "flying_sidekicks":
        table, drones = divmod(row or 0, MOST_DRONES)
        battery, table = divmod(table, len(VEHICLES))
        return {"vehicles": VEHICLES[table], "drones": drones + 1, "battery": bool(battery)}
    if path.name == NODES:
        return {**rules, "endurance": rules["endurance"][row or 0]}
    if environment == "truck_drone_tours":
        return {} if rules == assumed_by_kuo({}) else dict(rules)
    return dict(rules)


def as_published(
    environment: str, problems: Problems[Any], path: pathlib.Path, row: int | None, rules: Mapping[str, Any]
) -> bool:
    """Whether the rules of an entry are those of published costs: a plan without revisits keeps these, too."""
    of_file = {name: value for name, value in rules.items() if name not in problems.choices}
    return of_file == _rules(environment, path, row, problems.assumed(path))


def entry_of(
    environment: str, path: pathlib.Path, row: int | None, rules: Mapping[str, Any], plan: Mapping[str, Any]
) -> dict[str, Any]:
    """What an entry has beside its figures: `file`, `row`, `rules` and `plan`."""
    try:
        file = path.resolve().relative_to(data_folder().resolve()).as_posix()
    except ValueError:
        file = str(path)
    said = _rules(environment, path, row, rules)
    return {"file": file, "row": row, "rules": said, "plan": PLANS[environment](plan)}


def as_text(record: Mapping[str, Any]) -> str:
    """JSON with an entry in each line."""
    head = json.dumps({name: value for name, value in record.items() if name != "records"})
    return head[:-1] + ', "records": [\n' + ",\n".join(map(json.dumps, record["records"])) + "\n]}\n"


def check(record: Any, source: str) -> str:
    """Compute all costs again, and compare what is said of the instances with their files; a line about it.

    Raises:
        UserError: a plan breaks a rule, or has another cost, or an entry is of another instance than it says; one line
            that begins with `source`.
        OSError: the published files are not there.
        AttributeError, LookupError, TypeError, ValueError: it lacks something, or is damaged.
    """
    environment, records = record["environment"], record["records"]
    if environment not in PLANS or not records:
        raise UserError(f"{source} has no plans for one of: {', '.join(PLANS)}")
    checker = importlib.import_module(f"benchmarks.records.checkers.{environment}")
    env, listed = jaxvrp.make(environment), functools.cache(LISTED[environment])
    for number_of_entry, entry in enumerate(records):
        place = f"{source}: records[{number_of_entry}]"
        if not (data_folder() / entry["file"]).is_file():
            raise FileNotFoundError(f"{data_folder() / entry['file']} is not there; {VARIABLE} names its folder")
        try:
            _check_instance(environment, env, entry, listed)
            found = checker.cost_of(data_folder(), entry)
        except (UserError, ValueError) as error:
            raise UserError(f"{place}: {error}") from None
        if not abs(found - entry["cost"]) <= ROUNDING * found:
            said = f"{shown(entry['instance'])} costs {shown(entry['cost'])}; from the plan follows {found:.6f}"
            raise UserError(f"{place}: {said}")
        if entry["feasible"] is not True:
            raise UserError(f"{place}: feasible is {shown(entry['feasible'])}; the plan breaks no rule")
    protocol = ", ".join(f"{name} {value}" for name, value in record["protocol"].items())
    return f"{environment}, {len(records)} plans; {protocol}; cores {record['machine']['cores']}"


LISTED = PUBLISHED | {
    "tsp_drone": functools.partial(members, lambda name, option: tsp_drone.published(name, option, proven=False)[0])
}
"""`PUBLISHED`, but optima that take long to prove are NaN."""


def _check_instance(
    environment: str, env: Environment, entry: Mapping[str, Any], listed: Callable[[str, str], list[Published]]
) -> None:
    """Whether file, row, rules and best known cost are those of the instance that an entry names.

    Raises:
        ValueError, UserError: they are others; one line.
    """
    path, row, rules = data_folder() / entry["file"], entry["row"], entry["rules"]
    group = str(path) if environment == "darp" else entry["group"]
    if group is None:
        raise ValueError("group is null; it must be the set of the instance")
    published = next((each for each in listed(group, "group") if each.name == entry["instance"]), None)
    if published is None:
        raise ValueError(f"instance is {shown(entry['instance'])}; there is none of that name in {group}")
    if (published.path, published.row) != (path, row):
        raise ValueError(
            f"file and row are {entry['file']} and {row}; {published.name} is {published.path} and {published.row}"
        )
    problems = registry.problems_of(env)
    assert problems
    known = problems.assumed(path)
    given = {name: value for name, value in rules.items() if name in known and not isinstance(known[name], tuple)}
    chosen = {name: rules[name] for name in problems.choices if type(rules.get(name)) is type(getattr(env, name))}
    right = {**_rules(environment, path, row, problems.assumed(path, **given)), **chosen}
    for name in {**right, **rules}:
        if rules.get(name) != right.get(name):
            said, found = shown(rules.get(name)), shown(right.get(name))
            raise ValueError(f"rules.{cut(name)} is {said}; by its file and row it is {found}")
    best_known = published.best_known if as_published(environment, problems, path, row, rules) else None
    if entry["best_known"] != best_known and not (best_known and math.isnan(best_known)):
        raise ValueError(f"best_known is {shown(entry['best_known'])}; by its rules it is {shown(best_known)}")

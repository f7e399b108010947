"""Plans for published problems as records, and their check from the published files alone.

A record has the result of `benchmarks.solving` without curves: machine, protocol, and an entry for each problem with
its file in the data folder, which of the file's problems it is, the rules that the file does not say, the cost, and the
plan as a text. What a plan means, and its check, is a file of `benchmarks.records.checkers` each.
"""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.published_data import VARIABLE, data_folder
from jaxvrp.envs.flying_sidekicks.murray_raj import MOST_DRONES, VEHICLES
from jaxvrp.envs.flying_sidekicks.report import DRIVE, LAUNCH, RECOVER, SERVE
from jaxvrp.envs.tsp_drone.problem.murray_chu import NODES
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown
from jaxvrp.io.schema import list_of, object_with, one_of

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
    """What a file does not say, or holds for one of its problems alone."""
    if environment == "flying_sidekicks":
        table, drones = divmod(row or 0, MOST_DRONES)
        battery, table = divmod(table, len(VEHICLES))
        return {"vehicles": VEHICLES[table], "drones": drones + 1, "battery": bool(battery)}
    if path.name == NODES:
        return {**rules, "endurance": rules["endurance"][row or 0]}
    return dict(rules) if environment == "tsp_drone" else {}


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


RECORD = object_with(
    format=one_of(FORMAT),
    environment=one_of(*PLANS),
    machine=object_with(),
    protocol=object_with(),
    records=list_of(object_with()),
)


def check(record: Any, source: str) -> str:
    """Compute all costs again; a line about it.

    Raises:
        UserError: a plan breaks a rule, or has another cost; one line that begins with `source`.
        FileNotFoundError: the published files are not there.
    """
    try:
        RECORD(record, "record")
    except ValueError as error:
        raise UserError(f"{source} is no record: {error}") from None
    checker = importlib.import_module(f"benchmarks.records.checkers.{record['environment']}")
    for entry in record["records"]:
        if not (data_folder() / entry["file"]).exists():
            raise FileNotFoundError(f"{data_folder() / entry['file']} is not there; {VARIABLE} names its folder")
        try:
            found = checker.cost_of(data_folder(), entry)
        except ValueError as error:
            raise UserError(f"{source}: {error}") from None
        if abs(found - entry["cost"]) > ROUNDING * found:
            said = f"{shown(entry['instance'])} costs {shown(entry['cost'])}; from the plan follows {found:.6f}"
            raise UserError(f"{source}: {said}")
    protocol = ", ".join(f"{name} {value}" for name, value in record["protocol"].items())
    return f"{record['environment']}, {len(record['records'])} plans; {protocol}; cores {record['machine']['cores']}"

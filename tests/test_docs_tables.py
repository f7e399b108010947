"""The documentation's tables of keys, parameters, observations and results say what the code and the files say."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import pathlib
import re
import warnings

import jax
import pytest
import yaml

import jaxvrp
from jaxvrp import fields
from jaxvrp.envs import darp
from jaxvrp.envs.darp.observation import NODE_SIZE
from jaxvrp.envs.pcb import Parameters, Pcb, reward
from jaxvrp.envs.pcb.factory import Supply
from jaxvrp.envs.pcb.observation import OBSERVATION_SIZE
from jaxvrp.envs.truck_drone import TruckDroneBasic

with warnings.catch_warnings():
    # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import distrax  # noqa: F401

from benchmarks.measure import Spread, rate
from train import config

DOCS = pathlib.Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
MADE = {"boards", "wirings", "targets", "sizes", "source"}
"""Fields of `Pcb` that `make` fills."""

LENGTHS = (("", ""), ("raw_", ""), ("", "i"), ("", "e"), ("raw_", "e"))
"""What stands before and behind `W` and `HPWL` in the metrics of `pcb`."""


def rows_below(page: pathlib.Path, kind: str) -> dict[str, list[list[str]]]:
    """The tables under `<!-- KIND: NAME -->`, by name: rows of cells, without the head."""
    tables, lines = {}, page.read_text().splitlines()
    for at, line in enumerate(lines):
        if found := re.fullmatch(rf"<!-- {kind}: (.*) -->", line):
            tables[found[1]] = table_at(lines, at + 1)
    return tables


def table_at(lines: list[str], at: int) -> list[list[str]]:
    cells = []
    while at < len(lines) and lines[at].startswith("|"):
        cells.append([cell.strip() for cell in lines[at].strip().strip("|").split("|")])
        at += 1
    return cells[2:]


def code(cell: str) -> str:
    return cell.strip("`")


def own_fields(cls: type) -> dict[str, dataclasses.Field]:
    return {name: field for name, field in fields_of(cls).items() if name in inspect.get_annotations(cls)}


def fields_of(cls: type) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(cls)}


def same_default(cell: str, default: object) -> bool:
    told = float(code(cell)) if code(cell) == "inf" else yaml.safe_load(code(cell))
    default = list(default) if isinstance(default, tuple) else default
    return told == default and isinstance(told, bool) == isinstance(default, bool)


def attempts(text: str, default: object) -> list[tuple[object, bool]]:
    """Values that a range, as the tables write it, accepts or refuses."""
    if text == "true, false":
        return [(not default, True), ("perhaps", False), (None, False)]
    choices = re.findall(r"`(.*?)`", text)
    if choices:
        return [*((choice, True) for choice in choices), ("no such", False)]
    whole = "whole" in text
    step = 1 if whole else 1e-3
    tried = [(None, "or null" in text), ("a word", False), (math.inf, "≤ inf" in text)]
    tried += [(2.5, False)] if whole else []
    for sign, digits in re.findall(r"([≥≤>]) (-?[\d.]+)", text):
        bound = int(digits) if whole else float(digits)
        tried += {
            "≥": [(bound, True), (bound - step, False)],
            "≤": [(bound, True), (bound + step, False)],
            ">": [(bound, False), (bound + step, True)],
        }[sign]
    return [([value], accepted) for value, accepted in tried] if text.startswith("list") else tried


def accepts(cls: type, name: str, value: object) -> bool:
    given = dict.fromkeys(MADE - {"source"}) if cls is Pcb else {}
    try:
        fields.build(cls, {**given, name: value}, "key")
    except (ValueError, TypeError):
        return False
    return True


def check_row(cls: type, field: dataclasses.Field, default: str, text: str) -> None:
    assert same_default(default, field.default), f"{field.name}: default {default}, in the code {field.default}"
    for value, accepted in attempts(text, field.default):
        assert accepts(cls, field.name, value) == accepted, f"{field.name}: range {text}, {value!r}"


KEYS = rows_below(DOCS / "trainer.md", "keys")


@pytest.mark.parametrize("name", ["RunConfig", "PPOConfig", "IPPOConfig", "OffPolicyConfig", "TD3Config", "SACConfig"])
def test_tables_of_configuration_keys(name):
    cls = getattr(config, name)
    told = {code(key): (default, text) for key, default, text, _ in KEYS[name]}
    assert list(told) == list(own_fields(cls))
    for key, field in own_fields(cls).items():
        if key != "env":
            check_row(cls, field, *told[key])


def test_every_class_of_keys_has_a_table():
    classes = {base.__name__ for cls in config.CONFIGS.values() for base in cls.__mro__ if base is not object}
    assert classes == set(KEYS)


PARAMETERS = {"truck_drone": (TruckDroneBasic,), "darp": (darp.Darp,), "pcb": (Supply, Parameters, Pcb)}
"""What the keywords of each environment become, by page."""


@pytest.mark.parametrize("page", PARAMETERS)
def test_tables_of_parameters(page):
    path = DOCS / f"{page}.md"
    lines = path.read_text().splitlines()
    table = table_at(lines, next(at for at, line in enumerate(lines) if line.startswith("| parameter |")))
    told = {code(row[0]): row[1:3] for row in table}
    known = {}
    for cls in PARAMETERS[page]:
        own = {name: (cls, field) for name, field in fields_of(cls).items() if cls is not Pcb or name not in MADE}
        known |= own
    known = {{"reward_kind": "reward"}.get(name, name): where for name, where in known.items()}
    assert set(told) - {"boards"} == set(known)
    for name, (cls, field) in known.items():
        if name == "reward":  # its choices are those of `make`
            assert told.pop(name) == ["`sparse`", "`sparse`, `dense`"] and darp.env.REWARDS == ("sparse", "dense")
        else:
            check_row(cls, field, *told[name])


def sizes_seen() -> dict[str, tuple[int, dict[str, int]]]:
    """Numbers in each observation, and the values of the letters."""
    env = jaxvrp.make("truck_drone", num_drones=3, num_customers=4, num_route_nodes=5)
    whole = jax.eval_shape(lambda key: env.reset(key)[1].global_observation, jax.eval_shape(lambda: jax.random.key(0)))
    letters = {"D": 3, "C": 4}
    ride = jaxvrp.make("darp", num_nodes=6, num_agents=2)
    return {
        "truck_drone drone": (env.roles["drone"].observation.shape[0], letters),
        "truck_drone truck": (env.roles["truck"].observation.shape[0], letters),
        "truck_drone global": (whole.shape[0], letters),
        "darp vehicle": (ride.roles["vehicle"].observation.shape[0], {"N": 6}),
        "darp row": (NODE_SIZE, {}),
        "pcb component": (OBSERVATION_SIZE, {}),
        "pcb row": (9, {}),  # the page's own example asserts this one
    }


def test_tables_of_observations_have_no_gaps():
    tables = {}
    for page in PARAMETERS:
        tables |= rows_below(DOCS / f"{page}.md", "observation")
    sizes = sizes_seen()
    assert set(tables) == set(sizes)
    for name, (total, letters) in sizes.items():
        at = 0
        for start, numbers, *_ in tables[name]:
            assert eval(code(start), {}, letters) == at, f"{name}: {start}"
            at += eval(code(numbers), {}, letters)
        assert at == total, name


@pytest.mark.parametrize("page", PARAMETERS)
def test_metrics_are_all_named(page):
    if page == "pcb":
        lengths = {f"{start}{name}{end}" for name in ("W", "HPWL") for start, end in LENGTHS}
        named = set(re.findall(r'"(\w+)":', inspect.getsource(reward.metrics))) | lengths
    else:
        key = jax.eval_shape(lambda: jax.random.key(0))
        named = set(jax.eval_shape(lambda key: jaxvrp.make(page).reset(key)[1].metrics, key))
    text = (DOCS / f"{page}.md").read_text()
    assert named and {name for name in named if f"`{name}`" not in text} == set()


def test_the_contract_is_told_whole():
    text = (DOCS / "environments.md").read_text()
    composed = {"replace", "tree_flatten", "tree_unflatten", "judged", "registry_kind"}
    public = {name for name in vars(jaxvrp.Environment) if not name.startswith("_")} - composed
    assert {name for name in public if not re.search(rf"`(?:\w+\.)?{name}\b", text)} == set()


def throughput_rows(result):
    for case in result["cases"]:
        speeds = [rate(case["median"][who]) for who in ("jax", "numpy")]
        size = ", ".join(map(str, case["size"]))
        yield [f"({size})", str(case["batch"]), *speeds, f"{case['ratio']:.1f}", f"{case['compile_seconds']:.1f} s"]


def training_rows(result):
    for row in result["rows"]:
        speed, size = Spread.of(row["steps_per_second"]), ", ".join(map(str, row["size"]))
        spread = f"{rate(speed.low)} - {rate(speed.high)}"
        yield [row["network"], f"({size})", rate(speed.median), spread, f"{row['rollout_share']:.0%}"]


def quality_rows(result):
    for table in result["tables"].values():
        yield from table[1:]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_results_are_told_as_they_were_measured(path):
    page = DOCS / "benchmarks.md"
    assert path.name in page.read_text(), f"docs/benchmarks.md does not mention {path.name}"
    tables = rows_below(page, "results")
    kinds = {"throughput": throughput_rows, "training": training_rows, "quality": quality_rows}
    if path.name in tables:
        result = json.loads(path.read_text())
        assert tables[path.name] == list(kinds[path.name.partition("_")[0]](result))

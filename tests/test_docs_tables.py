"""The documentation's tables of keys, parameters, observations and results say what the code and the files say."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import math
import pathlib
import re
import types

import jax
import numpy as np
import pytest
import yaml

import jaxvrp
from benchmarks.measuring.measure import Spread, rate
from jaxvrp import fields
from jaxvrp.entities import seen_as
from jaxvrp.envs.pcb import Pcb, reward
from jaxvrp.envs.pcb.observation import OBSERVATION_SIZE
from jaxvrp.registry import card_of
from train.algorithms import ALGORITHMS

DOCS = pathlib.Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
MADE = {"boards", "wirings", "targets", "sizes"}
"""Fields of `Pcb` without a default, which `make` fills."""

LENGTHS = (("", ""), ("raw_", ""), ("", "i"), ("", "e"), ("raw_", "e"))
"""What stands before and behind `W` and `HPWL` in the metrics of `pcb`."""


def script(path: pathlib.Path) -> types.ModuleType:
    """A program that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_tables = script(DOCS / "make_tables.py")


def rows_below(page: pathlib.Path, kind: str) -> dict[str, list[list[str]]]:
    """The tables under `<!-- KIND: NAME -->`, by name: rows of cells, without the head."""
    tables, lines = {}, page.read_text().splitlines()
    for row, line in enumerate(lines):
        if found := re.fullmatch(rf"<!-- {kind}: (.*) -->", line):
            table = itertools.takewhile(lambda line: line.startswith("|"), lines[row + 1 :])
            tables[found[1]] = [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]
    return tables


def code(cell: str) -> str:
    return cell.strip("`")


def fields_of(cls: type) -> dict[str, dataclasses.Field]:
    return {fields.keyword(field): field for field in dataclasses.fields(cls)}


def same_default(cell: str, default: object) -> bool:
    written = float(code(cell)) if code(cell) == "inf" else yaml.safe_load(code(cell))
    default = list(default) if isinstance(default, tuple) else default
    return written == default and isinstance(written, bool) == isinstance(default, bool)


def attempts(text: str, default: object) -> list[tuple[object, bool]]:
    """Values that a range, as the tables write it, accepts or refuses."""
    if text == "true, false":
        return [(not default, True), ("perhaps", False), (None, False)]
    choices = re.findall(r"`(.*?)`", text)
    if choices:
        return [*((choice, True) for choice in choices), ("no such", False)]
    whole = "whole" in text
    step = 1 if whole else 1e-3
    tried = [
        (None, "or null" in text),
        ("a word", text.startswith(("text", "list of text"))),
        (math.inf, "≤ inf" in text),
    ]
    tried += [(2.5, False)] if whole else []
    for sign, digits in re.findall(r"([≥≤>]) (-?[\d.]+)", text):
        bound = int(digits) if whole else float(digits)
        tried += {
            "≥": [(bound, True), (bound - step, False)],
            "≤": [(bound, True), (bound + step, False)],
            ">": [(bound, False), (bound + step, True)],
        }[sign]
    if not text.startswith("list"):
        return tried
    return [(None if value is None and accepted else [value], accepted) for value, accepted in tried]


@functools.cache
def made(cls: type) -> dict[str, object]:
    """Fields without a default of a class of parameters, as `make` fills them."""
    return {name: getattr(jaxvrp.make("pcb"), name) for name in MADE} if cls is Pcb else {}


COMPANIONS = {
    "imitate": {"imitate_steps": 1},
    "imitate_steps": {"imitate": "greedy"},
    "imitate_coef": {"imitate": "greedy"},
    "compare_steps": {"imitate": "greedy", "imitate_steps": 10**6},
    "compare_roles": {"imitate": "greedy", "imitate_steps": 10**6, "compare_steps": 1},
    "baseline": {"rollout": "episodes", "group_size": 2},
    "truck_capacity": {"max_demand": 0.0},
}
"""What a key or parameter needs beside it, unless it is off."""


def accepts(cls: type, name: str, value: object) -> bool:
    # Bounds of the same thing must be in order: both get the value.
    names = [other + name[4:] for other in ("min_", "max_")] if name[:4] in ("min_", "max_") else [name]
    known = fields_of(cls)
    companions = COMPANIONS.get(name, {}) if value else {}
    try:
        fields.build(cls, {**made(cls), **companions, **{name: value for name in names if name in known}}, "key")
    except (ValueError, TypeError):
        return False
    return True


def check_row(cls: type, field: dataclasses.Field, default: str, text: str) -> None:
    assert same_default(default, field.default), f"{field.name}: default {default}, in the code {field.default}"
    for value, accepted in attempts(text, field.default):
        assert accepts(cls, fields.keyword(field), value) == accepted, f"{field.name}: range {text}, {value!r}"


def test_tables_of_fields_are_those_of_the_code():
    """`python docs/make_tables.py` writes them."""
    assert make_tables.main(["--check"]) == 0


def config_class(path: str) -> type:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


KEYS = rows_below(DOCS / "keys.md", "keys")


@pytest.mark.parametrize("path", KEYS)
def test_ranges_of_configuration_keys_are_enforced(path):
    cls = config_class(path)
    for key, default, text, _ in KEYS[path]:
        if "mapping" not in text:
            check_row(cls, fields_of(cls)[code(key)], default, text)


def test_every_class_of_keys_has_a_table():
    classes = {base for kind in ALGORITHMS.values() for base in kind.config_class.__mro__ if base is not object}
    assert classes == {config_class(path) for path in KEYS}


SHIPPED = ("darp", "dispatch", "flying_sidekicks", "pcb", "truck_drone", "truck_drone_tours", "tsp_drone", "vrpd_tw")
BASES = {"truck_drone_tours": "tsp_drone", "vrpd_tw": "truck_drone"}
"""Pages that show only what differs from the page of another environment."""


def known_parameters(name: str) -> dict[str, tuple[type, dataclasses.Field]]:
    """The fields of an environment that parameters set, by keyword, and their classes."""
    env = jaxvrp.make(name)
    classes = (type(env), *card_of(env).parameters)
    fields = ((cls, field) for cls in classes for field in dataclasses.fields(cls))
    return {field.metadata.get("keyword") or field.name: (cls, field) for cls, field in fields}


def parameters_of(name: str) -> list[list[str]]:
    """Rows of a page, and those of the page that it refers to that it has, too."""
    tables = rows_below(DOCS / f"{name}.md", "parameters")
    if name not in BASES:
        return tables[name]
    shown = tables[f"{name} beyond {BASES[name]}"]
    further = known_parameters(name).keys() - {code(row[0]) for row in shown}
    return [*shown, *(row for row in parameters_of(BASES[name]) if code(row[0]) in further)]


PARAMETERS = {name: parameters_of(name) for name in SHIPPED}


@pytest.mark.parametrize("name", PARAMETERS)
def test_ranges_of_parameters_are_enforced(name):
    known = known_parameters(name)
    for parameter, default, text, *_ in PARAMETERS[name]:
        cls, field = known[code(parameter)]
        if parameter != "`boards`":
            check_row(cls, field, default, text)


def sizes_seen() -> dict[str, tuple[int, dict[str, int]]]:
    """Numbers in each observation, and the values of the letters."""
    sizes = {"pcb component": (OBSERVATION_SIZE, {}), "pcb row": (9, {})}  # the page's own example asserts the row
    letters, key = {"D": 3, "C": 4, "N": 5}, jax.eval_shape(lambda: jax.random.key(0))
    for name in ("truck_drone", "vrpd_tw"):
        env = jaxvrp.make(name, num_drones=3, num_customers=4, num_route_nodes=5)
        _, timestep = jax.eval_shape(env.reset, key)
        sizes |= {f"{name} {role}": (rows.shape[1], letters) for role, rows in timestep.observation.items()}
        sizes[f"{name} global"] = (timestep.global_observation.shape[0], letters)
    return sizes


def test_tables_of_observations_have_no_gaps():
    tables = {}
    for page in PARAMETERS:
        tables |= rows_below(DOCS / f"{page}.md", "observation")
    sizes = sizes_seen()
    assert set(tables) == set(sizes)
    for name, (total, letters) in sizes.items():
        count = 0
        for start, numbers, *_ in tables[name]:
            assert eval(code(start), {}, letters) == count, f"{name}: {start}"
            count += eval(code(numbers), {}, letters)
        assert count == total, name


@pytest.mark.parametrize("page", sorted(set(PARAMETERS) - {"flying_sidekicks", "pcb"}))
def test_all_that_entities_tell_has_a_table(page):
    """`test_tables_of_fields_are_those_of_the_code` sees that these say what the code says."""
    env = seen_as(jaxvrp.make(page), "entities")
    base = seen_as(jaxvrp.make(BASES[page]), "entities") if page in BASES else None
    shown_there = [(kind.name, kind.static, kind.dynamic) for kind in base.entity_kinds] if base else []
    kinds = [kind for kind in env.entity_kinds if (kind.name, kind.static, kind.dynamic) not in shown_there]
    wanted = {f"{page} {kind.name}" for kind in kinds}
    roles = {name: role for name, role in env.roles.items() if not base or role.context != base.roles[name].context}
    contexts = {f"{page} context of {name}": role.context for name, role in roles.items()}
    found = rows_below(DOCS / f"{page}.md", "entities")
    tables = {name.removesuffix(f" beyond {BASES.get(page)}"): rows for name, rows in found.items()}
    assert wanted <= set(tables) <= wanted | set(contexts)
    # Roles whose contexts have the same features share a table.
    assert {contexts[name] for name in tables if name in contexts} == set(contexts.values())
    assert all(meaning for rows in tables.values() for *_, meaning in rows)


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


def test_the_page_names_the_whole_contract():
    text = (DOCS / "environments.md").read_text()
    public = {name for name in vars(jaxvrp.Environment) if not name.startswith("_")}
    assert {name for name in public if not re.search(rf"`(?:\w+\.)?{name}\b", text)} == set()


def throughput_rows(result, choice):
    for case in result["cases"]:
        speeds = [rate(case["median"][side]) for side in ("jax", "numpy")]
        size = ", ".join(map(str, case["size"]))
        if choice in ("", f"batch {case['batch']}"):
            yield [f"({size})", str(case["batch"]), *speeds, f"{case['ratio']:.1f}", f"{case['compile_seconds']:.1f} s"]


def training_rows(result, choice):
    assert not choice
    for row in result["rows"]:
        speed, size = Spread.of(row["steps_per_second"]), ", ".join(map(str, row["size"]))
        spread = f"{rate(speed.low)} - {rate(speed.high)}"
        yield [row["network"], f"({size})", rate(speed.median), spread, f"{row['rollout_share']:.0%}"]


def quality_rows(result, choice):
    tables = list(result["tables"].values())
    for index, row in enumerate(tables[0][1:], 1):
        cells = [dict(zip(table[0], table[index], strict=True)) for table in tables]
        chosen = [[cell[name] for name in choice.split(", ")] for cell in cells] if choice else [row[1:]]
        yield [row[0], *(chosen[0] if len(tables) == 1 else map(", ".join, chosen))]


def learning_rows(result, choice):
    assert not choice
    for player, figures in result["figures"].items():
        cells = [figures[name] for name in result["titles"]]
        yield [player, *(seeds(cell) if isinstance(cell, list) else f"{cell:.3f}" for cell in cells)]


def seeds(values):
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def ablation_rows(result, choice):
    for changed, record in result["records"].items():
        seconds = f"{record['curve'][-1][0]:.0f}"
        titled = {title: seeds(record["figures"][name]) for name, title in result["titles"].items()}
        titled["seconds"] = seconds
        yield [changed, titled["return"], *(titled[title] for title in choice.split(", "))]


def peers_rows(result, choice):
    """Pairs stand one after the other, first on one core, then on two."""
    pairs = result[choice]
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        assert [first["cores"], second["cores"]] == [1, 2]
        assert first["ours"] == second["ours"] and first["peer"] == second["peer"]
        figures = [pair["steps_per_second"] for pair in (first, second)]
        players, peers = ([float(np.median(figure[side])) for figure in figures] for side in ("ours", "peer"))
        ratios = ", ".join(f"{speed / other:.2f}" for speed, other in zip(players, peers, strict=True))
        peer = f"{first['peer']['label']} {first['peer']['version']}"
        speeds = (", ".join(map(rate, each)) for each in (players, peers))
        yield [first["ours"]["label"], peer, *speeds, ratios, f"{first['goal']:g}"]


def learners_rows(result, choice):
    for record in result["training"]:
        if record["problem"] == choice:
            sides = record["sides"]
            speed_of = "steps_per_cpu_second" if record["cores"] == 1 else "steps_per_second"
            median = {side: np.median([run[speed_of] for run in sides[side]["runs"]]) for side in sides}
            for side, measured in sides.items():
                final, speed = np.transpose([(run["final"], run[speed_of]) for run in measured["runs"]])
                steps = record["settings"]["TOTAL_TIMESTEPS"]
                returned = f"{final.mean():.2f} ({final.min():.2f} to {final.max():.2f})"
                share = median[side] / max(median.values())
                points = [[value for at, value in run["curve"] if at <= share * steps] for run in measured["runs"]]
                tenth = round(len(measured["runs"][0]["curve"]) / 10)
                by_then = f"{np.mean([values[-tenth:] for values in points]):.2f}"
                speeds = [rate(median[side]), f"{rate(speed.min())} - {rate(speed.max())}"]
                ratio = f"{median[side] / median[JAXMARL]:.2f}"
                compilation = f"{measured['compile_cpu_seconds']:.0f} CPU s"
                yield [record["algorithm"], rate(steps), side, returned, by_then, *speeds, ratio, compilation]


JAXMARL = "JaxMARL's"

BANDWIDTHS = {"v5 lite": 819e9, "v6 lite": 1.64e12, "H100": 3.35e12}
"""Bytes/s of their memories, by what their makers' compilers call the devices."""


def compiled_rows(result, choice):
    for row in result["rows"]:
        kind, _, program = row["program"].partition(":")
        if f"{kind}:" == choice:
            bandwidth = next(most for name, most in BANDWIDTHS.items() if name in result["machine"]["device"])
            sizes, least = ["logical_bytes"], [row["off_chip_bytes"] / bandwidth * 1e6]
            if "H100" in result["machine"]["device"]:
                least.append(row["kernels"] * 2)
            else:
                sizes += ["padded_bytes", "off_chip_bytes"]
            numbers = [row[name] / 1e6 for name in (*sizes, "peak_bytes")]
            counts = [str(row["kernels"]), *(f"{each:.1f}" for each in numbers), str(row["gather"]), str(row["copy"])]
            yield [f"`{program}`", *counts, *(f"{each:.0f}" for each in least)]


def device_rows(result, choice):
    rows = [row for row in result["rows"] if row["part"] == choice]
    batches = sorted({row.get("batch", 0) for row in rows})
    for name in dict.fromkeys(row["what"] for row in rows):
        here = {row.get("batch", 0): row for row in rows if row["what"] == name}
        if choice in ("steps", "training"):
            yield [name, *(rate(here[batch]["steps_per_second"]) if batch in here else "-" for batch in batches)]
            continue
        (row,) = here.values()
        if choice == "parity":
            yield [name, f"{100 * row['share_as_on_cpu']:.1f}%", f"{row['largest_difference']:.1g}"]
        elif choice == "flags":
            yield [name, rate(row["steps_per_second"]), f"{row['compile_seconds']:.1f}"]
        else:
            yield [name, f"{row['command_seconds']:.0f}", f"{row['figures']['policy']['return']:.1f}"]


KINDS = {
    "device": device_rows,
    "compiled": compiled_rows,
    "throughput": throughput_rows,
    "training": training_rows,
    "quality": quality_rows,
    "learning": learning_rows,
    "ablation": ablation_rows,
    "peers": peers_rows,
    "learners": learners_rows,
}


PAGES = [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "<!-- results: " in page.read_text()], ids=lambda page: page.stem
)
def test_results_are_told_as_they_were_measured(page):
    tables = rows_below(page, "results")
    assert tables
    for selection, rows in tables.items():
        name, _, choice = selection.split("; ")[0].partition(", ")
        result = json.loads((RESULTS / name).read_text())
        measured = {row[0]: row for row in KINDS[re.split("[_/]", name)[0]](result, choice)}
        if "; rows: " in selection:
            assert rows == [measured[cell] for cell in selection.split("; rows: ")[1].split(" | ")], selection
        else:
            assert rows == list(KINDS[re.split("[_/]", name)[0]](result, choice)), selection


def by_hand(pages):
    """The text of pages without code, and without what `make_tables` writes: tables, and figures that have a name."""
    written = r"^```[^`]*^```|^<!-- .* -->\n(?:\|.*\n)+|`[^`\n]*`"
    texts = {page: re.sub(written, "", page.read_text(), flags=re.M) for page in pages}
    return {page: make_tables.FIGURE.sub("", text) for page, text in texts.items()}


def test_named_figures_are_those_of_the_records():
    """All are written by `make_tables`, see the first test; these are read from the records by other words."""
    tables = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in ("quality_methods_cpu", "peers_cpu")}
    known = json.loads((RESULTS / "quality_seeds_vrpd_tw_known_cpu.json").read_text())
    returns = {row[0]: float(row[1].split()[0]) for row in next(iter(known["tables"].values()))[1:]}
    assert known["options"]["episodes"] == 512
    assert make_tables.figure("vrpd_tw.policy") == f"{returns['seed 0']:.1f}" == "234.4"
    assert make_tables.figure("vrpd_tw.dispatcher") == f"{returns['greedy']:.1f}" == "198.3"
    (methods,) = tables["quality_methods_cpu"]["tables"].values()
    (planner,) = (row for row in methods if row[0] == "planner, 32 continuations")
    assert make_tables.figure("vrpd_tw.planner") == f"{float(planner[2]):.1f}"
    (policy,) = (row for row in methods if row[0] == "policy")
    assert make_tables.figure("vrpd_tw.policy_ms") == f"{1000 * float(policy[-1]):.1f}"
    flat = [pair for pair in tables["peers_cpu"]["pairs"] if pair["ours"]["label"] == "truck_drone (2, 3, 5), flat"]
    (two_cores,) = (pair for pair in flat if pair["cores"] == 2)
    assert make_tables.figure("speed.flat") == rate(float(np.median(two_cores["steps_per_second"]["ours"])))


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("truck_drone_basic", {"policy": "basic.policy", "greedy": "basic.dispatcher"}),
        ("truck_drone_same_day", {"policy": "same_day.policy", "greedy": "same_day.dispatcher"}),
        ("vrpd_tw", {"policy": "vrpd_tw.policy", "greedy": "vrpd_tw.dispatcher"}),
        ("dispatch_same_day", {"policy": "orders.policy", "threshold": "orders.threshold", "accept": "orders.accept"}),
        ("dispatch_ride_pooling", {"policy": "rides.policy", "cover": "rides.cover"}),
    ],
)
def test_a_shipped_policy_returns_what_the_pages_say(policy, named):
    card = json.loads((DOCS.parent / "jaxvrp/policies/shipped" / policy / "policy.json").read_text())
    assert card["figures"]["instances"] == 512
    for player, figure in named.items():
        assert make_tables.figure(figure) == f"{card['figures']['players'][player]['return']:.1f}", figure


def test_a_figure_has_one_record():
    """One that has a name is written by hand nowhere, and every name is used."""
    used = {name for page in PAGES for name in re.findall(r"<!--([\w.]+)-->\d", page.read_text())}
    assert used == set(make_tables.FIGURES)
    figures = {figure for name in used if len(figure := make_tables.figure(name)) > len("9.99")}
    for page, text in by_hand(PAGES).items():
        assert figures & set(re.findall(r"[\d.]*\d", text)) == set(), page.name


def test_figures_of_methods_have_a_record():
    """Returns and values that the README and `which.md` say of a method have a name."""
    for page, text in by_hand([DOCS.parent / "README.md", DOCS / "which.md"]).items():
        for line in (line for line in text.splitlines() if line.startswith("| ")):
            cell = line.strip("| ").rpartition(" | ")[2]
            assert not re.search(r"\d{2,}\.\d", cell), f"{page.name}: {cell}"


def test_speeds_say_whose_they_are():
    """Another machine has another speed."""
    table = re.compile(r"<!-- results: ((?:throughput|training|peers|learners)[\w/]*\.json).*? -->\n\| (.*?) \|")
    heads = table.findall("".join(page.read_text() for page in PAGES))
    assert len(heads) > 4
    for name, head in heads:
        machine = json.loads((RESULTS / name).read_text())["machine"]
        assert head.endswith(f"{machine['date'][:10]})"), name
        assert machine["cpu"].split("(")[0] in head, name


def test_results_are_those_that_a_page_shows():
    text = "".join(page.read_text() for page in PAGES)
    names = {path.name for path in RESULTS.glob("*.json")}
    assert len(names) <= 25
    assert {name for name in names if name not in text} <= {"guard_cpu.json"}, "benchmarks.guard reads that one"


def test_pictures_are_those_that_a_page_shows():
    text = "".join(page.read_text() for page in PAGES)
    assert {path.name for path in (DOCS / "images").iterdir() if f"images/{path.name}" not in text} == set()


def test_the_readme_fits_on_two_screens():
    assert len((DOCS.parent / "README.md").read_text().splitlines()) <= 120

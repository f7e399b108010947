"""Writes the tables of keys, parameters and results on the pages of this folder and in the README.

python docs/make_tables.py            # after a field, its default, range or sentence, or a result has changed
python docs/make_tables.py --check    # changes no file; exit status 1 if a page is not up to date

A table is named by the comment above it: `<!-- keys: package.module:Class -->` has the fields that a class of
configurations adds to those that it derives from, `<!-- parameters: NAME -->` the keywords of an environment's factory,
`<!-- parameters: NAME beyond BASE -->` those that the environment BASE does not have with the same default and range.
`<!-- entities: NAME KIND -->` has the features of a kind of entities of an environment; with `context of ROLE` as the
kind, those of a role's context; with `beyond BASE` those that BASE does not have alike. Of these the columns that are
named here are written; what a page has in further ones stays. `<!-- results: FILE -->` has what is in a file of
`benchmarks/results`; `<!-- results: FILE, batch 4096 -->` those rows of it alone, and `<!-- results: FILE; rows: policy
| random -->` those that begin so. `<!-- records: SET -->` has the players of all records on a frozen set in
`benchmarks/results/records`.

A figure in a text has its name, one of `FIGURES`, right before it: `<!--vrpd_tw.policy-->234.4`. It comes from one
record, on whatever pages it stands.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jaxvrp
from benchmarks import ablation, learning
from benchmarks.measuring.measure import Spread, rate, rates
from benchmarks.peers import training as learners
from jaxvrp.entities import seen_as
from jaxvrp.fields import accepted_values
from jaxvrp.policies.folder import find_run, read_card, shipped_policies
from train.settings.keys import as_typed, default_environment, environment_keys, scenario_default

PAGES = pathlib.Path(__file__).parent
README = PAGES.parent / "README.md"
RESULTS = PAGES.parent / "benchmarks" / "results"
MARKER = re.compile(r"<!-- (keys|parameters|entities|policies|records|results): (.+) -->")
COLUMNS = {
    "keys": ["key", "default", "range", "meaning"],
    "parameters": ["parameter", "default", "range", "meaning"],
    "entities": ["feature", "static", "meaning"],
    "policies": ["policy", "what it plays", "trained by", "return", "baselines"],
    "records": ["player", "figures", "CPU s a problem"],
}

CONTEXT_OF = "context of "

CARDS = "cards"
"""In place of a results file: the returns on the cards of shipped policies, a row for each policy."""


class Figure(NamedTuple):
    """Where a figure in a text comes from: a cell of a table of results, and how it is written.

    Attributes:
        table: a selection as in `<!-- results: SELECTION -->`, or `CARDS`.
        row: the first cell of its row.
        column: the head of its column.
        entry: of the numbers in the cell.
        scale: 1000 for milliseconds, -1 where the text says "below".
        digits: behind the point; None: as it stands in the cell, with its unit.
    """

    table: str
    row: str
    column: str
    entry: int = 0
    scale: float = 1.0
    digits: int | None = 1


CPU = "CPU s/instance"
LARGE = "(4, 20, 10): return"
LEARNED = "learning_cpu.json"
SCARCE = "quality_truck_drone_cpu.json, return"
BOUNDS = "quality_bounds_basic_cpu.json, return"
VRPD_TW = "quality_seeds_vrpd_tw_known_cpu.json, return"
METHODS = f"quality_methods_cpu.json, return, {CPU}"
SAME_DAY = "quality_information_same_day_cpu.json, return"
ORDERS = "quality_dispatch_cpu.json, value"
RIDES = "quality_dispatch_rides_cpu.json, value"
DARP = f"quality_darp_cpu.json, gap, {CPU}"
TSP_20, GAP_20 = f"quality_tsp_drone_cpu.json, gap, {CPU}", f"random_n20, 60 instances: gap, {CPU}"
TSP_50 = f"quality_tsp_drone_large_cpu.json, gap, {CPU}"
TOURS = "quality_truck_drone_tours_cpu.json, gap"
PCB = "quality_pcb_cpu.json, gap"
SPEED, ON_CORES = "peers_cpu.json, pairs", "our steps/s on 1, 2 cores"
AGAINST_NUMPY = "throughput_cpu.json, batch 4096"

FIGURES = {
    "basic.least": Figure(LEARNED, "policy", "return", entry=1),
    "basic.most": Figure(LEARNED, "policy", "return", entry=2),
    "basic.dispatcher": Figure(LEARNED, "greedy", "return"),
    "basic.policy": Figure(CARDS, "truck_drone_basic", "policy"),
    "scarce.policy": Figure(SCARCE, "policy", LARGE),
    "scarce.sampled": Figure(SCARCE, "policy, sampled", LARGE),
    "scarce.best_of_8": Figure(SCARCE, "policy, best of 8", LARGE),
    "scarce.dispatcher": Figure(SCARCE, "greedy", LARGE),
    "bounds.search": Figure(BOUNDS, "search, 10 s", LARGE),
    "bounds.dispatcher": Figure(BOUNDS, "greedy", LARGE),
    "vrpd_tw.policy": Figure(VRPD_TW, "seed 0", LARGE),
    "vrpd_tw.dispatcher": Figure(VRPD_TW, "greedy", LARGE),
    "vrpd_tw.policy_ms": Figure(METHODS, "policy", CPU, scale=1000),
    "vrpd_tw.best_of_8": Figure(METHODS, "policy, best of 8", "return"),
    "vrpd_tw.best_of_8_ms": Figure(METHODS, "policy, best of 8", CPU, scale=1000, digits=0),
    "vrpd_tw.planner": Figure(METHODS, "planner, 32 continuations", "return"),
    "vrpd_tw.planner_s": Figure(METHODS, "planner, 32 continuations", CPU),
    "vrpd_tw.search": Figure(METHODS, "search, 5 s", "return"),
    "vrpd_tw.search_s": Figure(METHODS, "search, 5 s", CPU),
    "same_day.policy": Figure(CARDS, "truck_drone_same_day", "policy"),
    "same_day.dispatcher": Figure(CARDS, "truck_drone_same_day", "greedy"),
    "same_day.planner": Figure(SAME_DAY, "planner, 8 continuations", "1: return"),
    "orders.policy": Figure(ORDERS, "policy", "value"),
    "orders.threshold": Figure(ORDERS, "threshold", "value"),
    "orders.accept": Figure(ORDERS, "accept", "value"),
    "rides.policy": Figure(RIDES, "policy", "value"),
    "rides.cover": Figure(RIDES, "cover", "value"),
    "rides.replan": Figure(RIDES, "replan (10 rounds)", "value"),
    "darp.search": Figure(DARP, "search, 300 rounds", "gap"),
    "darp.search_ms": Figure(DARP, "search, 300 rounds", CPU, scale=1000),
    "darp.policy": Figure(DARP, "policy", "gap"),
    "darp.policy_ms": Figure(DARP, "policy", CPU, scale=1000),
    "tsp_20.policy": Figure(TSP_20, "policy", GAP_20),
    "tsp_20.policy_ms": Figure(TSP_20, "policy", GAP_20, entry=1, scale=1000),
    "tsp_20.annealing": Figure(TSP_20, "annealing", GAP_20, scale=-1),
    "tsp_20.annealing_s": Figure(TSP_20, "annealing", GAP_20, entry=1, digits=2),
    "tsp_50.policy": Figure(TSP_50, "policy", "gap"),
    "tsp_50.policy_ms": Figure(TSP_50, "policy", CPU, scale=1000),
    "tours.policy": Figure(TOURS, "policy", "gap"),
    "pcb.annealing_least": Figure(PCB, "annealing in the same time", "afe: gap"),
    "pcb.annealing_most": Figure(PCB, "annealing in the same time", "adc0: gap"),
    "pcb.sac_least": Figure(PCB, "SAC", "adc2: gap"),
    "pcb.sac_most": Figure(PCB, "SAC", "adc0: gap"),
    "speed.flat": Figure(SPEED, "truck_drone (2, 3, 5), flat", ON_CORES, entry=1, digits=None),
    "speed.entities": Figure(SPEED, "truck_drone (2, 3, 5), entities", ON_CORES, entry=1, digits=None),
    "speed.large_flat": Figure(SPEED, "truck_drone (2, 20, 8), flat", ON_CORES, entry=1, digits=None),
    "speed.large_entities": Figure(SPEED, "truck_drone (2, 20, 8), entities", ON_CORES, entry=1, digits=None),
    "speed.against_numpy": Figure(AGAINST_NUMPY, "(2, 3, 5)", "ratio", digits=0),
    "speed.large_against_numpy": Figure(AGAINST_NUMPY, "(4, 20, 10)", "ratio", digits=0),
}

FIGURE = re.compile(r"<!--([\w.]+)-->(?:\d+(?:\.\d+)?(?: [kM]\b)?)?")
"""A name, and the figure behind it if there is one yet."""

Row = list[str]


def rows(kind: str, name: str) -> Iterator[Row]:
    """The first cells of each row of the table `<!-- KIND: NAME -->`."""
    makers = {
        "keys": _keys,
        "parameters": _parameters,
        "entities": _features,
        "policies": _policies,
        "records": _records,
    }
    return makers[kind](name)


def _keys(path: str) -> Iterator[Row]:
    module, _, attribute = path.partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    declared = inspect.get_annotations(cls)
    bases = (base for base in cls.__mro__[1:] if dataclasses.is_dataclass(base))
    shown_before = {field.name: field.metadata["help"] for base in bases for field in dataclasses.fields(base)}
    for field in (field for field in dataclasses.fields(cls) if field.name in declared):
        default = field.default_factory() if callable(field.default_factory) else field.default
        sentence = field.metadata["help"]
        repeated = shown_before.get(field.name) == sentence
        yield _row(field.name, default, accepted_values(cls, field), "as above" if repeated else sentence)


def _parameters(name: str) -> Iterator[Row]:
    env, _, base = name.partition(" beyond ")
    shown_there = list(_keywords(base)) if base else []
    yield from (row for row in _keywords(env) if row not in shown_there)


def _keywords(env: str) -> Iterator[Row]:
    scenario = scenario_default(env)
    for key in environment_keys(env, scenario, default_environment(env, scenario)):
        kind, _, name = key.name.partition(".")
        if kind == "env" and name not in ("name", "scenario"):
            yield _row(name, key.default, key.accepted, key.sentence)


def _features(name: str) -> Iterator[Row]:
    kind, _, base = name.partition(" beyond ")
    shown_there = list(_features_of(f"{base} {kind.partition(' ')[2]}")) if base else []
    yield from (row for row in _features_of(kind) if row not in shown_there)


def _features_of(name: str) -> Iterator[Row]:
    env_name, _, part = name.partition(" ")
    env = seen_as(jaxvrp.make(env_name), "entities")
    kinds = {kind.name: kind for kind in env.entity_kinds}
    if part.startswith(CONTEXT_OF):
        yield from _feature_rows(env.roles[part.removeprefix(CONTEXT_OF)].context)
        return
    yield from _feature_rows(kinds[part].static, "yes")
    yield from _feature_rows(kinds[part].dynamic, "")


def _feature_rows(features: Sequence[jaxvrp.Feature], *static: str) -> Iterator[Row]:
    for feature in features:
        yield [f"`{feature.name}`", *static, feature.meaning.replace("|", "\\|")]


def _policies(selection: str) -> Iterator[Row]:
    del selection
    for name in shipped_policies():
        card = read_card(find_run(name))
        policy, *others = [(player, f"{figures['return']:.1f}") for player, figures in card.figures["players"].items()]
        baselines = ", ".join(f"{player} {figure}" for player, figure in others)
        yield [f"`{name}`", card.about, f"`{card.training['command']}`", policy[1], baselines]


def _records(name: str) -> Iterator[Row]:
    for path in sorted((RESULTS / "records").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["set"]["name"] == name:
            player, figures = record["player"], record["figures"].items()
            title = f"policy `{player['policy']}`" if "policy" in player else player["method"]
            seconds = f", {player['seconds']:g} s" if "seconds" in player else ""
            cells = ", ".join(f"{figure} {value:.2f}" for figure, value in figures)
            yield [f"{title}{seconds}", cells, f"{record['seconds_per_problem']['cpu']:.2g}"]


def _row(name: str, default: Any, accepted: str, sentence: str) -> Row:
    choices = accepted.removeprefix("one of: ")
    if choices != accepted:
        accepted = ", ".join(f"`{choice}`" for choice in choices.split(", "))
    signs = accepted.replace(">=", "≥").replace("<=", "≤")
    return [f"`{name}`", f"`{as_typed(default)}`", signs, sentence.replace("|", "\\|")]


def result_table(selection: str) -> list[Row]:
    """Head and rows of the table `<!-- results: SELECTION -->`; its kind is the first word of the file, or its folder.

    Raises:
        KeyError: no row begins with a name that is chosen.
    """
    table, _, chosen = selection.partition("; rows: ")
    name, _, choice = table.partition(", ")
    result = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    head, *body = RESULT_TABLES[re.split("[_/]", name)[0]](result, choice)
    if not chosen:
        return [head, *body]
    by_name = {row[0]: row for row in body}
    return [head, *(by_name[name] for name in chosen.split(" | "))]


def _measured(result: Any, where: str | None = None) -> str:
    """Where and when, for figures that are another machine's on another day; where: by default its CPU."""
    cpu = re.sub(r"\(R\)| Processor", "", result["machine"]["cpu"])
    return f"({where or cpu}, {result['machine']['date'][:10]})"


def _throughput(result: Any, choice: str) -> list[Row]:
    cases = [case for case in result["cases"] if choice in ("", f"batch {case['batch']}")]
    rows = [[f"size {_measured(result)}", "batch", "JAX steps/s", "NumPy steps/s", "ratio", "compile"]]
    for case in cases:
        speeds = [rate(case["median"][player]) for player in ("jax", "numpy")]
        size = str(tuple(case["size"]))
        rows.append([size, str(case["batch"]), *speeds, f"{case['ratio']:.1f}", f"{case['compile_seconds']:.1f} s"])
    return rows


def _training(result: Any, choice: str) -> list[Row]:
    del choice
    rows = [[f"network {_measured(result)}", "size", "steps/s", "min - max", "rollout"]]
    for row in result["rows"]:
        speed = rates(Spread.of(row["steps_per_second"]))
        rows.append([row["network"], str(tuple(row["size"])), *speed, f"{row['rollout_share']:.0%}"])
    return rows


def _quality(result: Any, choice: str) -> list[Row]:
    """One table, or its columns `choice`; of several tables, the columns `choice` of each in one cell."""
    tables = result["tables"]
    if len(tables) == 1:
        (table,) = tables.values()
        columns = ["player", *choice.split(", ")] if choice else table[0]
        return [[row[table[0].index(column)] for column in columns] for row in table]
    head, *players = zip(*tables.values(), strict=True)
    indices = [head[0].index(column) for column in choice.split(", ")]
    rows = [["player", *(f"{name.rpartition(' = ')[2]}: {choice}" for name in tables)]]
    for lines in players:
        rows.append([lines[0][0], *(", ".join(line[index] for index in indices) for line in lines)])
    return rows


def _learning(result: Any, choice: str) -> list[Row]:
    del choice
    return learning.table(result["figures"], result["titles"])


def _ablation(result: Any, choice: str) -> list[Row]:
    """The returns and the columns `choice`."""
    head, *rows = ablation.table(result["records"], result["titles"])
    indices = [head.index(column) for column in ("changed", "return", *choice.split(", "))]
    return [[row[index] for index in indices] for row in (head, *rows)]


def _peers(result: Any, choice: str) -> list[Row]:
    """The part `choice` of the file; a row for each pair, with the figures on one core and on two."""
    rows = [[f"ours {_measured(result)}", "peer", "our steps/s on 1, 2 cores", "the peer's", "ratio", "goal"]]
    pairs: dict[tuple[str, str], list[Any]] = {}
    for pair in result[choice]:
        names = pair["ours"]["label"], f"{pair['peer']['label']} {pair['peer']['version']}"
        pairs.setdefault(names, []).append(pair)
    for names, measured in pairs.items():
        medians = ([Spread.of(pair["steps_per_second"][side]).median for pair in measured] for side in ("ours", "peer"))
        speeds = (", ".join(map(rate, each)) for each in medians)
        ratios = ", ".join(f"{pair['ratio']:.2f}" for pair in measured)
        rows.append([*names, *speeds, ratios, f"{measured[0]['goal']:g}"])
    return rows


def _learners(result: Any, choice: str) -> list[Row]:
    """Of the problem `choice`."""
    head, *rows = learners.table(result["training"])
    of_problem = ([row[1], *row[3:]] for row in rows if row[0] == choice)
    return [[f"learner {_measured(result)}", *head[3:]], *of_problem]


def _compiled(result: Any, choice: str) -> list[Row]:
    """Of the programs whose names begin with `choice`; batches of 4096."""
    sizes, times = {"logical_bytes": "MB"}, {"least_seconds_by_bandwidth": "us by bandwidth"}
    if any(row["least_seconds_by_launches"] for row in result["rows"]):
        times["least_seconds_by_launches"] = "us by launches"
    else:
        # A TPU: arrays lie in tiles, and most of them on the chip.
        sizes |= {"padded_bytes": "padded MB", "off_chip_bytes": "off-chip MB"}
    sizes["peak_bytes"] = "peak MB"
    rows = [["program", "kernels", *sizes.values(), "gathers", "copies", *times.values()]]
    for row in result["rows"]:
        if row["program"].startswith(choice):
            megabytes = [f"{row[name] / 1e6:.1f}" for name in sizes]
            counts = [str(row[name]) for name in ("gather", "copy")]
            least = [f"{1e6 * row[name]:.0f}" for name in times]
            rows.append([f"`{row['program'].partition(':')[2]}`", str(row["kernels"]), *megabytes, *counts, *least])
    return rows


def _device(result: Any, choice: str) -> list[Row]:
    """The part `choice`: rates by number of environments, or each row by itself."""
    rows = [row for row in result["rows"] if row["part"] == choice and "error" not in row]
    title = f"{choice} {_measured(result, result['machine']['driver'].partition(',')[0])}"
    if choice in ("steps", "training"):
        batches = sorted({row["batch"] for row in rows})
        rates = {(row["what"], row["batch"]): rate(row["steps_per_second"]) for row in rows}
        names = dict.fromkeys(row["what"] for row in rows)
        return [
            [title, *map(str, batches)],
            *([name, *(rates.get((name, batch), "-") for batch in batches)] for name in names),
        ]
    figures: dict[str, Callable[[Row], Row]] = {
        "parity": lambda row: [f"{row['share_as_on_cpu']:.1%}", f"{row['largest_difference']:.1g}"],
        "flags": lambda row: [rate(row["steps_per_second"]), f"{row['compile_seconds']:.1f}"],
        "command": lambda row: [f"{row['command_seconds']:.0f}", f"{row['figures']['policy']['return']:.1f}"],
    }
    heads = {
        "parity": ["environments", "largest difference"],
        "flags": ["steps/s", "compile s"],
        "command": ["s", "return"],
    }
    return [[title, *heads[choice]], *([row["what"], *figures[choice](row)] for row in rows)]


RESULT_TABLES = {
    "device": _device,
    "compiled": _compiled,
    "throughput": _throughput,
    "training": _training,
    "quality": _quality,
    "learning": _learning,
    "ablation": _ablation,
    "peers": _peers,
    "learners": _learners,
}


def figure(name: str) -> str:
    """A figure of `FIGURES` as the pages say it."""
    source = FIGURES[name]
    cell = _cell(source)
    if source.digits is None:
        return cell.split(", ")[source.entry]
    number = float(re.findall(r"-?\d[\d.]*", cell)[source.entry])
    return f"{source.scale * number:.{source.digits}f}"


def _cell(source: Figure) -> str:
    if source.table == CARDS:
        return str(read_card(find_run(source.row)).figures["players"][source.column]["return"])
    head, *body = result_table(source.table)
    (row,) = (row for row in body if row[0] == source.row)
    return row[head.index(source.column)]


def updated(page: str) -> str:
    """The text of a page with its tables, and the figures that have a name, written anew."""
    lines, written = page.splitlines(), []
    while lines:
        written.append(FIGURE.sub(lambda found: f"<!--{found[1]}-->{figure(found[1])}", lines.pop(0)))
        if found := MARKER.fullmatch(written[-1]):
            old = []
            while lines and lines[0].startswith("|"):
                old.append([cell.strip() for cell in lines.pop(0).strip("|").split(" |")])
            written += _lines(found[1], found[2], old)
    return "\n".join(written) + "\n"


def _lines(kind: str, name: str, old: Sequence[Row]) -> list[str]:
    """The lines of a table; `old` is what stood there."""
    if kind != "results":
        head = ["feature", "meaning"] if CONTEXT_OF in name else COLUMNS[kind]
        return _table(head, list(rows(kind, name)), old)
    head, *body = result_table(name)
    return [_line(head), "|" + "---|" * len(head), *map(_line, body)]


def _table(head: Row, new: Sequence[Row], old: Sequence[Row]) -> list[str]:
    """The lines of a table, with the cells of the old one beyond its head."""
    width = len(head)
    further_head = old[0][width:] if old else []
    further = {cells[0]: cells[width:] for cells in old}
    body = [cells + further.get(cells[0], [""] * len(further_head)) for cells in new]
    return [_line(head + further_head), "|" + "---|" * (width + len(further_head)), *map(_line, body)]


def _line(cells: Row) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; with `--check`, only name those that are not up to date. The exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if set(argv) - {"--check"}:
        print("usage: python docs/make_tables.py [--check]", file=sys.stderr)
        return 2
    paths = [*sorted(PAGES.glob("*.md")), README]
    pages = {path: updated(path.read_text(encoding="utf-8")) for path in paths}
    outdated = {path: text for path, text in pages.items() if path.read_text(encoding="utf-8") != text}
    for path, text in outdated.items():
        print(f"{path.name}: its tables are not up to date; run python docs/make_tables.py" if argv else path.name)
        if not argv:
            path.write_text(text, encoding="utf-8")
    return 1 if argv and outdated else 0


if __name__ == "__main__":
    sys.exit(main())

"""The documentation says what the code does: examples run; commands, links and tables are compared with the code."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import math
import pathlib
import re
import shlex
import sys
import tomllib
import types
import warnings

import jax
import pytest
import yaml

import jaxvrp
from jaxvrp import fields, registry
from jaxvrp.envs import darp
from jaxvrp.envs.darp.observation import NODE_SIZE
from jaxvrp.envs.pcb import Parameters, Pcb
from jaxvrp.envs.pcb.making import Supply
from jaxvrp.envs.pcb.sight import OBSERVATION_SIZE
from jaxvrp.envs.truck_drone import TruckDroneBasic

with warnings.catch_warnings():
    # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import distrax  # noqa: F401

from benchmarks.measure import Spread, rate
from train import config

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
MADE = {"boards", "wirings", "targets", "sizes", "source"}
"""Fields of `Pcb` that `make` fills."""

MINE = "my_package"
"""What the pages call the reader's own package."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of its first row, and the comment right above it."""

    language: str
    text: str
    line: int
    marker: tuple[str, str]


def marker_of(line: str) -> tuple[str, str]:
    found = re.fullmatch(r"<!-- (?:(\w+): )?(.*?) -->", line.strip())
    return (found[1] or "", found[2]) if found else ("", "")


def blocks(page: pathlib.Path) -> list[Block]:
    found, lines, start = [], page.read_text().splitlines(), None
    for at, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = at
            continue
        text = "\n".join(lines[start + 1 : at])
        found.append(Block(lines[start][3:].strip(), text, start + 2, marker_of(lines[start - 1])))
        start = None
    return found


def prose(page: pathlib.Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


def rows_below(page: pathlib.Path, kind: str) -> dict[str, list[list[str]]]:
    """The tables under `<!-- KIND: NAME -->`, by name: rows of cells, without the head."""
    tables, lines = {}, page.read_text().splitlines()
    for at, line in enumerate(lines):
        if marker_of(line)[0] == kind:
            tables[marker_of(line)[1]] = table_at(lines, at + 1)
    return tables


def table_at(lines: list[str], at: int) -> list[list[str]]:
    cells = []
    while at < len(lines) and lines[at].startswith("|"):
        cells.append([cell.strip() for cell in lines[at].strip().strip("|").split("|")])
        at += 1
    return cells[2:]


def examples() -> list[tuple[pathlib.Path, str]]:
    """Pages with Python blocks, once for the plain ones and once for each extra that others need.

    Blocks of the README with a name of their own are run by `test_readme.py`.
    """
    found = {}
    for page in PAGES:
        for block in blocks(page):
            kind, value = block.marker
            named = page.name == "README.md" and (kind == "example" or value.endswith(".py"))
            if block.language == "python" and not named:
                found.setdefault((page, value if kind == "needs" else ""), []).append(block)
    return list(found)


@pytest.mark.parametrize(("page", "need"), examples(), ids=lambda value: getattr(value, "name", value))
def test_examples_run(page, need, tmp_path, monkeypatch):
    if need and importlib.util.find_spec(need) is None:
        pytest.skip(f"this example needs the extra '{need}'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_FACTORIES", {kind: dict(names) for kind, names in registry._FACTORIES.items()})
    module = types.ModuleType("example_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    wanted = ("needs", need) if need else ("", "")
    for block in (block for block in blocks(page) if block.language == "python" and block.marker == wanted):
        # Blank lines, so that a traceback names the line of the page.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), module.__dict__)


def commands() -> list[list[str]]:
    """The words after `python -m` of every command line on any page."""
    lines = [line for page in PAGES for block in blocks(page) if block.language == "bash" for line in block.text.split("\n")]
    calls = [call for line in lines for call in line.split("&&")]
    words = [shlex.split(call, comments=True) for call in calls]
    return [word[word.index("-m") + 1 :] for word in words if "-m" in word]


OURS = sorted({tuple(words) for words in commands() if words[0].partition(".")[0] in ("jaxvrp", "train", "benchmarks")})


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_commands_exist_with_their_options(words, monkeypatch, capsys):
    module, *arguments = words
    told = help_of(module, arguments, monkeypatch, capsys)
    # The parameters of the reader's own environment are not known here.
    own = any(MINE in word for word in arguments)
    for word in arguments:
        name = word.partition("=")[0].strip("[]")
        if not re.match(r"--?[a-z]", name) or (own and name.startswith("--env.")):
            continue
        known = re.search(rf"(?<!\S){re.escape(name)}(?![\w.])", told.replace(",", " "))
        assert known or (name.startswith("--env.") and "--env.KEY" in told), f"{module} has no option {name}"
    for name in (word for word in arguments if word.endswith(".yaml")):
        assert (ROOT / name).is_file(), name


def help_of(module, arguments, monkeypatch, capsys):
    """What `--help` prints, with the arguments that decide which options there are."""
    deciding = []
    for name, value in zip(arguments, arguments[1:], strict=False):
        if name in ("--env", "--env.name", "--env.scenario") and MINE not in value:
            deciding += [name, value]
    package = importlib.util.find_spec(module).submodule_search_locations is not None
    main = importlib.import_module(f"{module}.__main__" if package else module).main
    monkeypatch.setattr(sys, "argv", [module, *deciding, "--help"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    return capsys.readouterr().out


def anchors(page: pathlib.Path) -> set[str]:
    """Of headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(there), f"{target}: no such heading"


def test_every_page_can_be_reached_from_the_index():
    linked = re.findall(r"\]\(([^)\s#]+)\)", (ROOT / "docs" / "index.md").read_text())
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= set(linked)


def code(cell: str) -> str:
    return cell.strip("`")


def own_fields(cls: type) -> dict[str, dataclasses.Field]:
    return {name: field for name, field in fields_of(cls).items() if name in cls.__dict__["__annotations__"]}


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
    for sign, bound in re.findall(r"([≥≤>]) (-?[\d.]+)", text):
        bound = int(bound) if whole else float(bound)
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


KEYS = rows_below(ROOT / "docs" / "trainer.md", "keys")


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
    path = ROOT / "docs" / f"{page}.md"
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
    tables = {name: rows for page in PARAMETERS for name, rows in rows_below(ROOT / "docs" / f"{page}.md", "observation").items()}
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
        named = set(re.findall(r'"(\w+)":', (ROOT / "jaxvrp/envs/pcb/reward.py").read_text()))
    else:
        key = jax.eval_shape(lambda: jax.random.key(0))
        named = set(jax.eval_shape(lambda key: jaxvrp.make(page).reset(key)[1].metrics, key))
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert named and {name for name in named if f"`{name}`" not in text} == set()


def test_the_contract_is_told_whole():
    text = (ROOT / "docs" / "environments.md").read_text()
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


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.name)
def test_results_are_told_as_they_were_measured(path):
    page = ROOT / "docs" / "benchmarks.md"
    assert path.name in page.read_text(), f"docs/benchmarks.md does not mention {path.name}"
    tables = rows_below(page, "results")
    kinds = {"throughput": throughput_rows, "training": training_rows, "quality": quality_rows}
    if path.name in tables:
        result = json.loads(path.read_text())
        assert tables[path.name] == list(kinds[path.name.partition("_")[0]](result))


def test_extras_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = {extra for page in PAGES for extra in re.findall(r"(?:jaxvrp|'\.)\[(\w+)\]", page.read_text())}
    assert told <= set(known), f"no extra {told - set(known)} in pyproject.toml"


def test_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["title"].startswith("jaxvrp")
    assert (citation["version"], citation["license"]) == (jaxvrp.__version__, "MIT")
    for reference in [citation, *citation["references"]]:
        assert reference["type"] and reference["title"] and reference["authors"]

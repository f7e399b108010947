"""The documentation's examples run; its commands, links and extras exist. Its tables: `test_docs_tables.py`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import itertools
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import types

import pytest
import yaml
from PIL import Image

import jaxvrp
import jaxvrp.show
from jaxvrp import registry
from jaxvrp.envs.dispatch.problem import day_file
from jaxvrp.envs.pcb import factory as pcb
from jaxvrp.envs.pcb import save
from jaxvrp.envs.truck_drone.problem import map_file
from jaxvrp_command.main import GROUPS, PROGRAMS
from jaxvrp_command.main import commands as words_of_jaxvrp
from train.algorithms import ALGORITHMS
from train.commands.launch import checked_learner
from train.run.evaluator import Evaluator
from train.settings.command_line import parse
from train.shown.tables import figures_table

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

NAMED = {("README.md", "simulator"), ("train_your_scenario.md", "my_package/my_module.py")}
"""Python blocks that a test of their own runs: page and name."""

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
    for row, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = row
            continue
        text = "\n".join(lines[start + 1 : row])
        found.append(Block(lines[start][3:].strip(), text, start + 2, marker_of(lines[start - 1])))
        start = None
    return found


def prose(page: pathlib.Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


def examples() -> list[tuple[pathlib.Path, str]]:
    """Pages with Python blocks, once for the plain ones and once for each extra that others need.

    `NAMED` ones are run below and by `test_tutorials.py`; `<!-- example: search -->` is a plain one.
    """
    found = {}
    for page in PAGES:
        for block in blocks(page):
            kind, value = block.marker
            named = (page.name, value) in NAMED
            if block.language == "python" and not named:
                found.setdefault((page, value if kind == "needs" else ""), []).append(block)
    return list(found)


@pytest.mark.parametrize(("page", "need"), examples(), ids=lambda value: getattr(value, "name", value))
@pytest.mark.slow(
    *("adapters.md-gymnasium", "adapters.md-gymnax", "adapters.md-jaxmarl", "adapters.md-jumanji"),
    *("compare_with_a_solver.md-pyvrp", "darp.md-", "dispatch.md-", "dispatch_days.md-", "replay.md-", "solve.md-"),
    *("training.md-", "truck_drone.md-", "tsp_drone.md-", "vrpd_tw.md-"),
)
def test_examples_run(page, need, registered_apart, tmp_path, monkeypatch):
    if need and importlib.util.find_spec(need) is None:
        pytest.skip(f"this example needs the extra '{need}'")
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("example_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    wanted = ("needs", need) if need else ("", "")
    for block in (block for block in blocks(page) if block.language == "python" and block.marker == wanted):
        # Blank lines, so that a traceback names the line of the page.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), module.__dict__)


def test_the_named_blocks_of_the_readme(capsys):
    named = {block.marker[1]: block.text for block in blocks(ROOT / "README.md")}
    exec(compile(named["simulator"], "README.md", "exec"), {})
    assert capsys.readouterr().out.split("\n")[0] == "(1024, 1) (1024, 4, 128) (1024, 4, 22)"
    assert (ROOT / shlex.split(named["main job"])[-1]).is_file()
    assert "constraints.txt" in named["tests"] and (ROOT / "constraints.txt").is_file()


def complete_environment() -> list[str]:
    """The lines of the environment that `environments.md` writes down whole."""
    shown = [block.text for block in blocks(ROOT / "docs" / "environments.md") if block.language == "python"]
    (text,) = (text for text in shown if "class Corridor(Environment)" in text)
    return text.splitlines()


def test_the_complete_environment_is_short():
    lines = complete_environment()
    assert lines[-1].startswith("    return build(Corridor"), "it ends with its factory"
    class_and_factory = lines[next(row for row, line in enumerate(lines) if line.startswith("class Corridor")) :]
    assert len(class_and_factory) < 80
    assert len([line for line in lines if line.strip()]) < 80, "with its imports and its data"


def test_the_toolbox_of_the_complete_environment_is_used(registered_apart, tmp_path, monkeypatch):
    shown = [block.text for block in blocks(ROOT / "docs" / "environments.md") if block.language == "python"]
    (toolbox,) = (text for text in shown if "toolbox = Toolbox(" in text)
    module = types.ModuleType("corridor")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("\n".join([*complete_environment(), toolbox]), module.__dict__)
    jaxvrp.register("corridor", module.make, toolbox=module.toolbox)
    evaluator = Evaluator(jaxvrp.make("corridor", length=5, max_steps=8), num_episodes=8, seed=0)
    figures = evaluator.baselines()
    assert figures["straight home"]["arrived"] == 1.0 > figures["random"]["arrived"]
    headlines = registry.card_of(evaluator.env).headlines
    assert figures_table(figures, headlines).splitlines()[0].split() == ["return", "arrived", "steps"]
    episode = evaluator.record(module.StraightHome())
    story = jaxvrp.show.export_episode(episode)["story"]
    assert [len(place["standings"]) for place in story["places"]] == [2, 2], "both arrive"
    jaxvrp.show.save(episode, tmp_path / "episode.png")
    with Image.open(tmp_path / "episode.png") as picture:
        assert min(picture.size) > 200


def commands() -> list[list[str]]:
    """The words after `python -m` of every command line on any page, and those that the command `jaxvrp` starts."""
    shown = [block for page in PAGES for block in blocks(page) if block.language == "bash"]
    calls = [call for block in shown for line in block.text.split("\n") for call in line.split("&&")]
    words = [shlex.split(call, comments=True) for call in calls]
    typed = [word[word.index("-m") + 1 :] for word in words if "-m" in word]
    return typed + [started for word in words if "jaxvrp" in word and (started := started_by(word))]


def started_by(words: list[str]) -> list[str]:
    """The module, and the words for it, that a command line with `jaxvrp` starts; none if it is answered at once."""
    first, *rest = words[words.index("jaxvrp") + 1 :]
    assert first in words_of_jaxvrp() or first.startswith("--"), f"no command {first}"
    if first in GROUPS and rest:
        return [GROUPS[first][1][rest[0]].removesuffix(".__main__"), *rest[1:]]
    return [PROGRAMS[first], *rest] if first in PROGRAMS else []


OURS = sorted(
    {tuple(words) for words in commands() if words[0].partition(".")[0] in ("jaxvrp", "train", "benchmarks", "tests")}
)


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_commands_exist_with_their_options(words, monkeypatch, capsys):
    module, *arguments = words
    help_text = help_of(module, arguments, monkeypatch, capsys)
    if module == "train.sweep":  # takes the keys of trainings as well
        help_text += help_of("train.mappo", arguments, monkeypatch, capsys)
    # The parameters of the reader's own environment are not known here.
    is_readers = any(MINE in word for word in arguments)
    for word in arguments:
        name = word.partition("=")[0].strip("[]")
        if not re.match(r"--?[a-z]", name) or (is_readers and name.startswith("--env.")):
            continue
        known = re.search(rf"(?<!\S){re.escape(name)}(?![\w.])", help_text.replace(",", " "))
        any_key = name.partition(".")[0] + ".KEY"
        assert known or ("." in name and any_key in help_text), f"{module} has no option {name}"
    for name in (word for word in arguments if word.endswith(".yaml")):
        assert (ROOT / name).is_file(), name


def test_exported_runs_were_trained_as_the_page_says():
    """With another configuration than that of the run, an export is refused."""
    page = ROOT / "docs" / "training.md"
    lines = [shlex.split(line) for block in blocks(page) if block.language == "bash" for line in block.text.split("\n")]
    trained = {line[line.index("--run_dir") + 1]: line for line in lines if "--run_dir" in line}
    exports = [line for line in lines if "train.export" in line]
    for line in exports:
        config = line[line.index("--config") + 1]
        assert config in trained[line[line.index("train.export") + 1]]
    assert exports


TRAININGS = [
    words
    for words in OURS
    if words[0].removeprefix("train.") in ALGORITHMS
    and not {"--resume", "--help"} & set(words)
    and MINE not in " ".join(words)
]


@pytest.mark.parametrize("words", TRAININGS, ids=" ".join)
@pytest.mark.slow(*(line for line in map(" ".join, TRAININGS) if "truck_drone" not in line))
def test_trainings_begin(words, monkeypatch, tmp_path):
    def boards_of_the_reader(path):
        assert pathlib.Path(path).stem in ("mine", "one", "two")
        save(tmp_path / "boards.npz", jaxvrp.make("pcb", num_boards=2).boards)
        return read_boards(tmp_path / "boards.npz")

    read_boards = pcb.read_boards
    monkeypatch.setattr(pcb, "read_boards", boards_of_the_reader)
    module, *arguments = words
    if "jaxmarl" in " ".join(arguments) and importlib.util.find_spec("jaxmarl") is None:
        pytest.skip("this training needs the extra 'jaxmarl'")
    config_class = ALGORITHMS[module.removeprefix("train.")].config_class
    launch = parse(config_class, arguments, prog=module, description="")
    checked_learner(launch.config, launch.env)  # keys that fit each other, the environment and the device


def help_of(module, arguments, monkeypatch, capsys):
    """What `--help` prints, with the arguments that decide which options there are."""
    deciding = []
    for name, value in itertools.pairwise(arguments):
        if name in ("--config", "--env", "--env.name", "--env.scenario") and MINE not in value:
            deciding += [name, value]
    package = importlib.util.find_spec(module).submodule_search_locations is not None
    main = importlib.import_module(f"{module}.__main__" if package else module).main
    monkeypatch.setattr(sys, "argv", [module, *deciding, "--help"])
    try:
        status = main()
    except SystemExit as left:
        status = left.code
    assert status == 0
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


@pytest.mark.parametrize("module", [map_file, day_file], ids=lambda module: module.FORMAT)
def test_a_message_names_the_page_that_describes_the_file(module, tmp_path):
    (file := tmp_path / "problem.json").write_text("{")
    with pytest.raises(ValueError, match="write a") as refused:
        (module.read_map if module is map_file else module.read_days)(file)
    page = re.search(r"docs/\w+\.md", str(refused.value))[0]
    assert f'"{module.FORMAT}"' in (ROOT / page).read_text()


def test_every_page_can_be_reached_from_the_index():
    docs = ROOT / "docs"
    linked = re.findall(r"\]\(([^)\s#]+)\)", (docs / "index.md").read_text())
    assert {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - {"index.md"} <= set(linked)


def test_extras_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = ("jaxvrp", "jaxvrp_command", "train", "benchmarks", "docs")
    sources = [
        path for package in packages for path in (ROOT / package).rglob("*.*") if path.suffix in (".py", ".yaml")
    ]
    texts = {path: path.read_text() for path in [*PAGES, *sources]}
    named = {extra for text in texts.values() for extra in re.findall(r"(?:'\.\[|installing\(['\"])(\w+)", text)}
    assert "export" in named <= set(known), f"no extra {named - set(known)} in pyproject.toml"
    # It is on no index: only a clone can be installed.
    assert [path for path, text in texts.items() if re.search(r"pip install '?jaxvrp|jaxvrp\[", text)] == []


def test_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["title"].startswith("jaxvrp")
    assert (citation["version"], citation["license"]) == (jaxvrp.__version__, "MIT")
    for reference in [citation, *citation["references"]]:
        assert reference["type"] and reference["title"] and reference["authors"]


def test_the_example_for_ray_solves_in_the_folder_where_it_was_called(tmp_path, monkeypatch, capsys):
    """Nodes of a cluster work in the folders in which they were started."""
    (here := tmp_path / "here").mkdir()
    (node := tmp_path / "node").mkdir()

    def elsewhere(function, *arguments):
        with contextlib.chdir(node):
            function(*arguments)

    ray = types.ModuleType("ray")
    ray.init, ray.get = list, list
    ray.remote = lambda **_: lambda task: types.SimpleNamespace(remote=functools.partial(elsewhere, task))
    monkeypatch.setitem(sys.modules, "ray", ray)
    solved = []

    def run(command, check, cwd=None):
        solved.append((pathlib.Path(cwd or "").absolute(), command[-1]))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "argv", ["solve_ray.py", "days", "plans"])
    runpy.run_path(str(ROOT / "docs" / "examples" / "solve_ray.py"))
    assert solved == [*((here, f"{shard}/16") for shard in range(1, 17)), (here, "plans")]
    monkeypatch.setattr(sys, "argv", ["solve_ray.py", "days"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / "docs" / "examples" / "solve_ray.py"))
    assert "required: out" in capsys.readouterr().err

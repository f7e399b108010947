"""The command `jaxvrp`: what it lists is what there is, it starts ours wherever it is called, mistakes are one line."""

import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

import jaxvrp
import jaxvrp_command
from jaxvrp.envs.dispatch.scenarios import SCENARIOS
from jaxvrp.io.command_line import program_name
from jaxvrp.policies.folder import shipped_policies
from jaxvrp.policies.networks import NETWORKS
from jaxvrp.spaces import Box, Discrete
from jaxvrp_command import list as listing
from jaxvrp_command import main, names, version
from jaxvrp_command.main import COMMON_NAMES, find_users_modules
from jaxvrp_command.names import ROOT
from train.algorithms import ALGORITHMS
from train.settings.config_file import shipped_names

HERE = pathlib.Path(__file__).parents[2]


def run(*words):
    """The exit status of the command in this process, which keeps its own program names and flags."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        try:
            main.main(list(words))
        except SystemExit as stopped:
            return stopped.code
        finally:
            assert program_name("train.mappo") == "python -m train.mappo"
    return 0


def apart(folder, *words):
    """The command in another process, with the user's folder before ours wherever Python looks."""
    changes = {"PYTHONPATH": os.pathsep.join([str(folder), str(HERE)]), "JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, *words]
    return subprocess.run(argv, cwd=folder, env={**os.environ, **changes}, capture_output=True, text=True, check=False)


def built_in(kind):
    """The registered names that are ours; tests register others."""
    entries = jaxvrp.registry._ENTRIES[kind].items()
    return {name for name, entry in entries if isinstance(entry.factory, str)}


def test_what_is_listed_is_what_there_is():
    for kind in ("environment", "scenario"):
        assert {name for name, _ in names.registered(kind)} == built_in(kind)
    scenarios = {("truck_drone", name) for name in built_in("scenario")} | {("dispatch", name) for name in SCENARIOS}
    assert [row[:2] for row in names.scenarios()] == sorted(scenarios)
    kinds = {Discrete: "discrete actions", Box: "continuous actions"}
    assert [row[:2] for row in names.algorithms()] == [(name, kinds[each.actions]) for name, each in ALGORITHMS.items()]
    assert [name for name, _ in names.networks()] == list(NETWORKS)
    assert [name for name, _ in names.configurations()] == shipped_names()
    assert [name for name, *_ in names.policies()] == shipped_policies()


def test_benchmarks_that_are_listed_are_the_programs_that_there_are():
    folder = HERE / "benchmarks"
    paths = [*folder.glob("*.py"), *folder.glob("*/__main__.py")]
    files = {path for path in paths if "\ndef main(" in path.read_text()}
    programs = {path.parent.name if path.stem == "__main__" else path.stem for path in files}
    assert set(names.programs("benchmarks")) == programs
    assert list(names.programs("benchmarks/records")) == ["check", "run", "sets"]  # checkers run without jaxvrp


def test_scenarios_say_what_they_are():
    sentences = [sentence for rows in (names.registered("environment"), names.scenarios()) for *_, sentence in rows]
    assert len(set(sentences)) == len(sentences)


def test_every_name_has_a_sentence():
    for title, (_, rows) in names.SECTIONS.items():
        for name, *_, text in rows():
            assert len(text) > 10, f"{title}: {name}"
            assert text.count("`") == 0


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_is_aligned_and_narrow_enough(width):
    lines = listing.page(list(names.SECTIONS), width).splitlines()
    assert max(map(len, lines)) <= width
    algorithms = listing.page(["algorithms"], 200).splitlines()[1:]
    assert {line.index(" actions  ") for line in algorithms if "continuous" in line} == {
        algorithms[-1].index(" actions")
    }
    sentences = [sentence for *_, sentence in names.algorithms()]
    assert len({line.index(sentences[i]) for i, line in enumerate(algorithms)}) == 1


@pytest.mark.parametrize("words", [["--help"], ["list"], ["--version"], ["train", "--help"], ["bench"]], ids=" ".join)
def test_what_is_quick_imports_no_jax(words, tmp_path):
    script = "import sys; from jaxvrp_command.main import main; main(sys.argv[1:]); assert 'numpy' not in sys.modules"
    done = apart(tmp_path, "-c", script, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr


def test_versions(capsys):
    assert run("version") == 0
    versions = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert versions["jaxvrp"].startswith(jaxvrp.__version__) and str(HERE) in versions["jaxvrp"]
    assert versions["jax"] == importlib.metadata.version("jax")
    assert versions["jaxlib"] == importlib.metadata.version("jaxlib")
    assert versions["devices"] == "2 x cpu (cpu)", "tests have two"
    assert versions["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")


def test_devices_that_cannot_be_found_are_one_line(monkeypatch):
    def none():
        raise RuntimeError("Unable to initialize\nbackend 'tpu'")

    monkeypatch.setattr("jax.devices", none)
    assert version.devices() == "none: Unable to initialize backend 'tpu'"


def test_every_word_starts_something():
    modules = [*main.PROGRAMS.values(), *(module for _, group, _ in main.GROUPS.values() for module in group.values())]
    for module in modules:
        assert callable(importlib.import_module(module).main), module
    assert set(names.programs("train").values()) <= set(modules), "each program of `train` is a word"


MISTAKES = {
    "trian": "unknown command 'trian'; did you mean 'train'; see jaxvrp --help",
    "walk": "unknown command 'walk'; known: bench, evaluate, export, list, plan, play, plot, replay, solve, sweep, t",
    "train mapo": "unknown algorithm 'mapo'; did you mean 'mappo'; see jaxvrp train --help",
    "bench thruput": "unknown benchmark 'thruput'; did you mean 'throughput'; see jaxvrp bench --help",
    "list polices": "unknown list 'polices'; did you mean 'policies'; see jaxvrp list --help",
    "list --all": "unrecognized arguments: --all; see jaxvrp list --help",
    "evaluate": "the following arguments are required: --run; see jaxvrp evaluate --help",
    "train mappo num_envs 4": "unrecognized arguments: num_envs 4; see jaxvrp train mappo --help",
    "train td3 --resume runs/none": "runs/none is no run folder",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words, capsys):
    assert run(*words.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {MISTAKES[words]}") and captured.err.count("\n") == 1
    assert not captured.out


def test_a_program_is_called_as_it_was_started():
    assert program_name("train.mappo") == "python -m train.mappo"
    assert main.program_names()["train.mappo"] == "jaxvrp train mappo"
    assert main.program_names()["train.play"] == "jaxvrp play"
    assert main.program_names()["jaxvrp_command.list"] == "jaxvrp list"
    assert main.program_names()["benchmarks.quality"] == "jaxvrp bench quality"


@pytest.mark.parametrize(
    ("words", "searches"), [("solve", True), ("plan", True), ("bench solving", True), ("evaluate", False)]
)
def test_programs_that_search_are_started_as_such(words, searches, monkeypatch):
    started = []
    monkeypatch.setattr("train.commands.entry.entry", lambda main, *, searches: started.append(searches))
    assert run(*words.split()) == 0
    assert started == [searches]


def test_no_words_are_a_question_for_help(capsys):
    assert run() == 0
    page = capsys.readouterr().out
    for name, about in main.commands().items():
        assert f"\n  {name} " in page and about[:30] in page


@pytest.mark.parametrize("group", ["train", "bench"])
def test_help_of_a_group_names_all(group, capsys):
    assert run(group, "--help") == 0
    page = capsys.readouterr().out
    programs = main.GROUPS[group][1]
    for name in programs:
        assert f"\n  {name} " in page
    assert run(group, next(iter(programs)), "--help") == 0
    assert f"usage: jaxvrp {group} " in capsys.readouterr().out


def test_ctrl_c_before_a_program_begins(monkeypatch, capsys):
    def interrupted(module, words):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "_start", interrupted)
    assert run("evaluate") == 130
    assert capsys.readouterr().err == "interrupted; nothing had begun\n"


@pytest.mark.parametrize("words", ["--help", "list", "version", "train", "trian"])
def test_a_full_device_a_reader_that_has_gone_and_a_removed_folder(words, tmp_path):
    """Without JAX, which stands in no path here."""
    here = tmp_path / "here"
    here.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); from jaxvrp_command.main import main; main(sys.argv[1:])"
    environment = {"PYTHONPATH": str(HERE), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-S", "-c", script, words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, cwd=here, env=environment, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1, done.stderr


def test_a_program_starts_where_there_is_no_folder(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); from jaxvrp_command.main import main; main(sys.argv[1:])"
    for words, says in {
        "solve day.txt": "error: cannot read day.txt: No such file or directory; give another file\n",
        "replay --run darp": "error: the working directory was removed; change to another one\n",
    }.items():
        done = apart(here, "-c", script, *words.split())
        here.mkdir()
        assert (done.returncode, done.stderr) == (2, says)


def test_programs_start_without_docstrings(tmp_path):
    done = apart(tmp_path, "-OO", "-m", "jaxvrp", "evaluate", "--run", "none")
    assert done.returncode == 2 and done.stderr.startswith("error: none is no run folder"), done.stderr


@pytest.fixture
def users_folder(tmp_path):
    """A folder with files that are called as packages of ours, and a module with an environment."""
    for name in COMMON_NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user\\'s own file was run')\n")
    return tmp_path


@pytest.mark.slow
def test_a_folder_with_a_train_py(users_folder):
    """Imports of ours are of ours, of both packages; without the command, they are not."""
    done = apart(users_folder, "-m", "jaxvrp", "bench", "throughput", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: jaxvrp bench throughput ") and not done.stderr
    assert apart(users_folder, "-c", "import train").returncode == 1
    script = "from jaxvrp_command import main; main.import_packages(); import train.algorithms as a; print(a.__file__)"
    done = apart(users_folder, "-c", script)
    assert done.stdout.strip() == str(HERE / "train" / "algorithms.py"), done.stderr


def test_modules_of_the_user_are_found_last(users_folder, monkeypatch):
    (users_folder / "users_own_module_of_the_tests.py").write_text("")
    monkeypatch.chdir(users_folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(users_folder))])
    assert importlib.util.find_spec("users_own_module_of_the_tests") is None
    find_users_modules()
    assert sys.path[-1] == str(users_folder)
    assert importlib.util.find_spec("users_own_module_of_the_tests") is not None
    find_users_modules()
    assert sys.path.count(str(users_folder)) == 1


def test_the_script_is_declared_and_packaged():
    settings = tomllib.loads((HERE / "pyproject.toml").read_text())
    module, _, function = settings["project"]["scripts"]["jaxvrp"].partition(":")
    assert getattr(importlib.import_module(module), function) is main.main
    assert pathlib.Path(jaxvrp_command.__file__).parent.parent == ROOT == HERE
    assert "jaxvrp*" in settings["tool"]["setuptools"]["packages"]["find"]["include"]
    assert not any(
        pattern.startswith("benchmarks") for pattern in settings["tool"]["setuptools"]["packages"]["find"]["include"]
    )


def test_benchmarks_need_a_clone(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(main, "ROOT", tmp_path)
    assert run("bench", "throughput") == 2
    assert capsys.readouterr().err.startswith("error: jaxvrp bench needs a clone of the repository")

"""The house as designed: no import circle, arrows one way, nothing outside an environment's folder that names it."""

import ast
import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jaxvrp import registered

ROOT = pathlib.Path(__file__).parents[1]
TOPS = ("jaxvrp", "train", "benchmarks", "jaxvrp_command")

LAYERS = (
    (
        "jaxvrp.geography",
        "jaxvrp.io",
        "jaxvrp.plausible",
        "jaxvrp.rows",
        "jaxvrp.spaces",
        "jaxvrp.serialization",
        "jaxvrp.story",
    ),
    ("jaxvrp.fields", "jaxvrp.actions", "jaxvrp.orders"),
    ("jaxvrp.environment",),
    ("jaxvrp.actor", "jaxvrp.entities", "jaxvrp.memory", "jaxvrp.turns"),
    ("jaxvrp.episodes", "jaxvrp.vectorize"),
    ("jaxvrp.card", "jaxvrp.players", "jaxvrp.problems", "jaxvrp.toolbox"),
    ("jaxvrp.registry", "jaxvrp.testing"),
    ("jaxvrp.randomized", "jaxvrp.notebook", "jaxvrp.policies", "jaxvrp.search"),
    ("jaxvrp.show.common", "jaxvrp.show.reasons", "jaxvrp.show.sheets", "jaxvrp.show.story_format"),
    ("jaxvrp.show.drawing",),
    ("jaxvrp.envs",),
    ("jaxvrp.envs.*.toolbox", "jaxvrp.envs.*.card", "jaxvrp.envs.*.players"),
    ("jaxvrp.show", "jaxvrp.adapters"),
    ("train.learning.sharding", "train.learning.vectors"),
    ("train.settings",),
    ("train.learning.learner",),
    ("train.on_policy", "train.off_policy"),
    ("train.algorithms",),
    ("train.run",),
    ("train.shown",),
    ("train.commands",),
    ("train.solving",),
    ("train",),
    ("benchmarks",),
    ("jaxvrp_command", "jaxvrp.__main__"),
)
"""From the ground up: a module imports its own layer and those before it. Of the names that fit, the longest counts."""

RULES = ("rules", "world", "physics", "schedule", "geometry", "wirelength", "measure")
"""Modules of environments that know the world alone."""


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))}


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those inside functions too; not those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not is_for_type_checkers(child):
            yield from import_statements(child)


def imported(path: pathlib.Path) -> set[str]:
    """Full names of what a file imports: modules, and names in modules."""
    names = set()
    for statement in import_statements(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif statement.module:
            names |= {statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)}
    return names


@functools.cache
def all_imported() -> dict[str, set[str]]:
    """What each module imports; read by the first test that asks, as every process of the tests collects this file."""
    return {module: imported(path) for module, path in PATHS.items()}


def all_arrows() -> dict[str, set[str]]:
    """The other modules of ours among these."""
    return {module: {name for name in names if name in PATHS} - {module} for module, names in all_imported().items()}


def is_face(module: str) -> bool:
    """Whether it is a package's `__init__`, which only hands names on."""
    return PATHS[module].name == "__init__.py"


def circle_from(start: str, arrows: dict[str, set[str]]) -> list[str] | None:
    """A way of imports that leads from a module back to it."""
    ways, reached = [[start]], set()
    while ways:
        way = ways.pop()
        for following in arrows[way[-1]]:
            if following == start:
                return [*way, start]
            if following not in reached:
                reached.add(following)
                ways.append([*way, following])
    return None


def test_no_import_circle():
    arrows = {
        module: {name for name in names if not is_face(name)}
        for module, names in all_arrows().items()
        if not is_face(module)
    }
    circles = [circle for module in arrows if (circle := circle_from(module, arrows))]
    assert not circles, "\n".join(" -> ".join(circle) for circle in circles[:5])


def test_a_circle_would_be_found():
    assert circle_from("a", {"a": {"b"}, "b": {"c", "d"}, "c": {"c"}, "d": {"a"}}) == ["a", "b", "d", "a"]
    assert circle_from("a", {"a": {"b"}, "b": {"c"}, "c": {"b"}}) is None


def fits(module: str, pattern: str) -> bool:
    parts, wanted = module.split("."), pattern.split(".")
    return len(parts) >= len(wanted) and all(w in ("*", p) for p, w in zip(parts, wanted, strict=False))


def layer_of(module: str) -> int:
    found = [
        (len(name.split(".")), number) for number, names in enumerate(LAYERS) for name in names if fits(module, name)
    ]
    assert found, f"{module} is in no layer; say in LAYERS where it belongs"
    return max(found)[1]


MODULES = [module for module in PATHS if not (is_face(module) and module in ("jaxvrp", "jaxvrp.show"))]


def test_arrows_run_one_way():
    arrows = all_arrows()
    upward = [
        f"{module} -> {name}"
        for module in MODULES
        for name in arrows[module]
        if name in MODULES and layer_of(name) > layer_of(module)
    ]
    assert not upward, "\n".join(upward)


SHARED = {"truck_and_drone"}
"""Rooms of what several environments share: no environments, and they import none."""


def environment_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if parts[:2] == ["jaxvrp", "envs"] and len(parts) > 2 and parts[2] not in SHARED else None


def test_no_two_environments_import_each_other():
    for module, names in all_imported().items():
        others = {environment_of(name) for name in names} - {None, environment_of(module)}
        assert not environment_of(module) or not others, f"{module} imports {others}"


def test_the_simulator_and_the_learners_know_no_environment():
    """By import; environments are made by name, and drawn by their toolbox."""
    for module, names in all_imported().items():
        if environment_of(module) is None and not module.startswith("benchmarks"):
            assert not any(environment_of(name) for name in names), module


INSIDE = ("train.settings", "train.run", "train.shown", "train.commands", "train.solving")
"""What programs reach through the public face of `train`."""


def test_benchmarks_import_the_public_face_of_the_learners():
    for module, names in all_imported().items():
        if module.startswith("benchmarks"):
            assert not any(name.startswith(INSIDE) for name in names), module


def test_what_learns_and_runs_draws_nothing():
    for module, names in all_imported().items():
        if module.startswith(
            ("train.settings", "train.on_policy", "train.off_policy", "train.algorithms", "train.run")
        ):
            drawing = {name for name in names if name.startswith("jaxvrp.show")}
            assert not drawing, f"{module} imports {drawing}"


LEARNING = """
import sys
from jaxvrp import registered, registry
from train import PPOConfig, make_train
import train.off_policy.trainer

registry.all_cards()
for name in registered():
    registry.resolve(name)
make_train(PPOConfig(env={"name": "truck_drone"}, num_devices=1))
print(*(name for name in sys.modules if name.startswith(("jaxvrp", "train"))))
"""

NOT_LEARNED_WITH = {
    *("show", "replay", "story", "adapters", "search", "shown", "commands", "run"),
    *("toolbox", "players", "plan", "reasons", "notebook", "pictures", "baselines", "annealing", "played"),
}
"""Parts of the names of modules that draw, search, tell, or read and write what is not learned from."""


def test_a_training_loads_what_it_learns_from():
    """Of every environment the rules and the card; `jaxvrp.toolbox`, `players` and `notebook` are types alone."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, "-c", LEARNING]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) - {"jaxvrp.toolbox", "jaxvrp.players", "jaxvrp.notebook"}
    assert {"jaxvrp.envs.truck_drone.card", "jaxvrp.envs.darp.rules", "train.on_policy.trainer"} <= loaded
    assert not {name for name in loaded if set(name.split(".")) & NOT_LEARNED_WITH}


def test_the_public_face_of_the_learners_is_there():
    import train

    assert all(getattr(train, name) is not None for name in train.__all__)
    with pytest.raises(AttributeError, match="module 'train' has no attribute 'nothing'"):
        getattr(train, "nothing")  # noqa: B009


def strings(path: pathlib.Path) -> Iterator[str]:
    """All texts of a file, except docstrings and other texts that stand alone."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


GENERAL = [
    module
    for module in PATHS
    if module.startswith(("train", "jaxvrp.policies", "jaxvrp.show", "jaxvrp.geography", "jaxvrp.io", "jaxvrp.testing"))
    or module
    in ("benchmarks.throughput", "benchmarks.training", "benchmarks.measuring.measure", "benchmarks.quality.__main__")
]
DEFAULTS = {"train.settings.config", "train.settings.command_line", "benchmarks.throughput"}
"""Where an environment may be named: what is played if nothing is said, and examples in messages."""


@pytest.mark.parametrize("module", GENERAL)
def test_what_serves_all_environments_names_none_and_no_metric_of_one(module):
    from jaxvrp.registry import all_cards

    names = set(registered()) | set(registered("scenario")) if module not in DEFAULTS else set()
    for card in all_cards().values():
        names |= {headline.metric for headline in card.headlines} - {"overlap"}
    found = {text for text in strings(PATHS[module]) if text in names}
    assert not found, f"{module} names {found}"


@pytest.mark.parametrize("library", ["orbax", "tensorboardX", "wandb"])
def test_some_libraries_are_imported_by_one_file(library):
    users = [module for module, names in all_imported().items() if any(name.split(".")[0] == library for name in names)]
    assert len(users) == 1, users


def test_rules_know_neither_observations_nor_rewards():
    for module, names in all_imported().items():
        if environment_of(module) and module.split(".")[-1] in RULES:
            beyond = {name for name in names if set(name.split(".")) & {"observation", "reward", "pictures", "replay"}}
            assert not beyond - {"jaxvrp.show"}, f"{module} imports {beyond}"


def test_pictures_are_imported_only_where_something_is_drawn():
    """matplotlib and pillow stand inside functions, and so does tqdm in the simulator: importing it is quick."""
    for module, path in PATHS.items():
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {
            name
            for node in top
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        late = {"matplotlib", "PIL"} | ({"tqdm"} if module.startswith("jaxvrp") else set())
        assert not {name for name in names if name and name.split(".")[0] in late}, module


def test_only_toolboxes_and_commands_import_pictures_of_environments():
    for module, names in all_imported().items():
        folder = ".".join(module.split(".")[:3])
        inside = environment_of(module) and module.startswith(f"{folder}.pictures")
        if not inside and module.split(".")[-1] not in ("toolbox", "__main__"):
            drawing = {name for name in names if environment_of(name) and "pictures" in name.split(".")}
            assert not drawing, f"{module} imports {drawing}"


MOST_MEMBERS = 24


def test_the_contract_fits_on_a_page():
    from jaxvrp import Environment

    members = [name for name in vars(Environment) if not name.startswith("_")]
    assert len(members) <= MOST_MEMBERS, members


PRONOUNS = {
    *("told", "own", "one", "mine", "theirs", "ours", "it", "its", "itself", "them", "us"),
    *("everything", "something", "thing", "what", "who", "which", "whose"),
}
PUBLISHED = {("jaxvrp/envs/flying_sidekicks/report.py", "who"), ("jaxvrp/orders/visits.py", "what")}
"""Fields that stand in plans and in users' programs under these names."""


def pronouns(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each pronoun that a program assigns, takes as an argument or defines."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
            ) if name in PRONOUNS:
                yield node.lineno, name


def test_no_name_is_a_pronoun():
    """A name says what its value is, in the words of the field."""
    found = []
    for path in (path for top in (*TOPS, "docs", "notebooks", "tests") for path in sorted((ROOT / top).rglob("*.py"))):
        where, names = path.relative_to(ROOT).as_posix(), pronouns(path.read_text(encoding="utf-8"))
        found += [f"{where}:{line}: {name}" for line, name in names if (where, name) not in PUBLISHED]
    assert not found, "\n".join(found)


def test_a_pronoun_would_be_found():
    text = "def own(it, *us):\n    one, self.told = it\nclass thing:\n    what: str\nother(which=own.its)"
    assert set(pronouns(text)) == {(1, "own"), (1, "it"), (1, "us"), (2, "one"), (2, "told"), (3, "thing"), (4, "what")}

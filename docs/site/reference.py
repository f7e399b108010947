"""The pages of the reference: which modules each of them shows, from their docstrings."""

from __future__ import annotations

import fnmatch
import itertools
from pathlib import Path

from links import ROOT


def _from_the_rules_on(env: str) -> list[str]:
    """Patterns for the modules of an environment, what one needs first coming first."""
    firsts = ("env", "factory", "scenarios.*", "problem.*", "baselines.*", "*")
    return [f"jaxvrp.envs.{env}.{first}" for first in firsts]


REFERENCE = {
    "The contract": (
        "contract",
        ["jaxvrp.environment", "jaxvrp.memory", "jaxvrp.spaces", "jaxvrp.actor", "jaxvrp.actions"],
    ),
    "Making and checking environments": (
        "making",
        [
            "jaxvrp.registry",
            "jaxvrp.fields",
            "jaxvrp.randomized",
            "jaxvrp.card",
            "jaxvrp.players",
            "jaxvrp.problems",
            "jaxvrp.toolbox",
            "jaxvrp.search.*",
            "jaxvrp.serialization",
            "jaxvrp.testing",
        ],
    ),
    "Playing": ("playing", ["jaxvrp.vectorize", "jaxvrp.episodes", "jaxvrp.entities", "jaxvrp.rows", "jaxvrp.turns"]),
    "Replay and notebooks": ("replay", ["jaxvrp.story", "jaxvrp.show.*", "jaxvrp.notebook"]),
    "truck_drone": ("truck_drone", _from_the_rules_on("truck_drone")),
    "darp": ("darp", _from_the_rules_on("darp")),
    "dispatch": ("dispatch", _from_the_rules_on("dispatch")),
    "tsp_drone": ("tsp_drone", [*_from_the_rules_on("tsp_drone"), *_from_the_rules_on("truck_and_drone")]),
    "truck_drone_tours": ("truck_drone_tours", _from_the_rules_on("truck_drone_tours")),
    "flying_sidekicks": ("flying_sidekicks", _from_the_rules_on("flying_sidekicks")),
    "pcb": ("pcb", _from_the_rules_on("pcb")),
    "Adapters": ("adapters", ["jaxvrp.adapters.*"]),
    "Files and messages": ("files", ["jaxvrp.io.*", "jaxvrp.geography.*", "jaxvrp.orders.*", "jaxvrp.plausible"]),
    "Learners": ("learners", ["train.*", "train.on_policy.*", "train.off_policy.*"]),
    "Policies": ("policies", ["jaxvrp.policies.*"]),
    "Runs": ("runs", ["train.settings.*", "train.run.*", "train.shown.*", "train.commands.*", "train.solving.*"]),
}
"""`{title: (file, patterns of modules)}`. A module is on the page whose pattern that fits it is the longest."""


def modules() -> list[str]:
    """All that has something to say: modules of `jaxvrp` and `train` with functions or classes that are public."""
    found = []
    for top in ("jaxvrp", "train"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if path.stem not in ("__init__", "__main__") and _has_public_names(path):
                found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def _has_public_names(path: Path) -> bool:
    lines = path.read_text(encoding="utf-8").splitlines()
    return any(line.startswith(("def ", "class ")) and not line.split()[1].startswith("_") for line in lines)


def page_of(module: str) -> tuple[str, int]:
    """The title of the page that shows a module, and the place there of the pattern that fits it.

    Raises:
        ValueError: none does.
    """
    fitting = [
        (len(pattern), title, place)
        for title, (_, patterns) in REFERENCE.items()
        for place, pattern in enumerate(patterns)
        if fnmatch.fnmatchcase(module, pattern)
    ]
    if not fitting:
        raise ValueError(f"no page of the reference shows {module}; name it in docs/site/reference.py")
    return max(fitting)[1:]


def reference_pages() -> dict[str, str]:
    """`{place on the site: Markdown}`, with the list of all."""
    placed = sorted((*page_of(module), module) for module in modules())
    shown = {title: [module for page, _, module in placed if page == title] for title in REFERENCE}
    pages, contents = {}, []
    for title, (name, _) in REFERENCE.items():
        blocks = "\n\n".join(_block(module, _common_package(shown[title])) for module in shown[title])
        pages[f"reference/{name}.md"] = f"# {title}\n\n{blocks}\n"
        contents.append(f"| [{title}]({name}.md) | {', '.join(f'`{module}`' for module in shown[title])} |")
    head = "# Reference\n\nWhat the docstrings say, by module. Shapes are in brackets after the dtype: `f32[D, 2]`.\n"
    table = "\n".join(["", "| page | modules |", "|---|---|", *contents, ""])
    return {"reference/index.md": head + table, **pages}


def _common_package(names: list[str]) -> str:
    """The longest package that all modules are in, with a dot behind it; empty if there is none."""
    parts = zip(*(name.split(".")[:-1] for name in names), strict=False)
    shared = itertools.takewhile(lambda part: len(set(part)) == 1, parts)
    return "".join(f"{part[0]}." for part in shared)


def _block(module: str, package: str) -> str:
    """A module under its name within the page's package: the whole name would not fit beside the page."""
    whole = f"`{module}`" if package.count(".") > 1 else ""
    return f"## `{module.removeprefix(package) if whole else module}`\n\n{whole}\n\n::: {module}"

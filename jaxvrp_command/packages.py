"""Our packages `train` and `benchmarks`, whatever else is called so where Python looks."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
"""The folder that holds all our packages: a checkout, or `site-packages`."""

COMMON_NAMES = ("train", "benchmarks")
"""Packages of ours that are called as a user's own file may be."""


def use_ours() -> None:
    """Import the packages with `COMMON_NAMES` from beside this one.

    A file `train.py` in the folder where somebody starts, or in one that `PYTHONPATH` names, would go first. Modules
    in a package are found by way of the package, so that it is enough to import the packages themselves.
    """
    for name in COMMON_NAMES:
        init = ROOT / name / "__init__.py"
        if not init.is_file():  # benchmarks, where the package is installed
            continue
        if getattr(sys.modules.get(name), "__file__", None) == str(init):
            continue
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


def alone(module: str) -> Any:
    """A module that imports nothing of ours, without the package around it, which would import JAX."""
    if module in sys.modules:
        return sys.modules[module]
    spec = importlib.util.spec_from_file_location(module, ROOT.joinpath(*module.split(".")).with_suffix(".py"))
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def find_users_modules() -> None:
    """Let dotted paths lead to modules in the folder where the user starts; it is the last that is looked in.

    `python -m` has it first, a script not at all. Python's option `-P` leaves it out, and is heeded.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed
        return
    if not sys.flags.safe_path and here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def package_version() -> str:
    """The version of the package that runs, which need not be the one that is installed."""
    text = pathlib.Path(ROOT, "jaxvrp", "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found, "jaxvrp/__init__.py names its version"
    return found[1]

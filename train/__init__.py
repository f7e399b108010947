"""Learners for the environments of jaxvrp, trained end to end inside `jit`.

The names below are the public face: what a program that trains, loads or evaluates policies imports. Each is imported
from its module when it is first asked for, so that `import train` alone loads no learner.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train.algorithms import ALGORITHMS, make_train
    from train.commands.entry import entry
    from train.commands.instance_file import check_output
    from train.on_policy.config import IPPOConfig, PPOConfig
    from train.run.evaluator import Evaluator, baseline_actors, evaluation_function, first_seed, mean_figures
    from train.run.folder import RunFolder, Trained
    from train.settings.command_line import LAUNCH, parse, split_mapping, value_of
    from train.settings.config import RunConfig
    from train.settings.config_file import shipped_names
    from train.settings.stages import stages_of
    from train.shown.tables import aligned, column_titles, figures_table

MODULES = {
    "train.algorithms": ("ALGORITHMS", "make_train"),
    "train.settings.config": ("RunConfig",),
    "train.on_policy.config": ("IPPOConfig", "PPOConfig"),
    "train.settings.command_line": ("LAUNCH", "parse", "split_mapping", "value_of"),
    "train.commands.entry": ("entry",),
    "train.settings.config_file": ("shipped_names",),
    "train.commands.instance_file": ("check_output",),
    "train.settings.stages": ("stages_of",),
    "train.run.folder": ("RunFolder", "Trained"),
    "train.run.evaluator": (
        "Evaluator",
        "baseline_actors",
        "evaluation_function",
        "first_seed",
        "mean_figures",
    ),
    "train.shown.tables": ("aligned", "column_titles", "figures_table"),
}
"""The names of the public face, by module; the modules of `train` themselves do not use it."""

__all__ = [name for names in MODULES.values() for name in names]


def __getattr__(name: str) -> Any:
    """The name from its module."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'train' has no attribute '{name}'")

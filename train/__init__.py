"""Learners for the environments of jaxvrp, trained end to end inside `jit`.

The names below are the public face: what a program that trains, loads or evaluates policies imports. Each is imported
from its module when it is first asked for, so that `import train` alone loads no learner.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train.algorithms import ALGORITHMS, make_train
    from train.config import RunConfig
    from train.on_policy.config import IPPOConfig, PPOConfig
    from train.running.command.command_line import LAUNCH, entry, parse, split_mapping, value_of
    from train.running.command.config_file import shipped_names
    from train.running.command.instance_file import check_output
    from train.running.command.stages import stages_of
    from train.running.folder.run_folder import RunFolder, Trained
    from train.running.loop.evaluator import Evaluator, baseline_actors, evaluation_function, first_seed, mean_figures
    from train.running.shown.tables import aligned, figures_table

MODULES = {
    "train.algorithms": ("ALGORITHMS", "make_train"),
    "train.config": ("RunConfig",),
    "train.on_policy.config": ("IPPOConfig", "PPOConfig"),
    "train.running.command.command_line": ("LAUNCH", "entry", "parse", "split_mapping", "value_of"),
    "train.running.command.config_file": ("shipped_names",),
    "train.running.command.instance_file": ("check_output",),
    "train.running.command.stages": ("stages_of",),
    "train.running.folder.run_folder": ("RunFolder", "Trained"),
    "train.running.loop.evaluator": (
        "Evaluator",
        "baseline_actors",
        "evaluation_function",
        "first_seed",
        "mean_figures",
    ),
    "train.running.shown.tables": ("aligned", "figures_table"),
}
"""The names of the public face, by module; the modules of `train` themselves do not use it."""

__all__ = [
    "ALGORITHMS",
    "LAUNCH",
    "Evaluator",
    "IPPOConfig",
    "PPOConfig",
    "RunConfig",
    "RunFolder",
    "Trained",
    "aligned",
    "baseline_actors",
    "check_output",
    "entry",
    "evaluation_function",
    "figures_table",
    "first_seed",
    "make_train",
    "mean_figures",
    "parse",
    "shipped_names",
    "split_mapping",
    "stages_of",
    "value_of",
]


def __getattr__(name: str) -> Any:
    """The name from its module."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'train' has no attribute '{name}'")

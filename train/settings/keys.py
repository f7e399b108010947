"""The keys that a command line takes: their sentences, what they accept, their defaults, and the page of `--help`."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import jaxvrp
from jaxvrp import Environment, fields, registry
from train.settings.config import RunConfig

MAPPINGS = ("env", "eval_env", "randomize", "randomize_from")
"""Keys of the configuration that are mappings; on the command line, `--env.key value`."""

REPEATING = MAPPINGS[1:]
"""Those whose keys are the parameters of the environment once more."""

ANY_KEYS = {f"{mapping}.KEY" for mapping in REPEATING}
"""Stand on the page of `--help`, and nowhere else, for all keys of one of these mappings."""

GROUPS = {
    "start": "start",
    "run": "run",
    "evaluation": "evaluation",
    "": "algorithm",
    "network": "network",
    "imitation": "learning from a teacher",
    "environment": "environment",
    "processes": "several processes",
}
"""Titles on the page of `--help`, in its order, by the `group` of a field."""

FLAG = "flag"
"""What a key accepts that stands alone, without a value."""

UNDESCRIBED = "parameter of the environment"

METAVARS = {"whole": "N", "number": "X", "list": "LIST", "true": "BOOL", "one": "WORD"}
METAVARS |= {"file": "FILE", "folder": "DIR", "": "VALUE"}
"""What stands for the value of a key, by the first word of what it accepts."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a command line: as it is typed without `--`, a key of `GROUPS`, and what it means.

    `accepted` says its values in words, see `jaxvrp.fields.accepted_values`; `--help` lists it if it is `shown`.
    """

    name: str
    group: str
    sentence: str
    accepted: str = "text"
    default: Any = None
    shown: bool = True

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            # No page would show it, and no command line take it.
            raise ValueError(f"the group of key '{self.name}' is '{self.group}'; it must be one of: {list(GROUPS)}")

    @property
    def help(self) -> str:
        """Its sentence, its values and its default, for `--help`."""
        if not self.shown:
            return argparse.SUPPRESS
        values = f"{self.accepted}; " if self.accepted else ""
        is_option = self.group in ("start", "processes")
        text = self.sentence if is_option else f"{self.sentence} ({values}default: {as_typed(self.default)})"
        return text.replace("`", "").replace("%", "%%")

    @property
    def metavar(self) -> str:
        """What stands for its value in `--help`."""
        return METAVARS.get(self.accepted.replace(",", " ").partition(" ")[0], "TEXT")


LAUNCH = {
    key.name: key
    for key in (
        Key("config", "start", "YAML file with any of the keys below, or the name of one that is shipped", "file"),
        Key("run_dir", "start", "folder for what the run leaves, new or empty; default: in runs/", "folder"),
        Key(
            "resume",
            "start",
            "run folder to go on with, bit for bit; takes total_steps, the intervals, logger, pictures",
            "folder",
        ),
        Key("trust", "start", "let the run folder name a dotted path, which is imported and run", FLAG, False),
        Key("coordinator", "processes", "address HOST:PORT of process 0; auto: as SLURM, Open MPI or a TPU pod says"),
        Key("num_processes", "processes", "how many there are", "whole"),
        Key("process_id", "processes", "which of them this is, from 0", "whole"),
    )
}
"""Options that are no keys of the configuration."""


CHANGEABLE = ("total_steps", "log_interval", "eval_interval", "save_interval", "logger", "pictures")
"""Keys that `--resume` takes new values of: how long to train, when to look, and where."""


def configuration_keys(config_class: type[RunConfig]) -> Iterable[Key]:
    """The keys of a configuration, without those of `MAPPINGS`."""
    for field in dataclasses.fields(config_class):
        if field.name not in MAPPINGS:
            accepted = fields.accepted_values(config_class, field)
            yield Key(field.name, field.metadata["group"], field.metadata["help"], accepted, field.default)


def environment_keys(name: str, scenario: str | None, env: Environment) -> Iterable[Key]:
    """The keys `env.*`, and those of `REPEATING`; `env` is what `default_environment` makes of these names."""
    text = "a registered name, or package.module:Class"
    yield Key("env.name", "environment", f"environment: {text}", "text", name)
    if scenario is not None:
        yield Key("env.scenario", "environment", f"scenario: {text}", "text", scenario)
    described = {}
    for cls in (type(env), *registry.card_of(env).parameters):
        for field in dataclasses.fields(cls):
            unit = f" [{field.metadata['unit']}]" if field.metadata.get("unit") else ""
            sentence = field.metadata.get("help", "") + unit
            described[fields.keyword(field)] = (sentence or UNDESCRIBED, fields.accepted_values(cls, field))
    for parameter, default in env.parameters.items():
        sentence, accepted = described.get(parameter, (UNDESCRIBED, ""))
        yield Key(f"env.{parameter}", "environment", sentence, accepted, default)
    defaults = {"eval_env": dict(registry.card_of(env).evaluation)}
    for mapping in REPEATING:
        about = RunConfig.__dataclass_fields__[mapping].metadata
        group = about["group"]
        yield Key(f"{mapping}.KEY", group, about["help"], "", defaults.get(mapping, {}))
        for field in dataclasses.fields(env):
            yield Key(f"{mapping}.{fields.keyword(field)}", group, "", default=argparse.SUPPRESS, shown=False)


def default_environment(name: str, scenario: str | None) -> Environment:
    """The environment of these names, with the defaults of its factory."""
    return jaxvrp.make(name, **({} if scenario is None else {"scenario": scenario}))


def scenario_default(name: str) -> str | None:
    """The default of the keyword `scenario` of an environment's factory; None if it has none."""
    parameter = inspect.signature(registry.resolve(name)).parameters.get("scenario")
    return None if parameter is None else parameter.default


def as_typed(value: Any) -> str:
    """A value as it is typed, in YAML: `null`, `true`, `[64, 64]`, `{max_steps: 600}`, `0.001`."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_typed, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {as_typed(item)}' for key, item in value.items())}}}"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


class HelpFormatter(argparse.HelpFormatter):
    """Keys on the left, sentences on the right, up to 120 columns."""

    def __init__(self, prog: str):
        width = min(shutil.get_terminal_size().columns, 120) - 2
        super().__init__(prog, max_help_position=30, width=width)

"""Stages: a run that trains several configurations, one after the other, each from the policy of the one before.

Where `config.yaml` has `stages`, its other keys are those of the last stage, and each stage lists what differs from
them. So commands that play a run read its keys as those of any run, and the same file trains all stages again.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from jaxvrp import fields
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown
from train.settings.config import RunConfig
from train.settings.config_file import flat
from train.settings.keys import MAPPINGS, REPEATING

Config = TypeVar("Config", bound=RunConfig)

SHARED = ("stages", "start_from", "num_seeds", "env.name", "env.scenario")
"""Keys that no stage has for itself."""

STAGES = "stages"
"""The key, and the folder in that of a run which holds the earlier stages as `1`, `2`, ..."""


def read_stages(value: Any) -> list[dict[str, Any]]:
    """The flat keys of each stage, from the value of the key `stages`; none if it is null or empty."""
    if not isinstance(value or [], list | tuple) or not all(isinstance(stage, dict | None) for stage in value or []):
        raise UserError(f"stages is {shown(value)}; it must be a list of mappings, for example [{{}}, {{gamma: 0.9}}]")
    stages = [flat(stage or {}) for stage in value or []]
    for number, stage in enumerate(stages, 1):
        if shared := [name for name in stage if name in SHARED]:
            raise UserError(f"stage {number} sets {shared[0]}, which is one for the whole run; set it beside stages")
    return stages


def changed(values: Mapping[str, Any], stage: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys with those of a stage in place of theirs.

    In `randomize`, `randomize_from` and `eval_env`, null takes a parameter out.
    """
    absent = {name for name in stage if stage[name] is None and name.startswith(tuple(f"{key}." for key in REPEATING))}
    return {name: value for name, value in {**values, **stage}.items() if name not in absent}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys with mappings instead of `env.key`; see `config_file.flat`."""
    result: dict[str, Any] = {name: {} for name in MAPPINGS}
    for name, value in values.items():
        mapping, _, key = name.partition(".")
        place = result[mapping] if mapping in MAPPINGS else result
        place[key if mapping in MAPPINGS else name] = value
    return result


def joined(configs: Sequence[Config]) -> Config:
    """One configuration that trains all of these, one after the other."""
    *_, last = (_plain(config) for config in configs)
    stages = [
        {name: values.get(name) for name in {**last, **values} if values.get(name) != last.get(name)}
        for values in map(_plain, configs)
    ]
    if len(stages) == 1:
        return configs[0]
    keys: dict[str, Any] = {STAGES: tuple(stages)}
    return dataclasses.replace(configs[-1], **keys)


def stages_of(config: Config) -> list[Config]:
    """The configuration of each stage; of a run without stages, its own."""
    stages = read_stages(getattr(config, STAGES, ()))
    if len(stages) < 2:
        return [config]
    values, configs = {**_plain(config), STAGES: ()}, []
    for number, stage in enumerate(stages, 1):
        try:
            configs.append(fields.build(type(config), nested(changed(values, stage)), "key"))
        except (ValueError, TypeError) as error:
            raise UserError(f"stage {number}: {error}") from None
    return configs


def stage_folder(folder: pathlib.Path, number: int) -> pathlib.Path:
    """Where the files of an earlier stage of a run lie; those of the last one lie in `folder` itself."""
    return folder / STAGES / str(number)


def _plain(config: RunConfig) -> dict[str, Any]:
    """The flat keys of a configuration without its stages, as JSON keeps them."""
    return flat(json.loads(json.dumps({**dataclasses.asdict(config), STAGES: None})))

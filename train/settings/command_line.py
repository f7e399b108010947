"""The command lines of the learners: keys of one YAML file, keys that are typed, and the configuration they give."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import jaxvrp
from jaxvrp import Environment, fields
from jaxvrp.entities import PARAMETER, seen_as
from jaxvrp.io.command_line import Parser, UserError, program_name
from jaxvrp.io.messages import nearest, shown
from jaxvrp.io.yaml_text import load_yaml
from jaxvrp.policies.environment import (
    changed_for_evaluation,
    changed_parameters,
    evaluation_parameters,
    observation_read,
)
from jaxvrp.policies.load import ALGORITHMS
from train.learning.sharding import AUTO
from train.settings import stages as stages_module
from train.settings.config import RunConfig
from train.settings.config_file import check_mapping, read_config_file
from train.settings.environment import randomized
from train.settings.keys import (
    ANY_KEYS,
    CHANGEABLE,
    FLAG,
    GROUPS,
    LAUNCH,
    REPEATING,
    HelpFormatter,
    Key,
    configuration_keys,
    default_environment,
    environment_keys,
    scenario_default,
)

Config = TypeVar("Config", bound=RunConfig)

NAMES = ("name", "scenario")
"""Of the keys of `env`, those that say which environment it is."""

PROCESSES = [key.name for key in LAUNCH.values() if key.group == "processes"]


@dataclasses.dataclass(frozen=True)
class Launch:
    """What a command line asks for: a configuration, where to write, what to resume, which process of how many.

    `env` is the environment of the configuration, None where a run goes on. `trust` says whether the folder to resume
    or to start from may name dotted paths; `changes` are the typed keys that a resume may change.
    """

    config: Any
    env: Environment | None
    run_dir: str | None
    resume: str | None
    trust: bool
    changes: dict[str, Any]
    coordinator: str | None
    num_processes: int
    process_id: int


def parse(
    config_class: type[Config],
    argv: Sequence[str],
    *,
    prog: str,
    description: str,
    algorithms: Mapping[str, type[RunConfig]] = MappingProxyType({}),
) -> Launch:
    """Read a command line; a key of another of the `algorithms`, their configurations by name, is refused as such.

    Raises:
        UserError: an unknown key, a wrong type, a value out of range, a missing or malformed file.
    """
    options = [word[2:].partition("=")[0] for word in argv if word.startswith("--")]
    _check_resume(options)
    path = value_of(argv, "config")
    from_file = {} if path is None else read_config_file(path)
    # `config.yaml` of a run has more than keys: it can be trained again.
    algorithm, _ = from_file.pop("algorithm", None), from_file.pop("changes", None)
    program = prog.removeprefix("train.")
    if program in ALGORITHMS and algorithm not in (None, program):
        raise UserError(f"{path} is of algorithm {algorithm}; train with {program_name(f'train.{algorithm}')}")
    known = known_for(config_class, from_file, argv)
    keys = known.keys
    check_names(options, [*keys, "help"], "", algorithms)
    check_names(from_file, keys.keys() - {"config", "resume", "trust"}, " in the file", algorithms)
    if twice := [name for name in options if options.count(name) > 1]:  # of two, argparse would take the last
        raise UserError(f"--{twice[0]} is given twice; leave one of them out")
    typed = vars(_parser(keys.values(), prog, description).parse_args(list(argv)))
    launch = {name: typed.pop(name, from_file.pop(name, None)) for name in LAUNCH if name != "config"}
    typed.pop("config", None)
    typed = {name: _value(text) for name, text in typed.items()}
    config, env = _configured(config_class, known, from_file, typed)
    if launch["trust"] and not (launch["resume"] or getattr(config, "start_from", None)):
        raise UserError(
            "--trust is of --resume and start_from; what is typed, or stands in --config, is trusted: leave it out"
        )
    changes = {name: getattr(config, name) for name in typed if name in CHANGEABLE}
    launch |= {"trust": bool(launch["trust"]), **_processes(launch)}
    return Launch(config=config, env=None if launch["resume"] else env, changes=changes, **launch)


def known_for(config_class: type[Config], from_file: Mapping[str, Any], argv: Sequence[str]) -> Known:
    """What can be configured, in the environment that a command line names, else a file."""
    environment = {name: value for name in ("env.name", "env.scenario") if (value := value_of(argv, name))}
    return Known.of(config_class, {**from_file, **environment})


def _check_resume(options: Sequence[str]) -> None:
    """Check that what goes with `--resume` is typed, and nothing else."""
    allowed = ("resume", "trust", "help", *CHANGEABLE, *PROCESSES)
    extra = [f"--{name}" for name in options if name not in allowed]
    if "resume" in options and extra:
        raise UserError(
            f"--resume goes on in the run's own folder and configuration; leave out {', '.join(extra)}; it takes "
            f"{', '.join(CHANGEABLE)}"
        )


def _is_address(coordinator: str) -> bool:
    found = re.fullmatch(r".+:(\d{1,5})", coordinator)
    return coordinator == AUTO or (found is not None and 0 < int(found[1]) < 2**16)


def _processes(launch: dict[str, Any]) -> dict[str, int]:
    """Number and place of the processes; all that several of them need is given, or nothing of it."""
    given = [name for name in PROCESSES if launch[name] is not None]
    missing = [name for name in PROCESSES if launch[name] is None]
    if launch["coordinator"] == AUTO and len(given) > 1:
        raise UserError(f"--coordinator auto finds out the number and place of the process; leave out --{given[1]}")
    if given and missing and launch["coordinator"] != AUTO:
        raise UserError(f"--{given[0]} is given without --{missing[0]}; several processes need {', '.join(PROCESSES)}")
    if given and not _is_address(str(launch["coordinator"])):
        raise UserError(f"coordinator is {shown(launch['coordinator'])}; it must be HOST:PORT of process 0, or auto")
    if given and launch["resume"] is None and not launch["run_dir"]:
        raise UserError("several processes write one run folder; give all of them the same --run_dir")
    numbers = {name: str(launch[name] or 0) for name in ("num_processes", "process_id")}
    for name, text in numbers.items():
        if not text.isdecimal():
            raise UserError(f"{name} is '{text}'; it must be a whole number")
    return {name: int(text) for name, text in numbers.items()}


def _value(text: str) -> Any:
    """What a typed text says as YAML; the text, where it is none."""
    try:
        return load_yaml(text)
    except ValueError:
        return text


def _configured(
    config_class: type[Config], known: Known, from_file: dict[str, Any], typed: dict[str, Any]
) -> tuple[Config, Environment]:
    """The configuration of all stages, from flat keys, and the environment of the last one.

    A typed key takes precedence over the stages of the file, and typed stages over typed keys.
    """
    has_typed_stages = "stages" in typed
    stages = stages_module.read_stages({**from_file, **typed}.get("stages"))
    from_file, typed = ({name: given[name] for name in given if name != "stages"} for given in (from_file, typed))
    for number, stage in enumerate(stages, 1):
        check_names(stage, known.keys.keys() - LAUNCH.keys(), f" in stage {number}")
    built = []
    for number, stage in enumerate(stages or [{}], 1):
        words = {name: typed[name] for name in typed if not (has_typed_stages and name in stage)}
        in_file = stages_module.changed(from_file, stage)
        try:
            values = stages_module.nested({**in_file, **words})
            values["env"] = known.parameters(in_file, words)
            built.append(build_config(config_class, values, complete=True))
        except UserError as error:
            raise UserError(f"stage {number}: {error}" if stages else str(error)) from None
    return stages_module.joined([config for config, _ in built]), built[-1][1]


@dataclasses.dataclass(frozen=True)
class Known:
    """The keys that a configuration takes, by name, and its environment with the defaults."""

    keys: dict[str, Key]
    env: Environment

    @classmethod
    def of(cls, config_class: type[RunConfig], values: Mapping[str, Any]) -> Known:
        """The keys of a configuration of this class, and of the environment that flat `values` name."""
        name = values.get("env.name", config_class().env["name"])
        if not isinstance(name, str):
            raise UserError(f"env.name is {shown(name)}; it must be a registered name, or package.module:Class")
        with users_code(name):
            scenario = scenario_default(name)
            chosen = None if scenario is None else values.get("env.scenario", scenario)
            env = default_environment(name, chosen)
            keys = [*LAUNCH.values(), *configuration_keys(config_class), *environment_keys(name, chosen, env)]
        return cls({key.name: key for key in keys}, env)

    def parameters(self, in_file: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the environment that a file and the command line give; defaults may not go with them."""
        names = {name: self.keys[f"env.{name}"].default for name in NAMES if f"env.{name}" in self.keys}
        given, changes = (stages_module.nested(flat_keys)["env"] for flat_keys in (in_file, typed))
        if not changes.keys() - names.keys() or not given.keys() - names.keys():
            return {**names, **given, **changes}
        with users_code(names["name"]):
            return changed_parameters(self.env, {**names, **given}, changes)


def check_names(
    names: Iterable[str],
    known: Iterable[str],
    place: str,
    algorithms: Mapping[str, type[RunConfig]] = MappingProxyType({}),
) -> None:
    """Refuse a name that is not known, with the nearest, or with those of the `algorithms` that have it.

    `place` says where it stands, ` in the file`.
    """
    known = set(known)
    for name in names:
        if name not in known:
            having = [algorithm for algorithm, each in algorithms.items() if name in each.__dataclass_fields__]
            if having:
                remedy = f"leave it out, or train with {' or '.join(having)}, where it is known"
                raise UserError(f"unknown key {shown(name)}{place}; {remedy}")
            # Keys that repeat the parameters with another prefix are suggested only where the typed name has it.
            hidden = tuple(f"{mapping}." for mapping in REPEATING if mapping[:4] not in name)
            others = {key for key in known - ANY_KEYS if not key.startswith(hidden)}
            raise UserError(f"unknown key {shown(name)}{place}; {nearest(name, others)}")


def build_config(
    config_class: type[Config], values: dict[str, Any], *, complete: bool = False
) -> tuple[Config, Environment]:
    """A configuration from plain values by key (`MAPPINGS` as mappings), and its environment, as its network reads it.

    If it is to be `complete`, `env` has all parameters of the environment, not only those of `values`.
    """
    env_values = values.get("env")
    repeated = {name: values.get(name) or {} for name in REPEATING}
    if not isinstance(env_values, dict) or not isinstance(env_values.get("name"), str):
        raise UserError(
            f"env is {shown(env_values)}; it must be a mapping with a name, for example {{name: truck_drone}}"
        )
    for name, mapping in repeated.items():
        check_mapping(name, mapping)
    with users_code(env_values["name"]):
        env = jaxvrp.make(**env_values)
        if PARAMETER in env.parameters and PARAMETER not in env_values:
            network = values.get("network", getattr(config_class(), "network", None))
            env = seen_as(env, observation_read(network if isinstance(network, str) else None))
        changed = changed_for_evaluation(env, repeated["eval_env"])
        randomized(env, repeated["randomize"], repeated["randomize_from"])
    built = {name: value for name, value in env_values.items() if name not in env.parameters}
    built |= {name: value for name, value in env.parameters.items() if complete or name in env_values}
    _refuse_objects(built)
    eval_values = {name: changed.parameters[name] for name in evaluation_parameters(env, repeated["eval_env"])}
    if "stages" in values:
        values = {**values, "stages": tuple(stages_module.read_stages(values["stages"]))}
    try:
        return fields.build(config_class, {**values, **repeated, "env": built, "eval_env": eval_values}, "key"), env
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


def _refuse_objects(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of an environment that the files of a run cannot hold."""
    for name, value in parameters.items():
        try:
            json.dumps(value)
        except TypeError:
            raise UserError(
                f"env.{name} is {shown(value)}, which the files of a run cannot hold; train in a class of environments "
                "that makes it, from parameters that are numbers, texts, true or false"
            ) from None


@contextlib.contextmanager
def users_code(name: str) -> Iterator[None]:
    """Whatever importing or building the environment `name` raises becomes a UserError, with its place."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot read '{error.filename}': {error.strerror}; give another file") from None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if isinstance(error, SyntaxError) else f" ({os.path.basename(last.filename)}:{last.lineno})"
        raise UserError(
            f"environment '{name}' cannot be built: {type(error).__name__}: {error}{place}; mend it there"
        ) from error


def _parser(keys: Iterable[Key], prog: str, description: str) -> Parser:
    parser = Parser(prog, description)
    parser.usage, parser.formatter_class = "%(prog)s [--config FILE] [--KEY VALUE ...]", HelpFormatter
    keys = list(keys)
    for group, title in GROUPS.items():
        section = parser.add_argument_group(title)
        for key in (key for key in keys if key.group == group):
            kind: dict[str, Any] = {"action": "store_true"} if key.accepted == FLAG else {"metavar": key.metavar}
            section.add_argument(f"--{key.name}", default=argparse.SUPPRESS, help=key.help, **kind)
    return parser


def value_of(argv: Sequence[str], name: str) -> str | None:
    """The value of an option on the command line, before anything is parsed."""
    for word, following in zip(argv, [*argv[1:], None], strict=False):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}":
            return following
    return None


def split_mapping(argv: Sequence[str], mapping: str, *, has_name: bool = False) -> tuple[list[str], dict[str, Any]]:
    """The words of a command line without `--MAPPING.key value` and `--MAPPING.key=value`, and these as a dict.

    `has_name`: the command names the environment itself, so that `--MAPPING.name` is refused.
    """
    words, values, rest = [], {}, iter(argv)
    for word in rest:
        key, has_value, value = word.removeprefix(f"--{mapping}.").partition("=")
        if not word.startswith(f"--{mapping}."):
            words.append(word)
            continue
        text = value if has_value else next(rest, None)
        if text is None:
            raise UserError(f"--{mapping}.{key} has no value; give one, for example --{mapping}.{key} 10")
        if has_name and key == "name":
            raise UserError(f"--{mapping}.name: the command names the environment otherwise; leave it out")
        if key in values:
            raise UserError(f"--{mapping}.{key} is given twice; leave one of them out")
        try:
            values[key] = load_yaml(text)
        except ValueError as error:
            raise UserError(f"--{mapping}.{key} is {shown(text)}, which is no value: {error}") from None
    return words, values

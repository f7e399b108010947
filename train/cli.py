"""The command lines of the learners: one YAML file, dotted overrides, `--help` with every key and its default."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import jax
import jsonargparse
import yaml

import jaxvrp
from jaxvrp import fields, registry
from train.config import RunConfig

Config = TypeVar("Config", bound=RunConfig)

LAUNCH = {
    "config": "YAML file with any of the keys below",
    "run_dir": "folder for what the run leaves (default: runs/, with name and date)",
    "resume": "run folder to go on with, bit for bit; takes no other key",
    "coordinator": "several processes: address HOST:PORT of process 0",
    "num_processes": "several processes: how many",
    "process_id": "several processes: which this is, from 0",
}


class UserError(Exception):
    """A mistake of the user's, as one line that names it and the remedy."""


@dataclasses.dataclass(frozen=True)
class Launch:
    """What a command line asks for: a configuration, where to write, what to resume, which process of how many."""

    config: Any
    run_dir: str | None
    resume: str | None
    coordinator: str | None
    num_processes: int
    process_id: int


def entry(main: Callable[[], None]) -> NoReturn:
    """Run a command line: a user's mistake is one line on stderr and exit status 2; compiled programs are kept."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", pathlib.Path.home() / ".cache" / "jaxvrp")
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def parse(config_class: type[Config], argv: Sequence[str], *, prog: str, description: str) -> Launch:
    """Read a command line.

    Raises:
        UserError: an unknown key, a wrong type, a value out of range, a missing or malformed file.
    """
    given = _file(_value_of(argv, "config"))
    env_defaults = _env_defaults(given, argv)
    parser = _parser(config_class, env_defaults, prog, description)
    _check_names(parser, argv, given)
    try:
        values = parser.parse_args(list(argv)).as_dict()
    except jsonargparse.ArgumentError as error:
        raise UserError(" ".join(str(error).split())) from None
    launch = {name: values.pop(name) for name in LAUNCH}
    if launch["resume"] and (extra := [name for name in _options(argv) if name not in LAUNCH or name == "config"]):
        raise UserError(f"--resume goes on with the run's own configuration; leave out --{extra[0]}")
    config = checked(config_class, values)
    processes = {name: int(launch.pop(name) or 0) for name in ("num_processes", "process_id")}
    launch.pop("config")
    return Launch(config=config, **launch, **processes)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see python -m {self.prog} --help")


def plain_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser without a configuration, for the smaller commands; a mistake is a UserError."""
    return _Parser(prog=prog, description=description, allow_abbrev=False)


def positive(text: str) -> int:
    """A whole number above 0, as an argument type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def checked(config_class: type[Config], values: dict[str, Any]) -> Config:
    """A configuration from plain values; a UserError names what is wrong with them."""
    try:
        values["env"] = _resolved_env(values["env"])
        return fields.build(config_class, values, "key")
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


def _resolved_env(env: dict[str, Any]) -> dict[str, Any]:
    built = jaxvrp.make(**env)
    return {**env, **{name: value for name, value in built.parameters.items() if name in env}}


def _parser(
    config_class: type[Config], env_defaults: dict[str, Any], prog: str, description: str
) -> jsonargparse.ArgumentParser:
    parser = jsonargparse.ArgumentParser(
        prog=prog, description=description, exit_on_error=False, allow_abbrev=False, print_config=None
    )
    parser.add_argument("--config", action="config", help=LAUNCH["config"])
    for name, text in LAUNCH.items():
        if name != "config":
            parser.add_argument(f"--{name}", type=str | int | None, default=None, help=text)
    for field in dataclasses.fields(config_class):
        if field.name != "env":
            text = field.metadata["help"] + (f" {_choices(field)}" if field.metadata.get("choices") else "")
            parser.add_argument(f"--{field.name}", type=Any, default=field.default, help=text)
    for name, default in env_defaults.items():
        parser.add_argument(f"--env.{name}", type=Any, default=default, help=_env_help(name))
    return parser


def _choices(field: dataclasses.Field) -> str:
    return "[" + ", ".join(field.metadata["choices"]) + "]"


def _env_help(name: str) -> str:
    return {
        "name": "environment: a registered name, or package.module:Class",
        "scenario": "scenario: a registered name, or package.module:Class",
    }.get(name, "parameter of the environment")


def _env_defaults(given: dict[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    """The parameters of the environment that the file and the command line name, with their defaults."""
    asked = given.get("env") or {}
    if not isinstance(asked, dict):
        raise UserError(f"env is {asked!r}; it must be a mapping, for example 'env: {{name: truck_drone}}'")
    name = _value_of(argv, "env.name") or asked.get("name", "truck_drone")
    try:
        own = inspect.signature(registry.resolve(name)).parameters.values()
        named = {p.name: p.default for p in own if p.kind is p.KEYWORD_ONLY or p.kind is p.POSITIONAL_OR_KEYWORD}
        chosen = {key: _value_of(argv, f"env.{key}") or asked.get(key, default) for key, default in named.items()}
        kind = {"scenario": chosen["scenario"]} if "scenario" in chosen else {}
        defaults = jaxvrp.make(name, **kind).parameters
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    return {"name": name, **kind, **defaults}


def _check_names(parser: jsonargparse.ArgumentParser, argv: Sequence[str], given: dict[str, Any]) -> None:
    known = {action.dest for action in parser._actions} | {"help"}
    in_file = [name for name in given if name != "env"] + [f"env.{name}" for name in given.get("env") or {}]
    for name in [*_options(argv), *in_file]:
        if name not in known:
            raise UserError(f"unknown key '{name}'; {registry.nearest(name, known - {'help', 'print_config'})}")


def _options(argv: Sequence[str]) -> Iterator[str]:
    return (word[2:].partition("=")[0] for word in argv if word.startswith("--"))


def _value_of(argv: Sequence[str], name: str) -> str | None:
    """The value of an option on the command line, before anything is parsed."""
    for i, word in enumerate(argv):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}" and i + 1 < len(argv):
            return argv[i + 1]
    return None


def _file(path: str | None) -> dict[str, Any]:
    """The mapping in a YAML file, {} for no file."""
    if path is None:
        return {}
    try:
        content = yaml.safe_load(pathlib.Path(path).read_text())
    except OSError as error:
        raise UserError(f"cannot read --config {path}: {error.strerror}; give an existing YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        where = f"line {place.line + 1}: {error.problem}" if place else "not a text in UTF-8"
        raise UserError(f"{path} is no valid YAML, {where}; mend it there") from None
    if content is not None and not isinstance(content, dict):
        raise UserError(
            f"{path} holds {type(content).__name__}, not 'key: value' lines; see train/configs for examples"
        )
    return content or {}

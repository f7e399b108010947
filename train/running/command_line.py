"""The command lines of the learners: one YAML file, dotted overrides, `--help` with every key and its default."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import jax
import jsonargparse
import yaml

import jaxvrp
from jaxvrp import fields, registry
from jaxvrp.io.command_line import UserError, run_command
from jaxvrp.io.messages import nearest
from jaxvrp.testing import ConformanceError
from train.config import RunConfig
from train.running.prepare import evaluation_parameters

Config = TypeVar("Config", bound=RunConfig)

LAUNCH = {
    "config": "YAML file with any of the keys below",
    "run_dir": "folder for what the run leaves (default: runs/, with name and date)",
    "resume": "run folder to go on with, bit for bit; takes no other key",
    "coordinator": "several processes: address HOST:PORT of process 0",
    "num_processes": "several processes: how many",
    "process_id": "several processes: which this is, from 0",
}


GROUPS = ("env", "eval_env")
"""Keys of the configuration that are mappings, given as `--env.key value`."""


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
    """Run a command line: a user's mistake is one line on stderr and exit status 2, Ctrl-C 130; programs are kept."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", pathlib.Path.home() / ".cache" / "jaxvrp")
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    sys.exit(run_command(main, (ConformanceError,)))


def parse(config_class: type[Config], argv: Sequence[str], *, prog: str, description: str) -> Launch:
    """Read a command line.

    Raises:
        UserError: an unknown key, a wrong type, a value out of range, a missing or malformed file.
    """
    argv, eval_env = split_group(argv, "eval_env")
    given = _file(value_of(argv, "config"))
    eval_env = {**_mapping("eval_env", given.pop("eval_env", None)), **eval_env}
    env_defaults = _env_defaults(given, argv)
    parser = _parser(config_class, env_defaults, prog, description)
    _check_names(parser, argv, given)
    parser.set_defaults(given)  # so that the command line goes before the file, wherever it names it
    try:
        values = parser.parse_args(list(argv)).as_dict()
    except jsonargparse.ArgumentError as error:
        raise UserError(f"{error}; see python -m {prog} --help") from None
    launch = {name: values.pop(name) for name in LAUNCH}
    _check_launch(launch, argv)
    config = checked(config_class, {**values, "eval_env": eval_env})
    launch.pop("config")
    return Launch(config=config, **launch)


def _check_launch(launch: dict[str, Any], argv: Sequence[str]) -> None:
    """Check what is no part of the configuration; numbers become numbers."""
    group = ("coordinator", "num_processes", "process_id")
    if launch["resume"] is not None and (extra := [name for name in _options(argv) if name not in ("resume", *group)]):
        raise UserError(f"--resume goes on in the run's own folder and configuration; leave out --{extra[0]}")
    given = [name for name in group if launch[name] is not None]
    if given and (missing := [name for name in group if name not in given]):
        raise UserError(f"--{given[0]} is given without --{missing[0]}; several processes need {', '.join(group)}")
    if given and launch["resume"] is None and not launch["run_dir"]:
        raise UserError("several processes write one run folder; give all of them the same --run_dir")
    for name in group[1:]:
        text = str(launch[name] or 0)
        if not text.isdecimal():
            raise UserError(f"{name} is '{text}'; it must be a whole number")
        launch[name] = int(text)


def split_group(argv: Sequence[str], group: str) -> tuple[list[str], dict[str, Any]]:
    """The words of a command line without `--GROUP.key value` and `--GROUP.key=value`, and these as a dict."""
    words, values, rest = [], {}, iter(argv)
    for word in rest:
        key, has_value, value = word.removeprefix(f"--{group}.").partition("=")
        if not word.startswith(f"--{group}."):
            words.append(word)
            continue
        text = value if has_value else next(rest, None)
        if text is None:
            raise UserError(f"--{group}.{key} has no value; give one, for example --{group}.{key} 10")
        values[key] = jsonargparse.get_loader("yaml")(text)
    return words, values


def checked(config_class: type[Config], values: dict[str, Any]) -> Config:
    """A configuration from plain values; a UserError names what is wrong with them."""
    env = values.get("env")
    if not isinstance(env, dict) or not isinstance(env.get("name"), str):
        raise UserError(f"env is {env!r}; it must be a mapping with a name, for example {{name: truck_drone}}")
    with _users_code(env["name"]):
        built = jaxvrp.make(**env)
    resolved = {**env, **{name: value for name, value in built.parameters.items() if name in env}}
    eval_env = evaluation_parameters(built, _mapping("eval_env", values.get("eval_env")))
    try:
        return fields.build(config_class, {**values, "env": resolved, "eval_env": eval_env}, "key")
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


@contextlib.contextmanager
def _users_code(name: str) -> Iterator[None]:
    """Whatever importing or building the environment `name` raises becomes a UserError, with its place."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if isinstance(error, SyntaxError) else f" ({os.path.basename(last.filename)}:{last.lineno})"
        raise UserError(
            f"environment '{name}' cannot be built: {type(error).__name__}: {error}{place}; mend it there"
        ) from error


def _parser(
    config_class: type[Config], env_defaults: dict[str, Any], prog: str, description: str
) -> jsonargparse.ArgumentParser:
    parser = jsonargparse.ArgumentParser(
        prog=prog, description=description, exit_on_error=False, allow_abbrev=False, print_config=None
    )
    for name, text in LAUNCH.items():
        parser.add_argument(f"--{name}", type=str | None, default=None, help=text)
    for field in dataclasses.fields(config_class):
        if field.name not in GROUPS:
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
    asked = {key.removeprefix("env."): value for key, value in given.items() if key.startswith("env.")}
    name = value_of(argv, "env.name") or asked.get("name", "truck_drone")
    if not isinstance(name, str):
        raise UserError(f"env.name is {name!r}; it must be a registered name, or package.module:Class")
    with _users_code(name):
        own = inspect.signature(registry.resolve(name)).parameters.values()
        named = {p.name: p.default for p in own if p.kind is p.KEYWORD_ONLY or p.kind is p.POSITIONAL_OR_KEYWORD}
        chosen = {key: value_of(argv, f"env.{key}") or asked.get(key, default) for key, default in named.items()}
        kind = {"scenario": chosen["scenario"]} if "scenario" in chosen else {}
        defaults = jaxvrp.make(name, **kind).parameters
    return {"name": name, **kind, **defaults}


def _check_names(parser: jsonargparse.ArgumentParser, argv: Sequence[str], given: dict[str, Any]) -> None:
    known = {action.dest for action in parser._actions} - {"help"}
    for name in (name for name in _options(argv) if name not in known | {"help"}):
        raise UserError(f"unknown key '{name}'; {nearest(name, known)}")
    for name in (name for name in given if name not in known - {"config"}):
        raise UserError(f"unknown key '{name}' in the file; {nearest(name, known - {'config'})}")
    if len([name for name in _options(argv) if name == "config"]) > 1:
        raise UserError("--config is given twice; put all keys into one file, or on the command line")


def _options(argv: Sequence[str]) -> Iterator[str]:
    return (word[2:].partition("=")[0] for word in argv if word.startswith("--"))


def value_of(argv: Sequence[str], name: str) -> str | None:
    """The value of an option on the command line, before anything is parsed."""
    for i, word in enumerate(argv):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}" and i + 1 < len(argv):
            return argv[i + 1]
    return None


def _file(path: str | None) -> dict[str, Any]:
    """The keys of a YAML file, those of `env` as `env.key`; {} for no file."""
    if path is None:
        return {}
    try:
        text = pathlib.Path(path).read_text()
        content = jsonargparse.get_loader("yaml")(text)  # reads 3e-4 as a number, but 'key:' alone as a text
        content = yaml.safe_load(text) if isinstance(content, str) else content
    except OSError as error:
        raise UserError(f"cannot read --config {path}: {error.strerror}; give an existing YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found: Any = error
        place = getattr(error, "problem_mark", None)
        where = f"line {place.line + 1}: {found.problem}" if place else found.reason
        raise UserError(f"{path} is no valid YAML, {where}; mend it there") from None
    if content is not None and not isinstance(content, dict):
        raise UserError(
            f"{path} holds {type(content).__name__}, not 'key: value' lines; see train/configs for examples"
        )
    return _flat(content or {})


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    content = {str(key): value for key, value in content.items()}
    for name in LAUNCH.keys() & content.keys():
        if not isinstance(content[name], str | int | None):
            raise UserError(f"{name} is {content[name]!r}; it must be a text")
        content[name] = None if content[name] is None else str(content[name])
    env = _mapping("env", content.pop("env", None))
    return content | {f"env.{key}": value for key, value in env.items()}


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value or {}, dict):
        example = "{name: truck_drone}" if name == "env" else "{max_steps: 600}"
        raise UserError(f"{name} is {value!r}; it must be a mapping, for example '{name}: {example}'")
    return value or {}

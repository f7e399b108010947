"""YAML files of keys: found by path or by the name of one that is shipped, read as flat keys."""

from __future__ import annotations

import pathlib
from typing import Any

import train
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown
from jaxvrp.io.whole_files import read_bytes
from train.running.command.keys import LAUNCH, MAPPINGS
from train.running.command.plain_yaml import load_yaml

LARGEST_FILE = 2**18
"""Bytes; those that are shipped have a thousand."""

SHIPPED = pathlib.Path(train.__file__).parent / "configs"


def read_config_file(path: str) -> dict[str, Any]:
    """The keys of a YAML file, flat: those of `env` are called `env.key`.

    Raises:
        UserError: no such file, or not one of keys and values; the message says where.
    """
    found = _find(path)
    try:
        content = read_yaml(found)
    except OSError as error:
        raise UserError(
            f"cannot read --config {path}: {error.strerror}; give an existing YAML file, or a name: "
            f"{', '.join(shipped_names())}"
        ) from None
    except ValueError as error:
        raise UserError(str(error)) from None
    if content is not None and not isinstance(content, dict):
        raise UserError(
            f"{path} holds {type(content).__name__}, not 'key: value' lines; see train/configs for examples"
        )
    return flat(content or {})


def read_yaml(path: pathlib.Path) -> Any:
    """The content of a YAML file, see `plain_yaml.load_yaml`.

    Raises:
        ValueError: it is no such YAML, or no text, or too large; one line.
        OSError: it cannot be read.
    """
    content = read_bytes(path, LARGEST_FILE)
    try:
        return load_yaml(content.decode("utf-8"))
    except ValueError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(f"{path} is no valid YAML, {reason}; mend it there") from None


def shipped_names() -> list[str]:
    """The names of the files that are shipped, as `--config` takes them."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def flat(content: dict[Any, Any]) -> dict[str, Any]:
    """Keys and values without mappings: `{"env": {"name": "darp"}}` becomes `{"env.name": "darp"}`.

    Raises:
        UserError: something that is to be a mapping, or a text, is none.
    """
    values: dict[str, Any] = {}
    _add(values, content)
    for name in LAUNCH.keys() & values.keys():
        if not isinstance(values[name], str | int | None):
            raise UserError(f"{name} is {values[name]!r}; it must be a text")
        values[name] = None if values[name] is None else str(values[name])
    for name in MAPPINGS:
        value = values.pop(name, None)
        check_mapping(name, value or {})
        _add(values, {f"{name}.{key}": inner for key, inner in (value or {}).items()})
    return values


def _add(values: dict[str, Any], more: dict[Any, Any]) -> None:
    """Add what is not there yet, by name.

    Raises:
        UserError: a name is there: `env.num_drones`, and in the mapping `env`.
    """
    for key, value in more.items():
        if str(key) in values:
            raise UserError(f"{shown(str(key))} stands twice; leave one of them out")
        values[str(key)] = value


def check_mapping(name: str, value: Any) -> None:
    """Raise a UserError unless the value of one of `MAPPINGS` is a mapping."""
    if not isinstance(value, dict):
        example = {"env": "{name: truck_drone}", "eval_env": "{max_steps: 600}"}.get(name, "{dt: [0.1, 0.2]}")
        raise UserError(f"{name} is {value!r}; it must be a mapping, for example '{name}: {example}'")


def _find(path: str) -> pathlib.Path:
    """The file at `path`, or else the shipped one that is called so, with or without `.yaml`."""
    given = pathlib.Path(path)
    is_name = given.name == path and given.suffix in ("", ".yaml") and path not in ("", ".", "..")
    shipped = SHIPPED / given.with_suffix(".yaml") if is_name else given
    return shipped if not given.is_file() and shipped.is_file() else given

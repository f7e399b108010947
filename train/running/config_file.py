"""YAML files of keys: found by path or by the name of one that is shipped, read as flat keys."""

from __future__ import annotations

import pathlib
from typing import Any

import jsonargparse
import yaml

import train
from jaxvrp.io.command_line import UserError
from train.running.keys import LAUNCH, MAPPINGS

SHIPPED = pathlib.Path(train.__file__).parent / "configs"


def read_config_file(path: str) -> dict[str, Any]:
    """The keys of a YAML file, flat: those of `env` are called `env.key`.

    Raises:
        UserError: no such file, or not one of keys and values; the message says where.
    """
    found = _find(path)
    try:
        text = found.read_text(encoding="utf-8")
        content = jsonargparse.get_loader("yaml")(text)  # reads 3e-4 as a number, but 'key:' alone as a text
        content = yaml.safe_load(text) if isinstance(content, str) else content
    except OSError as error:
        raise UserError(
            f"cannot read --config {path}: {error.strerror}; give an existing YAML file, or a name: "
            f"{', '.join(shipped_names())}"
        ) from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is no valid YAML, {_place(error)}; mend it there") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no valid YAML, {error.reason}; mend it there") from None
    if content is not None and not isinstance(content, dict):
        raise UserError(
            f"{path} holds {type(content).__name__}, not 'key: value' lines; see train/configs for examples"
        )
    return flat(content or {})


def shipped_names() -> list[str]:
    """The names of the files that are shipped, as `--config` takes them."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def flat(content: dict[Any, Any]) -> dict[str, Any]:
    """Keys and values without mappings: `{"env": {"name": "darp"}}` becomes `{"env.name": "darp"}`.

    Raises:
        UserError: something that is to be a mapping, or a text, is none.
    """
    values = {str(key): value for key, value in content.items()}
    for name in LAUNCH.keys() & values.keys():
        if not isinstance(values[name], str | int | None):
            raise UserError(f"{name} is {values[name]!r}; it must be a text")
        values[name] = None if values[name] is None else str(values[name])
    for name in MAPPINGS:
        value = values.pop(name, None)
        check_mapping(name, value or {})
        values |= {f"{name}.{key}": inner for key, inner in (value or {}).items()}
    return values


def check_mapping(name: str, value: Any) -> None:
    """Raise a UserError unless the value of `env` or `eval_env` is a mapping."""
    if not isinstance(value, dict):
        example = "{name: truck_drone}" if name == "env" else "{max_steps: 600}"
        raise UserError(f"{name} is {value!r}; it must be a mapping, for example '{name}: {example}'")


def _find(path: str) -> pathlib.Path:
    """The file at `path`, or else the shipped one that is called so, with or without `.yaml`."""
    given = pathlib.Path(path)
    is_name = given.name == path and given.suffix in ("", ".yaml") and path not in ("", ".", "..")
    shipped = SHIPPED / given.with_suffix(".yaml") if is_name else given
    return shipped if not given.is_file() and shipped.is_file() else given


def _place(error: yaml.YAMLError) -> str:
    """Line and reason of what is no YAML."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(getattr(error, "reason", error))
    return f"line {mark.line + 1}: {getattr(error, 'problem', '')}"

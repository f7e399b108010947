"""YAML files of keys: found by path or by the name of one that is shipped, and read as flat keys."""

from __future__ import annotations

import pathlib
from typing import Any

from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown
from jaxvrp.io.yaml_text import read_yaml
from jaxvrp.policies.load import ALGORITHMS
from train.settings.keys import LAUNCH, MAPPINGS

SHIPPED = pathlib.Path(__file__).parents[1] / "configs"


def read_config_file(path: str) -> dict[str, Any]:
    """The keys of a YAML file, flat (those of `env` are called `env.key`); of a shipped one, if it is called so."""
    given = pathlib.Path(path)
    is_name = given.name == path and given.suffix in ("", ".yaml") and path not in ("", ".", "..")
    shipped = SHIPPED / given.with_suffix(".yaml") if is_name else given
    try:
        content = read_yaml(shipped if not given.is_file() and shipped.is_file() else given)
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
    values = flat(content or {})
    if (algorithm := values.get("algorithm")) not in (None, *ALGORITHMS):
        raise UserError(f"{path}: algorithm is {shown(algorithm)}; it must be one of: {', '.join(ALGORITHMS)}")
    return values


def shipped_names() -> list[str]:
    """The names of the files that are shipped, as `--config` takes them."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def flat(content: dict[Any, Any]) -> dict[str, Any]:
    """Keys and values without mappings: `{"env": {"name": "darp"}}` becomes `{"env.name": "darp"}`."""
    values: dict[str, Any] = {}
    _add(values, content)
    for name in LAUNCH.keys() & values.keys():
        if not isinstance(values[name], str | int | None):
            raise UserError(f"{name} is {shown(values[name])}; it must be a text")
        values[name] = None if values[name] is None else str(values[name])
    for name in MAPPINGS:
        value = values.pop(name, None)
        check_mapping(name, value or {})
        _add(values, {f"{name}.{key}": inner for key, inner in (value or {}).items()})
    return values


def _add(values: dict[str, Any], more: dict[Any, Any]) -> None:
    """Add what is not there yet, by name."""
    for key, value in more.items():
        if str(key) in values:
            raise UserError(f"{shown(str(key))} stands twice; leave one of them out")
        values[str(key)] = value


def check_mapping(name: str, value: Any) -> None:
    """Raise a UserError unless the value of one of `MAPPINGS` is a mapping."""
    if not isinstance(value, dict):
        example = {"env": "{name: truck_drone}", "eval_env": "{max_steps: 600}"}.get(name, "{dt: [0.1, 0.2]}")
        raise UserError(f"{name} is {shown(value)}; it must be a mapping, for example '{name}: {example}'")

"""YAML as configurations are written in: a strict reader, and the writer that it reads again.

Values are those of the core schema of YAML 1.2, and numbers may have underscores (`1_000`). So `3e-4` is a number,
`012` is twelve, and `yes`, `no`, `on`, `off`, `12:30:45` and `2026-01-01` are texts, which YAML 1.1 takes for truth
values, for 45 045 seconds and for a date. What could hide something is refused: a key that stands twice, aliases, tags,
and more lists and mappings within each other than any configuration has.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any, ClassVar

import yaml

from jaxvrp.io.messages import shown
from jaxvrp.io.whole_files import decode_text, read_bytes

LARGEST_FILE = 2**18
"""Bytes; those that are shipped have a thousand."""

DEEPEST = 32
"""Lists and mappings within each other."""

TAG = "tag:yaml.org,2002:"

SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)
"""Kind, pattern and first letters of what is no text."""


class _Loader(yaml.SafeLoader):
    """The safe loader of PyYAML with other scalars, and stricter."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def __init__(self, text: str):
        super().__init__(text)
        self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node and what is in it; called for each, from the outside to the inside."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _error(event, f"an alias, *{event.anchor}; write out what it stands for")
        if getattr(event, "tag", None) is not None:
            raise _error(event, f"a tag, {event.tag}; leave it out")
        self.depth += 1
        if self.depth > DEEPEST + 1:
            raise _error(event, f"more than {DEEPEST} lists and mappings within each other")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """A mapping, whose keys all differ."""
        known: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise _error(key_node, "a list or mapping as a key; give a text")
            if key in known:
                raise _error(key_node, f"the key {shown(key)} stands twice; leave one of them out")
            known.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        """A whole number, decimal whatever it begins with, or hexadecimal."""
        text = self.construct_scalar(node).replace("_", "")
        try:
            return int(text, 16 if "x" in text else 10)
        except ValueError:  # Python reads no more than a few thousand digits
            raise _error(node, f"a whole number of {len(text)} digits") from None


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or this reader would not take for a text, and writes nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


_Loader.add_constructor(f"{TAG}int", _Loader.construct_yaml_int)
for _kind, _pattern, _first in SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(TAG + _kind, re.compile(f"^(?:{_pattern})$"), _first)


def load_yaml(text: str) -> Any:
    """The value that a text says: numbers, texts, truth values, None, and lists and dicts of them.

    Raises a ValueError of one line, with the place and what is wrong there.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else getattr(error, "reason", error)
        raise ValueError(" ".join(str(place).split())) from None


def dump_yaml(value: Any) -> str:
    """The text that `load_yaml` reads as the same value, in block style; tuples become lists."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)


def _error(found: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=found.start_mark)


def read_yaml(path: pathlib.Path) -> Any:
    """The content of a YAML file, see `load_yaml`; raises a ValueError of one line, or an OSError."""
    content = decode_text(read_bytes(path, LARGEST_FILE), path, "give a YAML file")
    try:
        return load_yaml(content)
    except ValueError as error:
        raise ValueError(f"{path} is no valid YAML, {error}; mend it there") from None

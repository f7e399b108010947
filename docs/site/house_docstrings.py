"""Docstrings as this project writes them, for the reference: sentences of fields, and commands of modules."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

MAKERS = ("parameter", "size", "choice", "switch", "option")
"""The functions of `jaxvrp.fields` that take `help`."""


COMMAND = re.compile(r"^((?:python|pip|jaxvrp) .*)$", re.M)
"""A line of a docstring that is typed into a shell."""


class HouseDocstrings(griffe.Extension):
    """Takes the sentence of a field, and its unit, for its docstring, and shows commands as they are typed."""

    def on_module_instance(self, *, mod: griffe.Module, **_: Any) -> None:
        """Called by griffe for every module."""
        if mod.docstring is not None:
            mod.docstring.value = COMMAND.sub(r"    \1", mod.docstring.value)

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **_: Any) -> None:
        """Called by griffe for every attribute."""
        if attr.docstring is None and (sentence := described(getattr(node, "value", None))):
            attr.docstring = griffe.Docstring(sentence, parent=attr)


def described(value: ast.AST | None) -> str:
    """The sentence of a default such as `parameter(0.1, help="...", unit="...")`; empty for others."""
    if not isinstance(value, ast.Call):
        return ""
    maker = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    words = {keyword.arg: _text(keyword.value) for keyword in value.keywords}
    if maker not in MAKERS or not words.get("help"):
        return ""
    unit = f" [{words['unit']}]" if words.get("unit") else ""
    return f"{words['help'][:1].upper()}{words['help'][1:]}{unit}."


def _text(node: ast.AST) -> str:
    try:
        return str(ast.literal_eval(node))
    except ValueError:
        return ""

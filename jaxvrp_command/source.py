"""What stands in our source files, read as text: importing them would import JAX, which takes a second or more."""

from __future__ import annotations

import ast
import pathlib

from jaxvrp_command.packages import ROOT


def file_of(module: str) -> pathlib.Path:
    """The file of one of our modules, or of a package's `__init__`."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def read(module: str) -> ast.Module:
    """The syntax tree of one of our modules."""
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def sentence(module: str) -> str:
    """The first line of a module's docstring, without backticks."""
    lines = (ast.get_docstring(read(module)) or "").splitlines()
    return lines[0].replace("`", "") if lines else ""


def assigned(module: str, name: str) -> ast.expr:
    """What a module assigns to a name of its own, at its top level.

    Raises:
        LookupError: nothing.
    """
    for node in read(module).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in map(ast.unparse, targets):
                return node.value
    raise LookupError(f"{module} assigns nothing to {name}")


def entries(table: ast.expr) -> dict[str, ast.expr]:
    """The values of a dictionary that is written down as `{"name": value, ...}`."""
    assert isinstance(table, ast.Dict)
    return {ast.literal_eval(key): value for key, value in zip(table.keys, table.values, strict=True) if key}


def arguments(call: ast.expr) -> list[str]:
    """The positional arguments of a call: texts, and names (`package.attribute` too) as they stand there."""
    assert isinstance(call, ast.Call)
    return [str(each.value) if isinstance(each, ast.Constant) else ast.unparse(each) for each in call.args]


def has_main(module: str) -> bool:
    """Whether a module defines a function `main`."""
    return "\ndef main(" in file_of(module).read_text(encoding="utf-8")

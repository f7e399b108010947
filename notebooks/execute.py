"""Runs the code cells of a notebook in this process, as IPython does, without a kernel.

`python notebooks/execute.py NOTEBOOK` prints one line of JSON: by the id of the cell, the content types that its last
expression has for a notebook. What the cells print goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


def run(path: pathlib.Path) -> dict[str, list[str]]:
    """The content types that each cell shows; raises what a cell raises."""
    quiet = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=quiet)
    shown = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        done = shell.run_cell("".join(cell["source"]))
        done.raise_error()
        if done.result is not None:
            shown[cell["id"]] = sorted(shell.display_formatter.format(done.result)[0])
    return shown


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = run(pathlib.Path(sys.argv[1]))
    print(json.dumps(found))

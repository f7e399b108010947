"""Runs a notebook in a kernel and stores what its cells show: `python notebooks/store.py notebooks/quickstart.ipynb`.

Needs `pip install nbclient ipykernel`. Settings are those of the notebook, or of the environment (`JAXVRP_TOTAL_STEPS`,
...). Runs go into a folder that is deleted, whose path stands in no output; nor do progress bars and times of cells.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
import tempfile

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONGEST_CELL = 1800
"""Seconds."""

PATHS = re.compile(r"/(?:home|root|tmp|work|Users|opt|usr)/[\w./+-]*")
"""Of the machine, in what cells print."""


def executed(path: pathlib.Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of its cells.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)
    where = {"metadata": {"path": str(path.resolve().parent)}}  # the notebook for Colab looks for its clone
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JAXVRP_RUNS"] = folder
        NotebookClient(notebook, timeout=LONGEST_CELL, record_timing=False, resources=where).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [tidy(output) for output in joined(cell.outputs) if output.get("name") != "stderr"]
    return notebook


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Outputs with what a cell prints on one stream, without anything between, as one."""
    whole: list[nbformat.NotebookNode] = []
    for output in outputs:
        is_stream = output.output_type == "stream"
        if is_stream and whole and whole[-1].get("name") == output.name:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def tidy(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output without paths of the machine, and without what nobody sees beside a picture."""
    if output.output_type == "stream":
        # Of a line that is written over again and again, as a progress bar is, the last is seen.
        shown = re.sub(r"[^\n]*\r", "", output.text.replace("\r\n", "\n"))
        output.text = PATHS.sub("...", shown)
        return output
    data = output.get("data", {})
    if len(data) > 1:
        data.pop("text/plain", None)
    for kind in data.keys() & {"text/plain", "text/html"}:
        data[kind] = PATHS.sub("...", data[kind])
    output.metadata = {}
    return output


def main() -> None:
    """The command line."""
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        notebook = executed(path)
        for unwanted in set(notebook.metadata) - {"accelerator", "kernelspec", "language_info"}:
            del notebook.metadata[unwanted]
        notebook.metadata["language_info"] = {"name": "python"}
        path.write_text(json.dumps(split(notebook), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def split(notebook: nbformat.NotebookNode) -> dict:
    """As files of notebooks have it: texts of several lines are lists of these."""
    return json.loads(nbformat.writes(notebook))


if __name__ == "__main__":
    main()

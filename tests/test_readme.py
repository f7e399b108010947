"""The README's examples run as they stand there."""

from __future__ import annotations

import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[1]


def example(name: str) -> str:
    """The code block under `<!-- example: NAME -->`."""
    block = re.search(
        rf"<!-- (?:example: )?{re.escape(name)} -->\n```\w+\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    assert block, f"the README has no example '{name}'"
    return block[1]


def test_the_simulator_in_ten_lines(capsys):
    exec(compile(example("simulator"), "README.md", "exec"), {})
    assert capsys.readouterr().out.split("\n")[0] == "(1024, 1) (1024, 4, 128) (1024, 4, 22)"


def test_the_two_commands_name_files_that_exist():
    assert (ROOT / shlex.split(example("main job"))[-1]).is_file()
    assert "constraints.txt" in example("tests") and (ROOT / "constraints.txt").is_file()


def test_it_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150

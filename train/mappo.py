"""MAPPO: an actor for each role, a critic that sees the global observation; trained end to end inside `jit`.

python -m train.mappo --config truck_drone_basic
"""

from __future__ import annotations

from collections.abc import Sequence

from train.running.command import command_line, launch


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `python -m train.mappo --help` lists every key."""
    launch.main("mappo", argv)


if __name__ == "__main__":
    command_line.entry(main)

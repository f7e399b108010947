"""IPPO: as MAPPO, but every critic sees only what its role sees.

python -m train.ippo --config truck_drone_basic
"""

from __future__ import annotations

from collections.abc import Sequence

from train.running.command import command_line, launch


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `python -m train.ippo --help` lists every key."""
    launch.main("ippo", argv)


if __name__ == "__main__":
    command_line.entry(main)

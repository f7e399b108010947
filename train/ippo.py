"""IPPO: as MAPPO, but every critic sees only what its role sees.

python -m train.ippo --config train/configs/truck_drone_basic.yaml
"""

from __future__ import annotations

from train import cli, mappo
from train.mappo import make_train

__all__ = ["main", "make_train"]


def main() -> None:
    """The command line; `python -m train.ippo --help` lists every key."""
    mappo.main(algorithm="ippo")


if __name__ == "__main__":
    cli.entry(main)

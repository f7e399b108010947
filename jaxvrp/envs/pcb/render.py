"""The place where the command that draws boards was: it has moved to `python -m jaxvrp.envs.pcb.pictures`."""

from __future__ import annotations

import sys


def main() -> int:
    """Say where the command is now; exit status 2."""
    print("moved: draw boards with python -m jaxvrp.envs.pcb.pictures BOARDS; see its --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

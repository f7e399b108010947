"""Here was the command that draws a plan; it has moved to `python -m jaxvrp.envs.darp.pictures`."""

from __future__ import annotations

import sys

from jaxvrp.io.command_line import UserError, run_command


def main() -> int:
    """Say where the command is, in one line on stderr; exit status 2."""
    return run_command(_refuse)


def _refuse() -> None:
    raise UserError(
        "python -m jaxvrp.envs.darp.render has moved; type python -m jaxvrp.envs.darp.pictures, with the same arguments"
    )


if __name__ == "__main__":
    sys.exit(main())

"""Show the versions of jaxvrp, Python, jax and jaxlib, and the devices."""

from __future__ import annotations

import collections
import importlib.metadata
import platform
from collections.abc import Sequence

import jaxvrp
from jaxvrp.io.command_line import Parser
from jaxvrp_command.names import ROOT


def main(argv: Sequence[str]) -> None:
    """The command line: the versions at once, and the devices when JAX has found them."""
    about = "Show the versions of jaxvrp, Python, jax and jaxlib, and the devices."
    Parser("jaxvrp_command.version", about).parse_args(argv)
    versions = {"jaxvrp": f"{jaxvrp.__version__}  ({ROOT})", "python": platform.python_version()}
    for name in ("jax", "jaxlib"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    for name, value in versions.items():
        print(f"{name:<8}{value}", flush=True)
    print(f"{'devices':<8}{devices()}")


def devices() -> str:
    """The devices that JAX finds: `1 x cpu`; or why it finds none."""
    try:
        import jax

        kinds = collections.Counter(f"{each.device_kind} ({each.platform})" for each in jax.devices())
    except (ImportError, RuntimeError) as error:
        return f"none: {' '.join(str(error).split())}"
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())

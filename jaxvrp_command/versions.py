"""`jaxvrp version`: what runs here, and on what."""

from __future__ import annotations

import collections
import importlib.metadata
import platform
from collections.abc import Sequence

from jaxvrp_command import names
from jaxvrp_command.packages import ROOT
from jaxvrp_command.quick import QuickParser


def versions() -> dict[str, str]:
    """Names and versions that can be told without importing anything."""
    found = {"jaxvrp": f"{names.package_version()}  ({ROOT})", "python": platform.python_version()}
    for name in ("jax", "jaxlib"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def devices() -> str:
    """The devices that JAX finds: `1 x cpu`; or why it finds none."""
    try:
        import jax

        kinds = collections.Counter(f"{each.device_kind} ({each.platform})" for each in jax.devices())
    except (ImportError, RuntimeError) as error:
        return f"none: {' '.join(str(error).split())}"
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())


def main(argv: Sequence[str]) -> None:
    """The command line: the versions at once, and the devices when JAX has found them."""
    parser = QuickParser("jaxvrp version", "Versions of jaxvrp, Python, jax and jaxlib, and the devices.")
    parser.parse_args(argv)
    for name, value in versions().items():
        print(f"{name:<8}{value}", flush=True)
    print(f"{'devices':<8}{devices()}")

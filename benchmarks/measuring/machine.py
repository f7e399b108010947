"""Where and how a result came about: the header of every result."""

from __future__ import annotations

import datetime
import pathlib
import platform
from collections.abc import Sequence

import jax
import jaxlib
import numpy as np

from jaxvrp.search.side_by_side import num_cores


def machine(argv: Sequence[str], device: str) -> dict[str, str | int]:
    """Where and how a result came about: the header of every result. `device` as of `device_name`."""
    return {
        "device": device,
        "cpu": _cpu_model(),
        "cores": num_cores(),
        "os": platform.platform(terse=True),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "numpy": np.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(argv),
    }


def device_name() -> str:
    """`"1 x cpu (cpu)"`: number, kind and platform of the devices of this process."""
    devices = jax.devices()
    return f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})"


def _cpu_model() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()

"""Accelerators whose compilers run without them: what a program is compiled for, and the limits of the device."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental import topologies

from jaxvrp.io.command_line import UserError

H100 = """
gpu_device_info {
  core_count: 132
  fpus_per_core: 128
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_core: 233472
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  l2_cache_size: 52428800
  device_memory_size: 84929347584
  memory_bandwidth: 3352320000000
  clock_rate_ghz: 1.98
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 12 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
"""An H100 SXM as XLA's `GpuTargetConfigProto`, from NVIDIA's data sheet and programming guide."""


def gpus(count: int) -> Mapping[str, Any]:
    """H100s of one host."""
    return {"topology_name": "", "topology": f"1x1x{count}", "target_config": H100}


def chips(kind: str, count: int) -> Mapping[str, Any]:
    """TPUs of one host, side by side."""
    return {"topology_name": f"{kind}:1x{count}", "chips_per_host_bounds": (1, count, 1), "num_slices": 1}


@dataclasses.dataclass(frozen=True)
class Target:
    """A device that programs are compiled for.

    Attributes:
        platform: as XLA calls it.
        topology: the keywords by which XLA describes so many devices of the kind.
        plugin, requirement: the package that holds the compiler, and what pip calls it.
        bandwidth: of the memory, bytes/s.
        launch: seconds that starting a kernel takes at least; 0 where the device runs a program by itself.
    """

    platform: str
    topology: Callable[[int], Mapping[str, Any]]
    plugin: str
    requirement: str
    bandwidth: float
    launch: float = 0.0

    def devices(self, count: int = 1) -> Sequence[jax.Device]:
        """So many of them, of one host: programs can be compiled for them, not run.

        Raises:
            UserError: the compiler is not installed, or knows no host with so many.
        """
        if importlib.util.find_spec(self.plugin) is None:
            raise UserError(
                f"--target needs the compiler of its makers; pip install '{self.requirement}=={jax.__version__}'"
            )
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # else the compiler of a TPU asks the network what there is
        try:
            return topologies.get_topology_desc(platform=self.platform, **self.topology(count)).devices
        except jax.errors.JaxRuntimeError as error:
            raise UserError(f"--devices {count}: {str(error).splitlines()[0]}") from None


TARGETS = {
    "h100": Target(
        "cuda",
        gpus,
        "jax_cuda13_plugin",
        "jax[cuda13]",
        3.35e12,
        2e-6,
    ),
    "v5e": Target("tpu", functools.partial(chips, "v5e"), "libtpu", "jax[tpu]", 819e9),
    "v6e": Target("tpu", functools.partial(chips, "v6e"), "libtpu", "jax[tpu]", 1.64e12),
}

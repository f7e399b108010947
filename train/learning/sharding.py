"""One mesh axis, `data`, over all devices; a mesh of one device runs the same program.

Each device plays its own share of the environments; parameters are the same everywhere. Several hosts run the same
program after `initialize`.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

DATA = "data"

DEVICES: ContextVar[Sequence[jax.Device] | None] = ContextVar("devices", default=None)
"""What programs are made for; None for the devices of this process. For others they are compiled, and not run."""

AUTO = "auto"
"""A coordinator of this name: JAX asks the cluster for address, number and place of the processes."""


def initialize(coordinator: str, num_processes: int, process_id: int) -> None:
    """Join a group of processes; call this before any use of a device.

    Raises:
        ValueError: the coordinator is `AUTO`, and this process was not started by a cluster that JAX knows; or this is
            process 0, and the port of its address cannot be had.
    """
    if coordinator != AUTO:
        if process_id == 0:
            _check_port(int(coordinator.rpartition(":")[2]))
        jax.distributed.initialize(coordinator, num_processes, process_id)
        return
    try:
        jax.distributed.initialize()
    except ValueError:
        raise ValueError(
            "coordinator is auto, and no cluster has started this process (SLURM's srun, Open MPI's mpirun, a TPU "
            "pod); start it there, or give HOST:PORT with num_processes and process_id"
        ) from None


def _check_port(port: int) -> None:
    """Refuse a port that this process cannot serve: JAX ends it by a segmentation fault."""
    is_dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=is_dual).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ValueError(f"coordinator: process 0 cannot have port {port}: {reason}; give another one") from None


def make_mesh(num_devices: int | None = None) -> Mesh:
    """A mesh over the first `num_devices` devices (all by default); a ValueError, if there are fewer."""
    devices = DEVICES.get() or jax.devices()
    if num_devices is not None and num_devices > len(devices):
        raise ValueError(
            f"num_devices is {num_devices}, but there are {len(devices)} ({devices[0].platform}); lower it, or, on a "
            f"CPU, set the environment variable JAX_NUM_CPU_DEVICES={num_devices}"
        )
    chosen = devices[: num_devices or len(devices)]
    return jax.make_mesh((len(chosen),), (DATA,), axis_types=(AxisType.Auto,), devices=chosen)


def shard(function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    """Run `function` once per device of the mesh on its share of the arguments."""
    # Gradients are reduced by hand, in one place; the check would also want every scan carry annotated.
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def batch_specs(tree: Any) -> Any:
    """Specs that split arrays along their first axis and replicate scalars."""
    return jax.tree.map(lambda leaf: P(DATA) if leaf.ndim else P(), tree)


def vec_specs(vec: Any) -> Any:
    """As `batch_specs`, for the state of a `VecEnv`; its memory is the same on all devices."""
    return batch_specs(vec).replace(memory=jax.tree.map(lambda _: P(), vec.memory))


def device_key(key: jax.Array) -> jax.Array:
    """A key for this device; to be called inside `shard`."""
    return jax.random.fold_in(key, jax.lax.axis_index(DATA))


def compiled(
    init: Callable[[jax.Array], Any],
    chunk: Callable[[Any, Any], tuple[Any, Any]],
    specs: Any,
    *,
    mesh: Mesh,
    numbers: Mapping[str, Any],
    num_seeds: int,
) -> tuple[Callable[[jax.Array], Any], Callable[[Any], tuple[Any, Any]]]:
    """The two programs of a learner, jitted, from what one device does for one seed.

    `init` goes from one typed key to a fresh state; `chunk` from `numbers` (`RunConfig.numbers`) and a state, which is
    donated, to the next, and metrics that are the same on all devices. The program of the chunk, with the numbers, is a
    `functools.partial`. With `num_seeds` above 1 every leaf of states and metrics has a leading axis `[seeds]`.
    """
    init, chunk = shard(init, mesh, P(), specs), shard(chunk, mesh, (P(), specs), (specs, P()))
    if num_seeds == 1:
        return jax.jit(init), functools.partial(jax.jit(chunk, donate_argnums=1), numbers)

    # Not `vmap`: batched QR factorisations, of the orthogonal initialisation, can deadlock on a CPU with two cores.
    @jax.jit
    def init_all(key: jax.Array) -> Any:
        return jax.lax.map(init, jax.random.split(key, num_seeds))

    chunks = jax.jit(jax.vmap(chunk, in_axes=(None, 0)), donate_argnums=1)
    return init_all, functools.partial(chunks, numbers)


class Programs:
    """The programs of a learner, `init` and `train_chunk` (`train.learning.learner.Learner`), as `compiled`.

    They are made when they are asked for: to trace the beginning of an episode takes a second, and players do without.
    A learner has `config` and `mesh`; `_init` and `_train_chunk` are what one device does for one seed, and `_specs`
    how their state is split among devices.
    """

    config: Any
    mesh: Mesh
    _init: Callable[[jax.Array], Any]
    _train_chunk: Callable[[Any, Any], tuple[Any, Any]]
    _specs: Callable[[], Any]

    @functools.cached_property
    def _programs(self) -> tuple[Callable[[jax.Array], Any], Callable[[Any], tuple[Any, Any]]]:
        numbers, num_seeds = self.config.numbers, self.config.num_seeds
        return compiled(
            self._init, self._train_chunk, self._specs(), mesh=self.mesh, numbers=numbers, num_seeds=num_seeds
        )

    @property
    def init(self) -> Callable[[jax.Array], Any]:
        """From a typed key to a fresh state."""
        return self._programs[0]

    @property
    def train_chunk(self) -> Callable[[Any], tuple[Any, Any]]:
        """From a state to the next, and metrics."""
        return self._programs[1]

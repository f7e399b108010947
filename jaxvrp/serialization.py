"""States, instances and timesteps in programs that `jax.export` serializes.

`jax.export` writes the types of a program's arguments and results by name, and knows only registered ones.
`jaxvrp.make` registers those of its environment, so that an actor is exported by hand:

    program = jax.export.export(jax.jit(actor.act))(key, carry, state, timestep)
    data = program.serialize()

The process that reads `data` back calls `jaxvrp.make` first, or `register_types`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from typing import Any

import jax.export
from flax import struct

_REGISTERED: set[str] = set()
_ONE_AT_A_TIME = threading.Lock()


def register_types(package: str = "jaxvrp") -> None:
    """Register all pytree classes and named tuples that the imported modules of a package define.

    Static fields must be texts, numbers, truth values, None, or tuples and dictionaries of these; one of another type
    makes the serialization of a program fail, with a ValueError.
    """
    with _ONE_AT_A_TIME:  # JAX registers no type twice, and threads may make environments at once
        _register_types(package)


def _register_types(package: str) -> None:
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    for found in [value for module in modules for value in list(vars(module).values()) if inspect.isclass(value)]:
        name = f"{found.__module__}.{found.__qualname__}"
        if name in _REGISTERED or found.__module__.partition(".")[0] != package:
            continue
        if issubclass(found, struct.PyTreeNode) and found is not struct.PyTreeNode:
            _REGISTERED.add(name)
            jax.export.register_pytree_node_serialization(
                found, serialized_name=name, serialize_auxdata=_to_bytes, deserialize_auxdata=_from_bytes
            )
        elif issubclass(found, tuple) and hasattr(found, "_fields"):
            _REGISTERED.add(name)
            jax.export.register_namedtuple_serialization(found, serialized_name=name)


def _to_bytes(static: Any) -> bytes:
    text = repr(static)
    ast.literal_eval(text)  # raises here, and not where the program is read
    return text.encode()


def _from_bytes(data: bytes) -> Any:
    return ast.literal_eval(bytes(data).decode())

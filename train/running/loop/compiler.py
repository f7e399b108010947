"""Programs of a run that are compiled side by side, in threads, before they are called."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import jax
import jaxlib

QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "1", "xla_llvm_disable_expensive_passes": True}
"""Options of XLA that halve the time to compile on a CPU. Players and first states were as fast with them, and the same
to the last bit; level 0 rounds in another way, and updates do so at level 1."""

if jaxlib.__version__.startswith("0.10."):  # another release refuses an option that it does not know
    QUICK["xla_cpu_use_fusion_emitters"] = False


class Compiler:
    """Compiles jitted programs in threads, those first that are asked for first; use it as a context manager.

    XLA does not hold the interpreter's lock, so that programs compile at the same time, and while others run. At the
    end what has not begun is dropped, and nothing waits for what has.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="compiler")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def compile(self, program: Callable[..., Any], *like: Any, quick: bool = False) -> Callable[..., Any]:
        """A program, traced now, for arguments like these: arrays, or their shapes and dtypes.

        With `quick` by the options `QUICK`, on a CPU. A call waits until it is compiled, and raises what the compiler
        raised. What is not jitted is given back.
        """
        if not isinstance(program, jax.stages.Wrapped):
            return program
        options = QUICK if quick and jax.default_backend() == "cpu" else None
        compiled = self._threads.submit(program.lower(*like).compile, options)

        def call(*arguments: Any) -> Any:
            return compiled.result()(*arguments)

        return call

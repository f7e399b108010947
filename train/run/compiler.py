"""Programs of a run that are compiled side by side, in threads, before they are called; the next run may share them."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import jax
import jaxlib

from train.settings.config import RunConfig

QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "1", "xla_llvm_disable_expensive_passes": True}
"""Options of XLA that halve the time to compile on a CPU. Players and first states were as fast with them, and the same
to the last bit; level 0 rounds in another way, and updates do so at level 1."""

if jaxlib.__version__.startswith("0.10."):  # another release refuses an option that it does not know
    QUICK["xla_cpu_use_fusion_emitters"] = False


MOST_KEPT = 4
"""Configurations whose programs a process keeps."""

Programs = dict[str | None, Future]
"""Compiled programs of a run, by name."""


class Kept:
    """What a process that trains one run after another has compiled, by all that programs depend on."""

    def __init__(self) -> None:
        self._programs: Callable[[str], Programs] = functools.lru_cache(MOST_KEPT)(lambda key: {})

    def of(self, config: RunConfig) -> Programs:
        """The programs of configurations like this one; they may have other `RunConfig.numbers`."""
        values = {**dataclasses.asdict(config), **dict.fromkeys(config.numbers, "any")}
        return self._programs(json.dumps([type(config).__name__, values]))


class Compiler:
    """Compiles jitted programs in threads, those first that are asked for first; use it as a context manager.

    XLA does not hold the interpreter's lock, so that programs compile at the same time, and while others run. At the
    end what has not begun is dropped, and nothing waits for what has. A program that is in `kept` by its name is taken
    from there.
    """

    def __init__(self, kept: Programs | None = None) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="compiler")
        self._kept = {} if kept is None else kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for name in [name for name, compiled in self._kept.items() if compiled.cancelled()]:
            del self._kept[name]

    def compile(
        self, program: Callable[..., Any], *like: Any, quick: bool = False, name: str | None = None
    ) -> Callable[..., Any]:
        """A program, traced now, for arguments like these: arrays, or their shapes and dtypes.

        With `quick` by the options `QUICK`, on a CPU, unless all of JAX is to optimise even less. A call waits until it
        is compiled, and raises what the compiler raised. What is not jitted is given back. The first arguments may be
        given, as a `functools.partial`; they are no part of the program.
        """
        jitted, given = (program.func, program.args) if isinstance(program, functools.partial) else (program, ())
        if not isinstance(jitted, jax.stages.Wrapped):
            return program
        compiled = self._kept.get(name)
        if compiled is None:
            optimizes = not jax.config.values["jax_disable_most_optimizations"]
            options = QUICK if quick and optimizes and jax.default_backend() == "cpu" else None
            compiled = self._threads.submit(jitted.lower(*given, *like).compile, options)
        if name is not None:
            self._kept[name] = compiled

        def call(*arguments: Any) -> Any:
            return compiled.result()(*given, *arguments)

        return call

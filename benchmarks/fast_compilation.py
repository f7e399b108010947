"""Programs that compile in a third of the time, and run slower: for tests and the guard, which mostly compile."""

from __future__ import annotations

import importlib.metadata


def variables() -> dict[str, str]:
    """Environment variables that say so, by name; JAX reads them when it is imported."""
    found = {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        # Where an operation stands in the source is not written into programs: it takes time, and nobody reads it.
        "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    }
    if importlib.metadata.version("jaxlib").startswith("0.10."):  # another release ends at once at an unknown flag
        flags = (
            "--xla_cpu_use_fusion_emitters=false",  # emitters of loops that XLA had before: two thirds of a step less
            "--xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE",
            "--xla_cpu_parallel_codegen_split_count=1",  # one module of LLVM: processes share the cores, not threads
        )
        found["XLA_FLAGS"] = " ".join(flags)
    return found

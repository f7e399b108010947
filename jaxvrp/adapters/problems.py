"""Problems of the caller's own, as `reset(options={"instance": ...})` of the adapters takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax

from jaxvrp.environment import Environment, Instance
from jaxvrp.io.messages import shown

INSTANCE = "instance"
"""The option."""


def given_instance(
    env: Environment, options: Mapping[str, Any] | None, *, further: Iterable[str] | None = (), batch: int | None = None
) -> Instance | None:
    """The problem among the options of a reset; None if there is none.

    Args:
        env: whose problem it is to be.
        options: of `reset`.
        further: options that are read elsewhere; None: any may be.
        batch: how many problems, along a leading axis; None for one without it.

    Raises:
        ValueError: an unknown option, another number of problems, or a batch of other parts than drawn problems have.
        TypeError: the option is no problem of this environment.
    """
    options = {} if options is None else options
    known = (INSTANCE, *(further or ()))
    unknown = [name for name in options if name not in known]
    if unknown and further is not None:
        raise ValueError(f"reset got the option {shown(unknown[0])}; it knows {', '.join(known)}")
    instance = options.get(INSTANCE)
    if instance is None:
        return None
    wanted: Any = jax.eval_shape(lambda: env.generate(jax.random.key(0)))
    if type(instance) is not type(wanted):
        each = "" if batch is None else f", {batch} of them along a leading axis"
        raise TypeError(
            f"options['{INSTANCE}'] is {shown(instance)}; it needs a problem as `generate` of "
            f"{type(env).__name__} makes it{each}"
        )
    if batch is not None:
        _check_batch(instance, wanted, batch)
    return instance


def _check_batch(instance: Instance, wanted: Instance, batch: int) -> None:
    """Refuse what cannot stand beside drawn problems in one array each: a part that these lack, another number."""
    if any(leaf.shape[:1] != (batch,) for leaf in jax.tree.leaves(instance)):
        raise ValueError(
            f"options['{INSTANCE}'] needs {batch} problems, one for each environment, along a leading axis"
        )
    structure: Any = jax.tree.structure(wanted)
    if jax.tree.structure(instance) != structure:
        raise ValueError(
            f"options['{INSTANCE}'] has parts (or None) where drawn problems have none (or some); episodes that follow "
            "draw theirs: give the same parts as `generate`, or play it in a single environment"
        )

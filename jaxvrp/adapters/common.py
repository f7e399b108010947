"""What the adapters share: missing extras, keys, problems and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import Environment, Instance, State
from jaxvrp.io.messages import installing, shown
from jaxvrp.registry import toolbox_of

INSTANCE = "instance"
"""The option of `reset` that gives a problem of the caller's own."""

RENDER_METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}
"""As Gymnasium and PettingZoo expect it in an environment's `metadata`, where its states are drawn."""


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The one line to raise in place of `error`; `error` itself if it is some other module that was not found."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error
    text = f"'{extra}' is not installed, and this adapter needs it: {installing(extra)}"
    return ModuleNotFoundError(text, name=error.name)


def typed_key(key: jax.Array) -> jax.Array:
    """A key as it is if it is typed; programs of JaxMARL and PureJaxRL use raw ones."""
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)


def given_instance(
    env: Environment, options: Mapping[str, Any] | None, *, further: Iterable[str] | None = (), batch: int | None = None
) -> Instance | None:
    """The problem among the options of a reset; None if there is none.

    Args:
        env: plays the problem.
        options: of `reset`.
        further: options that are read elsewhere; None: any may be.
        batch: the number of problems, along a leading axis; None for one without it.

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
    structure: Any = jax.tree.structure(wanted)
    if batch is None:
        is_alike = jax.tree.structure(instance) == structure
        if is_alike and any(map(_has_more_axes, jax.tree.leaves(instance), jax.tree.leaves(wanted))):
            raise ValueError(f"options['{INSTANCE}'] has a leading axis, as of many problems; give one of them")
        return instance
    if any(leaf.shape[:1] != (batch,) for leaf in jax.tree.leaves(instance)):
        raise ValueError(
            f"options['{INSTANCE}'] needs {batch} problems, one for each environment, along a leading axis"
        )
    if jax.tree.structure(instance) != structure:
        raise ValueError(
            f"options['{INSTANCE}'] has parts (or None) where drawn problems have none (or some); episodes that follow "
            "draw theirs: give the same parts as `generate`, or play it in a single environment"
        )
    return instance


def _has_more_axes(leaf: Any, wanted: jax.ShapeDtypeStruct) -> bool:
    return np.ndim(leaf) > len(wanted.shape)


def check_render_mode(env: Environment, mode: str | None) -> None:
    """Refuse an unknown mode before anything is played.

    Raises:
        ValueError: another mode than None and "rgb_array", or nothing draws the states of this environment.
    """
    if mode is None:
        return
    if mode != "rgb_array":
        raise ValueError(f"render_mode is {mode!r}; it must be None or 'rgb_array'")
    if toolbox_of(env).still is None:
        raise ValueError(
            f"render_mode is {mode!r}, but nothing draws a state of {type(env).__name__}; register it with a "
            "jaxvrp.Toolbox that has a `still`, or give None"
        )


def render_metadata(env: Environment) -> dict[str, Any]:
    """`RENDER_METADATA` of an environment; without a mode where nothing draws its states."""
    return RENDER_METADATA if toolbox_of(env).still else {**RENDER_METADATA, "render_modes": []}


def check_begun(state: Any, method: str) -> None:
    """Refuse `method` before the first reset, when the state is None.

    Raises:
        RuntimeError: there was no `reset`.
    """
    if state is None:
        raise RuntimeError(f"{method} was called before the first reset; call reset() first")


def draw_frame(env: Environment, state: State) -> np.ndarray:
    """`u8[height, width, 3]`, the picture that a notebook shows of a state; the same size for all."""
    still = toolbox_of(env).still
    drawn = None if still is None else still(state)
    assert drawn is not None, "`check_render_mode` has looked for a `still`, and states of a host are arrays"
    return drawn.pixels()


def fill(rows: jax.Array, size: int) -> jax.Array:
    """`[..., size]`: rows with zeros (or False) at the end."""
    return jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, size - rows.shape[-1])])

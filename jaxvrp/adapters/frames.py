"""`render()` of the adapters: the present state as pixels.

Example:

    check_render_mode(env, "rgb_array")
    frame = draw_frame(env, state)                           # u8[700, 640, 3]
"""

from __future__ import annotations

import numpy as np

from jaxvrp.environment import Environment, State
from jaxvrp.pictures.stills import to_pixels
from jaxvrp.registry import toolbox_of

RENDER_MODES = ("rgb_array",)

FRAMES_PER_SECOND = 4
"""In a recorded video."""


def check_render_mode(env: Environment, mode: str | None) -> None:
    """Refuse a mode that there is not, before anything is played.

    Raises:
        ValueError: another mode than None and `RENDER_MODES`, or nothing draws the states of this environment.
    """
    if mode is None:
        return
    if mode not in RENDER_MODES:
        raise ValueError(f"render_mode is {mode!r}; it must be None or 'rgb_array'")
    if toolbox_of(env).still is None:
        raise ValueError(
            f"render_mode is {mode!r}, but nothing draws a state of {type(env).__name__}; register it with a "
            "jaxvrp.Toolbox that has a `still`"
        )


def draw_frame(env: Environment, state: State) -> np.ndarray:
    """`u8[height, width, 3]`, the picture that a notebook shows of a state; the same size for all."""
    still = toolbox_of(env).still
    drawn = None if still is None else still(state)
    assert drawn is not None, "`check_render_mode` has looked for a `still`, and states of a host are arrays"
    return to_pixels(drawn)

"""From the states of an episode to the episode format, to files, and to a frame in a notebook."""

from __future__ import annotations

import functools
import html
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxvrp import registry
from jaxvrp.environment import Environment
from jaxvrp.replay.episode_format import write_episode
from jaxvrp.replay.pages import page, write_page


def export_episode(env: Environment, states: Any, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One played episode in the format of `jaxvrp.replay.episode_format`.

    Args:
        env: the environment that was played.
        states: of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        actions: `{role: [T, agents, ...]}`, what the agents did; None if that is not known.

    Raises:
        ValueError: an environment without an export, or states of no or of several episodes.
    """
    return exporter(env)(states, actions)


def exporter(env: Environment) -> Callable[[Any, Mapping[str, Any] | None], dict[str, Any]]:
    """The function from states and actions to an episode that belongs to `env`.

    Raises:
        ValueError: its toolbox has none.
    """
    kind = registry.toolbox_of(env).replay
    if kind is None:
        raise ValueError(
            f"{type(env).__name__} has no episode export; give the toolbox that it is registered with a ReplayKind"
        )
    return functools.partial(kind.export, env)


def save(env: Environment, states: Any, path: str | os.PathLike, actions: Mapping[str, Any] | None = None) -> None:
    """Write one episode to a file, by the ending of its name.

    Args:
        env, states, actions: as for `export_episode`.
        path: `.json` the episode, `.html` a page that plays it; `.gif` an animation, `.png`, `.svg` or `.pdf` a still,
            by the environment's own renderer.

    Raises:
        ValueError: another ending, or what `export_episode` and the renderer refuse.
        OSError: the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        write_episode(export_episode(env, states, actions), path)
    elif suffix == ".html":
        write_page(export_episode(env, states, actions), path)
    elif (renderer := registry.toolbox_of(env).renderer) is None:
        raise ValueError(
            f"cannot draw to '{Path(path).name}': {type(env).__name__} has no renderer; use .json or .html"
        )
    else:
        renderer(env, states, path)


class Html(str):
    """A piece of HTML that notebooks show as such."""

    def _repr_html_(self) -> str:
        return str(self)


def html_of(env: Any, states: Any, actions: Any = None, *, height: int = 820) -> Html:
    """The page of an episode in a frame, for notebooks: the last expression of a cell shows it.

    Args:
        env, states, actions: as for `export_episode`.
        height: of the frame, in pixels.

    Raises:
        ValueError: what `export_episode` refuses.
    """
    content = html.escape(page(export_episode(env, states, actions)), quote=True)
    look = f"width: 100%; height: {height}px; border: 0"
    return Html(
        f'<iframe title="episode" sandbox="allow-scripts allow-downloads" style="{look}" srcdoc="{content}"></iframe>'
    )

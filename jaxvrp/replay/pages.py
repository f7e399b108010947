"""One self-contained HTML page for one episode: no network, no server, no other file."""

from __future__ import annotations

import html
import os
import re
from importlib import resources
from typing import Any

from jaxvrp.replay.episode import to_json
from jaxvrp.storage import write_whole

STYLES = ("style.css",)
SCRIPTS = ("tools.js", "charts.js", "agents.js", "truck_drone.js", "darp.js", "pcb.js", "player.js")
"""In the order in which the page has them; the player comes last and begins."""


def page(episode: dict[str, Any]) -> str:
    """The page that plays an episode, as text.

    Raises:
        ValueError: the episode does not follow the format.
    """
    parts = {
        "title": html.escape(episode["title"] if isinstance(episode.get("title"), str) else ""),
        "style": "\n".join(_part(name) for name in STYLES),
        # In a script element "</script" would end it; as JSON these are the same texts.
        "episode": to_json(episode).replace("<", "\\u003c"),
        "script": "\n".join(_part(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def write_page(episode: dict[str, Any], path: str | os.PathLike) -> None:
    """Write the page that plays an episode, completely or not at all.

    Raises:
        ValueError: the episode does not follow the format.
        OSError: the file cannot be written.
    """
    text = page(episode)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


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
    from jaxvrp.replay.export import export_episode  # it builds on this module

    content = html.escape(page(export_episode(env, states, actions)), quote=True)
    look = f"width: 100%; height: {height}px; border: 0"
    return Html(
        f'<iframe title="episode" sandbox="allow-scripts allow-downloads" style="{look}" srcdoc="{content}"></iframe>'
    )


def _part(name: str) -> str:
    return resources.files("jaxvrp.replay").joinpath("page", name).read_text(encoding="utf-8")

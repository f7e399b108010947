"""One self-contained HTML page for one episode: no network, no server, no other file."""

from __future__ import annotations

import html
import os
import re
from importlib import resources
from typing import Any

from jaxvrp import registry
from jaxvrp.io.whole_files import write_text
from jaxvrp.replay.episode_format import to_json

STYLE = "style.css"
"""The common style sheet; that of the kind, if it has one, comes after it."""

SCRIPTS = ("tools.js", "charts.js", "agents.js")
"""What the scripts of all kinds build on; the kind's own comes next, and then `PLAYER`, which begins."""

PLAYER = "player.js"


def page(episode: dict[str, Any]) -> str:
    """The page that plays an episode, as text.

    Raises:
        ValueError: the episode does not follow the format.
    """
    text = to_json(episode)
    script = registry.replay_kind(episode["kind"]).script
    style = script.with_suffix(".css")
    parts = {
        "title": html.escape(episode["title"]),
        "style": _part(STYLE) + (style.read_text("utf-8") if style.is_file() else ""),
        # In a script element "</script" would end it; as JSON these are the same texts.
        "episode": text.replace("<", "\\u003c"),
        "script": "\n".join([*(_part(name) for name in SCRIPTS), script.read_text("utf-8"), _part(PLAYER)]),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))


def write_page(episode: dict[str, Any], path: str | os.PathLike) -> None:
    """Write the page that plays an episode, completely or not at all.

    Raises:
        ValueError: the episode does not follow the format.
        OSError: the file cannot be written.
    """
    text = page(episode)
    write_text(path, text)


def _part(name: str) -> str:
    """A file of the folder `page`, as text."""
    return resources.files("jaxvrp.replay").joinpath("page", name).read_text(encoding="utf-8")

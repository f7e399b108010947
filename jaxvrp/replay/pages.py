"""One self-contained HTML page for one episode: no network, no server, no other file."""

from __future__ import annotations

import html
import os
import re
from importlib import resources
from typing import Any

from jaxvrp import registry
from jaxvrp.io.messages import shown
from jaxvrp.io.whole_files import write_text
from jaxvrp.replay.episode_format import to_json

STYLE = "style.css"
"""The common style sheet; that of the kind, if it has one, comes after it."""

SCRIPTS = ("tools.js", "charts.js", "agents.js")
"""What the scripts of all kinds build on; the kind's own comes next, and then `PLAYER`, which begins."""

PLAYER = "player.js"


def page(episode: dict[str, Any], against: dict[str, Any] | None = None) -> str:
    """The page that plays an episode, as text; with another one `against` it, both side by side.

    Raises:
        ValueError: an episode does not follow the format, or the two are of different kinds.
    """
    text = to_json(episode)
    if against is not None and against.get("kind") != episode["kind"]:
        kinds = f"{shown(episode['kind'])} and {shown(against.get('kind'))}"
        raise ValueError(f"episodes of different kinds ({kinds}) cannot be shown side by side; give two of one kind")
    script = registry.replay_kind(episode["kind"]).script
    style = script.with_suffix(".css")
    parts = {
        "title": html.escape(episode["title"]),
        "style": _part(STYLE) + (style.read_text("utf-8") if style.is_file() else ""),
        # In a script element "</script" would end it; as JSON these are the same texts.
        "episode": text.replace("<", "\\u003c"),
        "against": "null" if against is None else to_json(against).replace("<", "\\u003c"),
        "script": "\n".join([*(_part(name) for name in SCRIPTS), script.read_text("utf-8"), _part(PLAYER)]),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))


def write_page(episode: dict[str, Any], path: str | os.PathLike, against: dict[str, Any] | None = None) -> None:
    """Write the page that plays an episode (see `page`), completely or not at all.

    Raises:
        ValueError: an episode does not follow the format, or the two are of different kinds.
        OSError: the file cannot be written.
    """
    write_text(path, page(episode, against))


def _part(name: str) -> str:
    """A file of the folder `page`, as text."""
    return resources.files("jaxvrp.replay").joinpath("page", name).read_text(encoding="utf-8")

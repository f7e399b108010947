"""From the states of an episode to the episode format, to files, and to one self-contained HTML page.

A page needs no network, no server and no other file; notebooks show it in a frame.
"""

from __future__ import annotations

import functools
import html
import os
import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jaxvrp import registry
from jaxvrp.environment import Environment
from jaxvrp.episodes import Episode, whole
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.plan_files import Sheet
from jaxvrp.io.whole_files import write_text
from jaxvrp.show import generic
from jaxvrp.show.animation import write_picture
from jaxvrp.show.common import story_entries
from jaxvrp.show.episode_format import to_json, view_of, write_episode
from jaxvrp.show.sheets import to_html
from jaxvrp.story import Story


def export_episode(episode: Episode, problem: Any = None) -> dict[str, Any]:
    """One played episode in the format of `jaxvrp.show.episode_format`.

    Args:
        episode: what follows its end is cut.
        problem: of `Problems.read`, whose names and units are shown; None for one without.

    Raises:
        ValueError: states of no or of several episodes.
    """
    episode = whole(episode)
    if view := registry.toolbox_of(episode.env).view:
        return view.export(episode, problem)
    return story_entries(episode, registry.name_of(episode.env), story_of(episode, problem))


def story_of(episode: Episode, problem: Any = None) -> Story:
    """What figures and pages tell of an episode; arguments and errors as of `export_episode`.

    Environments that have no story of their own get one that is made of their states.
    """
    tell = registry.toolbox_of(episode.env).story or generic.story_of
    return tell(whole(episode), problem)


def is_drawn(env: Environment) -> bool:
    """Whether an environment says how its episodes are drawn; others are drawn as their states are."""
    toolbox = registry.toolbox_of(env)
    return toolbox.story is not None or bool(toolbox.view and toolbox.view.draw)


def can_record_steps(env: Environment) -> bool:
    """Whether `record_steps` can record episodes of `env`."""
    view = registry.toolbox_of(env).view
    return bool(view and view.record_steps)


def record_steps(episode: Episode, folder: str | os.PathLike) -> None:
    """Record every step of an episode in an empty folder, as its environment does."""
    view = registry.toolbox_of(episode.env).view
    assert view and view.record_steps
    view.record_steps(episode, folder)


def drawing(episode: Episode, problem: Any = None) -> Callable[[str | os.PathLike], None]:
    """What draws an episode to a path, see `draw`, to as many as wanted; arguments as for `export_episode`."""
    view = registry.toolbox_of(episode.env).view
    if view and (paint := view.draw):
        return lambda path: paint(episode, path, problem)
    return functools.partial(write_picture, story_of(episode, problem))


def draw(episode: Episode, path: str | os.PathLike, problem: Any = None) -> None:
    """Draw an episode: `.gif` an animation, `.png`, `.svg` or `.pdf` a still; arguments as for `export_episode`.

    Raises:
        ValueError: another ending, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    drawing(episode, problem)(path)


def save(episode: Episode, path: str | os.PathLike, problem: Any = None) -> None:
    """Write one episode to a file, by the ending of its name; arguments as for `export_episode`.

    `.json` is the episode, `.html` a page that plays it; `.gif` an animation, `.png`, `.svg` or `.pdf` a still.

    Raises:
        ValueError: another ending, or what `export_episode` refuses.
        OSError: the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        write_episode(export_episode(episode, problem), path)
    elif suffix == ".html":
        write_page(export_episode(episode, problem), path)
    else:
        draw(episode, path, problem)


def page(episode: dict[str, Any], against: dict[str, Any] | None = None, *, sheets: Sequence[Sheet] = ()) -> str:
    """The page that plays an episode, as text; with another one `against` it, both side by side; `sheets` below.

    Raises:
        ValueError: an episode does not follow the format, or the two are of different kinds.
    """
    text = to_json(episode)
    if against is not None and against.get("kind") != episode["kind"]:
        kinds = f"{shown(episode['kind'])} and {shown(against.get('kind'))}"
        raise ValueError(f"episodes of different kinds ({kinds}) cannot be shown side by side; give two of one kind")
    scripts, styles = ["tools.js", "charts.js", "agents.js"], ["style.css"]
    if "story" in episode:
        scripts, styles = [*scripts, "marks.js", "story_charts.js", "story.js"], [*styles, "story.css"]
    view = None if "story" in episode else view_of(episode).script
    style = view.with_suffix(".css") if view else None
    parts = {
        "title": html.escape(episode["title"]),
        "style": "".join(map(_part, styles)) + (style.read_text("utf-8") if style and style.is_file() else ""),
        # In a script element "</script" would end it; as JSON these are the same texts.
        "episode": text.replace("<", "\\u003c"),
        "against": "null" if against is None else to_json(against).replace("<", "\\u003c"),
        # The script of a view builds on those before; the last one begins to play.
        "script": "\n".join([*map(_part, scripts), *([view.read_text("utf-8")] if view else []), _part("player.js")]),
        "sheets": to_html(sheets),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))


def write_page(
    episode: dict[str, Any],
    path: str | os.PathLike,
    against: dict[str, Any] | None = None,
    *,
    sheets: Sequence[Sheet] = (),
) -> None:
    """Write the page that plays an episode (see `page`), completely or not at all.

    Raises:
        ValueError: an episode does not follow the format, or the two are of different kinds.
        OSError: the file cannot be written.
    """
    write_text(path, page(episode, against, sheets=sheets))


def _part(name: str) -> str:
    """A file of the folder `page`, as text."""
    return resources.files("jaxvrp.show").joinpath("page", name).read_text(encoding="utf-8")


class Html(str):
    """A piece of HTML that notebooks show as such."""

    def _repr_html_(self) -> str:
        return str(self)


def html_of(episode: Episode, *, height: int = 820) -> Html:
    """The page of an episode in a frame `height` pixels high, for notebooks: the last expression of a cell shows it.

    Raises:
        ValueError: what `export_episode` refuses.
    """
    content = html.escape(page(export_episode(episode)), quote=True)
    look = f"width: 100%; height: {height}px; border: 0"
    return Html(
        f'<iframe title="episode" sandbox="allow-scripts allow-downloads" style="{look}" srcdoc="{content}"></iframe>'
    )

"""Episodes as JSON files, and one self-contained HTML page that plays them; see `jaxvrp.replay.episode_format`.

`python -m jaxvrp.replay EPISODE.json [-o PAGE.html]` draws any episode file, without the learners.
"""

from jaxvrp.replay.common import FORMAT, VERSION, with_insight
from jaxvrp.replay.episode_format import check, read_episode, write_episode
from jaxvrp.replay.export import export_episode, html_of, page, save, write_page

__all__ = [
    "FORMAT",
    "VERSION",
    "check",
    "export_episode",
    "html_of",
    "page",
    "read_episode",
    "save",
    "with_insight",
    "write_episode",
    "write_page",
]

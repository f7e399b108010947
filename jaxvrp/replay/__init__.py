"""Episodes as JSON files, and one self-contained HTML page that plays them; the format is that of `replay.episode`.

`python -m jaxvrp.replay EPISODE.json [-o PAGE.html]` draws any episode file, without the learners.
"""

from jaxvrp.replay.episode import FORMAT, VERSION, check, read_episode, write_episode
from jaxvrp.replay.export import export_episode, save
from jaxvrp.replay.pages import html_of, page, write_page

__all__ = [
    "FORMAT",
    "VERSION",
    "check",
    "export_episode",
    "html_of",
    "page",
    "read_episode",
    "save",
    "write_episode",
    "write_page",
]

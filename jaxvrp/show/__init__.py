"""Episodes as JSON files, and one self-contained HTML page that plays them; see `jaxvrp.show.episode_format`.

`python -m jaxvrp.show EPISODE.json [-o PAGE.html]` draws any episode file, without the learners.
"""

from jaxvrp.show.animation import write_picture
from jaxvrp.show.common import FORMAT, VERSION, with_insight
from jaxvrp.show.drawing.files import STILLS, save_still
from jaxvrp.show.episode_format import check, read_episode, write_episode
from jaxvrp.show.export import export_episode, html_of, page, save, story_of, write_page
from jaxvrp.show.figure import draw_chart, draw_map, draw_story

__all__ = [
    "FORMAT",
    "STILLS",
    "VERSION",
    "check",
    "draw_chart",
    "draw_map",
    "draw_story",
    "export_episode",
    "html_of",
    "page",
    "read_episode",
    "save",
    "save_still",
    "story_of",
    "with_insight",
    "write_episode",
    "write_page",
    "write_picture",
]

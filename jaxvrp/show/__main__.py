"""The command that draws an episode file: `python -m jaxvrp.show EPISODE.json [-o PAGE.html]`.

`--against OTHER.json` shows another episode of the same kind beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxvrp.io.command_line import Parser, refuse_overwriting, run_command
from jaxvrp.show.episode_format import read_episode
from jaxvrp.show.export import write_page


def main(argv: Sequence[str] | None = None) -> int:
    """Draw an episode file; a user's mistake is one line on stderr and exit status 2."""

    return run_command(lambda: _draw(argv), (ValueError,))


def _draw(argv: Sequence[str] | None) -> None:
    parser = Parser("jaxvrp.show", "Draw an episode file as a page that plays it.")
    parser.add_argument("episode", type=Path, help="JSON, of jaxvrp.show.save or python -m train.replay")
    parser.add_argument("--against", type=Path, help="another episode of the same kind, to be shown beside it")
    parser.add_argument("-o", "--out", type=Path, help="the page (default: beside the episode, .html)")
    options = parser.parse_args(argv)
    out = options.out or options.episode.with_suffix(".html")
    refuse_overwriting(out, "-o", filter(None, [options.episode, options.against]))
    write_page(read_episode(options.episode), out, read_episode(options.against) if options.against else None)
    print(f"wrote {out}")


if __name__ == "__main__":
    sys.exit(main())

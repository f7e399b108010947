"""List environments, algorithms, networks, configurations and policies."""

from __future__ import annotations

from collections.abc import Sequence

from jaxvrp.io.command_line import Parser
from jaxvrp_command.names import SECTIONS, aligned, checked, width


def page(titles: Sequence[str], columns: int) -> str:
    """The sections of these titles, their columns aligned, in lines of at most so many characters."""
    sections = {title: SECTIONS[title] for title in titles}
    blocks = [[f"{title}  ({use})", *aligned(rows(), columns)] for title, (use, rows) in sections.items()]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = Parser("jaxvrp_command.list", "List environments, algorithms, networks, configurations and policies.")
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"some of {', '.join(SECTIONS)} (default: all)")
    titles = [checked(title, SECTIONS, "list", parser.prog) for title in parser.parse_args(argv).what]
    print(page(titles or list(SECTIONS), width()))

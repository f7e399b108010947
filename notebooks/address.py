"""The address of the repository, kept in one place: `pyproject.toml`, `[project.urls]`, `Repository`.

`python notebooks/address.py https://github.com/you/jaxvrp` writes it there, and into everything that repeats it, since
it is read where there is no `pyproject.toml`: `CITATION.cff` and the first code cell of the notebooks. Without an
address it copies the one of `pyproject.toml`. `--check` only says where another one stands.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYPROJECT = "pyproject.toml"
NOT_FILLED_IN = "OWNER"
"""Stands in the address while there is none."""

PLACES = {
    PYPROJECT: re.compile(r'(?m)^(Repository = ")([^"\n]*)(")$'),
    "CITATION.cff": re.compile(r'(?m)^(repository-code: ")([^"\n]*)(")$'),
    "notebooks/quickstart.ipynb": re.compile(r'(REPOSITORY = \\")([^"\\]*)(\\")'),
    "notebooks/colab_tpu_gpu.ipynb": re.compile(r'(REPOSITORY = \\")([^"\\]*)(\\")'),
}
"""Where the address stands: the second group."""


def address_of(root: pathlib.Path) -> str:
    """What `pyproject.toml` says."""
    content = tomllib.loads((root / PYPROJECT).read_text(encoding="utf-8"))
    return content["project"]["urls"]["Repository"]


def written(text: str, pattern: re.Pattern[str], address: str) -> str:
    """A text with the address in its place.

    Raises:
        ValueError: there is no such place, or more than one.
    """
    replaced, count = pattern.subn(lambda found: found[1] + address + found[3], text)
    if count != 1:
        raise ValueError(f"{count} places for the address, instead of one")
    return replaced


def fill_in(root: pathlib.Path, address: str, *, check: bool = False) -> list[str]:
    """The files that had another address; they are changed, unless `check`.

    Raises:
        ValueError: a file has not exactly one place for it.
    """
    different = []
    for name, pattern in PLACES.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        try:
            changed = written(text, pattern, address)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if changed != text:
            different.append(name)
            if not check:
                path.write_text(changed, encoding="utf-8")
    return different


def main() -> int:
    """The command line; a mistake is one line on stderr and exit status 2."""
    parser = argparse.ArgumentParser(description="Write the address of the repository wherever it is read.")
    parser.add_argument("address", nargs="?", help="https://HOST/PATH (default: that of pyproject.toml)")
    parser.add_argument("--check", action="store_true", help="only say where another one stands")
    args = parser.parse_args()
    if args.address and not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", args.address):
        print(f"error: '{args.address}' is no address such as https://github.com/you/jaxvrp", file=sys.stderr)
        return 2
    address = args.address or address_of(ROOT)
    different = fill_in(ROOT, address, check=args.check)
    if args.check and different:
        print(f"error: not {address}: {', '.join(different)}; run python notebooks/address.py", file=sys.stderr)
        return 2
    print(f"{address}: {'in ' + ', '.join(different) if different else 'everywhere already'}")
    if NOT_FILLED_IN in address:
        print("this is a placeholder: give the address of the repository to fill it in")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What MkDocs calls while it builds the site: pages that are made, and links as the site needs them.

The gallery's episodes are played in a process of their own, once for each state of the code: they are kept in `build/`.
`JAXVRP_GALLERY` names those that are played (`darp,tsp_drone`); the default is all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from links import PAGES, ROOT, as_on_site, linked_files, place_on_site
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference import REFERENCE, reference_pages

GALLERY = ROOT / "build" / "gallery"
PLAYED_FROM = ("jaxvrp/**/*", "train/**/*", "docs/site/gallery.py")
"""The files that decide what the gallery shows."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation has every page of the reference."""
    entries = [{title: f"reference/{name}.md"} for title, (name, _) in REFERENCE.items()]
    config.nav.append({"Reference": ["reference/index.md", *entries]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages that are made, and copies of the files that pages link to."""
    own_index = files.get_file_from_path("index.md")
    if own_index:
        files.remove(own_index)
    sources = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    made = {place_on_site(page): as_on_site(page, text) for page, text in sources.items()}
    made |= reference_pages()
    for file in files.documentation_pages():
        sources[f"docs/{file.src_uri}"] = Path(file.abs_src_path).read_text(encoding="utf-8")
    linked = {there for page, text in sources.items() for there in linked_files(page, text)}
    for there in sorted(there for there in linked if place_on_site(there).startswith("files/")):
        files.append(File.generated(config, place_on_site(there), abs_src_path=str(ROOT / there)))
    config.extra["gallery"] = play_gallery()
    for page in sorted(config.extra["gallery"].glob("*.html")):
        files.append(File.generated(config, f"gallery/{page.name}", abs_src_path=str(page)))
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Links of pages in `docs/` as the site needs them; the gallery gets its episodes."""
    if page.file.generated_by:
        return markdown
    text = as_on_site(f"docs/{page.file.src_uri}", markdown)
    return text + gallery_section(config.extra["gallery"]) if page.file.src_uri == "gallery.md" else text


def play_gallery() -> Path:
    """The folder with the gallery's pages, which are made if the code has changed since."""
    chosen = os.environ.get("JAXVRP_GALLERY", "")
    digest = hashlib.sha256(chosen.encode())
    paths = [path for pattern in PLAYED_FROM for path in sorted(ROOT.glob(pattern))]
    for path in (path for path in paths if path.is_file() and "__pycache__" not in path.parts):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    folder = GALLERY / digest.hexdigest()[:16]
    if not (folder / "gallery.json").is_file():
        shutil.rmtree(GALLERY, ignore_errors=True)
        only = ["--only", *chosen.split(",")] if chosen else []
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        program = str(Path(__file__).with_name("gallery.py"))
        subprocess.run([sys.executable, program, str(folder), *only], check=True, env=environment)
    return folder


def gallery_section(folder: Path) -> str:
    """The part of the gallery's page that shows the episodes."""
    lines = []
    for played in json.loads((folder / "gallery.json").read_text(encoding="utf-8")):
        name, player, summary = played["name"], played["player"], played["summary"]
        figures = f"return {summary['return']:.1f} in {summary['length']:.0f} steps"
        lines += [
            f"\n## [`{name}`]({name}.md)\n",
            f"{player[:1].upper()}{player[1:]}: {figures}. [The page alone](gallery/{name}.html).\n",
            f'<iframe src="{name}.html" title="An episode of {name}" loading="lazy" class="replay"></iframe>\n',
        ]
    return "\n".join(lines)

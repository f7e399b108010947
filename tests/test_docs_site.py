"""The site of the documentation: its links, its reference and its gallery. CI builds it strictly; see `.ci/run`."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import jaxvrp
from jaxvrp.envs.pcb import to_unscaled
from jaxvrp.policies.folder import shipped_policies
from jaxvrp_command import names

ROOT = pathlib.Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def site(request):
    """Gives the modules of `docs/site` by name."""
    sys.path.insert(0, str(SITE))
    request.addfinalizer(lambda: sys.path.remove(str(SITE)))
    return importlib.import_module


@pytest.mark.parametrize(
    ("source", "written", "shown"),
    [
        ("README.md", "[a](docs/darp.md#mask)", "[a](darp.md#mask)"),
        ("README.md", "![a](docs/images/darp.gif)", "![a](images/darp.gif)"),
        ("README.md", "[a](LICENSE), [b](docs/index.md)", "[a](files/LICENSE), [b](pages.md)"),
        ("docs/tutorials/compare_with_a_solver.md", "[a](../../README.md)", "[a](../index.md)"),
        ("docs/tutorials/compare_with_a_solver.md", "[a](../training.md)", "[a](../training.md)"),
        ("docs/darp.md", "[a](../benchmarks/NOTES.md#x), [b](#mask)", "[a](notes.md#x), [b](#mask)"),
        ("CHANGELOG.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("README.md", "```python\nf[0](docs/darp.md)\n```\n", "```python\nf[0](docs/darp.md)\n```\n"),
    ],
)
def test_links_lead_to_the_same_file_on_the_site(site, source, written, shown):
    assert site("links").as_on_site(source, written) == shown


def test_a_link_to_nothing_is_refused(site):
    with pytest.raises(ValueError, match=r"docs/darp\.md links to nowhere\.md, and there is no file docs/nowhere\.md"):
        site("links").as_on_site("docs/darp.md", "[a](nowhere.md)")


def test_no_brackets_stand_side_by_side(site):
    """Markdown takes `[a] [b]` for a link to a reference 'b', which newer tools of the site look for and miss."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        prose = re.sub(r"`[^`]*`", "", "".join(site("links").FENCE.split(page.read_text())[::2]))
        assert re.findall(r"\[[^]]*\] ?\[[^]]*\]", prose) == [], page


def test_tables_and_lists_stand_alone(site):
    assert site("links").as_on_site("README.md", "| <!--darp.policy-->5.9 % |\n") == "| 5.9 % |\n"
    written = "Text:\n- a\n  more\n- b\n\n<!-- results: x.json -->\n| a |\n|---|\n"
    assert site("links").as_on_site("README.md", written) == "Text:\n\n- a\n  more\n- b\n\n\n\n| a |\n|---|\n"


def test_every_public_module_is_on_a_page_of_the_reference(site):
    reference = site("reference")
    pages = reference.reference_pages()
    text = "\n".join(pages.values())
    shown = re.findall(r"^::: (\S+)$", text, re.M)
    assert sorted(shown) == sorted(reference.modules()) and len(shown) == len(set(shown))
    for name in jaxvrp.__all__:
        if name != "spaces":
            assert getattr(jaxvrp, name).__module__ in shown, name
    assert not [name for name in pages if not re.search(r"^(:::|\| \[)", pages[name], re.M)], "a page without modules"


def test_fields_of_environments_are_described(site):
    pytest.importorskip("griffe", reason="needs the extra 'docs'")
    described = site("house_docstrings").described
    node = ast.parse("parameter(0.2, above=0.0, help='half the side', unit='map units')", mode="eval").body
    assert described(node) == "Half the side [map units]."
    assert described(ast.parse("parameter(0.2)", mode="eval").body) == described(None) == ""


def test_the_gallery_has_every_environment(site):
    gallery = site("gallery")
    # Not `jaxvrp.registered()`: other tests have registered toys.
    built_in = {name for name, _ in names.registered("environment")}
    assert {exhibit.name for exhibit in gallery.EXHIBITS} == built_in
    policies = {name for exhibit in gallery.EXHIBITS for name in re.findall("policy `(.*)`", exhibit.player)}
    assert policies and policies <= set(shipped_policies())


def test_parts_walk_straight_to_their_goals(site):
    """Angles are counter-clockwise on screen, where y points down: half a step up, a whole one to the right."""
    moves = site("gallery").straight_moves(jnp.array([[0.0, -1.0], [7.0, 0.0]]), jnp.array([0, 3]), 2.0)
    share, angle, turn = to_unscaled(moves).T
    np.testing.assert_allclose(share, [0.5, 1.0], atol=1e-6)
    np.testing.assert_allclose(angle, [np.pi / 2, 0.0], atol=1e-5)
    assert jnp.floor(4 * turn).tolist() == [0.0, 3.0]


def test_the_navigation_names_pages_that_exist():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(re.sub(r"!!python\S+", "", text))["nav"]
    made = {"index.md", "pages.md", "notes.md", "contributing.md", "changes.md"}
    named = set(re.findall(r"[\w/]+\.md", str(nav)))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert named == written | made

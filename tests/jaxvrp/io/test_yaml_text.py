"""YAML without surprises: what each text stands for, what is refused, and that everything written is read again."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jaxvrp.io.yaml_text import dump_yaml, load_yaml

MEANS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "FALSE": False,
    "12": 12,
    "-1_000": -1000,
    "012": 12,
    "0x1f": 31,
    "3e-4": 3e-4,
    "1_0.5": 10.5,
    ".5": 0.5,
    "-.inf": -float("inf"),
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "12:30:45": "12:30:45",
    "1:30.5": "1:30.5",
    "2026-01-01": "2026-01-01",
    "0b11": "0b11",
    "_1": "_1",
    "'12'": "12",
    "[1, a, {b: null}]": [1, "a", {"b": None}],
    "a: 1\nb:\n  c: [2]\n": {"a": 1, "b": {"c": [2]}},
    "<<: {a: 1}": {"<<": {"a": 1}},
}


@pytest.mark.parametrize(("text", "value"), MEANS.items(), ids=map(repr, MEANS))
def test_what_texts_stand_for(text, value):
    assert load_yaml(text) == value and type(load_yaml(text)) is type(value)


REFUSED = {
    "a: 1\nb: 2\na: 3": "line 3: the key 'a' stands twice; leave one of them out",
    "{a: {b: 1, b: 1}}": "line 1: the key 'b' stands twice; leave one of them out",
    "1: x\n01: y": "line 2: the key 1 stands twice; leave one of them out",
    "{[1]: 2}": "line 1: a list or mapping as a key; give a text",
    "a: &x 1\nb: *x": "line 2: an alias, *x; write out what it stands for",
    "a: !mine 1": "line 1: a tag, !mine; leave it out",
    "!!binary aGk=": "line 1: a tag, tag:yaml.org,2002:binary; leave it out",
    "\n[1": "line 2: expected ',' or ']', but got '<stream end>'",
    "\x01": "special characters are not allowed",
    "9" * 5000: "line 1: a whole number of 5000 digits",
    "a\n---\nb": "line 2: but found another document",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load_yaml(text)


def test_up_to_32_lists_and_mappings_lie_within_each_other():
    deepest = "[" * 32 + "1" + "]" * 32
    assert load_yaml(deepest) == yaml.safe_load(deepest)
    for text in (f"[{deepest}]", f"a: {deepest}", "[" * 100_000, "- " * 100_000, "{a: " * 100_000):
        with pytest.raises(ValueError, match=r"^line 1: more than 32 lists and mappings within each other$"):
            load_yaml(text)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
AMBIGUOUS = st.sampled_from([text for text in MEANS if text.strip("~")]) | st.from_regex(
    r"[-+0-9._xeE:]+", fullmatch=True
)
LEAVES = SCALARS | AMBIGUOUS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(VALUES)
def test_what_is_written_is_read_by_this_reader_and_by_the_usual_one(value):
    assert load_yaml(dump_yaml(value)) == value
    assert yaml.safe_load(dump_yaml(value)) == value


def test_what_occurs_twice_is_written_twice():
    sizes = [64, 64]
    assert load_yaml(dump_yaml({"a": sizes, "b": sizes, "c": (1, 2)})) == {"a": sizes, "b": sizes, "c": [1, 2]}

"""The page of `--help`: every key, in its group, with its sentence, its values and its default."""

import argparse
import dataclasses
import re

import pytest

import jaxvrp
from jaxvrp import fields
from train.algorithms import ALGORITHMS
from train.commands import launch
from train.settings.keys import GROUPS, LAUNCH, MAPPINGS, Key, as_typed

TITLES = ["options", *GROUPS.values()]


def page_of(words, capsys):
    algorithm, *argv = words.split()
    with pytest.raises(SystemExit) as stopped:
        launch.main(algorithm, [*argv, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def entries(page):
    """By name: the group's title, and what is said of a key, in one line."""
    found, title = {}, None
    for line in page.splitlines():
        if heading := re.fullmatch(r"(\w.*):", line):
            title = heading[1]
        elif start := re.match(r"  --([\w.]+)(?: \S+)? *(.*)", line):
            name = start[1]
            found[name] = (title, start[2])
        elif line.startswith("    ") and title in TITLES[1:]:
            found[name] = (title, f"{found[name][1]} {line.strip()}".strip())
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_key_of_a_configuration(algorithm, capsys):
    config_class = ALGORITHMS[algorithm].config_class
    env = "truck_drone" if algorithm in ("mappo", "ippo") else "darp"
    listed = entries(page_of(f"{algorithm} --env.name {env}", capsys))
    for field in dataclasses.fields(config_class):
        if field.name in MAPPINGS:
            continue
        title, text = listed[field.name]
        sentence = field.metadata["help"].replace("`", "")
        accepted, default = fields.accepted_values(config_class, field), as_typed(field.default)
        assert sentence
        assert text == f"{sentence} ({accepted}; default: {default})"
        assert title == GROUPS[field.metadata["group"]]


def test_the_parameters_of_the_environment_have_their_own_sentences(capsys):
    env = jaxvrp.make("truck_drone")
    listed = entries(page_of("mappo", capsys))
    for field in dataclasses.fields(env):
        title, text = listed[f"env.{fields.keyword(field)}"]
        accepted = fields.accepted_values(type(env), field)
        assert title == "environment"
        sentence = field.metadata["help"].replace("`", "")
        assert sentence and text.startswith(sentence)
        assert text.endswith(f"({accepted}; default: {field.default})")
    assert listed["env.scenario"][1].endswith("default: truck_drone_basic)")


def test_the_parameters_of_a_factory_have_sentences_too(capsys):
    """`pcb` is made from several dataclasses, which its toolbox names; evaluation changes one of them by default."""
    listed = entries(page_of("sac --env.name pcb", capsys))
    for name in ("num_boards", "board_seed", "max_parts", "max_steps", "hpwl_weight"):
        assert not listed[f"env.{name}"][1].startswith("("), name
        assert "parameter of the environment" not in listed[f"env.{name}"][1], name
    assert listed["eval_env.KEY"][0] == "evaluation"
    assert listed["eval_env.KEY"][1].endswith("(default: {max_steps: 600})")


def test_a_key_of_an_unknown_group_is_an_error():
    """No page would show it."""
    with pytest.raises(
        ValueError, match=r"^the group of key 'depth' is 'networks'; it must be one of: \['start', 'run'"
    ):
        Key("depth", "networks", "how deep it is")


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_it_is_grouped_and_narrow_enough(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    page = page_of("mappo", capsys)
    assert [line[:-1] for line in page.splitlines() if re.fullmatch(r"\w.*:", line)] == TITLES
    assert max(map(len, page.splitlines())) <= columns
    assert "Any" not in page and argparse.SUPPRESS not in page
    assert set(LAUNCH) <= set(entries(page))

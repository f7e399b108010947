"""Aligned tables of figures."""

import pytest

from jaxvrp.card import Headline
from train import figures_table

FIGURES = {"policy": {"return": 12.5, "late_share": 0.000712, "length": 30.0}}


def test_a_small_share_keeps_two_digits():
    head, _, row = figures_table(FIGURES, [Headline("late_share", "late")]).splitlines()
    assert head.split() == ["return", "late", "steps"]
    assert row.split() == ["policy", "12.500", "0.00071", "30.000"]
    by_seed = {"policy": {"return": [12.0, 13.0], "late_share": [0.0006, 0.0008], "length": [30.0, 30.0]}}
    row = figures_table(by_seed, [Headline("late_share", "late")]).splitlines()[2]
    assert " ".join(row.split()) == "policy 12.500 ± 0.707 0.0007 ± 0.00014 30.000 ± 0.000"


def test_a_headline_without_its_metric_is_left_out_if_it_is_optional():
    figures = {"policy": {"return": 12.5, "length": 30.0}}
    head = figures_table(figures, [Headline("late_share", "late", optional=True)]).splitlines()[0]
    assert head.split() == ["return", "steps"]
    with pytest.raises(KeyError, match="late_share"):
        figures_table(figures, [Headline("late_share", "late")])


def test_a_metric_by_agent_has_a_column_for_each():
    figures = {"policy": {"return": 12.5, "walked_0": 3.0, "walked_1": 4.0, "length": 30.0}}
    head, _, row = figures_table(figures, [Headline("walked", "walked")]).splitlines()
    assert head.split() == ["return", "walked", "0", "walked", "1", "steps"]
    assert row.split() == ["policy", "12.500", "3.000", "4.000", "30.000"]
    head = figures_table(figures, [Headline("walked_1", "the second")]).splitlines()[0]
    assert head.split() == ["return", "the", "second", "steps"]

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
    assert " ".join(row.split()) == "policy 12.500 ± 0.500 0.0007 ± 0.0001 30.000 ± 0.000"


def test_a_headline_without_its_metric_is_left_out_if_it_is_optional():
    figures = {"policy": {"return": 12.5, "length": 30.0}}
    head = figures_table(figures, [Headline("late_share", "late", optional=True)]).splitlines()[0]
    assert head.split() == ["return", "steps"]
    with pytest.raises(KeyError, match="late_share"):
        figures_table(figures, [Headline("late_share", "late")])

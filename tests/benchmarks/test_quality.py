"""The table of the baselines."""

import pytest

from benchmarks import quality
from train.cli import UserError


def test_greedy_beats_random_in_every_row_of_the_table():
    head, greedy, random = quality.rows([(1, 2, 3)], battery_rate=0.5, episodes=32)
    assert head[:3] == ["(drones, customers, nodes)", "player", "return"]
    assert (greedy[1], random[1]) == ("greedy", "random")
    assert float(greedy[2]) > float(random[2])
    assert float(greedy[3]) > 0.9 > float(random[3])


@pytest.mark.parametrize("words", [["--battery_rate", "-1"], ["--battery_rate", "much"], ["--episodes", "0"]])
def test_a_mistake_is_one_line(words):
    with pytest.raises(UserError, match=f"{words[0]}.*{words[1]}"):
        quality.main(words)

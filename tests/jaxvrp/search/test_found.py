"""When the best plan was found: at its first report, whatever is reported afterwards."""

import itertools

import numpy as np
import pytest

from jaxvrp.players import Searched, SearchedAll
from jaxvrp.search.found import with_found

INF = np.inf


@pytest.mark.parametrize(
    ("costs", "found"),
    [
        ([5.0, 5.0, 5.0], [1, 1, 1]),
        ([5.0, 4.0, 4.0, 3.0, 3.0], [1, 2, 2, 4, 4]),
        ([INF, INF, 7.0, 7.0], [INF, INF, 3, 3]),
        ([-2.0, -3.0], [1, 2]),
        ([3.0, 4.0, 3.0], [1, 1, 1]),  # of a search that does not keep its best
    ],
)
def test_a_cost_is_found_when_it_is_first_reported(costs, found):
    reports = [Searched(float(second), cost, {}) for second, cost in zip(itertools.count(1), costs, strict=False)]
    assert [(best, float(after)) for best, after in with_found(reports)] == list(zip(reports, found, strict=True))


def test_each_problem_of_a_batch_has_its_own_time():
    costs = [[4.0, INF, 1.0], [3.0, INF, 1.0], [3.0, 9.0, 1.0]]
    reports = [SearchedAll(second, np.float32(cost), {}) for second, cost in zip((0.5, 1.0, 1.5), costs, strict=True)]
    *_, (best, after) = with_found(reports)
    assert best is reports[-1]
    np.testing.assert_array_equal(after, [1.0, 1.5, 0.5])

"""When a search found its best plan: not when it reported last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from jaxvrp.players import Searched, SearchedAll

Report = TypeVar("Report", Searched, SearchedAll)


def with_found(reports: Iterable[Report]) -> Iterator[tuple[Report, np.ndarray]]:
    """The reports of a search, each with the seconds after which a plan of its cost was first reported.

    They are `f64[]`, for each problem `f64[B]` of a batch; infinite as long as the cost is.
    """
    found = least = np.full((), np.inf)
    for report in reports:
        found = np.where(report.cost < least, report.seconds, found)
        least = np.minimum(report.cost, least)
        yield report, found

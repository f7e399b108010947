"""VROOM's shipments as a dial-a-ride problem; each may have to be short, which VROOM has no field for."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.darp.problem.instance import Instance, make_instance
from jaxvrp.io.json_files import plain
from jaxvrp.io.problem_files import DamagedFileError
from jaxvrp.orders.vroom import parse_tour

MAX_RIDE_TIME = math.inf
"""Seconds on board, from the end of the pickup on: what the file cannot say."""


def instance_of_vroom(
    content: Mapping[str, Any], path: str | os.PathLike, max_ride_time: float = MAX_RIDE_TIME
) -> Instance:
    """The problem that the JSON value of a file describes, in seconds of its clock and kilometres.

    Requests have the order of the file. What is shortest is the time of travel.

    Raises:
        DamagedFileError: it is none; one line that names the file and the field.
    """
    try:
        tour = parse_tour(plain(content), "shipments")
        closes = {driver.closes for driver in tour.drivers}
        if len(closes) > 1:
            raise ValueError("vehicles: their time_windows end at different times; all end at once here")
        amounts = np.array([(task.amount or 1) * (1 if at % 2 == 0 else -1) for at, task in enumerate(tour.tasks)])
        total = int(amounts[::2].sum())
        return make_instance(
            tour.places[0],
            [0, *amounts],
            [closes.pop(), *(task.window[1] for task in tour.tasks)],
            capacity=[total if driver.capacity is None else driver.capacity for driver in tour.drivers],
            earliest=[tour.opens, *(task.window[0] for task in tour.tasks)],
            service_time=[0.0, *(task.service for task in tour.tasks)],
            max_ride_time=max_ride_time,
            travel_time=tour.seconds,
        )
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None

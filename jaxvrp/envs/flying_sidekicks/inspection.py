"""Warnings of what is absurd in a problem of a truck with several drones, as if its units had been mixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp.envs.flying_sidekicks.instance import Instance
from jaxvrp.plausible import out_of_reach
from jaxvrp.toolbox import Inspection


def inspect(instance: Instance, env: Any) -> Inspection:
    """Warnings about one problem with the numbers of its file."""
    del env
    itself = np.eye(instance.num_nodes, dtype=bool)
    out, back = (np.where(itself, np.inf, drain) for drain in (instance.drain_out, instance.drain_back))
    least = out.min(axis=1) + back.min(axis=2)  # to each node from any, and from it to any
    allowed = np.flatnonzero((instance.exists & ~np.asarray(instance.no_fly).all(axis=0))[1:]) + 1
    needs = least[np.argmax(instance.endurance)][allowed]
    return Inspection(warnings=tuple(out_of_reach("endurance", float(np.max(instance.endurance)), needs)))

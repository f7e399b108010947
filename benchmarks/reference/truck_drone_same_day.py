"""One truck_drone_same_day instance in plain NumPy: what it changes in `benchmarks.reference.vrpd_tw`.

Written from the description of the scenario alone, independent of the JAX environment.
"""

from typing import ClassVar

import numpy as np

from benchmarks.reference.vrpd_tw import NumpyVrpdTw


class NumpySameDay(NumpyVrpdTw):
    """Customers call when their window opens, and are lost when it has closed."""

    defaults: ClassVar[dict[str, float]] = NumpyVrpdTw.defaults | {
        "dynamic_share": 1.0, "makespan_cost": 0.0, "completion_bonus": 0.0, "incomplete_penalty": 0.0,
    }  # fmt: skip

    def _widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 40, self.max_steps // 16

    def generate(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """As in vrpd_tw, but whoever calls during the day calls in the first step of the window."""
        instance = super().generate(rng)
        calls = rng.random(self.num_customers) < self.dynamic_share
        return instance | {"known_from": np.where(calls, instance["window_start"], 0).astype(np.int32)}

    def _is_gone(self) -> np.ndarray:
        """Whether each customer was served, or can be served by no delivery of a later step, bool [C]."""
        return self.served | (self.time_step + 1 > self.window_end)

    def is_terminal(self) -> bool:
        """Nobody is left, and every drone is down; or as in vrpd_tw."""
        return super().is_terminal() or bool(self._is_gone().all() and not self._airborne().any())

    def _in_demand(self) -> np.ndarray:
        """Nobody may be sent to a customer who is gone."""
        return ~self._is_gone() & self._is_known()

    def _customer_features(self, origin: np.ndarray) -> np.ndarray:
        """Whoever is lost looks served, and is where the order came from."""
        feature = super()._customer_features(origin).reshape(len(origin), self.num_customers, 5)
        feature[:, self._is_gone(), 2:4] = 1, 0
        return feature.reshape(len(origin), -1)

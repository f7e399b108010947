"""One vrpd_tw instance in plain NumPy: the ground truth of the parity test, written from the spec alone.

Units and names are those of `benchmarks.reference.truck_drone`, of which only what the spec changes is written anew.
"""

from typing import ClassVar

import numpy as np

from benchmarks.reference.truck_drone import (
    CRASHED,
    DEFAULT_PARAMETERS,
    DELIVER,
    FLYING,
    MOVE,
    NOBODY,
    RETURNING,
    STATE_ARRAYS,
    STAY,
    NumpyTruckDrone,
    _length,
)

NOWHERE = -1
ARRIVED = np.float32(1e-6)  # closer to its node than this the truck is there


class NumpyVrpdTw(NumpyTruckDrone):
    """The scenario vrpd_tw for one instance whose customers all exist."""

    defaults: ClassVar[dict[str, float]] = DEFAULT_PARAMETERS | {
        "battery_rate": 0.58, "hover_cost": 0.02, "recharge_rate": 0.025,
        "payload_factor": 0.5, "crash_penalty": 10.0, "makespan_cost": 0.1, "dynamic_share": 0.0,
    }  # fmt: skip
    state_arrays: ClassVar[tuple[str, ...]] = (*STATE_ARRAYS, "target_node")

    def _widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 10, self.max_steps // 4

    def generate(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """As in truck_drone_basic, with narrow windows and the steps from which customers are known [C]."""
        instance = super().generate(rng)
        known_from = np.zeros(self.num_customers, np.int32)
        for customer, opening in enumerate(instance["window_start"]):
            if rng.random() < self.dynamic_share and opening > 1:
                known_from[customer] = rng.integers(1, opening)
        return instance | {"known_from": known_from}

    def reset_to(self, instance: dict[str, np.ndarray]) -> None:
        """Starts an episode on `instance`; the truck drives nowhere."""
        super().reset_to(instance)
        self.window_start = np.array(instance["window_start"], np.int32)
        self.known_from = np.array(instance["known_from"], np.int32)
        self.target_node = np.array(NOWHERE, np.int32)

    def step(self, truck_action: int, drone_action: np.ndarray) -> tuple[float, bool]:
        """Plays one step; a crash is noticed by the number of wrecks before and after."""
        self.wrecks_before = np.count_nonzero(self.status == CRASHED)
        return super().step(truck_action, drone_action)

    def _consumption(self) -> np.ndarray:
        """A parcel weighs: battery per map unit with what each drone carries, float32 [D]."""
        load = np.zeros(self.num_drones, np.float32)
        for drone, customer in enumerate(self.carrying):
            if customer != NOBODY:
                load[drone] = self.demand[customer]
        return self.battery_rate * (np.float32(1) + self.payload_factor * load)

    def _waits(self, action: np.ndarray, airborne: np.ndarray, travel: np.ndarray) -> np.ndarray:
        """Who is told to deliver, is there, does not move and is too early."""
        waits = np.zeros(self.num_drones, bool)
        for drone in np.flatnonzero(airborne & (action >= DELIVER) & (travel == 0)):
            customer = action[drone] - DELIVER
            offset = self.customer_position[customer] - self.drone_position[drone]
            waits[drone] = _length(offset) < self.delivery_threshold and not self._is_open(customer)
        return waits

    def _is_open(self, customer: int) -> bool:
        """The window has opened by the end of this step."""
        return self.time_step + 1 >= self.window_start[customer]

    def _move_truck(self, truck: int) -> None:
        """Drives to the node of MOVE_k until it is there, or until STAY."""
        if truck == STAY:
            self.target_node[...] = NOWHERE
        elif truck < self.release:
            self.target_node[...] = truck - MOVE
        if self.target_node == NOWHERE:
            return super()._move_truck(STAY)
        super()._move_truck(MOVE + int(self.target_node))
        if _length(self.node_position[self.target_node] - self.truck_position) < ARRIVED:
            self.target_node[...] = NOWHERE
        return None

    def _is_complete(self) -> bool:
        """Everybody is served, and everybody is down."""
        in_air = np.isin(self.status, (FLYING, RETURNING))
        return bool(self.served.all()) and not in_air.any()

    def _reward(self, terminated: bool) -> float:
        """Crashes and time cost, too."""
        crashes = np.count_nonzero(self.status == CRASHED) - self.wrecks_before
        return super()._reward(terminated) - float(self.crash_penalty) * crashes - float(self.makespan_cost)

    def _may_load(self) -> np.ndarray:
        """Parcels are loaded at the truck."""
        return (self.carrying == NOBODY) & (self._gap() <= self.recovery_threshold)

    def _is_known(self) -> np.ndarray:
        """Whether agents know of each customer, bool [C]."""
        return self.known_from <= self.time_step

    def _in_demand(self) -> np.ndarray:
        """Of customers whom nobody knows, nobody may be sent to."""
        return ~self.served & self._is_known()

    def _customer_features(self, origin: np.ndarray) -> np.ndarray:
        """Whoever is not known looks served, at (0, 0), without a window or a demand."""
        feature = super()._customer_features(origin).reshape(len(origin), self.num_customers, 5)
        for customer in np.flatnonzero(~self._is_known()):
            feature[:, customer, :2] = -origin
            feature[:, customer, 2:] = 1, 0, 0
        return feature.reshape(len(origin), -1)

    def _more(self, origin: np.ndarray) -> np.ndarray:
        """Starts of windows [C], and nodes relative to `origin` [2] with a flag for the truck's target [3N]."""
        start = np.where(self._is_known(), self.window_start, 0).astype(np.float32) / np.float32(self.max_steps)
        nodes = np.zeros((self.num_route_nodes, 3), np.float32)
        nodes[:, :2] = self.node_position - origin
        if self.target_node != NOWHERE:
            nodes[self.target_node, 2] = 1
        return np.concatenate((start, nodes.ravel()))

    def observation(self) -> dict[str, np.ndarray]:
        """The vectors of truck_drone_basic, `_more` seen from the truck, and the clock."""
        clock = np.array([self.time_step / self.max_steps], np.float32)
        more = np.concatenate((self._more(self.truck_position), clock))
        return {
            role: np.concatenate((rows, np.tile(more, (len(rows), 1))), axis=1)
            for role, rows in super().observation().items()
        }

    def global_observation(self) -> np.ndarray:
        """That of truck_drone_basic, and `_more` in absolute coordinates."""
        return np.concatenate((super().global_observation(), self._more(np.zeros(2, np.float32))))

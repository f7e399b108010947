"""One truck_drone instance in plain NumPy: the ground truth of the parity test and the baseline of the benchmark.

Written from the spec alone, independent of the JAX environment. Distances in map units, times in steps, speeds in map
units per time unit, batteries as a fraction of a charge, all float32. D drones, C customers, N route nodes.
"""

from typing import Any, ClassVar

import numpy as np

from benchmarks.measuring.subject import Subject, choose

ONBOARD, FLYING, RETURNING, CRASHED = 0, 1, 2, 3
STATUS_CODE = np.array([0.0, 0.25, 0.5, 1.0], np.float32)
STAY, MOVE = 0, 1
HOVER, RETURN, DELIVER = 0, 1, 2
NOBODY = -1
TINY = np.float32(np.finfo(np.float32).tiny)  # divides where a length may be 0

DEFAULT_PARAMETERS: dict[str, float] = {
    "dt": 0.1, "truck_speed": 1.0, "drone_speed": 2.0,
    "max_battery": 1.0, "battery_rate": 0.5, "hover_cost": 0.001, "recharge_rate": 0.05, "forced_return_factor": 1.2,
    "delivery_threshold": 0.05, "recovery_threshold": 0.12,
    "delivery_bonus": 10.0, "late_penalty": 0.5, "energy_cost": 0.1, "forced_return_penalty": 1.0,
    "completion_bonus": 50.0, "incomplete_penalty": 10.0,
}  # fmt: skip
STATE_ARRAYS = (
    "truck_position", "truck_velocity", "drone_position", "drone_velocity", "battery", "status", "carrying",
    "target_position", "has_target", "battery_used", "flown", "forced_return", "served", "just_served",
    "arrival_step", "served_by",
)  # fmt: skip
TOTALS = ("invalid_actions", "forced_returns", "battery_used", "truck_distance", "drone_distance")


def _length(vector: np.ndarray) -> np.ndarray:
    """Euclidean length [...] of vectors [..., 2]; several times faster than np.linalg.norm on short arrays."""
    x, y = vector[..., 0], vector[..., 1]
    return np.sqrt(x * x + y * y)


class NumpyTruckDrone:
    """The scenario truck_drone_basic for one instance; call `reset` or `reset_to` before anything else."""

    defaults: ClassVar[dict[str, float]] = DEFAULT_PARAMETERS
    state_arrays: ClassVar[tuple[str, ...]] = STATE_ARRAYS

    def __init__(
        self,
        num_drones: int = 2,
        num_customers: int = 3,
        num_route_nodes: int = 5,
        max_steps: int = 200,
        **parameters: float,
    ) -> None:
        """Sizes, and any of `defaults` by name."""
        unknown = sorted(set(parameters) - set(self.defaults))
        if unknown:
            raise TypeError(f"unknown parameters: {', '.join(unknown)}")
        self.num_drones, self.num_customers = num_drones, num_customers
        self.num_route_nodes, self.max_steps = num_route_nodes, max_steps
        self.release = MOVE + num_route_nodes  # first RELEASE index
        self.recover = self.release + num_drones  # first RECOVER index
        for name, default in self.defaults.items():
            setattr(self, name, np.float32(parameters.get(name, default)))
        self.truck_stride = self.truck_speed * self.dt
        self.drone_stride = self.drone_speed * self.dt
        self._drone_index, self._customer_index = np.arange(num_drones), np.arange(num_customers)
        others = [[other for other in range(num_drones) if other != drone] for drone in range(num_drones)]
        self._others = np.array(others, np.intp).reshape(num_drones, num_drones - 1)
        self._one_hot, self._origin = np.eye(1 + num_drones, dtype=np.float32), np.zeros((1, 2), np.float32)

    def generate(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One instance as data: customers [C, ...], nodes [N, 2] and the truck's start [2]."""
        count, horizon = self.num_customers, self.max_steps
        start = rng.integers(0, horizon // 2, count)
        width = rng.integers(*self._widths(), count)
        angle = 2.0 * np.pi * np.arange(self.num_route_nodes) / self.num_route_nodes
        return {
            "customer_position": rng.uniform(-0.8, 0.8, (count, 2)).astype(np.float32),
            "demand": rng.uniform(0.5, 1.0, count).astype(np.float32),
            "window_start": start.astype(np.int32),
            "window_end": np.minimum(start + width, horizon).astype(np.int32),
            "node_position": (0.6 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)).astype(np.float32),
            "truck_position": np.zeros(2, np.float32),
        }

    def _widths(self) -> tuple[int, int]:
        """Windows are at least so many steps wide, and less than so many."""
        return self.max_steps // 3, self.max_steps

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode on a fresh instance."""
        self.reset_to(self.generate(rng))

    def reset_to(self, instance: dict[str, np.ndarray]) -> None:
        """Starts an episode on `instance` (the keys of `generate`): all drones on board, fully charged."""
        drones, customers = self.num_drones, self.num_customers
        for name in ("customer_position", "demand", "node_position", "truck_position"):
            setattr(self, name, np.array(instance[name], np.float32))
        self.window_end = np.array(instance["window_end"], np.int32)
        self.truck_velocity = np.zeros(2, np.float32)
        self.drone_position = np.tile(self.truck_position, (drones, 1))
        self.drone_velocity, self.target_position = np.zeros((2, drones, 2), np.float32)
        self.battery = np.full(drones, self.max_battery, np.float32)
        self.status = np.full(drones, ONBOARD, np.int32)
        self.carrying = np.full(drones, NOBODY, np.int32)
        self.has_target, self.forced_return = np.zeros((2, drones), bool)
        self.battery_used, self.flown = np.zeros((2, drones), np.float32)
        self.served, self.just_served = np.zeros((2, customers), bool)
        self.arrival_step, self.served_by = np.full((2, customers), -1, np.int32)
        self.time_step = 0
        self.totals = dict.fromkeys(TOTALS, 0.0)
        self._mask: dict[str, np.ndarray] | None = None

    def state(self) -> dict[str, np.ndarray]:
        """Copies of everything that changes during an episode, except the totals behind the metrics."""
        arrays = {name: getattr(self, name).copy() for name in self.state_arrays}
        return arrays | {"step": np.array(self.time_step, np.int32)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Takes over (copies) such a dict; instance and totals stay. Needs an earlier `reset` or `reset_to`."""
        for name in self.state_arrays:
            setattr(self, name, np.array(state[name], getattr(self, name).dtype))
        self.time_step = int(state["step"])
        self._mask = None

    def step(self, truck_action: int, drone_action: np.ndarray) -> tuple[float, bool]:
        """Plays one step: truck index, drone indices [D]. Returns the shared reward and whether the episode ended."""
        if self.is_terminal():
            return 0.0, True
        self.just_served[:] = False
        truck, drone = self._legal(truck_action, drone_action)
        drone = self._battery_guard(drone)
        was_onboard = self.status == ONBOARD
        self._release_or_recover(truck)
        self._move_drones(drone)
        self._move_truck(truck)
        self._ride_and_charge(was_onboard)
        self._deliver(drone)
        self.time_step += 1
        self._mask = None
        terminated = self.is_terminal()
        return self._reward(terminated), terminated

    def _legal(self, truck_action: int, drone_action: np.ndarray) -> tuple[int, np.ndarray]:
        """Replaces forbidden and out-of-range actions by index 0 and counts them."""
        mask = self.action_mask()
        truck, chosen = int(truck_action), np.asarray(drone_action)
        truck_ok = 0 <= truck < mask["truck"].shape[1] and mask["truck"][0, truck]
        inside = (chosen >= 0) & (chosen < DELIVER + self.num_customers)
        drone = np.where(inside, chosen, HOVER)
        drone_ok = inside & mask["drone"][self._drone_index, drone]
        self.totals["invalid_actions"] += int(not truck_ok) + self.num_drones - np.count_nonzero(drone_ok)
        return (truck if truck_ok else STAY), np.where(drone_ok, drone, HOVER)

    def _airborne(self) -> np.ndarray:
        """Whether each drone is neither on board nor crashed, bool [D]."""
        return (self.status == FLYING) | (self.status == RETURNING)

    def _gap(self) -> np.ndarray:
        """Distance of each drone to the truck, float32 [D]."""
        return _length(self.drone_position - self.truck_position)

    def _battery_guard(self, action: np.ndarray) -> np.ndarray:
        """Sends home, flagged, the drones [D] whose battery would not survive another step outwards."""
        needed = self.forced_return_factor * self._consumption() * (self._gap() + self.drone_stride)
        self.forced_return = (self.battery < needed) & self._airborne() & (action != RETURN)
        self.totals["forced_returns"] += np.count_nonzero(self.forced_return)
        return np.where(self.forced_return, RETURN, action)

    def _consumption(self) -> np.ndarray | np.float32:
        """Battery per map unit flown, float32, or [D] where drones differ."""
        return self.battery_rate

    def _release_or_recover(self, truck: int) -> None:
        """Executes RELEASE_d or RECOVER_d; the mask has already vouched for status and distance."""
        if truck >= self.recover:
            self._board(truck - self.recover)
        elif truck >= self.release:
            drone = truck - self.release
            self.status[drone] = FLYING
            self.drone_position[drone] = self.truck_position

    def _board(self, drones: np.ndarray | int) -> None:
        """Takes drones (an index or a mask [D]) on board."""
        self.status[drones] = ONBOARD
        self._clear(drones)

    def _clear(self, drones: np.ndarray | int) -> None:
        """Stops drones (an index or a mask [D]) and takes away their target and package."""
        self.drone_velocity[drones] = 0.0
        self.carrying[drones] = NOBODY
        self.target_position[drones] = 0.0
        self.has_target[drones] = False

    def _aim(self, action: np.ndarray, airborne: np.ndarray) -> None:
        """Sets status, target and package of the airborne drones (bool [D]) from their executed actions [D]."""
        returning, delivering = airborne & (action == RETURN), airborne & (action >= DELIVER)
        moving = returning | delivering
        customer = np.where(delivering, action - DELIVER, 0)
        goal = self.customer_position[customer]
        goal[returning] = self.truck_position
        goal[~moving] = 0.0
        self.status[airborne] = FLYING
        self.status[returning] = RETURNING
        self.target_position, self.has_target = goal, moving
        self.carrying[delivering] = customer[delivering]

    def _move_drones(self, action: np.ndarray) -> None:
        """Flies one step: targets, displacement, battery, crashes, and the boarding of returning drones."""
        airborne = self._airborne()
        self._aim(action, airborne)
        offset = self.target_position - self.drone_position
        distance = _length(offset) * self.has_target
        travel = np.minimum(self.drone_stride, distance)
        displacement = offset * (travel / np.maximum(distance, TINY))[:, None]
        self.drone_position += displacement
        self.drone_velocity = displacement / self.dt
        hovering = airborne & ~self.has_target | self._waits(action, airborne, travel)
        self.battery_used = np.where(hovering, self.hover_cost, self._consumption() * travel)
        self.battery -= self.battery_used
        self.flown = travel
        self.totals["battery_used"] += float(self.battery_used.sum())
        self.totals["drone_distance"] += float(travel.sum())
        self._crash_or_board(airborne)

    def _waits(self, action: np.ndarray, airborne: np.ndarray, travel: np.ndarray) -> np.ndarray:
        """Whether each drone, flying `travel` [D] in this step, waits at its customer, bool [D]."""
        return np.zeros(self.num_drones, bool)

    def _crash_or_board(self, airborne: np.ndarray) -> None:
        """Downs the airborne drones [D] without battery and boards the returning ones near the truck's old position."""
        crashed = airborne & (self.battery <= 0)
        if np.count_nonzero(crashed):
            self.battery[crashed] = 0.0
            self.status[crashed] = CRASHED
            self._clear(crashed)
        returning = self.status == RETURNING
        if np.count_nonzero(returning):
            self._board(returning & (self._gap() < self.recovery_threshold))

    def _move_truck(self, truck: int) -> None:
        """Drives at most one stride straight at the node of MOVE_k; stands still on every other action."""
        self.truck_velocity = np.zeros(2, np.float32)
        if not MOVE <= truck < self.release:
            return
        offset = self.node_position[truck - MOVE] - self.truck_position
        distance = _length(offset)
        travel = min(self.truck_stride, distance)
        displacement = offset * (travel / max(distance, TINY))
        self.truck_position = self.truck_position + displacement
        self.truck_velocity = displacement / self.dt
        self.totals["truck_distance"] += float(travel)

    def _ride_and_charge(self, was_onboard: np.ndarray) -> None:
        """Carries the drones on board along; those on board since before the step (bool [D]) charge."""
        onboard = self.status == ONBOARD
        self.drone_position[onboard] = self.truck_position
        charged = np.minimum(self.battery + self.recharge_rate, self.max_battery)
        self.battery = np.where(onboard & was_onboard, charged, self.battery)

    def _deliver(self, action: np.ndarray) -> None:
        """Serves customers, lowest drone index first; then nobody carries a package of a served customer."""
        customer = action - DELIVER
        loaded = (customer >= 0) & (customer == self.carrying)
        if not np.count_nonzero(loaded):
            return
        goals = self.customer_position[np.maximum(customer, 0)]
        near = _length(self.drone_position - goals) < self.delivery_threshold
        for drone in np.flatnonzero(loaded & near):
            goal = customer[drone]
            if not self.served[goal] and self._is_open(goal):
                self.served[goal] = self.just_served[goal] = True
                self.arrival_step[goal] = self.time_step + 1
                self.served_by[goal] = drone
                self.target_position[drone] = 0.0
                self.has_target[drone] = False
        self.carrying[self.served[self.carrying]] = NOBODY

    def _is_open(self, customer: int) -> bool:
        """Whether a customer can be served in this step."""
        return True

    def _is_complete(self) -> bool:
        """Everybody is served."""
        return np.count_nonzero(self.served) == self.num_customers

    def is_terminal(self) -> bool:
        """Deadline reached, nothing left to do, or every drone crashed."""
        all_crashed = np.count_nonzero(self.status == CRASHED) == self.num_drones
        return self.time_step >= self.max_steps or self._is_complete() or all_crashed

    def _reward(self, terminated: bool) -> float:
        """The reward of the step just played, shared by all agents."""
        reward = -self.energy_cost * self.battery_used.sum()
        for customer in np.flatnonzero(self.just_served):
            late = np.float32(max(0, self.arrival_step[customer] - self.window_end[customer]))
            reward += self.delivery_bonus - self.late_penalty * late
        reward -= self.forced_return_penalty * np.float32(np.count_nonzero(self.forced_return))
        if terminated:
            unserved = np.float32(self.num_customers - np.count_nonzero(self.served))
            reward += self.completion_bonus if self._is_complete() else -self.incomplete_penalty * unserved
        return float(reward)

    def action_mask(self) -> dict[str, np.ndarray]:
        """Legal actions: truck bool [1, 1 + N + 2D], drone bool [D, 2 + C]; read-only, kept until the state changes."""
        if self._mask is None:
            airborne = self._airborne()
            truck = np.ones((1, self.recover + self.num_drones), bool)
            truck[0, self.release : self.recover] = self.status == ONBOARD
            truck[0, self.recover :] = airborne & (self._gap() <= self.recovery_threshold)
            drone = np.ones((self.num_drones, DELIVER + self.num_customers), bool)
            drone[:, RETURN] = airborne
            wanted = self._may_load()[:, None] | (self.carrying[:, None] == self._customer_index)
            drone[:, DELIVER:] = airborne[:, None] & self._in_demand() & wanted
            truck.flags.writeable = drone.flags.writeable = False
            self._mask = {"truck": truck, "drone": drone}
        return dict(self._mask)

    def _may_load(self) -> np.ndarray:
        """Whether each drone could take any package, if it is in flight, bool [D]."""
        return self.carrying == NOBODY

    def _in_demand(self) -> np.ndarray:
        """Whether somebody may be sent to each customer, bool [C]."""
        return ~self.served

    def _customer_features(self, origin: np.ndarray) -> np.ndarray:
        """Position relative to each origin [A, 2], served, window remaining, demand of every customer: [A, 5C]."""
        remaining = (self.window_end - self.time_step).astype(np.float32) / np.float32(self.max_steps)
        feature = np.empty((len(origin), self.num_customers, 5), np.float32)
        feature[..., :2] = self.customer_position - origin[:, None]
        feature[..., 2] = self.served
        feature[..., 3] = np.where(self.served, 0, np.minimum(np.maximum(remaining, 0), 1))
        feature[..., 4] = self.demand
        return feature.reshape(len(origin), -1)

    def _drone_features(self, origin: np.ndarray) -> np.ndarray:
        """Position relative to `origin` [1, 2], velocity, battery, carrying flag, status code: `[D, 7]`."""
        feature = np.empty((self.num_drones, 7), np.float32)
        feature[:, :2] = self.drone_position - origin
        feature[:, 2:4] = self.drone_velocity
        feature[:, 4] = self.battery
        feature[:, 5] = self.carrying != NOBODY
        feature[:, 6] = STATUS_CODE[self.status]
        return feature

    def observation(self) -> dict[str, np.ndarray]:
        """Truck float32 [1, 4 + 8D + 5C + (1 + D)], drone float32 [D, 11 + 5C + 4(D - 1) + (1 + D)]."""
        origin = self.truck_position[None]
        customers = self._customer_features(np.concatenate((origin, self.drone_position)))
        onboard = (self.status == ONBOARD).astype(np.float32)
        drones = self._drone_features(origin).ravel()
        truck = np.concatenate((origin[0], self.truck_velocity, onboard, drones, customers[0], self._one_hot[0]))
        kinematics = self._drone_features(self._origin)[:, :6]
        features = (kinematics, self.target_position, onboard[:, None], origin - self.drone_position)
        drone = np.concatenate((*features, customers[1:], self._other_features(), self._one_hot[1:]), axis=1)
        return {"truck": truck[None], "drone": drone}

    def _other_features(self) -> np.ndarray:
        """Relative position, battery, status code of every other drone, in index order: [D, 4(D - 1)]."""
        feature = np.empty((*self._others.shape, 4), np.float32)
        feature[..., :2] = self.drone_position[self._others] - self.drone_position[:, None]
        feature[..., 2] = self.battery[self._others]
        feature[..., 3] = STATUS_CODE[self.status][self._others]
        return feature.reshape(self.num_drones, 4 * (self.num_drones - 1))

    def global_observation(self) -> np.ndarray:
        """The whole world in absolute coordinates, float32 [4 + 7D + 5C + 1]."""
        drones, customers = self._drone_features(self._origin).ravel(), self._customer_features(self._origin)[0]
        clock = np.array([self.time_step / self.max_steps], np.float32)
        return np.concatenate((self.truck_position, self.truck_velocity, drones, customers, clock))

    def metrics(self) -> dict[str, float]:
        """Totals of the episode so far; the episode logger's return and length are not among them."""
        served, total = np.count_nonzero(self.served), self.num_customers
        on_time = np.count_nonzero(self.served & (self.arrival_step <= self.window_end))
        return {name: float(value) for name, value in self.totals.items()} | {
            "customers_served": float(served),
            "total_customers": float(total),
            "completion_rate": served / total,
            "success": float(self._is_complete()),
            "on_time_rate": on_time / total,
            "time_step": float(self.time_step),
            "crashed_drones": float(np.count_nonzero(self.status == CRASHED)),
        }


class RandomTruckDrone:
    """The reference under masked random play: a `benchmarks.measuring.subject.Reference`."""

    def __init__(self, env: Any):
        """As many drones, customers and nodes as a `jaxvrp` environment has."""
        sizes = env.num_drones, env.num_customers, env.num_route_nodes
        self.env, self._rng = NumpyTruckDrone(*sizes), np.random.default_rng(0)
        self.env.reset(self._rng)

    def step(self) -> tuple[float, bool]:
        """Reward of a random step, and whether it ended the episode."""
        mask = self.env.action_mask()
        reward, done = self.env.step(choose(self._rng, mask["truck"])[0], choose(self._rng, mask["drone"]))
        if done:
            self.env.reset(self._rng)
        self.env.observation(), self.env.global_observation(), self.env.action_mask()
        return reward, done


SUBJECT = Subject(
    labels="drones,customers,nodes",
    sizes=((2, 3, 5), (4, 20, 10), (8, 50, 16)),
    parameters=lambda size: dict(zip(("num_drones", "num_customers", "num_route_nodes"), size, strict=True)),
    reference=RandomTruckDrone,
    tiny=(2, 3, 5),
)

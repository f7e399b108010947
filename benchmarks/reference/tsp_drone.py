"""One tsp_drone instance in plain NumPy: the ground truth of the parity test and the baseline of the benchmark.

Written from the spec alone, independent of the JAX environment, in float64. Whether a meeting is possible is found by
trying everything that the truck could do. Nodes 0 (the depot) to n - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measuring.subject import ProblemSet, Subject, choose
from jaxvrp.envs.truck_and_drone.instance import Instance, pad

SLACK = 1.5e-5
"""Share of `max_flight` that is granted: the environment computes in float32."""


class NumpyTspDrone:
    """The environment for one instance; call `reset` or `reset_to` before anything else.

    Public state, named as in the spec: `turn` ("drone" or "truck"), `truck` (its node u), `served` (bool [n]), `away`,
    `launch` (s), `customer` (f), `elapsed` (the truck's), `airborne` (the drone's, until it leaves f), `must_meet`,
    `clock`, `done`, `totals` (what metrics count), and `instance`, padded.
    """

    def __init__(
        self, num_nodes: int = 20, *, allow_revisits: bool = True, reward: str = "dense", alpha: float = 2.0
    ) -> None:
        """Size and rules of the spec."""
        self.num_nodes, self.allow_revisits, self.reward_kind, self.alpha = num_nodes, allow_revisits, reward, alpha

    def reset(self, rng: np.random.Generator) -> None:
        """Start on an instance of Bogyrbayeva et al.'s generator."""
        side = np.where(np.arange(self.num_nodes) == 0, 1.0, 100.0)
        none = np.zeros(self.num_nodes, bool)
        locs = rng.random((self.num_nodes, 2)) * side[:, None]
        self.reset_to(Instance(locs, ~none, none, 1.0, 1.0 / self.alpha, np.inf, 0.0, 0.0))

    def reset_to(self, instance: Instance) -> None:
        """Start on an instance, which may be smaller."""
        given = pad(instance, self.num_nodes)
        locs = np.asarray(given.locs, np.float64)
        between = np.sqrt(((locs[:, None] - locs) ** 2).sum(axis=2))
        self.instance, self.exists = given, np.asarray(given.exists)
        if given.truck_time is None:
            self.truck_time, self.drone_time = between * float(given.truck_pace), between * float(given.drone_pace)
            self.drone_distance = self.truck_distance = between
        else:
            self.truck_time = self.truck_distance = np.asarray(given.truck_time, np.float64)
            self.drone_time = self.drone_distance = np.asarray(given.drone_time, np.float64)
        self.limit, self.longest = float(given.max_flight) * (1 + SLACK), np.inf
        if given.max_sortie is not None:
            self.longest = (float(given.max_sortie) - float(given.recovery_time)) * (1 + SLACK)
        self.turn, self.truck, self.away, self.must_meet = "drone", 0, False, False
        self.served = ~self.exists
        self.served[0] = True
        self.launch = self.customer = 0
        self.elapsed = self.airborne = self.clock = 0.0
        self.totals = dict.fromkeys(METRICS, 0.0)
        self.num_steps, self.done = 0, bool(self.served.all())
        self._measure(locs)

    def _measure(self, locs: np.ndarray) -> None:
        """The units of what is seen."""
        self.extent = max(np.abs(locs - locs[0])[self.exists].max(), 1e-6)
        self.horizon = max(self.truck_time[0, self.exists].max(), 1e-6)
        self.flight_unit = max(self.drone_distance[0, self.exists].max(), 1e-6)
        self.pace_ratio = max(self.drone_time[0, self.exists].max(), 1e-6) / self.horizon
        self.places = (locs - locs[0]) / self.extent

    # --- what is allowed ----------------------------------------------------------------------------------------------

    def masks(self) -> dict[str, np.ndarray]:
        """`{"drone": bool[n + 2], "truck": bool[n]}`."""
        drone, truck = np.zeros(self.num_nodes + 2, bool), np.zeros(self.num_nodes, bool)
        if self.turn == "drone":
            drone[:] = self._drone_mask()
            truck[0] = True
        else:
            truck[:] = self._truck_mask()
            drone[0] = True
        return {"drone": drone, "truck": truck}

    def _drone_mask(self) -> np.ndarray:
        mask = np.zeros(self.num_nodes + 2, bool)
        unserved = frozenset(np.flatnonzero(~self.served).tolist())
        if self.away:
            later = self._can_meet(unserved, self.launch, self.customer, {})
            mask[0] = not self.must_meet and later and self._in_time(self.truck, self.elapsed, unserved)
            mask[1] = self._in_range(self.launch, self.customer, self.truck)
            return mask
        mask[0] = True
        for node in unserved:
            may_fly = node != self.truck and not self.instance.no_fly[node]
            later = may_fly and self._can_meet(unserved - {node}, self.truck, node, {})
            mask[2 + node] = later and self._sortie_ends(node, unserved - {node})
        return mask

    def _truck_mask(self) -> np.ndarray:
        mask = np.zeros(self.num_nodes, bool)
        unserved = frozenset(np.flatnonzero(~self.served).tolist())
        if not self.away:
            mask[list(unserved or {0})] = True
            return mask
        for node in self._ways(unserved, self.launch, self.customer, {}):
            arrival, left = self.elapsed + self.truck_time[self.truck, node], unserved - {node}
            meets = self._in_range(self.launch, self.customer, node)
            in_time = arrival <= self._due()
            mask[node] = in_time and (meets or self._in_time(node, arrival, left))
        return mask

    def _sortie_ends(self, customer: int, unserved: frozenset) -> bool:
        """Whether a sortie from here to a customer can end within `max_sortie`."""
        before = self.launch, self.customer
        self.launch, self.customer = self.truck, customer
        ends = self._in_time(self.truck, self._launch_time(self.truck), unserved)
        self.launch, self.customer = before
        return ends

    def _launch_time(self, node: int) -> float:
        at_depot = node == 0 and self.instance.depot_launch_time is not None
        return float(self.instance.depot_launch_time if at_depot else self.instance.launch_time)

    def _due(self) -> float:
        """When both must be where they meet, on the clock that starts with the launch."""
        return self._launch_time(self.launch) + self.longest

    def _in_time(self, node: int, elapsed: float, unserved: frozenset) -> bool:
        """Whether the truck, at a node, comes straight, or home over the last customer, to a meeting in time."""
        if self.instance.max_sortie is None:
            return True
        everywhere = set(np.flatnonzero(self.exists).tolist()) - {self.customer}
        ends = everywhere if self.allow_revisits else set(unserved) or {0}
        ways = [(end, elapsed + self.truck_time[node, end]) for end in ends]
        if len(unserved) == 1 and not self.allow_revisits:
            (last,) = unserved
            ways.append((0, elapsed + self.truck_time[node, last] + self.truck_time[last, 0]))
        return any(time <= self._due() and self._in_range(self.launch, self.customer, end) for end, time in ways)

    def _in_range(self, launch: int, customer: int, node: int) -> bool:
        there = self.drone_time[launch, customer] + self.drone_time[customer, node]
        flight = self.drone_distance[launch, customer] + self.drone_distance[customer, node]
        return flight <= self.limit and there <= self.longest

    def _ways(self, unserved: frozenset, launch: int, customer: int, known: dict) -> set[int]:
        """Nodes that the truck may drive to while the drone is away."""
        ways = set()
        for node in unserved:
            if self._in_range(launch, customer, node) or self._can_meet(unserved - {node}, launch, customer, known):
                ways.add(node)
        served = set(np.flatnonzero(self.exists).tolist()) - unserved - {customer}
        others = served if self.allow_revisits else set() if unserved else {0}
        return ways | {node for node in others if self._in_range(launch, customer, node)}

    def _can_meet(self, unserved: frozenset, launch: int, customer: int, known: dict) -> bool:
        """Whether the truck, whose turn is next, can still come to a node where a meeting is within range.

        What it has done matters only by who is unserved, since it may drive from anywhere to anywhere.
        """
        if unserved not in known:
            known[unserved] = bool(self._ways(unserved, launch, customer, known))
        return known[unserved]

    # --- what happens -------------------------------------------------------------------------------------------------

    def step(self, drone: int, truck: int) -> tuple[float, bool]:
        """Play a turn; forbidden actions become the first allowed ones, and are counted.

        Returns:
            The reward, and whether the episode is over.
        """
        if self.done:
            return 0.0, True
        chosen, before = {}, self.clock
        for (role, mask), asked in zip(self.masks().items(), (drone, truck), strict=True):
            legal = 0 <= asked < len(mask) and mask[asked]
            self.totals["invalid_actions"] += not legal
            chosen[role] = asked if legal else int(np.argmax(mask))
        if self.turn == "drone":
            self._play_drone(chosen["drone"])
        else:
            self._play_truck(chosen["truck"])
        self.num_steps += 1
        self.done = bool(self.served.all()) and self.truck == 0 and not self.away
        paid = self.clock - before if self.reward_kind == "dense" else self.clock * self.done
        return -paid, self.done

    def _play_drone(self, action: int) -> None:
        if action == 1:
            self._meet()
            return
        self.turn = "truck"
        if action >= 2:
            self.away, self.launch, self.customer = True, self.truck, action - 2
            self.served[self.customer] = True
            self.elapsed = self._launch_time(self.launch)
            self.airborne = self.elapsed + self.drone_time[self.launch, self.customer]
            self.totals["served_by_drone"] += 1

    def _meet(self) -> None:
        arrival = self.airborne + self.drone_time[self.customer, self.truck]
        self.clock += max(self.elapsed, arrival) + float(self.instance.recovery_time)
        self.totals["waiting_truck"] += max(arrival - self.elapsed, 0.0)
        self.totals["waiting_drone"] += max(self.elapsed - arrival, 0.0)
        flown = self.drone_distance[self.launch, self.customer] + self.drone_distance[self.customer, self.truck]
        self.totals["drone_flight"] += flown
        self.totals["sorties"] += 1
        self.away, self.must_meet, self.launch, self.customer = False, False, 0, 0
        self.elapsed = self.airborne = 0.0

    def _play_truck(self, node: int) -> None:
        self.turn = "drone"
        time = self.truck_time[self.truck, node]
        self.totals["truck_distance"] += self.truck_distance[self.truck, node]
        self.totals["revisits"] += self.served[node] and not (node == 0 and self.served.all())
        if self.away:
            self.elapsed += time
            self.must_meet = bool(self.served[node])
        else:
            self.clock += time
        self.served[node] = True
        self.truck = node

    # --- what is seen -------------------------------------------------------------------------------------------------

    def observation(self) -> np.ndarray:
        """What both see beside the nodes, float32 [18]."""
        mask, given = self.masks()["drone"], self.instance
        drone_at = self.customer if self.away else self.truck
        wait = self.elapsed - self.airborne - self.drone_time[self.customer, self.truck]
        numbers = (
            self.turn == "drone",
            self.away,
            self.must_meet,
            np.count_nonzero(~self.served) / max(int(np.count_nonzero(self.exists)) - 1, 1),
            *self.places[self.truck],
            *self.places[drone_at],
            self.elapsed / self.horizon,
            self.airborne / self.horizon,
            wait / self.horizon if self.away else 0.0,
            self.turn == "drone" and mask[0],
            mask[1],
            self.truck_time[self.truck, 0] / self.horizon,
            self.pace_ratio,
            min(float(given.max_flight) / (4 * self.flight_unit), 1.0),
            self._launch_time(self.truck) / self.horizon,
            float(given.recovery_time) / self.horizon,
        )
        return np.array(numbers, np.float32)

    def static_entities(self) -> np.ndarray:
        """What never changes of each node, float32 [7, n]."""
        is_depot = np.arange(self.num_nodes) == 0
        home = self.truck_time[:, 0] / self.horizon, self.drone_time[:, 0] / self.horizon
        planes = [self.exists, is_depot, *self.places.T, np.asarray(self.instance.no_fly), *home]
        return np.where(self.exists, np.array(planes, np.float32), 0)

    def _left_for_good(self, node: int) -> bool:
        """Whether nobody is there or may come there, for it is served and there are no revisits."""
        is_here = node == self.truck or (self.away and node == self.customer)
        return bool(self.served[node]) and node != 0 and not is_here and not self.allow_revisits

    def entities(self) -> np.ndarray:
        """What changes of each node, float32 [10, n]."""
        masks, nodes = self.masks(), np.arange(self.num_nodes)
        drone_at = self.customer if self.away else self.truck
        truck_leg, drone_leg = self.truck_time[self.truck], self.drone_time[drone_at]
        reached = [self._in_range(self.launch, self.customer, node) for node in range(self.num_nodes)]
        present = np.array([self.exists[node] and not self._left_for_good(node) for node in range(self.num_nodes)])
        planes = [
            present,
            ~self.served,
            nodes == self.truck,
            (nodes == self.customer) & self.away,
            (nodes == self.launch) & self.away,
            masks["drone"][2:] if self.turn == "drone" else masks["truck"],
            np.array(reached) & self.away & (nodes != self.customer),
            truck_leg / self.horizon,
            drone_leg / self.horizon,
            (self.elapsed + truck_leg - self.airborne - drone_leg) / self.horizon * self.away,
        ]  # fmt: skip
        return np.where(present, np.array(planes, np.float32), 0)

    def metrics(self) -> dict[str, float]:
        """Totals of the episode so far; the episode logger's return and length are not among them."""
        return {"makespan": self.clock, **self.totals}


METRICS = (
    "served_by_drone",
    "sorties",
    "revisits",
    "drone_flight",
    "truck_distance",
    "waiting_truck",
    "waiting_drone",
    "invalid_actions",
)


class RandomTspDrone:
    """The reference under masked random play: a `benchmarks.measuring.subject.Reference`."""

    def __init__(self, env: Any):
        """As many nodes as a `jaxvrp` environment has."""
        self.env, self._rng = NumpyTspDrone(env.num_nodes), np.random.default_rng(0)
        self.env.reset(self._rng)

    def step(self) -> tuple[float, bool]:
        """Reward of a random step, and whether it ended the episode."""
        drone, truck = (int(choose(self._rng, mask[None])[0]) for mask in self.env.masks().values())
        reward, done = self.env.step(drone, truck)
        if done:
            self.env.reset(self._rng)
        self.env.observation(), self.env.entities(), self.env.masks()
        return reward, done


SUBJECT = Subject(
    labels="nodes",
    sizes=((11,), (20,), (50,)),
    parameters=lambda size: {"num_nodes": size[0]},
    reference=RandomTspDrone,
    tiny=(6,),
    sets={
        "tsp_drone_20_nodes": ProblemSet(
            1,
            {"num_nodes": 20},
            seed=20,
            count=32,
            checksum="9628f06339347fe9d1b11ccc907f0b5be0948a6757382cc3315ca9c09dea8c96",
        ),
        "tsp_drone_50_nodes": ProblemSet(
            1,
            {"num_nodes": 50},
            seed=50,
            count=32,
            checksum="4add4a698e1ddf65005bdb35c70bd3afebbb3405843df2d40fd17288f3e276fb",
        ),
    },
)


def least_makespan(instance: Instance, *, allow_revisits: bool = True) -> float:
    """The least makespan of all sequences of allowed actions; n up to 6."""
    env = NumpyTspDrone(instance.num_nodes, allow_revisits=allow_revisits)
    env.reset_to(instance)
    known: dict[tuple[int, bytes], float] = {}

    def best_together() -> float:
        """Least time to go from where both are together, on the drone's turn."""
        key = env.truck, env.served.tobytes()
        if key not in known:
            start = vars(env).copy()
            env.clock = 0.0
            known[key] = best()
            vars(env).update(start)
        return known[key]

    def best() -> float:
        if env.done:
            return env.clock
        found = np.inf
        start = {**vars(env), "served": env.served.copy(), "totals": dict(env.totals)}
        role = env.turn
        for action in np.flatnonzero(env.masks()[role]).tolist():
            env.step(*((action, 0) if role == "drone" else (0, action)))
            together = env.turn == "drone" and not env.away and not env.done
            found = min(found, env.clock + best_together() if together else best())
            vars(env).update(start, served=start["served"].copy(), totals=dict(start["totals"]))
        return found

    return best_together()

"""One darp instance in plain NumPy: the ground truth of the parity test and the baseline of the benchmark.

Written from the spec alone, independent of the JAX environment. Distances in map units, times in the instance's unit,
demands in passengers. N customers' nodes (pickups at odd indices, each followed by its drop-off), V vehicles, depot 0.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring.subject import ProblemSet, Subject, choose
from jaxvrp.envs.darp.problem.instance import Instance, pad

SLACK = np.float32(2e-6)  # of the last clock of a tour, on every time comparison of the mask: float32, tight routes
ROUNDING = 1e-9  # float64 sums of a schedule
ROW = 12  # features of a node: six that never change, six that do
STATIC_PLANES = ((1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (1, 5), (2, 5))
DYNAMIC_PLANES = ((1, 6), (2, 6), (1, 7), (2, 7), (1, 8), (2, 8), (1, 9), (2, 9), (1, 10), (2, 10), (2, 11))
"""What is told of a request: of its pickup (1) or its drop-off (2), and which of their features."""

GENERATOR_DEFAULTS: dict[str, Any] = {
    "min_loc": 0.0, "max_loc": 100.0, "min_demand": 1, "max_demand": 3,
    "min_pickup_deadline": 10, "max_pickup_deadline": 30, "horizon": 48.0,
    "vehicle_speed": 25.0, "vehicle_capacity": 5, "round_travel_time": True,
    "max_ride_time": np.inf, "max_route_duration": np.inf,
}  # fmt: skip


def distances(origin: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Float32 Euclidean distance [...] between points [..., 2]."""
    x, y = np.moveaxis(target.astype(np.float32) - origin.astype(np.float32), -1, 0)
    return np.sqrt(x * x + y * y)


def travel_times(instance: Instance, distance: np.ndarray) -> np.ndarray:
    """Float32 time to drive each float32 `distance`, rounded half to even where the instance says so."""
    time = distance / np.float32(instance.vehicle_speed)
    return np.round(time) if instance.round_travel_time else time


def all_served(instance: Instance) -> np.float32:
    """A clock by which everybody is served by one vehicle, in whatever order: all ways by way of the depot."""
    real = instance.demand != 0
    real[0] = True
    _, time = ways(instance.replace(round_travel_time=np.bool_(False)))
    longest = time[0, real].max() + time[real, 0].max() + 0.5 * bool(instance.round_travel_time)
    return np.float32(np.abs(instance.earliest[real]).max() + instance.service_time[real].sum() + real.sum() * longest)


def ways(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Float32 lengths and times [N+1, N+1] from each node (row) to each: straight, or along the streets of a matrix."""
    locs = np.asarray(instance.locs)
    if instance.travel_time is None:
        length = distances(locs[:, None], locs[None])
        return length, travel_times(instance, length)
    time = np.asarray(instance.travel_time, np.float32)
    given = instance.travel_distance
    length = time * np.float32(instance.vehicle_speed) if given is None else np.asarray(given, np.float32)
    return length, np.round(time) if instance.round_travel_time else time


def feasible_schedule(instance: Instance, nodes: Sequence[int], slack: float) -> bool:
    """Whether service times exist that keep every limit on a vehicle's sequence; exact, by difference constraints.

    Windows, service, travel, the ride time of each request with both ends in the sequence, and, where it ends at the
    depot, the route duration. Departure and service may be later than necessary; `slack` is granted on each limit.
    `nodes` are indices in the order visited, the depot first; it may be last too, but nowhere else.
    """
    order = np.asarray(nodes, np.intp)
    fields = (instance.earliest, instance.deadline, instance.service_time)
    early, late, service = (np.asarray(field, np.float64)[order] for field in fields)
    gap = service[:-1] + ways(instance)[1][order[:-1], order[1:]]
    place = {int(node): index for index, node in enumerate(order) if node}
    delivered = [node for node in place if node % 2 == 0 and node - 1 in place]
    longest = [(place[node - 1], place[node], instance.max_ride_time + service[place[node - 1]]) for node in delivered]
    if len(order) > 1 and order[-1] == 0:
        longest.append((0, len(order) - 1, instance.max_route_duration))
    longest = [(first, last, float(most) + slack) for first, last, most in longest]
    return _solvable(early.tolist(), (late + slack).tolist(), gap.tolist(), longest)


def _solvable(early: list[float], late: list[float], gap: list[float], longest: list[tuple[int, int, float]]) -> bool:
    """Bellman-Ford for the least t with early <= t <= late, t[k + 1] >= t[k] + gap[k], t[b] - t[a] <= most."""
    time = list(early)
    for _ in time:
        before = list(time)
        for index, least in enumerate(gap):
            time[index + 1] = max(time[index + 1], time[index] + least)
        for first, last, most in longest:
            time[first] = max(time[first], time[last] - most)
        if any(moment > latest + ROUNDING for moment, latest in zip(time, late, strict=True)):
            return False
        if all(new - old <= ROUNDING for new, old in zip(time, before, strict=True)):
            return True
    return False  # still growing after as many rounds as nodes: a cycle of constraints contradicts itself


def tight_windows(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Earliest times and deadlines [N+1] that a plan within all limits can keep; padding keeps its own.

    Rounded, a detour may be quicker than the direct way, which then bounds nothing.
    """
    early, late, service = (np.array(x) for x in (instance.earliest, instance.deadline, instance.service_time))
    longest, times = instance.max_ride_time, ways(instance)[1]

    def way(a: int, b: int) -> np.float32:
        return np.float32(0 if instance.round_travel_time else times[a, b])

    def cut(node: int, first: np.float32, last: np.float32) -> None:
        early[node], late[node] = max(early[node], first), min(late[node], last)

    for node in np.flatnonzero(instance.demand).tolist():
        cut(node, early[0] + way(0, node), late[0] - service[node] - way(node, 0))
    for pickup in np.flatnonzero(np.asarray(instance.demand) > 0).tolist():
        drop_off, done = pickup + 1, service[pickup]
        direct = way(pickup, drop_off)
        before = early[pickup], late[pickup]
        cut(pickup, early[drop_off] - longest - done, late[drop_off] - direct - done)
        cut(drop_off, before[0] + done + direct, before[1] + done + longest)
    return early, late


class NumpyDarp:
    """The scenario darp for one instance; call `reset` or `reset_to` before anything else.

    Public state, named as in the spec: `current_node`, `current_agent`, `current_time` (float32), `current_load`,
    `visited`, `picked_up_by_current` (bool [N+1]), `pickup_time` (float32 [N+1]), `vehicle_finished` (bool [V]),
    `total_distance`, `num_steps`, `done`, `route` (a list that begins with the depot), and `instance`, padded, float32.
    """

    def __init__(
        self,
        num_nodes: int = 20,
        num_agents: int = 5,
        *,
        lookahead: bool = False,
        limits: bool = False,
        tighten: bool = True,
        reward: str = "sparse",
        penalty_unvisited: float = 100.0,
        orphan_factor: float = 1.0,
        **generator: Any,
    ) -> None:
        """Sizes and rules of the spec, and any of GENERATOR_DEFAULTS by name.

        Raises:
            TypeError: an unknown parameter.
            ValueError: `num_nodes` is odd or below 2, or `reward` neither "sparse" nor "dense".
        """
        unknown = sorted(set(generator) - set(GENERATOR_DEFAULTS))
        if unknown:
            raise TypeError(f"unknown parameters: {', '.join(unknown)}")
        if num_nodes < 2 or num_nodes % 2:
            raise ValueError(f"num_nodes is {num_nodes}; it must be even and at least 2: two nodes per request")
        if reward not in ("sparse", "dense"):
            raise ValueError(f"reward is {reward!r}; give 'sparse' or 'dense'")
        self.num_nodes, self.num_agents = num_nodes, num_agents
        self.lookahead, self.limits, self.dense = lookahead, limits, reward == "dense"
        self.tighten = limits and tighten
        self.penalty_unvisited, self.orphan_factor = penalty_unvisited, orphan_factor
        self.generator = GENERATOR_DEFAULTS | generator
        self._index = np.arange(num_nodes + 1)
        self._is_pickup = self._index % 2 == 1
        self._partner = np.where(self._is_pickup, self._index + 1, np.maximum(self._index - 1, 0))

    def generate(self, rng: np.random.Generator) -> Instance:
        """One random instance of full size, float64 NumPy arrays; earliest and service times are 0."""
        given, requests, nodes = self.generator, self.num_nodes // 2, self.num_nodes + 1
        locs = rng.uniform(given["min_loc"], given["max_loc"], (nodes, 2))
        load = rng.integers(given["min_demand"], given["max_demand"], requests, endpoint=True)
        pickup = rng.integers(given["min_pickup_deadline"], given["max_pickup_deadline"], requests, endpoint=True)
        direct = np.maximum(1.0, distances(locs[1::2], locs[2::2]) / given["vehicle_speed"])
        soonest = pickup + np.ceil(direct).astype(np.int64)
        latest = np.maximum(pickup + np.ceil(2 * direct).astype(np.int64), soonest + 1)
        demand, deadline = np.zeros(nodes, np.int32), np.full(nodes, given["horizon"], np.float64)
        demand[1::2], demand[2::2] = load, -load
        deadline[1::2], deadline[2::2] = pickup, rng.integers(soonest, latest, endpoint=True)
        limits = ("vehicle_speed", "max_ride_time", "max_route_duration")
        scalars: dict[str, Any] = {name: np.float64(given[name]) for name in limits}
        scalars["round_travel_time"] = np.bool_(given["round_travel_time"])
        capacity = np.full(self.num_agents, given["vehicle_capacity"], np.int32)
        zeros = {"earliest": np.zeros(nodes), "service_time": np.zeros(nodes)}
        return Instance(locs=locs, demand=demand, deadline=deadline, capacity=capacity, **zeros, **scalars)

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode on a fresh instance."""
        self.reset_to(self.generate(rng))

    def reset_to(self, instance: Instance) -> None:
        """Starts an episode on `instance`, padded up to the environment's sizes; it may hold padding already.

        Raises:
            ValueError: the instance is larger than the environment.
        """
        kinds = {"demand": np.int64, "capacity": np.int64, "round_travel_time": np.bool_}
        arrays: dict[str, Any] = {
            k: np.asarray(v, kinds.get(k, np.float32)) for k, v in vars(instance).items() if v is not None
        }
        self.instance = pad(Instance(**arrays), self.num_nodes, self.num_agents)
        finite = self.instance.deadline[np.isfinite(self.instance.deadline)]
        busy = all_served(self.instance)
        if self.tighten:
            earliest, deadline = tight_windows(self.instance)
            self.instance = self.instance.replace(earliest=earliest, deadline=deadline)
        self._distance, self._travel = ways(self.instance)
        self._real = self.instance.demand != 0
        self._num_requests = int(np.count_nonzero(self._real[1::2]))
        self._prepare_observation(finite)
        self._slack = SLACK * min(self._horizon, busy)
        self._latest = self.instance.deadline + self._slack
        self.visited = ~self._real & (self._index > 0)
        self.vehicle_finished = self.instance.capacity == 0
        self.pickup_time = np.zeros(self.num_nodes + 1, np.float32)
        self.total_distance, self.num_steps, self.current_agent = 0.0, 0, 0
        self.vehicles_used = self.invalid_actions = 0
        self._take_over()
        self.done = self._is_over()

    def _take_over(self) -> None:
        """The first unfinished vehicle starts at the depot; without one, `current_agent` stays."""
        if not self.vehicle_finished.all():
            self.current_agent = int(np.argmin(self.vehicle_finished))
        self.current_node, self.current_load, self.route = 0, 0, [0]
        self.current_time = self.instance.earliest[0]
        self.picked_up_by_current = np.zeros(self.num_nodes + 1, bool)
        self._mask: np.ndarray | None = None

    def _is_over(self) -> bool:
        return bool(self.visited[1:].all() or self.vehicle_finished.all())

    def step(self, action: int) -> tuple[float, bool]:
        """Plays one step: a node index. Returns the reward and whether the episode has ended."""
        if self.done:
            return 0.0, True
        node, before = self._legal(action), self.total_distance
        self.num_steps += 1
        self.total_distance += float(self._distance[self.current_node, node])
        if node:
            self._serve(node)
        else:
            self.vehicle_finished[self.current_agent] = True
            self._take_over()
        self.done = self._is_over()
        if self.done:
            self.total_distance += float(self._distance[self.current_node, 0])
        return self._reward(self.total_distance - before), self.done

    def _legal(self, action: int) -> int:
        """The action, or, counted, the fallback for a forbidden or unknown one."""
        mask = self.action_mask()
        if 0 <= action <= self.num_nodes and mask[action]:
            return int(action)
        self.invalid_actions += 1
        return int(np.argmax(mask[1:])) + 1 if mask[1:].any() else 0

    def _serve(self, node: int) -> None:
        """Drives the current vehicle to a customer's node and serves it as early as possible."""
        self.vehicles_used += self.current_node == 0
        arrival = self.current_time + self._travel[self.current_node, node]
        self.current_time = max(arrival, self.instance.earliest[node]) + self.instance.service_time[node]
        self.current_load += int(self.instance.demand[node])
        self.visited[node] = True
        if node % 2:
            self.picked_up_by_current[node] = True
            self.pickup_time[node] = self.current_time
        self.current_node = node
        self.route.append(node)
        self._mask = None

    def _reward(self, driven: float) -> float:
        """The reward of a step that drove so many map units."""
        paid = driven if self.dense else 0.0
        if self.done:
            counted = np.count_nonzero(~self.visited[1:]) + (self.orphan_factor - 1.0) * self._stranded()
            paid += self.penalty_unvisited * counted + (0.0 if self.dense else self.total_distance)
        return -paid

    def _stranded(self) -> int:
        """Drop-offs still open whose pickup was done by an earlier vehicle."""
        return int(np.count_nonzero(self.visited[1::2] & ~self.visited[2::2] & ~self.picked_up_by_current[1::2]))

    def _timing(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arrival, start of service and departure at every node if the vehicle went there now, float32 [N+1] each."""
        arrival = self.current_time + self._travel[self.current_node]
        start = np.maximum(arrival, self.instance.earliest)
        return arrival, start, start + self.instance.service_time

    def _onboard(self) -> np.ndarray:
        """The drop-offs of the passengers on board, bool [N+1]."""
        onboard = np.zeros(self.num_nodes + 1, bool)
        onboard[2::2] = self.picked_up_by_current[1::2] & ~self.visited[2::2]
        return onboard

    def action_mask(self) -> np.ndarray:
        """The allowed nodes, bool [N+1], never empty; read-only, kept until the state changes."""
        if self._mask is None:
            fits = self.current_load + self.instance.demand <= self.instance.capacity[self.current_agent]
            mask = np.where(self._is_pickup, fits & ~self.visited, self._onboard())
            mask[0] = False
            mask &= self._schedulable(mask, lambda _: [0]) if self.limits else self._timely()
            if self.lookahead:
                kept = self._schedulable(mask, self._targets_after) if self.limits else mask & self._deliverable()
                mask = mask if self.current_load > 0 and not kept.any() else kept
            mask[0] = (self.current_load == 0 and self.current_node != 0) or not mask.any()
            mask.flags.writeable = False
            self._mask = mask
        return self._mask

    def _timely(self) -> np.ndarray:
        """Nodes reached by their deadline, with the depot reachable by its own afterwards, bool [N+1]."""
        arrival, _, departure = self._timing()
        return (arrival <= self._latest) & (departure + self._travel[:, 0] <= self._latest[0])

    def _schedulable(self, candidates: np.ndarray, ends: Callable[[int], list[int]]) -> np.ndarray:
        """Those of the candidates, bool [N+1], after which any one of the nodes `ends(candidate)` can come next."""
        allowed = np.zeros_like(candidates)
        for node in np.flatnonzero(candidates).tolist():
            sequences = ([*self.route, node, end] for end in ends(node))
            allowed[node] = all(feasible_schedule(self.instance, nodes, float(self._slack)) for nodes in sequences)
        return allowed

    def _deliverable(self) -> np.ndarray:
        """Nodes from which every passenger on board, the new one too, is driven in time, bool [N+1]."""
        departure = self._timing()[2]
        targets = np.flatnonzero(self._onboard())
        late = departure[:, None] + self._travel[:, targets] > self._latest[targets]
        late &= targets != self._index[:, None]
        direct = departure + self._travel[self._index, self._partner] <= self._latest[self._partner]
        return ~late.any(axis=1) & (~self._is_pickup | direct)

    def _targets_after(self, node: int) -> list[int]:
        """The drop-offs of the passengers on board after the visit of a node."""
        targets = [target for target in np.flatnonzero(self._onboard()).tolist() if target != node]
        return targets + [node + 1] * (node % 2)

    def _prepare_observation(self, finite: np.ndarray) -> None:
        """The units of the observation, and the features of the nodes that never change, [N+1, 12].

        `finite` are the deadlines of the instance that are no infinity.
        """
        given = self.instance
        offset = given.locs - given.locs[0]
        extent = np.abs(offset[self._real]).max(initial=0)
        self._size = self._span = extent or np.float32(1)
        self._pace = self._size / given.vehicle_speed
        if given.travel_time is not None:
            pairs = self._real | (self._index == 0)
            pairs = pairs[:, None] & pairs
            line = distances(given.locs[:, None], given.locs[None])[pairs].sum()
            share = line / self._size if line > 0 else np.float32(pairs.sum())
            self._span, self._pace = self._distance[pairs].sum() / share, given.travel_time[pairs].sum() / share
        longest = min(given.max_route_duration, (self.num_nodes + 1) * (self._pace if extent else 0))
        last = given.deadline[0] if np.isfinite(given.deadline[0]) else finite.max() if finite.size else longest
        self._horizon = np.float32(last) if last > 0 else np.float32(1)
        self._most = np.float32(max(given.capacity.max(), 1))
        row = self._fixed = np.zeros((self.num_nodes + 1, ROW), np.float32)
        row[:, :2] = offset / self._size
        row[:, 2] = given.demand / self._most
        times = given.earliest, np.minimum(given.deadline, self._horizon), given.service_time
        row[:, 3:6] = np.clip(np.stack(times, axis=1) / self._horizon, -1, 1)

    def observation(self) -> np.ndarray:
        """What the current vehicle alone sees, float32 [16]."""
        given, horizon = self.instance, self._horizon
        others = ~self.vehicle_finished & (np.arange(self.num_agents) != self.current_agent)
        waiting, requests = int(np.count_nonzero(others)), max(self._num_requests, 1)
        arrival = self._timing()[0]
        context = (
            self.current_time / horizon,
            self.current_load / max(given.capacity[self.current_agent], 1),
            given.capacity[self.current_agent] / self._most,
            self.current_node == 0,
            waiting / max(int(np.count_nonzero(given.capacity)), 1),
            given.capacity[others].sum() / max(waiting, 1) / self._most,
            np.count_nonzero(~self.visited[1::2]) / requests,
            np.count_nonzero(self._onboard()) / requests,
            *(given.locs[self.current_node] - given.locs[0]) / self._size,
            self._pace / horizon,
            *np.minimum((given.max_ride_time, given.max_route_duration), horizon) / horizon,
            self.action_mask()[0],
            self._distance[self.current_node, 0] / self._span,
            np.clip((given.deadline[0] - arrival[0]) / horizon, -1, 1),
        )
        return np.array(context, np.float32)

    def static_entities(self) -> np.ndarray:
        """What never changes of each request, float32 [11, N/2]."""
        planes = [self._fixed[first::2, column] for first, column in STATIC_PLANES]
        return np.stack(planes) * self._real[1::2]

    def entities(self) -> np.ndarray:
        """What changes of each request, float32 [14, N/2]; nothing is left once its drop-off was visited."""
        rows, visited = self._rows(), self.visited
        planes = [np.ones(self.num_nodes // 2), ~visited[1::2], self._onboard()[2::2]]
        planes += [rows[first::2, column] for first, column in DYNAMIC_PLANES]
        return np.where(visited[2::2], 0, np.stack(planes)).astype(np.float32)

    def _rows(self) -> np.ndarray:
        given, row, onboard = self.instance, self._fixed.copy(), self._onboard()
        arrival, start, departure = self._timing()
        row[:, 6] = self.action_mask()
        row[:, 7] = self._distance[self.current_node] / self._span
        row[:, 8] = start - self.current_time
        row[:, 9] = given.deadline - arrival
        row[:, 10] = given.deadline[0] - (departure + self._travel[:, 0])
        row[:, 11] = given.max_ride_time - (start - self.pickup_time[self._partner])
        row[:, 8:] = np.clip(row[:, 8:] / self._horizon, -1, 1)
        row[~onboard, 11] = 1.0
        row[self.visited] = 0.0
        return row

    def metrics(self) -> dict[str, float]:
        """Totals of the episode so far; the episode logger's return and length are not among them."""
        served = np.count_nonzero(self.visited[2::2] & self._real[2::2])
        return {
            "requests_served": float(served),
            "served_share": served / max(self._num_requests, 1),
            "unvisited_nodes": float(np.count_nonzero(~self.visited[1:])),
            "stranded": float(self._stranded()),
            "total_distance": self.total_distance,
            "vehicles_used": float(self.vehicles_used),
            "invalid_actions": float(self.invalid_actions),
        }


class RandomDarp:
    """The reference under masked random play: a `benchmarks.measuring.subject.Reference`."""

    def __init__(self, env: Any):
        """As many nodes and vehicles as a `jaxvrp` environment has."""
        self.env, self._rng = NumpyDarp(env.num_nodes, env.num_agents), np.random.default_rng(0)
        self.env.reset(self._rng)

    def step(self) -> tuple[float, bool]:
        """Reward of a random step, and whether it ended the episode."""
        reward, done = self.env.step(int(choose(self._rng, self.env.action_mask()[None])[0]))
        if done:
            self.env.reset(self._rng)
        self.env.observation(), self.env.entities(), self.env.action_mask()
        return reward, done


SUBJECT = Subject(
    labels="nodes,vehicles",
    sizes=((20, 5), (50, 8), (100, 10)),
    parameters=lambda size: dict(zip(("num_nodes", "num_agents"), size, strict=True)),
    reference=RandomDarp,
    tiny=(6, 2),
    sets={
        "darp_10_requests": ProblemSet(
            1,
            {"num_nodes": 20, "num_agents": 5},
            seed=10,
            count=32,
            checksum="b276d9dc0cc1de281c89073e2814e4e14e322c422da5cc06e1e888ccfd1613da",
        ),
        "darp_25_requests": ProblemSet(
            1,
            {"num_nodes": 50, "num_agents": 8},
            seed=25,
            count=32,
            checksum="61043da529cd00485c65682684da96fbad9798d6d7e5fe766fc45147262c592b",
        ),
    },
)

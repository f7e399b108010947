"""Plans by outside solvers, PyVRP and OR-Tools, to compare policies with: the extra `solvers`.

Both count in whole numbers. Travel and service are rounded up to millionths, and windows and limits widened by a hair
(`HAIR`): legs never get shorter, so no plan breaks a window or limit by as much as 1e-4, and one that fits exactly is
not lost to rounding. Padding is left out, and so are requests that no vehicle can serve: they are too large for every
vehicle, or contradict their own windows or ride time.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.envs.darp.problem.instance import Instance, prohibitive, street_lengths
from jaxvrp.io.messages import installing

TIMES, COSTS = 10**9, 3 * 10**5
"""The solvers' whole numbers in the longest time that a plan could take, and in the longest way. Costs are coarser:
PyVRP lets a plan be late for at most 10^5 per whole number, and a plan that is late by next to nothing must not look
better than one that leaves a request out."""

LOADS = 10**4
"""Whole numbers per passenger."""

HAIR = 20
"""Whole numbers of time added to deadlines and limits and taken from earliest times: for each of 20 legs and stops."""

LARGEST = 10**4  # largest penalty, in longest ways: beyond, penalty terms of the solvers could leave 64 bits


def solve_pyvrp(instance: Instance, *, seconds: float, seed: int = 0, penalty: float | None = None) -> list[list[int]]:
    """The best plan that PyVRP's iterated local search finds.

    Pairing, precedence and capacity are exact, and so are windows, service times, vehicles of different capacity, the
    route duration, and the choice of requests to leave unserved. One constraint is relaxed: PyVRP knows no ride time
    limit. `max_ride_time` counts only as far as `tighten` turns it into windows, so where it is finite a plan may break
    it.

    Args:
        instance: one problem, without leading axes, NumPy or JAX; its limits count whatever an environment enforces.
        seconds: of the processor (CPU time of the calling thread) for the search, all of which are used: a busy
            machine changes no plan.
        seed: of the search.
        penalty: cost of an unvisited node, so of half an unserved request, in units of distance; None: one
            that no plan's length undercuts.

    Returns:
        V lists of node indices, in the order of driving and without depot: route v is driven by vehicle v, empty if
        unused. Empty routes come last as far as capacities allow. All are empty if no plan was found in time.

    Raises:
        ImportError: PyVRP is missing, or older than 0.14, which cannot pair pickups with drop-offs.
        ValueError: an argument is out of range, or the instance is a batch.
    """
    try:
        from pyvrp import Shipment, solve
        from pyvrp.exceptions import PenaltyBoundWarning
    except ImportError as error:
        raise ImportError(f"solve_pyvrp needs PyVRP 0.14 or newer ({error}); {installing('solvers')}") from None
    task = _task(instance, seconds, penalty)
    if task is None:
        return [[] for _ in range(instance.num_agents)]
    data = _pyvrp_data(task, Shipment)
    with warnings.catch_warnings():  # it warns that there may be no feasible plan, but the empty plan is one
        warnings.simplefilter("ignore", PenaltyBoundWarning)
        best = solve(data, _after(seconds), seed=seed, collect_stats=False, display=False).best
    found = best.routes() if best.is_feasible() else []
    routes = [[1 + 2 * step.idx + step.is_delivery() for step in route if step.is_shipment()] for route in found]
    return _assign(instance, task, routes)


def solve_ortools(
    instance: Instance, *, seconds: float, seed: int = 0, penalty: float | None = None
) -> list[list[int]]:
    """The best plan that guided local search of OR-Tools' routing finds; every constraint is exact.

    Arguments, result and errors are those of `solve_pyvrp`. The seed is that of the constraint solver: the local search
    itself is deterministic, up to where the time limit cuts it.
    """
    try:
        from ortools.constraint_solver import pywrapcp
        from ortools.constraint_solver.routing_enums_pb2 import FirstSolutionStrategy, LocalSearchMetaheuristic
    except ImportError as error:
        raise ImportError(f"solve_ortools needs OR-Tools ({error}); {installing('solvers')}") from None
    task = _task(instance, seconds, penalty)
    if task is None:
        return [[] for _ in range(instance.num_agents)]
    manager = pywrapcp.RoutingIndexManager(len(task.nodes), len(task.capacity), 0)
    routing = pywrapcp.RoutingModel(manager)
    routing.solver().ReSeed(seed)
    routing.SetArcCostEvaluatorOfAllVehicles(routing.RegisterTransitMatrix(task.distance.tolist()))
    load = routing.RegisterUnaryTransitVector(task.demand)
    routing.AddDimensionWithVehicleCapacity(load, 0, task.capacity, True, "load")
    _constrain(routing, manager, task)
    search = pywrapcp.DefaultRoutingSearchParameters()
    search.first_solution_strategy = FirstSolutionStrategy.LOCAL_CHEAPEST_INSERTION
    search.local_search_metaheuristic = LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    routing.AddSearchMonitor(routing.solver().CustomLimit(_after(seconds)))
    solution = routing.SolveWithParameters(search)
    routes: list[list[int]] = [[] for _ in range(routing.vehicles() if solution else 0)]
    for vehicle, route in enumerate(routes):
        index = routing.Start(vehicle)
        while not routing.IsEnd(index := solution.Value(routing.NextVar(index))):
            route.append(manager.IndexToNode(index))
    return _assign(instance, task, routes)


def _after(seconds: float) -> Callable[..., bool]:
    """Whether this thread has worked for so many seconds from now on; arguments of the question do not count."""
    start = time.thread_time()
    return lambda *_: time.thread_time() - start >= seconds


def tighten(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Windows without the times that no plan can use, because of the request's other end and the ride time limit.

    They are float64 `[N+1]`, earliest times and deadlines, as the instance's but tighter at pickups and drop-offs. A
    request that can be served in no way may get a window that ends before it begins.
    """
    times = (instance.earliest, instance.deadline, instance.service_time)
    early, late, service = (np.asarray(each, np.float64) for each in times)
    direct = np.diagonal(_legs(instance)[2], offset=1)[1::2]
    longest = float(instance.max_ride_time)
    pickups, drop_offs = np.arange(1, early.size, 2), np.arange(2, early.size, 2)
    served = service[pickups]
    tight_early, tight_late = early.copy(), late.copy()
    tight_early[pickups] = np.maximum(early[pickups], early[drop_offs] - longest - served)
    tight_late[pickups] = np.minimum(late[pickups], late[drop_offs] - direct - served)
    tight_early[drop_offs] = np.maximum(early[drop_offs], early[pickups] + served + direct)
    tight_late[drop_offs] = np.minimum(late[drop_offs], late[pickups] + served + longest)
    return tight_early, tight_late


class _Task(NamedTuple):
    """What is left to decide, in whole numbers: index 0 is the depot, then pickup, drop-off, pickup, ..."""

    nodes: list[int]
    distance: Any
    duration: Any
    early: list[int]
    late: list[int]
    service: list[int]
    demand: list[int]
    capacity: list[int]
    penalty: int
    max_ride: int | None
    max_duration: int | None


def _task(instance: Instance, seconds: float, penalty: float | None) -> _Task | None:
    """The instance without what can be left out, or None if nothing is left; time 0 is the depot's opening."""
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds is {seconds}; give a time limit above 0")
    if np.ndim(instance.demand) != 1:
        raise ValueError(f"demand has {np.ndim(instance.demand)} axes; solve the instances of a batch one by one")
    penalty = float(prohibitive(instance)) if penalty is None else penalty
    if not 0 <= penalty < math.inf:
        raise ValueError(f"penalty is {penalty}; give 0 or more")
    opening = float(instance.earliest[0])
    early, late = tighten(instance)
    early, late = np.maximum(early - opening, 0.0), late - opening
    capacity = [int(c) for c in np.asarray(instance.capacity) if c > 0]
    demand, (distance, travel, shortest) = np.asarray(instance.demand)[1::2], _legs(instance)
    service = np.asarray(instance.service_time, np.float64)
    # Served as early as it can be, no plan takes longer.
    horizon = float(early.max() + service.sum() + len(early) * travel.max()) or 1.0
    per_time, per_way = TIMES / horizon, COSTS / (float(distance.max()) or 1.0)
    hair = HAIR / per_time
    opens = early <= late + hair
    servable = (demand > 0) & (demand <= max(capacity, default=0)) & opens[0] & opens[1::2] & opens[2::2]
    servable &= np.diagonal(shortest, offset=1)[1::2] <= float(instance.max_ride_time) + hair
    pickups = 1 + 2 * np.flatnonzero(servable)
    if not pickups.size:
        return None
    nodes = [0, *np.stack([pickups, pickups + 1], axis=1).ravel().tolist()]
    distance, travel = (table[np.ix_(nodes, nodes)] for table in (distance, travel))
    early, late, service = early[nodes], late[nodes], service[nodes]
    if penalty * per_way > LARGEST * COSTS:
        most = LARGEST * COSTS / per_way
        raise ValueError(f"penalty is {penalty:g}; give at most {most:g}, {LARGEST} of the longest way")

    def rounded_up(times: Any) -> np.ndarray:
        """Not shorter than they are; but a thousandth is float noise."""
        return np.ceil(np.asarray(times) * per_time - 1e-3).astype(np.int64)

    def limit(longest: Any) -> int | None:
        """None if nothing can take that long."""
        return rounded_up(float(longest)).item() + HAIR if float(longest) < horizon else None

    return _Task(
        nodes=nodes,
        distance=np.round(distance * per_way).astype(np.int64),
        duration=rounded_up(travel),
        early=np.maximum(np.floor(early * per_time).astype(np.int64) - HAIR, 0).tolist(),
        late=(rounded_up(np.minimum(late, horizon)) + HAIR).tolist(),
        service=rounded_up(service).tolist(),
        demand=[int(d) for d in np.asarray(instance.demand)[nodes]],
        capacity=capacity,
        penalty=round(penalty * per_way),
        max_ride=limit(instance.max_ride_time),
        max_duration=limit(instance.max_route_duration),
    )


def _pyvrp_data(task: _Task, shipment: Any) -> Any:
    """The task in PyVRP's terms."""
    import pyvrp

    def end(name: str, node: int) -> dict[str, int]:
        return {
            f"{name}_location": node,
            f"{name}_tw_early": task.early[node],
            f"{name}_tw_late": task.late[node],
            f"{name}_service_duration": task.service[node],
        }

    shipments = [
        shipment(
            amount=[task.demand[pickup] * LOADS],
            prize=2 * task.penalty,
            required=False,
            **end("pickup", pickup),
            **end("delivery", pickup + 1),
        )
        for pickup in range(1, len(task.nodes), 2)
    ]
    limit: dict[str, Any] = {} if task.max_duration is None else {"shift_duration": task.max_duration}
    kinds = sorted(set(task.capacity))
    return pyvrp.ProblemData(
        locations=[pyvrp.Location(0, 0) for _ in task.nodes],  # only drawings use coordinates
        clients=[],
        depots=[pyvrp.Depot(0, tw_early=task.early[0], tw_late=task.late[0])],
        vehicle_types=[pyvrp.VehicleType(task.capacity.count(k), capacity=[k * LOADS], **limit) for k in kinds],
        distance_matrices=[task.distance],
        duration_matrices=[task.duration],
        shipments=shipments,
    )


def _constrain(routing: Any, manager: Any, task: _Task) -> None:
    """Tell OR-Tools of travel, service, windows and limits, of pairs, and of the price of leaving a request out."""
    transit = task.duration + np.array(task.service)[:, None]
    horizon = max(task.late)
    routing.AddDimension(routing.RegisterTransitMatrix(transit.tolist()), horizon, horizon, False, "time")
    time, solver = routing.GetDimensionOrDie("time"), routing.solver()
    for vehicle in range(len(task.capacity)):
        for end in (routing.Start(vehicle), routing.End(vehicle)):
            time.CumulVar(end).SetRange(task.early[0], task.late[0])
        if task.max_duration is not None:
            time.SetSpanUpperBoundForVehicle(task.max_duration, vehicle)
    for node in range(1, len(task.nodes)):
        time.CumulVar(manager.NodeToIndex(node)).SetRange(task.early[node], task.late[node])
        routing.AddDisjunction([manager.NodeToIndex(node)], task.penalty)
    for node in range(1, len(task.nodes), 2):
        pickup, drop_off = manager.NodeToIndex(node), manager.NodeToIndex(node + 1)
        routing.AddPickupAndDelivery(pickup, drop_off)
        # An unserved node has no vehicle (-1), so this also serves both ends or none.
        solver.Add(routing.VehicleVar(pickup) == routing.VehicleVar(drop_off))
        solver.Add(time.CumulVar(pickup) <= time.CumulVar(drop_off))
        if task.max_ride is not None:
            latest = time.CumulVar(pickup) + task.service[node] + task.max_ride
            solver.Add(time.CumulVar(drop_off) <= latest)


def _assign(instance: Instance, task: _Task, routes: list[list[int]]) -> list[list[int]]:
    """Give routes, in indices of the task, to as few first vehicles as can drive them: largest to largest."""

    def peak(route: list[int]) -> int:
        return max(itertools.accumulate(task.demand[index] for index in route))

    used = sorted(filter(None, routes), key=peak, reverse=True)
    vehicles: list[int] = []
    capacity = np.asarray(instance.capacity).tolist()
    for count in range(len(used), len(capacity) + 1):
        vehicles = sorted(range(count), key=capacity.__getitem__, reverse=True)[: len(used)]
        if all(peak(route) <= capacity[vehicle] for route, vehicle in zip(used, vehicles, strict=True)):
            break
    plan: list[list[int]] = [[] for _ in capacity]
    for route, vehicle in zip(used, vehicles, strict=True):
        plan[vehicle] = [task.nodes[index] for index in route]
    return plan


def _legs(instance: Instance) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances, travel times, and shortest times, `f64[N+1, N+1]`.

    Shortest times may have stops on the way: rounded ones break the triangle inequality (two legs of 0.4 take 0).
    """
    if instance.travel_time is None:
        locs = np.asarray(instance.locs, np.float64)
        distances = np.linalg.norm(locs[:, None] - locs, axis=-1)
        times = distances / float(instance.vehicle_speed)
    else:
        distances, times = (np.asarray(each, np.float64) for each in (street_lengths(instance), instance.travel_time))
    if not instance.round_travel_time:
        return distances, times, times
    shortest = times = np.round(times)
    for stop in range(len(times)):
        shortest = np.minimum(shortest, shortest[:, stop, None] + shortest[stop])
    return distances, times, shortest

"""A day of vans that is known in advance: our search beside PyVRP on the same days, one core each, equal seconds.

taskset -c 0 python -m benchmarks.known_day --sizes 40 100 200 --seconds 10 --out result.json

Customers lie in a square of 12 km around the depot, vans for 20 customers each drive 30 km/h, come back to load again,
and stop four minutes at a customer. Of the first kind of days, parcels have deadlines; of the second, windows of two
hours. All count alike, so both serve as many as they can, and then drive as little as they can. The checker of
`dispatch` recomputes what each plan serves and drives.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import jaxvrp
from benchmarks.measuring import measure
from jaxvrp.envs.dispatch.baselines.known_day import search
from jaxvrp.envs.dispatch.driven_day import PlannedDay
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.problem.instance import Instance, make_instance, minutes_along
from jaxvrp.envs.dispatch.problem.solution import Stop, solution_report
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.messages import installing
from train import aligned, entry

SEARCHES = True
"""Its time goes to searches, see `entry`."""

KINDS = ("deadlines", "windows")
DAY, WINDOW = 480.0, 120.0  # minutes
PER_MINUTE = 10_000
"""Whole numbers of PyVRP in a minute; travel is rounded up."""

NEVER_LEFT_OUT = 10**9
"""PyVRP's prize for a customer: more than any way."""


def day_of(requests: int, kind: str, seed: int) -> Instance:
    """A day whose `requests` are all known when it begins."""
    rng = np.random.default_rng([seed, requests, KINDS.index(kind)])
    opens = rng.uniform(0, DAY - WINDOW, requests).round()
    vans = max(1, requests // 20)
    return make_instance(
        np.zeros(requests),
        rng.uniform(-6, 6, (requests, 2)).round(2),
        opens + WINDOW,
        depot=[0, 0],
        capacity=np.full(vans, 40),
        load=rng.integers(1, 6, requests),
        speed=30,
        detour=1.3,
        stop_time=4,
        loading_time=10,
        horizon=DAY + 60,
        area=[[-6, -6], [6, 6]],
        **({"dropoff_earliest": opens} if kind == "windows" else {}),
    )


def searched(day: Instance, seconds: float, seed: int) -> tuple[Stop, ...]:
    """The plan of `jaxvrp plan`."""
    sizes = {"max_requests": day.max_requests, "num_vehicles": day.num_vehicles, "num_drones": 0}
    env = jaxvrp.make("dispatch", scenario="same_day", **sizes)
    assert isinstance(env, Dispatch)
    *_, last = search(env, day, jax.random.key(seed), seconds)
    assert last.episode
    states = last.episode().states
    assert isinstance(states, PlannedDay)
    return states.stops


def pyvrp(day: Instance, seconds: float, seed: int) -> tuple[Stop, ...]:
    """The plan of PyVRP: vans that reload, prizes, windows and times of service and of loading."""
    from pyvrp import Client, Depot, Location, ProblemData, VehicleType, solve
    from pyvrp.stop import MaxRuntime

    places = [day.start_of(0), *(day.spot_of(request) for request in range(day.max_requests))]
    between = np.array([[minutes_along(day, 0, origin, target) for target in places] for origin in places])
    minutes = np.ceil(between * PER_MINUTE).astype(np.int64)
    data = ProblemData(
        locations=[Location(0, 0) for _ in places],  # only drawings use coordinates
        clients=[
            Client(
                r + 1,
                delivery=[int(day.load[r])],
                service_duration=_whole(day.stop_time[0]),
                tw_early=_whole(day.dropoff_earliest[r]),
                tw_late=_whole(day.dropoff_deadline[r]),
                prize=NEVER_LEFT_OUT,
                required=False,
            )
            for r in range(day.max_requests)
        ],
        depots=[Depot(0, service_duration=_whole(day.minutes_to_load[0]))],
        vehicle_types=[
            VehicleType(day.num_vehicles, [int(day.capacity[0])], tw_late=_whole(day.horizon), reload_depots=[0])
        ],
        distance_matrices=[minutes],
        duration_matrices=[minutes],
    )
    best = solve(data, MaxRuntime(seconds), seed=seed, display=False).best
    return tuple(stop for v, route in enumerate(best.routes()) for stop in _stops(route, v))


def _whole(minutes: Any) -> int:
    return round(float(minutes) * PER_MINUTE)


def _stops(route: Any, van: int) -> list[Stop]:
    """The stops of a route of PyVRP."""
    found, departs = [], 0.0
    for visit in route.schedule():
        begins = visit.start_time / PER_MINUTE
        if visit.is_depot():
            departs = begins
        else:
            found.append(Stop(van, visit.idx, False, begins, visit.trip + 1, departs))
    return found


PLAYERS = {"search": searched, "PyVRP": pyvrp}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = Parser("benchmarks.known_day", "A known day of vans: the search beside PyVRP.")
    parser.add_argument("--sizes", type=positive, nargs="+", default=[40, 100, 200], help="customers (40 100 200)")
    parser.add_argument("--days", type=positive, default=4, help="of each kind and size (default: 4)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=10.0, help="of each (default: 10)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    args = parser.parse_args(argv)
    if importlib.util.find_spec("pyvrp") is None:
        raise UserError(f"PyVRP is missing; {installing('solvers')}")
    records = [record for size in args.sizes for kind in KINDS for record in compared(size, kind, args)]
    head = ["customers", "kind", *(f"{name}: {cost}" for name in PLAYERS for cost in ("left out", "minutes driven"))]
    rows = []
    for size in args.sizes:
        for kind in KINDS:
            days = [each for each in records if (each["customers"], each["kind"]) == (size, kind)]
            figures = (f"{np.mean([each[name][k] for each in days]):.1f}" for name in PLAYERS for k in range(2))
            rows.append([str(size), kind, *figures])
    header = measure.machine(["python", "-m", "benchmarks.known_day", *argv], measure.device_name())
    protocol = {"days": args.days, "seconds": f"{args.seconds:g} a day, without compilation"}
    result = {"machine": header, "protocol": protocol, "records": records, "tables": {"known days": [head, *rows]}}
    measure.write_result(args.out, result, aligned([head, *rows]))


def compared(size: int, kind: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Days of one size and kind, by all players: how many are left out, and minutes driven."""
    records = []
    for seed in measure.progress(range(args.days), "day"):
        day = day_of(size, kind, seed)
        record: dict[str, Any] = {"customers": size, "kind": kind, "seed": seed}
        for name, player in PLAYERS.items():
            report = solution_report(day, list(player(day, args.seconds, seed)))
            if not report.feasible:
                raise ValueError(f"{name}, {size} {kind}, {seed}: {report.summary()}")
            record[name] = [size - int(np.sum(report.served)), float(report.travel.sum())]
        records.append(record)
    return records


if __name__ == "__main__":
    entry(main, searches=SEARCHES)

"""Cheapest insertion against a plain one, and its plans against the report and the environment."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import generate_dataset, make_instance, pad, stack
from jaxvrp.envs.darp.baselines.insertion import cheapest_insertion
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.darp.problem.solution import actions_to_routes, solution_report

NODES, VEHICLES = 12, 3

TOLERANCE = 1e-3
"""Of reports in float64 on plans whose times were summed up in float32."""


@functools.lru_cache
def generated(count):
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES)
    batch = jax.device_get(generate_dataset(env, seed=5, count=count))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], batch) for at in range(count)]


def crowded(count):
    """Smaller and slower vehicles: some requests are out of reach."""
    change = {"capacity": np.full(VEHICLES, 3, np.int32), "vehicle_speed": np.float32(6.0)}
    return [instance.replace(**change) for instance in generated(count)]


def rich(count, *, mixed=False, rounded=False):
    """Two-sided windows, service times, ride and duration limits; of all sizes."""
    rng = np.random.default_rng(11)
    return [rich_instance(rng, mixed, rounded) for _ in range(count)]


def rich_instance(rng, mixed, rounded):
    nodes, vehicles = 2 * int(rng.integers(2, NODES // 2 + 1)), int(rng.integers(2, VEHICLES + 1))
    load = rng.integers(1, 4, nodes // 2)
    demand, early, late = np.zeros(nodes + 1), np.zeros(nodes + 1), np.full(nodes + 1, 240.0)
    demand[1::2], demand[2::2] = load, -load
    early[1:] = rng.uniform(0, 120, nodes) * (rng.random(nodes) < 0.5)
    late[1:] = early[1:] + rng.uniform(15, 120, nodes)
    late[rng.random(nodes + 1) < 0.1] = np.inf
    return make_instance(
        rng.uniform(-10, 10, (nodes + 1, 2)),
        demand,
        late,
        capacity=rng.integers(3, 7, vehicles) if mixed else np.full(vehicles, 5),
        earliest=early,
        service_time=np.concatenate([[0.0], rng.uniform(0, 4, nodes)]),
        vehicle_speed=rng.uniform(0.8, 1.5),
        max_ride_time=rng.uniform(12, 40),
        max_route_duration=rng.uniform(40, 160),
        round_travel_time=rounded,
    )


def detour_shorter_than_the_way(horizon, **limits):
    """Rounded, the pickup is 1 away from the depot, but the drop-off between them is 0 away from both."""
    return make_instance(
        [[0, 0], [0.6, 0], [0.3, 0]], [0, 1, -1], [horizon, 9, 9], capacity=[1, 1], round_travel_time=True, **limits
    )


def impossible():
    """A pickup too far, a drop-off too far, a way home too long, also from halfway, too many passengers."""
    line = {"locs": [[0, 0], [3, 4], [6, 8]], "demand": [0, 2, -2]}
    return [
        make_instance(**line, deadline=[100, 4.9, 100], capacity=[2, 2]),
        make_instance(**line, deadline=[100, 100, 9.9], capacity=[2, 2]),
        make_instance(**line, deadline=[19.9, 100, 100], capacity=[2, 2]),
        detour_shorter_than_the_way(1.5),
        make_instance(**line, deadline=[100, 100, 100], capacity=[2, 2]).replace(capacity=np.array([1, 1], np.int32)),
    ]


KINDS = {
    "default": lambda: generated(8),
    "crowded": lambda: crowded(8),
    "mixed": lambda: rich(16, mixed=True),
    "alike": lambda: rich(16),
    "rounded": lambda: rich(16, rounded=True),
    "impossible": impossible,
    "long way home": lambda: [detour_shorter_than_the_way(9, max_route_duration=1.5)],
}


@functools.lru_cache
def padded():
    """Kind and instance; float32, so that all compute on the same numbers."""
    named = [(kind, instance) for kind, make in KINDS.items() for instance in make()]
    return [(kind, jax.device_get(as_float32(pad(instance, NODES, VEHICLES)))) for kind, instance in named]


@functools.lru_cache
def actions(limits, regret):
    """Plans for `padded()`, solved as one batch."""
    solve = jax.jit(jax.vmap(functools.partial(cheapest_insertion, limits=limits, regret=regret)))
    return np.asarray(solve(stack([instance for _, instance in padded()])))


def cases(kind, limits, regret):
    pairs = zip(padded(), actions(limits, regret), strict=True)
    return [(instance, plan) for (its_kind, instance), plan in pairs if its_kind == kind]


# With limits that are infinite, as the generated instances have, regret is the same as without.
options = pytest.mark.parametrize(("limits", "regret"), [(False, False), (True, False), (True, True)])


class Plain:
    """The same, written plainly: every place of every request is simulated anew."""

    def __init__(self, instance, limits):
        self.instance, self.limits = instance, limits
        self.cheapest = functools.cache(self.search)

    def length(self, *stops):
        return sum(math.dist(*self.instance.locs[[a, b]].astype(float)) for a, b in itertools.pairwise(stops))

    def travel(self, a, b):
        time = self.length(a, b) / self.instance.vehicle_speed
        return np.round(time) if self.instance.round_travel_time else time

    def feasible(self, vehicle, route):
        instance, clock, load = self.instance, self.instance.earliest[0], 0
        for before, node in itertools.pairwise([0, *route]):
            start = max(clock + self.travel(before, node), instance.earliest[node])
            clock, load = start + instance.service_time[node], load + instance.demand[node]
            home = clock + self.travel(node, 0)
            if start > instance.deadline[node] or home > instance.deadline[0] or load > instance.capacity[vehicle]:
                return False
        return not self.limits or self.keeps_limits(vehicle, route)

    def keeps_limits(self, vehicle, route):
        """Also when going home from halfway."""
        for stops in range(1, len(route) + 1):
            report = solution_report(self.instance, [0] * vehicle + [*route[:stops], 0], tolerance=0)
            if report.violations["ride_time"].count or report.violations["route_duration"].count:
                return False
        return True

    def search(self, vehicle, route, request):
        """Cost and longer route of the cheapest place; inf for none."""
        best = math.inf, None
        for i, j in itertools.combinations_with_replacement(range(len(route) + 1), 2):
            longer = (*route[:i], 2 * request + 1, *route[i:j], 2 * request + 2, *route[j:])
            cost = self.length(0, *longer, 0) - self.length(0, *route, 0)
            if cost < best[0] and self.feasible(vehicle, longer):
                best = cost, longer
        return best

    def solve(self, regret):
        """All routes but the empty ones at the end."""
        routes = [()] * np.count_nonzero(self.instance.capacity)
        waiting = set(np.flatnonzero(self.instance.demand[1::2]).tolist())
        while True:
            offers = []
            for request in waiting:
                places = [self.cheapest(vehicle, route, request) for vehicle, route in enumerate(routes)]
                (cost, longer), (second, _) = sorted([*places, (math.inf, None)], key=lambda place: place[0])[:2]
                if longer:
                    vehicle = places.index((cost, longer))
                    offers.append((second - cost if regret else 0, -cost, -request, vehicle, longer))
            if not offers:
                return [list(route) for route in routes[: max((v + 1 for v, r in enumerate(routes) if r), default=0)]]
            *_, request, vehicle, longer = max(offers)
            waiting.remove(-request)
            routes[vehicle] = longer


@options
@pytest.mark.parametrize("kind", KINDS)
def test_plan_is_that_of_a_plain_insertion(kind, limits, regret):
    for instance, plan in cases(kind, limits, regret):
        assert actions_to_routes(plan) == Plain(instance, limits).solve(regret)


def test_cases_ask_for_something():
    served, limited, regretted = actions(False, False), actions(True, False), actions(True, True)
    real = np.array([np.count_nonzero(instance.demand) for _, instance in padded()])
    assert np.count_nonzero(np.count_nonzero(served, axis=1) < real) > 10
    assert np.count_nonzero((served != limited).any(axis=1)) > 10
    assert np.count_nonzero((limited != regretted).any(axis=1)) > 10


@options
def test_report_finds_nothing_but_requests_left_out(limits, regret):
    expected = {"unserved"} if limits else {"unserved", "ride_time", "route_duration"}
    for (_, instance), plan in zip(padded(), actions(limits, regret), strict=True):
        report = solution_report(instance, plan, tolerance=TOLERANCE)
        assert {name for name, found in report.violations.items() if found.count} <= expected, str(report)


@pytest.mark.parametrize("limits", [False, True])
def test_who_cannot_be_served_stays(limits):
    for _, plan in cases("impossible", limits, False):
        np.testing.assert_array_equal(plan, np.zeros(NODES + VEHICLES))


def test_going_home_from_halfway_counts_for_the_duration():
    (_, free), (_, limited) = (cases("long way home", limits, False)[0] for limits in (False, True))
    assert actions_to_routes(free) == [[1, 2]]
    assert actions_to_routes(limited) == []


def test_an_instance_alone_and_without_padding_has_the_same_plan():
    instances = itertools.chain.from_iterable(make() for make in KINDS.values())
    pairs = zip(instances, actions(False, False), strict=True)
    small = [(instance, plan) for instance, plan in pairs if (instance.num_nodes, instance.num_agents) == (8, 2)]
    assert len(small) > 2
    for instance, plan in small:
        alone = np.asarray(cheapest_insertion(instance))
        np.testing.assert_array_equal(np.pad(alone, (0, plan.size - alone.size)), plan)


def replayed(limits):
    """Metrics `[E]` at the end of the episodes in which the plans for `padded()` are played."""
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, limits=limits)

    def play(instance, plan):
        def step(state, node):
            return env.step(state, {"vehicle": node[None]})[0], None

        return env.metrics(jax.lax.scan(step, env.reset_to(instance)[0], plan)[0])

    return jax.jit(jax.vmap(play))(stack([instance for _, instance in padded()]), actions(limits, False))


@pytest.mark.parametrize("limits", [False, True])
def test_environment_plays_the_plan_at_the_same_cost(limits):
    metrics = jax.device_get(replayed(limits))
    played = dict.fromkeys(KINDS, 0)
    for at, ((kind, instance), plan) in enumerate(zip(padded(), actions(limits, False), strict=True)):
        report = solution_report(instance, plan, tolerance=TOLERANCE)
        unserved, fleet = report.violations["unserved"].count, np.count_nonzero(instance.capacity)
        if not all(report.routes):
            assert kind == "mixed"
        elif not unserved or len(report.routes) == fleet:
            played[kind] += 1
            assert metrics["invalid_actions"][at] == 0, (kind, at)
            assert metrics["unvisited_nodes"][at] == unserved
            np.testing.assert_allclose(metrics["total_distance"][at], report.cost, rtol=1e-5)
    assert played["default"] == 8
    assert min(played["crowded"], played["mixed"], played["alike"], played["rounded"]) > 3, played

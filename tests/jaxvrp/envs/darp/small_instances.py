"""Small instances of every kind for what plans them, and tours of them driven plainly."""

import functools
import itertools
import math

import jax
import numpy as np

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.darp import generate_dataset, make_instance, pad
from jaxvrp.envs.darp.problem.instance import as_float32, stack
from jaxvrp.envs.darp.problem.solution import solution_report

NODES, VEHICLES = 12, 3

TOLERANCE = 1e-3
"""Of reports in float64 on plans whose times were summed up in float32."""


@functools.lru_cache
def generated(count):
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES)
    batch = jax.device_get(generate_dataset(env, seed=5, count=count))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], batch) for at in range(count)]


def played_at_random(env, instances, steps, look):
    """What `look(state, timestep)` says of many instances before each step of random play, `[T, E, ...]`."""
    actor = RandomActor(env)

    @jax.jit
    def run(batch):
        def body(carry, key):
            state, timestep = carry
            action = actor.act(key, (), state, timestep)[0]
            return jax.vmap(env.step)(state, action), look(state, timestep)

        start = jax.vmap(env.reset_to)(batch)
        return jax.lax.scan(body, start, jax.random.split(jax.random.key(3), steps))[1]

    padded = [pad(as_float32(instance), env.num_nodes, env.num_agents) for instance in instances]
    return jax.device_get(run(stack(padded)))


def of_row(tree, *index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def crowded(count):
    """Smaller and slower vehicles: some requests are out of reach."""
    change = {"capacity": np.full(VEHICLES, 3, np.int32), "vehicle_speed": np.float32(6.0)}
    return [instance.replace(**change) for instance in generated(count)]


def rich(count, *, mixed=False, rounded=False):
    """Two-sided windows, service times, ride and duration limits; of all sizes."""
    rng = np.random.default_rng(11)
    return [rich_instance(rng, mixed, rounded) for _ in range(count)]


def drawn_demand_and_windows(rng, nodes):
    """Demand, earliest times and deadlines, `[nodes + 1]` each; some windows open at 0, some never close."""
    load = rng.integers(1, 4, nodes // 2)
    demand, early, late = np.zeros(nodes + 1), np.zeros(nodes + 1), np.full(nodes + 1, 240.0)
    demand[1::2], demand[2::2] = load, -load
    early[1:] = rng.uniform(0, 120, nodes) * (rng.random(nodes) < 0.5)
    late[1:] = early[1:] + rng.uniform(15, 120, nodes)
    late[rng.random(nodes + 1) < 0.1] = np.inf
    return demand, early, late


def rich_instance(rng, mixed, rounded):
    nodes, vehicles = 2 * int(rng.integers(2, NODES // 2 + 1)), int(rng.integers(2, VEHICLES + 1))
    demand, early, late = drawn_demand_and_windows(rng, nodes)
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


class PlainTours:
    """Tours of an instance, each simulated stop by stop."""

    def __init__(self, instance, limits):
        self.instance, self.limits = instance, limits

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

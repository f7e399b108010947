"""A truck with several drones: the report's rules one by one, published plans, random play, and the search."""

import csv
import dataclasses
import functools
import os
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks import fast_compilation
from benchmarks.quality.tsp_drone import sidekicks
from benchmarks.reference.tsp_drone import least_makespan as tsp_drone_makespan
from jaxvrp import episodes, show
from jaxvrp.actor import RandomActor
from jaxvrp.envs import tsp_drone
from jaxvrp.envs.flying_sidekicks import (
    Task,
    annealing,
    flights_report,
    load,
    make_instance,
    pad,
    read_murray_raj,
    rules,
    save,
)
from jaxvrp.envs.flying_sidekicks.instance import as_float32, check, trim
from jaxvrp.envs.flying_sidekicks.plan import KINDS, PROBLEMS, row_of, tasks_of
from jaxvrp.envs.truck_and_drone import chains
from jaxvrp.io.command_line import UserError
from jaxvrp.io.problems.problem_files import DamagedFileError
from tests.jaxvrp.envs.flying_sidekicks.exhaustive import Flight, Moment, Search, least_makespan
from train import solve

PLACES = np.array([0.0, 4.0, 6.0, 10.0])
WAYS = np.abs(PLACES[:, None] - PLACES)


def line(**changes):
    """Customers at 4, 6, 10 on a line; two drones, of which the second is twice as fast as the truck."""
    fields = {
        "truck_time": WAYS,
        "drone_time": np.stack([WAYS, WAYS / 2]),
        "endurance": [20.0, 15.0],
        "service": [0.0, 2.0, 2.0, 2.0],
        "drone_service": [1.0, 3.0],
        "launch_time": [1.0, 2.0],
        "recovery_time": [0.5, 1.0],
    }
    return make_instance(np.stack([PLACES, 0 * PLACES], axis=1), **{**fields, **changes})


PLAN = [
    *(Task("launch", 1, 0), Task("launch", 3, 1), Task("drive", 2), Task("recover", 1, 0), Task("serve", 2)),
    *(Task("drive", 0), Task("recover", 3, 1)),
]
"""Drone 1 leaves at 1 and is at customer 2 at 8, the truck at 9; drone 2 at 3, and home at 16, the truck at 17.5."""


def times(report, vehicle):
    return [(event.does, event.node, event.begin, event.end) for event in report.events if event.who == vehicle]


def test_tasks_follow_each_other():
    report = flights_report(line(), PLAN, strict=True)
    assert report.cost == 18.5
    assert times(report, "truck") == [
        *(("launch", 0, 0.0, 1.0), ("launch", 0, 1.0, 3.0), ("drive", 2, 3.0, 9.0), ("recover", 2, 9.0, 9.5)),
        *(("serve", 2, 9.5, 11.5), ("drive", 0, 11.5, 17.5), ("recover", 0, 17.5, 18.5)),
    ]
    flown = [("fly", 1, 1.0, 5.0), ("serve", 1, 5.0, 6.0), ("fly", 2, 6.0, 8.0), ("hover", 2, 8.0, 9.0)]
    assert times(report, "drone 1") == flown


def test_the_truck_waits_for_a_drone_that_is_late():
    tasks = [Task("launch", 3, 0), Task("drive", 1), Task("serve", 1), Task("recover", 3, 0)]
    report = flights_report(line(), [*tasks, Task("drive", 2), Task("serve", 2), Task("drive", 0)], strict=True)
    assert ("wait", 1, 7.0, 18.0) in times(report, "truck")
    assert report.cost == 18.5 + 2 + 2 + 6


def test_a_launch_is_held_back_while_the_truck_waits_for_another_drone():
    # At customer 1 the truck launches drone 2 at 7, and waits for drone 1 until 18.
    tasks = [Task("launch", 3, 0), Task("drive", 1), Task("launch", 2, 1), Task("serve", 1), Task("recover", 3, 0)]
    report = flights_report(line(), [*tasks, Task("drive", 0), Task("recover", 2, 1)], strict=True)
    assert report.cost == 23.5
    # It would be home at 7 + 1 + 3 + 3 = 14, and hover for 8.5; the wait is 9.
    assert ("launch", 1, 13.5, 15.5) in times(report, "truck")
    assert ("serve", 1, 15.5, 17.5) in times(report, "truck")
    assert ("wait", 1, 17.5, 18.0) in times(report, "truck")
    assert times(report, "drone 2")[-1] == ("fly", 0, 19.5, 22.5)
    # It takes 7 of the endurance: nothing is hovered.
    assert flights_report(line(endurance=[30.0, 7.0]), [*tasks, Task("drive", 0), Task("recover", 2, 1)]).feasible


BROKEN = {
    "unserved": ([*PLAN[:4], *PLAN[5:]], 2),
    "unknown_node": ([Task("drive", 9), *PLAN], 9),
    "duplicates": ([*PLAN[:5], Task("drive", 1), Task("serve", 1), *PLAN[5:]], 1),
    "wrong_place": ([Task("serve", 2), *PLAN], 2),
    "busy_drone": ([*PLAN[:1], Task("launch", 2, 0), *PLAN[1:]], 2),
    "same_stop": ([*PLAN[:1], Task("recover", 1, 0), *PLAN[1:]], 1),
    "open_tour": (PLAN[:-1], 3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_report_names_what_is_broken(name):
    tasks, node = BROKEN[name]
    report = flights_report(line(), tasks)
    assert not report.feasible and report.violations[name].first_node == node
    with pytest.raises(ValueError, match=name):
        flights_report(line(), tasks, strict=True)


def test_a_task_of_no_known_kind_is_one_line():
    says = r"^tasks\[1\]\.kind is 'fly'; it must be one of drive, serve, launch, recover$"
    with pytest.raises(ValueError, match=says):
        flights_report(line(), [PLAN[0], Task("fly", 3, 1)])


def test_limits_of_flights():
    assert flights_report(line(no_fly=[[0, 1, 0, 0], [0, 0, 0, 0]]), PLAN).violations["no_fly"].first_node == 1
    # Drone 1 takes 7, and hovers for 1.
    assert flights_report(line(endurance=[8.0, 15.0]), PLAN).feasible
    assert flights_report(line(endurance=[7.9, 15.0]), PLAN).summary() == "endurance 1 (first node 1)"
    # A battery drains otherwise.
    drained = line(endurance=[8.0, 15.0], drain_out=np.stack([2 * WAYS, WAYS / 2]), drain_back=0 * WAYS)
    assert flights_report(drained, PLAN).violations["endurance"].count == 1


def test_instances_are_checked(tmp_path):
    save(tmp_path / "line.npz", line())
    found = load(tmp_path / "line.npz")
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(line()), strict=True))
    padded = pad(line(), 6, 3)
    check(padded)
    assert padded.no_fly[2].all() and trim(padded).num_nodes == 4
    for changes, message in (
        ({"endurance": [np.nan, 1.0]}, "endurance holds nan"),
        ({"truck_time": WAYS + 1}, "truck_time from node 0 to itself"),
        ({"service": [1.0, 0.0, 0.0, 0.0]}, "service of the depot"),
        ({"truck_time": None}, "an instance needs arrays of numbers: truck_time holds object"),
        ({"launch_time": [1.0, 2.0, 3.0]}, r"launch_time has shape \(3,\); it needs \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            line(**changes)


def test_no_customer_is_out_of_reach_while_a_drone_can_serve_one():
    env = jaxvrp.make("flying_sidekicks", num_nodes=4, num_drones=2)

    def warnings(**changes):
        return PROBLEMS.inspect(line(**changes), env).warnings

    # To customer 2 at 6 from 4 and back: the first drone takes 2 + 1 + 2, the second 1 + 3 + 1.
    assert warnings(endurance=[0.5, 5.5]) == warnings(endurance=[4.9, np.inf]) == ()
    assert warnings(endurance=[9.0, 5.5], drone_time=np.stack([9 * WAYS, WAYS / 2])) == ()
    assert warnings(endurance=[20.0, 4.0], no_fly=[[0, 1, 1, 1], [0, 0, 0, 0]]) == (
        "endurance: no customer is within 4, the nearest needs 5; give it in the units of the file",
    )


GENERATE = """
import sys, jax, jaxvrp
from jaxvrp.envs.flying_sidekicks import save
env = jaxvrp.make("flying_sidekicks", num_nodes=6, num_drones=2)
save(sys.argv[1], jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 3)))
"""


def test_generated_instances_are_read_back_as_saved(tmp_path):
    """Compiled as users do: with the flags of the tests XLA does not fuse what left rounding on the diagonals."""
    environ = {name: value for name, value in os.environ.items() if name not in fast_compilation.variables()}
    subprocess.run([sys.executable, "-c", GENERATE, tmp_path / "drawn.npz"], env=environ, check=True)
    found = load(tmp_path / "drawn.npz")
    for matrix, to_itself in (
        (found.drone_time, 0),
        (found.drain_back, 0),
        (found.drain_out, found.drone_service[..., None]),
    ):
        assert (np.diagonal(matrix, axis1=-2, axis2=-1) == to_itself).all()


def test_a_plan_is_shown_state_by_state():
    # The masks of all states at once would be gigabytes, of a hundred customers.
    env = jaxvrp.make("flying_sidekicks", num_nodes=12, num_drones=2)
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))

    def scratch(count):
        states = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), state)
        return episodes.timesteps_of.lower(env, states).compile().memory_analysis().temp_size_in_bytes

    assert scratch(64) < 2 * scratch(8)


# --- published ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def murray_raj(published_folder):
    return published_folder("mfstsp_murray_raj") / "mfstsp_murray_raj"


# The authors' optimal plans of two instances, task by task: drive, serve, launch drone to customer, recover.
PUBLISHED = {
    "20170608T121944818056 101 2": "L0:6 D4 L1:3 S D5 S R0 D2 L0:7 R1 S D1 L1:8 R0 S D0 R1",
    "20170608T121411132375 101 3": "D3 S D2 L0:8 S D4 L2:1 S R0 D7 R2 S D5 S L0:6 D0 R0",
}


# Plans of the search with the makespan of the authors' ones. One drone is recovered at the next stop and the other at
# the stop after; the last customer left is a drone's, and the truck goes home.
SEARCHED = {
    "20170608T121355407419 102 3": "L0:5 D1 L2:8 S D7 R2 L1:4 R0 S D2 L0:6 S R1 D3 S D0 R0",
    "20170608T121426910678 101 2": "L1:7 D3 L0:2 R1 S D4 S R0 D1 S D6 L0:5 L1:8 S D0 R1 R0",
}


def published_tasks(text):
    here, customers, tasks = 0, {}, []
    for word in text.split():
        kind, rest = word[0], word[1:]
        if kind == "D":
            here = int(rest)
            tasks.append(Task("drive", here))
        elif kind == "S":
            tasks.append(Task("serve", here))
        else:
            drone, _, customer = rest.partition(":")
            customers[drone] = int(customer or customers[drone])
            tasks.append(Task("launch" if kind == "L" else "recover", customers[drone], int(drone)))
    return tasks


def test_published_plans_have_their_makespan(murray_raj):
    with (murray_raj / "published_results.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name, text in PUBLISHED.items():
        problem, vehicles, drones = name.split()
        (row,) = [
            row
            for row in rows
            if (row["problemName"], row["vehicleFileID"], row["numUAVs"], row["problemType"])
            == (problem, vehicles, drones, "1")
        ]
        table = murray_raj / f"tbl_vehicles_{vehicles}.csv"
        instance = read_murray_raj(murray_raj / problem, table, num_drones=int(drones), battery=True)
        report = flights_report(instance, published_tasks(text), strict=True)
        assert report.cost == pytest.approx(float(row["ofv"]), abs=1e-4)
        fixed = read_murray_raj(murray_raj / problem, table, num_drones=int(drones))
        assert fixed.endurance.tolist() == [350.0] * int(drones)
        # The battery lasts for more than the 350 seconds that stand for it.
        assert flights_report(fixed, published_tasks(text)).violations["endurance"].count > 0


masks_of = jax.jit(jax.vmap(rules.allowed))


@pytest.mark.slow("20170608T121944818056 101 2")
@pytest.mark.parametrize("name", [*PUBLISHED, *SEARCHED])
def test_masks_allow_plans_of_least_makespan(murray_raj, name):
    problem, vehicles, drones = name.split()
    table = murray_raj / f"tbl_vehicles_{vehicles}.csv"
    instance = read_murray_raj(murray_raj / problem, table, num_drones=int(drones), battery=True)
    tasks = published_tasks({**PUBLISHED, **SEARCHED}[name])
    # Driving on serves.
    tasks = [task for task, after in zip(tasks, [*tasks[1:], None], strict=True) if not is_implied(task, after)]
    kind = np.array([KINDS[task.kind] for task in tasks])
    node = [task.node if task.kind in ("drive", "launch") else 0 for task in tasks]
    drone = [task.drone or 0 for task in tasks]
    # With room for three drones, so that all plans share programs.
    actions = rules.action_of(kind, np.array(node), np.array(drone), 9, 3).astype(np.int32)
    env = jaxvrp.make("flying_sidekicks", num_nodes=9, num_drones=3)
    states = rules.play(env.init_state(instance), jnp.asarray(actions))
    masks = np.asarray(masks_of(states))
    assert states.done[-1] and masks[np.arange(len(actions)), actions].all()


def is_implied(task, after):
    return task.kind == "serve" and after is not None and after.kind == "drive"


# --- rules ----------------------------------------------------------------------------------------------------------


def drawn(seed, customers=4, drones=2, **changes):
    """Matrices without symmetry, drones that differ, limits that bind."""
    rng = np.random.default_rng(seed)
    nodes = customers + 1
    off = 1 - np.eye(nodes)
    truck, flight = rng.uniform(2, 12, (nodes, nodes)) * off, rng.uniform(1, 8, (drones, nodes, nodes)) * off
    fields = {
        "truck_time": truck,
        "drone_time": flight,
        "endurance": rng.uniform(10, 18, drones),
        "service": np.r_[0.0, rng.uniform(0, 3, customers)],
        "drone_service": rng.uniform(0, 2, drones),
        "launch_time": rng.uniform(0, 2, drones),
        "recovery_time": rng.uniform(0, 2, drones),
        "no_fly": rng.random((drones, nodes)) < 0.2,
    }
    return make_instance(rng.uniform(0, 9, (nodes, 2)), **{**fields, **changes})


@functools.cache
def random_player():
    """An environment, and random play of a batch."""
    env = jaxvrp.make("flying_sidekicks", num_nodes=7, num_drones=3)
    keep = lambda action, state, timestep: state  # noqa: E731
    actor, key = RandomActor(env), jax.random.key(0)
    return env, jax.jit(lambda batch: episodes.record_episodes(env, actor, batch, key, keep)[1])


@pytest.mark.parametrize("endurance", [11.0, 20.0, np.inf])
def test_every_play_brings_all_home_and_passes_the_report(endurance):
    """Masks strand no drone; rules and report give the same makespan."""
    sizes = [2 + seed % 2 for seed in range(16)]
    problems = [
        drawn(seed, customers=5, drones=drones, endurance=np.full(drones, endurance))
        for seed, drones in enumerate(sizes)
    ]
    env, play = random_player()
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[as_float32(pad(each, 7, 3)) for each in problems])
    states = jax.device_get(play(batch))
    first = jax.device_get(jax.jit(jax.vmap(env.init_state))(batch))
    states = jax.tree.map(lambda start, rest: np.concatenate([start[None], rest]), first, states)
    assert states.done[-1].all() and not states.invalid_actions.any()
    flights = 0
    for row, problem in enumerate(problems):
        tasks = tasks_of(jax.tree.map(lambda leaf, row=row: leaf[:, row], states))
        report = flights_report(problem, tasks, strict=True)
        assert report.cost == pytest.approx(states.walk.clock[-1, row], rel=1e-5)
        flights += sum(task.kind == "launch" for task in tasks)
    assert flights > 10


def test_masks_forbid_what_would_strand_a_drone():
    env = jaxvrp.make("flying_sidekicks", num_nodes=4, num_drones=2)
    mask = np.asarray(jax.jit(rules.allowed)(env.init_state(line(endurance=[20.0, 8.0]))))

    def allowed(kind, node, drone):
        action = rules.action_of(np.array(kind), node, drone, 4, 2)
        return bool(mask[action])

    # Drone 2 needs 3 + 3 + 5 to customer 3 and to the nearest stop after it.
    assert allowed(rules.LAUNCH, 1, 0) and allowed(rules.LAUNCH, 1, 1) and not allowed(rules.LAUNCH, 3, 1)
    assert not allowed(rules.RECOVER, 0, 0) and not allowed(rules.SERVE, 0, 0) and not allowed(rules.DRIVE, 0, 0)


def moment_of(state):
    """The state of an episode, as the exhaustive search has it."""
    walk = state.walk
    leaves = (walk.customer, walk.is_here, walk.leave, walk.used, walk.spared)
    flights = [Flight(*(leaf.item() for leaf in row)) for row in zip(*leaves, strict=True)]
    return Moment(
        stop=int(walk.stop),
        number=1,
        clock=float(walk.clock),
        is_pending=bool(walk.is_pending),
        left=frozenset(np.flatnonzero(~state.served).tolist()),
        flights=tuple(flight if flight.customer else None for flight in flights),
        held=int(walk.held) if walk.held >= 0 else None,
        is_home=bool(state.is_home),
    )


def tasks_by_action(search, moment):
    """What comes of each action that is not against the rules."""
    service = search.given.service[moment.stop] * moment.is_pending
    served = dataclasses.replace(moment, clock=moment.clock + service, is_pending=False)
    tasks = dict(search.tasks(moment))
    tasks |= {task: after for task, after in search.tasks(served) if task[0] == "drive"}
    size = search.given.num_nodes, search.given.num_drones
    numbers = {
        (kind, node, drone): (KINDS[kind], node if kind in ("drive", "launch") else 0, drone or 0)
        for kind, node, drone in tasks
    }
    return {int(rules.action_of(*map(np.array, numbers[task]), *size)): tasks[task] for task in tasks}


def plain(seed, drones):
    """No detour of the truck saves time; limits that bind."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 8, (5, 2))
    ways = np.linalg.norm(places[:, None] - places, axis=2)
    pace, endurance = rng.uniform(0.4, 1.0, (drones, 1, 1)), rng.uniform(7, 16, drones)
    return drawn(seed, drones=drones, truck_time=ways, drone_time=pace * ways, endurance=endurance)


@jax.jit
def stepped(state, action):
    return rules.advance(state, action, jnp.zeros((), jnp.int32))


def masks_of_plays(drones, seeds):
    """Of states in random plays that launch much: the search, the mask, and what comes of each action.

    There is room for three drones, so that all numbers of drones share programs; those that are padding may not serve.
    """
    env = jaxvrp.make("flying_sidekicks", num_nodes=5, num_drones=3)
    kind = rules.task_of(np.arange(rules.num_actions(5, 3)), 5, 3)[0]
    rng = np.random.default_rng(0)
    for seed in seeds:
        search = Search(pad(plain(seed, drones), 5, 3))
        state = env.init_state(search.given)
        while not state.done:
            mask = np.asarray(rules.allowed(state))
            yield search, mask, tasks_by_action(search, moment_of(jax.device_get(state)))
            weight = mask * np.where(kind == rules.LAUNCH, 4.0, 1.0)
            state = stepped(state, np.int32(rng.choice(len(mask), p=weight / weight.sum())))


@pytest.mark.parametrize("drones", [1, 2])
def test_masks_of_one_and_two_drones_are_exact(drones):
    """But for flights to the depot alone with several customers left."""
    seen = {True: 0, False: 0}
    for search, mask, tasks in masks_of_plays(drones, range(20)):
        assert not mask[np.setdiff1d(np.arange(len(mask)), list(tasks))].any()
        for action, after in tasks.items():
            wanted = search.can_finish(after)
            if wanted and len(after.left) > 1 and not mask[action]:
                wanted = search.can_finish(after, at_depot=False)
            assert mask[action] == wanted, after
            seen[wanted] += 1
    assert min(seen.values()) > 50


def test_masks_of_three_drones_strand_none():
    refused = 0
    for search, mask, tasks in masks_of_plays(3, range(12)):
        finish = [search.can_finish(tasks[action]) if action in tasks else False for action in range(len(mask))]
        assert mask.any() and not (mask & ~np.array(finish)).any()
        refused += len(tasks) - sum(finish)
    assert refused > 20


# --- search ---------------------------------------------------------------------------------------------------------

TINY = {
    **{f"drawn {seed}": drawn(seed) for seed in range(3)},
    "a single drone": drawn(6, drones=1),
    "three drones": drawn(7, drones=3),
    "five customers": drawn(8, customers=5),
    "no limit": drawn(9, endurance=[np.inf, np.inf]),
    "no flight": drawn(10, endurance=[0.5, 0.5]),
    "one customer": drawn(12, customers=1),
}


@pytest.mark.parametrize("seed", range(4))
def test_one_drone_without_limits_and_times_is_that_of_tsp_drone(seed):
    """Without revisits; the exhaustive search of either problem knows nothing of the other."""
    instance = drawn(
        seed, drones=1, endurance=[np.inf], service=np.zeros(5), drone_service=0, launch_time=0, recovery_time=0
    )
    times = {"truck_time": instance.truck_time, "drone_time": instance.drone_time[0]}
    single = tsp_drone.make_instance(instance.locs, no_fly=instance.no_fly[0] & (np.arange(5) > 0), **times)
    expected = tsp_drone_makespan(single, allow_revisits=False)
    assert least_makespan(instance)[0] == pytest.approx(expected, rel=1e-6)


price = jax.jit(annealing.price)


def annealed(instance, least, calls=8):
    """The best plan and its makespan: the first that is the least, or the one after so many calls, on any machine."""
    tables, codes = annealing.make_tables(instance), jnp.asarray(annealing.first_codes(instance))
    repeated = jnp.repeat(codes[:, None], 8, axis=1)
    found = chains.begin(annealing.METHOD, tables, repeated)
    heats, fines = (jnp.geomspace(*ends, calls * 128, dtype=jnp.float32).reshape(calls, -1) for ends in HEATS)
    for key, heat, fine in zip(jax.random.split(jax.random.key(0), calls), heats, fines, strict=True):
        found = chains.advance(annealing.METHOD, tables, found, key, heat, fine)
        if float(found.least.min()) <= least * (1 + 1e-5):
            break
    return np.asarray(found.best[:, found.least.argmin()]), float(found.least.min())


HEATS = ((5.0, 0.05), (0.5, 5.0))
"""From the first to the last temperature, and fine."""


@pytest.mark.slow("drawn 0", "drawn 2", "five customers")
@pytest.mark.parametrize("name", TINY)
def test_the_search_finds_the_least_makespan_of_all_plans(name):
    instance = TINY[name]
    env = jaxvrp.make("flying_sidekicks", num_nodes=instance.num_nodes, num_drones=3)
    padded = as_float32(pad(instance, instance.num_nodes, 3))
    least, plan = least_makespan(instance)
    codes, cost = annealed(padded, least)
    actions = annealing.actions_of(env, padded, codes)[:, 0]
    tasks = tasks_of(jax.device_get(rules.play(env.init_state(padded), actions)))
    assert flights_report(instance, tasks, strict=True).cost == pytest.approx(cost, rel=1e-5)
    assert flights_report(instance, [Task(*task) for task in plan], strict=True).cost == pytest.approx(least, rel=1e-9)
    assert cost == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize(("takes_best", "least"), [(False, 99), (True, 95)])
def test_a_chain_takes_the_first_change_or_the_best(takes_best, least):
    by_lane = jnp.array([3, 0, -1, -5, -2])
    method = chains.Method(
        price=lambda tables, codes: (codes[0].astype(jnp.float32), jnp.zeros(codes.shape[1])),
        change=lambda tables, codes, drawn: codes + jnp.resize(by_lane, codes.shape),
        tries=5,
        temperature=(0.0, 0.0),
        takes_best=takes_best,
    )
    started, still = chains.begin(method, None, jnp.array([[100, 200]])), jnp.zeros(1)
    found = chains.advance(method, None, started, jax.random.key(0), still, still)
    assert found.codes.tolist() == [[least, least + 100]]


def test_changes_keep_each_customer_twice():
    instance = as_float32(drawn(0, customers=6))
    tables, codes = (
        annealing.make_tables(instance),
        jnp.repeat(jnp.asarray(annealing.first_codes(instance))[:, None], 512, 1),
    )
    change = jax.jit(annealing.changed_codes)
    for seed in range(8):
        codes = change(tables, codes, jax.random.uniform(jax.random.key(seed), (8, 512)))
        order, vehicles = np.asarray(codes[:13]), np.asarray(codes[13:])
        assert (np.sort(order, axis=0) == np.r_[0, np.repeat(np.arange(1, 7), 2)][:, None]).all()
        assert ((vehicles >= 0) & (vehicles <= 2)).all() and (vehicles[0] == 0).all()
    assert len(np.unique(np.asarray(codes), axis=1).T) > 400


def test_a_searched_plan_is_replayed_drawn_and_written(tmp_path):
    instance = drawn(7, drones=3)
    env = jaxvrp.make("flying_sidekicks", num_nodes=6, num_drones=3)
    *_, found = annealing.search_episode(env, pad(instance, 6, 3), jax.random.key(0), 0.1)
    played = jax.device_get(found.episode())
    episode, story = show.export_episode(played), show.story_of(played)
    assert show.check(episode) is None and show.export_episode(played.replace(actions=None)) == episode
    assert story.span[1] == pytest.approx(found.cost, rel=1e-5) and story.verdict == "feasible"
    assert [step["action"]["truck"] for step in episode["steps"][:-1]] == found.actions["truck"].tolist()
    assert all(place.standings[-1].name == "served" for place in story.places[1:]) and len(story.places) == 5
    for vehicle in story.vehicles:
        # Each leg begins where the one before ended, and not earlier.
        (_, start), *ends = vehicle.track
        assert [time for time, _ in ends] == sorted(time for time, _ in ends)
        places = [start, *(place for _, place in ends)]
        assert all(places[at] == places[at + 1] for at in range(0, len(places) - 1, 2)), vehicle.name
    show.save(played, tmp_path / "plan.svg")
    assert "drone 3" in (tmp_path / "plan.svg").read_text()
    plan = PROBLEMS.plan(instance, played)
    assert plan["feasible"] and plan["makespan"] == pytest.approx(found.cost, rel=1e-5)
    tasks = [Task(each["kind"], each["node"], each["drone"]) for each in plan["tasks"]]
    assert flights_report(instance, tasks, strict=True).cost == plan["makespan"]
    # The first task alone may be a drive or a launch, by the plan that the search had time for.
    left_out = next(task.node for task in tasks if task.kind in ("serve", "launch"))
    with pytest.raises(ValueError, match=f"the plan is not feasible: unserved 1 .first node {left_out}."):
        flights_report(instance, [task for task in tasks if task.node != left_out], strict=True)


def test_the_seconds_of_a_search_are_without_compilation(monkeypatch):
    traced = []

    def followed(*arguments):
        traced.append(arguments)
        return annealing.followed(*arguments)

    def anneal_from(method, tables, codes, key, stop, **how):
        assert len(traced) == 1
        yield chains.Annealed(0.1, 1.0, codes)

    monkeypatch.setattr(annealing, "_followed", jax.jit(followed))
    monkeypatch.setattr(annealing, "anneal_from", anneal_from)
    env = jaxvrp.make("flying_sidekicks", num_nodes=5, num_drones=2)
    (found,) = annealing.search_episode(env, drawn(7), jax.random.key(0), 0.1)
    assert len(traced) == 1 and len(found.actions["truck"]) == 9


def test_without_customers_there_is_nothing_to_do(tmp_path):
    empty = make_instance([[0.0, 0.0]], truck_time=[[0.0]], drone_time=0.0, endurance=[1.0, 2.0])
    save(tmp_path / "empty.npz", empty)
    solution = solve.solve(tmp_path / "empty.npz", seconds=0.1)
    assert solution.plan["feasible"] and solution.plan["makespan"] == 0 and solution.plan["tasks"] == []


def test_padding_is_no_customer_that_is_left():
    env = jaxvrp.make("flying_sidekicks", num_nodes=7, num_drones=2)
    _, timestep = jax.jit(env.reset_to)(line())
    np.testing.assert_array_equal(timestep.observation["truck"], [[1.0]])


def test_sets_of_published_problems(murray_raj):
    problems = sidekicks("mfstsp_n8_101_2", "--instances")
    assert len(problems) == 8 and {each.row for each in problems} == {17}
    assert min(each.makespan for each in problems) == pytest.approx(896.71, abs=0.01)
    assert {each.row for each in sidekicks("mfstsp_n25_104_4_fixed", "--instances")} == {15}
    with pytest.raises(UserError, match="no problems 'mfstsp_n9_101_2'"):
        sidekicks("mfstsp_n9_101_2", "--instances")


def test_a_folder_of_too_many_nodes_is_refused_before_tables_are_made(tmp_path):
    rows = "".join(f"{node},{min(node, 1)},47,-122,0,1\n" for node in range(251))
    (tmp_path / "tbl_locations.csv").write_text(rows)
    with pytest.raises(ValueError, match="line 251: expected at most 250 nodes, found 251; take fewer"):
        read_murray_raj(tmp_path, tmp_path / "tbl_vehicles_101.csv", num_drones=1)


@pytest.mark.parametrize(
    ("place", "says"),
    [("142.9,-122", "a latitude from -90 to 90, found 142.9"), ("47,-182", "a longitude from -180 to 180, found -182")],
)
def test_a_place_that_is_not_on_earth_is_refused(place, says, tmp_path):
    (tmp_path / "tbl_locations.csv").write_text(f"0,0,47,-122,0,1\n1,1,{place},0,1\n")
    with pytest.raises(ValueError, match=f"line 2: expected {says}"):
        read_murray_raj(tmp_path, tmp_path / "tbl_vehicles_101.csv", num_drones=1)


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_drone(murray_raj, count):
    with pytest.raises(ValueError, match=f"num_drones is {count}; it must be at least 1"):
        read_murray_raj(murray_raj / "20170608T121944818056", murray_raj / "tbl_vehicles_101.csv", num_drones=count)


def test_a_published_file_is_read_from_within_its_folder(murray_raj, monkeypatch):
    folder = murray_raj / "20170608T121944818056"
    monkeypatch.chdir(folder)
    chex.assert_trees_all_equal(PROBLEMS.read("tbl_locations.csv"), PROBLEMS.read(folder / "tbl_locations.csv"))
    monkeypatch.chdir(folder.parent)
    assert len(PROBLEMS.read(f"{folder.name}/tbl_locations.csv")) == 32


def test_a_published_file_is_solved(murray_raj, tmp_path):
    file = murray_raj / "20170608T121944818056" / "tbl_locations.csv"
    row = row_of("tbl_vehicles_101.csv", 2, battery=True)
    solution = solve.solve(file, seconds=0.5, row=row)
    assert solution.plan["feasible"] and 993.15 <= solution.plan["makespan"] < 1100
    problems = PROBLEMS.read(file)
    assert [each.num_drones for each in problems] == 8 * [1, 2, 3, 4]
    assert [each.endurance[0] for each in problems[:16:4]] == [350.0, 700.0, 700.0, 1400.0]
    tables = sorted(murray_raj.glob("tbl_vehicles_*.csv"))

    def written(name, change):
        """The set with one file changed."""
        folder = tmp_path / name / "problem"
        folder.mkdir(parents=True)
        for source in (*file.parent.iterdir(), *tables):
            text = source.read_text()
            place = folder.parent if source in tables else folder
            (place / source.name).write_text(change(text) if source.name == name else text)
        return folder / "tbl_locations.csv"

    for name, change, message in (
        ("tbl_locations.csv", lambda text: text.replace("\n3, 1,", "\n4, 1,"), "line 5: expected node 3, of type 1"),
        ("tbl_truck_travel_data_PG.csv", lambda text: text.rpartition("\n8, 8")[0], "a line for each way"),
        ("tbl_vehicles_101.csv", lambda text: text.replace("457503", "457504"), "a battery whose endurance is known"),
    ):
        with pytest.raises(DamagedFileError, match=message):
            PROBLEMS.read(written(name, change))
    (tmp_path / "tbl_vehicles_101.csv" / "tbl_vehicles_104.csv").unlink()
    with pytest.raises(DamagedFileError, match=r"tbl_vehicles_104\.csv; give a file of a whole set"):
        PROBLEMS.read(tmp_path / "tbl_vehicles_101.csv" / "problem" / "tbl_locations.csv")

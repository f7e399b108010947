"""Published solutions play at their cost, and nothing that the rules allow is better than a proven optimum."""

import itertools

import jax
import numpy as np
import pytest

from benchmarks.records.checkers.tsp_drone import cost_of
from benchmarks.records.published import operations
from benchmarks.reference.tsp_drone import least_makespan
from benchmarks.reference.tsp_drone_exact import exact_makespan
from jaxvrp.envs.tsp_drone import (
    actions_to_operations,
    make,
    make_instance,
    operations_to_actions,
    read_murray_chu,
    solution_report,
    stack,
)
from jaxvrp.envs.tsp_drone.problem.murray_chu import COUNTS, ENDURANCES
from jaxvrp.search.stop import Rounds
from tests.jaxvrp.envs.tsp_drone.test_annealing import searched


def happening(operations):
    """Operations without those in which nothing happens."""
    return [each for each in operations if each.fly is not None or each.internal or each.start != each.end]


def test_published_solutions_have_the_cost_that_is_stated(published):
    for solution in published:
        report = solution_report(solution.instance, solution.operations, strict=True)
        assert report.cost == pytest.approx(solution.cost, abs=1e-5), solution.name
        np.testing.assert_allclose(np.diff([0.0, *report.end]), report.end - report.begin, atol=1e-9)


def test_published_solutions_have_that_cost_from_their_files_alone(published, agatz_folder):
    for solution in published:
        (file,) = agatz_folder.glob(f"*/{solution.name}.txt")
        plan = operations([each._asdict() for each in happening(solution.operations)])
        entry = {"instance": solution.name, "file": file.relative_to(agatz_folder), "row": None, "plan": plan}
        assert cost_of(agatz_folder, entry) == pytest.approx(solution.cost, abs=1e-5), solution.name


def test_published_solutions_play_under_the_masks_at_their_cost(published):
    env = make(num_nodes=max(solution.instance.num_nodes for solution in published))
    plans = [operations_to_actions(solution.operations) for solution in published]
    for plan, solution in zip(plans, published, strict=True):
        assert actions_to_operations(plan) == happening(solution.operations)
        assert len(plan["drone"]) <= 3 * solution.instance.num_nodes - 1
    padded = {
        role: np.stack([np.pad(plan[role], [(0, env.max_episode_steps - len(plan[role])), (0, 0)]) for plan in plans])
        for role in env.roles
    }

    @jax.jit
    @jax.vmap
    def play(instance, actions):
        state, _ = env.reset_to(instance)
        return jax.lax.scan(lambda state, action: (env.step(state, action)[0], None), state, actions)[0]

    states = jax.device_get(play(stack([solution.instance for solution in published]), padded))
    assert states.done.all() and not states.totals.invalid_actions.any()
    np.testing.assert_allclose(states.clock, [solution.cost for solution in published], atol=1e-3)
    assert (states.totals.revisits > 0).sum() > 20  # they use loops, and nodes served before


@pytest.mark.slow
def test_the_best_of_all_plans_is_the_proven_optimum(published, share):
    small = [solution for solution in published if solution.instance.num_nodes <= 6]
    assert len(small) == 30
    for solution in small[:: len(small) // share(len(small))]:
        assert least_makespan(solution.instance) == pytest.approx(solution.cost, abs=1e-5), solution.name


def test_the_programme_over_subsets_finds_the_proven_optima(published):
    small = [solution for solution in published if solution.instance.num_nodes <= 8]
    assert len(small) > 30
    for solution in small:
        assert exact_makespan(solution.instance) == pytest.approx(solution.cost, abs=1e-5), solution.name


@pytest.mark.parametrize("seed", range(4))
def test_the_programme_over_subsets_agrees_with_all_plans(seed):
    limits = {"max_flight": 90.0, "no_fly": [0, 0, 0, 0, 1], "launch_time": 3.0, "recovery_time": 2.0}
    instance = random_instance(seed, **limits)
    assert exact_makespan(instance) == pytest.approx(least_makespan(instance))


@pytest.mark.parametrize("allow_revisits", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_programme_knows_sorties_as_a_whole(seed, allow_revisits):
    limits = {"launch_time": 9.0, "depot_launch_time": 0.0, "recovery_time": 3.0, "max_sortie": 75.0}
    instance = random_instance(seed, **limits)
    least = exact_makespan(instance, allow_revisits=allow_revisits)
    assert least == pytest.approx(least_makespan(instance, allow_revisits=allow_revisits))
    assert least > exact_makespan(instance.replace(max_sortie=None), allow_revisits=allow_revisits) - 1e-9


STATED = {
    "20140810T123437v3": (40, 53.6868),
    "20140810T123437v4": (20, 67.464040),
    "20140810T123443v1": (40, 55.492922),
    "20140810T123443v4": (20, 90.143905),
}
"""By file, an endurance, and the objective in `FSTSP_OFV.csv`, which does not say which; in others it is no optimum."""


@pytest.fixture(scope="module")
def sidekicks(published_folder):
    """The folders of Murray and Chu with ten customers."""
    return sorted((published_folder("fstsp_murray_chu") / "fstsp_murray_chu" / "FSTSP_10").iterdir())


def test_stated_objectives_are_the_optima_under_the_published_rules(sidekicks):
    known = [folder for folder in sidekicks if folder.name in STATED]
    assert known
    for folder in known:
        endurance, objective = STATED[folder.name]
        instance = read_murray_chu(folder, endurance=endurance)
        assert exact_makespan(instance, allow_revisits=False) == pytest.approx(objective, abs=5e-5), folder.name


@pytest.mark.slow
@pytest.mark.parametrize("counts", COUNTS)
def test_the_search_finds_the_optimum_of_every_file_of_ten_customers(sidekicks, counts, share):
    problems = list(itertools.product(sidekicks, ENDURANCES))
    for folder, endurance in problems[:: len(problems) // share(len(problems))]:
        instance = read_murray_chu(folder, endurance=endurance, endurance_counts=counts)
        found = searched(instance, Rounds(4_000), allow_revisits=False).cost
        assert found == pytest.approx(exact_makespan(instance, allow_revisits=False), rel=1e-5), (folder, endurance)


def random_instance(seed, nodes=5, **parameters):
    return make_instance(np.random.default_rng(seed).uniform(0, 100, (nodes, 2)), **parameters)


def shortest_tour(instance):
    locs = instance.locs
    tours = ([0, *order, 0] for order in itertools.permutations(range(1, len(locs))))
    return min(np.linalg.norm(np.diff(locs[tour], axis=0), axis=1).sum() for tour in tours)


@pytest.mark.parametrize("allow_revisits", [True, False])
def test_without_a_drone_it_is_the_travelling_salesman(allow_revisits):
    for limits in ({"no_fly": [0, 1, 1, 1, 1]}, {"max_flight": 1e-3}):
        instance = random_instance(1, **limits)
        assert least_makespan(instance, allow_revisits=allow_revisits) == pytest.approx(shortest_tour(instance))


def test_a_drone_in_no_time_serves_all_from_the_depot():
    instance = random_instance(2, drone_pace=1e-9)
    assert least_makespan(instance) < 1e-6
    # Without loops the truck visits at least every other customer.
    assert least_makespan(instance, allow_revisits=False) > 10


def test_launches_and_meetings_take_their_time():
    """One customer, farther than the truck: it is better served by the truck once launch and recovery are long."""
    there = [[0, 0], [10, 0]]
    assert least_makespan(make_instance(there)) == pytest.approx(10.0)
    assert least_makespan(make_instance(there, launch_time=1, recovery_time=2)) == pytest.approx(13.0)
    assert least_makespan(make_instance(there, launch_time=6, recovery_time=6)) == pytest.approx(20.0)


def test_the_makespan_scales_with_the_map_and_does_not_depend_on_numbers():
    instance = random_instance(3)
    least = least_makespan(instance)
    assert least_makespan(make_instance(7 * instance.locs + 3)) == pytest.approx(7 * least)
    assert least_makespan(make_instance(instance.locs[[0, 3, 1, 4, 2]])) == pytest.approx(least)

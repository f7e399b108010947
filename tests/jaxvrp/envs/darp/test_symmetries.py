"""Images of instances: distances and plans are kept; published optima are optima of each image."""

import jax
import numpy as np
import pytest

from jaxvrp.envs.darp import make_instance, routes_to_actions, solution_report, stack
from jaxvrp.envs.darp.baselines.search import ruin_and_recreate
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.darp.problem.symmetries import NUM_IMAGES, image, plan_of_original
from tests.jaxvrp.envs.darp.small_instances import TOLERANCE, rich_instance

EVERY = range(NUM_IMAGES)


def timed_out_instance(rng, mixed):
    """With a depot that closes, and padding."""
    instance = rich_instance(rng, mixed, rounded=False)
    return instance.replace(deadline=np.where(np.arange(instance.num_nodes + 1) == 0, 240.0, instance.deadline))


@pytest.fixture(scope="module")
def searched():
    """Instances, their images `[16, E, ...]` and plans of these `[16, E, N+V]` with their costs."""
    rng = np.random.default_rng(6)
    instances = [timed_out_instance(rng, mixed=i % 2 == 1) for i in range(12)]
    batch = as_float32(stack(instances))
    images = [jax.device_get(image(batch, index)) for index in EVERY]
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves), *images)
    plans, costs = ruin_and_recreate(together, jax.random.key(0), rounds=60, limits=True)
    return instances, images, np.asarray(plans).reshape(16, 12, -1), np.asarray(costs).reshape(16, 12)


@pytest.mark.slow
def test_the_map_is_turned_and_mirrored_in_eight_ways(searched):
    _, images, _, _ = searched
    shapes = set()
    for index in range(0, NUM_IMAGES, 2):
        locs, original = images[index].locs, images[0].locs
        gap, wanted = (np.linalg.norm(x[:, :, None] - x[:, None], axis=-1) for x in (locs, original))
        np.testing.assert_allclose(gap, wanted, atol=1e-4)
        np.testing.assert_array_equal(locs[:, 0], original[:, 0])
        shapes.add(np.round(locs[0], 3).tobytes())
        for name in ("earliest", "deadline", "demand", "service_time"):
            np.testing.assert_array_equal(getattr(images[index], name), getattr(images[0], name))
    assert len(shapes) == 8


@pytest.mark.slow
def test_a_plan_of_an_image_is_one_of_the_instance_at_the_same_cost(searched):
    instances, _, plans, costs = searched
    served = 0
    for index in EVERY:
        for i, instance in enumerate(instances):
            plan = plan_of_original(plans[index, i], index, instance.num_agents)
            report = solution_report(instance, plan, tolerance=TOLERANCE)
            assert {name for name, found in report.violations.items() if found.count} <= {"unserved"}, str(report)
            unvisited = report.violations["unserved"].count
            np.testing.assert_allclose(report.cost + 100 * unvisited, costs[index, i], rtol=1e-4)
            served += report.feasible
    assert served > 40


@pytest.mark.slow
def test_images_are_worth_the_same(searched):
    """The best plans that a short search finds differ little."""
    costs = searched[3]
    np.testing.assert_allclose(costs[1::2].min(axis=0), costs[::2].min(axis=0), rtol=0.02)


def test_published_optima_are_plans_of_every_image(published):
    """Backwards twice is forwards, so that `plan_of_original` also leads there."""
    for solution in published[:3]:
        given = as_float32(solution.instance)
        actions = routes_to_actions(solution.routes, solution.instance.num_agents)
        for index in (1, 2, 13):
            shown = image(given, index)
            plan = plan_of_original(actions, index, solution.instance.num_agents)
            report = solution_report(shown, plan, tolerance=TOLERANCE)
            assert report.feasible and report.cost == pytest.approx(solution.cost, rel=1e-5)


@pytest.mark.slow
def test_who_was_never_brought_is_left_out_backwards():
    instance = make_instance([[0, 0], [1, 0], [2, 0], [0, 1], [0, 2]], [0, 1, -1, 1, -1], [99] * 5, capacity=[2, 2])
    assert plan_of_original([3, 1, 2, 0, 0], 1, instance.num_agents).tolist() == [1, 2, 0, 0]
    assert plan_of_original([1, 3, 2, 4, 0], 1, 2).tolist() == [3, 1, 4, 2, 0, 0]
    assert plan_of_original([3, 1, 2, 0, 0], 6, 2).tolist() == [3, 1, 2, 0, 0]

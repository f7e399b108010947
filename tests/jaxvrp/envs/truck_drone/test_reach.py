"""What the main job's drones reach, as the documentation says: why the rest of its customers needs a driving truck."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.quality.contest import SEED
from benchmarks.reference.truck_drone import DELIVER, HOVER, MOVE, STAY, NumpyTruckDrone
from jaxvrp.envs.truck_drone import make
from train import Evaluator

REACH = 0.45
"""Map units, from a truck that stands."""

NODES, ACROSS = 5, 12
"""Route nodes, and steps of the longest way between two of them; the start is six steps from each."""

OF_CUSTOMERS = "customer_position", "demand", "window_start", "window_end"


@pytest.fixture(scope="module")
def far():
    """The fixed instances, and `bool[512, 3]`, the customers that are out of reach of the start and of all nodes."""
    instances = jax.jit(Evaluator(make(num_drones=2, num_customers=3, num_route_nodes=NODES), 512, SEED).instances)()
    stops = np.concatenate([instances.truck_position[:, None], instances.node_position], axis=1)
    gaps = np.linalg.norm(np.asarray(instances.customer_position)[:, :, None] - stops[:, None], axis=-1)
    return instances, gaps.min(axis=-1) >= REACH


@pytest.mark.parametrize(("distance", "is_served"), [(0.2, True), (REACH - 1e-3, True), (REACH + 1e-3, False)])
def test_a_drone_of_a_standing_truck_serves_what_is_near(distance, is_served):
    world = NumpyTruckDrone(num_drones=1, num_customers=1, battery_rate=1.0)
    world.reset_to(
        {
            "customer_position": np.array([[distance, 0.0]]),
            "demand": np.ones(1),
            "window_end": np.array([world.max_steps]),
            "node_position": np.zeros((world.num_route_nodes, 2)),
            "truck_position": np.zeros(2),
        }
    )
    world.step(world.release, np.array([HOVER]))
    for _ in range(10):
        world.step(STAY, np.array([DELIVER]))
    assert bool(world.served[0]) == is_served


def test_in_every_fifth_instance_a_customer_is_out_of_reach_of_start_and_nodes(far):
    assert far[1].any(axis=-1).sum() == 108


def flights():
    """`i32[plans, steps]`, the truck's actions, and `bool[plans]`, the drone starts at the start or at a node.

    The truck goes to a node or stays at its start, drives some steps towards a node, releases the drone, and drives to
    a node or stays.
    """
    stop, release = [STAY, *range(MOVE, MOVE + NODES)], MOVE + NODES
    plans = list(itertools.product(stop, stop[1:], range(ACROSS), stop))
    actions = [
        [STAY] * (ACROSS - driven) + [first] * 6 + [towards] * driven + [release] + [last] * 8
        for first, towards, driven, last in plans
    ]
    return np.array(actions, np.int32), np.array([driven == 0 for _, _, driven, _ in plans])


@pytest.mark.slow
def test_single_flights_reach_as_many_instances_as_the_page_says(far):
    env = make(num_drones=1, num_customers=1, num_route_nodes=NODES, battery_rate=1.0)
    instances, is_far = far
    row, customer = np.nonzero(is_far)
    whole = jax.tree.map(lambda leaf: leaf[row], instances)
    single = {name: getattr(whole, name)[np.arange(len(row)), customer][:, None] for name in OF_CUSTOMERS}
    truck, at_stop = flights()

    def serves(instance, actions):
        def advance(state, action):
            return env.step(state, {"truck": action[None], "drone": jnp.full(1, DELIVER, jnp.int32)})[0], None

        return jax.lax.scan(advance, env.init_state(instance), actions)[0].customers.served[0]

    served = np.asarray(jax.jit(jax.vmap(jax.vmap(serves, (None, 0)), (0, None)))(whole.replace(**single), truck))
    for plans, count in ((at_stop, 440), (slice(None), 478)):
        left = row[~served[:, plans].any(axis=1)]
        assert len(is_far) - len(np.unique(left)) == count

"""What a search says is still to be paid, against all ways to go on through the environment."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import pad
from jaxvrp.envs.darp.baselines.completion import cost_to_go
from jaxvrp.envs.darp.problem.instance import as_float32
from tests.jaxvrp.envs.darp.small_instances import of_row, played_at_random, rich_instance

REQUESTS, VEHICLES, INSTANCES, STEPS = 4, 2, 7, 9
PENALTY, ORPHAN = 30.0, 2.0
FRONTIER = 1024
ROUNDS, SEARCHES = 100, 4


@functools.lru_cache
def environment():
    return jaxvrp.make(
        "darp",
        num_nodes=2 * REQUESTS,
        num_agents=VEHICLES,
        round_travel_time=False,
        penalty_unvisited=PENALTY,
        orphan_factor=ORPHAN,
    )


@functools.lru_cache
def under_way():
    """States of random play, `[T, E, ...]`, with windows and service times; vehicles are alike: rules skip none."""
    rng, found = np.random.default_rng(5), []
    while len(found) < INSTANCES:
        instance = rich_instance(rng, False, False)
        if instance.num_nodes <= 2 * REQUESTS and instance.num_agents <= VEHICLES:
            found.append(pad(as_float32(instance), 2 * REQUESTS, VEHICLES))
    return played_at_random(environment(), found, STEPS, lambda state, timestep: state)


@functools.lru_cache
def costs():
    """The best of a few searches, `f32[T, E]`: with so few requests, one may get stuck."""
    states = jax.tree.map(lambda leaf: np.repeat(leaf.reshape(-1, *leaf.shape[2:]), SEARCHES, axis=0), under_way())
    found = cost_to_go(states, jax.random.key(0), rounds=ROUNDS, penalty=PENALTY, orphan_factor=ORPHAN)
    return np.asarray(found).reshape(STEPS, INSTANCES, SEARCHES).min(axis=-1)


@functools.lru_cache
def expand():
    """One step of all legal actions from states, `[FRONTIER, ...]`."""
    env = environment()

    def step(state):
        actions = jnp.arange(2 * REQUESTS + 1, dtype=jnp.int32)
        mask = env.action_mask(state)["vehicle"][0]
        after = jax.vmap(lambda action: env.step(state, {"vehicle": action[None]})[0])(actions)
        return after, mask

    return jax.jit(jax.vmap(step))


def all_endings(state):
    """Total distance and number of nodes that are left, counted as they are paid, of all ways to go on."""
    frontier, endings = jax.tree.map(lambda leaf: leaf[None], state), []
    while len(frontier.done):
        count = len(frontier.done)
        blocks = [expanded(of_row(frontier, slice(row, row + FRONTIER))) for row in range(0, count, FRONTIER)]
        after = joined(blocks)
        endings.append(of_row(after, np.flatnonzero(after.done)))
        frontier = of_row(after, np.flatnonzero(~after.done))
    return joined(endings)


def expanded(states):
    """The states after all legal actions from states, at most `FRONTIER`."""
    count = len(states.done)
    filled = jax.tree.map(lambda leaf: np.resize(leaf, (FRONTIER, *leaf.shape[1:])), states)
    after, mask = jax.device_get(expand()(filled))
    return jax.tree.map(lambda leaf: leaf[:count][mask[:count]], after)


def joined(states):
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *states)


def cheapest(state):
    """What the cheapest way to go on costs, and whether nobody is on board when it ends."""
    endings = all_endings(state)
    picked_up, brought = endings.visited[:, 1::2], endings.visited[:, 2::2]
    stranded = (picked_up & ~brought).sum(axis=1)
    left = (~picked_up).sum(axis=1)
    paid = endings.total_distance - state.total_distance + PENALTY * (2 * left + ORPHAN * stranded)
    best = paid.argmin()
    return paid[best], not stranded[best]


def test_nothing_is_cheaper_than_what_the_search_finds_and_it_can_be_had():
    """Wherever the cheapest way strands nobody: the rules drive about whom the search leaves behind."""
    states, found = under_way(), costs()
    compared = carrying = left = 0
    for step, row in np.ndindex(STEPS, INSTANCES):
        state = of_row(states, step, row)
        if state.done:
            assert found[step, row] == 0
            continue
        expected, nobody_is_stranded = cheapest(state)
        assert found[step, row] <= expected + 1e-3
        if nobody_is_stranded:
            np.testing.assert_allclose(found[step, row], expected, rtol=1e-5, atol=1e-3)
            compared += 1
            carrying += state.current_load > 0
            left += expected > 2 * PENALTY
    assert compared > 20
    assert carrying > 5
    assert left > 1, "nobody was left behind"


def test_limits_are_refused():
    env = jaxvrp.make("darp", num_nodes=2 * REQUESTS, num_agents=VEHICLES, limits=True)
    states = jax.jit(jax.vmap(lambda key: env.reset(key)[0]))(jax.random.split(jax.random.key(0), 2))
    with pytest.raises(ValueError, match=r"with env\.limits no search goes on from the middle of a tour; leave"):
        cost_to_go(states, jax.random.key(0), rounds=1, penalty=PENALTY)

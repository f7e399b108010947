"""The planner: it sees what agents know and no more, imagines what the generator draws, and never plans worse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import RollingHorizonActor, imagine
from jaxvrp.episodes import play_episodes
from jaxvrp.registry import players_of

STEPS, CUSTOMERS, LOT = 40, 5, 12


def make(scenario, **parameters):
    sizes = {"num_drones": 2, "num_customers": CUSTOMERS, "num_route_nodes": 3, "max_steps": STEPS}
    return jaxvrp.make("truck_drone", scenario=scenario, **{**sizes, **parameters})


@pytest.fixture(scope="module")
def surprising():
    return make("vrpd_tw", dynamic_share=1.0, battery_rate=0.4)


@pytest.fixture(scope="module")
def worlds(surprising):
    """Worlds `[LOT]` at step 2, in which some customers are known and others are not."""
    keys = jax.random.split(jax.random.key(1), LOT)
    state = jax.jit(jax.vmap(lambda key: surprising.init_state(surprising.generate(key))))(keys)
    early = jnp.arange(CUSTOMERS) < 2
    known_from = jnp.where(early, 0, jnp.maximum(state.instance.known_from, 3))
    return state.replace(instance=state.instance.replace(known_from=known_from), step=jnp.full(LOT, 2, jnp.int32))


def other(world, where):
    """The world with other numbers of the customers that are meant."""
    instance = world.instance
    return world.replace(
        instance=instance.replace(
            customer_position=jnp.where(
                where[..., None], -instance.customer_position[..., ::-1], instance.customer_position
            ),
            demand=jnp.where(where, 1.4 - instance.demand, instance.demand),
            window_start=jnp.where(where, instance.window_start + 3, instance.window_start),
            window_end=jnp.where(where, instance.window_end + 7, instance.window_end),
            known_from=jnp.where(where & (instance.known_from > world.step[:, None]), 4, instance.known_from),
        )
    )


@pytest.mark.slow
def test_what_it_does_does_not_depend_on_whom_it_does_not_know(surprising, worlds):
    """Nor does its plan; that of the customers whom it does know, it does."""
    actor = RollingHorizonActor(surprising, continuations=12, futures=2)

    @jax.jit
    def act(state):
        timestep = jax.vmap(jaxvrp.environment.unpaid_timestep, (None, 0))(surprising, state)
        return actor.act(jax.random.key(0), actor.init(LOT), state, timestep)

    unknown = worlds.instance.known_from > worlds.step[:, None]
    assert unknown.any(axis=1).all() and (~unknown).any(axis=1).all()
    here, there = act(worlds), act(other(worlds, unknown))
    jax.tree.map(np.testing.assert_array_equal, here, there)
    changed = act(other(worlds, ~unknown))
    assert (changed[1].plan != here[1].plan).any()


@pytest.mark.parametrize("scenario", ["vrpd_tw", "truck_drone_same_day"])
def test_the_future_is_drawn_as_the_generator_draws_it_given_what_is_known(scenario):
    """Against customers of the generator of whom nobody knows in the step: whoever is known by then is rejected."""
    surprising, step, count = make(scenario, dynamic_share=1.0), 6, 4000
    keys = jax.random.split(jax.random.key(2), count)
    instances = jax.jit(jax.vmap(surprising.generate))(keys)
    world = surprising.init_state(jax.tree.map(lambda leaf: leaf[0], instances))
    known = jnp.arange(CUSTOMERS) == 1
    instance = world.instance.replace(known_from=jnp.where(known, 0, step + 1))
    world = world.replace(instance=instance, step=jnp.int32(step))
    drawn = jax.jit(jax.vmap(lambda key: imagine(surprising, world, key)))(keys[:1000])
    for name, leaf in vars(drawn.instance).items():
        if name not in ("truck_position", "node_position", "exists"):
            np.testing.assert_array_equal(leaf[:, 1], np.broadcast_to(getattr(instance, name)[1], leaf[:, 1].shape))
    assert (drawn.instance.known_from[:, ~known] > step).all() and not drawn.customers.served.any()
    hidden = np.asarray(instances.known_from > step)
    for numbers in (
        lambda instance: instance.known_from,
        lambda instance: instance.window_start,
        lambda instance: instance.window_end - instance.window_start,
        lambda instance: instance.window_start - instance.known_from,
        lambda instance: instance.demand,
        lambda instance: instance.customer_position[..., 0] * instance.customer_position[..., 1],
    ):
        wanted, found = np.asarray(numbers(instances))[hidden], np.asarray(numbers(drawn.instance))[:, ~known].ravel()
        error = np.sqrt(wanted.var() / wanted.size + found.var() / found.size)
        assert abs(wanted.mean() - found.mean()) <= 4 * error
        assert found.std() == pytest.approx(wanted.std(), rel=0.1)


@pytest.mark.slow
def test_who_does_not_exist_is_not_told_from_who_is_not_known_yet():
    """With padding, how many are still to come is drawn; against numbers that were drawn before, and rejected."""
    env, step, random = make("vrpd_tw", dynamic_share=0.8), 4, np.random.default_rng(0)
    keys = jax.random.split(jax.random.key(3), 3000)
    known_from = np.asarray(jax.jit(jax.vmap(env.generate))(keys).known_from)
    number = random.integers(1, CUSTOMERS + 1, len(keys))
    known = ((known_from <= step) & (np.arange(CUSTOMERS) < number[:, None])).sum(axis=1)
    world = jax.jit(lambda key: env.init_state(env.generate(key)))(jax.random.key(4))

    @jax.jit
    def imagined(exists):
        instance = world.instance.replace(exists=exists, known_from=jnp.where(exists & (place > 1), step + 3, 0))
        there = world.replace(instance=instance, step=jnp.int32(step))
        return jax.vmap(lambda key: imagine(env, there, key))(keys)

    place = jnp.arange(CUSTOMERS)
    few, many = imagined(place < 2), imagined(place < CUSTOMERS)
    jax.tree.map(np.testing.assert_array_equal, few.customers, many.customers)
    comes = (~few.customers.served).sum(axis=1)
    wanted = number[known == 2]
    error = np.sqrt(wanted.var() / wanted.size + comes.var() / comes.size)
    assert abs(wanted.mean() - comes.mean()) < 4 * error


@pytest.mark.slow
def test_where_everybody_is_known_no_episode_is_worse_than_the_dispatchers():
    """The dispatcher's episode is the first candidate, and what was found is a candidate ever after."""
    env = make("truck_drone_basic", battery_rate=1.0)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(5), 6))
    planner = RollingHorizonActor(env, continuations=5)
    play = jax.jit(
        lambda: [play_episodes(env, actor, instances, jax.random.key(0)) for actor in (planner, GreedyActor(env))]
    )
    planned, greedy = play()
    assert (planned["return"] >= greedy["return"] - 1e-3).all()
    assert planned["return"].mean() > greedy["return"].mean() + 5
    assert planned["invalid_actions"].sum() == 0


def test_it_is_among_the_planners_of_all_scenarios():
    for scenario in ("truck_drone_basic", "vrpd_tw", "truck_drone_same_day"):
        env = make(scenario)
        assert isinstance(players_of(env).planners["planner"](env), RollingHorizonActor)

"""Tandems with time windows: every play passes the report, and pictures and replays tell what was played."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import show
from jaxvrp.actor import RandomActor
from jaxvrp.envs import tsp_drone
from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK
from jaxvrp.envs.truck_and_drone.greedy import NearestNeighbourActor
from jaxvrp.envs.truck_and_drone.instance import void_beyond
from jaxvrp.envs.truck_and_drone.operations import Operation, tours_of
from jaxvrp.envs.truck_and_drone.plan import operations_of
from jaxvrp.envs.truck_drone_tours import make_instance, operations_to_actions, pad
from jaxvrp.envs.truck_drone_tours.baselines.annealing import tours_of as tours_of_codes
from jaxvrp.envs.truck_drone_tours.baselines.planner import AnnealedToursActor, _first_codes
from jaxvrp.envs.truck_drone_tours.problem.instance import check
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report
from jaxvrp.envs.truck_drone_tours.shown.reasons import REASONS, Why
from jaxvrp.envs.truck_drone_tours.shown.story import story_of
from jaxvrp.envs.truck_drone_tours.toolbox import TOOLBOX
from jaxvrp.episodes import from_states, play_episodes, record_episodes

NODES, EPISODES = 8, 64
# Two tandems. The first launches its drone at the depot, which waits 3 at customer 2 for the truck.
TOURS = [[Operation(0, 2, fly=1), Operation(2, 0)], [Operation(0, 3), Operation(3, 0, fly=4)]]


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("truck_drone_tours", num_nodes=NODES, window_share=0.7)


@functools.partial(jax.jit, static_argnums=0)
def random_play(env, instances):
    """Random legal play: states and timesteps `[T, E, ...]`, each after an action."""
    keep = lambda action, state, timestep: (state, timestep)  # noqa: E731
    return record_episodes(env, RandomActor(env), instances, jax.random.key(0), keep)[1]


@functools.partial(jax.jit, static_argnums=0)
def follow(env, instance, actions):
    """States `[T + 1, ...]` by actions `{role: [T, 1]}`."""
    first, _ = env.reset_to(instance)

    def body(state, action):
        state, _ = env.step(state, action)
        return state, state

    states = jax.lax.scan(body, first, actions)[1]
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, states)


@pytest.fixture(scope="module")
def episodes(env):
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(1), EPISODES))
    return jax.device_get((instances, *random_play(env, instances)))


def test_every_play_serves_everybody_and_passes_the_report(env, episodes):
    instances, states, timesteps = episodes
    assert states.done[-1].all() and states.served[-1].all()
    assert not timesteps.metrics["unserved"][-1].any() and not states.totals.invalid_actions.any()
    first = jax.device_get(jax.jit(jax.vmap(env.init_state))(instances))
    whole = jax.tree.map(lambda start, rest: np.concatenate([start[None], rest]), first, states)
    sorties = 0
    for row in range(EPISODES):
        episode = jax.tree.map(lambda leaf: leaf[:, row], whole)  # noqa: B023
        tours = tours_of(operations_of(episode))
        report = tours_report(jax.tree.map(lambda leaf: leaf[row], instances), tours)  # noqa: B023
        assert report.feasible, report.summary()
        metrics = {name: float(values[-1, row]) for name, values in timesteps.metrics.items()}
        np.testing.assert_allclose(report.cost, metrics["travel_cost"], rtol=1e-5)
        assert len(tours) == metrics["tours"]
        sorties += metrics["sorties"]
    assert sorties > EPISODES
    paid = timesteps.reward["truck"].sum(axis=0)[:, 0]
    np.testing.assert_allclose(paid, -timesteps.metrics["travel_cost"][-1], rtol=1e-5)


def test_generated_instances_are_sound(episodes):
    """`check` sees that a truck can serve each customer in time."""
    instances, *_ = episodes
    for row in range(EPISODES):
        check(jax.tree.map(lambda leaf: leaf[row], instances))  # noqa: B023
    width = (instances.closes - instances.opens)[:, 1:]
    assert set(np.round(np.unique(width)).tolist()) == {60.0, 480.0}


def test_with_one_tandem_customers_are_left_at_a_price(env, episodes):
    instances, *_ = episodes
    single = env.replace(num_tandems=1, unserved_price=7.0)
    states, timesteps = jax.device_get(random_play(single, instances))
    left = timesteps.metrics["unserved"][-1]
    assert states.done[-1].all() and (timesteps.metrics["tours"][-1] == 1).all() and left.mean() > 1
    paid = timesteps.reward["drone"].sum(axis=0)[:, 0]
    np.testing.assert_allclose(paid, -timesteps.metrics["travel_cost"][-1] - 7.0 * left, rtol=1e-5)


def test_when_the_depot_opens_changes_nothing(env, episodes):
    """Of days that end at 0, all is allowed, seen, paid and first planned as of days from 0 on."""
    instances, states, timesteps = episodes
    earlier = instances.replace(opens=instances.opens - env.horizon, closes=instances.closes - env.horizon)
    moved, seen = jax.device_get(random_play(env, earlier))
    for name in ("action_mask", "observation", "entities", "reward"):
        for kind, values in getattr(timesteps, name).items():
            np.testing.assert_allclose(getattr(seen, name)[kind], values, atol=1e-4, err_msg=f"{name} {kind}")
    shown, wanted = (jax.vmap(jax.vmap(env.static_entities))(each) for each in (moved, states))
    np.testing.assert_allclose(shown["node"], wanted["node"], atol=1e-4)
    first = jax.jit(jax.vmap(lambda instance: _first_codes(instance, 3)))
    np.testing.assert_array_equal(first(earlier), first(instances))


def test_padding_brings_no_tandems(env, instance):
    """There are as many as customers: a context has no sizes, so it is the same."""
    smaller = env.replace(num_nodes=instance.num_nodes)
    (state, timestep), (_, wanted) = (jax.jit(each.reset_to)(instance) for each in (env, smaller))
    np.testing.assert_allclose(timestep.observation[DRONE], wanted.observation[DRONE], rtol=1e-6)
    assert state.tours.tandems_left == instance.num_nodes - 1 and timestep.metrics["tours"] == 0


@pytest.mark.parametrize("opens", [0.0, -50.0])
def test_a_customer_may_be_reached_just_in_time(opens):
    given = {"demand": [0, 0], "service": [0, 0], "truck_capacity": 0, "drone_capacity": 0, "endurance": 0}
    prices = {"truck_price": 1, "drone_price": 1}
    tight = make_instance([[0, 0], [5, 0]], opens=[opens] * 2, closes=[opens + 10, opens + 5], **given, **prices)
    env = jaxvrp.make("truck_drone_tours", num_nodes=2, observation="flat")
    _, timestep = env.reset_to(tight)
    assert not timestep.terminated and np.isfinite(timestep.observation["drone"]).all()


@pytest.mark.slow
def test_the_planner_plays_what_it_annealed(env, episodes):
    """Of two sizes; nothing is forbidden, everything in time, and much cheaper than the nearest neighbour."""
    count = 16
    instances = jax.tree.map(lambda leaf: leaf[:count], episodes[0])
    sizes = jnp.where(jnp.arange(count) % 2 == 0, NODES, NODES - 2)
    instances = jax.vmap(void_beyond)(instances, sizes)
    actor = AnnealedToursActor(env, steps=400)
    act, step = jax.jit(actor.act), jax.jit(jax.vmap(env.step))
    states, timesteps = jax.jit(jax.vmap(env.reset_to))(instances)
    carry = actor.init(count)
    for _ in range(env.max_episode_steps):
        actions, carry = act(jax.random.key(0), carry, states, timesteps)
        states, timesteps = step(states, actions)
    for row in range(count):
        instance = jax.device_get(jax.tree.map(lambda leaf: leaf[row], instances))  # noqa: B023
        codes = np.asarray(carry[0].codes[row])
        report = tours_report(instance, tours_of_codes(codes, NODES), strict=True)
        way = np.linalg.norm(instance.locs - instance.locs[0], axis=1)[codes % NODES]
        reach = np.maximum.reduceat(way, np.flatnonzero(codes % NODES == 0))
        assert (np.diff(reach) <= 0).all()
        np.testing.assert_allclose(states.tours.cost[row], report.cost, rtol=1e-5)
    assert not states.totals.invalid_actions.any()
    nearest = jax.jit(lambda: play_episodes(env, NearestNeighbourActor(), instances, jax.random.key(0)))()
    assert states.tours.cost.mean() < 0.8 * nearest["travel_cost"].mean()


@pytest.fixture(scope="module")
def instance():
    """Depot and four customers on a line, at 0, 6, 3, -4 and -2; the drone is twice as fast."""
    nothing = np.zeros(5)
    return make_instance(
        [[0, 0], [6, 0], [3, 0], [-4, 0], [-2, 0]],
        drone_pace=0.5,
        launch_time=1.0,
        recovery_time=1.0,
        demand=nothing,
        opens=[0, 8, 0, 0, 0],
        closes=[100, 12, 20, 100, 100],
        service=[0, 2, 2, 2, 2],
        truck_capacity=10.0,
        drone_capacity=5.0,
        endurance=8.0,
        truck_price=1.0,
        drone_price=0.1,
    )


@pytest.fixture(scope="module")
def episode(instance):
    """Environment, and states `[T + 1]` of `TOURS`, with a node of padding."""
    env = jaxvrp.make("truck_drone_tours", num_nodes=6)
    actions = operations_to_actions([operation for tour in TOURS for operation in tour])
    return env, jax.device_get(follow(env, pad(instance, 6), actions))


def test_a_plan_by_hand(instance, episode):
    """The launch is held back until 5, so that the drone is at customer 1 when it opens, at 8."""
    _, states = episode
    assert states.done[-1] and tours_of(operations_of(states)) == TOURS
    # Held until 5, there at 8, served at 10, at customer 2 at 11.5; the truck is there at 8, and serves from 12.5 on.
    report = tours_report(instance, TOURS)
    services = [report.ways.server[node] for node in range(1, 5)]
    assert report.feasible and [service.begin for service in services] == [8.0, 12.5, 4.0, 8.0]
    assert [(each.tour, each.vehicle, each.node, each.since, each.until) for each in report.ways.waits] == [
        (0, TRUCK, 0, 1.0, 5.0),
        (0, TRUCK, 2, 8.0, 11.5),
    ]
    assert [service.tour for service in services] == [0, 0, 1, 1]
    cost = 3 + 3 + 0.1 * (6 + 3) + 4 + 4 + 0.1 * (2 + 2)
    np.testing.assert_allclose([states.tours.cost[-1], report.cost], cost, rtol=1e-6)


def test_the_story_has_a_colour_for_each_tandem(instance, episode, tmp_path):
    env, states = episode
    story = story_of(from_states(env, states), instance)
    assert [(vehicle.name, vehicle.colour) for vehicle in story.vehicles] == [
        ("truck 1", 0),
        ("drone 1", 0),
        ("truck 2", 1),
        ("drone 2", 1),
    ]
    assert [row.label for row in story.charts[0].rows] == [vehicle.name for vehicle in story.vehicles]
    assert dict(story.summary) == {
        "cost": "15.3",
        "tours": "2",
        "by drone": "2 of 4",
        "truck waits": "7.50",
        "drone waits": "0",
    }
    assert story.is_feasible and story.span[0] == 0.0
    turns = [vehicle.turns for vehicle in story.vehicles]
    assert turns[0] == turns[1] and turns[2] == turns[3] and turns[0][-1][0] == turns[2][0][0] == 5
    assert turns[2][0][1] == 0.0 and turns[0][-1][1] == story.clocks[5]
    show.save(from_states(env, states), tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size > 1000
    still = TOOLBOX.still(jax.tree.map(lambda leaf: leaf[9], states))
    assert "3 tandems left, truck at depot, drone away to customer 4" in still.caption


def test_a_replay_has_the_tours(episode):
    env, states = episode
    shown = show.export_episode(from_states(env, states))
    assert shown["story"]["is_feasible"] and shown["kind"] == "truck_drone_tours"
    # At the first turn of the second tandem.
    assert dict(shown["steps"][5]["why"]["drone"][0])["served already"] == [3, 4]
    whys = {text for step in shown["steps"] for rows in step["why"].values() for row in rows for text, _ in row}
    assert {"the truck has served no customer of this tour", "the drone is on its way there"} <= whys
    for step in shown["steps"]:
        for role, rows in step["mask"].items():
            forbidden = [action for action, digit in enumerate(rows[0]) if digit == "0"]
            assert sorted(action for _, actions in step["why"][role][0] for action in actions) == forbidden


def test_what_is_forbidden_has_a_reason(env, episodes):
    _, states, timesteps = episodes
    causes = jax.jit(jax.vmap(jax.vmap(REASONS.explain)))(states)
    living = ~timesteps.done
    for role, mask in timesteps.action_mask.items():
        np.testing.assert_array_equal((causes[role].kind == 0)[living], mask[living])
    kinds = set(np.unique(causes[DRONE].kind[living])) | set(np.unique(causes[TRUCK].kind[living]))
    assert {Why.NOT_IN_TIME, Why.NONE_SERVED, Why.SERVED} <= kinds


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("tsp_drone", True, "the instance has time windows; make 'truck_drone_tours' to play it"),
        ("truck_drone_tours", False, "the instance has no time windows; make 'tsp_drone' to play it"),
    ],
)
def test_an_instance_of_the_other_problem_is_refused(instance, name, given, says):
    other = instance if given else tsp_drone.make_instance([[0, 0], [1, 0]])
    with pytest.raises(ValueError, match=says):
        jaxvrp.make(name, num_nodes=6).init_state(other)

"""`vrpd_tw`: its rules worked out by hand and as properties of random episodes, what is not known yet, its dispatcher.

Every step is compared with a reference in `test_parity`. A drone flies 0.2 a step, the truck drives 0.1.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxvrp
from jaxvrp import check_env
from jaxvrp.actor import RandomActor
from jaxvrp.entities import seen_as
from jaxvrp.envs.truck_drone import Instance
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.scenarios import VrpdTw
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING
from jaxvrp.episodes import from_states
from jaxvrp.registry import players_of, toolbox_of
from jaxvrp.testing import check_shapes

# Two nodes and two drones: RELEASE_d is 3 + d, RECOVER_d is 5 + d.
STAY, MOVE_0, MOVE_1, RELEASE_0, RELEASE_1 = 0, 1, 2, 3, 4
HOVER, RETURN, DELIVER_0, DELIVER_1 = 0, 1, 2, 3
SIZES = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 2, "max_steps": 60}


def make(**parameters):
    return jaxvrp.make("vrpd_tw", **SIZES, **parameters)


def instance(customers=((0.5, 0.0), (0.0, -0.4)), start=(0, 0), end=(60, 60), known_from=(0, 0)):
    """The truck at the origin, nodes at (0.6, 0) and (-0.35, 0), demands 0.8 and 0.5."""
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=jnp.array([[0.6, 0.0], [-0.35, 0.0]], jnp.float32),
        customer_position=jnp.array(customers, jnp.float32),
        demand=jnp.array([0.8, 0.5], jnp.float32),
        window_start=jnp.array(start, jnp.int32),
        window_end=jnp.array(end, jnp.int32),
        known_from=jnp.array(known_from, jnp.int32),
    )


@functools.partial(jax.jit, static_argnames="length")
def play_choices(env, problem, truck, drone, length):
    """States and timesteps `[length + 1]`, from the reset on."""
    first = env.reset_to(problem)

    def advance(carry, action):
        after = env.step(carry[0], action)
        return after, after

    after = jax.lax.scan(advance, first, {"truck": truck[:length, None], "drone": drone[:length]})[1]
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, after)


def play(env, problem, choices):
    """States and timesteps `[len(choices) + 1]` of `(truck, drone 0, drone 1)` step by step."""
    longest = 24
    padded = np.zeros((longest, 3), np.int32)
    padded[: len(choices)] = choices
    played = jax.device_get(play_choices(env, problem, padded[:, 0], padded[:, 1:], longest))
    return jax.tree.map(lambda leaf: leaf[: len(choices) + 1], played)


# --- by hand --------------------------------------------------------------------------------------------------------


def test_the_truck_drives_on_until_it_arrives():
    choices = [(MOVE_1, 0, 0), (RELEASE_0, 0, 0), (RELEASE_1, RETURN, 0), (STAY + 6, RETURN, RETURN), (RELEASE_0, 0, 0)]
    states, _ = play(make(), instance(), choices)
    np.testing.assert_allclose(states.truck.position[:, 0], [0, -0.1, -0.2, -0.3, -0.35, -0.35], atol=1e-6)
    assert states.truck.target_node.tolist() == [-1, 1, 1, 1, -1, -1]
    np.testing.assert_allclose(states.truck.velocity[:, 0], [0, -1, -1, -1, -0.5, 0], atol=1e-5)


def test_stay_stops_the_truck_and_another_move_turns_it():
    states, timesteps = play(make(), instance(), [(MOVE_0, 0, 0), (STAY, 0, 0), (RELEASE_0, 0, 0), (MOVE_1, 0, 0)])
    np.testing.assert_allclose(states.truck.position[:, 0], [0, 0.1, 0.1, 0.1, 0.0], atol=1e-6)
    assert states.truck.target_node.tolist() == [-1, 0, -1, -1, 1]
    nodes = timesteps.observation["truck"][-1, 0, -7:-1].reshape(2, 3)
    np.testing.assert_allclose(nodes, [[0.6, 0, 0], [-0.35, 0, 1]], atol=1e-6)


@pytest.mark.slow
def test_it_may_move_in_single_steps():
    states, _ = play(make(truck_motion="step"), instance(), [(MOVE_0, 0, 0), (RELEASE_0, 0, 0), (MOVE_0, 0, 0)])
    np.testing.assert_allclose(states.truck.position[:, 0], [0, 0.1, 0.1, 0.2], atol=1e-6)
    assert states.truck.target_node is None


SORTIE = [(RELEASE_0, 0, 0), *[(STAY, DELIVER_0, 0)] * 3]


def test_a_package_weighs():
    """0.5 map units at 0.5 (1 + 0.5 * 0.8) = 0.7 a unit, then back, empty, at 0.5."""
    states, timesteps = play(make(battery_rate=0.5), instance(), [*SORTIE, (STAY, RETURN, 0)])
    drawn = [0, 0.02, 0.14, 0.14, 0.07, 0.1]
    np.testing.assert_allclose(states.drones.battery_used[:, 0], drawn, atol=1e-6)
    assert states.customers.served[:, 0].tolist() == [False] * 4 + [True] * 2
    np.testing.assert_allclose(timesteps.reward["truck"][4, 0], 10 - 0.1 * 0.07 - 0.1, atol=1e-5)


def test_packages_are_loaded_at_the_truck():
    """Released, it may choose; 0.2 away and empty it may not, unless the rule is off."""
    choices = [(RELEASE_0, 0, 0), *[(STAY, DELIVER_0, 0)] * 3, (STAY, DELIVER_1, 0)]
    states, timesteps = play(make(), instance(), choices)
    deliver = timesteps.action_mask["drone"][:, 0, DELIVER_0:]
    assert deliver.tolist() == [[False] * 2, [True, True], [True, False], [True, False], [False, False], [False, False]]
    assert states.totals.invalid_actions.tolist() == [0, 0, 0, 0, 0, 1]
    states, _ = play(make(load_at_truck=False), instance(), choices)
    assert (states.totals.invalid_actions[-1], states.drones.carrying[-1, 0]) == (0, 1)


LIGHT = {"battery_rate": 0.3}
"""The guard lets a drone wait with its package."""


def test_a_drone_waits_for_the_window():
    """There after step 4; step 7 ends in the window. Its package makes 0.3 battery per map unit 0.42."""
    states, timesteps = play(make(**LIGHT), instance(start=(7, 0)), [*SORTIE, *[(STAY, DELIVER_0, 0)] * 4])
    np.testing.assert_array_equal(states.drones.position[4:, 0], np.broadcast_to(np.float32([0.5, 0]), (5, 2)))
    assert states.customers.arrival_step[-1, 0] == 7
    # What is asked for after the delivery is no longer allowed, so that the drone hovers.
    np.testing.assert_allclose(states.drones.battery_used[4:, 0], [0.042, 0.02, 0.02, 0, 0.02], atol=1e-6)
    assert states.drones.is_waiting[:, 0].tolist() == [False] * 5 + [True, True, False, False]
    assert timesteps.action_mask["drone"][5, 0].tolist() == [True, True, True, False]
    without, _ = play(make(wait_for_window=False), instance(start=(7, 0)), SORTIE)
    assert without.customers.arrival_step[-1, 0] == 4


def test_the_end_needs_everybody_back():
    """All are served after step 4; the bonus comes with the drone."""
    problem = instance(customers=((0.5, 0.0), (0.0, -0.2)))
    choices = [(RELEASE_0, 0, 0), (RELEASE_1, DELIVER_0, 0), *[(STAY, DELIVER_0, DELIVER_1)] * 2]
    choices += [(STAY, RETURN, RETURN)] * 4
    states, timesteps = play(make(), problem, choices)
    assert states.customers.served.all(axis=1).tolist() == [False] * 4 + [True] * 5
    assert timesteps.terminated.tolist() == [False] * 6 + [True] * 3
    assert states.drones.status[5:].tolist() == [[RETURNING, ONBOARD], *[[ONBOARD, ONBOARD]] * 3]
    np.testing.assert_allclose(timesteps.reward["drone"][6], 50 - 0.1 - 0.1 * 0.58 * 0.2, atol=1e-5)
    assert timesteps.metrics["success"].tolist() == [0] * 6 + [1] * 3
    assert timesteps.reward["truck"][7:].tolist() == [[0], [0]]


def test_out_of_steps_with_a_drone_in_the_air_there_is_no_bonus():
    problem = instance(customers=((0.2, 0.0), (-0.2, 0.0)))
    env = jaxvrp.make("vrpd_tw", **{**SIZES, "max_steps": 4})
    choices = [(RELEASE_0, 0, 0), (RELEASE_1, DELIVER_0, 0), (STAY, RETURN, DELIVER_1), (STAY, HOVER, HOVER)]
    states, timesteps = play(env, problem, choices)
    assert states.customers.served[-1].all() and timesteps.terminated[-1]
    assert timesteps.metrics["success"][-1] == 0
    np.testing.assert_allclose(timesteps.reward["truck"][-1, 0], -0.1 - 0.1 * 0.02, atol=1e-5)


def test_a_crash_is_paid_in_its_step():
    env = make(max_battery=0.05, forced_return_factor=0.0)
    choices = [(RELEASE_0, 0, 0), (RELEASE_1, HOVER, 0), (STAY, HOVER, DELIVER_0), (STAY, HOVER, HOVER)]
    states, timesteps = play(env, instance(), choices)
    assert (states.drones.status[2:] == CRASHED).tolist() == [[False, False], [True, True], [True, True]]
    drawn = 0.02 + 0.2 * 0.58 * 1.4
    np.testing.assert_allclose(timesteps.reward["truck"][3, 0], -2 * 10 - 0.1 - 0.1 * drawn - 2 * 10, atol=1e-5)
    assert timesteps.terminated[3] and timesteps.reward["truck"][4, 0] == 0


def test_a_wreck_is_paid_once():
    env = make(max_battery=0.05, forced_return_factor=0.0)
    states, timesteps = play(env, instance(), [(RELEASE_0, 0, 0), *[(STAY, HOVER, 0)] * 4])
    assert states.drones.status[:, 0].tolist() == [ONBOARD, FLYING, FLYING, CRASHED, CRASHED, CRASHED]
    np.testing.assert_allclose(timesteps.reward["truck"][1:, 0], [-0.102, -0.102, -10.102, -0.1, -0.1], atol=1e-6)


def test_someone_unknown_keeps_the_episode_going():
    problem = instance(customers=((0.2, 0.0), (0.0, 0.2)), known_from=(0, 9), start=(0, 12))
    choices = [(RELEASE_0, 0, 0), (STAY, DELIVER_0, 0), *[(STAY, RETURN, 0)] * 10]
    states, timesteps = play(make(), problem, choices)
    assert states.customers.served[-1].tolist() == [True, False] and not timesteps.terminated.any()
    unknown = timesteps.global_observation[:, 4 + 14 : 4 + 14 + 10].reshape(-1, 2, 5)[:, 1]
    assert unknown[:9].tolist() == [[0, 0, 1, 0, 0]] * 9
    np.testing.assert_allclose(unknown[9:, 1], 0.2)
    assert (unknown[9:, 2:4] == [0, 0.85]).any()


# --- random episodes ------------------------------------------------------------------------------------------------

ENVS, STEPS = 16, 40
SMALL = {"num_drones": 2, "num_customers": 4, "num_route_nodes": 3, "max_steps": STEPS, "delivery_threshold": 0.2}
PARAMETERS = st.fixed_dictionaries(
    {
        "battery_rate": st.floats(0.0625, 1.5, width=32),
        "hover_cost": st.floats(0.0, 0.125, width=32),
        "recharge_rate": st.floats(0.0, 0.25, width=32),
        "payload_factor": st.floats(0.0, 3.0, width=32),
        "forced_return_factor": st.floats(0.0, 1.5, width=32),
        "recovery_threshold": st.floats(0.0625, 0.375, width=32),
        "dynamic_share": st.sampled_from([0.0, 0.5, 1.0]),
    }
)
few = functools.partial(settings, max_examples=6, deadline=None, derandomize=True, database=None)


@functools.partial(jax.jit, static_argnames="actor_type")
def episodes(env, seed, actor_type):
    """States `[STEPS + 1, ENVS]` and the last timestep of whole episodes."""
    actor, start_key = actor_type(env), jax.random.key(seed)
    first = jax.vmap(env.reset)(jax.random.split(start_key, ENVS))

    def advance(carry, key):
        state, timestep = carry
        action, _ = actor.act(key, (), state, timestep)
        after = jax.vmap(env.step)(state, action)
        return after, after[0]

    (_, timestep), states = jax.lax.scan(advance, first, jax.random.split(start_key, STEPS))
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first[0], states), timestep


def small(parameters):
    env = jaxvrp.make("vrpd_tw", **SMALL, **parameters)
    return jax.tree.map(jnp.float32, env)  # arguments, so that one program serves all


def steps_of(states):
    """Pairs of worlds `[n]`, before and after each step that was played."""
    ran = states.step[1:] > states.step[:-1]
    return tuple(jax.tree.map(lambda leaf, part=part: leaf[part][ran], states) for part in (slice(-1), slice(1, None)))


def gap(a, b):
    return np.linalg.norm(np.asarray(a, np.float64) - b, axis=-1)


def in_air(drones):
    return np.isin(drones.status, (FLYING, RETURNING))


@few()
@given(parameters=PARAMETERS, seed=st.integers(0, 2**16))
def test_rules_hold_in_random_episodes(parameters, seed):
    env = small(parameters)
    states, last = jax.device_get(episodes(env, seed, RandomActor))
    before, after = steps_of(states)
    was, now, problem = before.drones, after.drones, before.instance
    loaded = (now.carrying >= 0) & (was.carrying != now.carrying)
    far = gap(was.position, before.truck.position[:, None]) > parameters["recovery_threshold"] + 1e-5
    assert not (loaded & far & in_air(was)).any(), "loaded away from the truck"
    served = after.customers.just_served
    assert (after.customers.arrival_step >= problem.window_start)[served].all(), "served before the window"
    assert (problem.known_from <= before.step[:, None])[served].all(), "served unknown"
    # What was carried in the step: what is carried after it, or what was delivered or lost in it.
    carried = np.where(now.carrying >= 0, now.carrying, was.carrying)
    clear = in_air(was) & in_air(now) & ((was.carrying >= 0) | (now.carrying >= 0) | ~served.any(axis=1)[:, None])
    demand = np.where(carried >= 0, np.take_along_axis(problem.demand, np.maximum(carried, 0), axis=1), 0.0)
    flown = gap(now.position, was.position)
    rate = parameters["battery_rate"] * (1 + parameters["payload_factor"] * demand)
    moved = clear & (flown > 1e-4)
    np.testing.assert_allclose(now.battery_used[moved], (rate * flown)[moved], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(now.battery_used[now.is_waiting], np.float32(parameters["hover_cost"]))
    all_served, aloft = states.customers.served[-1].all(axis=1), in_air(states.drones)[-1].any(axis=1)
    np.testing.assert_array_equal(last.metrics["success"] == 1, all_served & ~aloft)
    assert last.terminated.all() and not last.metrics["invalid_actions"].any()


def test_random_episodes_show_everything():
    """Else the properties above tell little."""
    env = small({"battery_rate": 0.1, "recovery_threshold": 0.4, "dynamic_share": 0.5})
    states, last = jax.device_get(episodes(env, 0, RandomActor))
    before, after = steps_of(states)
    waited = after.drones.is_waiting.any(axis=1) & (after.step < after.instance.window_start.max(axis=1))
    assert waited.sum() > 2
    assert after.customers.just_served.sum() > 20
    assert (after.truck.target_node >= 0).any() and (after.instance.known_from > before.step[:, None]).any()
    tired, _ = jax.device_get(episodes(small({"forced_return_factor": 0.0}), 0, RandomActor))
    assert tired.drones.is_crashed.any() and last.metrics["customers_served"].max() >= 3


@pytest.mark.slow
@few()
@given(parameters=PARAMETERS, seed=st.integers(0, 2**16))
def test_the_dispatcher_is_legal_and_loses_no_drone(parameters, seed):
    _, last = jax.device_get(episodes(small(parameters), seed, GreedyActor))
    assert not last.metrics["invalid_actions"].any()
    assert not last.metrics["crashed_drones"].any()


def test_the_dispatcher_beats_random_play_by_far():
    """On 512 instances of (4, 20, 10): completion 1.00 against 0.08, return 174 against -259 (`docs/vrpd_tw.md`)."""
    env = small({})
    _, greedy = jax.device_get(episodes(env, 1, GreedyActor))
    _, random = jax.device_get(episodes(env, 1, RandomActor))
    assert greedy.metrics["completion_rate"].mean() > 0.8
    assert random.metrics["completion_rate"].mean() < 0.3
    assert greedy.metrics["on_time_rate"].mean() > 3 * random.metrics["on_time_rate"].mean()


# --- who is not known yet -------------------------------------------------------------------------------------------


@jax.jit
def shown(env, states):
    """All that agents are told, and what the dispatcher does, `[E, ...]`."""
    entities = seen_as(env, "entities")

    def of_one(state):
        vectors = env.observation(state), env.global_observation(state), env.action_mask(state)
        return vectors, (entities.observation(state), entities.static_entities(state), entities.entities(state))

    return *jax.vmap(of_one)(states), GreedyActor(env).act(jax.random.key(0), (), states, None)[0]


@few()
@given(seed=st.integers(0, 2**16), step=st.integers(0, 19))
def test_nothing_of_an_unknown_customer_is_told(seed, step):
    """Other places, demands and windows, and another order among those who are unknown, change nothing."""
    env = small({"dynamic_share": 1.0})
    states, _ = jax.device_get(episodes(env, seed, RandomActor))
    now = jax.tree.map(lambda leaf: leaf[step], states)
    random, problem = np.random.default_rng(seed), now.instance
    unknown = problem.known_from > now.step[:, None]
    later = np.where(unknown, now.step[:, None] + random.integers(1, 99, unknown.shape, np.int32), problem.known_from)
    other = problem.replace(
        customer_position=np.where(
            unknown[..., None], random.uniform(-9, 9, (*unknown.shape, 2)), problem.customer_position
        ).astype(np.float32),
        demand=np.where(unknown, random.uniform(0, 9, unknown.shape), problem.demand).astype(np.float32),
        window_start=np.where(unknown, random.integers(0, 99, unknown.shape, np.int32), problem.window_start),
        window_end=np.where(unknown, random.integers(0, 99, unknown.shape, np.int32), problem.window_end),
        known_from=later,
    )
    seen, seen_of_others = jax.device_get((shown(env, now), shown(env, now.replace(instance=other))))
    jax.tree.map(np.testing.assert_array_equal, seen, seen_of_others)
    vectors, (_, static, dynamic), _ = seen
    assert not static["customer"].size and not np.swapaxes(dynamic["customer"], 1, 2)[unknown].any()
    deliver = vectors[2]["drone"][..., 2:]
    assert not (deliver & unknown[:, None]).any()


@jax.jit
def flights_to_windows(env, state):
    """How far a drone can fly until windows open and close, `f32[2, C]`, as entities tell it."""
    customers, *_ = env.entity_kinds
    planes = env.entities(state)["customer"]
    return jnp.stack([planes[customers.index(name)] for name in ("flight_to_start", "flight_to_deadline")])


def test_time_to_a_window_is_told_as_a_flight():
    """0.2 a step, or 0.1; no more than 4, and negative when it is past. A customer who is served has none."""
    problem = instance(start=(3, 12), end=(40, 3))
    states, _ = play(make(**LIGHT), problem, [*SORTIE, (STAY, RETURN, 0)])
    first, fourth = (jax.tree.map(lambda leaf, step=step: leaf[step], states) for step in (0, 4))
    env = seen_as(make(), "entities")
    np.testing.assert_allclose(flights_to_windows(env, first), [[0.6, 2.4], [4.0, 0.6]], atol=1e-6)
    slow = flights_to_windows(env.replace(drone_speed=1.0), first)
    np.testing.assert_allclose(slow, [[0.3, 1.2], [4.0, 0.3]], atol=1e-6)
    assert fourth.customers.served.tolist() == [True, False]
    np.testing.assert_allclose(flights_to_windows(env, fourth), [[0, 1.6], [0, -0.2]], atol=1e-6)


def test_instances():
    """Windows as the page says; the share changes when customers are known, and nothing else."""
    env = jaxvrp.make("vrpd_tw", num_customers=2000, max_steps=100)
    draws = [jax.device_get(env.replace(dynamic_share=share).generate(jax.random.key(1))) for share in (0.0, 0.5, 1.0)]
    for drawn in draws[1:]:
        jax.tree.map(np.testing.assert_array_equal, drawn.replace(known_from=None), draws[0].replace(known_from=None))
    width = draws[0].window_end - draws[0].window_start
    start, known = draws[0].window_start, [drawn.known_from for drawn in draws]
    assert (start.min(), start.max(), width.min(), width.max()) == (0, 49, 10, 24)
    assert not known[0].any() and known[0].dtype == np.int32
    assert abs(np.mean(known[1] > 0) - 0.5 * np.mean(start > 1)) < 0.04
    assert ((known[2] > 0) == (start > 1)).all() and (known[2] < np.maximum(start, 1)).all()


def test_becoming_known_is_an_event():
    env = make(decide="events", max_repeat=50)
    problem = instance(known_from=(0, 13), start=(0, 20))
    idle = {"truck": jnp.zeros(1, jnp.int32), "drone": jnp.zeros(2, jnp.int32)}
    state, timestep = jax.jit(lambda: env.step(env.reset_to(problem)[0], idle))()
    assert (state.step, timestep.duration) == (13, 13)
    np.testing.assert_allclose(timestep.reward["truck"], [-1.3], rtol=1e-5)


# --- as an environment ----------------------------------------------------------------------------------------------


FORMS = pytest.mark.parametrize(
    "form", [{}, {"decide": "events", "max_repeat": 3, "observation": "entities"}], ids=["steps", "events and entities"]
)
TINY = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 1, "max_steps": 12, "dynamic_share": 0.5}


@FORMS
def test_its_shapes_conform(form):
    check_shapes(jaxvrp.make("vrpd_tw", **TINY, **form))


@FORMS
@pytest.mark.slow
def test_it_conforms(form):
    """What its episodes do; those of `truck_drone`, which it is a kind of, are checked with all that ships."""
    check_env(jaxvrp.make("vrpd_tw", **TINY, **form), batch=3)


def test_it_goes_by_two_names():
    env = jaxvrp.make("vrpd_tw", num_drones=3, payload_factor=0.7)
    assert env == jaxvrp.make("truck_drone", scenario="vrpd_tw", num_drones=3, payload_factor=0.7)
    assert isinstance(env, VrpdTw) and players_of(env).baselines.keys() == {"greedy"}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"payload_facto": 1.0}, "unknown parameter of 'vrpd_tw': 'payload_facto'; did you mean 'payload_factor'"),
        ({"dynamic_share": 1.5}, "dynamic_share is 1.5; it must be >= 0 and <= 1"),
        ({"battery_rate": -1.0}, "battery_rate is -1.0; it must be >= 0"),
        ({"max_steps": 3}, "max_steps is 3; it must be >= 4"),
        ({"truck_motion": "jumps"}, "truck_motion is 'jumps'; it must be one of: step, persistent"),
    ],
)
def test_a_mistake_is_one_line(parameters, says):
    with pytest.raises(ValueError, match="^" + says) as error:
        jaxvrp.make("vrpd_tw", **parameters)
    assert "\n" not in str(error.value)


# --- pictures and replays -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waited():
    """States and actions of a sortie that waits from step 4 to step 7; customer 1 becomes known at step 5."""
    choices = [*SORTIE, *[(STAY, DELIVER_0, 0)] * 3, *[(STAY, RETURN, 0)] * 3]
    states, _ = play(make(**LIGHT), instance(start=(7, 30), known_from=(0, 5)), choices)
    actions = {"truck": np.array(choices, np.int32)[:, :1], "drone": np.array(choices, np.int32)[:, 1:]}
    return states, actions


def test_a_story_tells_windows_waits_packages_and_news(waited):
    def rows_of(env):
        story = story_of(from_states(env, *waited))
        return story, {row.label: row for row in story.charts[0].rows}

    story, rows = rows_of(make())
    standings = [[(each.time, each.name) for each in place.standings] for place in story.places[-2:]]
    assert standings[0] == [(0, "closed"), (7, "served")]
    assert standings[1] == [(0, "hidden"), (5, "closed"), (10, "lost")]
    windows = {label: [(bar.begin, bar.end) for bar in row.bars if bar.look == "window"] for label, row in rows.items()}
    assert windows == {"0": [(7, 60)], "1": [(30, 60)]}
    assert [(bar.begin, bar.end) for bar in rows["0"].bars if bar.look == "wait"] == [(4, 7)]
    assert [(bar.begin, bar.end) for bar in rows["1"].bars if bar.look == "known"] == [(5, 30)]
    drone = story.vehicles[1]
    did = [(each.begin, each.end, each.name) for each in drone.activities]
    assert did[:3] == [(0, 4, "moves"), (4, 7, "waits"), (7, 9, "returns")]
    assert drone.carries[:3] == ((0, False), (1, True), (6, False))
    _, basic = rows_of(make(wait_for_window=False))
    assert [bar.begin for row in basic.values() for bar in row.bars if bar.look == "window"] == [0, 0]


def test_a_still_of_a_state_hides_who_is_not_known(waited):
    still = toolbox_of(make()).still
    first, last = (jax.tree.map(lambda leaf, at=at: leaf[at], waited[0]) for at in (0, -1))
    assert (">1</text>" in still(first).html(), ">1</text>" in still(last).html()) == (False, True)

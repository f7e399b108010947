"""Decisions that hold until something happens, against a loop over single steps with its own notion of an event."""

import dataclasses
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import VecEnv, check_env, show
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_drone import make
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.course import step_by_step
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING
from jaxvrp.episodes import from_states, play_episodes, record_episode

SIZES = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 3, "max_steps": 40, "max_repeat": 7}
# Weak batteries with a late guard, a slow truck and wide doors: everything that can happen does.
PARAMETERS = {
    **SIZES,
    "battery_rate": 0.8,
    "forced_return_factor": 0.7,
    "delivery_threshold": 0.2,
    "truck_speed": 0.5,
}
EPISODES = 12


@pytest.fixture(scope="module")
def env():
    return make(**PARAMETERS, decide="events")


@pytest.fixture(scope="module")
def by_steps(env):
    return env.replace(decide="steps")


@pytest.fixture(scope="module")
def step(by_steps):
    """A single step, compiled once for all that is compared with it."""
    return jax.jit(by_steps.step)


def gap(a, b):
    return np.linalg.norm(np.asarray(a, np.float64) - b, axis=-1)


def happened(env, before, after):
    """Names of what happened to somebody between two worlds one step apart."""
    was, now = before.drones, after.drones
    in_air_before, in_air = (np.isin(drones.status, (FLYING, RETURNING)) for drones in (was, now))
    reach = float(env.recovery_threshold)
    in_reach_before = in_air_before & (gap(was.position, before.truck.position) <= reach)
    in_reach = in_air & (gap(now.position, after.truck.position) <= reach)
    nodes = before.instance.node_position
    at_node_before, at_node = (gap(nodes, world.truck.position) < 1e-6 for world in (before, after))
    facts = {
        "served": after.customers.served & ~before.customers.served,
        "boarded": (was.status != ONBOARD) & (now.status == ONBOARD),
        "released": (was.status == ONBOARD) & (now.status != ONBOARD),
        "crashed": (was.status != CRASHED) & (now.status == CRASHED),
        "came within reach": in_reach & ~in_reach_before,
        "charged": (now.battery >= env.max_battery) & (was.battery < env.max_battery),
        "sent home": now.forced_return & ~was.forced_return,
        "truck arrived": at_node & ~at_node_before,
    }
    return {name for name, fact in facts.items() if np.any(fact)}


def asked(random, mask):
    """Legal actions, seldom one that is not; and what they are executed as."""
    legal = {
        role: np.array([random.choice(np.flatnonzero(row)) for row in rows], np.int32) for role, rows in mask.items()
    }
    wrong = {role: random.random(rows.shape[0]) < 0.03 for role, rows in mask.items()}
    request = {role: np.where(wrong[role], 99, legal[role]) for role in mask}
    return request, {role: np.where(wrong[role], 0, legal[role]) for role in mask}


def played_on(env, step, state, request, executed):
    """What a loop makes of a decision: the last state, the last timestep, what was paid, steps, what happened."""
    total, count, choice, news = 0.0, 0, request, set()
    while count < env.max_repeat and not news:
        before, count = state, count + 1
        state, timestep = jax.device_get(step(state, choice))
        total, choice = total + timestep.reward["truck"][0], executed
        news = happened(env, before, state)
        if timestep.done:
            break
    return state, timestep, total, count, news


@pytest.fixture(scope="module")
def compared(env, by_steps, step):
    """Random episodes, each decision played both ways: pairs of what came of it, and what happened at its end."""
    decide, begin, begin_by_steps = jax.jit(env.step), jax.jit(env.reset), jax.jit(by_steps.reset)
    random, episodes = np.random.default_rng(0), []
    for number in range(EPISODES):
        key = jax.random.key(number)
        (state, timestep), single = jax.device_get(begin(key)), jax.device_get(begin_by_steps(key)[0])
        decisions = []
        while not timestep.done:
            request, executed = asked(random, timestep.action_mask)
            single, last, total, count, news = played_on(env, step, single, request, executed)
            state, timestep = jax.device_get(decide(state, request))
            decisions.append(((state, timestep), (single, last), total, count, news))
        episodes.append(decisions)
    return episodes


def test_a_truck_that_is_at_the_next_node_after_a_step_has_arrived(env):
    fast = env.replace(truck_speed=1000.0)
    decide, (state, _) = jax.jit(fast.step), fast.reset(jax.random.key(0))
    for node in (1, 2, 3, 1):
        state, timestep = decide(state, {"truck": jnp.full(1, node, jnp.int32), "drone": jnp.zeros(2, jnp.int32)})
        assert timestep.duration == 1


@pytest.mark.slow
def test_a_decision_is_its_steps(compared):
    for decisions in compared:
        for (state, timestep), (single, last), total, count, _ in decisions:
            chex.assert_trees_all_close(state.replace(decision=()), single, rtol=1e-5, atol=1e-6)
            assert timestep.duration == state.decision.steps == count
            for reward in timestep.reward.values():
                np.testing.assert_allclose(reward, total, rtol=1e-5, atol=1e-5)
            same = ("observation", "global_observation", "action_mask", "metrics", "terminated", "truncated")
            chex.assert_trees_all_close(*([getattr(x, field) for field in same] for x in (timestep, last)), atol=1e-5)


def test_the_decisions_of_an_episode_take_its_time(compared):
    for decisions in compared:
        assert sum(timestep.duration for (_, timestep), *_ in decisions) == decisions[-1][0][0].step


def test_the_comparison_saw_everything(env, compared):
    """Else the tests above tell little."""
    all_decisions = [decision for decisions in compared for decision in decisions]
    assert {name for *_, news in all_decisions for name in news} == {
        *("served", "boarded", "released", "crashed", "came within reach", "charged", "sent home", "truck arrived")
    }
    assert any(count == env.max_repeat and not news and not last.done for _, (_, last), _, count, news in all_decisions)
    ends = [decisions[-1] for decisions in compared]
    assert any(single.customers.served.all() for _, (single, _), *_ in ends)
    assert any(single.step == env.max_steps and not news for _, (single, _), _, _, news in ends)
    assert sum(single.totals.invalid_actions for _, (single, _), *_ in ends) > 0


@pytest.mark.slow
def test_it_conforms():
    small = {"num_drones": 1, "num_customers": 1, "num_route_nodes": 1, "max_steps": 8, "max_repeat": 3}
    check_env(make(**small, decide="events", observation="entities"), batch=3)


class CutShort(TruckDroneBasic):
    """What runs out of steps is truncated, not over; what goes on after that would not end."""

    def is_terminal(self, world):
        return world.customers.served.all()

    extras = ("is_truncated",)

    def is_truncated(self, world):
        return world.step == 5


def test_a_scenario_that_truncates_says_so_by_itself():
    """Learners would value the end of an episode by the beginning of the next; an `extras` would hide durations."""

    class Cut(TruckDroneBasic):
        def is_truncated(self, world):
            return world.step == 5

    assert make(Cut).extras == ("is_truncated",)
    assert make(Cut, decide="events").extras == ("duration", "is_truncated")
    assert make(TruckDroneBasic).extras == ()
    assert VecEnv(make(Cut), 2).observes_ends


@pytest.mark.slow
def test_a_decision_does_not_outlast_a_truncated_episode():
    env = make(CutShort, **PARAMETERS, decide="events")
    idle = {"truck": np.zeros(1, np.int32), "drone": np.zeros(2, np.int32)}
    state, timestep = jax.jit(lambda key: env.step(env.reset(key)[0], idle))(jax.random.key(0))
    assert state.step == 5 and timestep.truncated and timestep.duration == 5


@pytest.mark.parametrize("auto_reset", [True, False])
@pytest.mark.slow
def test_a_batch_counts_time_and_stands_still_at_the_end(env, auto_reset):
    vec, actor = VecEnv(env, 6, auto_reset=auto_reset), RandomActor(env)

    def advance(played, key):
        (state, timestep), clock = played
        action, _ = actor.act(key, (), state.env, timestep)
        later, after = vec.step(state, action)
        clock += after.duration
        return ((later, after), jnp.where(after.done & auto_reset, 0.0, clock)), (state.env, after, later.env, clock)

    @jax.jit
    def play(key):
        return jax.lax.scan(advance, (vec.reset(key), jnp.zeros(6)), jax.random.split(key, 40))[1]

    before, after, later, clock = jax.device_get(play(jax.random.key(2)))
    np.testing.assert_array_equal(clock, after.metrics["time_step"])
    assert after.done.any(axis=0).all() and after.duration.max() == env.max_repeat
    if auto_reset:
        assert (later.step[after.done] == 0).all()
        return
    over = np.concatenate([np.zeros((1, 6), bool), after.done[:-1]])
    assert after.done[over].all() and (after.duration[over] == 0).all() and (after.duration[~over] >= 1).all()
    assert all((reward[over] == 0).all() for reward in after.reward.values())
    chex.assert_trees_all_equal(*(jax.tree.map(lambda leaf: leaf[over], states) for states in (before, later)))


# --- episodes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(env):
    """An episode of the greedy dispatcher: what it came to, its states and its actions."""
    instance = env.generate(jax.random.key(5))
    single, key = jax.tree.map(lambda leaf: leaf[None], instance), jax.random.key(0)
    result = jax.jit(lambda: play_episodes(env, GreedyActor(env), single, key))()
    episode = jax.jit(lambda: record_episode(env, GreedyActor(env), instance, key))()
    states, actions = episode.states, episode.actions
    return jax.device_get((jax.tree.map(lambda leaf: leaf[0], result), states, actions))


@pytest.mark.slow
def test_greedy_plays_legally_and_decides_seldom(env, recorded):
    result, states, _ = recorded
    assert result["invalid_actions"] == 0
    assert result["customers_served"] > 0
    num_decisions = np.count_nonzero(np.diff(states.step))
    assert 0 < num_decisions < result["length"] == result["time_step"] == states.step.max() <= env.max_steps


@pytest.mark.slow
def test_a_replay_tells_every_step(env, by_steps, step, recorded):
    result, states, actions = recorded
    episode = show.export_episode(from_states(env, states, actions))
    steps = episode["steps"]
    assert [entry["step"] for entry in steps] == list(range(int(result["time_step"]) + 1))
    assert episode["config"]["decide"] == "events"
    assert episode["summary"]["length"] == result["time_step"]
    assert episode["summary"]["return"] == pytest.approx(float(result["return"]), rel=1e-5)
    decision = np.repeat(np.arange(len(actions["truck"])), np.diff(states.step))
    assert [entry["action"]["drone"] for entry in steps[:-1]] == actions["drone"][decision].tolist()
    state = by_steps.init_state(jax.tree.map(lambda leaf: leaf[0], states.instance))
    levels = episode["story"]["vehicles"][2]["levels"]
    for entry, later in itertools.pairwise(steps):
        action = {role: np.array(chosen, np.int32) for role, chosen in entry["action"].items()}
        state, timestep = jax.device_get(step(state, action))
        assert later["reward"]["truck"] == pytest.approx(timestep.reward["truck"].tolist(), rel=1e-5)
        assert levels[later["step"]][1] == pytest.approx(float(state.drones.battery[1]), rel=1e-5)


@pytest.mark.slow
def test_the_story_is_that_of_the_same_episode_by_steps(env, recorded):
    episode = from_states(env, *recorded[1:])
    stories = [dataclasses.replace(story_of(each), episode=None) for each in (episode, step_by_step(episode))]
    assert stories[0] == stories[1]
    assert len(stories[0].clocks) == recorded[0]["time_step"] + 1

"""What an episode comes to: who served whom, what happened between decisions, and what is told of it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_drone import make, parse_map
from jaxvrp.envs.truck_drone.course import NOBODY, course_of, runs, step_by_step
from jaxvrp.envs.truck_drone.problem.instance import void_beyond
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.envs.truck_drone.world import CRASHED, DELIVER, FLYING, ONBOARD
from jaxvrp.episodes import Episode, follow, from_states, record_episode, whole
from jaxvrp.story import ACTIVITIES, STANDINGS, held
from tests.jaxvrp.envs.truck_drone.test_plan import SMALL

# Weak batteries, a slow truck, wide doors: everything that can happen does.
PARAMETERS = {
    **{"num_drones": 4, "num_customers": 3, "num_route_nodes": 4, "max_steps": 40},
    **{"delivery_threshold": 0.3, "truck_speed": 0.2, "battery_rate": 0.8, "forced_return_factor": 0.7},
}


def random_episodes(env, count, seed=0):
    """Episodes of random play, on the host; one compilation for all."""
    play = jax.jit(lambda env, key: record_episode(env, RandomActor(env), env.generate(key), key))
    return [jax.device_get(play(env, jax.random.key(seed + number))) for number in range(count)]


@pytest.fixture(scope="module")
def recorded():
    return random_episodes(make(**PARAMETERS), 8)


@pytest.fixture(scope="module")
def held_episodes():
    return random_episodes(make(**PARAMETERS, decide="events", max_repeat=7), 4)


def at(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


# --- who served -----------------------------------------------------------------------------------------------------


def rightful_server(episode, customer, index):
    """By the rule itself, with the actions that were played."""
    states, action = episode.states, episode.actions["drone"][index - 1]
    drones, carried = at(states.drones, index), states.drones.carrying[index - 1]
    gap = np.linalg.norm(drones.position - states.instance.customer_position[index, customer], axis=1)
    # A drone that the battery guard sent home has status RETURNING.
    serves = action == DELIVER + customer
    serves &= (drones.status == FLYING) & np.isin(carried, (-1, customer)) & (gap < 0.3)
    return serves.argmax() if serves.any() else "nobody"


def test_a_state_says_who_served_whom(recorded):
    deliveries = 0
    for episode in recorded:
        course = course_of(episode)
        for customer, index in enumerate(course.served_at):
            expected = NOBODY if index < 0 else rightful_server(episode, customer, index)
            assert course.server[customer] == expected
            deliveries += index >= 0
        assert (course.served_at >= 0).tolist() == episode.states.customers.served[-1].tolist()
    assert deliveries > 5


class ByTruck(TruckDroneBasic):
    """The truck serves whom it passes; what it does not write is left as it was."""

    def transition(self, state, action, num_invalid):
        state = super().transition(state, action, num_invalid)
        gap = jnp.linalg.norm(state.instance.customer_position - state.truck.position, axis=1)
        return state.replace(customers=state.customers.replace(served=state.customers.served | (gap < 0.25)))


def test_under_foreign_rules_a_customer_is_served_by_nobody_known():
    for episode in random_episodes(make(ByTruck, num_customers=6, max_steps=40), 3):
        course, story = course_of(episode), story_of(episode)
        assert ((course.served_at >= 0) == episode.states.customers.served[-1]).all()
        ends = [place.standings[-1] for place in story.places if place.kind == "customer"]
        assert [end.name in ("served", "late") for end in ends] == episode.states.customers.served[-1].tolist()
        assert all(end.vehicle is None for end, server in zip(ends, course.server, strict=True) if server == NOBODY)


# --- single steps ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_held_decisions_played_again_by_steps_are_the_recorded_ones_to_the_last_bit(held_episodes):
    """The whole episode from its first state on, each action held for its duration, in a program of its own."""
    play_step = jax.jit(lambda env, *of_step: env.transition(*of_step))
    for episode in held_episodes:
        steps, recorded = step_by_step(episode), whole(episode)
        assert steps.states.step.tolist() == list(range(int(recorded.states.step[-1]) + 1))
        decision = np.repeat(np.arange(len(recorded.actions["truck"])), recorded.timesteps.duration[1:].astype(int))
        for role, chosen in steps.actions.items():
            np.testing.assert_array_equal(chosen, recorded.actions[role][decision])
        later = np.cumsum(recorded.timesteps.duration).astype(int)
        jax.tree.map(np.testing.assert_array_equal, at(steps.states, later), recorded.states.replace(decision=()))
        world = at(steps.states, 0)
        for step, number in enumerate(decision):
            choice = at(recorded.states.decision, number + 1)
            action = {"truck": choice.truck[None], "drone": choice.drone}
            world = play_step(steps.env, world, action, jnp.int32(0))
            shown = at(steps.states, step + 1)
            # What was asked for in vain is no part of the choice that is held.
            world = world.replace(totals=world.totals.replace(invalid_actions=shown.totals.invalid_actions))
            jax.tree.map(np.testing.assert_array_equal, shown, jax.device_get(world))
        paid = np.add.reduceat(steps.timesteps.reward["truck"][1:, 0], later[:-1])
        np.testing.assert_allclose(paid, recorded.timesteps.reward["truck"][1:, 0], rtol=1e-5, atol=1e-5)


def test_an_episode_by_steps_is_itself(recorded):
    again = step_by_step(recorded[0])
    jax.tree.map(np.testing.assert_array_equal, again, whole(recorded[0]))


def test_customers_that_fill_up_the_size_are_left_out():
    env = make(num_customers=5, max_steps=20)
    instance = void_beyond(env.generate(jax.random.key(0)), jnp.int32(3))
    episode = step_by_step(jax.jit(lambda: record_episode(env, RandomActor(env), instance, jax.random.key(0)))())
    assert episode.env.num_customers == 3 and episode.states.customers.served.shape[1] == 3
    assert episode.timesteps.action_mask["drone"].shape[2] == 2 + 3
    assert [place.name for place in story_of(episode).places if place.kind == "customer"] == [
        f"customer {index}" for index in range(3)
    ]


def test_states_of_several_episodes(recorded):
    with pytest.raises(ValueError, match=r"it needs \[T\+1\], the states of one episode"):
        course_of(jax.tree.map(lambda leaf: np.stack([leaf, leaf]), recorded[0]))


def test_runs():
    assert runs(np.array([0, 0, 1, 3, 3])) == [(0, 2, 0), (2, 3, 1), (3, 5, 3)]


# --- what is told ---------------------------------------------------------------------------------------------------


def place_at(track, time):
    times, places = zip(*track, strict=True)
    return np.stack([np.interp(time, times, axis) for axis in np.transpose(places)], axis=-1)


def test_vehicles_are_where_they_were(recorded, held_episodes):
    for episode in (*recorded[:3], *held_episodes[:2]):
        story, steps = story_of(episode), step_by_step(episode)
        truck, *drones = story.vehicles
        clocks = np.array(story.clocks)
        np.testing.assert_array_equal(clocks, steps.states.step)
        np.testing.assert_allclose(place_at(truck.track, clocks), steps.states.truck.position, atol=1e-6)
        for index, drone in enumerate(drones):
            state = jax.tree.map(lambda leaf, index=index: leaf[:, index], steps.states.drones)
            np.testing.assert_allclose(place_at(drone.track, clocks), state.position, atol=1e-6)
            np.testing.assert_allclose([level for _, level in drone.levels], state.battery, atol=1e-6)
            for before, after in itertools.pairwise(range(len(clocks))):
                rides = (state.status[[before, after]] == ONBOARD).all()
                assert (held(drone.hosts, clocks[before])[1] == 0) == rides
                assert held(drone.carries, clocks[before])[1] == (state.carrying[after] >= 0)
            assert (held(drone.hosts, clocks[-1])[1] == 0) == (state.status[-1] == ONBOARD)
            assert (drone.activities[-1].name == "crashed") == (state.status[-1] == CRASHED)


def test_customers_stand_as_their_windows_and_deliveries_say(recorded):
    names = set()
    for episode in recorded:
        story, states = story_of(episode), whole(episode).states
        customers = [place for place in story.places if place.kind == "customer"]
        for index, place in enumerate(customers):
            end = states.instance.window_end[0, index]
            assert place.deadline == end
            for at_step, step in enumerate(states.step[:-1]):
                served = states.customers.served[at_step, index]
                arrival = states.customers.arrival_step[at_step, index]
                wanted = ("late" if arrival > end else "served") if served else "overdue" if step > end else "open"
                assert held([(s.time, s.name) for s in place.standings], float(step))[1] == wanted
            names |= {standing.name for standing in place.standings}
        assert len(story.lost) == (~states.customers.served[-1]).sum()
        assert story.is_feasible == (story.verdict == "feasible")
    assert names == {"open", "overdue", "served", "late", "lost"} <= set(STANDINGS)


def test_what_happened_is_said(recorded):
    said = [event for episode in recorded for event in story_of(episode).events]
    words = " | ".join(event.words for event in said)
    assert all(some in words for some in ("served by drone ", " late", " crashed", "sent home by its battery"))
    for episode in recorded:
        story = story_of(episode)
        assert all(event.time == story.clocks[event.step] for event in story.events)
        assert {activity.name for vehicle in story.vehicles for activity in vehicle.activities} <= set(ACTIVITIES)


MAP = {
    **SMALL,
    "name": "By the sea",
    "units": {"length": "km", "time": "min"},
    "scale": {"length": 100, "center": [0, 0], "time": 2.5},
    "customers": [
        {"id": "customer 3", "position": [0, 40], "demand": 1, "window": [10, 30]},
        {"id": "step 5", "position": [60, 60], "demand": 1, "window": [0, 12.5], "known_from": 5},
    ],
}
"""Names that look like numbers of something."""


@pytest.fixture(scope="module")
def on_map():
    fleet_map = parse_map(MAP)
    env = fleet_map.environment(jaxvrp.make("vrpd_tw"))
    actions = {
        "truck": np.array([[3], [2], [2], [2], [0]], np.int32),
        "drone": np.array([[0], [2], [2], [2], [3]], np.int32),
    }
    return fleet_map, jax.device_get(follow(env, fleet_map.instance(), actions))


def test_names_and_units_of_a_map(on_map):
    fleet_map, episode = on_map
    story = story_of(episode, fleet_map)
    assert (story.title, story.units.time, story.units.length) == ("By the sea", "min", "km")
    assert story.clocks == (0.0, 2.5, 5.0, 7.5, 10.0, 12.5)
    assert [vehicle.name for vehicle in story.vehicles] == ["van", "red"]
    assert story.places[2].note == "window 10 to 30 min"
    assert story.places[3].note == "deadline 12.5 min, known from 5 min"
    assert [event.words for event in story.events] == ["step 5 known", "red sent home by its battery"]
    assert dict(story.lost) == {
        "customer 3": "red was sent home at 5 min, battery short by 0.013; the episode stops at 12.5 min",
        "step 5": "no drone set out, known from 5 min on; the episode stops at 12.5 min",
    }
    assert story.instead["drone"][2] == ("sent home: battery short by 0.013",)
    texts = {text for agents in story.why["drone"] for agent in agents for text, _ in agent}
    assert texts == {
        "on board: the truck has to release it first",
        "not known before 5 min",
        "carries the parcel for customer 3",
    }
    assert story.actions["drone"] == ("HOVER", "RETURN", "DELIVER customer 3", "DELIVER step 5")


def test_a_scenario_tells_more(recorded):
    class Tolls(TruckDroneBasic):
        """With a metric of its own, and a note."""

        def metrics(self, state):
            return {**super().metrics(state), "road_toll": 2.0 * state.totals.truck_distance}

        def extend_story(self, story, episode):
            return dataclasses.replace(story, verdict=f"{story.verdict}; {len(episode.states.step)} states")

    env = make(Tolls, **PARAMETERS)
    episode = from_states(env, recorded[0].states, recorded[0].actions)
    story = story_of(episode)
    toll = 2.0 * float(whole(recorded[0]).states.totals.truck_distance[-1])
    assert float(dict(story.summary)["road toll"]) == pytest.approx(toll, abs=0.01)
    assert story.verdict.endswith("states")
    assert isinstance(episode, Episode)

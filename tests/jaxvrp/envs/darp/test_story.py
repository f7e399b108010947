"""The story of a plan is that of the episode that follows it, without decisions; plans may break the rules."""

import dataclasses

import jax
import numpy as np

from jaxvrp.envs.darp import make, make_instance
from jaxvrp.envs.darp.plan import actions_of
from jaxvrp.envs.darp.story import story_of, story_of_plan
from jaxvrp.episodes import record_episode, whole
from jaxvrp.registry import players_of


def test_an_episode_and_its_plan_have_the_same_tours():
    env = make(num_nodes=10, num_agents=3)
    instance = jax.jit(env.generate)(jax.random.key(1))
    actor = next(iter(players_of(env).baselines.values()))(env)
    play = jax.jit(lambda instance: record_episode(env, actor, instance, jax.random.key(0)))
    episode = whole(jax.device_get(play(instance)))
    told = story_of(episode)
    planned = story_of_plan(jax.tree.map(np.asarray, instance), actions_of(episode.states))
    assert len(told.clocks) == len(episode.states.step) and told.cards[0].agent == 0 and told.actions
    same = {"clocks": (), "cards": (), "lost": (), "actions": {}, "why": {}, "events": (), "vehicles": ()}
    assert dataclasses.replace(told, **same) == dataclasses.replace(planned, **same)
    assert [vehicle.track for vehicle in told.vehicles] == [vehicle.track for vehicle in planned.vehicles]


def test_a_plan_that_breaks_rules_is_told():
    instance = make_instance(np.arange(10.0).reshape(5, 2), [0, 1, -1, 1, -1], [90.0] * 5, capacity=[1])
    story = story_of_plan(instance, [1, 3, 2, 0])
    assert not story.is_feasible and story.verdict.startswith("not feasible: ")
    (vehicle,) = story.vehicles
    assert [load for _, load in vehicle.levels] == [0, 1, 2, 1, 0] and vehicle.capacity == 1
    assert [place.standings[-1].name for place in story.places[1:]] == ["served", "served", "served", "lost"]
    assert next(row.note for row in story.charts[0].rows if row.label == "2") == "never dropped off"

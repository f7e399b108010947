"""What the check of a plan computes again, and the story of an episode or a plan, also of one that breaks the rules."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxvrp import show
from jaxvrp.envs.darp import make, make_instance, pad, routes_to_actions, solution_report
from jaxvrp.envs.darp.plan import actions_of
from jaxvrp.envs.darp.rules import drive
from jaxvrp.envs.darp.shown.story import story_of, story_of_plan
from jaxvrp.episodes import from_states, record_episode, whole
from jaxvrp.registry import players_of

# Request 1 is late at both ends and rides too long, request 3 is never dropped off, request 4 not served.
ACTIONS = [3, 1, 4, 2, 0, 0, 5, 0]


@pytest.fixture(scope="module")
def instance():
    """Four requests on a line, one unit of distance takes one unit of time, three vehicles for two passengers."""
    east = [0, 2, 8, 1, 6, 3, 5, -1, -2]
    return make_instance(
        np.stack([east, np.arange(9) % 3], axis=1),
        [0, 1, -1, 2, -2, 1, -1, 1, -1],
        [99, 1, 7, *[90] * 6],
        capacity=[2, 2, 2],
        earliest=[0, 0, 0, 4, 0, 0, 0, 0, 0],
        service_time=[0, *[0.5] * 8],
        max_ride_time=6,
    )


@pytest.fixture(scope="module")
def played():
    """`play(env, instance, wanted)`: states `[T+1]`, driven by the rules alone: forbidden actions happen too."""
    begin, step = jax.jit(lambda env, instance: env.init_state(instance)), jax.jit(drive)

    def play(env, instance, wanted):
        states = [begin(env, instance)]
        for action in wanted:
            states.append(step(states[-1], np.int32(action), np.int32(0)))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *states)

    return play


# --- what the check computes again ------------------------------------------------------------------------------------


def test_who_did_what_when(instance):
    report = solution_report(pad(instance, 12, 5), ACTIONS)
    drives = [(leg.vehicle, leg.origin, leg.node, leg.load_before, leg.load) for leg in report.legs]
    first = [(0, 0, 3, 0, 2), (0, 3, 1, 2, 3), (0, 1, 4, 3, 1), (0, 4, 2, 1, 0), (0, 2, 0, 0, 0)]
    assert drives == [*first, (2, 0, 5, 0, 1), (2, 5, 0, 1, 0)]
    assert report.served_by.tolist() == [-1, 0, 0, 0, 0, 2, *[-1] * 7]
    assert report.delivered.tolist() == [False, True, True, *[False] * 4]
    assert [leg.wrong for leg in report.legs] == [False] * 6 + [True]


def test_times_are_those_of_the_service(instance):
    report = solution_report(instance, ACTIONS)
    for leg in report.legs:
        start, end = instance.locs[[leg.origin, leg.node]]
        assert leg.arrival - leg.leave == pytest.approx(np.linalg.norm(end - start)) and leg.arrival <= leg.begin
        assert leg.node == 0 or leg.begin == report.service_start[leg.node]
    # Pickup 2 opens at 4; half a unit of service, then to pickup 1.
    begin = report.service_start
    assert begin[[3, 1]] == pytest.approx([4.0, 4.5 + np.sqrt(2)])
    assert report.late[1] == pytest.approx(3.5 + np.sqrt(2)) and report.late[3] == 0.0
    assert report.ride[1] == pytest.approx(begin[2] - begin[1] - 0.5)
    assert report.too_long[1:].tolist() == [True, False, False, False]


def test_a_second_visit_moves_nobody(instance):
    report = solution_report(instance, [1, 1, 2, 0])
    assert [leg.load for leg in report.legs] == [1, 1, 0, 0]
    assert report.legs[1].begin == pytest.approx(report.legs[0].begin + 0.5)


def test_verdicts(instance):
    assert solution_report(instance, ACTIONS).verdict(most=2) == (
        "not feasible: unserved 3 (first: drop-off 3), pairing 1 (first: pickup 3), 4 more"
    )
    assert solution_report(instance, [99, 3, 4, 0]).verdict(most=9).count("node 99") == 1


# --- stories of plans -------------------------------------------------------------------------------------------------


def test_what_went_wrong_is_told(instance):
    story = story_of_plan(instance, ACTIONS)
    rows = {row.label: row for row in story.charts[0].rows}
    # Of the two ends the later one counts.
    assert rows["1"].note == "late by 6.15, rides 6.74, limit 6"
    assert [rows[request].note for request in "234"] == ["", "never dropped off", "not served"]
    assert list(rows) == ["2", "1", "3", "4"], "vehicle after vehicle, in the order of pickups"
    assert dict(story.summary)["served"] == "2 of 4" and dict(story.summary)["vehicles"] == "2 of 3"
    standings = {place.name: place.standings[-1] for place in story.places if place.standings}
    assert [standings[f"pickup {request}"].name for request in (1, 2, 3, 4)] == ["late", "served", "served", "lost"]
    assert standings["drop-off 3"].name == "lost" and standings["pickup 3"].vehicle == 1
    assert story.events[-1].words == "vehicle 2 is back at the depot, 1 still on board"


def test_bars_dots_and_loads_stand_where_they_belong(instance):
    story, report = story_of_plan(instance, ACTIONS), solution_report(instance, ACTIONS)
    windows = [(bar.begin, bar.end) for row in story.charts[0].rows for bar in row.bars if "window" in bar.look]
    assert np.allclose(sorted(windows), sorted([(0, 1), (0, 7), (4, 90), *[(0, 90)] * 5]))
    begin = report.service_start
    for parity, shape in enumerate(("drop-off", "pickup")):
        dots = [dot.time for row in story.charts[0].rows for dot in row.dots if dot.shape == shape]
        assert sorted(dots) == sorted(begin[1:][(np.arange(1, 9) % 2 == parity) & ~np.isnan(begin[1:])])
    (late,) = [bar for row in story.charts[0].rows for bar in row.bars if bar.look == "late ride"]
    assert (late.begin, late.end) == (begin[1], begin[2])
    assert [load for _, load in story.vehicles[0].levels] == [0, 2, 3, 1, 0, 0]


def test_padding_is_not_told(instance):
    plain, padded = (story_of_plan(problem, ACTIONS) for problem in (instance, pad(instance, 40, 9)))
    assert plain == padded


@pytest.mark.parametrize("actions", [[], [0, 0, 0], [1, 1, 0, 2], [2, 0, 1, 0], [1, 2, 0, 0, 0, 5, 6], [77, 3, 4]])
def test_strange_plans_can_be_drawn(instance, actions):
    show.draw_story(story_of_plan(pad(instance, 12, 5), actions)).canvas.draw()


def test_windows_without_end_and_one_place_can_be_drawn():
    nowhere = make_instance(np.zeros((3, 2)), [0, 1, -1], [np.inf] * 3, capacity=1)
    for actions, words in (([], "0 of 1"), ([1, 2], "1 of 1")):
        story = story_of_plan(nowhere, actions)
        show.draw_story(story).canvas.draw()
        assert dict(story.summary)["served"] == words


def test_published_plans_are_told_as_feasible(published):
    for solution in published[::4]:
        actions = routes_to_actions(solution.routes, solution.instance.num_agents)
        story = story_of_plan(solution.instance, actions)
        assert story.verdict == "feasible" and not any(row.note for row in story.charts[0].rows)
        assert not any(place.standings and place.standings[-1].name != "served" for place in story.places)
        assert max(load for vehicle in story.vehicles for _, load in vehicle.levels) <= solution.instance.capacity[0]


# --- stories of episodes ----------------------------------------------------------------------------------------------


def test_an_episode_and_its_plan_have_the_same_tours():
    env = make(num_nodes=10, num_agents=3)
    instance = jax.jit(env.generate)(jax.random.key(1))
    actor = next(iter(players_of(env).baselines.values()))(env)
    play = jax.jit(lambda instance: record_episode(env, actor, instance, jax.random.key(0)))
    episode = whole(jax.device_get(play(instance)))
    played = story_of(episode)
    planned = story_of_plan(jax.tree.map(np.asarray, instance), actions_of(episode.states))
    assert len(played.clocks) == len(episode.states.step) and played.cards[0].agent == 0 and played.actions
    same = {"clocks": (), "cards": (), "lost": (), "actions": {}, "why": {}, "events": (), "vehicles": ()}
    assert dataclasses.replace(played, **same) == dataclasses.replace(planned, **same)
    assert [vehicle.track for vehicle in played.vehicles] == [vehicle.track for vehicle in planned.vehicles]


def test_a_single_state_has_a_story(instance, played, tmp_path):
    env = make(num_nodes=8, num_agents=3)
    episode = from_states(env, played(env, instance, []))
    assert story_of(episode).vehicles == () and len(story_of(episode).clocks) == 1
    show.save(episode, tmp_path / "start.png")
    show.save(episode, tmp_path / "start.html")


def test_states_of_several_episodes(instance, played):
    env = make(num_nodes=8, num_agents=3)
    states = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), played(env, instance, [1]))
    with pytest.raises(ValueError, match=r"shape \(2, 2\); it needs \[T\+1\]"):
        actions_of(states)


@pytest.mark.parametrize(
    "wanted",
    [
        [1, 2, 0, 0, 3, 4, 0],  # the second vehicle stays at the depot
        [0, 0, 0],
        [3, 0, 5, 6, 0, 0],  # an emergency return with passengers
        [1, 3, 4, 2, 5, 6, 7, 8],  # ends away from the depot
        [1, 2],  # not finished
        [],
    ],
)
def test_actions_are_recovered(instance, played, wanted):
    for env in (make(num_nodes=8, num_agents=3), make(num_nodes=14, num_agents=6)):
        assert actions_of(played(env, instance, wanted)).tolist() == wanted


def test_what_follows_the_end_is_cut(instance, played):
    env = make(num_nodes=8, num_agents=3)
    states = played(env, instance, [1, 2, 0, 0, 0])
    longer = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[-1:], leaf[-1:]]), states)
    assert actions_of(longer).tolist() == [1, 2, 0, 0, 0]
    reset = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:2]]), states)
    unfinished = jax.tree.map(lambda leaf: np.concatenate([leaf[:3], leaf[2:3]]), states)
    assert actions_of(unfinished).tolist() == [1, 2]
    assert actions_of(reset).tolist() == [1, 2, 0, 0, 0]


def test_a_padded_vehicle_that_is_passed_over_has_a_tour(instance, played):
    gap = instance.replace(capacity=np.array([0, 2, 0, 2], np.int32))
    states = played(make(num_nodes=14, num_agents=6), gap, [1, 2, 0, 3, 4, 0])
    actions = actions_of(states)
    assert actions.tolist() == [0, 1, 2, 0, 0, 3, 4, 0]
    assert solution_report(gap, actions).violations["vehicles"].count == 0


def test_random_episodes_cost_what_their_states_say():
    env = make(num_nodes=10, num_agents=3)
    starts = jax.jit(jax.vmap(lambda key: env.init_state(env.generate(key))))(jax.random.split(jax.random.key(2), 8))
    mask, step = jax.jit(env.action_mask), jax.jit(drive)
    rng = np.random.default_rng(0)
    emergencies = 0
    for episode in range(8):
        states, executed = [jax.tree.map(lambda leaf, at=episode: leaf[at], starts)], []
        while not states[-1].done:
            executed.append(int(rng.choice(np.flatnonzero(mask(states[-1])["vehicle"][0]))))
            emergencies += executed[-1] == 0 and int(states[-1].current_load) > 0
            states.append(step(states[-1], np.int32(executed[-1]), np.int32(0)))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        assert actions_of(stacked).tolist() == executed
        problem = jax.tree.map(lambda leaf: leaf[0], stacked.instance)
        report = solution_report(problem, executed, tolerance=1e-3)
        assert report.cost == pytest.approx(float(states[-1].total_distance), rel=1e-5)
        assert report.delivered.sum() == env.metrics(states[-1])["requests_served"]
        assert len({leg.vehicle for leg in report.legs}) == states[-1].vehicles_used and not report.late.any()
    assert emergencies > 0

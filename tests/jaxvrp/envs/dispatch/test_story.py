"""A day is read off its states, and its story tells it."""

import itertools

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp import show
from jaxvrp.envs.dispatch import make_instance
from jaxvrp.envs.dispatch.driven_day import driven_day, driven_stops
from jaxvrp.envs.dispatch.shown.notebook import draw_state
from jaxvrp.envs.dispatch.shown.story import LANES, story_of
from jaxvrp.episodes import follow, from_states, whole
from jaxvrp.story import held
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, padded, play


@pytest.fixture(scope="module", params=ENVS)
def days(request):
    """Environment, and four episodes of random play."""
    env = ENVS[request.param]
    rng = np.random.default_rng(7)
    (states, _), actions = play(env, padded([DAYS[request.param](rng) for _ in range(COUNT)]), jax.random.key(0), 0.0)
    states, actions = jax.device_get((states, actions))
    return env, [
        whole(from_states(env, *jax.tree.map(lambda leaf, i=i: leaf[:, i], (states, actions)))) for i in range(4)
    ]


def place_at(points, time):
    times = [when for when, _ in points]
    return [np.interp(time, times, [place[axis] for _, place in points]) for axis in (0, 1)]


def test_stops_are_read_off_the_states(days):
    """Those of the same actions, whatever the states say of where drivers were sent."""
    env, episodes = days
    for episode in episodes:
        day = driven_day(env, episode.states)
        assert list(day.stops) == driven_stops(env, day.instance, episode.actions)
        totals = episode.states.totals
        assert day.report.feasible and day.report.value == pytest.approx(float(totals.value[-1]), rel=1e-5)
        assert len(day.served) == float(totals.served[-1])
        assert len(day.served) + len(day.rejected) == len(day.requests) == len(episode.states.step) - 1


def test_tracks_are_as_long_as_the_travel(days):
    """And each vehicle is at its stop when service begins there, with its load, never faster than it can."""
    env, episodes = days
    for episode in episodes:
        day = driven_day(env, episode.states)
        travel = 0.0
        for v, track in day.tracks.items():
            pace = 60.0 * day.instance.detour[v] / day.instance.speed[v]
            times = np.array([time for time, _ in track.points])
            minutes = pace * np.linalg.norm(np.diff([place for _, place in track.points], axis=0), axis=1)
            assert (minutes <= np.diff(times) + 1e-2).all() and (np.diff(times) >= 0).all()
            if not env.travel_noise:  # it stands still where it has come to
                np.testing.assert_allclose(minutes[minutes > 0], np.diff(times)[minutes > 0], atol=1e-2)
            travel += minutes.sum()
            loads = [load for _, load in track.loads]
            assert min(loads) == loads[-1] == 0 and max(loads) <= max(
                day.instance.capacity[v], day.instance.load.max() if day.instance.is_drone[v] else 0
            )
        assert travel == pytest.approx(float(episode.states.totals.travel[-1]), rel=1e-4)
        assert day.travel == pytest.approx(float(episode.states.totals.travel[-1]), rel=1e-4)
        for stop in day.stops:
            place = (day.instance.pickup if stop.is_pickup else day.instance.dropoff)[stop.request]
            np.testing.assert_allclose(place_at(day.tracks[stop.vehicle].points, stop.start), place, atol=1e-3)


def test_the_story_tells_every_request(days):
    env, episodes = days
    for episode in episodes:
        story, day = story_of(episode), driven_day(env, episode.states)
        ends = [place for place in story.places if place.kind != "depot"]
        assert len(ends) == len(day.requests) * (2 if env.num_zones_each_way else 1)
        standings = [place.standings[-1] for place in ends]
        assert sum(standing.name == "lost" for standing in standings) == len(day.rejected) == len(story.lost) > 0
        served = [standing for standing in standings if standing.name == "served"]
        assert len(served) == len(day.served) * (2 if env.num_zones_each_way else 1) > 0
        assert [len(times) for _, _, times in story.charts[1].series] == [len(day.served), len(day.rejected)]
        assert [row.label for row in story.charts[0].rows] == [*(each.name for each in story.vehicles), "rejected"]
        for row in story.charts[0].rows:
            rides = sorted((bar.begin, bar.end, bar.where) for bar in row.bars if bar.look == "ride")
            aboard = [sum(begin <= start < end for begin, end, _ in rides) for start, _, _ in rides]
            assert max(aboard, default=0) > LANES or not any(
                other[2] == ride[2] and other[0] < ride[1] for ride, other in itertools.combinations(rides, 2)
            )
        assert sum(len(row.bars) for row in story.charts[0].rows) == 2 * len(day.served)
        assert [event.step for event in story.events] == [*range(1, len(day.requests) + 1)]
        assert story.cards[0].steps[-1][0] == "all answered" and len(story.clocks) == len(episode.states.step)


def test_vehicles_drive_serve_and_wait_where_their_tracks_say(days):
    _, episodes = days
    story = story_of(episodes[0])
    for vehicle in story.vehicles:
        for activity in vehicle.activities:
            here, there = (place_at(vehicle.track, time) for time in (activity.begin, activity.end))
            assert (activity.name == "moves") == (np.hypot(*np.subtract(there, here)) > 1e-6)
        for place in (place for place in story.places if place.standings):
            last = place.standings[-1]
            if last.vehicle is not None and story.vehicles[last.vehicle] is vehicle:
                np.testing.assert_allclose(place_at(vehicle.track, last.time), place.position, atol=1e-3)
                before = held([(aim.time, aim) for aim in vehicle.aims], last.time - 1e-3)
                assert before is not None and any(np.allclose(place.position, goal) for goal in before[1].places)


DONE = {
    "ride_pooling": [("moves", 0, 10), ("waits", 10, 60), ("serves", 60, 65), ("moves", 65, 75), ("serves", 75, 80)],
    "same_day": [("waits", 0, 5), ("moves", 5, 15), ("waits", 15, 60), ("serves", 60, 65), ("moves", 65, 75)],
}
"""A vehicle is 50 or 45 minutes early at a stop; with a depot it loads first, and drives home."""


@pytest.mark.parametrize("scenario", DONE)
def test_who_waits_at_a_stop_does_not_serve_yet(scenario):
    ends = {"depot": [0, 0], "dropoff": [[3, 4]], "dropoff_earliest": [60]}
    if scenario == "ride_pooling":
        ends = {"start": [[0, 0]], "pickup": [[3, 4]], "pickup_earliest": [60], "dropoff": [[6, 8]]}
    day = make_instance([0], dropoff_deadline=[100], capacity=[1], speed=30, stop_time=5, horizon=120, **ends)
    sizes = {"num_vehicles": 1, "max_requests": 1, "max_stops": 2}
    env = jaxvrp.make("dispatch", scenario=scenario, **sizes, **({"num_drones": 0} if "depot" in ends else {}))
    actions = {name: np.full((1, 1), name == "dispatcher", np.int32) for name in env.roles}
    (vehicle,) = story_of(follow(env, day, actions)).vehicles
    done = [(each.name, each.begin, each.end) for each in vehicle.activities if each.end > each.begin]
    assert [name for name, *_ in done] == [name for name, *_ in DONE[scenario]]
    np.testing.assert_allclose([times for _, *times in done], [times for _, *times in DONE[scenario]], atol=1e-3)


def test_a_day_can_be_drawn_and_played(days, tmp_path):
    _, episodes = days
    for ending in ("png", "html", "json"):
        show.save(episodes[1], tmp_path / f"day.{ending}")
        assert (tmp_path / f"day.{ending}").stat().st_size > 10_000


def test_states_of_no_episode_are_refused(days):
    _, episodes = days
    single = jax.tree.map(lambda leaf: leaf[0], (episodes[0].states, episodes[0].timesteps))
    with pytest.raises(ValueError, match="the states of one episode"):
        story_of(episodes[0].replace(states=single[0], timesteps=single[1]))


def test_a_state_shows_itself(days):
    states = days[1][0].states
    state = jax.tree.map(lambda leaf: leaf[2], states)
    still = draw_state(state)
    assert "request 2:" in still.caption and "vehicles can take it" in still.caption
    over = draw_state(jax.tree.map(lambda leaf: leaf[-1], states))
    assert "requests accepted" in over.caption and "can take it" not in over.caption
    assert still.pixels().shape == (700, 640, 3)
    assert state._repr_html_() == still.html()
    assert jax.eval_shape(draw_state, jax.tree.map(lambda leaf: leaf[0], states)) is None

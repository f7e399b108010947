"""Stories as JSON: what is written, what is refused, and that nothing which is damaged gets by unnoticed."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from jaxvrp import show
from jaxvrp.actor import RandomActor
from jaxvrp.episodes import record_episode
from jaxvrp.show.__main__ import main
from jaxvrp.show.episode_format import check, to_json
from jaxvrp.show.story_format import to_json_values
from jaxvrp.story import Lines, Rows
from tests.jaxvrp.show.stories import FLIGHTS, RIDES, assert_refused, episode_of
from tests.refusals import changed

CARD = {"title": "a", "vehicle": None, "steps": []}


@pytest.mark.parametrize("story", [RIDES, FLIGHTS])
def test_a_story_comes_back_as_it_was(story, tmp_path):
    episode = episode_of(story)
    show.write_episode(episode, tmp_path / "a.json")
    assert show.read_episode(tmp_path / "a.json") == episode
    assert to_json(json.loads((tmp_path / "a.json").read_text())) == (tmp_path / "a.json").read_text()
    assert main([str(tmp_path / "a.json")]) == 0, "no environment of this name is needed"


def test_numbers_are_the_shortest_of_their_precision():
    assert to_json_values((np.float32(0.1), float(np.float32(0.1)), 1.7e9 + 0.25, np.int64(3), np.inf, None, True)) == [
        *(0.1, 0.1, 1700000000.25, 3, None, None, True)
    ]


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        ("", [], "story is []; it must be an object"),
        ("clocks", ..., "story.clocks is missing"),
        ("clocks", [0.0], "story.clocks has 1 entries; it must have 11"),
        ("vehicles/1/kind", "bird", "story.vehicles[1].kind is 'bird'; it must be one of: truck, drone,"),
        ("places/1/standings/0/name", "eaten", "standings[0].name is 'eaten'; it must be one of: hidden"),
        ("places/1/standings/1/vehicle", 3, "[1].vehicle is 3; it must be a whole number from 0 to 2"),
        ("places/1/standings/0/time", 9.0, "standings[1] is earlier than the entry before it; times"),
        ("vehicles/0/track", [[4, [0, 0]], [3, [0, 0]]], "vehicles[0].track[1] is earlier than the entry"),
        ("vehicles/0/track", [[4, [0, None]]], "track[0][1][1] is None; it must be a finite number"),
        ("vehicles/1/hosts", [[0, 7]], "vehicles[1].hosts[0][1] is 7; it must be a whole number from 0 to"),
        ("vehicles/1/turns", [[11, 0.0]], "turns[0][0] is 11; it must be a whole number from 0 to 10"),
        ("charts/0", {"title": "a"}, "story.charts[0] has not the keys of any chart; give it title, rows, keys;"),
        ("charts/1/rows/0/bars/0/look", "blue", "bars[0].look is 'blue'; it must be one of: window"),
        ("charts/0/vehicles", [5], "charts[0].vehicles[0] is 5; it must be a whole number from 0 to 2"),
        ("is_feasible", 1, "story.is_feasible is 1; it must be true or false"),
        ("words", {"served": 3}, "story.words.served is 3; it must be a text"),
        ("cards", [{**CARD, "agent": 0}], "story.cards[0].steps has 0 entries; it must have 11"),
        ("cards", [{**CARD, "agent": 1}], "story.cards[0].agent is 1; it must be a whole number from 0 to 0"),
    ],
)
def test_damage_is_one_line_with_the_place(where, value, says, tmp_path, capsys):
    episode = changed(episode_of(FLIGHTS), f"story/{where}".rstrip("/"), value)
    assert_refused(episode, says, tmp_path, capsys)


@pytest.mark.parametrize("story", [RIDES, FLIGHTS])
def test_every_entry_is_checked(story):
    """An object in the place of any text, number or truth value is noticed, wherever it stands."""
    sound = episode_of(story)

    def places(value, path):
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                yield from places(value[key], (*path, key))
        else:
            yield path

    for path in places(sound["story"], ("story",)):
        with pytest.raises(ValueError, match="it must"):
            check(changed(sound, "/".join(map(str, path)), {}))


def test_an_environment_that_writes_no_story_has_a_page(reach, tmp_path):
    instance, key = reach.generate(jax.random.key(0)), jax.random.key(1)
    episode = record_episode(reach, RandomActor(reach), instance, key)
    show.save(episode, tmp_path / "own.html")
    shown = show.export_episode(episode)
    places, states = shown["story"]["places"], episode.states
    tracks = [[place for _, place in vehicle["track"]] for vehicle in shown["story"]["vehicles"]]
    length = len(shown["steps"])
    np.testing.assert_array_equal(np.float32(tracks).swapaxes(0, 1), np.asarray(states.position)[:length])
    assert [place["kind"] for place in places] == ["node"] * len(places)
    assert [card["agent"] for card in shown["story"]["cards"]] == list(range(len(shown["agents"])))
    assert shown["actions"] == {"mover": None, "caller": ["action 0", "action 1", "action 2"]}
    assert dict(shown["story"]["summary"])["steps"] == str(length - 1)


def test_charts_of_fields():
    from jaxvrp.show.generic import _charts

    flags, levels = np.array([[1, 0], [1, 0], [0, 1]], bool), np.float32([[0.5] * 20, [1.5] * 20, [np.nan] * 20])
    rows, lines = _charts({"is_open": flags, "same": np.zeros(3), "level": levels})
    assert isinstance(rows, Rows) and [[(bar.begin, bar.end) for bar in row.bars] for row in rows.rows] == [
        *([(0.0, 2.0)], [(2.0, 2.0)])
    ]
    assert lines == Lines("level", (("mean of 20", None, ((0.0, 0.5), (1.0, 1.5))),))


def test_what_stands_beside_the_story_is_not_written_twice():
    written = to_json_values(dataclasses.replace(RIDES, why={"agent": ()}, episode=object()))
    assert not {"title", "lost", "shortfall", "actions", "why", "instead", "episode"} & set(written)

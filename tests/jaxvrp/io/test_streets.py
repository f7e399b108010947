"""Matrices of ways along streets: what is read, refused in one line, closed, and drawn."""

import itertools
import json

import jax
import numpy as np
import pytest

from jaxvrp.geography.street_files import read_streets
from jaxvrp.geography.streets import closed, drawn_detours, matrix_of
from tests.refusals import refusal

SECONDS = [[0, 60, 90.5], [70, 0, 30], [95, 35, 0]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("osrm.json", json.dumps({"code": "Ok", "durations": SECONDS, "sources": []})),
        ("vroom.json", json.dumps({"jobs": [], "matrices": {"car": {"durations": SECONDS}}})),
        ("plain.csv", "0,60,90.5\n70,0,30\n95,35,0\n"),
        ("decimal_commas.csv", "\ufeff0;60;90,5\r\n70;0;30\r\n95;35;0\r\n"),
        ("tabs.tsv", "0\t60\t90.5\n70\t0\t30\n95\t35\t0\n"),
        ("names.csv", "a,b,c\n0,60,90.5\n70,0,30\n95,35,0\n"),
        ("names_both_ways.csv", ",a,b,c\na,0,60,90.5\nb,70,0,30\nc,95,35,0\n"),
        ("numbers_both_ways.csv", "id,7,8,9\n7,0,60,90.5\n8,70,0,30\n9,95,35,0\n"),
    ],
)
def test_a_table_is_read_from_files_of_others(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, newline="")
    table = read_streets(path)
    np.testing.assert_array_equal(table.seconds, SECONDS)
    assert table.metres is None


def test_distances_are_read_beside_durations(tmp_path):
    path = tmp_path / "osrm.json"
    path.write_text(json.dumps({"durations": SECONDS, "distances": (10 * np.array(SECONDS)).tolist()}))
    np.testing.assert_array_equal(read_streets(path).metres, 10 * np.array(SECONDS))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"code": "NoTable"}, "durations is missing"),
        ({"matrices": {"bike": {"durations": SECONDS}}}, "matrices has no profile 'car', but bike"),
        ({"durations": SECONDS[:2]}, "durations[0] has 3 entries; it needs 2"),
        ({"durations": [[0, 1], [2, 0], [3]]}, "durations[0] has 2 entries; it needs 3"),
        ({"durations": [[0, None], [2, 0]]}, "durations[0][1] is empty: there is no way from location 0 to location 1"),
        ({"durations": [[0, -1], [2, 0]]}, "durations[0][1] is -1; a way takes at least 0"),
        ({"durations": [[0, 1], [2, 3]]}, "durations[1][1] is 3; the way from a location to itself is 0"),
        ({"durations": [[0, "1"], [2, 0]]}, "durations[0][1] is no number"),
        ({"matrices": {"car": {"durations": [[0, 1], [None, 0]]}}}, "matrices.car.durations[1][0] is empty"),
        ({"durations": SECONDS, "distances": [[0, 1], [1, 0]]}, "distances has 2 rows; it needs 3"),
    ],
)
def test_a_wrong_table_is_refused_by_field_row_and_column(tmp_path, content, found):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(content))
    message = refusal(read_streets, path)
    assert message.startswith(f"{path}: ") and found in message


def test_a_wrong_csv_is_refused_by_row_and_column(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("0,1,2\n1,,2\n2,1,0\n")
    assert "the table[1][1] is empty" in refusal(read_streets, path)
    path.write_text("0,1,2\n1,0,x\n2,1,0\n")
    assert "line 2" in refusal(read_streets, path)


def test_another_size_than_that_of_the_problem_is_refusal():
    assert refusal(matrix_of, SECONDS, "travel_time", 5) == "travel_time has 3 rows; it needs 5, one for each location"
    assert "travel_time[0][1] is empty" in refusal(matrix_of, np.array([[0, np.nan], [1, 0]]), "travel_time")


def test_a_closed_matrix_has_the_shortest_paths_and_the_distances_along_them():
    rng = np.random.default_rng(0)
    time, length = (rng.uniform(1, 10, (6, 6)) * (1 - np.eye(6)) for _ in range(2))
    shortest, along, shortened = closed(time, length)
    for start, end in itertools.permutations(range(6), 2):
        others = [place for place in range(6) if place not in (start, end)]
        paths = [(start, *by, end) for count in range(5) for by in itertools.permutations(others, count)]
        sums = [
            tuple(sum(matrix[leg] for leg in itertools.pairwise(path)) for matrix in (time, length)) for path in paths
        ]
        assert (shortest[start, end], along[start, end]) == pytest.approx(min(sums))
    assert shortened == (shortest < 0.999 * time).sum() > 0
    again, _, none = closed(shortest)
    np.testing.assert_array_equal(again, shortest)
    assert none == 0


def test_drawn_detours_are_asymmetric_closed_and_within_their_bound():
    places = jax.random.uniform(jax.random.key(1), (9, 2))
    added = np.asarray(drawn_detours(jax.random.key(0), places, 0.5))
    straight = np.linalg.norm(places[:, None] - places[None], axis=-1)
    assert (added >= 0).all() and (added <= 0.5 * straight + 1e-6).all()
    assert np.abs(added - added.T).max() > 0.05
    ways = straight + added
    assert (ways <= (ways[:, :, None] + ways[None]).min(axis=1) + 1e-6).all()
    np.testing.assert_array_equal(drawn_detours(jax.random.key(0), places, 0.0), 0.0)

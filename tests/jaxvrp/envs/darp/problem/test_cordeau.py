"""The benchmark format: round trips, both headers, and every way in which a file can be broken."""

import jax
import numpy as np
import pytest

from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_cordeau, to_cordeau_index, write_cordeau
from jaxvrp.envs.darp.problem.instance import as_float32, make_instance, pad, stack

TWO_REQUESTS = """\
3 2 480 6 30
0  0.5 0.25 0  0   0  480
1 -1.5 2.0  3  1   0 1440
2  4.0 0.1  5  2  60   75
3  2.5 8.0  4 -1 100  115.5
4  0.0 7.0  1 -2   0 1440
5  0.5 0.25 0  0   0  480
"""


def edited(line, column, word):
    """`TWO_REQUESTS` with another word in a line (from 1) and column (from 0)."""
    rows = [row.split() for row in TWO_REQUESTS.splitlines()]
    rows[line - 1][column] = word
    return "\n".join(map(" ".join, rows)) + "\n"


def without(*lines):
    return "".join(row for at, row in enumerate(TWO_REQUESTS.splitlines(keepends=True), 1) if at not in lines)


def test_a_file_is_read_into_interleaved_order(write, assert_same):
    instance = read_cordeau(write(TWO_REQUESTS))
    expected = make_instance(
        [[0.5, 0.25], [-1.5, 2.0], [2.5, 8.0], [4.0, 0.1], [0.0, 7.0]],
        [0, 1, -1, 2, -2],
        [480, 1440, 115.5, 75, 1440],
        capacity=[6, 6, 6],
        earliest=[0, 0, 100, 60, 0],
        service_time=[0, 3, 4, 5, 1],
        vehicle_speed=1.0,
        max_ride_time=30.0,
        max_route_duration=480.0,
        round_travel_time=False,
    )
    assert_same(instance, expected)
    assert instance.locs.dtype == instance.earliest.dtype == np.float64


@pytest.mark.parametrize(
    "text",
    [
        TWO_REQUESTS.replace("3 2 480", "3 4 480"),
        without(7),
        without(7).replace("3 2 480", "3 4 480"),
        TWO_REQUESTS.replace("\n", "\r\n"),
        "\ufeff\n" + TWO_REQUESTS.replace("\n", "\n  \n").rstrip(),
        TWO_REQUESTS.replace(" ", "\t"),
    ],
    ids=["twice the requests", "no end depot", "both", "Windows", "blank lines", "tabs"],
)
def test_other_forms_of_the_same_file(write, text, assert_same):
    expected = read_cordeau(write(TWO_REQUESTS))
    assert_same(read_cordeau(write(text)), expected)


HEADER = "'vehicles requests T Q L'"
COLUMNS = "'id x y service demand early late'"
BROKEN = {
    "empty": ("", f"line 1: expected {HEADER}, found an empty file"),
    "blank": ("\n \n\t\n", f"line 1: expected {HEADER}, found an empty file"),
    "binary": (b"\x93NUMPY\xff\xfe\x00", "byte 0: expected text, found binary data"),
    "zeros": (b"\x00" * 40, "byte 0: expected text, found binary data; give a file in the format of"),
    "prose": ("An instance\n", f"line 1: expected the 5 numbers {HEADER}, found 2"),
    "short header": (TWO_REQUESTS.replace(" 6 30", " 6"), f"line 1: expected the 5 numbers {HEADER}, found 4"),
    "header only": (without(2, 3, 4, 5, 6, 7), "line 1: expected 5 or 3 node lines for a second number of 2"),
    "letters": (edited(4, 5, "6O"), "line 4: expected a number below 1000000000000 for early, found '6O'"),
    "not a number": (edited(3, 1, "nan"), "line 3: expected a number below 1000000000000 for x, found 'nan'"),
    "infinite": (edited(3, 6, "inf"), "line 3: expected a number below 1000000000000 for late, found 'inf'"),
    "beyond float32": (edited(3, 1, "1e308"), "line 3: expected a number below 1000000000000 for x, found '1e308'"),
    "digits without end": (
        edited(3, 2, "9" * 5000),
        "line 3: expected a number below 1000000000000 for y, found '9999",
    ),
    "a line without end": (
        edited(3, 2, "9" * 200_000),
        "line 3: expected at most 131072 characters; give a file in the",
    ),
    "half a passenger": (edited(3, 4, "0.5"), "line 3: expected a whole number below 1000000 for demand, found '0.5'"),
    "half a vehicle": (edited(1, 0, "2.5"), "line 1: expected a whole number below 1000000 for vehicles, found '2.5'"),
    "too many vehicles": (edited(1, 0, "1e300"), "line 1: expected a whole number below 1000000 for vehicles, found"),
    "no vehicle": (edited(1, 0, "0"), f"line 1: expected numbers above 0 for {HEADER}"),
    "no request": (edited(1, 1, "0"), f"line 1: expected numbers above 0 for {HEADER}"),
    "no duration": (edited(1, 2, "0"), f"line 1: expected numbers above 0 for {HEADER}"),
    "negative ride": (edited(1, 4, "-1"), f"line 1: expected numbers above 0 for {HEADER}"),
    "wrong count": (edited(1, 1, "3"), "line 1: expected 7 node lines for a second number of 3, and perhaps"),
    "missing lines": (without(4, 5, 6, 7), "line 1: expected 5 or 3 node lines for a second number of 2, and perhaps"),
    "half missing": (without(6, 7), "line 4: expected demand -1, the negative of pickup 1's, found 2"),
    "surplus line": (TWO_REQUESTS + "6 0 0 0 0 0 480\n", "and perhaps the depot once more, found 7"),
    "missing column": (without(3).replace("4 -1 100", "4 -1"), f"line 4: expected the 7 numbers {COLUMNS}, found 6"),
    "surplus column": (edited(5, 6, "115 9"), f"line 5: expected the 7 numbers {COLUMNS}, found 8"),
    "missing middle": (without(4), "line 4: expected id 2, found 3; put the lines in the order of ids"),
    "swapped ids": (edited(3, 0, "2"), "line 3: expected id 1, found 2"),
    "other demand": (edited(6, 4, "-1"), "line 6: expected demand -2, the negative of pickup 2's, found -1"),
    "negative pickup": (edited(3, 4, "-1"), "line 3: expected demand of at least 1 at a pickup, found -1"),
    "empty pickup": (edited(3, 4, "0"), "line 3: expected demand of at least 1 at a pickup, found 0"),
    "empty window": (edited(4, 6, "59"), "line 4: expected late not before early, found 60 to 59"),
    "negative service": (edited(4, 3, "-5"), "line 4: expected service of at least 0, found -5"),
    "depot with demand": (edited(2, 4, "1"), "line 2: expected no service and no demand at the depot"),
    "depot with service": (edited(2, 3, "1"), "line 2: expected no service and no demand at the depot"),
    "other end depot": (edited(7, 1, "0.75"), "line 7: expected the depot of the first node line again"),
    "other end window": (edited(7, 6, "500"), "line 7: expected the depot of the first node line again"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_line_expectation_and_remedy(write, content, message):
    path = write(content)
    with pytest.raises(ValueError) as caught:
        read_cordeau(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "; " in text and "\n" not in text


def test_unreadable_files_stay_operating_system_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_cordeau(tmp_path / "nowhere.txt")
    with pytest.raises(OSError):
        read_cordeau(tmp_path)


def test_a_request_too_large_for_every_vehicle_warns(write):
    with pytest.warns(UserWarning, match="at pickup 3"):
        read_cordeau(write(edited(1, 3, "1")))


def random_instance(seed=0, requests=7):
    rng = np.random.default_rng(seed)
    count = 2 * requests + 1
    demand = np.zeros(count)
    demand[1::2] = rng.integers(1, 4, requests)
    demand[2::2] = -demand[1::2]
    service = rng.exponential(3, count) * (demand != 0)
    early = rng.exponential(100, count)
    late = early + rng.exponential(50, count) * (demand >= 0)
    return make_instance(
        rng.normal(size=(count, 2)) * 10.0 ** rng.integers(-8, 8, (count, 1)),
        demand,
        late,
        capacity=[4, 4],
        earliest=early,
        service_time=service,
        max_ride_time=100 / 3,
        max_route_duration=1000 / 7,
    )


@pytest.mark.parametrize("seed", range(5))
def test_writing_and_reading_keeps_every_digit(tmp_path, seed, assert_same):
    instance = random_instance(seed)
    write_cordeau(tmp_path / "out.txt", instance)
    assert_same(read_cordeau(tmp_path / "out.txt"), instance)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_writing_jax_arrays_keeps_their_float32_values(tmp_path, assert_same):
    instance = as_float32(random_instance())
    write_cordeau(tmp_path / "out.txt", instance)
    assert_same(as_float32(read_cordeau(tmp_path / "out.txt")), instance)


def test_what_is_written_is_the_benchmark_format(tmp_path):
    instance = make_instance(
        [[0, 0], [1.5, 0], [2, -1], [3, 0], [4, 0]],
        [0, 1, -1, 2, -2],
        [480, 15, 20, 30, 40],
        capacity=[3, 3],
        service_time=[0, 1, 1, 2, 2],
        max_ride_time=30,
        max_route_duration=480,
    )
    write_cordeau(tmp_path / "out.txt", instance)
    assert (tmp_path / "out.txt").read_text().splitlines() == [
        "2 2 480 3 30",
        "0 0 0 0 0 0 480",
        "1 1.5 0 1 1 0 15",
        "2 3 0 2 2 0 30",
        "3 2 -1 1 -1 0 20",
        "4 4 0 2 -2 0 40",
        "5 0 0 0 0 0 480",
    ]


UNWRITABLE = {
    "vehicles of different capacity": lambda i: i.replace(capacity=np.array([4, 5], np.int32)),
    "vehicles of capacity 0": lambda i: i.replace(capacity=np.array([0, 0], np.int32)),
    "requests with demand 0": lambda i: pad(i, 20, 2),
    "a vehicle_speed other than 1": lambda i: i.replace(vehicle_speed=np.array(2.0)),
    "round_travel_time": lambda i: i.replace(round_travel_time=np.array(True)),
    "an infinite deadline": lambda i: i.replace(deadline=np.where(i.demand > 0, np.inf, i.deadline)),
    "an infinite max_ride_time": lambda i: i.replace(max_ride_time=np.array(np.inf)),
    "an infinite max_route_duration": lambda i: i.replace(max_route_duration=np.array(np.inf)),
    "one instance of the batch": lambda i: stack([i, i]),
}


@pytest.mark.parametrize(("message", "change"), UNWRITABLE.items(), ids=UNWRITABLE)
def test_what_the_format_cannot_hold_is_named_and_nothing_is_written(tmp_path, message, change):
    with pytest.raises(ValueError, match=message):
        write_cordeau(tmp_path / "out.txt", change(random_instance()))
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, full_disk):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="disk full"):
        write_cordeau(path, random_instance())
    assert [found.name for found in tmp_path.iterdir()] == ["out.txt"] and path.read_text() == "old"


def test_node_numbers():
    np.testing.assert_array_equal(from_cordeau_index(np.arange(8), 3), [0, 1, 3, 5, 2, 4, 6, 0])
    assert from_cordeau_index(4, 3) == 2
    np.testing.assert_array_equal(to_cordeau_index(np.arange(7), 3), [0, 1, 4, 2, 5, 3, 6])
    for outside in (-1, 8):
        with pytest.raises(ValueError, match="outside of 0 to 7"):
            from_cordeau_index([1, outside], 3)


def test_every_published_file_is_read_and_survives_a_round_trip(cordeau_files, tmp_path, assert_same):
    assert cordeau_files
    for path in cordeau_files:
        instance = read_cordeau(path)
        rows = [row.split() for row in path.read_text().splitlines()]
        pickups = [row for row in rows[1:] if float(row[4]) > 0]
        assert instance.num_nodes == 2 * len(pickups), path
        np.testing.assert_array_equal(instance.locs[1::2], [[float(word) for word in row[1:3]] for row in pickups])
        np.testing.assert_array_equal(instance.deadline[1::2], [float(row[6]) for row in pickups])
        assert instance.num_agents == int(rows[0][0]) and instance.max_ride_time == float(rows[0][4])
        write_cordeau(tmp_path / path.name, instance)
        assert_same(read_cordeau(tmp_path / path.name), instance)
        assert jax.tree.all(jax.tree.map(lambda leaf: isinstance(leaf, np.ndarray), instance))

"""Plans of episodes that were computed by hand, and plans whose parts have to agree with each other."""

import csv
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone import parse_map, read_map
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.course import course_of
from jaxvrp.envs.truck_drone.plan import PROBLEMS
from jaxvrp.envs.truck_drone.shown.story import story_of
from jaxvrp.episodes import from_states, record_episode

MAPS = pathlib.Path(__file__).parents[4] / "docs" / "maps"

SMALL = {
    "format": "jaxvrp-truck-drone-1",
    "scale": {"length": 100, "center": [0, 0], "time": 1},
    "horizon": 40,
    "truck": {"id": "van", "position": [0, 0], "speed": 10},
    "nodes": [{"id": "east", "position": [20, 0]}, {"id": "north", "position": [20, 30]}],
    "customers": [{"id": "house", "position": [0, 40], "demand": 1, "window": [10, 30]}],
    "drones": [{"id": "red", "speed": 20, "range": 200, "hover_time": 50, "recharge_time": 40, "payload_factor": 0.5}],
}
"""A map unit is 100, a step 1: the truck drives 10 in it, a drone flies 20, and draws 0.005 for each, laden 0.0075."""

EAST, NORTH, RELEASE, STAY = 1, 2, 3, 0
HOVER, RETURN, DELIVER = 0, 1, 2
TO_NORTH = [(EAST, HOVER)] * 2 + [(NORTH, HOVER)] * 3 + [(RELEASE, HOVER)]


@pytest.fixture(scope="module")
def played():
    """`played(map, actions, **parameters)`: one drone's episode in `vrpd_tw`; one program for all."""
    step = jax.jit(lambda env, state, truck, drone: env.step(state, {"truck": truck[None], "drone": drone[None]})[0])
    scenario = jaxvrp.make("vrpd_tw")

    def episode(fleet_map, actions, **parameters):
        env = fleet_map.environment(scenario).replace(**parameters)
        states = [env.init_state(fleet_map.instance())]
        for truck, drone in actions:
            states.append(step(env, states[-1], jnp.int32(truck), jnp.int32(drone)))
        return from_states(env, jax.tree.map(lambda *leaves: np.stack(leaves), *states))

    return episode


@pytest.fixture(scope="module")
def play(played):
    """`play(map, actions, **parameters)`: the plan of such an episode."""
    return lambda fleet_map, actions, **parameters: PROBLEMS.plan(fleet_map, played(fleet_map, actions, **parameters))


def rows(plan):
    return [tuple(event[name] for name in ("start", "end", "who", "what", "where")) for event in plan["events"]]


def test_a_sortie_by_hand(play):
    """It waits for the window, which opens at 10, from 8 on: 22.36 are flown by then, laden."""
    plan = play(parse_map(SMALL), [*TO_NORTH, *[(STAY, DELIVER)] * 4, (STAY, RETURN), (STAY, HOVER)])
    assert rows(plan) == [
        (0, 2, "van", "drive", "east"),
        (2, 5, "van", "drive", "north"),
        (5, 5, "red", "launch", "north"),
        (5, 11, "van", "wait", "north"),
        (8, 10, "red", "wait", "house"),
        (10, 10, "red", "deliver", "house"),
        (11, 11, "red", "board", "north"),
    ]
    (sortie,) = plan["sorties"]
    laden = 0.0075 * np.hypot(20, 10)
    delivered = 1 - 0.02 - laden - 0.02  # it hovers in the step of its release, and in one of the two that it waits
    assert sortie["launch"] == {"time": 5, "position": [20, 30], "battery": 1, "where": "north"}
    assert sortie["deliveries"][0]["battery"] == pytest.approx(delivered, abs=2e-6)
    assert sortie["end"]["battery"] == pytest.approx(delivered - 0.1, abs=2e-6)
    assert (sortie["outcome"], sortie["end"]["time"], sortie["end"]["position"]) == ("recovered", 11, [20, 30])
    customer = {"customer": "house", "position": [0, 40], "demand": 1, "window": [10, 30]}
    assert plan["customers"] == [{**customer, "drone": "red", "time": 10, "waited": 2, "late": 0}]
    summary = plan["summary"]
    assert (summary["end"], summary["served"], summary["on_time"], summary["drones_in_the_air"]) == (11, 1, 1, 0)
    assert summary["truck_distance"] == pytest.approx(50, rel=1e-6)
    assert summary["drone_distance"] == pytest.approx(np.hypot(20, 10) + 20, rel=1e-6)
    assert summary["distance"] == pytest.approx({"van": 50, "red": np.hypot(20, 10) + 20}, rel=1e-6)
    assert plan["feasible"] and plan["reasons"] == []
    assert plan["totals"] == {"end": "11", "distance of van": "50", "distance of red": "42.4"}
    assert summary["battery_used"] == pytest.approx(1 - sortie["end"]["battery"], abs=2e-6)


def test_a_drone_on_board_waits_for_nobody(played):
    """The truck is at the customer from 2 on; the drone is released in the step after 6, for a window from 10 on."""
    house = {**SMALL["customers"][0], "position": [20, 0]}
    actions = [*[(EAST, HOVER)] * 2, *[(STAY, HOVER)] * 4, (RELEASE, HOVER), *[(STAY, DELIVER)] * 3, (STAY, RETURN)]
    for window, waited in (([10, 30], 4), ([0, 30], 0)):
        fleet_map = parse_map({**SMALL, "customers": [{**house, "window": window}]})
        episode = played(fleet_map, actions)
        served = 6 + (waited or 2)
        waits = [(6, served, "red", "wait", "house")] if waited else []
        assert [each for each in rows(PROBLEMS.plan(fleet_map, episode)) if each[2] == "red"] == [
            (6, 6, "red", "launch", "east"),
            *waits,
            (served, served, "red", "deliver", "house"),
            (11, 11, "red", "board", "east"),
        ]
        assert course_of(episode).steps_waited.tolist() == [waited]
        (row,) = story_of(episode, fleet_map).charts[0].rows
        assert [(bar.begin, bar.end) for bar in row.bars if bar.look == "wait"] == [each[:2] for each in waits]


def test_late_is_counted_in_the_units_of_the_map(play):
    """A drone serves from 5 away, and it has 2.36 left at 7."""
    content = {**SMALL, "customers": [{**SMALL["customers"][0], "window": [0, 6.5]}]}
    plan = play(parse_map(content), [*TO_NORTH, *[(STAY, DELIVER)] * 2])
    (customer,) = plan["customers"]
    assert (customer["time"], customer["waited"], customer["late"]) == (7, 0, 0.5)
    assert (plan["summary"]["on_time"], plan["summary"]["drones_in_the_air"]) == (0, 1)
    assert not plan["feasible"]
    assert plan["reasons"] == ["1 late (house by 0.5)", "1 in the air at the end (red)"]
    assert plan["sorties"][0]["outcome"] == "in the air"


def test_a_crash(play):
    content = {**SMALL, "drones": [{**SMALL["drones"][0], "range": 15}]}
    plan = play(parse_map(content), [*TO_NORTH, *[(STAY, DELIVER)] * 4], forced_return_factor=0.0)
    (sortie,) = plan["sorties"]
    assert (sortie["outcome"], sortie["deliveries"], sortie["end"]["time"]) == ("crashed", [], 7)
    share = 20 / np.hypot(20, 10)
    rounding = 0.5 * 1e-6 * 100  # a map unit is 100
    np.testing.assert_allclose(sortie["end"]["position"], [20 - share * 20, 30 + share * 10], rtol=0, atol=rounding)
    assert rows(plan)[-1] == (7, 7, "red", "crash", "(2.1, 38.9)")
    assert not plan["feasible"] and plan["reasons"][:2] == ["1 not served (house)", "1 crashed (red)"]
    unserved = {name: plan["customers"][0][name] for name in ("drone", "time", "waited", "late")}
    assert unserved == dict.fromkeys(unserved)
    assert plan["summary"]["drones_crashed"] == 1


def test_a_truck_that_stops_and_turns_on_the_way(play):
    plan = play(parse_map(SMALL), [(EAST, HOVER), (STAY, HOVER), (NORTH, HOVER), (EAST, HOVER)])
    assert rows(plan) == [
        (0, 1, "van", "drive", "(10, 0)"),
        (1, 2, "van", "wait", "(10, 0)"),
        (2, 3, "van", "drive", "(13.2, 9.5)"),
        (3, 4, "van", "drive", "(19, 1.4)"),
    ]
    assert plan["truck"][1]["x"] == 10


def test_what_follows_the_last_work_is_no_part_of_a_plan(play):
    """The truck drives on to the end of the time, since no drone was sent: there is nothing to be done."""
    plan = play(parse_map({**SMALL, "horizon": 30}), [(EAST, HOVER), (NORTH, HOVER)] * 15)
    assert (plan["truck"], plan["summary"]["end"], plan["summary"]["truck_distance"]) == ([], 0, 0)
    assert plan["reasons"] == ["1 not served (house)"]


def test_distances_of_drones_that_board_at_once_sum_to_the_total(island):
    summary = island[1]["summary"]
    assert sum(summary["distance"][name] for name in ("gull", "tern")) == pytest.approx(
        summary["drone_distance"], rel=1e-5
    )
    assert min(summary["distance"].values()) > 0


def test_the_sheets_say_who_does_what_when_where_and_with_what(play):
    fleet_map = parse_map({**SMALL, "units": {"time": "min", "demand": "kg"}})
    plan = play(fleet_map, [*TO_NORTH, *[(STAY, DELIVER)] * 4, (STAY, RETURN), (STAY, HOVER)])
    van, red = PROBLEMS.sheets(fleet_map, plan)
    assert van.columns == ("from (min)", "to (min)", "what", "where", "package (kg)", "battery", "late (min)")
    assert (van.title, red.title, red.note) == ("van", "red", "42.4")
    assert ("5", "5", "launch red", "north", "1 for house", "100%", "") in van.rows
    assert [row[2:5] for row in red.rows] == [
        ("launch", "north", "1 for house"),
        ("wait", "house", ""),
        ("deliver", "house", "1"),
        ("board", "north", ""),
    ]


def test_the_sheets_have_all_digits_of_a_clock_that_is_far_from_0(play):
    """Of Unix time, and of loads in grams; formerly 1.7e+09 and 1.2e+06."""
    begin = 1_700_000_000
    house = {**SMALL["customers"][0], "window": [begin, begin + 30], "demand": 1234567}
    scale = {**SMALL["scale"], "demand": 1234567}
    fleet_map = parse_map({**SMALL, "scale": scale, "horizon": begin + 40, "customers": [house]})
    plan = play(fleet_map, [*TO_NORTH, *[(STAY, DELIVER)] * 4, (STAY, RETURN), (STAY, HOVER)])
    van, red = PROBLEMS.sheets(fleet_map, plan)
    assert ("1700000005", "1700000005", "launch red", "north", "1234567 for house", "100%") in [
        row[:6] for row in van.rows
    ]
    assert [row[4] for row in red.rows if row[2] == "deliver"] == ["1234567"]


@pytest.fixture(scope="module")
def island():
    """The plan of the dispatcher on the island, and what it was made from."""
    fleet_map = read_map(MAPS / "island.json")
    env = fleet_map.environment(jaxvrp.make("vrpd_tw"))
    episode = jax.jit(lambda: record_episode(env, GreedyActor(env), fleet_map.instance(), jax.random.key(0)))()
    return fleet_map, PROBLEMS.plan(fleet_map, jax.device_get(episode))


def test_the_parts_of_a_plan_agree(island):
    fleet_map, plan = island
    truck = plan["truck"]
    assert [event["end"] for event in truck[:-1]] == [event["start"] for event in truck[1:]]
    assert (truck[0]["start"], truck[-1]["end"]) == (0, plan["summary"]["end"])
    corners = np.array([fleet_map.truck.position, *((event["x"], event["y"]) for event in truck)])
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    assert lengths.sum() == pytest.approx(plan["summary"]["truck_distance"], rel=1e-5)
    for event, length in zip(truck, lengths, strict=True):
        assert (length == pytest.approx(0, abs=1e-5)) == (event["what"] == "wait")
        assert length <= fleet_map.truck.speed * (event["end"] - event["start"]) * (1 + 1e-5)
    nodes = {node.id: node.position for node in fleet_map.nodes}
    for event in truck:
        if event["where"] in nodes:
            np.testing.assert_allclose((event["x"], event["y"]), nodes[event["where"]], atol=1e-5)


def test_everybody_is_served_once_where_they_are_when_they_are_known(island):
    fleet_map, plan = island
    delivered = [(sortie["drone"], delivery) for sortie in plan["sorties"] for delivery in sortie["deliveries"]]
    assert sorted(delivery["customer"] for _, delivery in delivered) == sorted(c.id for c in fleet_map.customers)
    customers = {customer.id: customer for customer in fleet_map.customers}
    for drone, delivery in delivered:
        customer = customers[delivery["customer"]]
        entry = next(entry for entry in plan["customers"] if entry["customer"] == customer.id)
        assert (entry["drone"], entry["time"]) == (drone, delivery["time"])
        assert delivery["time"] >= max(customer.window[0], customer.known_from or 0)
        assert delivery["late"] == pytest.approx(max(0, delivery["time"] - customer.window[1]))
    for sortie in plan["sorties"]:
        (delivery,) = sortie["deliveries"] or [None]
        launch, end = sortie["launch"], sortie["end"]
        assert sortie["outcome"] == "recovered" and launch["time"] < end["time"]
        if delivery:
            assert launch["time"] < delivery["time"] < end["time"]
            assert launch["battery"] > delivery["battery"] > end["battery"] > 0


def test_both_files_hold_the_plan(island, tmp_path):
    fleet_map, plan = island
    PROBLEMS.write_plan(fleet_map, tmp_path / "plan.json", plan)
    assert json.loads((tmp_path / "plan.json").read_text()) == plan
    PROBLEMS.write_plan(fleet_map, tmp_path / "plan.csv", plan)
    with (tmp_path / "plan.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert lines == [{name: "" if value is None else str(value) for name, value in e.items()} for e in plan["events"]]
    with pytest.raises(ValueError, match=r"a plan is written to \.json or \.csv, not to 'plan\.txt'"):
        PROBLEMS.write_plan(fleet_map, tmp_path / "plan.txt", plan)


def test_a_map_with_a_start_has_times_of_the_clock_in_its_files(play, tmp_path):
    by_the_clock = parse_map({**SMALL, "start": "23:50", "units": {"time": "min"}})
    plan = play(by_the_clock, [*TO_NORTH, *[(STAY, DELIVER)] * 4, (STAY, RETURN), (STAY, HOVER)])
    for path in (tmp_path / "plan.json", tmp_path / "plan.csv"):
        PROBLEMS.write_plan(by_the_clock, path, plan)
    written = json.loads((tmp_path / "plan.json").read_text())
    (sortie,) = written["sorties"]
    assert (sortie["launch"]["time"], sortie["deliveries"][0]["time"]) == ("23:55", "00:00 +1")
    assert written["customers"][0]["window"] == ["00:00 +1", "00:20 +1"]
    assert written["summary"]["end"] == written["totals"]["end"] == written["events"][-1]["end"]
    with (tmp_path / "plan.csv").open() as file:
        assert next(csv.DictReader(file))["start"] == "23:50"

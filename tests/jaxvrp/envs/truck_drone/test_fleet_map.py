"""Maps: every mistake is named by its field, units are nothing but units, and what is written is read again."""

import copy
import json
import math
import pathlib
import time

import chex
import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.truck_drone import map_of, parse_map, read_map, write_map
from jaxvrp.envs.truck_drone.problem.__main__ import main
from jaxvrp.envs.truck_drone.problem.inspection import inspect, reach_of

MAPS = pathlib.Path(__file__).parents[4] / "docs" / "maps"
TOWN = json.loads((MAPS / "market_town.json").read_text())
BASIC = "jaxvrp.envs.truck_drone:TruckDroneBasic"


def changed(*path_and_value):
    """The town with something else in one place; `...` takes it away."""
    *path, last, value = path_and_value
    content = copy.deepcopy(TOWN)
    inner = content
    for name in path:
        inner = inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return content


@pytest.fixture(scope="module")
def envs():
    return {name: jaxvrp.make(name) for name in ("truck_drone", "vrpd_tw")}


MISTAKES = [
    (("customers", 3, "window", [9, 4]), "customers[3].window: end 4 before start 9"),
    (("customers", 3, "window", [9, 101]), "customers[3].window: end 101 after the horizon 100"),
    (("customers", 3, "window", [9.1, 9.4]), "customers[3].window: 9.1 to 9.4 lies within a step of 0.5; widen it"),
    (("customers", 3, "window", [9]), "customers[3].window has 1 entries; it must have 2"),
    (("customers", 3, "window", ["9", 10]), "customers[3].window[0] is '9'; it must be a finite number"),
    (("customers", 3, "window", [-1, 10]), "customers[3].window[0] is -1; it must be at least 0"),
    (("customers", 3, "known_from", 101), "customers[3].known_from: 101 after the horizon 100"),
    (
        ("customers", 3, "weight", 2),
        "unknown key 'weight' in customers[3]; known: demand, id, known_from, position, window",
    ),
    (("customers", 3, "demnd", 2), "unknown key 'demnd' in customers[3]; did you mean 'demand'"),
    (("customers", 3, "demand", ...), "customers[3].demand is missing; give it"),
    (("customers", 3, "demand", 4.5), "customers[3].demand: 4.5 is more than drones[0] carries (4)"),
    (("customers", 3, "demand", True), "customers[3].demand is True; it must be a finite number"),
    (
        ("customers", 3, "position", [1e13, 0]),
        "customers[3].position[0] is 10000000000000; it must be at least -1e+12",
    ),
    (("customers", 3, "id", "farm"), "customers[3].id: 'farm' is customers[1] already; give another"),
    (("customers", 3, "id", 7), "customers[3].id is 7; it must be a text"),
    (("customers", []), "customers has 0 entries; it must have at least 1"),
    (("nodes", {}), "nodes is {}; it must be a list"),
    (("drones", ...), "drones is missing; give it"),
    (("drones", 1, "speed", 500), "drones[1].speed: 500, and 600 of drones[0]; all drones of a truck fly alike"),
    (("drones", 1, "range", None), "drones[1].range: inf, and 2200 of drones[0]; all drones of a truck fly alike"),
    (("drones", 1, "hover_time", ...), "drones[1].hover_time: none, and 30 of drones[0]"),
    (("drones", 1, "capacity", 3), "customers[1].demand: 3.2 is more than drones[1] carries (3)"),
    (("drones", 1, "range", 0), "drones[1].range is 0; it must be more than 0 and at most 1e+12"),
    (("truck", "speed", -1), "truck.speed is -1; it must be at least 0"),
    (("scale", "length", 1e-3), "scale.length: places lie up to 1.1e+06 map units from scale.center; make it larger"),
    (("scale", "demand", 1e-3), "scale.demand: demands are up to 3800 times as much; make it larger"),
    (("scale", "time", 30), "horizon: 100 is 3 steps of 30; it must be 4 to 10000: change scale.time"),
    (("scale", "time", 1e-4), "horizon: 100 is 1000000 steps of 0.0001; it must be 4 to 10000"),
    (("unit", {}), "unknown key 'unit'; did you mean 'units'"),
    (("x" * 5000, {}), "unknown key 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ...; known: customers, drones"),
    (("format", "jaxvrp-truck-drone-2"), "format is 'jaxvrp-truck-drone-2'; it must be one of: jaxvrp-truck-drone-1"),
]


@pytest.mark.parametrize(("change", "says"), MISTAKES, ids=[says[:40] for _, says in MISTAKES])
def test_a_mistake_is_one_line_with_its_field(change, says, tmp_path):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(changed(*change)))
    with pytest.raises(ValueError) as error:
        read_map(path)
    assert str(error.value).startswith(f"{path}: {says}") and "\n" not in str(error.value)


@pytest.mark.parametrize("place", [("customers", 0), ("nodes", 0), ("drones", 0), ("truck",), ("scale",), ()])
def test_null_is_the_same_as_leaving_a_field_out(place):
    """But for what has no end: there it says so."""
    optional = {
        "window",
        "known_from",
        "id",
        "payload_factor",
        "capacity",
        "length",
        "center",
        "time",
        "demand",
        "name",
    }
    optional |= {"units", "reach", "scale"} if place in ((), ("scale",)) else set()
    required = {"customers": {"demand"}}.get(place[0] if place else "", set())
    entry = TOWN
    for name in place:
        entry = entry[name]
    for name in (optional - required) & entry.keys():
        assert parse_map(changed(*place, name, None)) == parse_map(changed(*place, name, ...))
    fleet_map = copy.deepcopy(TOWN)
    for drone in fleet_map["drones"]:
        drone.update(hover_time=None, payload_factor=None)
    assert parse_map({**fleet_map, "reach": {"delivery": None}}).drones[0].hover_time == np.inf


def test_what_is_no_map_is_one_line(tmp_path):
    path = tmp_path / "map.json"
    for content, says in (("[1, 2]", "the content is [1, 2]; it must be an object"), ("{", "is no JSON")):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"map\.json") as error:
            read_map(path)
        assert says in str(error.value)
    alone = changed("scale", "length", ...)
    for name in ("nodes", "customers"):
        alone[name] = [{**entry, "position": alone["truck"]["position"]} for entry in alone[name]]
    with pytest.raises(ValueError, match=r"^scale\.length is missing, and all places are one; give it$"):
        parse_map(alone)


def test_the_town_in_the_units_of_the_simulator(envs):
    """By hand: a map unit is 1500 m around (2000, 1500), a step half a minute of 0.1 time units."""
    town = read_map(MAPS / "market_town.json")
    instance, parameters = town.instance(), town.parameters(envs["vrpd_tw"])
    np.testing.assert_allclose(instance.truck_position, [0, 0])
    np.testing.assert_allclose(instance.customer_position[:2], [[0.3, 4 / 15], [-11 / 15, 2 / 3]], rtol=1e-6)
    np.testing.assert_array_equal(instance.window_start, [0, 20, 0, 40, 60, 0])
    np.testing.assert_array_equal(instance.window_end, [60, 120, 90, 160, 200, 200])
    np.testing.assert_allclose(instance.demand, [0.625, 0.8, 0.25, 0.5, 0.95, 0.55])
    assert instance.known_from is None
    sizes = {"num_drones": 2, "num_customers": 6, "num_route_nodes": 5, "max_steps": 200}
    # 300 m a minute are 150 m a step, 0.1 map units in 0.1 time units; 2200 m are 22/15 map units.
    physics = {"truck_speed": 1.0, "drone_speed": 2.0, "max_battery": 1.0, "battery_rate": 15 / 22}
    physics |= {"hover_cost": 1 / 60, "recharge_rate": 1 / 30}
    assert parameters == pytest.approx({**sizes, **physics}, rel=1e-12)


def in_other_units(content, length, time, demand):
    """The same problem, where a unit of length is so many of the present ones, and so on."""
    content = copy.deepcopy(content)
    content["horizon"] /= time
    content["scale"] = {
        "length": content["scale"]["length"] / length,
        "center": [number / length for number in content["scale"]["center"]],
        "time": content["scale"]["time"] / time,
        "demand": content["scale"]["demand"] / demand,
    }
    for entry in [content["truck"], *content["nodes"], *content["customers"]]:
        entry["position"] = [number / length for number in entry["position"]]
    for entry in [content["truck"], *content["drones"]]:
        entry["speed"] *= time / length
    for entry in content["customers"]:
        entry["demand"] /= demand
        entry.update({name: [number / time for number in entry[name]] for name in ("window",) if name in entry})
    for entry in content["drones"]:
        entry.update({"range": entry["range"] / length, "capacity": entry["capacity"] / demand})
        entry.update({name: entry[name] / time for name in ("hover_time", "recharge_time")})
    return content


@pytest.mark.parametrize("units", [(1000, 60, 1000), (0.3048, 1 / 60, 0.45359237), (1852, 7, 3)])
def test_units_are_nothing_but_units(units, envs):
    here, there = parse_map(TOWN), parse_map(in_other_units(TOWN, *units))
    assert there.parameters(envs["vrpd_tw"]) == pytest.approx(here.parameters(envs["vrpd_tw"]), rel=1e-12)
    for name, leaf in vars(here.instance()).items():
        if leaf is not None:
            np.testing.assert_allclose(getattr(there.instance(), name), leaf, rtol=1e-5, atol=1e-6)


def test_what_is_left_out_of_the_scale():
    town = parse_map(changed("scale", ...))
    instance = town.instance()
    places = np.concatenate([instance.truck_position[None], instance.node_position, instance.customer_position])
    assert np.abs(places).max() == pytest.approx(0.8)
    low, high = places.min(axis=0), places.max(axis=0)
    np.testing.assert_allclose(low, -high, atol=1e-6)
    assert (town.max_steps, town.whole_scale.time, town.whole_scale.demand) == (200, 0.5, 1.0)


def test_windows_shrink_to_whole_steps():
    """A delivery is at the end of a step, half a minute long; on time there must be on time."""
    windows = [0.1, 29.9], [0.1 + 0.2 + 0.2, 30], [1.2, 1.6]
    first = {**TOWN["customers"][0], "known_from": 0.7}
    customers = [{**first, "id": str(index), "window": window} for index, window in enumerate(windows)]
    instance = parse_map({**TOWN, "customers": customers}).instance()
    np.testing.assert_array_equal(instance.window_start, [1, 1, 3])
    np.testing.assert_array_equal(instance.window_end, [59, 60, 3])
    np.testing.assert_array_equal(instance.known_from, [2, 2, 2])


def test_a_day_with_a_start_begins_with_it():
    """However late the windows are; without a start, times so far from 0 are of another clock."""
    late = [{**TOWN["customers"][0], "window": [590, 600]}]
    town = {**changed("scale", ...), "horizon": 600, "customers": late}
    begins_late, whole_day = parse_map(town), parse_map({**town, "start": "08:00"})
    assert (begins_late.clock, begins_late.duration) == (590, 10)
    assert (whole_day.clock, whole_day.duration, whole_day.whole_scale.time) == (0, 600, 3)
    assert (whole_day.instance().window_start, whole_day.instance().window_end) == (197, 200)


@pytest.mark.parametrize("name", ["market_town", "island"])
def test_what_is_written_is_read_again(name, tmp_path):
    read = read_map(MAPS / f"{name}.json")
    write_map(tmp_path / "copy.json", read)
    assert read_map(tmp_path / "copy.json") == read
    assert json.loads((tmp_path / "copy.json").read_text()) == json.loads((MAPS / f"{name}.json").read_text())


def test_a_generated_problem_becomes_a_map_and_the_same_problem_again(envs, tmp_path):
    env = jaxvrp.make(
        "vrpd_tw", num_drones=3, num_customers=9, num_route_nodes=4, dynamic_share=0.5, max_steps=123, hover_cost=0.0
    )
    instance = jax.jit(env.generate)(jax.random.key(3))
    write_map(tmp_path / "map.json", map_of(env, instance, "nine"))
    read = read_map(tmp_path / "map.json")
    chex.assert_trees_all_equal(read.instance(), instance)
    assert (read.name, read.drones[0].hover_time) == ("nine", math.inf)
    again = read.environment(envs["vrpd_tw"])
    for name, value in env.parameters.items():
        if name != "dynamic_share":
            assert again.parameters[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-6)), name


def test_padding_is_no_customer():
    env = jaxvrp.make("truck_drone")
    instance = jax.jit(env.generate)(jax.random.key(0))
    shorter = instance.replace(exists=np.array([True, True, False]))
    assert len(map_of(env, shorter).customers) == 2
    nobody = env.reset_to(instance.replace(exists=np.zeros(3, bool)))[1]
    assert nobody.terminated and np.isfinite(jax.tree.leaves(nobody.metrics)).all()


PLAIN = {**changed("drones", [{**drone, "payload_factor": 0} for drone in TOWN["drones"]])}
"""The town where packages do not weigh; and starts of windows stay."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.loads((MAPS / "island.json").read_text()), "customers[3].known_from: {}customers become known"),
        (
            {**TOWN, "drones": [{**drone, "payload_factor": 0.5} for drone in TOWN["drones"]]},
            "drones[0].payload_factor: {}packages weigh",
        ),
        (TOWN, "customers[0].demand: {}packages weigh"),
        (PLAIN, "customers[1].window[0]: {}drones wait for the start of a window"),
    ],
)
def test_a_scenario_refuses_what_it_would_ignore(content, says, envs):
    with pytest.raises(ValueError) as error:
        parse_map(content).parameters(envs["truck_drone"])
    assert str(error.value) == says.format("TruckDroneBasic ignores it; play vrpd_tw, where ")
    assert parse_map(content).environment(envs["vrpd_tw"]).num_customers == len(content["customers"])


def test_a_generated_problem_of_the_plain_scenario_can_be_played_in_it(envs, tmp_path):
    env = envs["truck_drone"]
    write_map(tmp_path / "map.json", map_of(env, jax.jit(env.generate)(jax.random.key(1))))
    assert read_map(tmp_path / "map.json").environment(env).num_customers == env.num_customers


def in_kilometres(*fields):
    """The town with places of these lists in kilometres."""
    content = changed("scale", {"demand": 4})
    for field in fields:
        entries = [content["truck"]] if field == "truck" else content[field]
        for entry in entries:
            entry["position"] = [number / 1000 for number in entry["position"]]
    for entry in [content["truck"], *content["drones"]]:
        entry.update({name: entry[name] / 1000 for name in ("speed", "range") if name in entry})
    return {**content, "units": {**content["units"], "length": "km"}}


def with_speeds(truck, drone, content=TOWN):
    drones = [{**each, "speed": drone} for each in content["drones"]]
    return {**content, "truck": {**content["truck"], "speed": truck}, "drones": drones}


def in_degrees():
    content = changed("scale", {"demand": 4})
    for entry in [content["truck"], *content["nodes"], *content["customers"]]:
        x, y = entry["position"]
        entry["position"] = [49 + y / 111_000, 8.4 + x / 73_000]
    return content


EVERYTHING = ("truck", "nodes", "customers")
FAR_OUT = in_kilometres(*EVERYTHING)
FAR_OUT["drones"] = [{**drone, "range": 0.1} for drone in FAR_OUT["drones"]]
OUTLIER = in_kilometres(*EVERYTHING)
OUTLIER["customers"][2]["position"] = [1200, 500]
FEW_REACHED = changed("drones", [{**drone, "range": 1500} for drone in TOWN["drones"]])

ABSURD = [
    (in_kilometres("truck", "nodes"), ["customers[0].position and 5 more: 3097 km from the nearest node, while the"]),
    (in_kilometres("customers"), ["nodes[1].position: the nodes lie within 2193 km, and all customers within 2.97 km"]),
    (OUTLIER, ["customers[2].position: 1297 km from the nearest node, while the nodes lie within 2.19 km; give"]),
    (
        with_speeds(18, 36, in_kilometres(*EVERYTHING)),
        [
            "truck.speed: 18 km/min is across the map in 0.16 min, and a step is 0.5 min; give it in the units",
            "drones[0].speed: 36 km/min is across the map in 0.082 min, and a step is 0.5 min; give it in the units",
        ],
    ),
    (
        with_speeds(18, 26),
        [
            "truck.speed: 18 m/min takes 165 min across the map, and the horizon is 100 min; give it in the units",
            "drones[0].speed: 26 m/min takes 114 min across the map, and the horizon is 100 min; give it in the units",
        ],
    ),
    (
        in_degrees(),
        ["nodes[0].position: [49.0135, 8.4274] looks like latitude and longitude, and a map is flat; project"],
    ),
    (
        FAR_OUT,
        ["drones[0].range: no customer is within reach of a node: the nearest needs 1.2 km, a charge lasts for 0.1"],
    ),
    (
        FEW_REACHED,
        ["drones[0].range: 4 of 6 customers are out of reach of every node: bakery needs 1597 m, farm needs"],
    ),
    (TOWN, []),
    (json.loads((MAPS / "island.json").read_text()), []),
    (in_kilometres(*EVERYTHING), []),
]


@pytest.mark.parametrize(("content", "starts"), ABSURD)
def test_what_is_absurd_in_a_map_is_a_line_with_its_field_and_the_remedy(content, starts, envs):
    fleet_map = parse_map(content)
    warnings = inspect(fleet_map, fleet_map.environment(envs["vrpd_tw"])).warnings
    assert len(warnings) == len(starts)
    for warning, start in zip(warnings, starts, strict=True):
        assert warning.startswith(start) and ";" in warning and "\n" not in warning


@pytest.mark.parametrize("speed", [0, 5e-324, 1e12])
def test_no_speed_is_too_extreme_to_be_inspected(speed, envs):
    fleet_map = parse_map(with_speeds(speed, speed))
    found = inspect(fleet_map, fleet_map.environment(envs["vrpd_tw"]))
    assert found.figures and all(words and "nan" not in words for words in (*found.figures, *found.warnings))


def test_reach_is_what_the_battery_guard_lets_a_drone_fly(envs):
    """By hand: 20 away with a package that takes half more; 0.6 a step, and the guard keeps 1.2 of the way home."""
    content = {
        "format": "jaxvrp-truck-drone-1",
        "scale": {"length": 100, "center": [0, 0], "time": 1, "demand": 1},
        "horizon": 100,
        "truck": {"position": [0, 0], "speed": 10},
        "nodes": [{"position": [0, 0]}],
        "customers": [{"position": [20, 0], "demand": 1}],
        "drones": [{"speed": 5, "range": 75.1, "payload_factor": 0.5}],
    }
    fleet_map = parse_map(content)
    reach = reach_of(fleet_map, fleet_map.environment(envs["vrpd_tw"]))
    assert reach.needs.tolist() == pytest.approx([max(1.5 * 20 + 1.2 * 25, 1.5 * (15 + 1.2 * 20))])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, " (the map gives no reach)"),
        ({"delivery": 40}, " (the map gives no reach.recovery)"),
        ({"delivery": 40, "recovery": 100}, ""),
    ],
)
def test_an_inspection_says_which_reach_is_not_the_maps(given, said, envs):
    fleet_map = parse_map(changed("reach", given))
    (line,) = (
        words for words in inspect(fleet_map, fleet_map.environment(envs["vrpd_tw"])).figures if "serves" in words
    )
    assert line.endswith(f"of the truck{said}")


def test_the_command(tmp_path, capsys):
    path = tmp_path / "town.json"
    assert main(["--out", str(path), "--num_customers", "7", "--seed", "5"]) == 0
    written = read_map(path)
    assert (len(written.customers), len(written.drones), written.name) == (7, 2, "vrpd_tw, seed 5")
    assert capsys.readouterr().out == f"wrote {path}; python -m train.evaluate --run vrpd_tw --instance {path}\n"
    assert main(["--out", str(path), "--scenario", BASIC]) == 0
    assert capsys.readouterr().out == f"wrote {path}; python -m train.solve {path} --env {BASIC}\n"
    assert main(["--check", str(MAPS / "market_town.json")]) == 0
    printed = capsys.readouterr().out
    assert "the truck crosses the map, 2970 m, in 9.9 min of 100 min\n" in printed
    assert "a drone flies 2200 m on a charge, in 3.67 min\n" in printed
    assert "6 of 6 customers are within reach of a node, there with the package and back\n" in printed
    assert "market_town.json: 2 drones, 6 customers, 5 nodes, 200 steps\n" in printed
    assert "a map unit is 1500, around (2000, 1500); a step is 0.5; a demand of 1 is 4\n" in printed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "error: give --out FILE to write a map, or --check FILE to read one"),
        (["--check", "nowhere.json"], "error: cannot read or write 'nowhere.json': No such file or directory"),
        (["--out", "nowhere/map.json"], "error: --out nowhere/map.json: there is no folder nowhere; make it first"),
        (["--out", "map.json", "--max_steps", "3"], "error: max_steps is 3; it must be >= 4"),
        (["--out", "map.json", "--scenario", "vrpd"], "error: unknown scenario 'vrpd'; did you mean 'vrpd_tw'"),
        (
            ["--check", str(MAPS / "island.json"), "--scenario", "truck_drone_basic"],
            f"error: {MAPS / 'island.json'}: customers[3].known_from: TruckDroneBasic ignores it; play vrpd_tw, where",
        ),
    ],
)
def test_a_mistake_in_the_command_is_one_line(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(says)


def test_nobody_is_called_as_one_without_a_name_is():
    """It would be two entries of the plan that nobody can tell apart."""
    town = changed("nodes", 1, "id", "node_0")
    del town["nodes"][0]["id"]
    with pytest.raises(ValueError, match=r"^nodes\[1\]\.id: 'node_0' is nodes\[0\] already; give another$"):
        parse_map(town)


@pytest.mark.parametrize("field", ["customers", "nodes", "drones"])
def test_maps_that_are_too_large_are_refused_by_their_size(field):
    """Names and capacities are compared in linear time, and only where sizes are right."""
    entries = [{**TOWN[field][0], "id": str(number)} for number in range(100_000)]
    start = time.process_time()
    with pytest.raises(ValueError, match=f"^{field} has 100000 entries; it may have up to 5000$"):
        parse_map({**TOWN, field: entries})
    parse_map({**TOWN, field: entries[:5_000]})
    assert time.process_time() - start < 5


def test_the_drone_that_carries_least_decides():
    drones = [{**TOWN["drones"][0], "id": f"d{capacity}", "capacity": capacity} for capacity in (6, 5)]
    customers = [{**TOWN["customers"][0], "demand": 5.5}]
    with pytest.raises(ValueError, match=r"^customers\[0\]\.demand: 5\.5 is more than drones\[1\] carries \(5\); any"):
        parse_map({**TOWN, "drones": drones, "customers": customers})


def test_without_nodes_the_truck_stops_where_it_starts_and_at_customers():
    town = changed("nodes", ...)
    town["customers"][1]["position"] = town["customers"][0]["position"]
    town["customers"][2]["position"] = town["truck"]["position"]
    found = parse_map(town)
    customers = found.names("customers")
    assert found.names("nodes") == ["depot", f"at {customers[1]}", *(f"at {name}" for name in customers[3:])]
    places = [found.truck.position, *(each.position for each in found.customers[:1] + found.customers[3:])]
    assert [node.position for node in found.nodes] == places
    assert parse_map({**town, "nodes": None}) == found

"""Units that were mixed are a warning in every format; problems as they should be have none."""

import json

import numpy as np
import pytest

from jaxvrp import registry
from jaxvrp.envs.flying_sidekicks.instance import make_instance, save
from jaxvrp.io.command_line import UserError
from train import solve


def put(place, length, degrees):
    """A place in another unit of length, or in degrees around Karlsruhe."""
    x, y = place
    return [8.4 + x / 73, 49 + y / 111] if degrees else [length * x, length * y]


def darp(length=1.0, time=1.0, degrees=False, ride=30):
    """Two requests across 20 km, with windows within eight hours."""
    places = [(0, 0), (-10, 3), (8, -4), (9, 2), (-7, 5)]
    lines = [f"2 2 {480 * time} 3 {ride}"]
    loads, windows = (0, 1, 1, -1, -1), [(0, 480), *[(60, 200)] * 4]
    for node, (place, load, window) in enumerate(zip(places, loads, windows, strict=True)):
        x, y = put(place, length, degrees)
        lines.append(f"{node} {x} {y} 0 {load} {window[0] * time} {window[1] * time}")
    return "day.txt", "\n".join(lines)


def day(length=1.0, time=1.0, degrees=False, start=1.0, **changes):
    """Two rides across 20 km, and a day of eight hours."""

    def place(x, y):
        return put((x, y), length, degrees)

    request = {"arrival": 10 * time, "pickup": place(-10, 3), "dropoff": place(9, 2), "dropoff_deadline": 300 * time}
    other = {**request, "pickup": place(8, -4), "dropoff": place(-7, 5)}
    vehicle = {"start": [start * each for each in place(1, 1)], "speed": 40, "capacity": 3}
    content = {"format": "jaxvrp-dispatch-day-1", "horizon": 480 * time, "vehicles": [vehicle], **changes}
    return "day.json", json.dumps({**content, "requests": [request, other]})


def tandem(length=1.0, time=1.0, degrees=False):
    """Customers within 8 miles, eight hours in minutes; 30 minutes of endurance are assumed."""
    rows = ["x,y,demand,open,close,servicetime"]
    for node, place in enumerate([(0, 0), (-3, 1), (2, 3), (4, -2), (-2, -3)]):
        x, y = put(place, length, degrees)
        rows.append(f"{x},{y},{node and 2},0,{480 * time},{10 * time if node else 0}")
    return "tandem.csv", "\n".join(rows)


def agatz(length=1.0, degrees=False):
    places = [put(place, length, degrees) for place in [(0, 0), (-3, 1), (2, 3), (4, -2)]]
    nodes = "".join(f"{x} {y} n{node}\n" for node, (x, y) in enumerate(places))
    return "tsp.txt", f"#MAXFLY 12\n1.0\n0.5\n{len(places)}\n{nodes}"


def warnings_of(path):
    name, (problem,) = solve.read_problems(path, None)
    env = solve.problem_in(name, problem, path).env
    return registry.problems_of(env).inspect(problem, env).warnings


ABSURD = {
    "darp in degrees": (darp(degrees=True), "node 0: [8.4, 49] looks like latitude and longitude"),
    "darp in metres": (darp(length=1000), "speed: 1 takes 21023.8 across the map, and the horizon is 480"),
    "darp in seconds and km": (
        darp(time=60, ride=3000),
        "speed: 1 is across the map in 21.0238, and the horizon is 28800",
    ),
    "darp, hours for minutes": (darp(time=1 / 60), "speed: 1 takes 21.0238 across the map, and the horizon is 8"),
    "darp, a ride in hours": (
        darp(ride=0.5),
        "the longest ride: 0.5 is less than every direct ride takes, at least 17.4",
    ),
    "day in degrees": (day(degrees=True), "requests[0].pickup: [8.26301, 49.027] looks like latitude and longitude"),
    "day in metres": (day(length=1000), "vehicles[0].speed: 40 km/h takes 3.154e+04 min across the map"),
    "day in km called m": (day(units={"length": "m"}), "vehicles[0].speed: 40 km/h is across the map in 0.03154 min"),
    "day in hours": (day(time=1 / 60), "horizon: a day of 8 min; give times in units.time, by default minutes"),
    "day in seconds": (day(time=60), "horizon: a day of 2.88e+04 min; give times in units.time"),
    "day with a start in metres": (
        day(start=1000),
        "vehicles[0].start: 1406 km from the nearest stop, while the stops lie",
    ),
    "tandem in degrees": (tandem(degrees=True), "node 0: [8.4, 49] looks like latitude and longitude"),
    "tandem in seconds": (tandem(time=60), "truck speed: 0.5833 in a unit of time is across the map in 15.8, and the"),
    "tandem too far apart": (tandem(length=10), "endurance: no customer is within 30, the nearest needs"),
    "tsp in degrees": (agatz(degrees=True), "node 0: [8.4, 49] looks like latitude and longitude"),
    "tsp, flights in km": (
        agatz(length=1000),
        "the longest flight: no customer is within 12, the nearest needs 6324.56",
    ),
}


@pytest.mark.filterwarnings("ignore:.*no vehicle can ever serve")
@pytest.mark.parametrize("case", ABSURD)
def test_mixed_units_are_a_warning_with_the_remedy(case, tmp_path):
    (name, text), start = ABSURD[case]
    (tmp_path / name).write_text(text)
    found = warnings_of(tmp_path / name)
    assert found[0].startswith(start) and "; " in found[0] and "\n" not in found[0]


@pytest.mark.parametrize("file", [tandem(length=1609), tandem(time=1 / 60)])
def test_tandems_that_cannot_be_in_time_are_refused_with_the_remedy(file, tmp_path):
    name, text = file
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=r"node 1 cannot be reached .* widen it, or give --env\.units\.length or"):
        warnings_of(tmp_path / name)


@pytest.mark.parametrize("file", [darp(), darp(time=2, length=2, ride=90), day(), day(start=3), tandem(), agatz()])
def test_a_problem_as_it_should_be_has_none(file, tmp_path):
    name, text = file
    (tmp_path / name).write_text(text)
    assert warnings_of(tmp_path / name) == ()


def test_a_truck_with_several_drones_whose_endurance_is_in_minutes(tmp_path):
    seconds = 100.0 * (1 - np.eye(4))
    problem = {"truck_time": seconds, "drone_time": [seconds], "launch_time": [0], "recovery_time": [0]}
    for endurance, count in ((300.0, 0), (5.0, 1)):
        instance = make_instance(np.eye(4)[:, :2], **problem, endurance=[endurance])
        save(tmp_path / "a.npz", instance)
        found = warnings_of(tmp_path / "a.npz")
        assert len(found) == count
    assert found[0].startswith("endurance: no customer is within 5, the nearest needs 200; give it in the units")


def test_solve_prints_what_a_reader_assumes_and_takes_another_value(tmp_path, capsys):
    """One problem in miles and minutes, and in kilometres and seconds: what the paper fixes is converted."""
    costs = []
    for (name, text), given in (
        (tandem(), []),
        (tandem(length=1.609344, time=60), ["--env.units.length", "km", "--env.units.time", "s"]),
        (tandem(), ["--env.truck_speed", "50", "--env.drone_price=0"]),
    ):
        (tmp_path / name).write_text(text)
        argv = [str(tmp_path / name), "--method", "greedy", *given]
        solve.main(argv)
        said = capsys.readouterr()
        costs.append(said.out.partition("cost")[2].split()[0])
        assumed = said.err.partition("assumed, as the file does not say it: ")[2]
        assert ("truck_speed 35, drone_speed 50, " in assumed) == (given == [])
        assert ("truck_speed 56.33, drone_speed 80.47" in assumed) == ("km" in given)
        assert "endurance 1800, launch_time 60" in assumed or "s" not in given
    assert costs[0] == costs[1] != costs[2]
    for words, says in (
        (["--env.units.length", "ft"], r"--env\.units\.length is 'ft'; it must be one of: km, m, mi"),
        (["--env.endurance", "0"], r"--env\.endurance is 0; it must be at least 1e-12"),
        (["--env.speed", "3"], r"--env\.speed: the reader of .* takes units\.length, .*, drone_price$"),
    ):
        with pytest.raises(UserError, match=says):
            solve.main([*argv[:1], *words])


def test_lines_of_places_and_published_folders_too(tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("0 0 1 1 2 2 3 1\n")
    solve.main([str(tmp_path / "lines.txt"), "--method", "greedy"])
    assert "assumed, as the file does not say it: alpha 2; else --env.KEY VALUE" in capsys.readouterr().err
    (problem,) = solve.read_problems(tmp_path / "lines.txt", None, {"alpha": 4})[1]
    assert problem.drone_pace == 0.25
    with pytest.raises(UserError, match=r"--env\.alpha: the reader of .*tsp\.txt takes allow_revisits"):
        (tmp_path / "tsp.txt").write_text(agatz()[1])
        solve.read_problems(tmp_path / "tsp.txt", None, {"alpha": 4})


def test_solve_prints_them_before_it_searches(tmp_path, capsys):
    name, text = darp(time=60, ride=3000)
    (tmp_path / name).write_text(text)
    solve.main([str(tmp_path / name), "--method", "greedy"])
    assert "warning: speed: 1 is across the map in 21.0238, and the horizon is 28800; give" in capsys.readouterr().err

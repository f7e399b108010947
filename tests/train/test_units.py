"""One problem in other units, or on another clock or map, is the same problem: the same plan, its numbers moved."""

import json
import pathlib

import numpy as np
import pytest

from jaxvrp.envs import flying_sidekicks, truck_drone_tours, tsp_drone
from jaxvrp.envs.dispatch.baselines import search
from jaxvrp.io.json_files import as_read
from train import solve

SCALES = (60.0, 1000.0, 1 / 1440)
SECONDS = 0.3  # plenty for problems this small

EPOCH, YEARS_200TH_DAY = 1_760_421_600.0, 200 * 86_400.0
GRID = (500_000.0, 4_649_776.0)
"""Metres east and north, as UTM has them."""


def text(value):
    """A value as pages have it."""
    return json.dumps(as_read(value))


RIDES = [  # x, y, service, demand, opens, closes
    (0, 0, 0, 0, 0, 240),
    (6, -3, 3, 1, 174, 189),
    (0, 3, 3, 1, 0, 240),
    (8, 8, 3, 1, 32, 47),
    (-9, 7, 3, 1, 58, 73),
    (-10, 5, 3, -1, 0, 240),
    (-7, -1, 3, -1, 106, 121),
    (-4, 3, 3, -1, 0, 240),
    (-5, -3, 3, -1, 0, 240),
]
"""One vehicle, which can serve all four requests, at the price of a detour."""

SERVES_ALL = 91.6067
"""Its length then: 3, 4, back to 3's drop-off, 2, both drop-offs, 1."""


def rides(path, *, scale=1.0, clock=0.0, place=(0.0, 0.0)):
    """A dial-a-ride problem as a file; lengths and times in another unit, from another origin."""
    lines = [f"1 4 {240 * scale!r} 3 {30 * scale!r}"]
    for node, (x, y, service, demand, opens, closes) in enumerate(RIDES):
        where = [x * scale + place[0], y * scale + place[1]]
        lines.append(
            " ".join(map(repr, [node, *where, service * scale, demand, opens * scale + clock, closes * scale + clock]))
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def plan_of_rides(tmp_path_factory):
    """The plan in minutes and km."""
    plan = solve.solve(rides(tmp_path_factory.mktemp("rides") / "minutes.txt"), seconds=SECONDS).plan
    assert plan["routes"] == [[3, 4, 7, 2, 8, 6, 1, 5]]
    np.testing.assert_allclose(plan["distance"], SERVES_ALL, atol=1e-4)
    return plan


@pytest.mark.parametrize("scale", SCALES)
def test_dial_a_ride_in_other_units(plan_of_rides, tmp_path, scale):
    plan = solve.solve(rides(tmp_path / "scaled.txt", scale=scale), seconds=SECONDS).plan
    assert plan["feasible"] and plan["not_served"] == [] and plan["routes"] == plan_of_rides["routes"]
    np.testing.assert_allclose(plan["cost"] / scale, plan_of_rides["cost"], rtol=1e-5)
    np.testing.assert_allclose(times_of(plan, "leave", "begin") / scale, times_of(plan_of_rides, "leave", "begin"))


@pytest.mark.parametrize("clock", [EPOCH, EPOCH / 60, YEARS_200TH_DAY])
def test_dial_a_ride_on_other_clocks_and_maps(plan_of_rides, tmp_path, clock):
    found = solve.solve(rides(tmp_path / "moved.txt", clock=clock, place=GRID), seconds=SECONDS)
    assert found.plan["feasible"] and found.plan["routes"] == plan_of_rides["routes"]
    np.testing.assert_allclose(found.plan["distance"], plan_of_rides["distance"], rtol=1e-8)
    expected = times_of(plan_of_rides, "leave", "begin") + clock
    np.testing.assert_allclose(times_of(found.plan, "leave", "begin"), expected, atol=1e-5, rtol=0)
    found.write(tmp_path / "plan.html")
    found.draw(tmp_path / "plan.svg")
    page = (tmp_path / "plan.html").read_text()
    assert f'"span": [{text(clock)}, ' in page and f'"position": {text(GRID)}' in page
    assert text(clock + 174.0) in page  # when a window opens


PLACES = np.array([(5, 5), (1, 8), (9, 3), (4, 0), (7, 9), (0, 2)], float)


def tandem(path, *, scale=1.0, place=(0.0, 0.0)):
    """A truck and its drone, with a longest flight, a launch and a recovery time."""
    problem = tsp_drone.make_instance(
        PLACES * scale + place, max_flight=12 * scale, launch_time=0.5 * scale, recovery_time=0.5 * scale
    )
    tsp_drone.save(path, problem)
    return path


def tandems(path, *, scale=1.0, clock=0.0, place=(0.0, 0.0)):
    """Tandems with time windows; the drone can carry half of the parcels."""
    hours = np.array([(0, 60), (0, 20), (10, 25), (0, 60), (20, 30), (0, 60)]) * scale + clock
    problem = truck_drone_tours.make_instance(
        PLACES * scale + place,
        launch_time=0.5 * scale,
        recovery_time=0.5 * scale,
        demand=[0, 1, 8, 1, 8, 1],
        opens=hours[:, 0],
        closes=hours[:, 1],
        service=np.array([0, 1, 1, 1, 1, 1]) * scale,
        truck_capacity=12,
        drone_capacity=2,
        endurance=10 * scale,
        truck_price=1.0,
        drone_price=0.1,
    )
    truck_drone_tours.save(path, problem)
    return path


def several_drones(path, *, scale=1.0):
    """A truck with two drones, by matrices."""
    gap = np.linalg.norm(PLACES[:, None] - PLACES, axis=2) * scale
    problem = flying_sidekicks.make_instance(
        PLACES,
        truck_time=gap,
        drone_time=[gap / 2, gap / 2],
        endurance=[9 * scale, 14 * scale],
        service=[0, *[scale] * 5],
    )
    flying_sidekicks.save(path, problem)
    return path


PROBLEMS = {
    "tandem": (tandem, "makespan"),
    "tandems": (tandems, "cost"),
    "several_drones": (several_drones, "makespan"),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """The plan of each problem in its first units."""
    folder = tmp_path_factory.mktemp("plans")
    return {
        name: solve.solve(write(folder / f"{name}.npz"), seconds=SECONDS).plan for name, (write, _) in PROBLEMS.items()
    }


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_truck_and_drones_in_other_units(plans, tmp_path, name, scale):
    write, cost = PROBLEMS[name]
    found = solve.solve(write(tmp_path / "scaled.npz", scale=scale), seconds=SECONDS).plan
    assert found["feasible"]
    np.testing.assert_allclose(found[cost] / scale, plans[name][cost], rtol=1e-6)


def test_the_nearest_comes_first_in_micrometres_too(tmp_path):
    first, second = (tandem(tmp_path / f"{scale}.npz", scale=scale) for scale in (1.0, 1e6))
    first, second = (solve.solve(path, method="nearest neighbour").plan for path in (first, second))
    assert second["routes"] == first["routes"]


def test_truck_and_drone_on_another_map(plans, tmp_path):
    found = solve.solve(tandem(tmp_path / "moved.npz", place=GRID), seconds=SECONDS)
    np.testing.assert_allclose(found.plan["makespan"], plans["tandem"]["makespan"], rtol=1e-9)
    found.write(tmp_path / "plan.html")
    assert f'"position": {text([GRID[0] + 5, GRID[1] + 5])}' in (tmp_path / "plan.html").read_text()


def test_tandems_on_another_clock(plans, tmp_path):
    found = solve.solve(tandems(tmp_path / "moved.npz", clock=EPOCH, place=GRID), seconds=SECONDS)
    np.testing.assert_allclose(found.plan["cost"], plans["tandems"]["cost"], rtol=1e-6)
    begins = {way["leave"] for way in found.plan["ways"] if way["from"] == 0}
    assert all(EPOCH <= begin < EPOCH + 60 for begin in begins)
    found.write(tmp_path / "plan.html")
    found.draw(tmp_path / "plan.svg")
    assert text(EPOCH) in (tmp_path / "plan.html").read_text()


def town(path, *, length=1.0, time=1.0, clock=0.0, place=(0.0, 0.0)):
    """The market town, in other units, or on another clock and map."""
    content = json.loads(pathlib.Path("docs/maps/market_town.json").read_text())
    del content["scale"]
    content["horizon"] = content["horizon"] * time + clock
    for entry in [content["truck"], *content["nodes"], *content["customers"]]:
        entry["position"] = (np.array(entry["position"]) * length + place).tolist()
    for customer in content["customers"]:
        if "window" in customer:
            customer["window"] = (np.array(customer["window"]) * time + clock).tolist()
    for vehicle in [content["truck"], *content["drones"]]:
        vehicle["speed"] *= length / time
    for drone in content["drones"]:
        drone |= {"range": drone["range"] * length, "hover_time": drone["hover_time"] * time}
        drone["recharge_time"] *= time
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def plan_of_town(tmp_path_factory):
    """The plan in metres and minutes."""
    return solve.solve(town(tmp_path_factory.mktemp("town") / "town.json"), method="greedy").plan


@pytest.mark.parametrize("scale", SCALES)
def test_a_map_in_other_units(plan_of_town, tmp_path, scale):
    path = town(tmp_path / "town.json", length=scale, time=scale)
    plan = solve.solve(path, method="greedy").plan
    assert plan["routes"] == plan_of_town["routes"]
    times, others = ([event["end"] for event in each["events"]] for each in (plan, plan_of_town))
    np.testing.assert_allclose(np.array(times) / scale, others)


def test_a_map_on_another_clock_and_grid(plan_of_town, tmp_path):
    found = solve.solve(town(tmp_path / "town.json", clock=EPOCH / 60, place=GRID), method="greedy")
    assert found.plan["routes"] == plan_of_town["routes"]
    for name in ("end", "x"):
        moved, before = (np.array([event[name] for event in each["events"]]) for each in (found.plan, plan_of_town))
        np.testing.assert_allclose(moved, before + (EPOCH / 60 if name == "end" else GRID[0]), rtol=1e-9)
    found.write(tmp_path / "plan.html")
    found.draw(tmp_path / "plan.svg")
    page = (tmp_path / "plan.html").read_text()
    story = json.loads(page.split('id="episode">')[1].split("</script>")[0])["story"]
    assert story["clocks"][0] == EPOCH / 60
    places = np.array([place["position"] for place in story["places"]])
    assert (np.abs(places - GRID) < 1e5).all()


def day(*, time=1.0, length=1.0, clock=0.0, place=(0.0, 0.0), units=None):
    """Four rides of two vans as JSON: lengths and times in another unit, from another origin."""
    rides = [((0, 0), (3, 1)), ((3, 5), (5, 5)), ((6, 4), (0, 3)), ((2, 3), (2, 1))]

    def at(point):
        return (np.array(point) * length + place).tolist()

    return {
        "format": "jaxvrp-dispatch-day-1",
        "horizon": 150 * time + clock,
        **({"units": units} if units else {}),
        "vehicles": [
            {"id": f"van {v}", "start": at((2 * v, 0)), "speed": 30, "capacity": 4, "stop_time": time} for v in range(2)
        ],
        "requests": [
            {
                "id": f"r{r}",
                "arrival": 5 * r * time + clock,
                "pickup": at(pickup),
                "dropoff": at(dropoff),
                "pickup_deadline": (5 * r + 25) * time + clock,
                "dropoff_deadline": (5 * r + 60) * time + clock,
            }
            for r, (pickup, dropoff) in enumerate(rides)
        ],
    }


def solved_day(path, content, **how):
    """The plan of a day, or of a moment."""
    path.write_text(json.dumps(content))
    return solve.solve(path, **how)


@pytest.fixture(scope="module")
def plan_of_day(tmp_path_factory):
    """The plan of the day in its first units, from 0 o'clock."""
    return solved_day(tmp_path_factory.mktemp("day") / "day.json", day()).plan


SI = ({"time": "s", "length": "m"}, 60.0, 1000.0)


@pytest.mark.parametrize(("units", "time", "length", "clock"), [(*SI, 0.0), (*SI, EPOCH), (None, 1.0, 1.0, EPOCH)])
def test_a_day_in_other_units_on_another_clock(plan_of_day, tmp_path, units, time, length, clock):
    place, before = GRID if units else (0.0, 0.0), plan_of_day
    found = solved_day(
        tmp_path / "moved.json", day(time=time, length=length, clock=clock * time / 60, place=place, units=units)
    )
    assert found.plan["feasible"] and found.plan["routes"] == before["routes"]
    np.testing.assert_allclose(found.plan["travel"] / time, before["travel"], rtol=1e-5)
    for name in ("departs", "begin"):
        times, others = (np.array([stop[name] for stop in plan["stops"]]) for plan in (found.plan, before))
        np.testing.assert_allclose((times - clock * time / 60) / time, others, atol=1.1e-3)
    found.write(tmp_path / "plan.html")
    shown = text([clock / 60, (np.array(place) * length / 1e6).tolist()])
    assert f'"track": [{shown}' in (tmp_path / "plan.html").read_text()


def parcels(*, scale=1.0):
    """Three parcels for a van and a drone of one depot; lengths and times in another unit."""
    content = day(time=scale, length=scale)
    depot = [3.0 * scale, 2.0 * scale]
    for entry in (*content["requests"], *content["vehicles"]):
        for name in ("pickup", "start", "pickup_deadline"):
            entry.pop(name, None)
    content["vehicles"][1] |= {"is_drone": True, "capacity": 1, "turnaround": 5 * scale, "max_trip": 20 * scale}
    return content | {"depot": depot}


def rides_of_day(*, scale=1.0):
    return day(time=scale, length=scale)


DAYS = {
    "rides": (rides_of_day, "accept"),
    "parcels": (parcels, "accept"),
}


@pytest.fixture(scope="module")
def plans_of_days(tmp_path_factory):
    """The plan of each day in its first units."""
    path = tmp_path_factory.mktemp("days") / "day.json"
    return {name: solved_day(path, content(), method=method).plan for name, (content, method) in DAYS.items()}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", DAYS)
def test_a_day_in_other_units_of_the_same_names(plans_of_days, tmp_path, name, scale):
    (content, method), before = DAYS[name], plans_of_days[name]
    plan = solved_day(tmp_path / "day.json", content(scale=scale), method=method).plan
    assert plan["feasible"] and plan["routes"] == before["routes"]
    np.testing.assert_allclose(plan["travel"] / scale, before["travel"], rtol=1e-4)
    times, others = (times_of(each, "departs", "begin") for each in (plan, before))
    np.testing.assert_allclose(times / scale, others, atol=3e-3, rtol=0)


def moment(*, scale=1.0, late=0.0):
    """A moment of that day: one van stands, one has a ride ahead whose deadline leaves `late` less than it needs."""
    content = day(time=scale, length=scale)
    content["requests"][3]["pickup_deadline"] = (27 - late) * scale  # 3 km at 30 km/h, and a minute there
    stops = [{"what": kind, "request": "r3"} for kind in ("pickup", "drop-off")]
    vehicles = [
        {"id": "van 0", "free": 0.0, "place": [9.0 * scale, 9.0 * scale], "stops": []},
        {"id": "van 1", "free": 20.0 * scale, "place": [2.0 * scale, 0.0], "stops": stops},
    ]
    return {"format": "jaxvrp-dispatch-moment-1", "now": 20.0 * scale, "day": content, "vehicles": vehicles}


@pytest.mark.parametrize("scale", [1.0, *SCALES])
def test_a_moment_in_other_units_of_the_same_names(tmp_path, scale, monkeypatch):
    """What is late by a hundredth of a minute is late in every unit, what is late by a thousandth of that in none."""
    monkeypatch.setattr(search, "ROUNDS", 8)  # of a call; there is nothing to search
    for late, is_late in ((1.0 + 1e-2, True), (1.0 + 1e-5, False)):
        content = moment(scale=scale, late=late)
        plan = solved_day(tmp_path / "moment.json", content, seconds=0.01).plan
        assert bool(plan["late"]) == is_late, plan
        begins = np.array([stop["begin"] for stop in plan["stops"]]) / scale - 20
        np.testing.assert_allclose(begins, [6.0, 11.0], atol=3e-3)


@pytest.mark.parametrize("clock", [0.0, EPOCH])
def test_a_moment_on_another_clock(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(search, "ROUNDS", 8)
    now = 20 + clock / 60
    vehicles = [
        {"id": "van 0", "free": now, "place": [0.0, 0.0], "stops": []},
        {"id": "van 1", "free": 0.0, "place": [2.0, 0.0], "stops": [{"what": "pickup", "request": "r3"}]},
    ]
    vehicles[1]["stops"].append({"what": "drop-off", "request": "r3"})
    moment = {"format": "jaxvrp-dispatch-moment-1", "now": now, "day": day(clock=clock / 60), "vehicles": vehicles}
    plan = solved_day(tmp_path / "moment.json", moment, seconds=SECONDS).plan
    begins = [stop["begin"] - now for stop in plan["stops"]]
    np.testing.assert_allclose(begins, [6.0, 11.0], atol=2e-3)  # 3 km, a minute there, 2 km, at 30 km/h


def times_of(plan, *names):
    """The times of all stops, `f64[stops, names]`."""
    return np.array([[stop[name] for name in names] for stop in plan["stops"]])

"""VROOM's files: jobs become a day, shipments a dial-a-ride problem, plans VROOM's output; else one line by field."""

import itertools
import json
import pathlib
import re

import numpy as np
import pytest

from jaxvrp.envs.darp import routes_to_actions
from jaxvrp.envs.darp.problem.vroom import instance_of_vroom
from jaxvrp.envs.darp.shown.story import story_of_plan
from jaxvrp.io.command_line import UserError
from jaxvrp.orders.visits import Visit, in_json
from jaxvrp.orders.vroom_plan import write_vroom
from tests.refusals import changed
from train import solve

SAMPLE = pathlib.Path("docs/orders/day.vroom.json")

PLACE = [8.8, 53.1]
VEHICLE = {"id": 7, "start": PLACE, "start_index": 0, "end": PLACE, "end_index": 0, "capacity": [4]}


def shipments():
    """Two rides of three minutes and more each, in seconds since an unnamed zero."""
    step = {"location": [8.81, 53.11], "service": 30}
    rides = [
        {
            "amount": [2],
            "pickup": {**step, "id": 1, "description": "Ada", "location_index": 1, "time_windows": [[600, 1200]]},
            "delivery": {**step, "id": 2, "location_index": 2},
        },
        {
            "pickup": {**step, "id": 3, "location_index": 2},
            "delivery": {**step, "id": 4, "location_index": 1, "time_windows": [[0, 3000]]},
        },
    ]
    durations = [[0, 100, 200], [110, 0, 190], [210, 180, 0]]
    matrices = {"car": {"durations": durations}}
    return {"vehicles": [{**VEHICLE, "time_window": [300, 7200]}], "shipments": rides, "matrices": matrices}


def write(tmp_path, content):
    path = tmp_path / "day.vroom.json"
    path.write_text(json.dumps(content))
    return path


def tasks_of(content):
    """By kind and number the tasks of a problem, and by how much each changes what is on board."""
    tasks = {("job", job["id"]): {**job, "change": -job["delivery"][0]} for job in content.get("jobs", ())}
    for shipment in content.get("shipments", ()):
        (amount,) = shipment.get("amount", [1])
        tasks["pickup", shipment["pickup"]["id"]] = {**shipment["pickup"], "change": amount}
        tasks["delivery", shipment["delivery"]["id"]] = {**shipment["delivery"], "change": -amount}
    return tasks


def check(content, found):
    """All that VROOM's rules ask of a plan, computed from the problem alone."""
    jobs, durations = tasks_of(content), content["matrices"]["car"]["durations"]
    vehicles, done = {vehicle["id"]: vehicle for vehicle in content["vehicles"]}, []
    for route in found["routes"]:
        first, *rest = steps = route["steps"]
        assert first["type"] == "start" and rest[-1]["type"] == "end"
        opens, closes = vehicles[route["vehicle"]]["time_window"]
        assert opens <= first["arrival"] and rest[-1]["arrival"] <= closes
        names = [(step["type"], step["id"]) for step in rest[:-1]]
        served = [jobs[name] for name in names]
        done += names
        brought = {name: sum(jobs[name, id]["change"] for name_, id in names if name_ == name) for name, _ in names}
        assert route["pickup"] == [brought.get("pickup", 0)]
        assert route["delivery"] == [-brought.get("job", 0) - brought.get("delivery", 0)]
        loads = np.cumsum([-brought.get("job", 0), *(job["change"] for job in served), 0])
        assert [step["load"] for step in steps] == [[load] for load in loads]
        assert loads[-1] == 0 and loads.max() <= vehicles[route["vehicle"]]["capacity"][0]
        rows = [0, *(job["location_index"] for job in served), 0]
        ways = [durations[a][b] for a, b in itertools.pairwise(rows)]
        for (before, step), way in zip(itertools.pairwise(steps), ways, strict=True):
            leaves = before["arrival"] + before["waiting_time"] + before["service"]
            assert abs(step["arrival"] - leaves - way) <= 2
        np.testing.assert_allclose([step["duration"] for step in steps], np.cumsum([0, *ways]), atol=2)
        for step, job in zip(rest, served, strict=False):
            begins, (earliest, latest) = (
                step["arrival"] + step["waiting_time"],
                job.get("time_windows", [[0, np.inf]])[0],
            )
            assert earliest - 1 <= begins <= latest + 1 and step["location"] == pytest.approx(job["location"], abs=2e-6)
            assert step.get("description") == job.get("description")
    assert sorted(done + [(each["type"], each["id"]) for each in found["unassigned"]]) == sorted(jobs)
    assert found["summary"]["duration"] == sum(route["duration"] for route in found["routes"])


def test_jobs_are_planned_on_the_clock_of_the_file_and_come_back_as_a_plan_of_vroom(tmp_path):
    content = json.loads(SAMPLE.read_text())
    solution = solve.solve(SAMPLE, seconds=0.3)
    assert solution.method == "search" and solution.plan["feasible"]
    assert solution.plan["visits"][0]["time"][:2] in ("08", "09") and solution.plan["visits"][0]["unit"] == ""
    solution.write(tmp_path / "plan.vroom.json")
    check(content, json.loads((tmp_path / "plan.vroom.json").read_text()))
    solution.write(tmp_path / "plan.html")
    solution.write(tmp_path / "plan.geojson")


def test_a_vehicle_makes_one_trip_and_what_does_not_fit_is_unassigned(tmp_path):
    content = json.loads(SAMPLE.read_text())
    content["vehicles"] = content["vehicles"][:1]
    solution = solve.solve(write(tmp_path, content), seconds=0.3)
    solution.write(tmp_path / "plan.vroom.json")
    found = json.loads((tmp_path / "plan.vroom.json").read_text())
    check(content, found)
    # The job with a priority comes first, and 51 units do not fit into 30.
    assert len(found["routes"]) == 1 and 15 not in [each["id"] for each in found["unassigned"]]
    assert found["summary"]["unassigned"] == len(found["unassigned"]) > 0


def test_times_may_count_from_any_day(tmp_path):
    content, day = json.loads(SAMPLE.read_text()), 20_000 * 86_400
    for vehicle in content["vehicles"]:
        vehicle["time_window"] = [day + time for time in vehicle["time_window"]]
    for job in content["jobs"]:
        if "time_windows" in job:
            job["time_windows"] = [[day + time for time in job["time_windows"][0]]]
    solution = solve.solve(write(tmp_path, content), seconds=0.3)
    assert solution.plan["visits"][0]["time"] < "10:00"
    solution.write(tmp_path / "plan.vroom.json")
    check(content, json.loads((tmp_path / "plan.vroom.json").read_text()))


def test_shipments_are_a_dial_a_ride_problem(tmp_path):
    problem = solve.open_problem(path := write(tmp_path, shipments()), given={"max_ride_time": 240})
    instance = problem.problem
    assert type(problem.env).__name__ == "Darp" and problem.env.travel == "matrix" and problem.env.limits
    assert instance.demand.tolist() == [0, 2, -2, 1, -1] and instance.capacity.tolist() == [4]
    np.testing.assert_array_equal(instance.travel_time[1], [110, 0, 190, 190, 0])
    np.testing.assert_array_equal(instance.earliest, [300, 600, 0, 0, 0])
    assert instance.deadline.tolist() == [7200, 1200, np.inf, np.inf, 3000] and instance.max_ride_time == 240
    assert problem.problems.inspect(instance, problem.env).warnings == ()
    short = solve.open_problem(path, given={"max_ride_time": 170})
    assert (
        "170 is less than every direct ride takes, at least 180"
        in short.problems.inspect(short.problem, short.env)[1][0]
    )
    solution = solve.solve(path, seconds=0.3)
    assert solution.plan["feasible"]
    # The depot, 1, 2 (where the second ride begins), back to 1, and the depot.
    assert solution.plan["distance"] == pytest.approx(100 + 190 + 0 + 180 + 110)
    solution.write(tmp_path / "plan.vroom.json")
    found = json.loads((tmp_path / "plan.vroom.json").read_text())
    check(shipments(), found)
    assert "distance" not in found["routes"][0] and found["summary"]["unassigned"] == 0
    for name in ("plan.html", "plan.csv", "plan.geojson"):
        solution.write(tmp_path / name)
    assert (tmp_path / "plan.csv").read_text().splitlines()[1].startswith("7,00:08,start,depot,")


@pytest.mark.parametrize("day", [0, 20_000 * 86_400])
def test_a_page_of_shipments_has_times_of_the_day_and_minutes_driven(day):
    content = shipments()
    content["vehicles"][0]["time_window"] = [day + 300, day + 7200]
    content["shipments"][0]["pickup"]["time_windows"] = [[day + 600, day + 1200]]
    content["shipments"][1]["delivery"]["time_windows"] = [[day, day + 3000]]
    problem = instance_of_vroom(content, "day.json", max_ride_time=200)
    story = story_of_plan(problem, routes_to_actions([[1, 2, 3, 4]], 1))
    assert story.summary[0] == ("driven", "9.7 min")
    notes = [place.note.removeprefix("window ") for place in story.places[1:]]
    served = ["00:10", "00:14", "00:14", "00:18"]
    ends = ["00:10 to 00:20", "from 00:05", "from 00:05", "00:05 to 00:50"]
    assert notes == [f"{end}, served at {time}" for end, time in zip(ends, served, strict=True)]
    assert story.charts[0].title == "Requests: windows and rides up to 200 s"
    assert story.charts[0].rows[0].bars[-1].words == "ride of 190 s"
    assert story.units.moment(story.span[0]) == "00:05"
    assert story.vehicles[0].name == story.cards[0].title == "vehicle 7"
    assert story.events[0].words == "vehicle 7 sets out"


def test_shipments_that_nobody_can_bring_are_unassigned_at_both_ends(tmp_path):
    content = changed(shipments(), "shipments/0/amount", [3])
    content = changed(content, "shipments/1/amount", [9])
    content["matrices"]["car"]["distances"] = [[0, 1000, 2000], [1100, 0, 1900], [2100, 1800, 0]]
    with pytest.warns(UserWarning, match="exceed every vehicle's capacity"):
        solution = solve.solve(write(tmp_path, content), seconds=0.3)
    solution.write(tmp_path / "plan.vroom.json")
    found = json.loads((tmp_path / "plan.vroom.json").read_text())
    check(content, found)
    assert found["unassigned"] == [{"type": "pickup", "id": 3}, {"type": "delivery", "id": 4}]
    assert found["routes"][0]["distance"] == 1000 + 1900 + 2100 and found["routes"][0]["duration"] == 100 + 190 + 210


REFUSED = {
    "jobs/0/skills": ([1], "jobs[0].skills: plans here know nothing of it"),
    "jobs/1/pickup": ([3], "jobs[1].pickup: plans here know nothing of it"),
    "jobs/1/setup": (60, "jobs[1].setup"),
    "jobs/0/delivery": ([1, 2], "jobs[0].delivery has 2 amounts; one is counted here"),
    "jobs/0/time_windows": ([[0, 9], [20, 30]], "jobs[0].time_windows has 2 windows"),
    "jobs/2/time_windows": ([[9, 3]], "jobs[2].time_windows[0] ends at 3, before it begins at 9"),
    "jobs/3/time_windows": ([[0, 60]], "jobs[3].time_windows ends at 60, before vehicles begin"),
    "jobs/3/location": (..., "jobs[3].location is missing"),
    "jobs/4/location": ([53.1, 98.8], "jobs[4].location is [53.1, 98.8]; give longitude, then latitude"),
    "jobs/3/location_index": (7, "jobs[3].location_index is 7; the matrix has 7 rows, 0 to 6"),
    "jobs/5/id": (11, "jobs[5].id is 11, as that of jobs[0]"),
    "jobs/5/colour": ("red", "unknown key 'colour' in jobs[5]"),
    "jobs": ([], "jobs is empty; give at least one"),
    "shipments": ([{"pickup": {"id": 1}, "delivery": {"id": 2}}], "jobs: jobs and shipments are not planned together"),
    "vehicles/1/end": (..., "vehicles[1].end is missing"),
    "vehicles/1/start": ([8.9, 53.0], "vehicles[1].start is not vehicles[0].start"),
    "vehicles/1/time_window": ([0, 57600], "vehicles[1].time_window begins at another time"),
    "vehicles/0/breaks": ([{"id": 1}], "vehicles[0].breaks: plans here know nothing of it"),
    "vehicles/0/speed_factor": (1.2, "vehicles[0].speed_factor"),
    "vehicles/1/profile": ("bike", "vehicles[1].profile is not that of vehicles[0]"),
    "matrices": (..., "matrices is missing: no router is asked here"),
    "matrices/car/costs": ([[0]], "matrices.car.costs"),
    "matrices/car/durations": ([[0, 1], [None, 0]], "matrices.car.durations[1][0] is empty"),
}


@pytest.mark.parametrize("where", REFUSED)
def test_what_cannot_be_said_is_refused_by_its_field(tmp_path, where):
    value, words = REFUSED[where]
    path = write(tmp_path, changed(json.loads(SAMPLE.read_text()), where, value))
    with pytest.raises(UserError, match=re.escape(words)):
        solve.open_problem(path)


def test_vehicles_that_do_more_than_deliver_are_not_written(tmp_path):
    for activity, words in {"launch": "no words for 'launch'", "deliver": "customers with names and arrivals"}.items():
        visit = Visit("van", False, activity, "a", (0.0, 0.0), 3.0, "08:03")
        with pytest.raises(ValueError, match=words):
            write_vroom(tmp_path / "plan.vroom.json", {"routes": {"van": []}, "visits": in_json([visit])})

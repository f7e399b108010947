"""Days of the user's own from files, plans for them, and days that are driven by hand."""

import csv
import functools
import json
import re
import time
import warnings

import flax.serialization
import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import moment, save, stack
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor
from jaxvrp.envs.dispatch.env import DISPATCHER
from jaxvrp.envs.dispatch.plan import PROBLEMS
from jaxvrp.envs.dispatch.problem.day_file import FORMAT, parse_day, read_days
from jaxvrp.episodes import record_episode
from jaxvrp.io.json_files import parse_json
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, NOISY, each, padded, play
from train import solve


def ride(identity, arrival, dropoff=(3.0, 0.0), **more):
    more = {"pickup": [0.0, 0.0], "pickup_deadline": arrival + 20, "dropoff_deadline": arrival + 60, **more}
    return {"id": identity, "arrival": arrival, "dropoff": list(dropoff), **more}


@pytest.fixture
def town():
    """Two vehicles of 30 km/h, three requests of which the last two come at one instant."""
    return {
        "format": FORMAT,
        "horizon": 120,
        "vehicles": [
            {"id": "north", "start": [0, 1], "speed": 30, "capacity": 2, "stop_time": 1},
            {"id": "south", "start": [0, -4], "speed": 30, "capacity": 1},
        ],
        "requests": [ride("Ada", 5), ride("Ben", 10), ride("Cy", 10, load=2)],
    }


@pytest.fixture
def file(town, write):
    """The town as a file."""
    return write(json.dumps(town), "town.json")


def test_a_day_in_other_units_is_the_same_day(town, file, write):
    (day,) = read_days(file)
    town["units"] = {"length": "m", "time": "s", "speed": "m/s"}
    town["horizon"] *= 60
    for entry in town["requests"]:
        for name in ("arrival", "pickup_deadline", "dropoff_deadline"):
            entry[name] *= 60
        entry["pickup"], entry["dropoff"] = ([1000 * x for x in entry[end]] for end in ("pickup", "dropoff"))
    for entry in town["vehicles"]:
        entry.update(start=[1000 * x for x in entry["start"]], speed=entry["speed"] / 3.6)
        entry["stop_time"] = 60 * entry.get("stop_time", 0)
    (other,) = read_days(write(json.dumps(town), "seconds.json"))
    jax.tree.map(np.testing.assert_allclose, day.instance, other.instance)
    assert day.requests == other.requests == ("Ada", "Ben", "Cy") and other.clock_time(2.0) == 120.0


def test_null_is_left_out_and_a_whole_number_may_have_a_point(town, file, write):
    (day,) = read_days(file)
    town["vehicles"][0].update(capacity=2.0, max_trip=None, detour=None, turnaround=None, is_drone=None)
    town["requests"][2].update(load=2.0, pickup_earliest=None, dropoff_earliest=None, value=None)
    town.update(units={"length": None}, area=None, depot=None, name=None, travel_seed=None)
    for content in (town, parse_json(json.dumps(town))):
        assert jax.tree.all(jax.tree.map(np.array_equal, parse_day(content).instance, day.instance))
    for damage, says in (({"arrival": None}, "arrival is missing"), ({"load": 1.5}, "load is 1.5; it must be a whole")):
        with pytest.raises(ValueError, match=says):
            parse_day({**town, "requests": [{**town["requests"][0], **damage}]})


def test_a_day_has_its_own_noise(town, write):
    """The file's seed says how long legs take; what was planned in time can come late, and the plan says so."""
    town.update(travel_seed=2)
    town["requests"][0]["dropoff_deadline"] = 14.5
    (day,) = read_days(write(json.dumps(town), "town.json"))
    assert day.instance.travel_seed == 2
    env = jaxvrp.make("dispatch", num_vehicles=2, max_requests=3, travel_noise=1.0)
    record = jax.jit(functools.partial(record_episode, env, AcceptActor()))
    plan = PROBLEMS.plan(day, record(day.instance, jax.random.key(0)))
    assert plan["violations"] == {}
    begin = {(stop["what"], stop["request"]): stop["begin"] for stop in plan["stops"]}
    due = {request["id"]: request["dropoff_deadline"] for request in town["requests"]}
    late = [name for name in due if begin.get(("drop-off", name), 0) > due[name]]
    assert late and set(late) <= set(plan["late"])


@pytest.mark.parametrize("scenario", ENVS)
def test_saved_days_are_read_without_padding(scenario, tmp_path):
    rng = np.random.default_rng(0)
    days = [DAYS[scenario](rng, requests=3), DAYS[scenario](rng)]
    save(tmp_path / "days.npz", stack(days))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some can never be served
        read = read_days(tmp_path / "days.npz")
    for day, found in zip(days, read, strict=True):
        jax.tree.map(np.testing.assert_array_equal, day, found.instance)
    assert read[0].requests == ("request_0", "request_1", "request_2")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda day: day["requests"].reverse(), r"requests\[2\].arrival is 5, before that of requests\[1\], 10; sort"),
        (lambda day: day.update(vehicles=[]), "vehicles: a day has no vehicle; give at least one"),
        (lambda day: day["requests"][1].update(id="Ada"), r"requests\[1\].id: 'Ada' is the id of requests\[0\], too"),
        (lambda day: day["requests"][0].pop("pickup"), r"requests\[0\] has no pickup; give pickup, or a depot for all"),
        (lambda day: day.update(depot=[0, 0]), r"requests\[0\] has a pickup; leave out pickup, or the depot"),
        (lambda day: day["vehicles"][0].update(sped=3), r"unknown key 'sped' in vehicles\[0\]; did you mean 'speed'"),
        (lambda day: day.update(units={"time": "days"}), "units.time is 'days'; it must be one of: min, s, h"),
        (lambda day: day["requests"][0].update(load=0), r"requests\[0\].load is 0; it must be a whole number from 1"),
        (lambda day: day["requests"][0].update(pickup_earliest=90), "pickup_deadline of request 0 lies before"),
        (lambda day: day.update(travel_seed=-1), "travel_seed is -1; it must be a whole number from 0"),
        (lambda day: day.update(format="day"), "format is 'day'; it must be one of: jaxvrp-dispatch-day-1"),
        (lambda day: day.pop("format"), 'has no "format": "jaxvrp-dispatch-day-1"; write a day as'),
    ],
)
def test_a_mistake_in_a_day_is_one_line(damage, says, town, write):
    damage(town)
    path = write(json.dumps(town), "town.json")
    with pytest.raises(ValueError, match=says) as error:
        read_days(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_what_can_never_be_served_is_noted_and_rejected(town, write):
    town["requests"][1:] = ride("Dee", 20, dropoff_deadline=21), ride("Eli", 30, load=3)
    path = write(json.dumps(town), "town.json")
    with pytest.warns(UserWarning, match=r"town.json: no vehicle can ever serve Dee and 1 more; rejected whatever is"):
        solution = solve.solve(path, method="accept")
    assert solution.plan["unservable"] == ["Dee", "Eli"]
    assert solution.plan["rejected"][-2:] == ["Dee", "Eli"] and not solution.plan["feasible"]


def test_a_policy_of_parcels_refuses_a_day_of_rides_in_one_line(file):
    with pytest.raises(solve.UserError, match="the day has no depot, and the policy is of scenario 'same_day'; give"):
        solve.open_problem(file, run="dispatch_same_day")


def test_travel_is_what_is_driven_and_no_waiting(town, write):
    """Three kilometres to the pickup, three to the drop-off, and two hours of waiting between."""
    town["vehicles"] = [{"id": "north", "start": [0, 3], "speed": 30, "capacity": 2}]
    town["requests"] = [ride("Ada", 5, pickup_earliest=120, pickup_deadline=130, dropoff_deadline=200)]
    solution = solve.solve(write(json.dumps(town), "town.json"), method="accept")
    assert solution.plan["travel"] == 12 and solution.plan["totals"]["driven"] == "12 min, 6 km"
    assert float(solution.episode.states.totals.travel[-1]) == 12


def test_the_page_and_the_picture_of_a_day_have_the_names_of_its_file(town, write, tmp_path):
    """Nobody else is named: cards, events, reasons and sheets say the same; a vehicle without work has its sheet."""
    town.update(name="Tuesday")
    ben = ride("Ben", 6, pickup=[-3.0, 0.0], pickup_deadline=15)
    town["requests"] = [ride("Ada", 5, dropoff_deadline=15), ben, ride("Cy", 7, load=3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Cy can never be served
        solution = solve.solve(write(json.dumps(town), "town.json"), method="accept")
    solution.write(tmp_path / "day.html")
    page = (tmp_path / "day.html").read_text()
    episode = json.loads(page.split('id="episode">')[1].split("</script>")[0])
    assert episode["title"] == "Tuesday"
    assert [agent["name"] for agent in episode["agents"][1:]] == ["north", "south"]
    assert episode["actions"]["dispatcher"] == ["reject", "north", "south"]
    assert [each["name"] for each in episode["story"]["vehicles"]] == ["north", "south"]
    assert {each["name"] for each in episode["story"]["places"]} == {"Ada", "Ben", "Cy"}
    words = json.dumps([[step["why"] for step in episode["steps"]], episode["shortfalls"]])
    assert not re.search(r"(request|vehicle|drone) \d", words) and '"name": "Cy"' in words and "Ada would be" in words
    sheets = page.split('id="sheets"')[1].split("<script")[0]
    assert re.findall(r"<h2>(.*?)</h2>", sheets) == ["north", "south"]
    assert sheets.count("nothing to do") == sum(not route for route in solution.plan["routes"].values()) == 1
    solution.draw(tmp_path / "day.svg")
    drawn = (tmp_path / "day.svg").read_text()
    assert "<!-- north -->" in drawn and "vehicle 0" not in drawn


def test_picture_and_sheets_of_a_day_have_the_times_of_its_file(town, write, tmp_path):
    """Minutes since 1970: the day of Ada and Ben begins with Ada at 29 000 000."""
    town.update(horizon=29_000_300)  # and all have as many requests as the town, so that they share a program
    town["requests"] = [
        ride(name, 29_000_000 + at, dropoff_deadline=29_000_200) for name, at in (("Ada", 0), ("Ben", 60), ("Cy", 60))
    ]
    solution = solve.solve(write(json.dumps(town), "town.json"), method="accept")
    solution.draw(tmp_path / "day.svg")
    times = [int(time) for time in re.findall(r"<!-- (\d+) -->", (tmp_path / "day.svg").read_text())]
    assert min(t for t in times if t > 1e6) == 29_000_000 and 29_000_060 <= max(times) < 29_000_100
    solution.write(tmp_path / "day.html")
    assert "<td>29000000</td>" in (tmp_path / "day.html").read_text()


def test_an_empty_day_is_over_at_once(town, write, tmp_path):
    town["requests"] = []
    solution = solve.solve(write(json.dumps(town), "town.json"), method="accept")
    assert solution.plan["feasible"] and solution.plan["answers"] == solution.plan["stops"] == []
    solution.write(tmp_path / "day.html")
    solution.draw(tmp_path / "day.png")


def test_the_plan_says_who_was_asked_and_what_was_answered(file, tmp_path):
    solution = solve.solve(file, method="accept")
    plan = solution.plan
    ada, ben, cy = plan["answers"]
    # North is 1 km away, 2 min; south 4 km, 8 min; the ride takes 6 min.
    assert ada == {
        "request": "Ada",
        "arrival": 5.0,
        "offers": {"north": 8.0, "south": 14.0},
        "vehicle": "north",
        "pickup": 7.0,
        "dropoff": 14.0,
    }
    assert (ben["arrival"], cy["arrival"]) == (10.0, 10.0), "two at one instant are two decisions"
    assert "south" not in cy["offers"] and plan["rejected"] == [
        answer["request"] for answer in plan["answers"] if answer["vehicle"] is None
    ]
    assert plan["routes"]["north"][:2] == ["pickup Ada", "drop-off Ada"]
    for path in (tmp_path / "plan.json", tmp_path / "stops.csv"):
        solution.write(path)
    assert json.loads((tmp_path / "plan.json").read_text())["stops"] == plan["stops"]
    rows = list(csv.DictReader((tmp_path / "stops.csv").read_text().splitlines()))
    assert [row["request"] for row in rows] == [stop["request"] for stop in plan["stops"]]
    assert rows[0] == {
        "vehicle": "north",
        "trip": "",
        "stop": "1",
        "what": "pickup",
        "request": "Ada",
        "departs": "5.0",
        "begin": "7.0",
        "load": "1",
    }


def test_stops_at_one_time_have_a_load_each(town, write):
    """Two at one door, with no time at stops; the third comes too late, and the south is too far."""
    town["vehicles"][0]["stop_time"], town["vehicles"][1]["start"] = 0, [0, -90]
    town["requests"] = [ride("Ada", 5), ride("Ben", 5), ride("Cy", 6, pickup_deadline=6.5)]
    plan = solve.solve(write(json.dumps(town), "town.json"), method="accept").plan
    loads = [(stop["what"], stop["begin"], stop["load"]) for stop in plan["stops"]]
    assert loads[:2] == [("pickup", 7.0, 1), ("pickup", 7.0, 2)] and not plan["violations"]
    assert loads[2:4] == [("drop-off", 13.0, 1), ("drop-off", 13.0, 0)]


def test_flights_that_depart_at_one_time_are_trips_each(town, write):
    """To the depot itself, in no time."""
    town["depot"] = [0, 0]
    town["vehicles"] = [
        {"id": name, "speed": 30, "capacity": 1, "is_drone": name == "drone"} for name in ("van", "drone")
    ]
    times = {"arrival": 0, "pickup_earliest": 10, "dropoff_deadline": 60}
    town["requests"] = [{"id": name, "dropoff": [0, 0], **times} for name in ("Ada", "Ben", "Cy")]
    plan = solve.solve(write(json.dumps(town), "town.json"), method="accept").plan
    trips = [stop["trip"] for stop in plan["stops"] if stop["vehicle"] == "drone"]
    assert plan["feasible"] and len(plan["stops"]) == 3 and trips == list(range(1, 1 + len(trips))) and len(trips) > 1


def test_a_day_with_a_depot_sets_scenario_and_fleet(town, write):
    town["depot"] = [0, 0]
    for entry in (*town["requests"], *town["vehicles"]):
        entry.pop("pickup", None), entry.pop("start", None), entry.pop("pickup_deadline", None)
    town["requests"][2]["load"] = 1
    town["vehicles"][1].update(is_drone=True, turnaround=5, max_trip=None)
    solution = solve.solve(write(json.dumps(town), "town.json"), method="threshold")
    env = solution.problem.env
    assert (env.scenario, env.num_vehicles, env.num_drones, env.max_requests) == ("same_day", 1, 1, 3)
    assert {stop["what"] for stop in solution.plan["stops"]} == {"drop-off"} and solution.plan["feasible"]
    assert solution.plan["stops"][0]["trip"] == 1


@pytest.mark.slow("ride_pooling-noise", "same_day-exact")
@pytest.mark.parametrize("noise", [{}, NOISY], ids=["exact", "noise"])
@pytest.mark.parametrize("scenario", ENVS)
def test_a_day_by_hand_is_the_day_that_was_known(scenario, noise):
    """Requests that become known one by one lead to the same states as the whole day, bit for bit, from a file too."""
    env = ENVS[scenario].replace(**noise)
    # Two programs; with noise they differ by the last bit of a place.
    same = functools.partial(np.testing.assert_allclose, rtol=1e-6) if noise else np.testing.assert_array_equal
    rng = np.random.default_rng(5)
    drawn = [DAYS[scenario](rng) for _ in range(COUNT)]
    batch = padded([day.replace(travel_seed=np.int32(i)) for i, day in enumerate(drawn)] if noise else drawn)
    days, ((states, _), actions) = each(batch), play(env, batch, jax.random.key(2), 0.0)
    step, start = jax.jit(env.step), jax.jit(env.reset_to)

    def known(count):
        content = jax.tree.map(np.asarray, days[0])
        exists = np.arange(content.max_requests) < count
        arrival, load = np.where(exists, content.arrival, np.inf), np.where(exists, content.load, 0)
        return Named(content.replace(arrival=arrival, load=load))

    state, _ = start(known(1).instance)
    for count in range(2, 6):
        state = flax.serialization.from_bytes(state, flax.serialization.to_bytes(jax.device_get(state)))
        state = moment.with_requests(env, state, known(count))
        state, _ = step(state, {role: chosen[count - 2, 0] for role, chosen in actions.items()})
        wanted = jax.tree.map(lambda leaf, count=count: leaf[count - 1, 0], states)
        for name in ("plans", "offers", "totals", "now"):
            jax.tree.map(same, getattr(state, name), getattr(wanted, name))


class Named:
    """The instance of a day alone."""

    def __init__(self, instance):
        self.instance = instance


def test_plans_between_decisions(town):
    day = parse_day({**town, "requests": town["requests"][:1]})
    env = jaxvrp.make("dispatch", num_vehicles=2, max_requests=8)
    state, timestep = jax.jit(env.reset_to)(day.instance)
    assert timestep.action_mask[DISPATCHER][0].tolist() == [True, True, True]
    none = {"vehicle": np.zeros(2, np.int32)}
    action = {DISPATCHER: np.int32([2]), **none}
    plan = moment.pending(day, moment.decided(env, state, action))
    begin = [{"what": kind, "request": "Ada", "begin": at} for kind, at in (("pickup", 13.0), ("drop-off", 19.0))]
    assert plan == {"north": [], "south": begin}
    day = parse_day({**town, "requests": town["requests"][:2]})
    state, _ = jax.jit(env.step)(moment.with_requests(env, state, day), action)
    assert not state.done and moment.pending(day, state)["south"] == begin[1:], "what a vehicle drives to is committed"
    with pytest.raises(ValueError, match="does not fit into max_requests 8 and 2 vehicles"):
        moment.with_requests(env, state, parse_day({**town, "requests": [ride(str(i), 5) for i in range(9)]}))


def test_a_large_day_is_read_in_linear_time_and_a_larger_one_is_refused_by_its_size(town, write):
    """A quarter of this size took a second, as each name was compared with all before."""
    town["requests"] = [ride(str(number), 5) for number in range(20_000)]
    file, start = write(json.dumps(town), "large.json"), time.process_time()
    (day,) = PROBLEMS.read(file)
    assert time.process_time() - start < 5
    assert len(day.requests) == 20_000 and day.requests[-1] == "19999"
    vehicle = town["vehicles"][0]
    with pytest.raises(ValueError, match=r"^vehicles has 1001 entries; it may have up to 1000$"):
        parse_day({**town, "vehicles": [{**vehicle, "id": str(number)} for number in range(1_001)]})
    with pytest.raises(ValueError, match=r"^a day of 20000 requests; with 101 vehicles, give up to 19801$"):
        parse_day({**town, "vehicles": [{**vehicle, "id": str(number)} for number in range(101)]})

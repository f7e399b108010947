"""Tables, maps and fleets as people have them: read as they are meant, or refused in one line that names the place."""

import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import registry, show
from jaxvrp.envs.dispatch.plan import PROBLEMS as DISPATCH
from jaxvrp.episodes import record_rows
from jaxvrp.geography.earth import FLATTENING, RADIUS, Earth
from jaxvrp.io.clock import Clock, is_time
from jaxvrp.orders.fleet_file import read_fleet
from jaxvrp.orders.geojson import write_geojson
from jaxvrp.orders.orders import case_of
from jaxvrp.orders.table import read_orders
from jaxvrp.orders.visits import write_table
from jaxvrp.show.sheets import to_html
from tests.refusals import refusal

FLEET = """
start: 08:00
end: 18:00
depot: {lat: 48.1, lon: 11.5}
vans: {count: 2, speed: 30, capacity: 800, stop: 3}
drones: {count: 3, speed: 60, range: 20, capacity: 5, turnaround: 4}
"""

PLAIN = "id,lat,lon,from,to,kg\na,48.11,11.52,08:00,12:00,2.5\nb,48.12,11.53,09:30,,4\n"


@pytest.fixture
def files(tmp_path):
    def write(table=PLAIN, fleet=FLEET, name="customers.csv"):
        path, fleet_path = tmp_path / name, tmp_path / "fleet.yaml"
        path.write_bytes(table if isinstance(table, bytes) else table.encode())
        fleet_path.write_text(fleet)
        return path, fleet_path

    return write


def case(path, fleet_path):
    return case_of(read_orders(path), read_fleet(fleet_path))


def played(name, problem):
    """An episode of a problem of an environment, by the first of its baselines."""
    problems = registry.problems_of(jaxvrp.make(name))
    name = problems.environment or name
    env = jaxvrp.make(name, **problems.parameters(problem, jaxvrp.make(name)))
    player = next(iter(registry.players_of(env).baselines.values()))(env)
    rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], problems.instance(problem, env))
    return jax.device_get(record_rows(env, player, rows, jax.random.key(0), 0))


DIALECTS = {
    "semicolons, decimal commas, BOM, CRLF": "\ufeffName;Latitude;LNG;Window start;Window end;Weight (kg)\r\n"
    'a;48,11;11,52;08:00;12:00;2,5\r\n"b";48,12;11,53;9:30;;4\r\n',
    "tabs": "customer\tlat\tlong\tfrom\tto\tdemand\na\t48.11\t11.52\t8:00\t12:00\t2.5\n\nb\t48.12\t11.53\t9:30\t\t4\n",
    "quotes": '"id","lat","lon","window","kg"\n"a","48.11","11.52","08:00-12:00","2.5"\n'
    'b,48.12,11.53,"9:30 - 18:00",4\n',
    "minutes": "id,lat,lon,from,to,kg\na,48.11,11.52,0,240,2.5\nb,48.12,11.53,90,600,4\n",
}


@pytest.mark.parametrize("table", DIALECTS.values(), ids=DIALECTS)
def test_every_dialect_says_the_same(files, table):
    assert case(*files(table)).stops == case(*files()).stops


def test_a_geojson_says_the_same(files):
    def point(lon, lat, **properties):
        return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [lon, lat]}}

    a = point(11.52, 48.11, id="a", kg=2.5, until="12:00", **{"from": "08:00"})
    b = point(11.53, 48.12, id="b", demand=4, ready="9:30", colour="red")
    content = {"type": "FeatureCollection", "features": [a, b]}
    path, fleet = files(json.dumps(content), name="points.geojson")
    assert read_orders(path).ignored == ("colour",)
    assert case(path, fleet).stops == case(*files()).stops
    a["properties"]["id"] = 0
    path.write_text(json.dumps(content))
    assert [order.name for order in read_orders(path).orders] == ["0", "b"]


def rows(count):
    return "id,lat,lon\n" + "".join(f"c{i},48.1,11.5\n" for i in range(count))


BAD_TABLES = {
    "no coordinates": ("id,kg\na,1\n", "line 1: no coordinates among the columns id, kg"),
    "none in a row": ("id,lat,lon\na,,\n", "line 2 has no coordinates"),
    "exchanged": ("id,lat,lon\na,48.1,11.5\nb,11.52,48.11\n", "line 3: latitude 11.52 and longitude 48.11 of b"),
    "beyond the pole": ("id,lat,lon\na,118.1,11.5\n", "line 2: lat is '118.1'; it must be a number from -90 to 90"),
    "far": ("id,lat,lon\na,58.1,11.5\n", "line 2: a lies more than 300 km from the depot"),
    "a window backwards": (
        "id,lat,lon,from,to\na,48.1,11.5,12:00,10:00\n",
        "line 2: the window of a ends at 10:00, before it begins at 12:00",
    ),
    "before the day": ("id,lat,lon,from,to\na,48.1,11.5,06:00,07:00\n", "is not in the day, 08:00 to 18:00"),
    "no time": ("id,lat,lon,from\na,48.1,11.5,25:00\n", "line 2: from is '25:00'; write a time as 08:30"),
    "no colon": ("id,lat,lon,from\na,48.1,11.5,0830\n", "from is '0830'; write a time as 08:30, or minutes since the"),
    "the depot exchanged": ("id,lat,lon\na,11.5,48.1\n", "exchange the two columns, or those of the depot"),
    "one id twice": ("id,lat,lon\na,48.1,11.5\na,48.2,11.5\n", "line 3: id 'a' is that of line 2, too"),
    "negative": ("id,lat,lon,kg\na,48.1,11.5,-2\n", "line 2: kg is '-2'; it must be a number from 0"),
    "no number": ("id,lat,lon,kg\na,48.1,11.5,heavy\n", "line 2: kg is 'heavy'; it must be a number from 0"),
    "empty": ("", "customers.csv has no customers"),
    "a head alone": ("id,lat,lon\n", "customers.csv has no customers"),
    "ten thousand": (rows(10_000), "customers.csv has 10000 customers; up to 2000 are planned at once"),
    "a cell too many": ("id,lat,lon\na,48,1,11\n", "line 2 has 4 cells, and the head 3"),
    "two columns of one": ("id,lat,lon,kg,weight\na,48.1,11.5,1,2\n", "columns 'kg' and 'weight' both say the load"),
    "kilometres": ("id,x,y\na,1,2\n", "depot is in degrees, and"),
    "Latin-1": ("id,lat,lon\nm\xfcller,48.1,11.5\n".encode("latin-1"), "save it as UTF-8"),
}


@pytest.mark.parametrize(("table", "words"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables_are_refused_in_a_line(files, table, words):
    assert words in refusal(case, *files(table))


BAD_PROPERTIES = {
    "a number for a window": ({"id": "a", "window": 480}, "features[0]: window is '480'; write it as 08:00-12:00"),
    "an object for a window": ({"id": "a", "window": {"from": 1}}, "write it as 08:00-12:00"),
    "a window of words": ({"id": "a", "window": "early-late"}, "features[0]: window is 'early'; write a time as 08:30"),
    "a list": (["id"], "features[0].properties: expected an object"),
    "a text": ("id", "features[0].properties: expected an object"),
}


@pytest.mark.parametrize(("properties", "words"), BAD_PROPERTIES.values(), ids=BAD_PROPERTIES)
def test_bad_points_are_refused_in_a_line(files, properties, words):
    point = {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [11.5, 48.1]}}
    text = json.dumps({"type": "FeatureCollection", "features": [point]})
    assert words in refusal(case, *files(text, name="customers.geojson"))


BAD_FLEETS = {
    "no depot": (FLEET.replace("depot", "home"), "unknown key 'home'"),
    "no time": (FLEET.replace("08:00", "8"), "start is 8; it must be a time, written as 08:00"),
    "too many": (FLEET.replace("count: 2", "count: 100000"), "vans.count is 100000; it must be a whole number from 1"),
    "no speed": (FLEET.replace("speed: 30, ", ""), "vans.speed is missing"),
    "a negative range": (FLEET.replace("range: 20", "range: -20"), "drones.range is -20; it must be more than 0"),
    "half a place": (FLEET.replace(", lon: 11.5", ""), "depot needs lat and lon"),
    "two vans that carry": (FLEET.replace("turnaround: 4", "from: van"), "drones.from: one van can carry drones"),
}


@pytest.mark.parametrize(("fleet", "words"), BAD_FLEETS.values(), ids=BAD_FLEETS)
def test_bad_fleets_are_refused_in_a_line(files, fleet, words):
    path, fleet_path = files(fleet=fleet)
    message = refusal(case, path, fleet_path)
    assert words in message and str(fleet_path) in message


def test_windows_beyond_the_day_are_cut_and_named(files):
    table = "id,lat,lon,from,to\nearly,48.1,11.5,07:00,09:00\nlate,48.1,11.5,17:00,21:00\nin,48.1,11.5,09:00,10:00\n"
    found = case(*files(table))
    assert found.cut == ("early", "late")
    early, late, _ = found.stops
    assert (early.earliest, early.latest) == (0.0, 60.0) and late.latest == found.fleet.horizon


def test_the_fleet_says_what_plays(files):
    assert read_fleet(files()[1]).choice[0] == "dispatch"
    assert read_fleet(files(fleet=FLEET.replace("count: 2, ", ""))[1]).choice[0] == "vrpd_tw"
    fleet = FLEET.replace("count: 2, ", "").replace("turnaround: 4", "from: depot")
    assert read_fleet(files(fleet=fleet)[1]).choice == ("dispatch", "1 van and 3 drones start from a depot")


def test_a_night_goes_on_after_midnight(files):
    night = FLEET.replace("08:00", '"20:00"').replace("18:00", '"04:00"')
    found = case(*files("id,lat,lon,from,to\na,48.1,11.5,23:30,00:30\n", night))
    assert (found.stops[0].earliest, found.stops[0].latest) == (210, 270)
    assert Clock(1200).shown(270) == "00:30 +1" and Clock(480).shown(11.557) == "08:12"


@pytest.mark.parametrize(
    ("day", "window", "minutes"),
    [
        (("22:00", "06:00"), ("23:00", "07:00"), (60, 480)),  # an hour after the end, not fifteen before the start
        (("22:00", "06:00"), ("", "07:00"), (0, 480)),
        (("22:00", "06:00"), ("21:00", "23:00"), (0, 60)),
        (("08:00", "16:00"), ("07:00", "17:00"), (0, 480)),
        (("08:00", "24:00"), ("20:00", "24:00"), (720, 960)),
        (("00:00", "24:00"), ("20:00", "24:00"), (1200, 1440)),
        (("00:00", "23:59"), ("00:00", "24:00"), (0, 1439)),
    ],
)
def test_a_window_is_cut_to_the_day(files, day, window, minutes):
    fleet = FLEET.replace("08:00", f'"{day[0]}"').replace("18:00", f'"{day[1]}"')
    (stop,) = case(*files(f"id,lat,lon,from,to\na,48.1,11.5,{window[0]},{window[1]}\n", fleet)).stops
    assert (stop.earliest, stop.latest) == minutes


def test_a_stop_without_a_time_takes_that_of_the_fleet(files):
    path, fleet = files("id,lat,lon,service\na,48.11,11.52,1\nb,48.12,11.53,\n")
    day, notes = DISPATCH.of_case(case(path, fleet))
    assert day.instance.stop_time.tolist() == [3, 3, 1, 1, 1]
    assert [note.partition(",")[0] for note in notes] == [
        "vans: stops of 1 to 3 minutes are asked for",
        "drones: stops of 0 to 1 minutes are asked for",
    ]


@pytest.mark.parametrize("capacity", [2.29, 2.3, 2.31])
def test_kilograms_are_not_lost_in_rounding(files, capacity):
    path, fleet = files("id,lat,lon,kg\na,48.11,11.52,1.25\nb,48.12,11.53,1.05\n", FLEET.replace("800", f"{capacity}"))
    day, _ = DISPATCH.of_case(case(path, fleet))
    assert day.scale == 100 and day.instance.load.tolist() == [125, 105]
    assert day.instance.capacity[0] == round(100 * capacity)


def test_what_a_fleet_file_says_in_units_is_no_cause_for_a_warning(files):
    near = "id,lat,lon\na,48.101,11.501\n"  # drones take half a minute
    day, _ = DISPATCH.of_case(case(*files(near)))
    assert DISPATCH.inspect(day, None).warnings == ()
    day, _ = DISPATCH.of_case(case(*files(near, FLEET.replace("range: 20", "range: 0.2"))))
    assert (
        DISPATCH.inspect(day, None).warnings[0].startswith("drones.range: no customer is within 0.2, the nearest needs")
    )
    fast = FLEET.replace("speed: 30", "speed: 130")
    day, _ = DISPATCH.of_case(case(*files("id,lat,lon\na,48.101,14.2\n", fast)))  # 200 km away: 100 and 1 on the plane
    assert not any("latitude" in words for words in DISPATCH.inspect(day, None).warnings)


@pytest.mark.parametrize(
    ("table", "change", "found"),
    [
        ("id,lat,lon\na,48.11,11.52\n", ("speed: 30", "speed: 28000"), "vans.speed: 28000 km/h is faster than any"),
        ("id,lat,lon\na,48.11,11.52\n", ("speed: 60", "speed: 900"), "drones.speed: 900 km/h is faster than any"),
        ("id,x,y\na,800,400\n", ("lat: 48.1, lon: 11.5", "x: 0, y: 0"), "give it in km/h, and places in kilometres"),
    ],
    ids=["a van as fast as a rocket", "a drone in metres a second, or so", "places in metres"],
)
@pytest.mark.filterwarnings("ignore:.*no vehicle can ever serve")
def test_units_that_a_fleet_file_does_not_have_are_named(files, table, change, found):
    day, _ = DISPATCH.of_case(case(*files(table, FLEET.replace(*change))))
    assert found in DISPATCH.inspect(day, None).warnings[0]


STREETS = FLEET.replace("speed: 30", "matrix: streets.json")

TABLE = {
    "durations": [[0, 240, 300], [360, 0, 120], [300, 60, 0]],
    "distances": [[0, 2000, 2500], [2900, 0, 1100], [2500, 900, 0]],
}


def test_vans_drive_along_the_streets_of_a_table(files, tmp_path):
    path, fleet = files("id,lat,lon,known\na,48.11,11.52,09:00\nb,48.12,11.53,\n", STREETS.replace("drones:", "#"))
    (tmp_path / "streets.json").write_text(json.dumps(TABLE))
    day, _ = DISPATCH.of_case(case(path, fleet))
    assert day.requests == ("b", "a")  # in the order in which they come in; rows and columns move with them
    np.testing.assert_allclose(day.instance.travel_time, [[0, 5, 4], [5, 0, 1], [6, 2, 0]])
    plan = DISPATCH.plan(day, played("dispatch", day))
    ways = {visit["name"]: visit["way"] for visit in plan["visits"] if visit["what"] == "deliver"}
    assert ways == {"a": 2.0, "b": 2.5}
    assert plan["totals"]["driven"].endswith(" min, 9.90 km")
    assert any(sheet.note == "2 stops, 9.9 km" for sheet in DISPATCH.sheets(day, plan))


def test_a_table_of_seconds_alone_is_enough(files, tmp_path):
    (tmp_path / "streets.csv").write_text("depot,a,b\n0,240,300\n360,0,120\n300,60,0\n")
    found = case(*files(fleet=STREETS.replace(".json", ".csv")))
    assert found.fleet.streets.seconds.tolist() == TABLE["durations"] and found.fleet.streets.metres is None


@pytest.mark.parametrize("head", ["depot,b,a\n", ",depot,b,a\n", ""])
def test_rows_that_name_customers_follow_these(files, tmp_path, head):
    seconds = [[0, 300, 240], [300, 0, 60], [360, 120, 0]]
    names = ["depot", "b", "a"] if head != "depot,b,a\n" else []
    rows = [",".join(map(str, [*names[at : at + 1], *row])) for at, row in enumerate(seconds)]
    (tmp_path / "streets.csv").write_text(head + "\n".join(rows))
    found = case(*files(fleet=STREETS.replace(".json", ".csv")))
    assert found.fleet.streets.seconds.tolist() == TABLE["durations"]


BAD_STREETS = {
    "another size": (TABLE["durations"][:2], STREETS, "durations"),
    "too few": ([[0, 240], [360, 0]], STREETS, "vans.matrix has 2 rows; it needs 3: one for the depot"),
    "a hole": ([[0, 1, None], [1, 0, 1], [1, 1, 0]], STREETS, r"durations[0][2] is empty"),
    "a speed, too": (TABLE["durations"], STREETS.replace("count: 2", "count: 2, speed: 30"), "vans.speed: vans.matrix"),
    "carried": (TABLE["durations"], STREETS.replace("count: 2, ", ""), "a van that carries its drones drives straight"),
}


@pytest.mark.parametrize(("durations", "fleet", "words"), BAD_STREETS.values(), ids=BAD_STREETS)
def test_bad_streets_are_refused_in_a_line(files, tmp_path, durations, fleet, words):
    (tmp_path / "streets.json").write_text(json.dumps({"durations": durations}))

    def problem():
        found = case(*files(fleet=fleet))
        registry.problems_of(jaxvrp.make(found.fleet.choice[0])).of_case(found)

    message = refusal(problem)
    assert words in message and "fleet.yaml" in message


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("depot,a,c\n0,1,2\n1,0,1\n2,1,0\n", "vans.matrix has a row of a, and none of b; name the depot and every"),
        ("0,1,abc\n1,0,1\n2,1,0\n", "line 1"),
        ("0,1,abc\n1,0,1\n2,1,0\n", "abc"),
    ],
)
def test_bad_tables_of_streets_are_refused_in_a_line(files, tmp_path, table, words):
    (tmp_path / "streets.csv").write_text(table)
    assert words in refusal(case, *files(fleet=STREETS.replace(".json", ".csv")))


def geodesic(start, end):
    """Kilometres on the ellipsoid, by Vincenty's iteration (1975)."""
    (a, l1), (b, l2) = np.radians(start), np.radians(end)
    u, v = (math.atan((1 - FLATTENING) * math.tan(each)) for each in (a, b))
    turn = wide = l2 - l1
    for _ in range(50):
        sine = math.hypot(
            math.cos(v) * math.sin(wide), math.cos(u) * math.sin(v) - math.sin(u) * math.cos(v) * math.cos(wide)
        )
        cosine = math.sin(u) * math.sin(v) + math.cos(u) * math.cos(v) * math.cos(wide)
        angle, alpha = math.atan2(sine, cosine), math.cos(u) * math.cos(v) * math.sin(wide) / sine
        square = 1 - alpha**2
        mid = cosine - 2 * math.sin(u) * math.sin(v) / square
        c = FLATTENING / 16 * square * (4 + FLATTENING * (4 - 3 * square))
        wide = turn + (1 - c) * FLATTENING * alpha * (angle + c * sine * (mid + c * cosine * (2 * mid**2 - 1)))
    k = square * (1 / (1 - FLATTENING) ** 2 - 1)
    large = 1 + k / 16384 * (4096 + k * (-768 + k * (320 - 175 * k)))
    small = k / 1024 * (256 + k * (-128 + k * (74 - 47 * k)))
    return RADIUS * (1 - FLATTENING) * large * (angle - small * sine * (mid + small / 4 * cosine * (2 * mid**2 - 1)))


@pytest.mark.parametrize(("across", "error"), [(100, 1e-4), (300, 1e-3)])
@pytest.mark.parametrize(
    ("latitude", "longitude"), [(-33.9, 11.5), (1.3, 11.5), (48.1, 11.5), (64.1, 11.5), (-17.0, 180.0), (-16.8, -179.9)]
)
def test_distances_on_the_plane_are_those_on_the_ground(latitude, longitude, across, error):
    draw = np.random.default_rng(3)
    half = across / 2 / np.array([111.3, 111.3 * np.cos(np.radians(latitude))]) * 0.99
    places = np.array([latitude, longitude]) + draw.uniform(-half, half, (40, 2))
    places[:, 1] = (places[:, 1] + 180) % 360 - 180
    flat = (earth := Earth.around(places)).flat(places)
    for at in range(0, 40, 2):
        true = geodesic(places[at], places[at + 1])
        assert abs(np.linalg.norm(flat[at] - flat[at + 1]) / true - 1) < error
        assert np.abs(np.array(earth.degrees(flat[at])) - places[at]).max() < 1e-6


@pytest.mark.filterwarnings("ignore:.*no vehicle can ever serve")
def test_loads_are_told_in_kilograms_whatever_units_a_day_counts_them_in(files):
    """Tenths of them here; 7.3 kg are 2.3 kg above what a drone carries."""
    table = PLAIN.replace(",4\n", ",7.3\n") + "c,48.11,11.51,,,1900\n"
    day, _ = DISPATCH.of_case(case(*files(table)))
    assert day.scale == 10
    episode = played("dispatch", day)
    plan = DISPATCH.plan(day, episode)
    delivered = {visit["name"]: visit["load"] for visit in plan["visits"]}
    assert (delivered["a"], delivered["b"]) == (2.5, 7.3)
    aboard = {stop["request"]: stop["load"] for stop in plan["stops"]}
    assert aboard["b"] == 0.0 and {stop["load"] for stop in plan["stops"]} <= {0.0, 2.5, 7.3}
    story = show.story_of(episode, day)
    notes = [words for vehicle in story.vehicles for _, words in vehicle.notes]
    assert "no: load 2.3 kg above its capacity" in notes and "no: load 1100 kg above its capacity" in notes
    assert story.lost == (("c", "no vehicle could take it: 5 x load 1100 kg above its capacity or more"),)


@pytest.mark.parametrize("name", ["dispatch", "truck_drone"])
def test_an_environment_makes_its_problem_and_tells_drivers(files, name, tmp_path):
    case_ = case(*files(fleet=FLEET if name == "dispatch" else FLEET.replace("count: 2, ", "")))
    problems = registry.problems_of(jaxvrp.make(name))
    problem, _ = problems.of_case(case_)
    plan = problems.plan(problem, played(name, problem))
    visits = [visit for visit in plan["visits"] if visit["what"] == "deliver"]
    assert {visit["name"]: visit["degrees"] for visit in visits} == {"a": (48.11, 11.52), "b": (48.12, 11.53)}
    assert all(is_time(visit["time"]) for visit in plan["visits"])
    write_geojson(tmp_path / "plan.geojson", plan)
    found = json.loads((tmp_path / "plan.geojson").read_text())["features"]
    lines = [each["geometry"]["coordinates"] for each in found if each["geometry"]["type"] == "LineString"]
    points = [each for each in found if each["geometry"]["type"] == "Point"]
    assert [each["geometry"]["coordinates"] for each in points] == list(itertools.chain(*lines))
    served = {each["properties"]["name"]: each["geometry"]["coordinates"] for each in points}
    assert served["a"] == [11.52, 48.11] and served["b"] == [11.53, 48.12]
    write_table(tmp_path / "plan.csv", plan)
    header, *rows = (tmp_path / "plan.csv").read_text().splitlines()
    assert header == "vehicle,time,what,name,address,window,kg,lat,lon"
    assert any(row.endswith(",2.5,48.11,11.52") for row in rows)
    page = to_html(problems.sheets(problem, plan))
    assert "openstreetmap.org/?mlat=48.11&amp;mlon=11.52" in page and "2.5 kg" in page and "<svg" in page

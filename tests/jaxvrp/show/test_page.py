"""The page in a real browser: it loads silently, plays, and shows the frame that is asked for; and needs no network."""

import base64
import copy
import dataclasses
import io
import json
import pathlib
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import jaxvrp
from jaxvrp import show
from jaxvrp.episodes import from_states
from jaxvrp.io.clock import Clock
from jaxvrp.show import export
from jaxvrp.story import Bar, Dot, Row, Rows, Units, held
from tests.jaxvrp.show.stories import FLEET, TOURS, episode_of

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
FLAGS += " --disable-component-update --disable-sync"
DESKTOP, PHONE = (1280, 800), (390, 844)
KINDS = ("truck_drone", "darp", "dispatch", "pcb", "tsp_drone", "fleet", "tours")


@pytest.fixture(scope="module")
def pages(episodes, tmp_path_factory):
    """Files by kind of episode, and episodes: of environments, and two stories by hand."""
    folder = tmp_path_factory.mktemp("pages")
    by_hand = {"fleet": episode_of(FLEET), "tours": episode_of(TOURS)}
    episodes = {**episodes, **by_hand}
    for kind, episode in episodes.items():
        show.write_page(episode, folder / f"{kind}.html")
    return {kind: folder / f"{kind}.html" for kind in KINDS}, episodes


def test_a_page_is_complete_in_itself(pages):
    for path in pages[0].values():
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r"@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")|<script src|\{\{", text)


def test_what_pages_share_names_no_environment():
    for path in pathlib.Path(export.__file__).with_name("page").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not [name for name in jaxvrp.registered() if name in text], path.name


def test_texts_of_the_episode_stay_texts(pages):
    paths, episodes = pages
    text = paths["pcb"].read_text(encoding="utf-8")
    assert "<title>By hand &lt;/script&gt;&lt;b&gt;&amp;amp;</title>" in text
    content = re.search(r'<script type="application/json" id="episode">(.*?)</script>', text, re.S)[1]
    assert json.loads(content) == episodes["pcb"]


# --- in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One headless Chromium for all tests."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no Chromium with chromedriver here (on Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium):
    """The browser; whatever a test does, the console must stay empty."""
    yield chromium
    assert chromium.get_log("browser") == []


def open_page(browser, path, size=DESKTOP, still=False, at=""):
    """Open a page as a screen of that size would."""
    screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    wish(browser, still=still)
    browser.get("about:blank")
    browser.get(f"{path.as_uri()}{at}")


def open_episode(browser, folder, episode, size=DESKTOP, at=""):
    """Write the page of an episode into a folder, and open it."""
    show.write_page(episode, folder / "page.html")
    open_page(browser, folder / "page.html", size, at=at)


def wish(browser, theme="light", still=False):
    """Tell pages what the reader prefers."""
    wishes = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce" if still else "no-preference"}
    media = [{"name": name, "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


def brightness(browser, size):
    """The mean of the pixels that are shown, 0 to 255."""
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(shot))).convert("L"), float)
    assert pixels.shape == size[::-1]
    return pixels.mean()


def ask(browser, script, *arguments):
    return browser.execute_script(script, *arguments)


SET = """const element = document.getElementById(arguments[0]);
element.value = arguments[1];
for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind));"""
WAIT = "const wait = (until, done) => until() ? done(true) : setTimeout(wait, 20, until, done); wait"
NUMBERS = """return [...document.querySelectorAll(arguments[0])].map(
  (element) => arguments[1].map((name) => Number(element.getAttribute(name))));"""
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)"


def press(browser, key, **more):
    ask(browser, "document.dispatchEvent(new KeyboardEvent('keydown', arguments[0]))", {"key": key, **more})


def place(browser):
    """The frame that is shown."""
    return int(ask(browser, "return document.body.dataset.at"))


def moved_to(browser, selector):
    """Where elements have been moved to, in pixels, `[elements, 2]`."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.getAttribute('transform'))"
    found = ask(browser, script, selector)
    return np.array([[float(x) for x in re.match(r"translate\((\S+) ([^ )]+)\)", text).groups()] for text in found])


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("kind", KINDS)
def test_it_loads_without_a_word(browser, pages, kind, size):
    open_page(browser, pages[0][kind], size)
    assert ask(browser, "return performance.getEntriesByType('resource').length") == 0
    assert ask(browser, "return document.documentElement.scrollWidth") <= size[0], "nothing sticks out to the right"
    box = "const box = document.getElementById('play').getBoundingClientRect(); return [box.bottom, box.height]"
    button = ask(browser, box)
    assert button[0] <= size[1], "what plays is in sight"
    assert button[1] >= (44 if size == PHONE else 30), "and can be hit"
    assert brightness(browser, size) > 200
    wish(browser, theme="dark")
    assert brightness(browser, size) < 60


@pytest.mark.parametrize("kind", ["dispatch", "fleet"])
def test_a_page_of_a_plan_loads_without_a_word_and_names_no_actions(browser, pages, kind, tmp_path):
    open_episode(browser, tmp_path, {**pages[1][kind], "is_plan": True})
    assert ask(browser, "return document.querySelectorAll('.agent').length") > 1
    assert ask(browser, "return document.querySelectorAll('.agent .choice').length") == 0
    assert ask(browser, "return document.querySelector('.agent .track span').style.transform")


def test_play_advances_and_pauses(browser, pages):
    open_page(browser, pages[0]["fleet"])
    assert place(browser) == 0
    ask(browser, SET, "speed", 8)
    browser.find_element("id", "play").click()
    browser.set_script_timeout(20)
    # The page presses the key by itself: an answer may come back after the last step, where the key plays again.
    pause = "(document.dispatchEvent(new KeyboardEvent('keydown', {key: ' '})), true)"
    assert browser.execute_async_script(f"{WAIT}(() => document.body.dataset.at >= 4 && {pause}, arguments[0])")
    assert ask(browser, "return document.getElementById('play').getAttribute('aria-label')") == "Play"
    stopped = place(browser)
    assert browser.execute_async_script("setTimeout(arguments[0], 200, true)")
    assert place(browser) == stopped >= 4


def test_keys_step_and_leap(browser, pages):
    paths, episodes = pages
    last = len(episodes["fleet"]["steps"]) - 1
    open_page(browser, paths["fleet"])
    seen = []
    for key, more in (
        ("ArrowRight", {}),
        ("ArrowRight", {"shiftKey": True}),
        ("ArrowLeft", {}),
        ("End", {}),
        ("Home", {}),
    ):
        press(browser, key, **more)
        seen.append(place(browser))
    assert seen == [1, min(11, last), min(11, last) - 1, last, 0]


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_scrubbing_lands_on_the_right_frame(browser, pages, size):
    open_page(browser, pages[0]["fleet"], size)
    at = 7
    ask(browser, SET, "scrub", at)
    assert place(browser) == at
    assert ask(browser, "return document.getElementById('time').textContent") == f"step {at} of 10"
    here = [on_track(vehicle.track, at) for vehicle in FLEET.vehicles]
    drawn = moved_to(browser, "#map g.vehicle")
    customers = np.array([each.position for each in FLEET.places if each.kind == "customer"])
    places = moved_to(browser, "#map .place.customer")
    # From customers, whose places are known, to pixels: the map has one scale, and y points up.
    scale = (places[0][0] - places[1][0]) / (customers[0, 0] - customers[1, 0])
    expected = places[0] + (here - customers[0]) * scale * [1, -1]
    np.testing.assert_allclose(drawn[0], expected[0], atol=0.3)
    assert abs(drawn[1] - expected[0]).max() < 30, "on board it is beside the truck"
    np.testing.assert_allclose(drawn[2], expected[2] - [0, 34], atol=0.3)  # above the customer that it is at
    levels = [float(text.removesuffix(" %")) for text in ask(browser, TEXTS, ".level output")]
    np.testing.assert_allclose(levels, [55, 100 * 2 / 9], atol=0.51)


def on_track(track, time):
    """Where a vehicle is."""
    times, points = zip(*track, strict=True)
    return [np.interp(time, times, [point[axis] for point in points]) for axis in (0, 1)]


def test_between_two_steps_things_are_between(browser, pages):
    open_page(browser, pages[0]["tours"])
    spots = []
    for time in (1, 1.5, 2):
        ask(browser, "seek(arguments[0], 'steps')", time)
        spots.append(moved_to(browser, "#map g.vehicle")[0])
    np.testing.assert_allclose(spots[1], (spots[0] + spots[2]) / 2, atol=0.2)
    assert np.linalg.norm(spots[2] - spots[0]) > 5


def test_what_it_could_do_and_did(browser, pages):
    paths, episodes = pages
    open_page(browser, paths["fleet"], at="#6")
    step, names = episodes["fleet"]["steps"][6], episodes["fleet"]["actions"]["drone"]
    for drone in range(2):
        card = f".agent:nth-of-type({drone + 2})"
        able = ask(browser, TEXTS, f"{card} .can")
        assert able == [name for name, digit in zip(names, step["mask"]["drone"][drone], strict=True) if digit == "1"]
        assert ask(browser, TEXTS, f"{card} .does") == [names[step["action"]["drone"][drone]]]


def test_how_it_stands_with_places_at_each_step(browser, pages):
    script = "seek(arguments[0]); return [...document.querySelectorAll('#map .place')].map((e) => e.classList[2])"
    open_page(browser, pages[0]["fleet"])
    for at in range(11):
        assert ask(browser, script, at) == [standing_of(each.standings, at) for each in FLEET.places]


def test_a_vehicle_that_is_nowhere_is_left_out(browser, tmp_path):
    episode = episode_of(FLEET)
    episode["story"]["vehicles"][2]["track"] = []
    open_episode(browser, tmp_path, episode, at="#5")
    seen = "return [...document.querySelectorAll('#map g.vehicle')].map((e) => e.getAttribute('visibility'))"
    assert ask(browser, seen) == ["visible", "visible", "hidden"]


def test_in_the_end_a_vehicle_does_what_it_begins_there(browser, tmp_path):
    episode = episode_of(FLEET)
    last = (
        {"begin": 6, "end": 10, "name": "returns", "words": "returning"},
        {"begin": 10, "end": 10, "name": "aboard", "words": "on board"},
    )
    episode["story"]["vehicles"][1]["activities"] += last
    for at, words in ((9, "returning"), (10, "on board")):
        open_episode(browser, tmp_path, episode, at=f"#{at}")
        assert ask(browser, TEXTS, ".agent i")[1] == words


@pytest.mark.parametrize(
    ("end", "minutes", "words"),
    [
        (28800, 1 / 60, ["10:00", "12:00", "14:00", "16:00"]),
        (8, 60, ["10:00", "12:00", "14:00", "16:00"]),
        (480, 1, ["10:00", "12:00", "14:00", "16:00"]),
        (3, 1, ["08:10", "08:11", "08:12", "08:13"]),
        (30000, 1, ["00:00 +5", "00:00 +10", "00:00 +15", "00:00 +20"]),
    ],
)
def test_axes_have_round_times_of_the_clock_whatever_its_unit(browser, tmp_path, end, minutes, words):
    open_episode(browser, tmp_path, episode_of(FLEET))
    found = ask(browser, "return axisTicks([0, arguments[0]], 5, [490, arguments[1]])", end, minutes)
    assert [text for _, text in found] == words
    assert all((490 + time * minutes) % 1 == pytest.approx(0, abs=1e-9) for time, _ in found)


def test_times_of_the_clock_are_those_of_sheets(browser, tmp_path):
    """Also at half a minute, as streets in seconds have it, and before midnight."""
    open_episode(browser, tmp_path, episode_of(FLEET))
    minutes = [480, 482.5, 483.5, 483.4, 1439.5, 1500, -0.5, -10, -1440]
    assert ask(browser, "return arguments[0].map(clockWords)", minutes) == [Clock(0).shown(each) for each in minutes]
    assert [Clock(480).shown(each) for each in (2.5, 3.5)] == ["08:03", "08:04"]


@pytest.mark.parametrize("units", [Units("time unit"), Units("h", clock=(490.0, 60.0))])
def test_a_phone_shows_the_whole_time(browser, tmp_path, units):
    story = dataclasses.replace(FLEET, units=units, clocks=tuple(4.9 * at for at in range(11)), span=(0.0, 49.0))
    open_episode(browser, tmp_path, episode_of(story), PHONE, at="#10")
    words, shown, whole = ask(
        browser, "const e = document.getElementById('time'); return [e.textContent, e.clientWidth, e.scrollWidth]"
    )
    assert words == f"{units.brief(49.0)} of {units.moment(49.0)}" and whole <= shown
    assert ask(browser, "return document.documentElement.scrollWidth") <= PHONE[0]


def test_what_went_wrong_stands_beside_the_marks_of_its_row(browser, tmp_path):
    marks = (Bar(6.0, 7.0, "window"), Bar(7.0, 10.0, "delay", thick=0.0)), (Dot(10.0, "late", 2),)
    rows = Rows("customers", (Row("1", *marks, note="3 hours late"), Row("2", (Bar(0.0, 2.0, "window"),), note="lost")))
    story = dataclasses.replace(FLEET, charts=(rows,), span=(0.0, 10.0))
    open_episode(browser, tmp_path, episode_of(story))
    ends = """return [...document.querySelectorAll(arguments[0])].map((element) => element.getBoundingClientRect())
        .map((box) => [box.left, box.right])"""
    words, bars = ask(browser, ends, "#charts .fault"), ask(browser, ends, "#charts rect.bar-of")
    assert words[0][1] < bars[0][0] and words[1][0] > bars[1][1]


def test_names_at_the_edge_of_the_map_are_not_cut(browser, tmp_path):
    places = tuple(dataclasses.replace(place, label=f"a long name, {at}") for at, place in enumerate(FLEET.places))
    for by_vehicle in (False, True):
        story = dataclasses.replace(FLEET, area=None, by_vehicle=by_vehicle, places=places)
        open_episode(browser, tmp_path, episode_of(story), PHONE)
        ends = """const map = document.getElementById('map').getBoundingClientRect();
            return [...document.querySelectorAll('#map .place text')].map((text) => text.getBoundingClientRect())
                .map((box) => [box.left - map.left, map.right - box.right])"""
        assert np.min(ask(browser, ends)) >= 1


def standing_of(standings, time):
    """How it stands with a place; before its first entry as that says."""
    entries = [(each.time, each.name) for each in standings]
    return (held(entries, time) or entries[0])[1] if entries else None


def test_vehicles_with_turns_of_their_own_wait_for_them(browser, pages):
    stops = "[...document.querySelectorAll('#map .place:not(.depot)')]"
    script = f"seek(arguments[0]); return {stops}.map((e) => e.classList[2])"
    open_page(browser, pages[0]["tours"])
    assert ask(browser, script, 2) == ["served", "late", "open", "open", "open", "open"]
    assert ask(browser, "return [...document.querySelectorAll('.agent i')].map((e) => e.textContent)")[1:] == [
        *("finished", "to pickup 2")
    ]
    assert ask(browser, script, 3.5) == ["served", "late", "served", "open", "open", "open"]
    assert ask(browser, script, 4) == ["served", "late", "served", "served", "lost", "lost"]


def test_rides_by_the_clock(browser, pages):
    open_page(browser, pages[0]["tours"])
    browser.find_elements("css selector", "#modes button")[1].click()
    ask(browser, "seek(1e9)")
    assert ask(browser, "return document.body.dataset.mode") == "clock"
    assert set(ask(browser, TEXTS, ".agent i")[1:]) == {"finished"}


def test_a_board_shows_overlap_wires_and_turns(browser, pages):
    open_page(browser, pages[0]["pcb"])
    wires, clash = (f"return document.querySelector('#map .{name}').getAttribute('d')" for name in ("wire", "clash"))
    assert ask(browser, clash).startswith("M") and ask(browser, clash) != "M0 0"
    # U1's pads at x = 2 and 4, R1's at (5, 3.5): each of the three has its nearest pad on the other part.
    assert ask(browser, wires).count("L") == 3
    press(browser, "ArrowRight")
    assert ask(browser, clash) == "M0 0"
    turned = ask(browser, "return document.querySelectorAll('#map .part')[1].getAttribute('transform')")
    assert turned.endswith("rotate(-90)"), "counter-clockwise on screen"
    # (1, 0.5) turned by a quarter is (0.5, -1): the pad is at (8.5, 2), seen from the centre at (8, 3).
    pad = ask(browser, NUMBERS, "#map .pad", ["cx", "cy"])[2]
    centre = moved_to(browser, "#map .part")
    scale = (centre[1] - centre[0])[0] / 5
    np.testing.assert_allclose((np.array(pad) - centre[1]) / scale, [0.5, -1], atol=0.01)


def test_who_wants_no_motion_gets_whole_steps(browser, pages):
    open_page(browser, pages[0]["fleet"], still=True)
    ask(browser, "seek(3)")
    before = moved_to(browser, "#map g.vehicle")
    ask(browser, "seek(3.9)")
    np.testing.assert_array_equal(moved_to(browser, "#map g.vehicle"), before)


def cut_story(story, length):
    """Keep the first states of a story, and what began until then."""
    story["clocks"] = story["clocks"][:length]
    story["events"] = [event for event in story["events"] if event["step"] < length]
    for card in story["cards"]:
        card["steps"] = card["steps"][:length]
    for vehicle in story["vehicles"]:
        vehicle["turns"] = [turn for turn in vehicle["turns"] if turn[0] < length]


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_that_is_over_at_once(browser, pages, kind, tmp_path):
    episode = copy.deepcopy(pages[1][kind])
    episode["steps"] = [{**episode["steps"][0], "action": None}]
    if kind == "darp" and "story" not in episode:
        episode.update(legs=[], requests=[], span=[0, 0])
    if "story" in episode:
        cut_story(episode["story"], 1)
    open_episode(browser, tmp_path, episode)
    for key in (" ", "ArrowRight", "End"):
        press(browser, key)
    assert place(browser) == 0
    drawn = ask(
        browser, "return document.getElementById('map').outerHTML + document.getElementById('charts').outerHTML"
    )
    assert "NaN" not in drawn and "Infinity" not in drawn


def test_every_frame_can_be_drawn(browser, pages):
    look = """const bad = [];
    for (const script of document.querySelectorAll("script")) script.remove();
    for (const mode of modes)
      for (let at = 0; at <= mode.length; at += mode.length / 20) {
        seek(at, mode.id);
        bad.push(...(document.body.outerHTML.match(/.{30}(NaN|undefined|Infinity).{30}/g) ?? []));
      }
    return bad"""
    for kind in KINDS:
        open_page(browser, pages[0][kind])
        assert ask(browser, look) == []


def test_the_page_of_an_environment_of_ones_own(browser, own_kind, tmp_path):
    env, states, actions, _ = own_kind
    show.save(from_states(env, states, actions), tmp_path / "own.html")
    open_page(browser, tmp_path / "own.html")
    assert ask(browser, "return document.getElementById('map').getAttribute('aria-label')") == "A goal"
    assert ask(browser, "return getComputedStyle(document.querySelector('#map .goal')).fill") == "rgb(1, 2, 3)"
    press(browser, "End")
    assert place(browser) == 3
    assert ask(browser, TEXTS, ".agent h2") == ["mover_0moving", "caller_0moving"]


def test_the_map_can_be_saved(browser, pages):
    open_page(browser, pages[0]["fleet"])
    wait = """const done = arguments[0];
    URL.createObjectURL = (blob) => (blob.text().then(done), "data:,");
    HTMLAnchorElement.prototype.click = () => {};
    document.getElementById("picture").dispatchEvent(new Event("click"));"""
    picture = ElementTree.fromstring(browser.execute_async_script(wait))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    styles = [element.get("style") for element in picture.iter() if element is not picture]
    assert all("fill: " in style and "var(" not in style for style in styles), "no style sheet is needed"


# --- why, and what for ------------------------------------------------------------------------------------------------


def test_why_actions_are_masked(browser, pages):
    open_page(browser, pages[0]["fleet"], at="#6")
    press(browser, "w")
    assert ask(browser, TEXTS, ".agent:nth-of-type(2) .why li span") == ["late by …"]
    assert ask(browser, TEXTS, ".agent:nth-of-type(2) .why li b") == ["DELIVER 1 (3) · DELIVER 2 (4.5)"]
    assert ask(browser, TEXTS, ".agent .why:not([hidden]) summary") == ["2 masked: late by …"]


def test_reasons_that_differ_by_numbers_are_one_line(browser, pages):
    open_page(browser, pages[0]["fleet"])
    groups = [["late by 3", [0]], ["late by 4.5", [2, 3]], ["gone", [1]]]
    assert ask(browser, "return sameReasons(arguments[0])", groups) == [
        {"text": "late by …", "cases": [["3", [0]], ["4.5", [2, 3]]]},
        {"text": "gone", "cases": [["", [1]]]},
    ]
    names = ["STAY", "GO_0", "GO_1", "GO_2", "GO_3", "TAKE_0"]
    assert ask(browser, "return listed(...arguments)", names, [0, 1, 2, 4, 5]) == "STAY, TAKE_0, GO 0\u20131 3"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A page with 33 actions for the truck, as 16 nodes and 8 drones have, and a policy that played."""
    episode = json.loads(json.dumps(episode_of(FLEET)))
    names = [
        "STAY",
        *(f"MOVE_{i}" for i in range(16)),
        *(f"{do}_{i}" for do in ("RELEASE", "RECOVER") for i in range(8)),
    ]
    episode["actions"]["truck"] = names
    for step in episode["steps"]:
        step["mask"]["truck"] = ["1" * 25 + "0" * 8]
        step["why"]["truck"] = [[["on board already", list(range(25, 33))]]]
        step["value"] = {"truck": [4.5], "drone": [4.5, 3.5]}
        if step["action"]:
            step["action"]["truck"] = [24]
            step["probability"] = {"truck": [[0.25, *[0.0] * 23, 0.75, *[0.0] * 8]]}
    path = tmp_path_factory.mktemp("crowd") / "crowd.html"
    show.write_page(episode, path)
    return path


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_chosen_action_is_in_sight_with_its_probability(browser, crowd, size):
    open_page(browser, crowd, size, at="#3")
    assert ask(browser, TEXTS, ".agent:nth-of-type(1) .choice > *") == ["RELEASE_7", "75 % · STAY 25 %", "value 4.50"]
    inside = """const chosen = document.querySelector(arguments[0]).getBoundingClientRect();
    const card = document.querySelector(".agent").getBoundingClientRect();
    return chosen.top >= card.top && chosen.bottom <= card.bottom && chosen.left >= card.left && chosen.height > 0"""
    for selector in (".agent .chosen", ".agent .does"):
        assert ask(browser, inside, selector), "nothing is scrolled out of sight"
    assert ask(browser, TEXTS, ".agent:nth-of-type(1) .label") == ["MOVE", "RELEASE", "RECOVER"]
    assert "Value: the return that the critic expects" in ask(browser, TEXTS, ".chart h2")


def test_the_moment_is_in_the_address(browser, pages):
    open_page(browser, pages[0]["tours"])
    ask(browser, SET, "scrub", 3)
    rest = f"{WAIT}(() => location.hash === %r, arguments[0])"
    assert browser.execute_async_script(rest % "#3")
    browser.find_elements("css selector", "#modes button")[1].click()
    ask(browser, SET, "scrub", 60)
    assert browser.execute_async_script(rest % "#clock=60")
    browser.get(browser.current_url)
    ask(browser, "location.hash = '#2'")
    assert browser.execute_async_script(f"{WAIT}(() => document.body.dataset.at === '2', arguments[0])")
    open_page(browser, pages[0]["tours"], at="#clock=60")
    assert (place(browser), ask(browser, "return document.body.dataset.mode")) == (60, "clock")


def test_keys_go_from_event_to_event(browser, pages):
    open_page(browser, pages[0]["fleet"])
    found = ask(browser, "return events.map((event) => [event.at, event.text])")
    assert [7, "customer 1 served by drone 1, 2 late"] in found
    times = sorted({at for at, _ in found})
    seen = []
    for _ in times:
        press(browser, "n")
        seen.append(place(browser))
    assert seen == [at for at in times if at > 0][: len(seen)] + [times[-1]] * times.count(0)
    press(browser, "p")
    assert place(browser) == times[-2]


def test_the_theme_can_be_switched(browser, pages):
    open_page(browser, pages[0]["pcb"])
    browser.find_element("id", "theme").click()
    assert brightness(browser, DESKTOP) < 60
    open_page(browser, pages[0]["tsp_drone"])
    assert brightness(browser, DESKTOP) < 60, "the choice is kept"
    press(browser, "t")
    assert brightness(browser, DESKTOP) > 200
    ask(browser, "localStorage.clear()")


def test_the_map_zooms_and_moves_while_marks_keep_their_size(browser, pages):
    open_page(browser, pages[0]["fleet"])
    places = [moved_to(browser, "#map .place")]
    for key in ("z", "0"):
        press(browser, key)
        browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 30))")
        places.append(moved_to(browser, "#map .place"))
    np.testing.assert_allclose(places[1][1] - places[1][0], 1.5 * (places[0][1] - places[0][0]), atol=0.3)
    np.testing.assert_array_equal(places[2], places[0])
    width = "return document.querySelector('#map .node .face').getBoundingClientRect().width"
    before = ask(browser, width)
    ask(browser, "zoomBy(2, [0, 0]); lookAt(-5, 0.3)")
    assert ask(browser, "return [zoom.by, zoom.x, zoom.y]") == [2, 0.25, 0.3], "never beyond the edge"
    assert ask(browser, width) == before


@pytest.mark.parametrize("size", [DESKTOP, (790, 736), PHONE])
def test_nothing_covers_the_summary_or_the_map(browser, pages, size):
    """790 x 736: the frame that the gallery gives a page on a screen of 1280 pixels."""
    box = "const box = (id) => document.getElementById(id).getBoundingClientRect();"
    is_apart = "box('summary').right <= box('theme').left || box('summary').top >= box('theme').bottom"
    for path in pages[0].values():
        open_page(browser, path, size)
        assert ask(browser, f"{box} return {is_apart}")
        assert ask(browser, f"{box} return box('map').bottom <= box('controls').top")


def test_two_episodes_side_by_side(browser, pages, episodes, tmp_path):
    longer = pages[1]["fleet"]
    shorter = copy.deepcopy(longer)
    shorter["steps"] = shorter["steps"][:5]
    shorter["steps"][-1]["action"] = None
    cut_story(shorter["story"], 5)
    shorter["player"] = "baseline"
    show.write_page(shorter, tmp_path / "two.html", {**longer, "player": "policy"})
    for size in (DESKTOP, PHONE):
        open_page(browser, tmp_path / "two.html", size, at="#9")
        assert ask(browser, "return document.documentElement.scrollWidth") <= size[0]
        assert ask(browser, TEXTS, ".pane .who h2") == ["baseline", "policy"]
        places = [moved_to(browser, f"#{name} g.vehicle")[0] for name in ("map", "map-1")]
        ask(browser, "seek(4)")
        np.testing.assert_array_equal(moved_to(browser, "#map g.vehicle")[0], places[0])
        assert (
            ask(browser, "return document.getElementById('time').textContent")
            == f"step 4 of {len(longer['steps']) - 1}"
        )
    for scale in (".chart:first-child .tiny.end", ".chart:last-child .tiny"):
        ends = [ask(browser, TEXTS, f"#{name} {scale}") for name in ("charts", "charts-1")]
        assert ends[0] and ends[0] == ends[1], "charts share their scales"
    cards = [ask(browser, TEXTS, f"#{name} .choice b") for name in ("agents", "agents-1")]
    assert cards[0] != cards[1], "one has ended, the other goes on"
    with pytest.raises(ValueError, match=r"'of no environment' and 'pcb'.*give two of one kind"):
        show.page(longer, episodes["pcb"])


def test_who_was_left_over_is_told(browser, pages):
    paths, episodes = pages
    for kind in KINDS:
        open_page(browser, paths[kind])
        entries = episodes[kind].get("shortfalls", {"entries": []})["entries"]
        assert ask(browser, TEXTS, "#shortfalls dd") == [entry["why"] for entry in entries]


def test_what_sticks_out_of_a_board_is_on_a_phone(browser, board, tmp_path):
    board = copy.deepcopy(board)
    board["steps"][1]["positions"][1] = [0.0, 3.0]
    open_episode(browser, tmp_path, board, PHONE, at="#1")
    left = "return Math.min(...[...document.querySelectorAll('#map .part')].map((e) => e.getBoundingClientRect().left))"
    assert ask(browser, f"{left} >= document.getElementById('map').getBoundingClientRect().left"), "not cut at the left"


@pytest.mark.parametrize("kind", KINDS)
def test_the_legend_explains_every_class_of_mark(browser, pages, kind):
    """What a legend has is drawn with the marks of the map, and none of its pictures is empty."""
    open_page(browser, pages[0][kind])
    empty = "return [...document.querySelectorAll('#legend li')].filter((e) => !e.querySelector('svg *')).length"
    assert ask(browser, empty) == 0
    if kind == "pcb":
        assert len(ask(browser, TEXTS, "#legend li")) == 8
        return
    classes = """const seen = new Set();
    for (const share of [0, 0.3, 0.6, 1]) {
      seek(share * modes[0].length, modes[0].id);
      for (const mark of document.querySelectorAll("#map .place, #map g.vehicle"))
        for (const name of mark.classList) seen.add(name);
    }
    const explained = new Set([...document.querySelectorAll("#legend svg *")].flatMap((mark) => [...mark.classList]));
    return [...seen].filter((name) => !explained.has(name))"""
    left_out = {name for name, words in pages[1][kind]["story"]["words"].items() if not words}
    assert set(ask(browser, classes)) <= {"hidden", "faded", *left_out}

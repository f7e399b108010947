"""The service of `docs/examples/serve.py`: it answers as the library does in one process, alone and in batches."""

import concurrent.futures
import http.client
import importlib.util
import json
import pathlib
import sys
import threading
import urllib.error
import urllib.request

import jax
import pytest

import jaxvrp
from jaxvrp.envs.dispatch import moment
from jaxvrp.envs.dispatch.problem.day_file import parse_day
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.io.command_line import UserError
from jaxvrp.io.states import write_state
from train import solve

ROOT = pathlib.Path(__file__).parents[1]
MAP = ROOT / "docs" / "maps" / "market_town.json"
POLICY = "dispatch_same_day"


@pytest.fixture(scope="module")
def serve():
    spec = importlib.util.spec_from_file_location("serve", ROOT / "docs" / "examples" / "serve.py")
    module = sys.modules["serve"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SIZES = (1, 4)
    return module


@pytest.fixture(scope="module")
def address(serve):
    serve.Service.routes = {"/answer": serve.player(POLICY, "same_day").answer, "/plan": serve.plan}
    with serve.Server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["treshold"], "treshold is no run folder, and no policy of that name is shipped"),
        (["threshold", "--scenario", "same_dy"], "scenario is 'same_dy'; did you mean 'same_day'"),
        (["threshold", "--port", "65536"], "--port 65536: it must be 0 to 65535; give another one, or 0"),
        (["threshold", "--port", "TAKEN"], "in use; give another one, or 0"),
    ],
)
def test_what_cannot_be_served_is_refused_before_it_is_compiled(serve, words, says, monkeypatch):
    with serve.Server(0) as taken:
        words = [str(taken.server_port) if word == "TAKEN" else word for word in words]
        free = [] if "--port" in words else ["--port", "0"]
        monkeypatch.setattr(sys, "argv", ["serve.py", *words, *free])
        with pytest.raises(UserError, match=says):
            serve.main()


def day_of(seed, count=6):
    vehicles = [
        {"id": "van", "speed": 30, "capacity": 100, "stop_time": 3},
        {"id": "drone", "speed": 40, "capacity": 1, "is_drone": True, "turnaround": 20},
    ]
    requests = [
        {"id": f"r{i}", "arrival": 7 * i, "dropoff": [(3 * i + seed) % 5 - 2, seed % 3], "dropoff_deadline": 7 * i + 60}
        for i in range(count)
    ]
    head = {"format": "jaxvrp-dispatch-day-1", "horizon": 480, "depot": [0, 0], "area": [[-9, -9], [9, 9]]}
    return {**head, "vehicles": vehicles, "requests": requests}


def until(day, count):
    return {**day, "requests": day["requests"][:count]}


def post(address, route, content):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    with urllib.request.urlopen(address + route, body, timeout=120) as answer:
        return json.load(answer)


def answers(address, seed):
    """All answers of a day, one after the other, as its requests become known."""
    day, found = day_of(seed), []
    for count in range(1, len(day["requests"]) + 1):
        state = {"state": found[-1]["state"]} if found else {}
        found.append(post(address, "/answer", {"day": until(day, count), **state}))
    return found


def test_an_answer_is_that_of_the_policy_in_one_process(address):
    policy = jaxvrp.load_policy(POLICY)
    day, env = day_of(1), policy.env
    step, act = jax.jit(env.step), jax.jit(policy.act)
    known = [parse_day(until(day, count)) for count in range(1, len(day["requests"]) + 1)]
    state, _ = jax.jit(env.reset_to)(as_float32(known[0].instance))
    for count, answer in enumerate(answers(address, 1), 1):
        action = act(state)
        choice = int(action["dispatcher"][0])
        assert answer["request"] == f"r{count - 1}"
        assert answer["vehicle"] == (known[0].vehicles[choice - 1] if choice else None)
        assert answer["plans"] == moment.pending(known[count - 1], moment.decided(env, state, action))
        travelling = {"action": action, "state": state.replace(prepared=state.prepared.fleet)}
        assert answer["state"] == write_state(travelling)
        if count < len(known):
            state, _ = step(moment.with_requests(env, state, known[count]), action)


def test_days_that_are_answered_together_are_answered_as_alone(address):
    seeds = range(2, 8)
    with concurrent.futures.ThreadPoolExecutor(len(seeds)) as pool:
        together = list(pool.map(lambda seed: answers(address, seed), seeds))
    assert together == [answers(address, seed) for seed in seeds]


def test_a_map_is_planned_as_on_the_command_line(address):
    content = {"map": json.loads(MAP.read_text()), "seconds": 1, "method": "greedy"}
    wanted = solve.solve(MAP, method="greedy").plan
    times = {"seconds": 0, "searched_seconds": 0}
    assert {**post(address, "/plan", content), **times} == json.loads(json.dumps({**wanted, **times}))


NOW = "state/now"
WRONG = {
    "the body is no JSON (Expecting value: line 1 column 1 (char 0)); send JSON": lambda day, state: b"day",
    "day is missing; give it": lambda day, state: {},
    "day is []; it must be an object": lambda day, state: {"day": []},
    "format is missing; give it": lambda day, state: {"day": {}},
    "the day has 1 requests, all answered; add the new one at the end": lambda day, state: {
        "day": until(day, 1),
        "state": state,
    },
    "state/now is missing": lambda day, state: {
        "day": day,
        "state": {name: rows for name, rows in state.items() if name != NOW},
    },
    "state/now holds NaN; send the state as it came": lambda day, state: {
        "day": day,
        "state": {**state, NOW: "0x7fc00000"},
    },
    "day: vehicles, depot or area are others than in the state; send the same, with an area that holds all places to "
    "come": lambda day, state: {"day": {**day, "area": [[-9, -9], [9, 10]]}, "state": state},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_request_is_refused_in_a_line(address, message):
    day = day_of(1, 3)
    state = post(address, "/answer", {"day": until(day, 1)})["state"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(address, "/answer", WRONG[message](day, state))
    assert (refused.value.code, json.load(refused.value)["error"]) == (400, message)
    refused.value.close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"map": {}}, "format is missing"),
        ({"map": {}, "seconds": 0}, "seconds is 0"),
        ({"map": json.loads(MAP.read_text()), "seconds": 1000}, "seconds is 1000; it must be at most 60"),
        ({"map": json.loads(MAP.read_text()), "method": "magic"}, "magic"),
    ],
)
def test_a_wrong_map_is_refused_in_a_line(address, content, says):
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        post(address, "/plan", content)
    assert says in json.load(refused.value)["error"]
    refused.value.close()


@pytest.mark.parametrize("length", ["9" * 5000, "\xb2"])
def test_a_length_that_is_no_number_of_bytes_is_refused(address, length):
    client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    client.putrequest("POST", "/answer")
    client.putheader("Content-Length", length.encode("latin-1"))
    client.endheaders()
    answer = client.getresponse()
    assert answer.status == 400
    assert "it must be a number up to 16777216" in json.load(answer)["error"]
    client.close()

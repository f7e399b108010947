"""A service on this machine that answers the requests of a day, and plans maps.

python docs/examples/serve.py dispatch_same_day
python docs/examples/serve.py threshold --scenario same_day --port 8000

POST /answer {"day": DAY, "state": STATE}: answers the first request of a `dispatch` day that has no answer yet. STATE
is what came with the answer before it, and is left out at first: the service keeps nothing.
POST /plan {"map": MAP, "seconds": 10}: the plan that `jaxvrp plan` writes.

Requests that come while others are answered are answered together, by one program. It is compiled at the start, for the
batch sizes below; a day with other optional fields than a generated one compiles it once more.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import queue
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from jaxvrp import registry
from jaxvrp.environment import select
from jaxvrp.envs.dispatch import moment
from jaxvrp.envs.dispatch.env import DISPATCHER, decide
from jaxvrp.envs.dispatch.problem.day_file import parse_day
from jaxvrp.envs.dispatch.problem.instance import Instance, pad
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.envs.truck_drone import parse_map
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import LARGEST_JSON, json_in
from jaxvrp.io.messages import printable
from jaxvrp.io.schema import anything, number_from, object_of_only, object_with, text
from jaxvrp.io.states import by_place, read_state, write_state
from train import entry, solve

SIZES = (1, 4, 16, 64)
"""Of batches: fewer requests are padded to the next size."""

MOST_SECONDS = 60.0
"""For a plan."""

TO_ANSWER = object_of_only({"day": object_with()}, {"state": anything})
TO_PLAN = object_of_only({"map": object_with()}, {"seconds": number_from(0, with_least=False), "method": text})

Act = Callable[[Any, Any], Any]
"""States and timesteps `[B, ...]` -> `{role: i32[B, agents]}`."""


class Moment(flax.struct.PyTreeNode):
    """Where a day stands, as it travels: what was known at a request, and what was done with it."""

    state: State  # with the fleet in the place of the prepared day, which is in the request
    action: dict[str, jax.Array]


class Asked(flax.struct.PyTreeNode):
    """A request to be answered, and the moment of the one before it; of the first one, nothing that counts."""

    instance: Instance
    before: Moment
    is_first: np.ndarray  # `bool[]`


class Answered(flax.struct.PyTreeNode):
    """The moment of a request, the plans after it, and whether the fleet is that of the moment before."""

    now: Moment
    plans: Any
    is_of_day: jax.Array  # `bool[]`


def answered(env: Any, act: Act, asked: Asked) -> Answered:
    """The answers to a batch `[B]`."""

    def arrive(asked: Asked) -> tuple[State, Any, jax.Array]:
        first = env.reset_to(asked.instance)
        before, fleet = asked.before.state, first[0].prepared.fleet
        is_same = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda a, b: (a == b).all(), before.prepared, fleet))
        following = env.step(before.replace(prepared=first[0].prepared), asked.before.action)
        state, timestep = select(asked.is_first, first, following)
        return state, timestep, asked.is_first | is_same

    states, timesteps, is_of_day = jax.vmap(arrive)(asked)
    actions = act(states, timesteps)
    plans, _ = jax.vmap(functools.partial(decide, env))(states, actions)
    return Answered(Moment(states.replace(prepared=states.prepared.fleet), actions), plans, is_of_day)


class Batches:
    """Runs a program of batches on the rows of many threads: rows that wait are taken together."""

    def __init__(self, program: Callable[[Any], Any]):
        self.program, self.waiting = program, queue.SimpleQueue[tuple[Any, Future[Any]]]()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, row: Any) -> Any:
        """The row of its result."""
        result = Future[Any]()
        self.waiting.put((row, result))
        return result.result()

    def _work(self) -> None:
        while True:
            taken = [self.waiting.get()]
            while not self.waiting.empty() and len(taken) < SIZES[-1]:
                taken.append(self.waiting.get())
            groups: dict[Any, list[tuple[Any, Future[Any]]]] = {}
            for each in taken:
                groups.setdefault(jax.tree.structure(each[0]), []).append(each)
            for group in groups.values():
                self._run(*zip(*group, strict=True))

    def _run(self, rows: tuple[Any, ...], results: tuple[Future[Any], ...]) -> None:
        size = next(size for size in SIZES if size >= len(rows))
        padded = [*rows, *[rows[0]] * (size - len(rows))]
        try:
            found = jax.device_get(self.program(jax.tree.map(lambda *leaves: np.stack(leaves), *padded)))
        except Exception as error:  # of whatever kind, it belongs to those who wait
            for result in results:
                result.set_exception(error)
            return
        for number, result in enumerate(results):
            result.set_result(jax.tree.map(lambda leaf, number=number: leaf[number], found))


class Dispatcher:
    """Answers requests of days, by a policy or a rule."""

    def __init__(self, env: Any, act: Act):
        self.env, self.templates = env, dict[Any, Moment]()
        self.batches = Batches(jax.jit(functools.partial(answered, env, act)))

    def warm_up(self) -> None:
        """Compile the program for all sizes."""
        instance = jax.eval_shape(self.env.generate, jax.random.key(0))
        row = Asked(_zeros(instance), self.nothing(instance), np.array(True))
        for size in SIZES:
            self.batches.program(jax.tree.map(lambda leaf, size=size: np.stack([leaf] * size), row))

    def nothing(self, instance: Instance) -> Moment:
        """A moment of zeros, of a day with such arrays; a template for those that are read."""
        fields = jax.tree.structure(instance)
        if fields not in self.templates:
            state, _ = jax.eval_shape(self.env.reset_to, instance)
            action = {name: np.zeros(role.num_agents, np.int32) for name, role in self.env.roles.items()}
            self.templates[fields] = Moment(_zeros(state.replace(prepared=state.prepared.fleet)), action)
        return self.templates[fields]

    def answer(self, content: dict[str, Any]) -> dict[str, Any]:
        """Which vehicle takes the request, None for none, what each will do then, and the state to come back with."""
        TO_ANSWER(content, "")
        day, written = parse_day(content["day"]), content.get("state")
        instance = _as_computed(pad(day.instance, self.env.max_requests, self.env.fleet_size))
        before = self.nothing(instance)
        if written is not None:
            before = read_state(written, before)
            _refuse_nan(before)
        number = 0 if written is None else int(before.state.step) + 1
        if not 0 <= number < len(day.requests):
            raise ValueError(f"the day has {len(day.requests)} requests, all answered; add the new one at the end")
        found = self.batches(Asked(instance, before, np.array(written is None)))
        if not found.is_of_day:
            raise ValueError(
                "day: vehicles, depot or area are others than in the state; send the same, with an area that holds all "
                "places to come"
            )
        choice = int(found.now.action[DISPATCHER][0])
        return {
            "request": day.requests[number],
            "vehicle": day.vehicles[choice - 1] if choice else None,
            "plans": moment.pending(day, found.now.state.replace(plans=found.plans)),
            "state": write_state(found.now),
        }


def _as_computed(tree: Any) -> Any:
    """NumPy arrays of 32 bits; in JAX, each length would be compiled."""
    return jax.tree.map(lambda leaf: leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype)), tree)


def _zeros(shapes: Any) -> Any:
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def _refuse_nan(tree: Any) -> None:
    for place, leaf in by_place(tree).items():
        if np.isnan(leaf).any():
            raise ValueError(f"{place} holds NaN; send the state as it came")


ONE_PLAN = threading.Lock()
"""Searches share the cores badly: maps are planned one after the other."""


def plan(content: dict[str, Any]) -> dict[str, Any]:
    """The plan of a map, as `jaxvrp plan` writes it."""
    TO_PLAN(content, "")
    seconds, method = content.get("seconds", 10.0), content.get("method")
    if seconds > MOST_SECONDS:
        raise ValueError(f"seconds is {seconds:g}; it must be at most {MOST_SECONDS:g}")
    problem = solve.problem_in("vrpd_tw", parse_map(content["map"]), "map")
    with ONE_PLAN:
        found = solve.solved(problem, seconds=seconds, method=method).plan
    return dict(problem.problems.written(problem.problem, found))


class Service(http.server.BaseHTTPRequestHandler):
    """Hands a request to its route; what is wrong with it is status 400 and one line."""

    protocol_version, timeout = "HTTP/1.1", 60
    disable_nagle_algorithm, wbufsize = True, 2**16  # head and body of an answer leave together
    routes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]

    def do_GET(self) -> None:
        self.reply(200, {"routes": {f"POST {route}": "JSON" for route in self.routes}})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,18}", length) or int(length) > LARGEST_JSON:
            self.close_connection = True
            self.reply(400, {"error": f"Content-Length is {length[:20]!r}; it must be a number up to {LARGEST_JSON}"})
            return
        body = self.rfile.read(int(length))
        if self.path not in self.routes:
            self.reply(404, {"error": f"there is no such route; POST to one of: {', '.join(self.routes)}"})
            return
        try:
            self.reply(200, self.routes[self.path](json_in(body, "the body", "send JSON")))
        except (UserError, ValueError, IndexError, OverflowError) as error:
            self.reply(400, {"error": printable(error)})

    def reply(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: standard error is for what went wrong here."""


class Server(http.server.ThreadingHTTPServer):
    """Listens on a port of this machine, 0 for any that is free; clients that come before `serve_forever` wait."""

    request_queue_size = 128  # clients that connect at once

    def __init__(self, port: int):
        try:
            super().__init__(("127.0.0.1", port), Service)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be 0 to 65535"
            raise UserError(f"--port {port}: {reason}; give another one, or 0 for any that is free") from None


def player(name: str, scenario: str) -> Dispatcher:
    """A dispatcher by the policy of a name or folder, or by a rule in a scenario."""
    env = jaxvrp.make("dispatch", scenario=scenario)
    rules = registry.players_of(env).baselines
    if name in rules:
        rule = rules[name](env)
        return Dispatcher(env, lambda states, timesteps: rule.act(jax.random.key(0), (), states, timesteps)[0])
    policy = jaxvrp.load_policy(name)
    if policy.has_memory or set(policy.env.roles) - {DISPATCHER, "vehicle"}:
        raise UserError(f"{name} remembers what it saw, or is no policy of dispatch; give another")
    return Dispatcher(policy.env, lambda states, timesteps: policy.act(states))


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="answer requests of a day, and plan maps, on this machine")
    parser.add_argument("player", help="a policy by its name or folder, or a rule: accept, threshold, cover")
    parser.add_argument("--scenario", default="same_day", help="of a rule (default: same_day)")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    with Server(args.port) as server:
        try:
            dispatcher = player(args.player, args.scenario)
        except ValueError as error:
            raise UserError(str(error)) from None
        dispatcher.warm_up()
        Service.routes = {"/answer": dispatcher.answer, "/plan": plan}
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(entry(main))

"""How soon the service of `docs/examples/serve.py` answers: each client plays a day, on loopback.

python -m benchmarks.serving
python -m benchmarks.serving --player threshold --clients 1 16 64 --seconds 20

A client sends the next request of its day as soon as the last one is answered, with all requests so far and the state
that came back. Milliseconds are those from the first byte sent to the last one received. Clients are threads of this
program, so their work is on the same cores.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxvrp.io.command_line import Parser, above_zero, positive
from train import aligned, entry

SERVICE = pathlib.Path(__file__).parents[1] / "docs" / "examples" / "serve.py"

REQUESTS = 40
"""Of a client's day, before it begins another one."""

KINDS = [{"speed": 30, "capacity": 100, "detour": 1.5, "stop_time": 3}] * 3 + [
    {"speed": 40, "capacity": 1, "turnaround": 20, "is_drone": True}
] * 10
"""Vehicles: those of `same_day`."""

UNTIMED = 2
"""Answers of each client before the clock runs."""


def day_of(seed: int) -> dict[str, Any]:
    """A day as JSON, with all its requests."""
    draw = random.Random(seed)
    arrivals = sorted(round(draw.uniform(0, 420), 2) for _ in range(REQUESTS))
    requests = [
        {
            "arrival": arrival,
            "dropoff": [round(draw.gauss(0, 3), 3), round(draw.gauss(0, 3), 3)],
            "dropoff_deadline": arrival + 120,
        }
        for arrival in arrivals
    ]
    day = {"format": "jaxvrp-dispatch-day-1", "horizon": 600, "depot": [0, 0], "area": [[-10, -10], [10, 10]]}
    return {**day, "vehicles": KINDS, "requests": requests}


def play(address: str, seed: int, times: list[tuple[float, float]], over: threading.Event) -> None:
    """Play days until it is `over`; `times` become the seconds at which answers came, and which they took."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=120)
    while not over.is_set():
        day, state = day_of(seed), None
        for count in range(1, REQUESTS + 1):
            known = {**day, "requests": day["requests"][:count]}
            body = json.dumps({"day": known, "state": state}).encode()
            begin = time.perf_counter()
            connection.request("POST", "/answer", body)
            answer = connection.getresponse()
            content = answer.read()
            end = time.perf_counter()
            if answer.status != 200:
                raise RuntimeError(content.decode())
            times.append((end, end - begin))
            state = json.loads(content)["state"]
            if over.is_set():
                return
        seed += 1_000


def measured(address: str, clients: int, seconds: float) -> list[str]:
    """A row of the table: clients, answers a second, median and 99th percentile of milliseconds."""
    over, times = threading.Event(), [list[tuple[float, float]]() for _ in range(clients)]
    threads = [threading.Thread(target=play, args=(address, i, times[i], over), daemon=True) for i in range(clients)]
    for thread in threads:
        thread.start()
    while any(len(each) < UNTIMED for each in times) and all(thread.is_alive() for thread in threads):
        time.sleep(0.05)
    begin = time.perf_counter()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    taken = np.array([length for each in times for end, length in each if end - length >= begin]) * 1000
    middle, late = np.percentile(taken, [50, 99])
    return [str(clients), f"{taken.size / seconds:.0f}", f"{middle:.1f}", f"{late:.1f}"]


@contextlib.contextmanager
def service(player: str) -> Iterator[str]:
    """The address of a service that runs meanwhile."""
    command = [sys.executable, str(SERVICE), player, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("benchmarks.serving", "How soon the service answers so many clients.")
    parser.add_argument("--player", default="dispatch_same_day", help="a policy or a rule (default: dispatch_same_day)")
    parser.add_argument("--clients", type=positive, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=above_zero, default=10.0, help="for each number of clients (default: 10)")
    args: argparse.Namespace = parser.parse_args(argv)
    head = ["clients", "answers a second", "median [ms]", "99th percentile [ms]"]
    with service(args.player) as address:
        rows = [measured(address, clients, args.seconds) for clients in args.clients]
    print(aligned([head, *rows]))


if __name__ == "__main__":
    entry(main)

"""A service that answers a state with actions, by JAX alone: python docs/examples/serve.py FILE.jaxpolicy ... [PORT]

Files are of one policy for problems of several sizes; a state is answered by the one whose sizes it has.
GET says which arrays a state is; POST {name: array} of one state gives {role: actions}.
"""

import http.server
import json
import sys
import zipfile

import jax
import jax.export
import numpy as np

KINDS = {"f": "fiu", "i": "iu", "b": "b"}
"""Of numbers and flags: what is taken for each."""

INT32 = (-(2**31), 2**31 - 1)


class Program:
    def __init__(self, path):
        with zipfile.ZipFile(path) as file:
            exported = jax.export.deserialize(bytearray(file.read("program")))
            self.card = json.loads(file.read("policy.json"))
        (self.arrays, memory), _ = jax.tree.unflatten(exported.in_tree, exported.in_avals)
        if memory:
            sys.exit(f"{path}: this policy remembers what it saw, and this service does not")
        self.shapes = {name: array.shape[1:] for name, array in self.arrays.items()}
        self.decide = jax.jit(exported.call)

    def actions(self, state):
        for name, wanted in self.arrays.items():
            array, (low, high) = state[name], self.card.get("bounds", {}).get(name, INT32)
            if array.dtype.kind not in KINDS[wanted.dtype.kind] or np.isnan(array).any():
                raise ValueError(f"{name} holds {array.ravel()[:3]}; it needs {self.card['state'][name]}")
            if wanted.dtype.kind == "i" and not ((array >= low) & (array <= high)).all():
                raise ValueError(f"{name} holds {array.ravel()[:3]}; it needs numbers from {low} to {high}")
        batch = {name: state[name].astype(wanted.dtype)[None] for name, wanted in self.arrays.items()}
        return {role: action[0].tolist() for role, action in self.decide(batch, {})["action"].items()}


programs = [Program(path) for path in sys.argv[1:] if not path.isdigit()]
port = next((int(word) for word in sys.argv[1:] if word.isdigit()), 8000)


def answer_to(text):
    state = json.loads(text)
    if not isinstance(state, dict):
        raise ValueError("a state is an object: arrays by name")
    for name in {**programs[0].shapes, **state}:
        if name not in state or name not in programs[0].shapes:
            raise ValueError(f"{name} is missing" if name not in state else f"no state has {name[:40]}")
    arrays = {name: as_array(name, rows) for name, rows in state.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    for program in programs:
        if program.shapes == shapes:
            return program.actions(arrays)
    name = next(name for name in shapes if shapes[name] != programs[0].shapes[name])
    known = " or ".join(dict.fromkeys(str(program.shapes[name]) for program in programs))
    raise ValueError(f"{name} has shape {shapes[name]}; it needs {known}")


def as_array(name, rows):
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths") from None


class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        cards = [program.card for program in programs]
        self.answer(200, cards[0] if len(cards) == 1 else cards)

    def do_POST(self):
        try:
            self.answer(200, answer_to(self.rfile.read(int(self.headers["Content-Length"]))))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            self.answer(400, {"error": " ".join(str(error).split())[:200]})

    def answer(self, status, content):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())


server = http.server.HTTPServer(("127.0.0.1", port), Service)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

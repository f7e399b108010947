"""A service that answers a state with actions, by JAX alone: python docs/examples/serve.py vrpd_tw.jaxpolicy [PORT]

GET says which arrays a state is; POST {name: array} of one state gives {role: actions}.
"""

import http.server
import json
import sys
import zipfile

import jax
import jax.export
import numpy as np

with zipfile.ZipFile(sys.argv[1]) as file:
    program, card = jax.export.deserialize(bytearray(file.read("program"))), json.loads(file.read("policy.json"))
(arrays, memory), _ = jax.tree.unflatten(program.in_tree, program.in_avals)
decide = jax.jit(program.call)


class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, card)

    def do_POST(self):
        try:
            state = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state = {name: np.asarray(state[name], array.dtype)[None] for name, array in arrays.items()}
            actions = decide(state, memory)["action"]
            self.answer(200, {role: action[0].tolist() for role, action in actions.items()})
        except (KeyError, TypeError, ValueError) as error:
            self.answer(400, {"error": " ".join(str(error).split())[:200]})

    def answer(self, status, content):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())


server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8000), Service)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

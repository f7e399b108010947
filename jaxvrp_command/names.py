"""What can be named on the command line, with a sentence each: written down here, so that it is listed without JAX.

A test compares these tables with what is registered; importing that would import JAX, which takes a second or more.
"""

from __future__ import annotations

ENVIRONMENTS = {
    "darp": "Dial-a-ride: several vehicles, one after the other, bring passengers from pickup to drop-off in time.",
    "dispatch": "Requests arrive during the day: each is accepted or rejected at once, and promises are kept.",
    "flying_sidekicks": "A truck with several drones, launched and recovered one after the other: home early.",
    "pcb": "Component placement: each movable part of a circuit board is an agent; the aim is short wires.",
    "truck_drone": "Truck and drones deliver together, in one of the scenarios.",
    "truck_drone_tours": "Trucks with a drone each, customers with time windows: all served at the least cost.",
    "tsp_drone": "The travelling salesman with a drone: every customer once, home as early as possible.",
    "vrpd_tw": "The vehicle routing problem with drones and time windows.",
}

SCENARIOS = {
    "truck_drone_basic": "Deliver to all customers before the deadline, with little energy.",
    "truck_drone_same_day": "Orders come in during the day, more than can be served, each with little time.",
    "vrpd_tw": "The vehicle routing problem with drones and time windows.",
}

ALGORITHMS = {
    "mappo": ("discrete actions", "MAPPO: an actor for each role, a critic that sees the global observation."),
    "ippo": ("discrete actions", "IPPO: as MAPPO, but every critic sees only what its role sees."),
    "td3": ("continuous actions", "TD3 (Fujimoto et al. 2018): twin critics, smoothed target actions, delayed actors."),
    "sac": ("continuous actions", "SAC (Haarnoja et al. 2018): maximum entropy, automatic temperature."),
}

NETWORKS = {
    "mlp": "Dense layers without memory.",
    "gru": "Gated recurrent layers behind dense ones.",
    "attention": "Attention over entities, with a decoder that points at them: one policy for any number of entities.",
}

RECORDS = {
    "sets": "The frozen sets of problems, each with its version and checksum.",
    "run": "Let a search or a policy plan all problems of a set, and write a record.",
    "check": "Compute all figures of a record again, from its plans alone.",
}

BENCHMARKS = {
    "ablation": "What each part of a configuration is worth: the same training with one part changed at a time.",
    "compiled": "What the compilers of an H100 or a TPU make of all programs, without the device: kernels and bytes.",
    "device": "What an accelerator does in nine minutes: parity, steps, training, a peer, memory and compilation.",
    "guard": "Whether an environment has become slower: its ratio to NumPy, and its program, beside kept ones.",
    "learning": "What a configuration learns, with several seeds, beside the baselines.",
    "limit": "How near to the machine's limit a step and an update are, and where the rest goes.",
    "peers": "Speed beside other suites: random play and training, in alternating processes.",
    "quality": "How good plans are: baselines, searches, solvers and policies on the same instances.",
    "solving": "How good a plan for one published problem is after so many seconds, beside the best known cost.",
    "throughput": "Environment steps per second of masked random play, against a plain NumPy reference.",
    "training": "Environment steps per second of MAPPO, end to end, and where the time goes.",
}
"""Programs of the repository; the package does not hold them."""

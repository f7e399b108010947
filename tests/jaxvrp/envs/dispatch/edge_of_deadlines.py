"""Steps whose next request can only just be served, compiled as users compile them: prints what is wrong."""

import jax
import numpy as np

import jaxvrp
from jaxvrp.envs.dispatch.problem.instance import slack_of
from jaxvrp.envs.dispatch.routes.plans import COLUMNS

NUM_STEPS, ULPS, PAIRS = 12, np.arange(-3, 4, dtype=np.int32), 40
NUM_DAYS = PAIRS * len(ULPS)
"""As many as steps are repeated, so that one program takes both."""


QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""How what is not looked at is compiled."""


def main() -> None:
    env, rng = jaxvrp.make("dispatch", scenario="same_day"), np.random.default_rng(0)
    step, reset = jax.jit(jax.vmap(env.step)), jax.jit(jax.vmap(env.reset), compiler_options=QUICKLY)
    state, timestep = reset(jax.random.split(jax.random.key(3), NUM_DAYS))
    for _ in range(NUM_STEPS):
        mask = np.asarray(timestep.action_mask["dispatcher"])
        action = {"dispatcher": np.argmax(mask * (1e-3 + rng.random(mask.shape)), axis=-1).astype(np.int32)}
        before, (state, timestep) = state, step(state, action)

    # The same step once more, with deadlines of the next request a few roundings around what each vehicle can keep.
    day, vehicle = (each[:PAIRS] for each in np.nonzero(state.offers.feasible))
    slack = np.asarray(slack_of(state.prepared.fleet))[:, None]
    edges = np.asarray(state.offers.dropoff_start)[day, vehicle] - slack[day, 0]
    deadlines = (edges.view(np.int32)[:, None] + ULPS).view(np.float32)
    before, action = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[day], len(ULPS), axis=0), (before, action))
    table = before.prepared.table.copy()
    table[np.arange(len(table)), before.step + 1, COLUMNS["dropoff_deadline"]] = deadlines.ravel()
    before = before.replace(prepared=before.prepared.replace(table=table))
    state, timestep = jax.device_get(step(before, action))

    offers = state.offers
    share = offers.feasible.reshape(len(day), len(ULPS), -1)[np.arange(len(day)), :, vehicle].mean(axis=0)
    if share[0] > 0.1 or share[-1] < 0.9:
        print(f"the deadlines do not decide: {share} of the offers are feasible")
    if not (np.isfinite(offers.added) & np.isfinite(offers.slack) & (offers.slack >= -2 * slack)).all():
        print(f"offers are feasible, and are not: added {offers.added.max()}, slack {offers.slack.min()}")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(timestep.observation)):
        print("an observation is not finite")


if __name__ == "__main__":
    main()

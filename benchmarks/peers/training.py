"""Who is compared in training: PPO of ours, and the baselines of other suites, on the environments of each.

A learner is built in a process of its own, as the players are; a call of it is one update: so many steps of so many
environments, advantages, 4 epochs of 4 minibatches. Layers have the same widths on both sides, and memories the same
sequences, of whole rollouts. Else each has what it has by default: ours LayerNorm, masks, an actor for each role, a
central critic with a value for each agent; the peer's tanh in its feedforward layers, actors and critics of all agents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from benchmarks.peers.players import Pair, Player

ENV = {"name": "truck_drone", "num_drones": 2, "num_customers": 3, "num_route_nodes": 5}

TOTAL_STEPS = 100_000_000
"""Over which learning rates fall: more than is ever played."""


def _ours(algorithm: str, **keys: Any) -> Callable[[int, int], Callable[[], None]]:
    def build(batch: int, steps: int) -> Callable[[], None]:
        from benchmarks.training import Learning
        from train.on_policy.config import IPPOConfig, PPOConfig

        config_class = {"mappo": PPOConfig, "ippo": IPPOConfig}[algorithm]
        sizes: dict[str, Any] = {
            "num_envs": batch,
            "rollout_length": steps,
            "chunk_length": steps,
            "total_steps": TOTAL_STEPS,
        }
        return Learning(config_class(env=ENV, num_epochs=4, num_minibatches=4, **sizes, **keys)).chunk

    return build


def _jaxmarl(algorithm: str, width: int) -> Callable[[int, int], Callable[[], None]]:
    def build(batch: int, steps: int) -> Callable[[], None]:
        from benchmarks.peers import jaxmarl_baselines as baselines

        kinds: dict[str, Callable[..., baselines.Baseline]] = {"mappo": baselines.MAPPO, "ippo": baselines.IPPO}
        num_updates = TOTAL_STEPS // (batch * steps)
        baseline = baselines.make(kinds[algorithm], baselines.Settings(batch, steps, width, num_updates=num_updates))
        update = jax.jit(baseline.update, donate_argnums=0)
        runner = jax.jit(baseline.init)(jax.random.PRNGKey(0))

        def run() -> None:
            nonlocal runner
            runner, metrics = update(runner)
            jax.block_until_ready((runner, metrics))

        return run

    return build


LEARNERS = {
    "our mappo": Player(
        "MAPPO, GRU 64, truck_drone (2, 3, 5)",
        "jaxvrp",
        3,
        _ours("mappo", network="gru", hidden_sizes=(64, 64), recurrent_size=64),
    ),
    "our ippo": Player(
        "IPPO, 128-128, truck_drone (2, 3, 5)", "jaxvrp", 3, _ours("ippo", network="mlp", hidden_sizes=(128, 128))
    ),
    "jaxmarl mappo": Player("MAPPO, GRU 64, JaxMARL MPE spread", "jaxmarl", 3, _jaxmarl("mappo", 64)),
    "jaxmarl ippo": Player("IPPO, 128-128, JaxMARL MPE spread", "jaxmarl", 3, _jaxmarl("ippo", 128)),
}
"""By the name that `--player` takes."""

LEARNER_PAIRS = (Pair("our mappo", "jaxmarl mappo", 2.0), Pair("our ippo", "jaxmarl ippo", 1.2))

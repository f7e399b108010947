"""What is compared: random play in a batch, of our environments and of other suites'.

A player is built in a process of its own. Random play is masked, makes some thousand steps in one call, and writes
every observation out. Each suite is used as its documentation says, with the auto-reset that it brings; the random
choice among legal actions is the same function for all that run in JAX.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jaxvrp
from benchmarks.throughput import JaxPlayer
from jaxvrp.actor import sample_masked

Advance = Callable[[Any, jax.Array], tuple[Any, jax.Array]]
"""One step of the whole batch: `(carry, key) -> (carry, sum of the rewards)`."""


@dataclasses.dataclass(frozen=True)
class Player:
    """One side of a comparison.

    Attributes:
        label: of the environment, with its size.
        package: the distribution that it comes from.
        decisions: of agents, in one step of one environment.
        build: from the number of environments and of steps to a call that plays them, and waits.
    """

    label: str
    package: str
    decisions: int
    build: Callable[[int, int], Callable[[], None]]

    @property
    def version(self) -> str | None:
        """Of its package; None if that is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


@dataclasses.dataclass(frozen=True)
class Pair:
    """An environment of ours and the peer's that is most like it; the names are those of `PLAYERS`."""

    player: str
    peer: str
    goal: float
    """How many times as many steps we want to make."""


def _compiled(begin: Callable[[jax.Array], Any], advance: Advance, steps: int) -> Callable[[], None]:
    """A jitted, donated call that scans `advance` from where the call before ended."""

    def play(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        carry, paid = jax.lax.scan(advance, carry, jax.random.split(key, steps))
        return carry, paid.sum()

    call = jax.jit(play, donate_argnums=0)
    state = {"carry": jax.jit(begin)(jax.random.key(0)), "key": jax.random.key(1)}

    def run() -> None:
        state["key"], key = jax.random.split(state["key"])
        state["carry"], paid = call(state["carry"], key)
        jax.block_until_ready(paid)

    return run


def _ours(name: str, **parameters: Any) -> Callable[[int, int], Callable[[], None]]:
    return lambda batch, steps: JaxPlayer(jaxvrp.make(name, **parameters), batch, steps).play


def _truck_drone(customers: int, nodes: int, observation: str) -> Callable[[int, int], Callable[[], None]]:
    return _ours("truck_drone", num_drones=2, num_customers=customers, num_route_nodes=nodes, observation=observation)


def _jumanji(name: str) -> Callable[[int, int], Callable[[], None]]:
    def build(batch: int, steps: int) -> Callable[[], None]:
        import jumanji
        from jumanji.wrappers import VmapAutoResetWrapper

        env = VmapAutoResetWrapper(jumanji.make(name))

        def advance(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, timestep = carry
            mask = timestep.observation.action_mask
            action = sample_masked(jax.random.uniform(key, mask.shape[:-1], jnp.float32), mask)
            state, timestep = env.step(state, action)
            return (state, timestep), timestep.reward.sum()

        return _compiled(lambda key: env.reset(jax.random.split(key, batch)), advance, steps)

    return build


def _jaxmarl(name: str) -> Callable[[int, int], Callable[[], None]]:
    def build(batch: int, steps: int) -> Callable[[], None]:
        import jaxmarl

        env: Any = jaxmarl.make(name)
        num_actions = {agent: env.action_space(agent).n for agent in env.agents}

        def advance(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            _, state = carry
            act_key, step_key = jax.random.split(key)
            drawn = jax.random.uniform(act_key, (len(num_actions), batch), jnp.float32)
            action = {
                agent: (uniform * count).astype(jnp.int32)
                for uniform, (agent, count) in zip(drawn, num_actions.items(), strict=True)
            }
            # Its own step resets what has ended.
            seen, state, reward, _, _ = jax.vmap(env.step)(jax.random.split(step_key, batch), state, action)
            return (seen, state), sum(reward.values()).sum()

        return _compiled(lambda key: jax.vmap(env.reset)(jax.random.split(key, batch)), advance, steps)

    return build


def _rl4co(name: str, num_loc: int) -> Callable[[int, int], Callable[[], None]]:
    def build(batch: int, steps: int) -> Callable[[], None]:
        import torch
        from rl4co.envs import get_env

        env = get_env(name, generator_params={"num_loc": num_loc})
        state = {"td": env.reset(batch_size=[batch])}

        @torch.inference_mode()
        def run() -> None:
            td = state["td"]
            for _ in range(steps):
                td.set("action", torch.multinomial(td["action_mask"].float(), 1).squeeze(-1))
                td = env.step(td)["next"]
                # All episodes are of one length, so all end at once.
                td = env.reset(batch_size=[batch]) if bool(td["done"].all()) else td
            state["td"] = td

        return run

    return build


PLAYERS = {
    "truck_drone small": Player("truck_drone (2, 3, 5), flat", "jaxvrp", 3, _truck_drone(3, 5, "flat")),
    "truck_drone small entities": Player(
        "truck_drone (2, 3, 5), entities", "jaxvrp", 3, _truck_drone(3, 5, "entities")
    ),
    "truck_drone middle": Player("truck_drone (2, 20, 8), flat", "jaxvrp", 3, _truck_drone(20, 8, "flat")),
    "truck_drone middle entities": Player(
        "truck_drone (2, 20, 8), entities", "jaxvrp", 3, _truck_drone(20, 8, "entities")
    ),
    "darp": Player("darp (20, 5)", "jaxvrp", 1, _ours("darp", num_nodes=20, num_agents=5)),
    "mpe": Player("JaxMARL MPE spread, 3 agents", "jaxmarl", 3, _jaxmarl("MPE_simple_spread_v3")),
    "multi_cvrp": Player("Jumanji MultiCVRP, 2 vehicles, 20 customers", "jumanji", 2, _jumanji("MultiCVRP-v0")),
    "cvrp": Player("Jumanji CVRP 20", "jumanji", 1, _jumanji("CVRP-v1")),
    "pdp": Player("RL4CO pdp 20", "rl4co", 1, _rl4co("pdp", 20)),
}
"""By the name that `--player` takes."""

PAIRS = (
    Pair("truck_drone small", "mpe", 4.0),
    Pair("truck_drone small entities", "mpe", 6.0),
    Pair("truck_drone middle", "multi_cvrp", 3.0),
    Pair("truck_drone middle entities", "multi_cvrp", 4.0),
    Pair("darp", "cvrp", 3.0),
    Pair("darp", "pdp", 1.5),
)

"""Random play in every environment, legal, illegal and idle, in large batches, with every check at every step.

What `jaxvrp.check_env` checks of a step, compiled into the scan that plays; parameters are drawn anew for each case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxvrp
from jaxvrp import Environment
from jaxvrp.fields import Range
from jaxvrp.testing.conformance import POLICIES, _draw, _not_counted, _not_fixed, _not_sound
from tests.mutate.trial import Case, Finding, Subject, Tally
from tests.toy_environments import Errands, LineWalkInTurn

TOYS: dict[str, Callable[[], Environment]] = {"errands": Errands, "line_walk": LineWalkInTurn}

NUM_ENVS, MOST_STEPS, STEPS = 3072, 60, 300_000
"""Environments of a batch, a third for each of `POLICIES`; steps of a batch, at most; steps of a case, about."""

TRUCK = {"num_drones": 2, "num_customers": 3, "num_route_nodes": 4, "max_steps": 40}
BOARDS = {"num_boards": 8, "min_parts": 2, "max_parts": 4, "rays": 4, "max_steps": 30}

ENVIRONMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("truck_drone", TRUCK),
    ("darp", {"num_nodes": 8, "num_agents": 3}),
    ("errands", {}),
    ("darp", {"num_nodes": 8, "num_agents": 3, "lookahead": True, "reward": "dense", "vehicle_capacity": [3, 2, 5]}),
    ("pcb", {**BOARDS, "mode": "simultaneous"}),
    ("truck_drone", {**TRUCK, "num_drones": 1, "num_customers": 1, "num_route_nodes": 1, "max_steps": 12}),
    ("darp", {"num_nodes": 6, "num_agents": 2, "limits": True, "max_ride_time": 20.0, "max_route_duration": 40.0}),
    ("line_walk", {}),
    ("pcb", {**BOARDS, "mode": "sequential", "rotation": "absolute", "boundary": "clamp", "num_boards": 2}),
    ("truck_drone", {**TRUCK, "num_drones": 4, "num_customers": 6}),
    ("vrpd_tw", {**TRUCK, "dynamic_share": 0.5}),
)
"""What is played, in turn: the first are those that a short trial comes to."""


class Play(Subject):
    """See the module."""

    compiles_quickly: ClassVar[bool] = False

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        self._programs: dict[int, Program] = {}

    def attempt(self, case: Case) -> Tally:
        """A batch of episodes."""
        random = case.random()
        which = min(case.number // 4, int(random.integers(len(ENVIRONMENTS))))
        if which not in self._programs:
            name, parameters = ENVIRONMENTS[which]
            env = TOYS[name]() if name in TOYS else jaxvrp.make(name, **parameters)
            self._programs[which] = Program(name, env)
        return self._programs[which].play(random)


class Program:
    """One environment and its compiled play."""

    def __init__(self, name: str, env: Environment):
        self.name, self.env = name, env
        self._num_steps = min(self.env.max_episode_steps + 3, MOST_STEPS)
        self._play = jax.jit(self._play_batch)

    def play(self, random: np.random.Generator) -> Tally:
        """Play with drawn parameters and keys, batch after batch."""
        env, size = _with_drawn_parameters(self.env, random), NUM_ENVS * self._num_steps
        batches = max(1, STEPS // size)
        for seed in random.integers(2**32, size=batches).tolist():
            self._check(env, seed)
        return Tally(steps=batches * size)

    def _check(self, env: Environment, seed: int) -> None:
        failed = jax.device_get(self._play(env, jax.random.key(seed)))
        wrong = {message: np.asarray(first) for message, first in failed.items() if (np.asarray(first) >= 0).any()}
        if wrong:
            told = [f"{message}: {self._first(first)}" for message, first in wrong.items()]
            told += [f"{type(env).__name__}, key {seed}, parameters {env.parameters}"]
            raise Finding(f"{self.name}: {next(iter(wrong))}", "\n".join(told))

    def _first(self, first: np.ndarray) -> str:
        rows = np.flatnonzero(first >= 0)
        row = rows[np.argmin(first[rows])]
        policy = POLICIES[row % len(POLICIES)]
        return f"first at step {first[row] + 1} of row {row} ({policy} actions), in {rows.size} of {first.size} rows"

    def _play_batch(self, env: Environment, key: jax.Array) -> dict[str, jax.Array]:
        """For each check the step at which it first failed, `i32[E]`, -1 for never."""
        reset_key, key = jax.random.split(key)
        start = jax.vmap(env.reset)(jax.random.split(reset_key, NUM_ENVS))
        rows = jnp.arange(NUM_ENVS, dtype=jnp.int32)
        one_step = jax.vmap(self._step, in_axes=(None, 0, 0, 0))

        def advance(carry: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
            before, first = carry
            step, key = inputs
            after, failed = one_step(env, self._uniform(key), rows, before)
            first = {name: jnp.where((first[name] < 0) & bad, step, first[name]) for name, bad in failed.items()}
            return (after, first), None

        shapes = jax.eval_shape(one_step, env, jax.eval_shape(self._uniform, key), rows, start)[1]
        never = {name: jnp.full(NUM_ENVS, -1, jnp.int32) for name in shapes}
        steps = (jnp.arange(self._num_steps, dtype=jnp.int32), jax.random.split(key, self._num_steps))
        (last, first), _ = jax.lax.scan(advance, (start, never), steps)
        if self._num_steps > self.env.max_episode_steps:
            first["no end after max_episode_steps"] = jnp.where(last[1].done, -1, self._num_steps)
        return first

    def _uniform(self, key: jax.Array) -> dict[str, jax.Array]:
        """Numbers that actions are made from, `{role: f32[E, 3, agents, ...]}`."""
        shapes = {name: (NUM_ENVS, 3, role.num_agents, *role.action.shape) for name, role in self.env.roles.items()}
        keys = jax.random.split(key, len(shapes))
        return {name: jax.random.uniform(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}

    def _step(
        self, env: Environment, uniform: dict[str, jax.Array], row: jax.Array, before: Any
    ) -> tuple[Any, dict[str, jax.Array]]:
        """The state and timestep after a step, and whether each check fails."""
        mask, policy = before[1].action_mask, row % len(POLICIES)
        roles = self.env.roles
        action = {name: _draw(role, mask.get(name), uniform[name], policy) for name, role in roles.items()}
        after = env.step(before[0], action)
        failed = _not_sound(env, after[1]) | _not_counted(roles, action, before[1], after[1])
        failed |= _not_fixed(before, after)
        failed["legal play is counted as illegal"] = (policy == 0) & _counts_more(before[1], after[1])
        return after, failed


def _counts_more(before: Any, after: Any) -> jax.Array:
    if "invalid_actions" not in after.metrics:
        return jnp.zeros((), bool)
    return after.metrics["invalid_actions"].sum() > before.metrics["invalid_actions"].sum()


def _with_drawn_parameters(env: Environment, random: np.random.Generator) -> Environment:
    """Some of the numbers of the environment, up to ten times larger or smaller, within their ranges."""
    changes = {}
    for field in dataclasses.fields(env):
        value = getattr(env, field.name)
        bounds = field.metadata.get("range")
        if type(value) is float and np.isfinite(value) and isinstance(bounds, Range) and random.random() < 0.3:
            drawn = value * float(10.0 ** random.uniform(-1, 1))
            if drawn in bounds:
                changes[field.name] = drawn
    try:
        return env.replace(**changes)
    except ValueError:  # two that do not fit each other
        return env

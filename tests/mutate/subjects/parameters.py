"""Parameters of environments that nobody should give, by `make`, `replace` and `VecEnv`; what is taken is played."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxvrp
from jaxvrp import Environment, VecEnv, fields
from jaxvrp.actor import RandomActor
from tests.mutate.mutators import odd_value, pick
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import Outcome, call

SIZES: dict[str, dict[str, Any]] = {
    "darp": {"num_nodes": 4, "num_agents": 2},
    "pcb": {"num_boards": 2, "min_parts": 2, "max_parts": 3, "max_steps": 4, "mode": "simultaneous", "rays": 4},
    "truck_drone": {"num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 6},
}

NUM_ENVS, NUM_STEPS = 16, 8

TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

REASONABLE = 10**7
"""Whole numbers up to this may be taken; beyond it, the memory that they need is looked at."""


class Parameters(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        self._sound = {name: jaxvrp.make(name, **sizes) for name, sizes in SIZES.items()}

    def attempt(self, case: Case) -> Tally:
        """Odd parameters are refused in one line, or taken as they are and played to finite numbers."""
        random = case.random()
        if random.random() < 0.1:
            return self._batch(random)
        name = pick(random, list(SIZES))
        sound, changes = self._sound[name], {}
        for _ in range(int(random.integers(1, 3))):
            known = [*sound.parameters, "unknown"]
            changes[pick(random, known)] = self._value(random)
        by_replace = random.random() < 0.3
        make = sound.replace if by_replace else functools.partial(jaxvrp.make, name)
        outcome = call(make, **(changes if by_replace else {**SIZES[name], **changes}))
        try:
            return self._judge(sound, outcome, changes, random)
        except Finding as finding:
            tried = f"jaxvrp.make('{name}'){'.replace' if by_replace else ''}: {_text(changes)}"
            raise Finding(f"{name}: {finding.kind}", f"{tried}\n{finding.details}") from finding

    def _value(self, random: np.random.Generator) -> Any:
        """An odd one, or a real number of any size."""
        if random.random() < 0.6:
            return odd_value(random)
        return float(10.0 ** random.uniform(-8, 8))

    def _judge(self, sound: Environment, outcome: Outcome, changes: Mapping[str, Any], random: Any) -> Tally:
        if outcome.refusal is not None:
            return NOTHING
        env: Environment = outcome.value
        for name, value in changes.items():
            _check_taken(env, name, value, env.parameters.get(name))
        _check_memory(env)
        if jax.tree.structure(env) != jax.tree.structure(sound) or not _has_shapes(env, sound):
            return NOTHING
        return _check_played(env, int(random.integers(2**32)))

    def _batch(self, random: np.random.Generator) -> Tally:
        """`VecEnv` and what it generates."""
        env, value = self._sound["truck_drone"], odd_value(random)
        name = pick(random, ("num_envs", "pool_steps", "count"))
        if name == "count":
            outcome = call(jax.eval_shape, lambda: VecEnv(env, 2).generate(jax.random.key(0), value))
        else:
            outcome = call(VecEnv, env, **{"num_envs": 2, name: value})
        is_count = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1
        if outcome.refusal is None and not is_count and not (name == "count" and value is None):
            raise Finding(f"VecEnv takes a {name} that is no count", _text({name: value}))
        return NOTHING


def _text(values: Mapping[str, Any]) -> str:
    return "".join(f"{name}={type(value)!s} {repr(value)[:200]}; " for name, value in values.items())


def _check_taken(env: Environment, name: str, given: Any, taken: Any) -> None:
    """What was given is what is there, as a number that float32 holds."""
    if isinstance(given, bool) != isinstance(taken, bool) and taken is not None:
        raise Finding("a truth value is taken for a number", f"{name}: {given!r} became {taken!r}")
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        if not isinstance(taken, numbers.Real) or taken not in (given, float(given)):
            raise Finding("a number becomes another", f"{name}: {given!r} became {taken!r}")
        if isinstance(taken, float):
            _check_in_float32(env, name, taken)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "f":
        raise Finding(f"an array of dtype {given.dtype} is taken for a number", name)
    if isinstance(given, np.ndarray) and not (np.isfinite(given) | (_largest(env, name) == given)).all():
        raise Finding("an array with NaN or infinity is taken", f"{name}: {given!r}")


def _largest(env: Environment, name: str) -> float | None:
    """The bound of a parameter that its range names; inf where that is allowed."""
    bounds = (field.metadata.get("range") for field in dataclasses.fields(env) if fields.keyword(field) == name)
    return next((each.maximum for each in bounds if each is not None), None)


def _check_in_float32(env: Environment, name: str, value: float) -> None:
    """It is not infinite there, nor 0 where 0 is out of range."""
    bounds = next((field.metadata.get("range") for field in dataclasses.fields(env) if field.name == name), None)
    becomes_zero = value != 0 and abs(value) < TINY and bounds is not None and 0.0 not in bounds
    if becomes_zero or (abs(value) > HUGE and not math.isinf(value)):
        raise Finding("a number that float32 cannot hold is taken", f"{name}: {value!r}")
    if math.isnan(value):
        raise Finding("NaN is taken", name)


def _check_memory(env: Environment) -> None:
    """Sizes are not so large that the machine cannot hold one state."""
    if not any(isinstance(value, int) and value > REASONABLE for value in env.parameters.values()):
        return
    try:
        shapes = jax.eval_shape(env.reset, jax.random.key(0))
    except Exception as error:
        raise Finding("sizes are taken that no program can be made of", Finding.of(error).details) from error
    needed = sum(math.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(shapes))
    if needed > 2**34:
        raise Finding("sizes are taken that no machine holds", f"{needed / 2**30:.3g} GiB for one environment")


def _has_shapes(env: Environment, sound: Environment) -> bool:
    return all(
        np.shape(leaf) == np.shape(other)
        for leaf, other in zip(jax.tree.leaves(env), jax.tree.leaves(sound), strict=True)
    )


@jax.jit
def _play(env: Environment, key: jax.Array) -> Any:
    """Random legal steps of a batch: every observation, reward and metric, `[T, E, ...]`."""
    keys = jax.random.split(key, NUM_ENVS)
    start = jax.vmap(env.reset)(keys)

    def advance(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        state, timestep = carry
        action, _ = RandomActor(env).act(key, (), state, timestep)
        state, timestep = jax.vmap(env.step)(state, action)
        seen = (timestep.observation, timestep.global_observation, timestep.reward, timestep.metrics)
        return (state, timestep), seen

    return jax.lax.scan(advance, start, jax.random.split(key, NUM_STEPS))[1]


def _check_played(env: Environment, seed: int) -> Tally:
    seen = jax.device_get(_play(env, jax.random.key(seed)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(seen):
        if not np.isfinite(leaf).all():
            where = jax.tree_util.keystr(path)
            raise Finding("parameters that are taken lead to NaN or infinity", f"{where}: {env.parameters}")
    return Tally(steps=NUM_ENVS * NUM_STEPS)
